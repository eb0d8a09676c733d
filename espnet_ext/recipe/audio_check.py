"""Decode all audio of a large corpus, of which stage 1 has read the headers only.

It takes 27 minutes of a core for 960 h, so it goes on while features are collected or a
first pass runs. A file that breaks off passes by its header, and is trained on in part.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_ext.audio.files import FULL_CHECK_FILES, inspect_files, must_decode
from espnet_ext.corpora.checks import SHOWN
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import is_mix
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step, run_jobs, show
from espnet_ext.work.files import atomic_write

FAULTS = "audio_faults.txt"


def run_beside_audio_check(run: Run, *steps: Step) -> None:
    """Run steps, and beside them decode all audio; StepFailed if a file is faulty."""
    jobs = [list(steps), list(audio_steps(run))]
    run_jobs(filter(None, jobs), side_by_side=2)


def audio_steps(run: Run) -> Iterator[Step]:
    """Yield the step that decodes the user's audio, if stage 1 has not done so."""
    tables = list_audio_tables(run)
    if run.rehearsed or not tables:
        return
    yield Step(
        name="decoding all audio",
        log=run.datadir / "log" / "all_audio.log",
        function=check_all_audio,
        arguments={"tables": tables, "faults": str(run.datadir / FAULTS)},
        free={"nj": run.nj},
        # they hold the stamps of the corpora's files
        inputs=sorted((run.datadir / "log").glob("data*.done")),
    )


def list_audio_tables(run: Run) -> list[Path]:
    """Return the tables of audio that stage 1 has not decoded."""
    # the user has chosen how stage 1 checks it
    if run.synthetic or run.options["check_audio"] != "auto":
        return []
    tables = sorted(run.datadir.rglob("wav.scp"))
    # stage 1 has decoded few files itself
    if must_decode("auto", len(list_files(run.datadir, tables))):
        return []
    return tables


def list_files(datadir: Path, tables: Sequence[Path]) -> dict[str, str]:
    """Return the user's audio files, each with an utterance to name in messages."""
    # recipes have made what is below it
    made = str(datadir.absolute())
    files: dict[str, str] = {}
    for table in tables:
        for utterance, path in read_table(table).items():
            # ``.mix`` is no audio itself: it names files that are added up
            if is_mix(path) or str(Path(path).absolute()).startswith(made):
                continue
            # a long recording has many utterances, and is decoded once
            files.setdefault(path, utterance)
    return files


def check_all_audio(tables: Sequence[Path], faults: str, nj: int) -> None:
    """Decode each file of tables ``utterance path``; InputError if any is faulty.

    All faults, a line each, go to the file ``faults``; the error has the first of them.
    """
    files = list_files(Path(faults).parent, tables)
    named = [(path, Path(path)) for path in files]
    inspected = inspect_files(named, decode=True, num_jobs=nj)
    found = [
        f"{inspected[path].fault} {utterance} ({path})"
        for path, utterance in files.items()
        if inspected[path].fault
    ]
    Path(faults).unlink(missing_ok=True)
    if not found:
        say(f"{len(files):,} audio files decoded")
        return
    with atomic_write(Path(faults)) as file:
        file.writelines(f"{fault}\n" for fault in found)
    more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    raise InputError(
        f"{'; '.join(found[:SHOWN])}{more}: fix or remove them, or run stage 1 again "
        "with --check_audio full --skip_faulty true, which leaves them out "
        f"(all {len(found):,} faults: {faults})"
    )


def show_what_is_not_decoded(run: Run) -> None:
    """Say in a rehearsal that only headers of audio were read, and what decodes it."""
    tables = list_audio_tables(run)
    if tables:
        count = len(list_files(run.datadir, tables))
        show(
            f"of {count:,} audio files ({FULL_CHECK_FILES:,} or more) only the headers "
            "were read: the run decodes all of them before it trains; --check_audio "
            "full does so here"
        )

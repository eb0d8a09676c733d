"""The data of the recipe: podcasts or other recordings to train on, the test corpora,
and Kaldi data dirs of both.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from espnet_ext.audio.files import SUFFIXES, inspect_audio
from espnet_ext.corpora.audio import Align, prepare_audio
from espnet_ext.corpora.long_data_dirs import prepare_long_data_dirs
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.longform.alignment.recordings import align_recordings
from espnet_ext.longform.chunking import check_plan
from espnet_ext.recipe import asr
from espnet_ext.recipe.run import Run, idle_if
from espnet_ext.recipe.steps import Step, run_steps
from espnet_ext.sharing.model_files import find_model
from espnet_ext.tables.plan import merge_system_config
from espnet_ext.tables.schema import System
from espnet_ext.work.files import list_files_below
from espnet_ext.work.yaml_files import deep_merge

TRAIN, VALID = "train", "dev"
CONTROL = "control"  # synthetic podcasts in which no name recurs
# Corpora of the test sets, and their folders among the synthetic corpora.
TEST_CORPORA = {
    "tedlium": "TEDLIUM_release-3",
    "earnings22": "earnings22",
    "rev16": "rev16",
}
ALIGNED = ("words", "text", "aligner")  # how the words of --audio are timed
HELD_OUT = "held_out"  # the option, and the setting of the scale
PUBLISHED = "published"  # the option for models that need no training data


for_systems = idle_if(
    lambda run: not run.systems, "these tables need no data and no training"
)


def trains(stage: Callable[[Run], None]) -> Callable[[Run], None]:
    """Mark a stage as part of training."""
    published = idle_if(
        lambda run: bool(run.options[PUBLISHED]),
        "the models of --published are trained",
    )
    return for_systems(published(stage))


def test_corpora(run: Run) -> list[str]:
    """Return the test corpora that the rows of this run need."""
    sets = {
        name
        for decodings in run.decodings.values()
        for names in decodings.values()
        for name in names
    }
    return [name for name in TEST_CORPORA if name in sets]


def paths_used(run: Run) -> list[str]:
    """Return the options for test corpora, and for noise, that the rows of this run
    need.
    """
    noisy = any(
        run.decoding(name).get("noise") == "music"
        for names in run.decodings.values()
        for name in names
    )
    return [*test_corpora(run), *(["musan"] if noisy else [])]


def corpus_folder(run: Run, option: str) -> Path:
    """Return a test corpus: that of the user, or the synthetic one."""
    return run.path(option) or run.datadir / "corpus" / TEST_CORPORA[option]


def data_dirs(run: Run) -> None:
    """Check the data dirs of ``--data``, and write those of whole recordings."""
    for part in (TRAIN, VALID, *run.data_tests):
        own = data_step(
            run,
            "long_data_dirs",
            part,
            run.corpus,
            part,
            part=part,
            trained_on=part in (TRAIN, VALID),
        )
        if run.options["aligner"] and part in (TRAIN, VALID):
            own = replace(
                own,
                function=prepare_aligned_data,
                arguments={**own.arguments, "aligner": run.options["aligner"]},
                free={**own.free, "ngpu": run.ngpu},
            )
        run_steps(own)


@for_systems
def data(run: Run) -> None:
    if run.of_data_dirs:
        data_dirs(run)
        if not run.rehearsed:
            check_plans(run, seconds_of(run.datadir / TRAIN))
        return
    check_number(run)
    if run.options["aligner"]:  # before alignment, which takes hours
        check_plans(run, durations_of(run.corpus))
    if run.synthetic or not all(run.options[name] for name in test_corpora(run)):
        run_steps(asr.synthetic_corpus(run, "spotify", run.datadir / "corpus"))
    if run.synthetic:
        top = run.datadir / "corpus"
        folders = {
            TRAIN: top / "spotify",
            **{part: top / f"spotify-{part}" for part in (VALID, CONTROL)},
        }
        run_steps(
            *(
                data_step(run, "spotify", part, folder, part, part=part)
                for part, folder in folders.items()
            )
        )
    elif not run.options[PUBLISHED]:  # the user's podcasts have no validation set
        given = {name: run.options[name] for name in ALIGNED if run.options[name]}
        own = data_step(
            run, run.corpus_option, TRAIN, run.corpus, "podcasts", part=TRAIN, **given
        )
        if "aligner" in given:
            own = replace(
                own, function=prepare_aligned, free={**own.free, "ngpu": run.ngpu}
            )
        run_steps(own, hold_out_step(run))
    if (
        not run.options[PUBLISHED] and not run.rehearsed
    ):  # of which a rehearsal has a few
        check_plans(run, seconds_of(run.datadir / TRAIN))
    for corpus in test_corpora(run):
        run_steps(
            data_step(
                run,
                corpus,
                "test",
                corpus_folder(run, corpus),
                corpus,
                **test_options(run, corpus),
            )
        )


def seconds_of(folder: Path) -> dict[str, float]:
    """Return the seconds of each recording of a data dir."""
    durations = read_table(folder / "utt2dur")
    return {name: float(seconds) for name, seconds in durations.items()}


def data_step(
    run: Run, corpus: str, part: str, folder: Path, name: str, /, **options: Any
) -> Step:
    """Write the data dir of a part of a corpus; utterances are whole recordings."""
    title = f"{corpus}, {part}"
    return asr.data_step(
        run,
        corpus,
        [folder],
        {part: name},
        title=title,
        corpus_dir=str(folder),
        **options,
    )


def prepare_aligned(aligner: str, num_jobs: int, ngpu: int, **options: Any) -> None:
    """Check recordings, and write their data dir and the times of their words, which a
    model finds.
    """
    align = align_with(aligner, num_jobs, ngpu)
    prepare_audio(align=align, num_jobs=num_jobs, **options)


def prepare_aligned_data(
    aligner: str, num_jobs: int, ngpu: int, **options: Any
) -> None:
    """Do the same for a data dir of the user's own, where it has no times itself."""
    align = align_with(aligner, num_jobs, ngpu)
    prepare_long_data_dirs(align=align, num_jobs=num_jobs, **options)


def align_with(aligner: str, num_jobs: int, ngpu: int) -> Align:
    """Return the function that finds the times of words by a model."""
    model = find_model(aligner)
    return partial(
        align_recordings, config=model.config, model=model.model, nj=num_jobs, ngpu=ngpu
    )


def test_options(run: Run, corpus: str) -> dict[str, Any]:
    """Return what the check of a test corpus needs to know; of the synthetic ones, that
    they have fewer recordings.
    """
    if corpus == "tedlium":
        return {"parts": ["test"]}
    return {} if run.options[corpus] else {"complete": False}


def check_own_recordings(run: Run) -> None:
    """Refuse options for recordings of the user's own that contradict each other or
    would end a run after work.
    """
    wants = {name: bool(run.options[name]) for name in ALIGNED}
    alone = wants["aligner"] and not (wants["words"] or wants["text"])
    if any(wants.values()) and not (
        run.options["audio"] or (run.of_data_dirs and alone)
    ):
        raise InputError(
            "--words, --text and --aligner describe the recordings of --audio: "
            "give it too"
        )
    if run.options["audio"] and (
        wants["words"] == wants["text"] or wants["text"] != wants["aligner"]
    ):
        raise InputError(
            "--audio needs --words CTM, or --text FILE and --aligner DIR (a "
            "trained model with CTC)"
        )
    for name in filter(wants.get, ("words", "text")):
        path = Path(run.options[name])
        if not path.exists():
            raise InputError(f"--{name} {path}: no such file: check the path")
        if name == "words" and path.is_dir():
            raise InputError(
                f"--{name} {path}: is a folder, not a file: name the ctm itself"
            )
    if wants["aligner"]:
        find_model(run.options["aligner"])
    others = run.synthetic or run.of_data_dirs or run.options[PUBLISHED]
    if run.options[HELD_OUT] and others:
        raise InputError(
            f"--{HELD_OUT} is for recordings of your own: give --spotify or "
            "--audio, or leave it out"
        )
    for name in ("passes", "schedule"):
        if run.options[name] and run.options[PUBLISHED]:
            raise InputError(
                f"--{name} is for trainings, and --{PUBLISHED} has none: leave it out"
            )
    for name in (HELD_OUT, "passes"):
        if (value := run.options[name]) and not re.fullmatch(
            "0*[1-9][0-9]{0,8}", value
        ):
            raise InputError(f"--{name} takes a whole number from 1 on, not '{value}'")


def training_config(run: Run, system: System) -> dict[str, Any]:
    """Return a system's training config, with the passes and the schedule of the
    options.
    """
    config = merge_system_config(run.sections, system)
    if run.setting("schedule") == "shares":
        shares = run.sections[
            "shares"
        ].items()  # a config of the user's own may have another encoder
        known = {
            key: {name: part[name] for name in part if name in config.get(key, {})}
            for key, part in shares
        }
        config = deep_merge(config, known)
    return deep_merge(
        config,
        {"chunk_conf": {"passes": int(run.options["passes"])}}
        if run.options["passes"]
        else {},
    )


def check_plans(run: Run, durations: Mapping[str, float]) -> None:
    """Refuse systems that would never be trained with their whole context, or end
    within their warm-up.
    """
    for system in run.systems:
        try:
            check_plan(training_config(run, system), durations)
        except InputError as error:
            raise InputError(
                f"{system.name}: {error}: choose --rows of shorter contexts, more "
                "--passes, or --schedule shares"
            ) from None


def durations_of(folder: Path) -> dict[str, float]:
    """Return the seconds of each audio file below a folder, by its header; those that
    cannot be read are left out.
    """
    paths = [
        path for path in list_files_below(folder) if path.suffix.lower() in SUFFIXES
    ]
    headers = {path: inspect_audio(path, decode=False, mono=False) for path in paths}
    return {
        path.stem: found.seconds
        for path, found in headers.items()
        if found.seconds and not found.fault
    }


def held_out_count(run: Run) -> int:
    """Return how many of the user's recordings become the dev set."""
    return int(run.setting(HELD_OUT))


def check_number(run: Run) -> None:
    """Refuse a corpus of too few recordings before any work; stage 1 says what is wrong
    with an empty one.
    """
    if run.synthetic or run.options[PUBLISHED]:
        return
    number = len(
        {
            path.stem
            for path in list_files_below(run.corpus)
            if path.suffix.lower() in SUFFIXES
        }
    )
    if number:
        check_held_out(run.corpus, number, held_out_count(run))


def check_held_out(corpus: Path, number: int, count: int) -> None:
    """Refuse to hold out all recordings of a corpus, or more than it has."""
    if count < number:
        return
    fewer = (
        f"or hold out fewer with --{HELD_OUT}, at most {number - 1}"
        if number > 1
        else "training needs one more"
    )
    raise InputError(
        f"{corpus}: has {number} recordings, and {count} are held out to validate "
        f"on (--{HELD_OUT}), so that at least "
        f"{count + 1} are needed: add recordings, {fewer}"
    )


def hold_out_step(run: Run) -> Step:
    podcasts, parts = (
        run.datadir / "podcasts",
        [run.datadir / name for name in (VALID, TRAIN)],
    )
    return Step(
        name="held-out podcasts",
        log=run.datadir / "log" / "hold_out.log",
        function=hold_out,
        arguments={
            "podcasts": str(podcasts),
            "held_out": str(parts[0]),
            "rest": str(parts[1]),
            "count": held_out_count(run),
        },
        inputs=[podcasts / "wav.scp", podcasts / "text"],
        outputs=[part / "text" for part in parts],
    )


def hold_out(podcasts: str, held_out: str, rest: str, count: int) -> None:
    """Split a data dir in two: ``count`` recordings, spread evenly, and the others."""
    from espnet_ext.kaldi.data_dir import read_data_dir, write_data_dir
    from espnet_ext.kaldi.parts import choose_spread, keep_utterances

    every = read_data_dir(podcasts)
    check_held_out(Path(podcasts), len(every.utt2spk), count)
    chosen = choose_spread(every, count)
    others = [name for name in every.utt2spk if name not in set(chosen)]
    for folder, names in ((held_out, chosen), (rest, others)):
        write_data_dir(keep_utterances(every, set(names)), folder)
        print(f"{folder}: {len(names):,} of {len(every.utt2spk):,} recordings")

"""The data of the recipe: corpora, voices at other speeds, speaker profiles, and sets
of mixtures.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from espnet_ext.corpora.data_dirs import DEV, TRAIN
from espnet_ext.corpora.libricss import ENROLMENT_LIST, find_release, prepare_libricss
from espnet_ext.errors import InputError
from espnet_ext.recipe import asr
from espnet_ext.recipe.librispeech import drop_other_parts
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step
from espnet_ext.stitch.recogniser.inventories import write_inventories
from espnet_ext.stitch.recogniser.mixture_plan import MixtureSettings
from espnet_ext.stitch.recogniser.mixtures import (
    cut_mixtures,
    make_mixtures,
    write_counts,
)
from espnet_ext.stitch.recogniser.profiles import enrol
from espnet_ext.stitch.recogniser.speed_perturbation import perturb_speed
from espnet_ext.text.windows import Windowing
from espnet_ext.work.once import stamp_folders
from espnet_ext.work.settings import check_settings
from espnet_ext.work.yaml_files import deep_merge

MIXTURES = ("dev-short", "dev-long", "test-short", "test-long")
LIBRICSS = "libricss"
WHISPER = "whisper"


def whisper(run: Run) -> bool:
    """Is the recogniser Whisper? It hears recordings whose speakers take turns, and is
    not trained.
    """
    return bool(run.setting("recogniser") == WHISPER)


def below(run: Run, what: str) -> Path:
    """The folder of the recogniser or of what it hears; the recogniser of --asr_config
    has its own.
    """
    return run.expdir / (
        f"{what}_{run.own.name}" if run.own and run.own.below else what
    )


def settings(run: Run) -> Mapping[str, Any]:
    """The settings of the scale; with Whisper, those of the section
    ``settings_whisper`` over them.
    """
    own: Mapping[str, Any] = run.sections["settings"]
    return deep_merge(own, run.sections["settings_whisper"]) if whisper(run) else own


def librispeech(run: Run) -> Path:
    """The folder of LibriSpeech; the synthetic corpus holds LibriCSS too."""
    return (
        run.corpus / "LibriSpeech" if run.synthetic and not whisper(run) else run.corpus
    )


def libricss(run: Run) -> Path | None:
    """The folder of LibriCSS if Table 4 is made; people talk at once there, so that it
    is not for Whisper.
    """
    if whisper(run) or "4" not in {table.id for table in run.selected}:
        return None
    return run.path("libricss") or (run.corpus / "LibriCSS" if run.synthetic else None)


def test_sets(run: Run) -> list[str]:
    return [*MIXTURES, *([LIBRICSS] if libricss(run) else [])]


def parts(run: Run) -> list[str]:
    """The parts of LibriSpeech that are used."""
    return [*train_parts(run), *dev_parts(run), *test_parts(run)]


def dev_parts(run: Run) -> list[str]:
    """The parts that mixtures to watch trainings on are made of."""
    return [DEV] if run.of_data_dirs else ["dev-clean"]


def test_parts(run: Run) -> list[str]:
    """The parts that test mixtures are made of."""
    return run.data_tests if run.of_data_dirs else ["test-clean"]


def train_parts(run: Run) -> list[str]:
    """The parts of LibriSpeech that training mixtures are made of."""
    if run.of_data_dirs:
        return [TRAIN]
    return drop_other_parts(run, settings(run)["train_parts"])


def train_sources(run: Run) -> list[str]:
    """What training mixtures are made of: LibriSpeech's parts, and voices made of them
    if there are few speakers.
    """
    voices = (
        [f"voices-{part}" for part in train_parts(run)]
        if settings(run)["speeds"]
        else []
    )
    return [*train_parts(run), *voices]


def sources(run: Run, name: str) -> list[str]:
    """What the mixtures of a set are made of."""
    part = name.partition("_")[0].partition("-")[0]
    made_of = {"train": train_sources, "dev": dev_parts, "test": test_parts}
    return made_of[part](run)


def mixing(run: Run) -> dict[str, MixtureSettings]:
    """The sets of mixtures that this scale makes."""
    options = settings(run)["mixing"]
    return {
        name: check_settings(MixtureSettings, value, f"mixtures {name}")
        for name, value in options.items()
        if value
    }


def folder(run: Run, name: str) -> Path:
    """The folder of a set: of LibriCSS its segments, with the data dir in ``data``."""
    return run.datadir / name / "segments" if name == LIBRICSS else run.datadir / name


def references(run: Run, name: str) -> Path:
    """Who says what in a set, and when (SegLST)."""
    return folder(run, name) / "references.json"


def data_dir(run: Run, name: str) -> Path:
    """The data dir of a set, whose utterances are whole recordings, or LibriCSS's
    segments.
    """
    return folder(run, name) / "data" if name == LIBRICSS else folder(run, name)


def profiles(run: Run, name: str) -> Path:
    """The folder of the profiles with which a set is recognised.

    With a speaker model of ESPnet it is called after the model's sum, so that what was
    trained with other profiles is not taken for trained with these.
    """
    model = run.path("speaker_model")
    top = run.datadir / (f"profiles-{_digest(model)[:8]}" if model else "profiles")
    if name.startswith("train") or name == "dev_sa":
        return top / "train"
    return top / (LIBRICSS if name == LIBRICSS else "test")


@cache
def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def speaker_model(run: Run) -> tuple[Path, Path] | None:
    """config.yaml and checkpoint of the speaker model that makes the profiles; None:
    Resemblyzer.

    Raises InputError: a file is missing, or only the config is given.
    """
    model, config = run.path("speaker_model"), run.path("speaker_model_config")
    if model is None:
        if config:
            raise InputError(
                "--speaker_model_config needs --speaker_model, the parameters"
            )
        return None
    config = config or model.with_name("config.yaml")
    for path in (model, config):
        if not path.is_file():
            raise InputError(
                f"--speaker_model: there is no file {path}; name a checkpoint "
                "and, if it is not beside it, "
                "--speaker_model_config"
            )
    return config, model


def libricss_step(run: Run, corpus: Path) -> Step:
    """LibriCSS: the first channel cut at silences, and who is enrolled with what in
    each session.

    Raises InputError: the corpus or its enrolment list is not there.
    """
    release = find_release(corpus)
    enrolment = (
        run.path("enrolment_list")
        or release.parent / "speaker_enrollment" / ENROLMENT_LIST
    )
    if not enrolment.is_file():
        raise InputError(
            f"{enrolment}: no such file: it is in LibriCSS's repository; name it "
            "with --enrolment_list"
        )
    return Step(
        name="LibriCSS",
        log=run.datadir / "log" / "libricss.log",
        function=prepare_libricss,
        arguments={
            "corpus_dir": str(corpus),
            "output_dir": str(run.datadir / LIBRICSS),
            "enrolment_list": enrolment,
            "skip_faulty": run.skip_faulty,
        },
        depends=stamp_folders(release),
        inputs=[enrolment],
        outputs=[folder(run, LIBRICSS) / "inventory"],
    )


def set_step(
    name: str,
    function: Callable,
    folder: Path,
    made: str,
    inputs: Sequence[Path],
    /,
    **more: Any,
) -> Step:
    """A step that writes a set, or a table of it, into a folder; ``made`` is its last
    file.
    """
    free, preload = more.pop("free", {}), more.pop("preload", ())
    return Step(
        name=name,
        log=folder / "log" / f"{made}.log",
        function=function,
        arguments=more,
        free=free,
        inputs=inputs,
        outputs=[folder / made],
        preload=preload,
    )


def voices_steps(run: Run) -> Iterator[Step]:
    """More voices to learn from, for a corpus of few speakers: those of its training
    set at other speeds.
    """
    chosen = settings(run)
    for part in train_parts(run) if chosen["speeds"] else []:
        data, output = run.datadir / part, run.datadir / f"voices-{part}"
        files = [data / "text", data / "wav.scp"]
        options = {
            "data": str(data),
            "factors": chosen["speeds"],
            "output": str(output),
        }
        yield set_step(
            f"voices of {part}",
            perturb_speed,
            output,
            "text",
            files,
            free={"nj": run.nj},
            **options,
        )


def profiles_steps(run: Run) -> Iterator[Step]:
    """Speaker profiles. Who is to be recognised has two enrolment utterances; training
    draws two of more, each time.
    """
    if whisper(run):
        return
    chosen = settings(run)
    yield profiles_step(
        run,
        "train",
        [*train_sources(run), *dev_parts(run)],
        utterances=chosen["train_enrolment"],
    )
    yield profiles_step(
        run,
        "test",
        [*dev_parts(run), *test_parts(run)],
        utterances=chosen["test_enrolment"],
    )
    if libricss(run):
        yield profiles_step(
            run,
            LIBRICSS,
            test_parts(run),
            enrolment=folder(run, LIBRICSS) / "enrolment",
        )


def profiles_step(run: Run, name: str, data: list[str], **options: Any) -> Step:
    output, folders, model = (
        profiles(run, name),
        [run.datadir / part for part in data],
        speaker_model(run),
    )
    files = [path / table for path in folders for table in ("wav.scp", "utt2spk")]
    options |= {"data": folders, "output": output, "speaker_model": model}
    preload = (
        ["espnet2.bin.spk_inference"]
        if model
        else ["espnet_ext.stitch.recogniser.d_vectors"]
    )
    return set_step(
        f"profiles of {name}",
        enrol,
        output,
        "enrolment",
        files,
        preload=preload,
        **options,
    )


def mixtures_steps(run: Run) -> Iterator[Step]:
    """Sets of mixtures: those that the recogniser and the stitchers are trained on, and
    the test sets.
    """
    chosen, nj = settings(run), {"nj": run.nj}
    for name, how in mixing(run).items():
        output, data = (
            run.datadir / name,
            [run.datadir / source for source in sources(run, name)],
        )
        # training uses all its utterances; in other sets the enrolment utterances of a
        # profile are left out
        leave_out = (
            None
            if whisper(run) or name.startswith("train")
            else profiles(run, name) / "enrolment"
        )
        files = [path / table for path in data for table in ("wav.scp", "text")] + (
            [leave_out] if leave_out else []
        )
        options = {
            "data": [str(path) for path in data],
            "output": output,
            "settings": how,
            "leave_out": leave_out,
        }
        prefix = "train" if name == "train_stitch" else name.replace("-", " ")
        yield set_step(
            f"mixtures {name}",
            make_mixtures,
            output,
            "text",
            files,
            free=nj,
            prefix=prefix,
            **options,
        )
    if whisper(run):
        return
    for name in (
        "train_stitch",
        *MIXTURES,
    ):  # the recogniser's training draws inventories itself
        files = [
            run.datadir / name / "text_speakers",
            profiles(run, name) / "profiles.scp",
        ]
        options = dict(zip(("speakers", "profiles"), files, strict=True))
        options |= {
            "output": run.datadir / name / "inventory",
            "size": chosen["inventory_size"],
        }
        yield set_step(
            f"inventories of {name}",
            write_inventories,
            run.datadir / name,
            "inventory",
            files,
            **options,
        )
    if chosen[
        "windows_last"
    ]:  # mixtures of the recogniser's training, cut as windows cut recordings
        source, output = run.datadir / "train_sa", run.datadir / "train_windows"
        files = [source / "text", source / "references.json"]
        options = {
            "window": float(chosen["window"]),
            "share": chosen["windows_share"],
            "seed": chosen["windows_seed"],
        }
        options |= {"data": str(source), "output": str(output)}
        yield set_step(
            "mixtures train_windows",
            cut_mixtures,
            output,
            "text",
            files,
            free=nj,
            **options,
        )


def counts_steps(run: Run) -> Iterator[Step]:
    """Table 1: the mixtures' counts."""
    for row in run.tables.tables["1"].rows:
        system = run.tables.systems[row.system]
        data, output = (
            run.datadir / system.data[0],
            run.locate_training(system, 1).parent,
        )
        files = [data / "references.json"]
        yield set_step(
            f"counts of {data.name}",
            write_counts,
            output,
            "samples.json",
            files,
            data=data,
            output=output,
        )


def write_table_1(run: Run) -> None:
    asr.tables(
        replace(run, options={**run.options, "rows": ""}), [run.tables.tables["1"]]
    )


def windowing(run: Run, windows: str) -> Windowing:
    """How a system's recordings are cut."""
    chosen = settings(run)
    return Windowing(float(chosen["window"]), chosen["overlaps"][windows])

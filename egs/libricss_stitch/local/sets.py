"""The data of the recipe: corpora, voices, speaker profiles, and sets of mixtures."""

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


def uses_whisper(run: Run) -> bool:
    """Return whether the recogniser is Whisper, which is not trained.

    It hears recordings whose speakers take turns.
    """
    return bool(run.setting("recogniser") == WHISPER)


def locate_output(run: Run, what: str) -> Path:
    """Return the folder of the recogniser or of what it hears."""
    # the recogniser of --asr_config has its own
    if run.own and run.own.below:
        what = f"{what}_{run.own.name}"
    return run.expdir / what


def merge_settings(run: Run) -> Mapping[str, Any]:
    """Return the settings of the scale, with Whisper ``settings_whisper`` over them."""
    own: Mapping[str, Any] = run.sections["settings"]
    if uses_whisper(run):
        return deep_merge(own, run.sections["settings_whisper"])
    return own


def locate_librispeech(run: Run) -> Path:
    """Return the folder of LibriSpeech."""
    # the synthetic corpus holds LibriCSS too, except for Whisper
    if run.synthetic and not uses_whisper(run):
        return run.corpus / "LibriSpeech"
    return run.corpus


def locate_libricss(run: Run) -> Path | None:
    """Return the folder of LibriCSS if Table 4 is made, otherwise None."""
    # people talk at once there, so that it is not for Whisper
    if uses_whisper(run) or "4" not in {table.id for table in run.selected}:
        return None
    given = run.path("libricss")
    if given is None and run.synthetic:
        return run.corpus / "LibriCSS"
    return given


def list_test_sets(run: Run) -> list[str]:
    if locate_libricss(run):
        return [*MIXTURES, LIBRICSS]
    return list(MIXTURES)


def list_parts(run: Run) -> list[str]:
    """Return the parts of LibriSpeech that are used."""
    return [*list_train_parts(run), *list_dev_parts(run), *list_test_parts(run)]


def list_dev_parts(run: Run) -> list[str]:
    """Return the parts of the mixtures on which trainings are watched."""
    return [DEV] if run.of_data_dirs else ["dev-clean"]


def list_test_parts(run: Run) -> list[str]:
    """Return the parts that test mixtures are made of."""
    return run.data_tests if run.of_data_dirs else ["test-clean"]


def list_train_parts(run: Run) -> list[str]:
    """Return the parts of LibriSpeech that training mixtures are made of."""
    if run.of_data_dirs:
        return [TRAIN]
    return drop_other_parts(run, merge_settings(run)["train_parts"])


def list_train_sources(run: Run) -> list[str]:
    """Return what training mixtures are made of: LibriSpeech's parts, and voices."""
    sources = list_train_parts(run)
    # made of the parts, if these have few speakers
    if merge_settings(run)["speeds"]:
        sources += [f"voices-{part}" for part in list_train_parts(run)]
    return sources


def list_sources(run: Run, name: str) -> list[str]:
    """Return what the mixtures of a set are made of."""
    # ``train_stitch`` and ``dev-short``
    if name.startswith("train"):
        return list_train_sources(run)
    if name.startswith("dev"):
        return list_dev_parts(run)
    return list_test_parts(run)


def read_mixing(run: Run) -> dict[str, MixtureSettings]:
    """Return the sets of mixtures that this scale makes."""
    found = {}
    for name, value in merge_settings(run)["mixing"].items():
        # null: this scale leaves out a set of full.yaml
        if value:
            found[name] = check_settings(MixtureSettings, value, f"mixtures {name}")
    return found


def locate_set(run: Run, name: str) -> Path:
    """Return the folder of a set: of LibriCSS its segments."""
    if name == LIBRICSS:
        return run.datadir / name / "segments"
    return run.datadir / name


def locate_references(run: Run, name: str) -> Path:
    """Return the file of who says what in a set, and when (SegLST)."""
    return locate_set(run, name) / "references.json"


def locate_data_dir(run: Run, name: str) -> Path:
    """Return the data dir of a set.

    Its utterances are whole recordings, or LibriCSS's segments.
    """
    if name == LIBRICSS:
        return locate_set(run, name) / "data"
    return locate_set(run, name)


def locate_profiles(run: Run, name: str) -> Path:
    """Return the folder of the profiles with which a set is recognised."""
    top = run.datadir / "profiles"
    model = run.path("speaker_model")
    # what was trained with other profiles must not be taken for trained with these
    if model:
        top = run.datadir / f"profiles-{hash_model(model)[:8]}"
    if name.startswith("train") or name == "dev_sa":
        return top / "train"
    # each of its sessions enrols its own speakers
    if name == LIBRICSS:
        return top / LIBRICSS
    return top / "test"


@cache
def hash_model(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_speaker_model(run: Run) -> tuple[Path, Path] | None:
    """Return config.yaml and checkpoint of the speaker model that makes the profiles.

    None: Resemblyzer makes them. Raises InputError: a file is missing, or only the
    config is given.
    """
    model = run.path("speaker_model")
    config = run.path("speaker_model_config")
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
    """Prepare LibriCSS: the first channel cut at silences, and who is enrolled.

    Raises InputError: the corpus or its enrolment list is not there.
    """
    release = find_release(corpus)
    enrolment = run.path("enrolment_list")
    if enrolment is None:
        enrolment = release.parent / "speaker_enrollment" / ENROLMENT_LIST
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
        outputs=[locate_set(run, LIBRICSS) / "inventory"],
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
    """Return a step that writes a set, or a table of it, into a folder.

    ``made`` is its last file. ``more`` are arguments of the function, but for ``free``
    and ``preload``, which are those of the step.
    """
    free = more.pop("free", {})
    preload = more.pop("preload", ())
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
    """Make more voices to learn from, for a corpus of few speakers.

    They are those of its training set at other speeds.
    """
    speeds = merge_settings(run)["speeds"]
    if not speeds:
        return
    for part in list_train_parts(run):
        data = run.datadir / part
        output = run.datadir / f"voices-{part}"
        yield set_step(
            f"voices of {part}",
            perturb_speed,
            output,
            "text",
            [data / "text", data / "wav.scp"],
            free={"nj": run.nj},
            data=str(data),
            factors=speeds,
            output=str(output),
        )


def profiles_steps(run: Run) -> Iterator[Step]:
    """Make speaker profiles.

    Who is to be recognised has two enrolment utterances; training draws two of more,
    each time.
    """
    if uses_whisper(run):
        return
    chosen = merge_settings(run)
    yield profiles_step(
        run,
        "train",
        [*list_train_sources(run), *list_dev_parts(run)],
        utterances=chosen["train_enrolment"],
    )
    yield profiles_step(
        run,
        "test",
        [*list_dev_parts(run), *list_test_parts(run)],
        utterances=chosen["test_enrolment"],
    )
    if locate_libricss(run):
        yield profiles_step(
            run,
            LIBRICSS,
            list_test_parts(run),
            enrolment=locate_set(run, LIBRICSS) / "enrolment",
        )


def profiles_step(run: Run, name: str, data: list[str], **options: Any) -> Step:
    output = locate_profiles(run, name)
    folders = [run.datadir / part for part in data]
    files = [path / table for path in folders for table in ("wav.scp", "utt2spk")]
    model = find_speaker_model(run)
    preload = "espnet_ext.stitch.recogniser.d_vectors"
    if model:
        preload = "espnet2.bin.spk_inference"
    return set_step(
        f"profiles of {name}",
        enrol,
        output,
        "enrolment",
        files,
        preload=[preload],
        **options,
        data=folders,
        output=output,
        speaker_model=model,
    )


def mixtures_steps(run: Run) -> Iterator[Step]:
    """Make sets of mixtures, to train the recogniser and the stitchers on, and to test.

    With them come the inventories with which they are recognised.
    """
    for name, how in read_mixing(run).items():
        yield mixture_step(run, name, how)
    if uses_whisper(run):
        return
    # the recogniser's training draws inventories itself
    for name in ("train_stitch", *MIXTURES):
        yield inventory_step(run, name)
    chosen = merge_settings(run)
    # mixtures of the recogniser's training, cut as windows cut recordings
    if chosen["windows_last"]:
        source = run.datadir / "train_sa"
        output = run.datadir / "train_windows"
        yield set_step(
            "mixtures train_windows",
            cut_mixtures,
            output,
            "text",
            [source / "text", source / "references.json"],
            free={"nj": run.nj},
            window=float(chosen["window"]),
            share=chosen["windows_share"],
            seed=chosen["windows_seed"],
            data=str(source),
            output=str(output),
        )


def mixture_step(run: Run, name: str, how: MixtureSettings) -> Step:
    output = run.datadir / name
    data = [run.datadir / source for source in list_sources(run, name)]
    files = [path / table for path in data for table in ("wav.scp", "text")]
    leave_out = None
    # training uses all its utterances; in other sets the enrolment utterances of a
    # profile are left out
    if not uses_whisper(run) and not name.startswith("train"):
        leave_out = locate_profiles(run, name) / "enrolment"
        files.append(leave_out)
    return set_step(
        f"mixtures {name}",
        make_mixtures,
        output,
        "text",
        files,
        free={"nj": run.nj},
        # begins the ids of the mixtures
        prefix="train" if name == "train_stitch" else name.replace("-", " "),
        data=[str(path) for path in data],
        output=output,
        settings=how,
        leave_out=leave_out,
    )


def inventory_step(run: Run, name: str) -> Step:
    speakers = run.datadir / name / "text_speakers"
    profiles = locate_profiles(run, name) / "profiles.scp"
    return set_step(
        f"inventories of {name}",
        write_inventories,
        run.datadir / name,
        "inventory",
        [speakers, profiles],
        speakers=speakers,
        profiles=profiles,
        output=run.datadir / name / "inventory",
        size=merge_settings(run)["inventory_size"],
    )


def counts_steps(run: Run) -> Iterator[Step]:
    """Count the mixtures of each set for Table 1."""
    for row in run.tables.tables["1"].rows:
        system = run.tables.systems[row.system]
        data = run.datadir / system.data[0]
        # quantities belong to a system, not to a training
        output = run.locate_training(system, 1).parent
        yield set_step(
            f"counts of {data.name}",
            write_counts,
            output,
            "samples.json",
            [data / "references.json"],
            data=data,
            output=output,
        )


def write_table_1(run: Run) -> None:
    """Write Table 1, whole, whichever rows the run is asked for."""
    every_row = replace(run, options={**run.options, "rows": ""})
    asr.tables(every_row, [run.tables.tables["1"]])


def choose_windowing(run: Run, windows: str) -> Windowing:
    """Return how a system's recordings are cut."""
    chosen = merge_settings(run)
    return Windowing(float(chosen["window"]), chosen["overlaps"][windows])

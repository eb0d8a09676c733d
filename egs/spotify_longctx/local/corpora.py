"""The data of the recipe: recordings to train on, test corpora, data dirs of both."""

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

TRAIN = "train"
VALID = "dev"
CONTROL = "control"  # synthetic podcasts in which no name recurs
ROOMS = ("quiet", "seen", "unseen")  # of local/noisy_rooms.py, by their noise
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


def list_test_corpora(run: Run) -> list[str]:
    """Return the test corpora that the rows of this run need."""
    sets: set[str] = set()
    for decodings in run.decodings.values():
        for names in decodings.values():
            sets.update(names)
    return [name for name in TEST_CORPORA if name in sets]


def list_used_paths(run: Run) -> list[str]:
    """Return the options for test corpora, and for noise, that a run's rows need."""
    used = list_test_corpora(run)
    noises = set()
    for decodings in run.decodings.values():
        noises.update(run.decoding(name).get("noise") for name in decodings)
    if "music" in noises:
        used.append("musan")
    return used


def locate_corpus(run: Run, option: str) -> Path:
    """Return a test corpus: that of the user, or the synthetic one."""
    return run.path(option) or run.datadir / "corpus" / TEST_CORPORA[option]


def write_data_dirs(run: Run) -> None:
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
        write_data_dirs(run)
        if not run.rehearsed:
            check_plans(run, read_seconds(run.datadir / TRAIN))
        return
    check_number(run)
    if run.options["aligner"]:  # before alignment, which takes hours
        check_plans(run, inspect_seconds(run.corpus))
    if run.synthetic or not all(run.options[name] for name in list_test_corpora(run)):
        run_steps(asr.synthetic_corpus_step(run, "spotify", run.datadir / "corpus"))
    if run.synthetic:
        run_steps(*synthetic_steps(run))
    elif not run.options[PUBLISHED]:
        # the user's podcasts have no validation set
        run_steps(own_step(run), hold_out_step(run))
    # of which a rehearsal has a few
    if not run.options[PUBLISHED] and not run.rehearsed:
        check_plans(run, read_seconds(run.datadir / TRAIN))
    for corpus in list_test_corpora(run):
        folder = locate_corpus(run, corpus)
        options = list_test_options(run, corpus)
        run_steps(data_step(run, corpus, "test", folder, corpus, **options))


def synthetic_steps(run: Run) -> list[Step]:
    """Write the data dirs of the synthetic podcasts, of each part one."""
    top = run.datadir / "corpus"
    steps = []
    for part in (TRAIN, VALID, CONTROL):
        folder = top / "spotify" if part == TRAIN else top / f"spotify-{part}"
        steps.append(data_step(run, "spotify", part, folder, part, part=part))
    return steps


def own_step(run: Run) -> Step:
    """Write the data dir of the user's recordings, with the times of their words."""
    given = {name: run.options[name] for name in ALIGNED if run.options[name]}
    step = data_step(
        run, run.corpus_option, TRAIN, run.corpus, "podcasts", part=TRAIN, **given
    )
    if "aligner" not in given:
        return step
    # a model finds the times, on all GPUs
    free = {**step.free, "ngpu": run.ngpu}
    return replace(step, function=prepare_aligned, free=free)


def read_seconds(folder: Path) -> dict[str, float]:
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
    """Check recordings, and write their data dir and the times of their words.

    A model finds these.
    """
    align = make_aligner(aligner, num_jobs, ngpu)
    prepare_audio(align=align, num_jobs=num_jobs, **options)


def prepare_aligned_data(
    aligner: str, num_jobs: int, ngpu: int, **options: Any
) -> None:
    """Do the same for a data dir of the user's own, where it has no times itself."""
    align = make_aligner(aligner, num_jobs, ngpu)
    prepare_long_data_dirs(align=align, num_jobs=num_jobs, **options)


def make_aligner(aligner: str, num_jobs: int, ngpu: int) -> Align:
    """Return the function that finds the times of words by a model."""
    model = find_model(aligner)
    return partial(
        align_recordings, config=model.config, model=model.model, nj=num_jobs, ngpu=ngpu
    )


def list_test_options(run: Run, corpus: str) -> dict[str, Any]:
    """Return what the check of a test corpus needs to know."""
    if corpus == "tedlium":
        return {"parts": ["test"]}
    # synthetic ones have fewer recordings
    return {} if run.options[corpus] else {"complete": False}


def check_own_recordings(run: Run) -> None:
    """Refuse options for own recordings that contradict each other.

    Refused are also those that would end a run after work.
    """
    wants = {name: bool(run.options[name]) for name in ALIGNED}
    alone = wants["aligner"] and not (wants["words"] or wants["text"])
    # data dirs have transcripts, and an aligner may time their words
    has_use = bool(run.options["audio"]) or (run.of_data_dirs and alone)
    if any(wants.values()) and not has_use:
        raise InputError(
            "--words, --text and --aligner describe the recordings of --audio: "
            "give it too"
        )
    # words with their times, or a text and what times it
    is_one = wants["words"] != wants["text"] and wants["text"] == wants["aligner"]
    if run.options["audio"] and not is_one:
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
        value = run.options[name]
        if value and not re.fullmatch("0*[1-9][0-9]{0,8}", value):
            raise InputError(f"--{name} takes a whole number from 1 on, not '{value}'")


def merge_training_config(run: Run, system: System) -> dict[str, Any]:
    """Return a system's training config, with passes and schedule of the options."""
    config = merge_system_config(run.sections, system)
    if run.setting("schedule") == "shares":
        for key, part in run.sections["shares"].items():
            there = config.get(key, {})
            # a config of the user's own may have another encoder
            known = {name: value for name, value in part.items() if name in there}
            config = deep_merge(config, {key: known})
    passes = run.options["passes"]
    if passes:
        config = deep_merge(config, {"chunk_conf": {"passes": int(passes)}})
    return config


def check_plans(run: Run, durations: Mapping[str, float]) -> None:
    """Refuse systems that would never be trained with their whole context.

    Refused is also a training that ends within its warm-up.
    """
    for system in run.systems:
        try:
            check_plan(merge_training_config(run, system), durations)
        except InputError as error:
            raise InputError(
                f"{system.name}: {error}: choose --rows of shorter contexts, more "
                "--passes, or --schedule shares"
            ) from None


def inspect_seconds(folder: Path) -> dict[str, float]:
    """Return the seconds of each audio file below a folder, by its header."""
    seconds = {}
    for path in list_files_below(folder):
        if path.suffix.lower() not in SUFFIXES:
            continue
        found = inspect_audio(path, decode=False, mono=False)
        # stage 1 will say what is wrong with the others
        if found.seconds and not found.fault:
            seconds[path.stem] = found.seconds
    return seconds


def count_held_out(run: Run) -> int:
    """Return how many of the user's recordings become the dev set."""
    return int(run.setting(HELD_OUT))


def check_number(run: Run) -> None:
    """Refuse a corpus of too few recordings before any work."""
    if run.synthetic or run.options[PUBLISHED]:
        return
    names = set()
    for path in list_files_below(run.corpus):
        if path.suffix.lower() in SUFFIXES:
            names.add(path.stem)
    # stage 1 says what is wrong with an empty one
    if names:
        check_held_out(run.corpus, len(names), count_held_out(run))


def check_held_out(corpus: Path, number: int, count: int) -> None:
    """Refuse to hold out all recordings of a corpus, or more than it has."""
    if count < number:
        return
    fewer = "training needs one more"
    if number > 1:
        fewer = f"or hold out fewer with --{HELD_OUT}, at most {number - 1}"
    raise InputError(
        f"{corpus}: has {number} recordings, and {count} are held out to validate "
        f"on (--{HELD_OUT}), so that at least "
        f"{count + 1} are needed: add recordings, {fewer}"
    )


def hold_out_step(run: Run) -> Step:
    """Split the user's recordings into those to validate on and those to train on."""
    podcasts = run.datadir / "podcasts"
    valid = run.datadir / VALID
    train = run.datadir / TRAIN
    return Step(
        name="held-out podcasts",
        log=run.datadir / "log" / "hold_out.log",
        function=hold_out,
        arguments={
            "podcasts": str(podcasts),
            "held_out": str(valid),
            "rest": str(train),
            "count": count_held_out(run),
        },
        inputs=[podcasts / "wav.scp", podcasts / "text"],
        outputs=[valid / "text", train / "text"],
    )


def hold_out(podcasts: str, held_out: str, rest: str, count: int) -> None:
    """Split a data dir in two: ``count`` recordings, spread evenly, and the others."""
    from espnet_ext.kaldi.data_dir import read_data_dir, write_data_dir
    from espnet_ext.kaldi.parts import choose_spread, keep_utterances

    every = read_data_dir(podcasts)
    check_held_out(Path(podcasts), len(every.utt2spk), count)
    chosen = choose_spread(every, count)
    taken = set(chosen)
    others = [name for name in every.utt2spk if name not in taken]
    for folder, names in ((held_out, chosen), (rest, others)):
        write_data_dir(keep_utterances(every, set(names)), folder)
        print(f"{folder}: {len(names):,} of {len(every.utt2spk):,} recordings")

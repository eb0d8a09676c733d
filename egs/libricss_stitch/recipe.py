"""The stages of run.sh: a recogniser for mixtures, and stitchers of what it hears.

Below the run's experiments:

- ``recogniser``                 the recogniser; ``first`` and ``windows`` in it are its
  first and its last training
- ``heard/<windows>/<set>``      what it hears of a set whose recordings are cut in one
  way, or ``whole``
- ``pairs/<windows>/<style>``    what stitchers of a style learn from
- ``first/<windows>/<style>``    stitchers that were trained on simulated errors, with
  which the others begin
- ``<system>/seed<N>``           stitchers, and the transcripts and scores of all
  systems
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.recipe import asr
from espnet_ext.recipe.audio_check import run_beside_audio_check
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe, Run, idle_if
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.steps import Step, run_jobs, run_steps, show
from espnet_ext.recipe.training import list_data_options, make_free_arguments
from espnet_ext.stitch.recogniser.decode import SpeakerDecoding, decode_speakers
from espnet_ext.stitch.recogniser.mixture_plan import ON_THE_FLY
from espnet_ext.stitch.recogniser.precomputed_d_vectors import write_d_vectors
from espnet_ext.stitch.recogniser.profiles import read_profiles
from espnet_ext.stitch.recogniser.search_settings import (
    DECODING,
    DecodingSettings,
    SearchOptions,
)
from espnet_ext.tables.schema import TRAIN
from espnet_ext.text.windows import write_windows
from espnet_ext.whisper.windows import WhisperSearch, decode_turns
from espnet_ext.work.files import write_json
from espnet_ext.work.once import fingerprint
from espnet_ext.work.parallel import Place
from espnet_ext.work.settings import check_settings
from espnet_ext.work.yaml_files import read_yaml

sets = load_script(Path(__file__).parent / "local" / "sets.py")
stitchers = load_script(Path(__file__).parent / "local" / "stitchers.py")
CHECKPOINT = "valid.acc.ave.pth"
# options: Kaldi tables of room impulse responses and of noises
FAR_FIELD = ("rir_scp", "noise_scp")


def data(run: Run) -> None:
    say_what_is_left_out(run)
    if run.synthetic:
        kind = "librispeech" if sets.uses_whisper(run) else "libricss"
        size = sets.merge_settings(run)["corpus_size"]
        run_steps(asr.synthetic_corpus_step(run, kind, size=size))
    if run.of_data_dirs:
        run_steps(asr.data_dirs_step(run))
        return
    corpus = sets.locate_librispeech(run)
    parts = sets.list_parts(run)
    folders = [corpus / part for part in parts]
    names = {part: part for part in parts}
    run_steps(
        asr.data_step(
            run, "librispeech", folders, names, corpus_dir=str(corpus), parts=parts
        )
    )
    libricss = sets.locate_libricss(run)
    if libricss:
        run_steps(sets.libricss_step(run, libricss))


def mixtures(run: Run) -> None:
    # one after the other: each reads what the one before has made
    run_jobs([sets.voices_steps(run)])
    run_jobs([sets.profiles_steps(run)])
    run_jobs([sets.mixtures_steps(run)])
    run_jobs([sets.counts_steps(run)])
    sets.write_table_1(run)


def write_recogniser_config(run: Run, training: str = "") -> Path:
    """Write the recogniser's config, or of its ``first`` or ``windows`` training."""
    section = name_recogniser_section(run)
    name = section
    overlays: list[Mapping[str, Any]] = []
    if training:
        name = f"sa_asr_{training}"
        overlays.append(run.sections[name])
    if run.path("speaker_model"):
        # profiles are as long as this speaker model makes them
        file = sets.locate_profiles(run, "train") / "profiles.scp"
        rows = next(iter(read_profiles([file]).values()))
        overlays.append({"model_conf": {"profile_size": rows.shape[1]}})
    if adds_far_field(run):
        files = {name: str(run.path(name)) for name in FAR_FIELD if run.path(name)}
        overlays.append({**run.sections["sa_asr_far_field"], **files})
    return run.write_section_config(section, *overlays, name=name)


def name_recogniser_section(run: Run) -> str:
    """Return the section of the recogniser's config."""
    # that of --asr_config is called after its system
    if run.own and run.own.below:
        return run.own.name
    return f"sa_asr_{run.setting('recogniser')}"


def adds_far_field(run: Run) -> bool:
    """Return whether rooms or noise are added in training."""
    return any(run.path(name) for name in FAR_FIELD)


def computes_d_vectors_once(run: Run) -> bool:
    """Return whether the d-vectors of the training sets are computed once."""
    encoder, _ = choose_speaker_encoder(run)
    # with rooms and noise, which are drawn anew each time, they differ each time
    return encoder == "d_vectors" and not adds_far_field(run)


def list_trainings(run: Run) -> dict[str, str]:
    """Return the recogniser's trainings in their order, and the set of each.

    ``""`` is that on mixtures.
    """
    settings = run.sections["settings"]
    chosen = {"": "train_sa"}
    if settings["single_first"]:
        chosen = {"first": "train_single", **chosen}
    if settings["windows_last"]:
        chosen["windows"] = "train_windows"
    return chosen


def read_search_options(run: Run) -> SearchOptions:
    return check_settings(SearchOptions, run.sections["decode"], "section decode")


def locate_recogniser(run: Run, training: str) -> Path:
    return sets.locate_output(run, "recogniser") / training


def choose_speaker_encoder(run: Run) -> tuple[str, dict[str, Any]]:
    """Return the recogniser's speaker encoder and its options."""
    config = run.sections[name_recogniser_section(run)]
    return config["speaker_encoder"], config.get("speaker_encoder_conf") or {}


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    step = asr.tokens_step(
        run,
        "train_sa",
        asr.locate_tokens(run),
        settings["token_type"],
        settings["vocab_size"],
        symbols=["<sc>"],  # a change of the speaker is one token
    )
    run_steps(step)


def statistics(run: Run) -> None:
    folder = asr.locate_tokens(run)
    kind = run.sections["settings"]["token_type"]
    config = read_yaml(write_recogniser_config(run))
    names = list(list_trainings(run).values())
    steps = [
        asr.statistics_step(run, config, name, "dev_sa", folder, kind, task="sa_asr")
        for name in names
    ]
    run_beside_audio_check(run, *steps)
    if computes_d_vectors_once(run):
        run_steps(*(d_vectors_step(run, name) for name in (*names, "dev_sa")))


def locate_d_vectors(run: Run, name: str) -> Path:
    """Return the folder of a set's d-vectors, one for each speaker encoder.

    A recogniser of the user's own may have another.
    """
    _, options = choose_speaker_encoder(run)
    return run.datadir / name / f"d_vectors_{fingerprint(options)[:8]}"


def d_vectors_step(run: Run, name: str) -> Step:
    """Compute the output of the speaker encoder for a set.

    It is the network that makes the profiles, which is not trained.
    """
    data = run.datadir / name
    output = locate_d_vectors(run, name)
    _, options = choose_speaker_encoder(run)
    return Step(
        name=f"d-vectors of {name}",
        log=output / "log" / "d_vectors.log",
        function=write_d_vectors,
        arguments={"data": data, "output": output, "options": options},
        free=make_free_arguments(run, ngpu=run.gpu),
        inputs=[data / "wav.scp", data / "text"],
        outputs=[output / "d_vectors.scp"],
        preload=["espnet_ext.stitch.recogniser.d_vectors"],
    )


def recogniser(run: Run) -> None:
    run_jobs([train_recogniser(run)])


def train_recogniser(run: Run) -> Iterator[Step]:
    """Train the recogniser; each training begins with what the last one has learnt."""
    folder = asr.locate_tokens(run)
    kind = run.sections["settings"]["token_type"]
    profiles = sets.locate_profiles(run, "train") / "profiles.scp"
    sound = "sound"
    if sets.read_mixing(run)["train_sa"].audio == ON_THE_FLY:
        sound = "mixed_sound"
    before: dict[str, Path] = {}
    for training, name in list_trainings(run).items():
        output = locate_recogniser(run, training)
        options = ["--profiles", str(profiles)]
        inputs = [profiles]
        sources = {"train": run.datadir / name, "valid": run.datadir / "dev_sa"}
        for part, source in sources.items():
            tables = [(source / "text_speakers", "speakers", "text")]
            if computes_d_vectors_once(run):
                vectors = locate_d_vectors(run, source.name) / "d_vectors.scp"
                tables.append((vectors, "d_vectors", "kaldi_ark"))
            options += list_data_options(part, tables)
            inputs += [path for path, _, _ in tables]
        yield asr.asr_train_step(
            run,
            output,
            write_recogniser_config(run, training),
            name,
            "dev_sa",
            folder,
            kind,
            seed=1,
            task="sa_asr",
            options=options,
            files=before,
            inputs=inputs,
            sound=sound,
        )
        # beside the model, which may be used without this recipe
        window = run.sections["settings"]["window"] if training == "windows" else None
        decoding = DecodingSettings(search=read_search_options(run), window=window)
        write_json(output / DECODING, decoding.model_dump())
        before = {"--init_param": output / CHECKPOINT}


def hypotheses(run: Run) -> None:
    if sets.uses_whisper(run):  # no features are collected then
        run_beside_audio_check(run)
    ways = {str(system.windows) for system in run.systems}
    hear(run, sorted(ways), sets.list_test_sets(run))
    # stitchers learn from what is heard of training mixtures, cut as their own windows
    trained = [system for system in run.systems if system.kind == TRAIN]
    hear(run, sorted({str(system.windows) for system in trained}), ["train_stitch"])


def hear(run: Run, ways: Sequence[str], names: Sequence[str]) -> None:
    """Recognise sets, cut in several ways, in one step.

    Its processes load the model once.
    """
    places = list(product(ways, names))
    if not places:
        return
    run_steps(*(windows_step(run, way, name) for way, name in places if way != "whole"))
    if sets.uses_whisper(run):
        run_steps(*(whisper_step(run, way, name) for way, name in places))
        return
    *_, last_training = list_trainings(run)
    model = locate_recogniser(run, last_training)
    search = read_search_options(run)
    profiles = [sets.locate_profiles(run, name) / "profiles.scp" for name in names]
    jobs = []
    for way, name in places:
        job = SpeakerDecoding(
            model / "config.yaml",
            model / CHECKPOINT,
            locate_cut(run, way, name),
            tuple(dict.fromkeys(profiles)),
            sets.locate_output(run, "heard") / way / name,
            search,
            inventory=sets.locate_set(run, name) / "inventory",
        )
        jobs.append(job)
    recognise = Step(
        name=f"hear {' '.join(names)} ({' '.join(ways)})",
        log=sets.locate_output(run, "heard") / "log" / f"{names[0]}.log",
        function=recognise_sets,
        arguments={"jobs": jobs},
        free=make_free_arguments(run, ngpu=run.gpu),
        inputs=[*(job.data / "wav.scp" for job in jobs), model / CHECKPOINT],
        outputs=[job.output / "hypotheses.jsonl" for job in jobs],
        preload=[
            "espnet_ext.stitch.recogniser.task",
            "espnet_ext.stitch.recogniser.search",
        ],
    )
    run_steps(recognise)


def recognise_sets(
    jobs: Sequence[SpeakerDecoding], nj: int, parallel: Place | None, ngpu: int
) -> None:
    """Recognise each data dir with its inventory."""
    # not an argument of the step: the number of GPUs does not change its result
    jobs = [replace(job, ngpu=ngpu) for job in jobs]
    count = decode_speakers(jobs, nj=nj, parallel=parallel)
    print(f"{count} windows")


def locate_cut(run: Run, way: str, name: str) -> Path:
    """Return the data dir of a set that is cut in one way."""
    if way == "whole":
        return sets.locate_data_dir(run, name)
    return run.datadir / way / name


def windows_step(run: Run, windows: str, name: str) -> Step:
    """Cut a set into windows."""
    source = sets.locate_data_dir(run, name)
    output = run.datadir / windows / name
    return Step(
        name=f"{windows} of {name}",
        log=run.datadir / windows / "log" / f"{name}.log",
        function=write_windows,
        arguments={
            "data": source,
            "output": output,
            "windowing": sets.choose_windowing(run, windows),
        },
        inputs=[source / "wav.scp", source / "reco2dur"],
        outputs=[output / "segments"],
    )


def whisper_step(run: Run, way: str, name: str) -> Step:
    """Recognise a set that is cut in one way by Whisper."""
    cut = locate_cut(run, way, name)
    output = sets.locate_output(run, "heard") / way / name
    given = sets.merge_settings(run)["search"]
    search = check_settings(WhisperSearch, given, "search of settings_whisper")
    return Step(
        name=f"hear {name} ({way})",
        log=output / "log" / "hear.log",
        function=decode_turns,
        arguments={
            "data": cut,
            "references": sets.locate_references(run, name),
            "output": output,
            "search": search,
        },
        free={"nj": run.nj},
        inputs=[cut / "utt2dur"],
        outputs=[output / "hypotheses.jsonl"],
    )


# Table 1 only counts mixtures.
decoded = idle_if(lambda run: not run.systems, "these tables only count mixtures")


def trained(stage: Callable[[Run], None]) -> Callable[[Run], None]:
    """Mark a stage that makes a recogniser; Whisper is there already."""
    return decoded(idle_if(sets.uses_whisper, "Whisper is not trained")(stage))


def choose_tables(options: Mapping[str, str]) -> str:
    """Return the tables of a run.

    Table 4 needs LibriCSS, which the synthetic corpus has, and more than Whisper.
    """
    wanted = options["table"]
    whisper = options["recogniser"] == sets.WHISPER
    given = options["librispeech"] or options["data"]
    lacks_libricss = given and not options["libricss"]
    if lacks_libricss and not whisper and "4" in wanted.split(","):
        raise InputError("Table 4 needs --libricss DIR; README.md says what it holds")
    if wanted == "all" and (whisper or lacks_libricss):
        return "1,2,3"
    return wanted


def say_what_is_left_out(run: Run) -> None:
    """Say that ``--table all`` has no Table 4, and why."""
    ids = {table.id for table in run.selected}
    if run.options["table"] != "all" or "4" in ids:
        return
    reason = "it needs --libricss DIR"
    if sets.uses_whisper(run):
        reason = "Whisper cannot hear speakers who talk at once"
    show(f"Table 4 is left out: {reason}")


def tables(run: Run) -> None:
    """Make the tables; those of ``--table all`` that are left out are named again."""
    asr.tables(run)
    say_what_is_left_out(run)


def variant(options: Mapping[str, str]) -> str:
    """Return the end of the folders' names of runs whose recogniser is another one."""
    parts = []
    if options.get("recogniser") == sets.WHISPER:  # its mixtures are others
        parts.append("whisper")
    if options["speaker_model"]:
        parts.append("speaker_model")
    if any(options[name] for name in FAR_FIELD):
        parts.append("far_field")
    return "-".join(parts)


def check(run: Run) -> None:
    """Refuse options that do not fit each other, and files that are not there."""
    within = run.options["pairs_within"]
    # a number above 0, of at most four digits before the point
    is_number = re.fullmatch(r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]+)?", within)
    if within not in ("", "none") and not is_number:
        raise InputError(f"--pairs_within takes seconds or none, not '{within}'")
    if sets.uses_whisper(run):
        check_whisper(run)
        return
    if run.of_data_dirs and run.options["libricss"]:
        raise InputError(
            "--libricss needs --librispeech DIR in place of --data: profiles are made "
            "of what its sessions play"
        )
    if run.synthetic and run.options["libricss"]:
        raise InputError(
            "--libricss needs --librispeech DIR: profiles are made of what its "
            "sessions play"
        )
    if sets.find_speaker_model(run) and choose_speaker_encoder(run)[0] == "d_vectors":
        raise InputError(
            f"--speaker_model: the recogniser {run.setting('recogniser')} hears "
            "speakers by Resemblyzer's network and "
            "needs its profiles; add --recogniser conformer"
        )


def check_whisper(run: Run) -> None:
    """Refuse what Whisper cannot do, and options of recognisers that are trained."""
    if "4" in {table.id for table in run.selected}:
        raise InputError(
            "Table 4 is of speakers who talk at once, which Whisper cannot "
            "hear: leave out --table 4"
        )
    for name in ("libricss", "speaker_model", "asr_config", *FAR_FIELD):
        if run.options[name]:
            raise InputError(
                f"--{name} is for a recogniser that is trained: leave it out "
                "with --recogniser whisper"
            )


def trains_stitchers(run: Run) -> bool:
    """Return whether a row of the run is a stitcher."""
    return any(system.kind == TRAIN for system in run.systems)


RECIPE = Recipe(
    corpus="librispeech",
    features="sa_asr_lstm",
    shows_test_sets=False,
    trained={
        "asr_config": Trained("merge", "sa_asr_", command="sa_asr_train"),
        "stitcher_config": Trained(command="mt_train"),
    },
    options={
        "recogniser": "",
        "libricss": "",
        "enrolment_list": "",
        "speaker_model": "",
        "speaker_model_config": "",
        "rir_scp": "",
        "noise_scp": "",
        "clean_only": "false",
        "pairs_within": "",
    },
    paths=(
        "libricss",
        "enrolment_list",
        "speaker_model",
        "speaker_model_config",
        *FAR_FIELD,
    ),
    choices={
        "recogniser": ("lstm", "conformer", sets.WHISPER),
        "clean_only": ("true", "false"),
    },
    variant=variant,
    untagged=("recogniser",),  # the training of another one is refused
    choose_tables=choose_tables,
    check=check,
    trains=lambda run: trains_stitchers(run) or not sets.uses_whisper(run),
    uses_gpu_here=lambda run: "stitching" if trains_stitchers(run) else "",
    stages={
        "data": data,
        "mixtures": mixtures,
        "tokens": trained(tokens),
        "statistics": trained(statistics),
        "recogniser": trained(recogniser),
        "hypotheses": decoded(hypotheses),
        "training": decoded(stitchers.training),
        "stitching": decoded(stitchers.stitching),
        "tables": tables,
    },
)

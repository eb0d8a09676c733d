"""The stages of run.sh: a speaker-attributed recogniser for mixtures, and stitchers
that merge what it hears.

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
FAR_FIELD = (
    "rir_scp",
    "noise_scp",
)  # options: Kaldi tables of room impulse responses and of noises


def data(run: Run) -> None:
    say_what_is_left_out(run)
    if run.synthetic:
        kind = "librispeech" if sets.whisper(run) else "libricss"
        run_steps(
            asr.synthetic_corpus(run, kind, size=sets.settings(run)["corpus_size"])
        )
    if run.of_data_dirs:
        run_steps(asr.data_dirs_step(run))
        return
    corpus, parts, libricss = sets.librispeech(run), sets.parts(run), sets.libricss(run)
    folders = [corpus / part for part in parts]
    names = {part: part for part in parts}
    run_steps(
        asr.data_step(
            run, "librispeech", folders, names, corpus_dir=str(corpus), parts=parts
        )
    )
    if libricss:
        run_steps(sets.libricss_step(run, libricss))


def mixtures(run: Run) -> None:
    for steps in (
        sets.voices_steps,
        sets.profiles_steps,
        sets.mixtures_steps,
        sets.counts_steps,
    ):
        run_jobs([steps(run)])
    sets.write_table_1(run)


def recogniser_config(run: Run, training: str = "") -> Path:
    """Write the config of the recogniser, or of another of its trainings, ``first`` or
    ``windows``.
    """
    section = recogniser_section(run)
    overlays: list[Mapping[str, Any]] = (
        [run.sections[f"sa_asr_{training}"]] if training else []
    )
    if run.path("speaker_model"):
        rows = next(
            iter(read_profiles([sets.profiles(run, "train") / "profiles.scp"]).values())
        )
        overlays.append({"model_conf": {"profile_size": rows.shape[1]}})
    if far_field(run):
        files = {name: str(run.path(name)) for name in FAR_FIELD if run.path(name)}
        overlays.append({**run.sections["sa_asr_far_field"], **files})
    return run.write_section_config(
        section, *overlays, name=f"sa_asr_{training}" if training else section
    )


def recogniser_section(run: Run) -> str:
    """The section of the recogniser's config; that of --asr_config is called after its
    system.
    """
    return (
        run.own.name
        if run.own and run.own.below
        else f"sa_asr_{run.setting('recogniser')}"
    )


def far_field(run: Run) -> bool:
    """Are rooms or noise added in training?"""
    return any(run.path(name) for name in FAR_FIELD)


def computed_d_vectors(run: Run) -> bool:
    """Are the d-vectors of the training sets computed once? With rooms and noise, they
    differ each time.
    """
    return speaker_encoder(run)[0] == "d_vectors" and not far_field(run)


def trainings(run: Run) -> dict[str, str]:
    """The recogniser's trainings in their order, and the set of each; ``""`` is that on
    mixtures.
    """
    settings = run.sections["settings"]
    chosen = {
        "first": settings["single_first"],
        "": True,
        "windows": settings["windows_last"],
    }
    names = {"first": "train_single", "": "train_sa", "windows": "train_windows"}
    return {training: names[training] for training, wanted in chosen.items() if wanted}


def search_options(run: Run) -> SearchOptions:
    return check_settings(SearchOptions, run.sections["decode"], "section decode")


def recogniser_folder(run: Run, training: str) -> Path:
    return sets.below(run, "recogniser") / training


def speaker_encoder(run: Run) -> tuple[str, dict[str, Any]]:
    """The recogniser's speaker encoder and its options."""
    config = run.sections[recogniser_section(run)]
    return config["speaker_encoder"], config.get("speaker_encoder_conf") or {}


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    folder, kind, size = (
        asr.tokens_dir(run),
        settings["token_type"],
        settings["vocab_size"],
    )
    run_steps(asr.tokens_step(run, "train_sa", folder, kind, size, symbols=["<sc>"]))


def statistics(run: Run) -> None:
    folder, kind = asr.tokens_dir(run), run.sections["settings"]["token_type"]
    config = read_yaml(recogniser_config(run))
    names = list(trainings(run).values())
    run_beside_audio_check(
        run,
        *(
            asr.statistics_step(
                run, config, name, "dev_sa", folder, kind, task="sa_asr"
            )
            for name in names
        ),
    )
    if computed_d_vectors(run):
        run_steps(*(d_vectors_step(run, name) for name in (*names, "dev_sa")))


def d_vectors_dir(run: Run, name: str) -> Path:
    """Return the folder of a set's d-vectors, one for each speaker encoder.

    A recogniser of the user's own may have another.
    """
    _, options = speaker_encoder(run)
    return run.datadir / name / f"d_vectors_{fingerprint(options)[:8]}"


def d_vectors_step(run: Run, name: str) -> Step:
    """The output of the speaker encoder, which is the network of the profiles, for a
    set.
    """
    data, output = run.datadir / name, d_vectors_dir(run, name)
    _, options = speaker_encoder(run)
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
    """The recogniser's trainings; each begins with what the one before has learnt."""
    folder, kind = asr.tokens_dir(run), run.sections["settings"]["token_type"]
    before: dict[str, Path] = {}
    for training, name in trainings(run).items():
        output, profiles = (
            recogniser_folder(run, training),
            sets.profiles(run, "train") / "profiles.scp",
        )
        options, inputs = ["--profiles", str(profiles)], [profiles]
        for part, source in (
            ("train", run.datadir / name),
            ("valid", run.datadir / "dev_sa"),
        ):
            tables = [(source / "text_speakers", "speakers", "text")]
            if computed_d_vectors(run):
                vectors = d_vectors_dir(run, source.name) / "d_vectors.scp"
                tables.append((vectors, "d_vectors", "kaldi_ark"))
            options += list_data_options(part, tables)
            inputs += [path for path, _, _ in tables]
        yield asr.asr_train_step(
            run,
            output,
            recogniser_config(run, training),
            name,
            "dev_sa",
            folder,
            kind,
            seed=1,
            task="sa_asr",
            options=options,
            files=before,
            inputs=inputs,
            sound="mixed_sound"
            if sets.mixing(run)["train_sa"].audio == ON_THE_FLY
            else "sound",
        )
        window = run.sections["settings"]["window"] if training == "windows" else None
        write_json(
            output / DECODING,
            DecodingSettings(search=search_options(run), window=window).model_dump(),
        )
        before = {"--init_param": output / CHECKPOINT}


def hypotheses(run: Run) -> None:
    if sets.whisper(run):  # no features are collected then
        run_beside_audio_check(run)
    tests, learnt = (
        sets.test_sets(run),
        [system for system in run.systems if system.kind == TRAIN],
    )
    hear(run, sorted({str(system.windows) for system in run.systems}), tests)
    hear(run, sorted({str(system.windows) for system in learnt}), ["train_stitch"])


def hear(run: Run, ways: Sequence[str], names: Sequence[str]) -> None:
    """Recognise sets, cut in several ways, in one step, whose processes load the model
    once.
    """
    places = [(way, name) for way in ways for name in names]
    if not places:
        return
    run_steps(*(windows_step(run, way, name) for way, name in places if way != "whole"))
    if sets.whisper(run):
        run_steps(*(whisper_step(run, way, name) for way, name in places))
        return
    model, search = (
        recogniser_folder(run, list(trainings(run))[-1]),
        search_options(run),
    )
    files = tuple(
        dict.fromkeys(sets.profiles(run, name) / "profiles.scp" for name in names)
    )
    jobs = [
        SpeakerDecoding(
            model / "config.yaml",
            model / CHECKPOINT,
            cut_dir(run, way, name),
            files,
            sets.below(run, "heard") / way / name,
            search,
            inventory=sets.folder(run, name) / "inventory",
        )
        for way, name in places
    ]
    recognise = Step(
        name=f"hear {' '.join(names)} ({' '.join(ways)})",
        log=sets.below(run, "heard") / "log" / f"{names[0]}.log",
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
    count = decode_speakers(
        [replace(job, ngpu=ngpu) for job in jobs], nj=nj, parallel=parallel
    )
    print(f"{count} windows")


def cut_dir(run: Run, way: str, name: str) -> Path:
    """The data dir of a set that is cut in one way."""
    return sets.data_dir(run, name) if way == "whole" else run.datadir / way / name


def windows_step(run: Run, windows: str, name: str) -> Step:
    """The windows of a set, cut in one way."""
    source, output = sets.data_dir(run, name), run.datadir / windows / name
    return Step(
        name=f"{windows} of {name}",
        log=run.datadir / windows / "log" / f"{name}.log",
        function=write_windows,
        arguments={
            "data": source,
            "output": output,
            "windowing": sets.windowing(run, windows),
        },
        inputs=[source / "wav.scp", source / "reco2dur"],
        outputs=[output / "segments"],
    )


def whisper_step(run: Run, way: str, name: str) -> Step:
    """What Whisper hears of a set that is cut in one way."""
    cut, output = cut_dir(run, way, name), sets.below(run, "heard") / way / name
    search = check_settings(
        WhisperSearch, sets.settings(run)["search"], "search of settings_whisper"
    )
    return Step(
        name=f"hear {name} ({way})",
        log=output / "log" / "hear.log",
        function=decode_turns,
        arguments={
            "data": cut,
            "references": sets.references(run, name),
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
    """A stage that makes a recogniser; Whisper is there."""
    return decoded(idle_if(sets.whisper, "Whisper is not trained")(stage))


def choose_tables(options: Mapping[str, str]) -> str:
    """The tables of a run: Table 4 needs LibriCSS, which the synthetic corpus has, and
    more than Whisper.
    """
    wanted, whisper = options["table"], options["recogniser"] == sets.WHISPER
    given = options["librispeech"] or options["data"]
    lacks_libricss = given and not options["libricss"]
    if lacks_libricss and not whisper and "4" in wanted.split(","):
        raise InputError("Table 4 needs --libricss DIR; README.md says what it holds")
    return "1,2,3" if wanted == "all" and (whisper or lacks_libricss) else wanted


def say_what_is_left_out(run: Run) -> None:
    """Say that ``--table all`` has no Table 4, and why."""
    if run.options["table"] == "all" and "4" not in {
        table.id for table in run.selected
    }:
        reason = (
            "Whisper cannot hear speakers who talk at once"
            if sets.whisper(run)
            else "it needs --libricss DIR"
        )
        show(f"Table 4 is left out: {reason}")


def tables(run: Run) -> None:
    """Make the tables; those of ``--table all`` that are left out are named again."""
    asr.tables(run)
    say_what_is_left_out(run)


def variant(options: Mapping[str, str]) -> str:
    """The end of the folders' names of runs whose recogniser is another one."""
    whisper = options.get("recogniser") == sets.WHISPER  # its mixtures are others
    far = any(options[name] for name in FAR_FIELD)
    parts = {
        "whisper": whisper,
        "speaker_model": options["speaker_model"],
        "far_field": far,
    }
    return "-".join(name for name, given in parts.items() if given)


def check(run: Run) -> None:
    """Refuse a speaker model that is not there, one for a recogniser that needs other
    profiles, and other mistakes.
    """
    within = run.options["pairs_within"]
    if (
        within
        and within != "none"
        and not re.fullmatch(r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]+)?", within)
    ):
        raise InputError(f"--pairs_within takes seconds or none, not '{within}'")
    if sets.whisper(run):
        if "4" in {table.id for table in run.selected}:
            raise InputError(
                "Table 4 is of speakers who talk at once, which Whisper cannot "
                "hear: leave out --table 4"
            )
        given = [
            f"--{name}"
            for name in ("libricss", "speaker_model", "asr_config", *FAR_FIELD)
            if run.options[name]
        ]
        if given:
            raise InputError(
                f"{given[0]} is for a recogniser that is trained: leave it out "
                "with --recogniser whisper"
            )
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
    if sets.speaker_model(run) and speaker_encoder(run)[0] == "d_vectors":
        raise InputError(
            f"--speaker_model: the recogniser {run.setting('recogniser')} hears "
            "speakers by Resemblyzer's network and "
            "needs its profiles; add --recogniser conformer"
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
    trains=lambda run: trains_stitchers(run) or not sets.whisper(run),
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

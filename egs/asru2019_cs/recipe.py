"""The stages of run.sh: decoders with attention by language, for code-switching speech.

Speech and text are Mandarin and English.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.encodings import SHAPES, write_encodings
from espnet_ext.codeswitch.mixed_units import write_english
from espnet_ext.corpora.asru2019 import find_folders
from espnet_ext.corpora.code_switching import (
    LAYOUTS,
    SET_NAMES,
    VALID,
    WITHOUT_DEV,
    find_part_folder,
)
from espnet_ext.corpora.data_dirs import DEV
from espnet_ext.errors import InputError
from espnet_ext.recipe import asr
from espnet_ext.recipe.audio_check import run_beside_audio_check
from espnet_ext.recipe.gpus import run_each_system
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.recipe.training import (
    average_step,
    list_data_options,
    list_token_options,
    make_free_arguments,
    name_average,
    train_step,
)
from espnet_ext.registry import strip_package
from espnet_ext.tables.plan import merge_system_config
from espnet_ext.tables.schema import System
from espnet_ext.work.files import expand_home
from espnet_ext.work.yaml_files import deep_merge

TEST_SETS = ("dev", "test")
ENGLISH = "english"  # the folder of English words of transcripts that have both
SPOKEN = "train-cs"
# with the utterances that are held out of it, where the corpus has no dev set
WHOLE = f"{SPOKEN}-whole"
# Keys of a training config that say what all decoders share in a run with one encoder.
SHARED = {
    f"{part}{conf}"
    for part in ("frontend", "specaug", "normalize", "encoder")
    for conf in ("", "_conf")
}


def train_parts(run: Run) -> list[str]:
    """Return all parts that a system may be trained on.

    They share one vocabulary, so every table needs all of them.
    """
    every = run.sections["settings"]["train_parts"]
    if run.of_data_dirs:
        return [
            part for part in every if part == SPOKEN or (run.corpus / part).is_dir()
        ]
    return every


def test_sets(run: Run) -> list[str]:
    """Return the sets on which systems are compared."""
    return run.data_tests if run.of_data_dirs else list(TEST_SETS)


def has_own_valid(run: Run) -> bool:
    """Tell whether a corpus without a dev set has a part to watch trainings on.

    SEAME has one in ESPnet's recipe.
    """
    corpus = run.options["corpus"]
    if run.synthetic or corpus not in WITHOUT_DEV:
        return False
    if VALID in read_part_folders(run):
        return True
    return find_part_folder(corpus, run.corpus, VALID).exists()


def lacks_dev(run: Run) -> bool:
    """Tell whether a corpus has no dev set, nor a part in place of one.

    Trainings are then watched on utterances that are held out of its training part.
    """
    return (
        not run.synthetic
        and run.options["corpus"] in WITHOUT_DEV
        and not has_own_valid(run)
    )


def name_valid_set(run: Run) -> str:
    """Return the data dir on which trainings are watched.

    It is dev, or the first utterances of some speakers.
    """
    if run.of_data_dirs:
        return DEV
    held_out = (
        lacks_dev(run)
        or has_own_valid(run)
        or run.sections["settings"]["valid_utterances"]
    )
    return VALID if held_out else "dev"


def name_training_set(system: System) -> str:
    """Return the data dir of a system's training: ``a+b`` for the parts a and b."""
    return "+".join(system.data)


def list_training_sets(run: Run) -> list[str]:
    """Return the training sets of this run, each once."""
    return list(dict.fromkeys(name_training_set(system) for system in run.systems))


def data(run: Run) -> None:
    combined = [
        asr.combine_step(run, name, name.split("+")) for name in list_combined_sets(run)
    ]
    if run.of_data_dirs:
        run_steps(asr.data_dirs_step(run, train=SPOKEN), *combined)
        return
    librispeech = run.path("librispeech")
    mandarin = run.path("mandarin")
    folders = read_part_folders(run)
    names = {part: part for part in (*train_parts(run), *TEST_SETS)}
    if run.synthetic:
        run_steps(asr.synthetic_corpus_step(run, "asru2019"))
    # The whole part has a name of its own: the one to train on is made of it later.
    if lacks_dev(run):
        names[SPOKEN] = WHOLE
    if has_own_valid(run):
        names[VALID] = VALID
    others = [path for path in (librispeech, mandarin) if path]
    watched = [run.corpus, *others, *map(Path, folders.values())]
    run_steps(
        asr.data_step(
            run,
            "asru2019",
            watched,
            names,
            corpus_dir=str(run.corpus),
            layout=run.options["corpus"],
            folders=folders,
            mandarin_dir=mandarin and str(mandarin),
            librispeech_dir=librispeech and str(librispeech),
            parts=list(names),
        ),
        *make_held_out_steps(run),
        *combined,
    )


def make_held_out_steps(run: Run) -> Iterator[Step]:
    """Make the set on which trainings are watched, if it is not the whole of dev."""
    settings = run.sections["settings"]
    if lacks_dev(run):
        count = settings["held_out_utterances"]
        yield asr.subset_step(
            run, name_valid_set(run), WHOLE, count, "first_per_speaker"
        )
        yield asr.subset_step(run, SPOKEN, WHOLE, count, "after_first_per_speaker")
    elif not has_own_valid(run) and (count := settings["valid_utterances"]):
        yield asr.subset_step(
            run, name_valid_set(run), "dev", count, "first_per_speaker"
        )


def list_combined_sets(run: Run) -> list[str]:
    """List the training sets of several parts, and that of all parts."""
    # That of all parts is always made: tokens are of it, and so is an encoder that
    # systems share or go on with.
    sets = ["+".join(train_parts(run)), *list_training_sets(run)]
    return [name for name in dict.fromkeys(sets) if "+" in name]


def read_part_folders(run: Run) -> dict[str, str]:
    """Return the folders that --folders names, by part."""
    # Relative ones are in the corpus; joining an absolute path to that gives the path.
    items = run.options["folders"].split(",")
    pairs = [item.partition("=") for item in items if item]
    if not all(part and folder for part, _, folder in pairs):
        raise InputError(
            "--folders takes PART=DIR with commas between, not "
            f"'{run.options['folders']}'"
        )
    return {
        part.strip(): str(run.corpus / expand_home(folder.strip()))
        for part, _, folder in pairs
    }


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    # P1 does not say what its word pieces are learnt from. Here it is transcripts of
    # English speech, and without them the English words of code-switching speech.
    english = [part for part in settings["english_parts"] if part in train_parts(run)]
    if not english:
        english = [ENGLISH]
        run_steps(make_english_step(run))
    run_steps(
        asr.tokens_step(
            run,
            "+".join(train_parts(run)),
            asr.locate_tokens(run),
            settings["token_type"],
            settings["vocab_size"],
            english=english,
        )
    )


def make_english_step(run: Run) -> Step:
    """Take the English words from the code-switching transcripts.

    Data dirs of one's own may have no English ones.
    """
    output = run.datadir / ENGLISH / "text"
    return Step(
        name="English words",
        log=run.datadir / "log" / "english.log",
        function=write_english,
        arguments={"text": run.datadir / SPOKEN / "text", "output": output},
        outputs=[output],
    )


def shares_encoder(run: Run) -> bool:
    """Tell whether all systems use the outputs of one encoder."""
    return run.setting("encoder") == "shared"


def continues_encoder(run: Run) -> bool:
    """Tell whether each system goes on training a copy of one encoder."""
    return run.setting("encoder") == "pretrained"


def statistics(run: Run) -> None:
    """Collect statistics of each training's features and data, the same ones once."""
    token_type = run.sections["settings"]["token_type"]
    steps = [
        asr.statistics_step(
            run, config, name, name_valid_set(run), asr.locate_tokens(run), token_type
        )
        for config, name in list_trained_on(run)
    ]
    # Two steps with one log are the same.
    run_beside_audio_check(run, *{step.log: step for step in steps}.values())


def list_trained_on(run: Run) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Return configs of trainings, with data dirs that they need statistics of.

    A data dir is one by which features are normalised, or which is trained on.
    """
    all_data = "+".join(train_parts(run))
    if shares_encoder(run) or continues_encoder(run):
        yield run.sections["train"], all_data
    if shares_encoder(run):
        return
    for system in run.systems:
        config = merge_system_config(run.sections, system)
        # Its features are normalised as those of the encoder with which it begins.
        if continues_encoder(run):
            yield config, all_data
        yield config, name_training_set(system)


def encoder(run: Run) -> None:
    """Train the encoder that all systems use or go on with.

    If they use it as it is, its outputs are kept.
    """
    if not shares_encoder(run) and not continues_encoder(run):
        print("each system trains its own encoder")
        return
    folder = locate_encoder(run)
    all_data = "+".join(train_parts(run))
    settings = run.sections["settings"]
    config = run.write_section_config("train", run.sections["encoder"], name="encoder")
    run_steps(
        asr.asr_train_step(
            run,
            folder,
            config,
            all_data,
            name_valid_set(run),
            asr.locate_tokens(run),
            settings["token_type"],
            seed=1,
        ),
        average_step(
            run, folder, settings["encoder_average"], criterion="valid.loss.min"
        ),
        *(make_encode_step(run, name) for name in list_encoded_sets(run)),
    )


def list_encoded_sets(run: Run) -> list[str]:
    """Return the data dirs whose encodings are kept: none if the encoder changes."""
    return (
        list(
            dict.fromkeys(
                (*list_training_sets(run), name_valid_set(run), *test_sets(run))
            )
        )
        if shares_encoder(run)
        else []
    )


def locate_encoder(run: Run) -> Path:
    return run.expdir / "encoder"


def locate_encoder_model(run: Run) -> Path:
    return locate_encoder(run) / name_average(
        run.sections["settings"]["encoder_average"]
    )


def locate_encodings(run: Run) -> Path:
    """Return the folder with the encoder's outputs for each data dir."""
    return run.expdir / "encodings"


def make_encode_step(run: Run, name: str) -> Step:
    """Write the encoder's outputs for one data dir."""
    return Step(
        name=f"encodings of {name}",
        log=locate_encodings(run) / "log" / f"{name}.log",
        function=write_encodings,
        arguments={
            "data": str(run.datadir / name),
            "output": str(locate_encodings(run) / name),
            "config": locate_encoder(run) / "config.yaml",
            "model": locate_encoder_model(run),
        },
        free=make_free_arguments(run),
        inputs=[run.datadir / name / table for table in ("wav.scp", "text")],
        outputs=[locate_encodings(run) / name / "feats.scp"],
        preload=["espnet2.tasks.asr"],
    )


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    if shares_encoder(run) or continues_encoder(run):
        yield (
            train_decoder_step(run, system, seed)
            if shares_encoder(run)
            else train_further_step(run, system, seed)
        )
        yield average_step(
            run, run.locate_training(system, seed), run.setting("average")
        )
        return
    yield from asr.train_and_average(
        run,
        system,
        seed,
        name_training_set(system),
        name_valid_set(run),
        asr.locate_tokens(run),
        options=list_language_options(run, system),
    )


def list_language_options(run: Run, system: System) -> list[str]:
    """Return the option that names the tokens' languages, if the decoder has it."""
    decoder = merge_system_config(run.sections, system).get("decoder")
    if strip_package(decoder) != "language_transformer":
        return []
    return [
        "--decoder_conf",
        f"languages_file={asr.locate_tokens(run) / 'languages.txt'}",
    ]


def train_decoder_step(run: Run, system: System, seed: int) -> Step:
    """Train a decoder on kept outputs of the encoder, whose CTC layer it takes over."""
    config = deep_merge(
        merge_system_config(run.sections, system), run.sections["stored"]
    )
    path = run.write_config(
        system.name, config, f"system {system.name} on the outputs of one encoder"
    )
    words = [
        "--seed",
        str(seed),
        *list_token_options(
            asr.locate_tokens(run), run.sections["settings"]["token_type"]
        ),
    ]
    words += [
        *list_language_options(run, system),
        "--init_param",
        f"{locate_encoder_model(run)}:ctc:ctc",
    ]
    made = [locate_encoder_model(run), asr.locate_tokens(run) / "tokens.txt"]
    for part, name in (
        ("train", name_training_set(system)),
        ("valid", name_valid_set(run)),
    ):
        folder = locate_encodings(run) / name
        tables = [
            (folder / "feats.scp", "speech", "kaldi_ark"),
            (folder / "text", "text", "text"),
        ]
        words += [
            *list_data_options(part, tables),
            f"--{part}_shape_file",
            str(folder / SHAPES),
        ]
        made += [folder / "feats.scp", folder / "text"]
    folder = run.locate_training(system, seed)
    return train_step(
        run, folder, "asr_train", words, inputs=made, files={"--config": path}
    )


def train_further_step(run: Run, system: System, seed: int) -> Step:
    """Train a decoder with an encoder and a CTC layer that begin as trained ones.

    They see the same features as in their own training.
    """
    settings = run.sections["settings"]
    name = name_training_set(system)
    encoder_trained = deep_merge(
        merge_system_config(run.sections, system), run.sections["encoder"]
    )
    config = deep_merge(encoder_trained, run.sections["pretrained"])
    return asr.asr_train_step(
        run,
        run.locate_training(system, seed),
        run.write_config(
            system.name,
            config,
            f"system {system.name}, which begins with a trained encoder",
        ),
        name,
        name_valid_set(run),
        asr.locate_tokens(run),
        settings["token_type"],
        seed,
        options=[
            *list_language_options(run, system),
            "--init_param",
            *(f"{locate_encoder_model(run)}:{x}:{x}" for x in ("encoder", "ctc")),
        ],
        inputs=[locate_encoder_model(run)],
        statistics="+".join(train_parts(run)),
    )


def training(run: Run) -> None:
    run_each_system(run, train_system)


def decoding(run: Run) -> None:
    folder = locate_encodings(run) if shares_encoder(run) else None
    run_each_system(
        run,
        lambda run, system, seed, nj: asr.decode_system(
            run, system, seed, nj, test_sets(run), asr.locate_tokens(run), data=folder
        ),
        shards=True,
    )


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, test_sets(run), "mer")])


def tables(run: Run) -> None:
    """Make the tables, and name the corpus by what its test sets are called.

    The paper's numbers are of the challenge's test sets, so tables of other corpora
    have none.
    """
    own = run.synthetic or run.of_data_dirs
    others = {} if own else SET_NAMES.get(run.options["corpus"], {})
    said = ", ".join(f"{column} is {name}" for column, name in others.items())
    papers = run.synthetic or run.options["corpus"] == "asru2019"
    asr.tables(
        run, corpus=f"{run.corpus_name} ({said})" if said else None, paper=papers
    )


def check(run: Run) -> None:
    """Refuse what would end in stage 1, after the synthetic corpus is made."""
    if run.synthetic and run.options["corpus"] != "asru2019":
        raise InputError(
            f"--corpus {run.options['corpus']} needs its folder: give --asru2019 DIR"
        )
    if (
        run.own
        and shares_encoder(run)
        and any(
            run.own.config.get(key) != run.sections["train"].get(key) for key in SHARED
        )
    ):
        raise InputError(
            f"--{run.own.option} has an encoder of its own, and at this scale all "
            "systems share one: "
            "add --encoder joint, or change only the decoder of a system (base: SYSTEM)"
        )
    if run.of_data_dirs:
        check_data_dirs(run)
    named = read_part_folders(run)
    if named and (run.synthetic or run.of_data_dirs):
        raise InputError("--folders names folders of a corpus: give --asru2019 DIR")
    if named:
        find_folders(run.corpus, list(named), named, layout=run.options["corpus"])


def check_data_dirs(run: Run) -> None:
    """Refuse rows that are trained on parts that a folder of data dirs has not."""
    there = train_parts(run)
    for system in run.systems:
        missing = [part for part in system.data if part not in there]
        if missing:
            raise InputError(
                f"{run.corpus}: system {system.name} is trained on {missing[0]} too: "
                "add a data dir of this name, or choose other --rows"
            )
    for name in ("mandarin", "librispeech"):
        if run.options[name]:
            raise InputError(f"--{name} is for --asru2019: with --data, add data dirs")


RECIPE = Recipe(
    corpus="asru2019",
    data_parts=("train-zh", "train-clean-100", "train-clean-360"),
    trained={"asr_config": Trained()},
    options={
        "corpus": "asru2019",
        "folders": "",
        "mandarin": "",
        "librispeech": "",
        "encoder": "",
        "average": "",
    },
    paths=("mandarin", "librispeech"),
    choices={"corpus": tuple(LAYOUTS), "encoder": ("joint", "shared", "pretrained")},
    variant=lambda options: options["encoder"],
    check=check,
    untagged=("corpus", "encoder"),
    decoding=("average",),
    stages={
        "data": data,
        "tokens": tokens,
        "statistics": statistics,
        "encoder": encoder,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": tables,
    },
)

"""The stages of run.sh: N-best lists, language models to rescore them, error rates."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from espnet_ext.corpora import data_dirs
from espnet_ext.corpora.librispeech import PARTS as LIBRISPEECH_PARTS
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.nbest.oracle import format_oracle_report, report_lists, write_choice
from espnet_ext.nbest.selection import Selection, parse_parts
from espnet_ext.nbest.sources import (
    convert_part,
    find_listed_parts,
    find_lists,
    has_references,
    write_references,
)
from espnet_ext.recipe import asr, librispeech
from espnet_ext.recipe.audio_check import run_beside_audio_check
from espnet_ext.recipe.gpus import Make, run_each_system, run_side_by_side
from espnet_ext.recipe.language_model import require_lm_text
from espnet_ext.recipe.librispeech import find_lm_text
from espnet_ext.recipe.options import split_names
from espnet_ext.recipe.own_system import OwnSystem, Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.steps import Step, run_jobs, run_steps, show
from espnet_ext.recipe.training import average_step, make_free_arguments, name_average
from espnet_ext.rescore import ScorerKind, check_model_path, is_gguf
from espnet_ext.rescore.second_pass import LanguageModel, SecondPass, rescore
from espnet_ext.rescore.training import write_quantities
from espnet_ext.scoring.normalise import NORMALISERS
from espnet_ext.synthetic.librispeech import make_lm_text
from espnet_ext.tables.plan import FULL, load_scale, merge_system_config
from espnet_ext.tables.schema import TRAIN, System
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.launch import is_kaldi_wrapper
from espnet_ext.work.once import stamp_folders
from espnet_ext.work.settings import check_settings, list_known

ESPNET = "espnet"  # a value of --first_pass
# Sections of a family's training on the LM text, and those of systems that are trained
# on transcripts; all others are trained on lists.
ADAPTATION = {"gpt2": "adapt_causal", "bert": "adapt_masked"}
TRANSCRIPTS = ("ce_causal", "ce_masked")
MODELS = ("whisper", "gpt2", "bert")  # options: folders, or names on the hub
LISTS = "nbest_lists"  # an option: lists in place of a first pass
LATENCY = "latency"  # a column of tables
NORMALISER = "normaliser"  # an option and a setting: of hypotheses and references
PARTS = "first_pass_parts"  # an option and a setting: what their score is made of
TRAIN_LISTS = "train_lists"  # an option: the parts of these lists to train on
HERE = Path(__file__).parent
OUR_LISTS = HERE / "lists"  # of the synthetic corpus, which come with the recipe


def has_lists_alone(run: Run) -> bool:
    """Is the corpus nothing but lists of the user's own?"""
    return are_lists_alone(run.options)


def are_lists_alone(options: Mapping[str, str]) -> bool:
    """Do these options give lists of the user's own, and no corpus?"""
    given = options[LISTS]
    has_corpus = bool(options[RECIPE.corpus_given(options)])
    # the recipe's own lists have the synthetic corpus behind them: it is made again
    return bool(given) and not has_corpus and OUR_LISTS not in Path(given).parents


def find_own_test_sets(options: Mapping[str, str]) -> list[str]:
    """Find the test sets in lists alone whose parts have names of their own.

    There are none where the development sets have LibriSpeech's names. Raises
    InputError: ``dev`` or a test set is missing, or cannot have its name.
    """
    folder = Path(options[LISTS])
    # a path that is no folder is refused with those of all options, later
    if not are_lists_alone(options) or not folder.is_dir():
        return []
    if any(find_lists(folder, part) for part in ("dev-clean", "dev-other")):
        return []
    if not find_lists(folder, data_dirs.DEV):
        raise InputError(
            f"--{LISTS} {folder}: no lists of a development set, on which weights are "
            "tuned: name them dev.jsonl, or dev-clean and dev-other as LibriSpeech's"
        )
    # as in a folder of --data, what is called train is not tested on
    others = [data_dirs.DEV, data_dirs.TRAIN]
    if options[TRAIN_LISTS]:
        others += split_names(options[TRAIN_LISTS])
    tests = find_other_parts(folder, others)
    if not tests:
        raise InputError(
            f"--{LISTS} {folder}: there is no test set in it: add lists of any name "
            f"beside {', '.join(others)}"
        )
    data_dirs.check_test_set_names(folder, tests)
    return tests


def find_other_parts(folder: Path, known: Iterable[str]) -> list[str]:
    """Find the parts in a folder of lists that are none of those known."""
    # by files and not by names, of which one file may have two: my-set and my_set
    taken = {find_lists(folder, part) for part in known}
    parts = find_listed_parts(folder)
    return [part for part in parts if find_lists(folder, part) not in taken]


def list_test_sets(run: Run) -> list[str]:
    """List the test sets; of lists alone, those that are there."""
    if own := find_own_test_sets(run.options):
        return own
    given = run.path(LISTS)
    sets = librispeech.list_test_sets(run)
    if given is None or not has_lists_alone(run):
        return sets
    # where none is there, ``check`` says which are missing
    return [part for part in sets if find_lists(given, part)] or sets


def choose_dev_set(run: Run, test_set: str) -> str:
    """Choose the part on which weights for a test set are tuned."""
    if find_own_test_sets(run.options):
        return data_dirs.DEV
    return librispeech.choose_dev_set(run, test_set)


def list_dev_sets(run: Run) -> list[str]:
    """List the parts on which weights are tuned and trainings are watched."""
    needed = [choose_dev_set(run, part) for part in list_test_sets(run)]
    # several test sets may share one
    return list(dict.fromkeys(needed))


def list_train_parts(run: Run) -> list[str]:
    """List the parts that language models are trained on; none if no row is trained."""
    if run.options[TRAIN_LISTS]:
        return split_names(run.options[TRAIN_LISTS])
    if run.path(LISTS) and not list_trained_rows(run):
        return []
    parts = librispeech.list_train_parts(run)
    if run.options["first_pass"] == ESPNET:
        # An ESPnet model is trained on the first part: its lists of what it has learnt
        # would have fewer errors than those of new speech, which are rescored.
        return parts[1:]
    return parts


def list_trained_rows(run: Run) -> list[str]:
    """List the rows of the run whose systems are trained."""
    trained = {system.name for system in run.systems if system.kind == TRAIN}
    return [
        row.name
        for table in run.selected
        for row in table.rows
        if row.system in trained
    ]


def list_parts(run: Run) -> list[str]:
    """List the parts that have N-best lists."""
    return [*list_train_parts(run), *list_dev_sets(run), *list_test_sets(run)]


def locate_lists(run: Run, parts: Iterable[str]) -> list[Path]:
    """Locate the files with the N-best lists of parts."""
    return [run.expdir / "lists" / f"{part}.jsonl" for part in parts]


def locate_transcripts(run: Run, parts: Iterable[str]) -> tuple[Path, ...]:
    """Locate the transcripts of parts."""
    return tuple(run.datadir / part / "text" for part in parts)


def data(run: Run) -> None:
    tested = list_test_sets(run)
    own = find_own_test_sets(run.options)
    all_sets = own or librispeech.list_test_sets(run)
    if left_out := [part for part in all_sets if part not in tested]:
        show(f"there are no lists of {', '.join(left_out)}, which is not tested")
    if unused := find_unused_lists(run):
        why = "no row of this run is trained on them"
        if not own:
            why += ", and test sets of any name need a development set called dev"
        show(f"lists of {', '.join(unused)} are not used: {why}")
    # lists with references bring all that is needed: no speech is made or read
    if run.synthetic and lists_are_whole(run):
        run_jobs([text_steps(run)])
    else:
        librispeech.prepare(run, name_corpus_size(run))
    if run.path(LISTS):
        refuse_scored_texts(run)


def refuse_scored_texts(run: Run) -> None:
    """Refuse to train on utterances that tune weights or are scored."""
    scored: dict[tuple[str, str], str] = {}
    for part in (*list_dev_sets(run), *list_test_sets(run)):
        texts = read_table(run.datadir / part / "text")
        scored.update(dict.fromkeys(texts.items(), part))
    for part in list_train_parts(run):
        texts = read_table(run.datadir / part / "text")
        # an id alone may be of two utterances, where each part counts from 1
        both = [each for each in texts.items() if each in scored]
        if both:
            utterance = both[0][0]
            raise InputError(
                f"--{LISTS} {run.path(LISTS)}: {len(both)} utterances of {part} are in "
                f"{scored[both[0]]} too, first {utterance}: leave them out of {part}"
            )


def find_unused_lists(run: Run) -> list[str]:
    """Find the parts of lists alone that the run neither trains, tunes nor tests on.

    Parts of LibriSpeech are known to the user, and are not among them.
    """
    given = run.path(LISTS)
    if given is None or not has_lists_alone(run):
        return []
    return find_other_parts(given, [*list_parts(run), *LIBRISPEECH_PARTS])


def name_corpus_size(run: Run) -> str:
    """Name the size of the synthetic corpus, which depends on the first pass."""
    return f"{run.sections['settings']['corpus_size']}-{run.options['first_pass']}"


def lists_are_whole(run: Run) -> bool:
    """Are there lists of all parts, with references, so that speech is not needed?"""
    given = run.path(LISTS)
    if given is None:
        return False
    sources = (find_lists(given, part) for part in list_parts(run))
    return all(source and has_references(source) for source in sources)


def text_steps(run: Run) -> Iterator[Step]:
    """Write the transcripts of all parts, from lists, and the language models' text."""
    given = Path(run.options[LISTS])
    for part in list_parts(run):
        source = find_lists(given, part) or given / part
        folder = run.datadir / part
        yield Step(
            name=f"text of {part}",
            log=run.datadir / "log" / f"text_{part}.log",
            function=write_references,
            arguments={"source": source, "folder": folder},
            inputs=[source],
            outputs=[folder / name for name in ("text", "utt2spk", "spk2utt")],
        )
    if not run.path("lm_text") and not has_lists_alone(run):
        yield Step(
            name="text of language models",
            log=run.datadir / "log" / "lm_text.log",
            function=make_lm_text,
            arguments={"output": find_lm_text(run), "size": name_corpus_size(run)},
            outputs=[find_lm_text(run)],
        )


def first_pass(run: Run) -> None:
    given = run.path(LISTS)
    if given is not None:
        run_jobs([convert_steps(run, given)])
    elif run.options["first_pass"] == ESPNET:
        # a faulty file among all audio is found before the training, not in it
        run_beside_audio_check(run, *prepare_recognition(run))
        run_steps(*recognise(run))
        run_jobs([convert_steps(run, run.expdir / "asr" / "decode_nbest")])
    else:
        run_beside_audio_check(run, whisper_step(run))


def convert_steps(run: Run, folder: Path) -> Iterator[Step]:
    """Convert N-best lists of a folder: with references, each text once in a list."""
    selection = choose_selection(run)
    show(f"lists are cut to {selection.depth} hypotheses, as the config's nbest says")
    parts = list_parts(run)
    for part, output in zip(parts, locate_lists(run, parts), strict=True):
        source = find_lists(folder, part) or folder / f"{part}.jsonl"
        reference = run.datadir / part / "text"
        yield Step(
            name=f"lists of {part}",
            log=run.expdir / "lists" / "log" / f"{part}.log",
            function=convert_part,
            arguments={
                "source": source,
                "reference": reference,
                "output": output,
                "selection": selection,
                "normaliser": run.setting(NORMALISER),
            },
            depends=stamp_folders(source) if source.is_dir() else None,
            inputs=[reference],
            outputs=[output],
        )


def choose_selection(run: Run) -> Selection:
    """Say what is used of lists: so many hypotheses as the paper has, by these parts.

    The oracle of longer lists would stand beside the paper's of ten.
    """
    is_decoded_here = run.options["first_pass"] == ESPNET and not run.path(LISTS)
    section = "asr_decode" if is_decoded_here else "first_pass"
    given = run.setting(PARTS)
    try:
        parts = parse_parts(given) if given else {}
    except InputError as error:
        raise InputError(f"--{PARTS}: {error}") from None
    return Selection(parts, run.sections[section]["nbest"])


def check(run: Run) -> None:
    """Refuse what would end the run after hours: lists or texts that are missing."""
    given = run.path(LISTS)
    positions = run.options["positions"]
    if positions and not re.fullmatch("[1-9][0-9]{0,8}", positions):
        raise InputError(
            f"--positions takes a whole number from 1 on, not '{positions}'"
        )
    if run.setting(PARTS) and not given:
        raise InputError(
            f"--{PARTS} {run.setting(PARTS)}: only lists of your own have parts: give "
            f"--{LISTS} too"
        )
    if run.options[NORMALISER] and not given:
        raise InputError(
            f"--{NORMALISER} {run.options[NORMALISER]}: is of lists of your own: give "
            f"--{LISTS} too"
        )
    choose_selection(run)
    if run.own:
        check_own_config(run, run.own)
    check_train_parts(run)
    if given:
        require_lists(given, list_parts(run))
    if given and has_lists_alone(run):
        require_listed_references(given, list_parts(run))
    check_models(run)
    if any(is_adapted(run, name) for name in list_language_models(run)):
        require_text_to_adapt_to(run)


def require_lists(folder: Path, parts: Sequence[str]) -> None:
    """Refuse a folder that lacks lists of some of these parts."""
    missing = [part for part in parts if not find_lists(folder, part)]
    if missing:
        first = missing[0]
        raise InputError(
            f"--{LISTS} {folder}: no lists of {', '.join(missing)}: each part needs "
            f"{first} or {first.replace('-', '_')}, an output folder of ESPnet, or "
            "such a name with .jsonl or .jsonl.gz"
        )


def require_listed_references(folder: Path, parts: Iterable[str]) -> None:
    """Refuse lists without references where there is no corpus."""
    for part in parts:
        source = find_lists(folder, part)
        if source and not has_references(source):
            raise InputError(
                f"{source}: its first list has no reference: without a corpus, each "
                "list needs one: espnet-ext nbest convert --ref writes them into JSONL"
            )


def check_train_parts(run: Run) -> None:
    """Refuse rows without anything to train on, and training on what is scored."""
    rows = list_trained_rows(run)
    named = run.options[TRAIN_LISTS]
    if named and not run.path(LISTS):
        raise InputError(
            f"--{TRAIN_LISTS} {named}: names parts of --{LISTS}: give both"
        )
    if named and not all(split_names(named)):
        raise InputError(f"--{TRAIN_LISTS} '{named}': has an empty name")
    if both := {*list_train_parts(run)} & {*list_dev_sets(run), *list_test_sets(run)}:
        raise InputError(
            f"--{TRAIN_LISTS} {named}: {both.pop()} is a development or test set"
        )
    if list_train_parts(run) or not rows:
        return
    if run.path(LISTS):
        raise InputError(
            f"{', '.join(rows)}: there is nothing to train on: name lists by "
            f"--{TRAIN_LISTS}"
        )
    raise InputError(
        "--first_pass espnet learns from all parts that --clean_only leaves: "
        "use --first_pass whisper"
    )


def check_models(run: Run) -> None:
    """Refuse language models that cannot be made, or that lack what a row needs."""
    has_text = run.path("lm_text") or not has_lists_alone(run)
    for system in run.systems:
        if not system.config:
            continue
        family = name_family(merge_system_config(run.sections, system)["lm"])
        given = run.options[family]
        if given:
            check_model_path(given)
        if makes_models(run) and not given and not has_text:
            raise InputError(
                f"{system.name}: there is no text to make a small model from: "
                f"give --{family}, a folder or a name on the hub, or --lm_text"
            )
        # a pooled scorer has an output of its own, on the encoder (RescoreBERT)
        is_scored_by_words = not system.config.endswith("_pooled")
        if given and family == "bert" and is_scored_by_words:
            require_word_layer(given, system.name)


def require_word_layer(model: str, system: str) -> None:
    """Refuse a BERT without a layer that predicts words for a row that needs one."""
    if not predicts_words(model):
        raise InputError(
            f"--bert {model}: has no layer that predicts masked words, which {system} "
            "needs: choose rows of RescoreBERT, or another model"
        )


def require_text_to_adapt_to(run: Run) -> None:
    """Refuse adaptation without a text; that of the synthetic corpus is made."""
    if not run.synthetic:
        require_lm_text(find_lm_text(run))


def check_own_config(run: Run, own: OwnSystem) -> None:
    """Refuse a config of the user's own with which no rescorer can be trained."""
    from espnet_ext.rescore.training.lm_training import LmSettings
    from espnet_ext.rescore.training.mwer_training import MwerSettings

    schema = LmSettings if own.like in TRANSCRIPTS else MwerSettings
    place = f"--{own.option} {own.source}"
    settings = check_settings(schema, own.config, place)
    if settings.lm.partition("-")[0] not in ADAPTATION:
        raise InputError(
            f"{place}: lm: is {settings.lm!r}; {list_known(list(ADAPTATION))}"
        )


def prepare_recognition(run: Run) -> Iterator[Step]:
    """Prepare the training of an ESPnet model: its dev set, tokens and statistics."""
    part = librispeech.list_train_parts(run)[0]
    tokens = locate_tokens(run)
    # a folder of data dirs has one that is called dev already
    if not run.of_data_dirs:
        yield asr.combine_step(run, "dev", list_dev_sets(run))
    size = run.sections["settings"]["asr_vocab_size"]
    yield asr.tokens_step(run, part, tokens, "bpe", size)
    features = run.sections["asr_train"]
    yield asr.statistics_step(run, features, part, "dev", tokens, "bpe")


def locate_tokens(run: Run) -> Path:
    """Locate the folder of the ESPnet model's tokens."""
    return run.datadir / f"tokens_bpe{run.sections['settings']['asr_vocab_size']}"


def recognise(run: Run) -> Iterator[Step]:
    """Train an ESPnet model on the first training part, and decode all other parts."""
    part = librispeech.list_train_parts(run)[0]
    folder = run.expdir / "asr"
    tokens = locate_tokens(run)
    config = run.write_section_config("asr_train")
    average = run.sections["settings"]["asr_average"]
    yield asr.asr_train_step(run, folder, config, part, "dev", tokens, "bpe", 1)
    yield average_step(run, folder, average)
    decoding = run.write_section_config("asr_decode", name="decode_nbest")
    model = folder / name_average(average)
    yield asr.decode_steps(
        run, folder, model, ["nbest"], list_parts(run), run.nj, configs=[decoding]
    )


def whisper_step(run: Run) -> Step:
    """Make N-best lists of all parts by Whisper."""
    from espnet_ext.whisper.lists import write_lists

    model = {"model": run.options["whisper"]} if run.options["whisper"] else {}
    parts = list_parts(run)
    outputs = locate_lists(run, parts)
    return Step(
        name="Whisper",
        log=run.expdir / "lists" / "log" / "first_pass.log",
        function=write_lists,
        arguments={
            "config": run.write_section_config("first_pass", model, name="whisper"),
            "data": [run.datadir / part for part in parts],
            "outputs": outputs,
        },
        free=make_free_arguments(run, ngpu=run.gpu),
        inputs=[
            run.datadir / part / table
            for part in parts
            for table in ("wav.scp", "text")
        ],
        outputs=outputs,
        preload=["espnet_ext.whisper.lists"],
    )


def statistics(run: Run) -> None:
    run_jobs([report_steps(run)])


def report_steps(run: Run) -> Iterator[Step]:
    """Report the error rates of the best and of the oracle hypotheses of each part."""
    from espnet_ext.work.files import parse_json

    parts = list_parts(run)
    for part, lists in zip(parts, locate_lists(run, parts), strict=True):
        report = lists.parent / f"oracle_{part}.json"
        yield Step(
            name=f"oracle of {part}",
            log=lists.parent / "log" / f"oracle_{part}.log",
            function=report_lists,
            arguments={"path": lists, "report": report},
            inputs=[lists],
            outputs=[report],
        )
        # the job runs each step before it asks for the next: the report is there
        lines = format_oracle_report(parse_json(report.read_text(encoding="utf-8")))
        show(f"{part}: {' '.join(lines[1].split())}; {' '.join(lines[-1].split())}")


def language_model(run: Run) -> None:
    names = [name for name in list_language_models(run) if is_adapted(run, name)]
    for name in list_language_models(run):
        if name not in names:
            show(f"{choose_given_model(run, name)}: rows begin with it as it is")
    run_side_by_side(
        drop_prefix(run),
        {
            f"lm/seed{seed}/{name}": make_adaptation(name, seed)
            for name in names
            for seed in run.seeds
        },
    )


def list_language_models(run: Run) -> list[str]:
    """List the language models that rows begin with, by their names in P3."""
    return sorted(
        {
            merge_system_config(run.sections, system)["lm"]
            for system in run.systems
            if system.config
        }
    )


def name_family(name: str) -> str:
    """Name the option that replaces a language model of P3: gpt2 or bert."""
    return name.partition("-")[0]


def makes_models(run: Run) -> bool:
    """Does the scale make its language models from scratch?"""
    return run.sections["settings"]["make_lms"]


def choose_given_model(run: Run, name: str) -> Path | str:
    """Choose the language model that is given in place of one of P3, or P3's own."""
    return find_model(run.options[name_family(name)] or name)


def find_model(name: str) -> Path | str:
    """Return a folder or a file as a path, a name on the hub as it is.

    What is in a folder or a file counts: steps run again when it changes.
    """
    return Path(name) if Path(name).exists() else name


def is_adapted(run: Run, name: str) -> bool:
    """Is a language model adapted to a text first?"""
    # lists alone bring no text
    if has_lists_alone(run) and not run.path("lm_text"):
        return False
    given = run.options[name_family(name)]
    # a BERT that predicts no words cannot learn from a text
    return name_family(name) != "bert" or not given or predicts_words(given)


@cache
def predicts_words(model: str) -> bool:
    """Has a masked language model its layer for words? An encoder alone has none."""
    from espnet_ext.rescore.models.language_model import read_config

    kinds = read_config(model).architectures or ()
    return any(kind.endswith(("ForMaskedLM", "ForPreTraining")) for kind in kinds)


def choose_casing(run: Run, family: str) -> str:
    """Choose how texts are written for a language model that no training here has made.

    One that was saved with its casing keeps it.
    """
    from espnet_ext.rescore.models.scorers import read_saved_scorer

    given = run.options[family]
    saved = read_saved_scorer(given).casing if given else None
    return saved or run.sections[ADAPTATION[family]]["casing"]


def choose_initial_model(run: Run, name: str, seed: int) -> Path | str:
    """Choose what rows of a language model begin with: adapted, or as it is given."""
    if is_adapted(run, name):
        return locate_adapted(run, name, seed) / "model"
    return choose_given_model(run, name)


def drop_prefix(run: Run) -> Run:
    """Return the run without the prefix of ``train_cmd``; Kaldi's wrappers stay.

    A prefix may start several processes, which ESPnet's trainings alone share.
    """
    if is_kaldi_wrapper(run.launch):
        return run
    return replace(run, launch=(), train_options=())


def uses_models(run: Run) -> bool:
    """Return whether a row of the run rescores."""
    return any(system.config for system in run.systems)


def make_adaptation(name: str, seed: int) -> Make:
    """Make the job that adapts a language model with a seed."""
    return lambda run, nj: adapt(run, name, seed)


def locate_adapted(run: Run, name: str, seed: int) -> Path:
    """Locate the folder of a language model that is adapted to the LM text."""
    return run.lm / f"seed{seed}" / name


def adapt(run: Run, name: str, seed: int) -> Iterator[Step]:
    """Adapt a language model to the LM text (P3, section 4.2.2).

    At small scales it is made first.
    """
    from espnet_ext.rescore.training.lm_training import TextFiles
    from espnet_ext.rescore.training.small_models import make_language_model

    family = name_family(name)
    folder = locate_adapted(run, name, seed)
    text = find_lm_text(run)
    model = choose_given_model(run, name)
    if makes_models(run) and not run.options[family]:
        model = folder / "made"
        yield Step(
            name=f"make {family} (seed {seed})",
            log=folder / "log" / "make.log",
            function=make_language_model,
            arguments={
                "values": run.sections[family],
                "text": [text],
                "output": model,
                "seed": seed,
            },
            outputs=[model / "config.json"],
        )
    texts = {
        "texts": TextFiles(text=(text,)),
        "dev_texts": TextFiles(transcripts=locate_transcripts(run, list_dev_sets(run))),
    }
    log = folder / "log" / "adapt.log"
    section = ADAPTATION[family]
    config = set_pretrained_rate(run, family, section, run.sections[section], {})
    config["casing"] = choose_casing(run, family)
    yield training_step(
        run, f"adapt {family} (seed {seed})", log, config, model, folder, seed, texts
    )


def set_pretrained_rate(
    run: Run,
    family: str,
    section: str,
    config: Mapping[str, Any],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a training's config; a pretrained model has the paper's learning rate.

    That is the rate of ``section`` at full scale. One that is ``given`` stays.
    """
    # the rate of small scales is one for small models from scratch
    if makes_models(run) and run.options[family] and "lr" not in given:
        return {**config, "lr": load_scale("", FULL)[section]["lr"]}
    return dict(config)


def training_step(
    run: Run,
    name: str,
    log: Path,
    config: Mapping[str, Any],
    model: Path | str,
    folder: Path,
    seed: int,
    corpus: Mapping[str, Any],
) -> Step:
    """Train a language model on the text or the lists of ``corpus``: ``folder/model``.

    ``corpus`` are the arguments of the training that name what it learns from.
    """
    from espnet_ext.rescore.training.lm_training import adapt_language_model
    from espnet_ext.rescore.training.mwer_training import train_rescorer

    values = {
        **config,
        "lm": str(model),
        "seed": seed,
        **read_compute_options(run, on_lists="lists" in corpus),
    }
    return Step(
        name=name,
        log=log,
        function=train_rescorer if "lists" in corpus else adapt_language_model,
        arguments={"values": values, "output": folder, **corpus},
        free={"ngpu": run.ngpu},
        inputs=list_model_files(model),
        outputs=[folder / "model"],
        resumes=folder,
        launch=run.launch,
    )


def read_compute_options(run: Run, on_lists: bool) -> dict[str, Any]:
    """Return what ``--amp`` and, for work on lists, ``--positions`` say.

    An empty option is left out: then the config or the default counts.
    """
    values: dict[str, Any] = {}
    if run.options["amp"]:
        values["amp"] = run.options["amp"] == "true"
    # trainings on texts have no such setting
    if run.options["positions"] and on_lists:
        values["positions"] = int(run.options["positions"])
    return values


def list_model_files(folder: Path | str) -> list[Path]:
    """List the files that hold a language model; none of a name on the hub."""
    if isinstance(folder, str):
        return []
    if is_gguf(folder):
        return [folder]
    return [folder / "config.json", *sorted(folder.glob("*.safetensors"))]


def learns_transcripts(run: Run, system: System) -> bool:
    """Is a system trained on transcripts, or one of the user's own that is like it?"""
    own = run.own_systems.get(system.name)
    return (own.like if own else system.config) in TRANSCRIPTS


def training(run: Run) -> None:
    run_each_system(drop_prefix(run), train_system)


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Train a system on transcripts or on lists; initial models have no training."""
    from espnet_ext.rescore.training.lm_training import TextFiles

    if system.kind != TRAIN:
        return
    run.write_system_config(system)  # for people
    config = make_training_config(run, system)
    folder = run.locate_training(system, seed)
    parts = list_train_parts(run)
    dev_sets = list_dev_sets(run)
    corpus: dict[str, Any]
    if learns_transcripts(run, system):
        corpus = {
            "texts": TextFiles(transcripts=locate_transcripts(run, parts)),
            "dev_texts": TextFiles(transcripts=locate_transcripts(run, dev_sets)),
        }
    else:
        corpus = {
            "lists": locate_lists(run, parts),
            "dev_lists": locate_lists(run, dev_sets),
        }
    model = choose_initial_model(run, config["lm"], seed)
    log = folder / "log" / "train.log"
    yield training_step(
        run, f"train {system.name}/seed{seed}", log, config, model, folder, seed, corpus
    )


def make_training_config(run: Run, system: System) -> dict[str, Any]:
    """Return the config of a system's training."""
    config = merge_system_config(run.sections, system)
    family = name_family(config["lm"])
    own = run.own_systems.get(system.name)
    section = own.like if own else system.config
    given = own.given.content if own else system.overrides
    if section:
        config = set_pretrained_rate(run, family, section, config, given)
    # what is adapted has the casing of its text, with which it was saved
    if not is_adapted(run, config["lm"]):
        config.setdefault("casing", choose_casing(run, family))
    return config


def rescoring(run: Run) -> None:
    run_each_system(run, rescore_system, trains=False)


def rescore_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Rescore the test sets by a system.

    The weight is tuned "on the corresponding development sets" (P3, section 4.2.2).
    """
    folder = run.locate_training(system, seed)
    for part in list_test_sets(run):
        lists, dev_lists = locate_lists(run, (part, choose_dev_set(run, part)))
        output = folder / "decode_default" / part
        if system.config:
            # scores are kept by model and text: no model scores a text twice
            job = SecondPass(
                lists, output, tune_on=(dev_lists,), scores=run.expdir / "scores"
            )
            yield rescore_step(run, system, seed, job)
            continue
        # the oracle chooses among all hypotheses, the first pass has its best alone
        depth = 1 if system.method == "first_pass" else None
        yield Step(
            name=f"{system.name} of {part}",
            log=output / "log" / "choose.log",
            function=write_choice,
            arguments={"output": output / "text", "lists": lists, "depth": depth},
            inputs=[lists],
            outputs=[output / "text"],
        )


def rescore_step(run: Run, system: System, seed: int, job: SecondPass) -> Step:
    """Rescore a test set's lists by a system's model."""
    part = job.output.name
    model = choose_scoring_model(run, system, seed)
    return Step(
        name=f"rescore {part} by {run.name_training(system, seed)}",
        log=job.output / "log" / "rescore.log",
        function=rescore,
        arguments={"job": job, "models": [model]},
        free={"ngpu": run.ngpu},
        inputs=[*list_model_files(find_model(model.path)), job.nbest, *job.tune_on],
        outputs=[job.output / "text"],
        preload=["espnet_ext.rescore.models.scorers"],
        launch=run.decode_launch,
    )


def choose_scoring_model(run: Run, system: System, seed: int) -> LanguageModel:
    """Choose the model that scores lists for a system."""
    options = read_compute_options(run, on_lists=True)
    if system.kind == TRAIN:
        model = run.locate_training(system, seed) / "model"
        return LanguageModel(str(model), system.name, **options)
    config = merge_system_config(run.sections, system)
    name = config["lm"]
    if is_adapted(run, name):
        path = str(locate_adapted(run, name, seed) / "model")
        return LanguageModel(path, system.name, **options)
    return LanguageModel(
        str(choose_given_model(run, name)),
        system.name,
        scorer=config["scorer"],
        casing=choose_casing(run, name_family(name)),
        **options,
    )


def scoring(run: Run) -> None:
    run_jobs(
        [
            asr.score_systems(
                run, list_test_sets(run), normaliser=run.setting(NORMALISER)
            )
        ]
    )
    for system in run.systems:
        if system.kind == TRAIN:
            folder = run.locate_training(system, 1).parent
            write_quantities(folder, run.list_seeds(system))
    shown = {column.name for table in run.selected for column in table.columns}
    if LATENCY not in shown:
        return
    # The time does not depend on weights: systems with the same scorer share one
    # measurement. Its file lies beside the folders of seeds, of which any will do.
    scorers = {
        run.locate_training(system, 1): describe_scorer(run, system)
        for system in run.systems
        if system.config
    }
    steps = {
        scorer: latency_step(run, scorer) for scorer in dict.fromkeys(scorers.values())
    }
    run_steps(*steps.values())
    for folder, scorer in scorers.items():
        shutil.copyfile(steps[scorer].outputs[0], folder.with_name("latency.json"))


def describe_scorer(run: Run, system: System) -> ScorerKind:
    """Describe the scorer of a system: all that its latency depends on."""
    config = merge_system_config(run.sections, system)
    return ScorerKind(config["lm"], config["scorer"], config.get("pooling"))


def latency_step(run: Run, scorer: ScorerKind) -> Step:
    """Measure how long a scorer takes at full size, once for all its systems."""
    name = "_".join(part for part in scorer if part)
    output = run.expdir / "latency" / f"{name}.json"
    return Step(
        name=f"latency of {name}",
        log=run.expdir / "log" / f"latency_{name}.log",
        function=measure_latency,
        arguments={
            "scorer": scorer,
            "output": output,
            "options": run.sections["settings"]["latency"],
            "ngpu": run.gpu,
        },
        outputs=[output],
    )


def measure_latency(
    scorer: ScorerKind, output: Path, options: Mapping[str, Any], ngpu: int
) -> None:
    """Measure a scorer's latency by ``local/bench_latency.py``."""
    bench = load_script(HERE / "local" / "bench_latency.py")
    bench.measure_scorer(scorer, output, options, choose_device(ngpu))


def tables(run: Run) -> None:
    """Write tables; results on lists of the user's own carry the lists' name."""
    given = run.path(LISTS)
    own = given.name if given and has_lists_alone(run) else None
    asr.tables(run, corpus=own, paper=not find_own_test_sets(run.options))


def variant(options: Mapping[str, str]) -> str:
    """Name what ends the folders' names of runs whose lists are not Whisper's."""
    names = []
    if options["first_pass"] == ESPNET:
        names.append(ESPNET)
    if options[LISTS]:
        names.append(f"lists_{Path(options[LISTS]).name}")
    if options[PARTS]:
        names.append(re.sub("[^A-Za-z0-9.]+", "_", options[PARTS]))
    if options[NORMALISER]:
        names.append(options[NORMALISER])
    return "-".join(names)


RECIPE = Recipe(
    corpus="librispeech",
    features="asr_train",
    trained={"rescorer_config": Trained(command="")},
    options={
        "lm_text": "",
        LISTS: "",
        PARTS: "",
        TRAIN_LISTS: "",
        NORMALISER: "",
        "first_pass": "whisper",
        **dict.fromkeys(MODELS, ""),
        "clean_only": "false",
        "amp": "",
        "positions": "",
    },
    paths=("lm_text", LISTS),
    models=MODELS,
    choices={
        "first_pass": ("whisper", ESPNET),
        "clean_only": ("true", "false"),
        NORMALISER: tuple(NORMALISERS),
        "amp": ("true", "false"),
    },
    check=check,
    unused=lambda options: () if options["first_pass"] == ESPNET else ("asr_train",),
    variant=variant,
    replaces_corpus=lambda options: bool(options[LISTS]),
    find_test_sets=find_own_test_sets,
    untagged=("first_pass", PARTS, NORMALISER, "positions"),
    uses_gpu_here=lambda run: "rescoring" if uses_models(run) else "",
    stages={
        "data": data,
        "first_pass": first_pass,
        "statistics": statistics,
        "language_model": language_model,
        "training": training,
        "rescoring": rescoring,
        "scoring": scoring,
        "tables": tables,
    },
)

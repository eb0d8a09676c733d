"""The stages of run.sh: N-best lists by a first pass, language models trained to
rescore them, and error rates.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.nbest.oracle import format_oracle_report, report_lists, write_choice
from espnet_ext.nbest.selection import Selection, parse_parts
from espnet_ext.nbest.sources import (
    convert_part,
    find_lists,
    has_references,
    write_references,
)
from espnet_ext.recipe import asr, librispeech
from espnet_ext.recipe.audio_check import run_beside_audio_check
from espnet_ext.recipe.gpus import Make, run_each_system, run_side_by_side
from espnet_ext.recipe.language_model import require_lm_text
from espnet_ext.recipe.librispeech import choose_dev_set, dev_sets, lm_text, test_sets
from espnet_ext.recipe.own_system import OwnSystem, Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.steps import Step, run_jobs, run_steps, show
from espnet_ext.recipe.training import average_step, make_free_arguments, name_average
from espnet_ext.rescore import ScorerKind
from espnet_ext.rescore.second_pass import LanguageModel, SecondPass, rescore
from espnet_ext.rescore.training import write_quantities
from espnet_ext.synthetic.librispeech import make_lm_text
from espnet_ext.tables.plan import merge_system_config
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
# the normaliser of hypotheses and references, of Whisper's lists and in scoring
RULES = "librispeech"
MODELS = ("whisper", "gpt2", "bert")  # options: folders, or names on the hub
LISTS = "nbest_lists"  # an option: lists in place of a first pass
PARTS = "first_pass_parts"  # an option and a setting: what their score is made of
HERE = Path(__file__).parent


def train_parts(run: Run) -> list[str]:
    """The parts that language models are trained on: not the one that an ESPnet model
    of the first pass has learnt.
    """
    parts = librispeech.train_parts(run)
    return parts[1:] if run.options["first_pass"] == ESPNET else parts


def list_parts(run: Run) -> list[str]:
    """The parts that have N-best lists."""
    return [*train_parts(run), *dev_sets(run), *test_sets(run)]


def lists_of(run: Run, parts: Iterable[str]) -> list[Path]:
    """The files with the N-best lists of parts."""
    return [run.expdir / "lists" / f"{part}.jsonl" for part in parts]


def texts_of(run: Run, parts: Iterable[str]) -> tuple[Path, ...]:
    """The transcripts of parts."""
    return tuple(run.datadir / part / "text" for part in parts)


def data(run: Run) -> None:
    if run.synthetic and lists_are_whole(run):
        run_jobs([text_steps(run)])
        return
    librispeech.prepare(run, synthetic_size(run))


def synthetic_size(run: Run) -> str:
    """The size of the synthetic corpus."""
    return f"{run.sections['settings']['corpus_size']}-{run.options['first_pass']}"


def lists_are_whole(run: Run) -> bool:
    """Are there lists of all parts, with references, so that speech is not needed?"""
    given = run.path(LISTS)
    if given is None:
        return False
    sources = (find_lists(given, part) for part in list_parts(run))
    return all(source and has_references(source) for source in sources)


def text_steps(run: Run) -> Iterator[Step]:
    """The transcripts of all parts, from lists, and the text of language models."""
    given = Path(run.options[LISTS])
    for part in list_parts(run):
        source, folder = find_lists(given, part), run.datadir / part
        yield Step(
            name=f"text of {part}",
            log=run.datadir / "log" / f"text_{part}.log",
            function=write_references,
            arguments={"source": source, "folder": folder},
            inputs=[source],
            outputs=[folder / name for name in ("text", "utt2spk", "spk2utt")],
        )
    if not run.path("lm_text"):
        yield Step(
            name="text of language models",
            log=run.datadir / "log" / "lm_text.log",
            function=make_lm_text,
            arguments={"output": lm_text(run), "size": synthetic_size(run)},
            outputs=[lm_text(run)],
        )


def first_pass(run: Run) -> None:
    given = run.path(LISTS)
    if given is not None:
        run_jobs([convert_steps(run, given)])
    elif run.options["first_pass"] == ESPNET:
        data, tokens, stats, *training = recognise(run)
        run_beside_audio_check(run, data, tokens, stats)
        run_steps(*training)
        run_jobs([convert_steps(run, run.expdir / "asr" / "decode_nbest")])
    else:
        run_beside_audio_check(run, whisper_step(run))


def convert_steps(run: Run, folder: Path) -> Iterator[Step]:
    """N-best lists from a folder, with references, and each text once in a list."""
    selection = choose_selection(run)
    show(f"lists are cut to {selection.depth} hypotheses, as the config's nbest says")
    for part, output in zip(
        list_parts(run), lists_of(run, list_parts(run)), strict=True
    ):
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
    parts = run.setting(PARTS)
    return Selection(
        parse_parts(parts) if parts else {}, run.sections[section]["nbest"]
    )


def check(run: Run) -> None:
    """Refuse what would end the run after hours of work: lists or text that are
    missing, or nothing to train on.
    """
    given, positions = run.path(LISTS), run.options["positions"]
    if positions and not re.fullmatch("[1-9][0-9]{0,8}", positions):
        raise InputError(
            f"--positions takes a whole number from 1 on, not '{positions}'"
        )
    if run.setting(PARTS) and not given:
        raise InputError(
            f"--{PARTS} {run.setting(PARTS)}: only lists of your own have parts: give "
            f"--{LISTS} too"
        )
    choose_selection(run)
    if run.own:
        check_own_config(run, run.own)
    if not train_parts(run):
        raise InputError(
            "--first_pass espnet learns from all parts that --clean_only leaves: "
            "use --first_pass whisper"
        )
    if given and (
        missing := [part for part in list_parts(run) if not find_lists(given, part)]
    ):
        raise InputError(
            f"--nbest_lists {given}: no lists of {', '.join(missing)}: each part "
            f"needs {missing[0]} or "
            f"{missing[0].replace('-', '_')}, an output folder of ESPnet, or such "
            "a name with .jsonl or .jsonl.gz"
        )
    if not run.synthetic and any(system.config for system in run.systems):
        require_lm_text(lm_text(run))


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


def recognise(run: Run) -> Iterator[Step]:
    """Train an ESPnet model on the first training part, and decode all other parts."""
    settings, folder = run.sections["settings"], run.expdir / "asr"
    part, size, average = (
        librispeech.train_parts(run)[0],
        settings["asr_vocab_size"],
        settings["asr_average"],
    )
    tokens, config = (
        run.datadir / f"tokens_bpe{size}",
        run.write_section_config("asr_train"),
    )
    if not run.of_data_dirs:  # of which one is called so
        yield asr.combine_step(run, "dev", dev_sets(run))
    yield asr.tokens_step(run, part, tokens, "bpe", size)
    features = run.sections["asr_train"]
    yield asr.statistics_step(run, features, part, "dev", tokens, "bpe")
    yield asr.asr_train_step(run, folder, config, part, "dev", tokens, "bpe", 1)
    yield average_step(run, folder, average)
    decoding = run.write_section_config("asr_decode", name="decode_nbest")
    model = folder / name_average(average)
    yield asr.decode_steps(
        run, folder, model, ["nbest"], list_parts(run), run.nj, configs=[decoding]
    )


def whisper_step(run: Run) -> Step:
    """Whisper's N-best lists of all parts."""
    from espnet_ext.whisper.lists import write_lists

    model = {"model": run.options["whisper"]} if run.options["whisper"] else {}
    parts = list_parts(run)
    outputs = lists_of(run, parts)
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

    for part, lists in zip(
        list_parts(run), lists_of(run, list_parts(run)), strict=True
    ):
        report = lists.parent / f"oracle_{part}.json"
        yield Step(
            name=f"oracle of {part}",
            log=lists.parent / "log" / f"oracle_{part}.log",
            function=report_lists,
            arguments={"path": lists, "report": report},
            inputs=[lists],
            outputs=[report],
        )
        lines = format_oracle_report(parse_json(report.read_text(encoding="utf-8")))
        show(f"{part}: {' '.join(lines[1].split())}; {' '.join(lines[-1].split())}")


def language_model(run: Run) -> None:
    names = sorted(
        {
            merge_system_config(run.sections, system)["lm"]
            for system in run.systems
            if system.config
        }
    )
    run_side_by_side(
        without_prefix(run),
        {
            f"lm/seed{seed}/{name}": adapt_job(name, seed)
            for name in names
            for seed in run.seeds
        },
    )


def without_prefix(run: Run) -> Run:
    """Return the run whose rescorers are trained by a wrapper of Kaldi's, or on this
    machine: a prefix may start several processes, which ESPnet's trainings alone share.
    """
    if is_kaldi_wrapper(run.launch):
        return run
    return replace(run, launch=(), train_options=())


def uses_models(run: Run) -> bool:
    """Return whether a row of the run rescores."""
    return any(system.config for system in run.systems)


def adapt_job(name: str, seed: int) -> Make:
    return lambda run, nj: adapt(run, name, seed)


def adapted(run: Run, name: str, seed: int) -> Path:
    """The folder of a language model that is adapted to the LM text."""
    return run.lm / f"seed{seed}" / name


def adapt(run: Run, name: str, seed: int) -> Iterator[Step]:
    """Adapt a language model to the LM text (P3, section 4.2.2); at small scales make
    it first.
    """
    from espnet_ext.rescore.training.lm_training import TextFiles
    from espnet_ext.rescore.training.small_models import make_language_model

    family, folder = name.partition("-")[0], adapted(run, name, seed)
    text = lm_text(run)
    model: Path | str = run.options[family] or name
    model = Path(model) if Path(model).is_dir() else model  # whose contents count
    if run.sections["settings"]["make_lms"] and not run.options[family]:
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
        "dev_texts": TextFiles(transcripts=texts_of(run, dev_sets(run))),
    }
    log, config = folder / "log" / "adapt.log", run.sections[ADAPTATION[family]]
    yield training_step(
        run, f"adapt {family} (seed {seed})", log, config, model, folder, seed, texts
    )


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
    """Train a language model on text or on lists, whichever ``corpus`` holds; the
    result is ``folder/model``.
    """
    from espnet_ext.rescore.training.lm_training import adapt_language_model
    from espnet_ext.rescore.training.mwer_training import train_rescorer

    values = {
        **config,
        "lm": str(model),
        "seed": seed,
        **precision(run, "lists" in corpus),
    }
    return Step(
        name=name,
        log=log,
        function=train_rescorer if "lists" in corpus else adapt_language_model,
        arguments={"values": values, "output": folder, **corpus},
        free={"ngpu": run.ngpu},
        inputs=files_of_model(model) if isinstance(model, Path) else [],
        outputs=[folder / "model"],
        resumes=folder,
        launch=run.launch,
    )


def precision(run: Run, passes: bool) -> dict[str, Any]:
    """Return what ``--amp`` and, for work on lists in ``passes``, ``--positions`` say;
    nothing where they are empty.
    """
    amp, positions = run.options["amp"], run.options["positions"]
    return ({"amp": amp == "true"} if amp else {}) | (
        {"positions": int(positions)} if positions and passes else {}
    )


def files_of_model(folder: Path) -> list[Path]:
    """What a language model in a folder depends on."""
    return [folder / "config.json", *sorted(folder.glob("*.safetensors"))]


def on_transcripts(run: Run, system: System) -> bool:
    """Is a system trained on transcripts, or one of the user's own that is like it?"""
    own = run.own_systems.get(system.name)
    return (own.like if own else system.config) in TRANSCRIPTS


def training(run: Run) -> None:
    run_each_system(without_prefix(run), train_system)


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Train a system on transcripts or on lists; there is nothing to train for initial
    models and without a model.
    """
    from espnet_ext.rescore.training.lm_training import TextFiles

    if system.kind != TRAIN:
        return
    run.write_system_config(system)  # for people
    config, folder = (
        merge_system_config(run.sections, system),
        run.locate_training(system, seed),
    )
    parts = train_parts(run)
    corpus: dict[str, Any] = {
        "lists": lists_of(run, parts),
        "dev_lists": lists_of(run, dev_sets(run)),
    }
    if on_transcripts(run, system):
        texts, dev = texts_of(run, parts), texts_of(run, dev_sets(run))
        corpus = {
            "texts": TextFiles(transcripts=texts),
            "dev_texts": TextFiles(transcripts=dev),
        }
    model, log = (
        adapted(run, config["lm"], seed) / "model",
        folder / "log" / "train.log",
    )
    yield training_step(
        run, f"train {system.name}/seed{seed}", log, config, model, folder, seed, corpus
    )


def rescoring(run: Run) -> None:
    run_each_system(run, rescore_system, trains=False)


def rescore_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Rescore the test sets. The weight is tuned "on the corresponding development
    sets" (P3, section 4.2.2).
    """
    folder = run.locate_training(system, seed)
    for part in test_sets(run):
        lists, dev_lists = lists_of(run, (part, choose_dev_set(run, part)))
        output = folder / "decode_default" / part
        if system.config:
            lm = merge_system_config(run.sections, system)["lm"]
            model = (
                folder / "model"
                if system.kind == TRAIN
                else adapted(run, lm, seed) / "model"
            )
            yield rescore_step(
                run, system.name, model, SecondPass(lists, output, tune_on=(dev_lists,))
            )
            continue
        depth = 1 if system.method == "first_pass" else None
        yield Step(
            name=f"{system.name} of {part}",
            log=output / "log" / "choose.log",
            function=write_choice,
            arguments={"output": output / "text", "lists": lists, "depth": depth},
            inputs=[lists],
            outputs=[output / "text"],
        )


def rescore_step(run: Run, name: str, model: Path, job: SecondPass) -> Step:
    """Rescore a test set's lists by a trained model."""
    part = job.output.name
    return Step(
        name=f"rescore {part} by {model.parent.relative_to(run.expdir)}",
        log=job.output / "log" / "rescore.log",
        function=rescore,
        arguments={
            "job": job,
            "models": [LanguageModel(str(model), name, **precision(run, True))],
        },
        free={"ngpu": run.ngpu},
        inputs=[*files_of_model(model), job.nbest, *job.tune_on],
        outputs=[job.output / "text"],
        preload=["espnet_ext.rescore.models.scorers"],
        launch=run.decode_launch,
    )


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, test_sets(run), normaliser=RULES)])
    for system in run.systems:
        if system.kind == TRAIN:
            write_quantities(run.locate_training(system, 1).parent)
    scorers = {
        run.locate_training(system, 1): scorer_of(run, system)
        for system in run.systems
        if system.config
    }
    steps = {
        scorer: latency_step(run, scorer) for scorer in dict.fromkeys(scorers.values())
    }
    run_steps(*steps.values())
    for folder, scorer in scorers.items():
        shutil.copyfile(steps[scorer].outputs[0], folder.with_name("latency.json"))


def scorer_of(run: Run, system: System) -> ScorerKind:
    """What a system's latency depends on."""
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
    bench = load_script(HERE / "local" / "bench_latency.py")
    bench.measure_scorer(scorer, output, options, choose_device(ngpu))


def variant(options: Mapping[str, str]) -> str:
    """The end of the folders' names of runs whose lists are not Whisper's."""
    names = []
    if options["first_pass"] == ESPNET:
        names.append(ESPNET)
    if options[LISTS]:
        names.append(f"lists_{Path(options[LISTS]).name}")
    if options[PARTS]:
        names.append(re.sub("[^A-Za-z0-9.]+", "_", options[PARTS]))
    return "-".join(names)


RECIPE = Recipe(
    corpus="librispeech",
    features="asr_train",
    trained={"rescorer_config": Trained(command="")},
    options={
        "lm_text": "",
        LISTS: "",
        PARTS: "",
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
        "amp": ("true", "false"),
    },
    check=check,
    unused=lambda options: () if options["first_pass"] == ESPNET else ("asr_train",),
    variant=variant,
    untagged=("first_pass", PARTS, "positions"),
    uses_gpu_here=lambda run: "rescoring" if uses_models(run) else "",
    stages={
        "data": data,
        "first_pass": first_pass,
        "statistics": statistics,
        "language_model": language_model,
        "training": training,
        "rescoring": rescoring,
        "scoring": scoring,
        "tables": asr.tables,
    },
)

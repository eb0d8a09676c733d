"""Stitchers: what they learn from, their training, the transcripts of all systems, and
their scores.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.recipe import asr
from espnet_ext.recipe.gpus import Make, run_each_system, run_side_by_side
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.steps import Step, run_steps, show
from espnet_ext.recipe.training import list_data_options, run_command, train_step
from espnet_ext.scoring.score_files import describe_interval
from espnet_ext.scoring.speaker_attributed import evaluate_speakers
from espnet_ext.stitch.stitcher.error_statistics import fit_errors
from espnet_ext.stitch.stitcher.guard import GUARD, guard_transcripts, tune_guard
from espnet_ext.stitch.stitcher.inference import (
    MODEL_FILE,
    StitcherOptions,
    merge_windows,
)
from espnet_ext.stitch.stitcher.pairs import (
    ALIGNMENT,
    SYMBOLS,
    TRAINED_ON,
    join_pairs,
    make_pairs,
)
from espnet_ext.stitch.stitcher.simulated_errors import simulate_hypotheses
from espnet_ext.tables.schema import DEFAULT_DECODING, TRAIN, System

SIMULATED = ("train_simulated", "dev_simulated")
DEV = ("dev-short", "dev-long")
sets = load_script(Path(__file__).with_name("sets.py"))


def training(run: Run) -> None:
    trained = {
        shared_folder(run, "first", system): system
        for system in run.systems
        if system.kind == TRAIN
    }
    if not trained:
        show("no stitcher is trained for these rows")
        return
    run_steps(stitcher_tokens(run))
    if simulates(run):
        ways = dict.fromkeys(str(system.windows) for system in trained.values())
        run_steps(*(step for way in ways for step in simulate(run, way)))
    run_side_by_side(
        run,
        {
            str(folder.relative_to(run.expdir)): first_job(each)
            for folder, each in trained.items()
        },
    )
    run_each_system(run, train_stitcher)


def first_job(system: System) -> Make:
    return lambda run, nj: prepare_stitchers(run, system)


def simulates(run: Run) -> bool:
    """Do stitchers learn from simulated errors first?"""
    return "train_simulated" in sets.mixing(run)


def stitcher_tokens(run: Run) -> Step:
    """Word pieces of all stitchers, from the words that they are to write."""
    settings, folder = sets.settings(run), run.expdir / "pairs" / "tokens"
    kind, size = settings["stitcher_token_type"], settings["stitcher_vocab_size"]
    text = "train_stitch" if sets.whisper(run) else "train_single"
    step = asr.tokens_step(run, text, folder, kind, size, symbols=list(SYMBOLS))
    return replace(step, name="tokens of the stitchers")


def simulate(run: Run, windows: str) -> Iterator[Step]:
    """Hypotheses with simulated errors like the recogniser's, from which stitchers
    learn first.
    """
    folder = run.expdir / "pairs" / windows
    heard, errors = (
        sets.below(run, "heard") / windows / "train_stitch" / "hypotheses.jsonl",
        folder / "errors.json",
    )
    references = run.datadir / "train_stitch" / "references.json"
    yield Step(
        name=f"errors of the recogniser in {windows}",
        log=folder / "log" / "errors.log",
        function=fit_errors,
        arguments={"hypotheses": heard, "references": references, "output": errors},
        outputs=[errors],
    )
    for name in SIMULATED:
        references, output = (
            run.datadir / name / "references.json",
            folder / f"{name}.jsonl",
        )
        cut = sets.windowing(run, windows)
        yield Step(
            name=f"simulated hypotheses {windows}/{name}",
            log=output.parent / "log" / f"{name}.log",
            function=simulate_hypotheses,
            arguments={
                "references": references,
                "output": output,
                "windowing": cut,
                "errors": errors,
            },
            outputs=[output],
        )


def shared_folder(run: Run, kind: str, system: System) -> Path:
    """What all stitchers of a style and a way of cutting share: their ``pairs``, or the
    ``first`` training.

    With a config of the user's own, the first training is another one.
    """
    if kind == "first" and system.name in run.own_systems:
        kind += f"_{system.name}"
    return run.expdir / kind / f"{system.windows}{run.system_tag}" / str(system.method)


def prepare_stitchers(run: Run, system: System) -> Iterator[Step]:
    """The pairs of a style and a way of cutting, and the stitcher that all its seeds
    begin with.
    """
    folder, windows = shared_folder(run, "pairs", system), str(system.windows)
    if simulates(run):
        for name in SIMULATED:
            yield pairs_step(
                run, system, name, run.expdir / "pairs" / windows / f"{name}.jsonl"
            )
        name = f"{system.config}_{system.method}_first"
        config = run.write_section_config(
            str(system.config), run.sections["stitcher_first"], name=name
        )
        train, valid = (folder / name for name in SIMULATED)
        yield from train_steps(
            run, system, shared_folder(run, "first", system), config, train, valid, 1
        )
    for name in ("train_stitch", *DEV):
        yield pairs_step(run, system, name, hypotheses_of(run, system, name))
    both, folders = folder / "dev", [folder / name for name in DEV]
    yield Step(
        name=f"pairs {both.relative_to(run.expdir / 'pairs')}",
        log=both / "log" / "pairs.log",
        function=join_pairs,
        arguments={"folders": folders, "output": both},
        inputs=[path / table for path in folders for table in ("src_text", "text")],
        outputs=[both / "src_text", both / "text"],
    )


def pairs_step(run: Run, system: System, name: str, heard: Path) -> Step:
    """What a stitcher of a style reads and is to write, from hypotheses of windows and
    the reference.
    """
    output, pieces = (
        shared_folder(run, "pairs", system) / name,
        run.expdir / "pairs" / "tokens" / "bpe.model",
    )
    references = sets.references(run, name)
    return Step(
        name=f"pairs {output.relative_to(run.expdir / 'pairs')}",
        log=output / "log" / "pairs.log",
        function=make_pairs,
        arguments={
            "hypotheses": heard,
            "references": references,
            "output": output,
            "style": system.method,
            "bpemodel": pieces,
            "stretch": sets.settings(run)["stretch"],
            "within": pairs_within(run),
        },
        outputs=[output / TRAINED_ON],
    )


def pairs_within(run: Run) -> float | None:
    """Return how many seconds words may lie apart that the alignment-based stitcher
    reads as a pair; None: any.
    """
    chosen = run.setting("pairs_within")
    return None if chosen in (None, "none") else float(chosen)


def train_stitcher(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """A stitcher, if the system is one."""
    if system.kind == TRAIN:
        pairs, first = (
            shared_folder(run, "pairs", system),
            shared_folder(run, "first", system) / MODEL_FILE,
        )
        files = {"--init_param": first} if simulates(run) else {}
        output, config = (
            run.locate_training(system, seed),
            run.write_system_config(system),
        )
        yield from train_steps(
            run,
            system,
            output,
            config,
            pairs / "train_stitch",
            pairs / "dev",
            seed,
            files,
        )


def train_steps(
    run: Run,
    system: System,
    output: Path,
    config: Path,
    pairs: Path,
    valid: Path,
    seed: int,
    files: Mapping[str, Path] | None = None,
) -> Iterator[Step]:
    """Train a stitcher by ESPnet's MT task; say beside it what it was trained on."""
    folder, stats = run.expdir / "pairs" / "tokens", pairs / "stats"
    words, model = folder / "tokens.txt", folder / "bpe.model"
    source = (
        "word" if system.method == ALIGNMENT else "bpe"
    )  # aligned pairs are word pieces already
    options = [
        *("--token_list", str(words), "--token_type", "bpe", "--bpemodel", str(model)),
        *(
            "--src_token_list",
            str(words),
            "--src_token_type",
            source,
            "--src_bpemodel",
            str(model),
        ),
    ]
    for part, place in (("train", pairs), ("valid", valid)):
        options += list_data_options(
            part, [(place / text, text, "text") for text in ("src_text", "text")]
        )
    lengths = [
        "--train_shape_file",
        str(pairs / "text"),
        "--valid_shape_file",
        str(valid / "text"),
    ]
    made = [
        "--collect_stats",
        "true",
        "--config",
        str(config),
        "--output_dir",
        str(stats),
    ]
    yield Step(
        name=f"statistics of {pairs.relative_to(run.expdir)}",
        log=stats / "log" / "stats.log",
        function=run_command,
        arguments={"command": "mt_train", "options": [*made, *options, *lengths]},
        inputs=[
            config,
            model,
            pairs / TRAINED_ON,
            pairs / "src_text",
            valid / "src_text",
        ],
        outputs=[stats / "train" / "src_text_shape"],
        preload=["espnet_ext.bin.mt_train"],
    )
    shapes = {
        part: [stats / part / f"{text}_shape" for text in ("src_text", "text")]
        for part in ("train", "valid")
    }
    options += [
        word
        for part in shapes
        for path in shapes[part]
        for word in (f"--{part}_shape_file", str(path))
    ]
    yield train_step(
        run,
        output,
        "mt_train",
        ["--seed", str(seed), *options],
        inputs=[
            pairs / "text",
            valid / "text",
            *(path for paths in shapes.values() for path in paths),
        ],
        files={"--config": config, **(files or {})},
    )
    shutil.copy(pairs / TRAINED_ON, output)


def stitching(run: Run) -> None:
    run_each_system(run, stitch, trains=False)


def stitch(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Transcripts of all test sets by a system, and their SA-WER; with the guard too,
    where a row asks for it.
    """
    decodings = run.decodings[system.name]
    guarded = [name for name in decodings if run.decoding(name).get("guard")]
    for decoding in [name for name in decodings if name not in guarded] or [
        DEFAULT_DECODING
    ]:
        yield transcribe(run, system, seed, decoding)
        yield from score(run, system, seed, decoding)
    folder = run.locate_training(system, seed)
    if guarded:
        files = [sets.references(run, name) for name in DEV]
        more = {"references": files, "output": folder / GUARD}
        yield guard_step(
            run, system, folder, DEV, tune_guard, folder / "log", more, [folder / GUARD]
        )
    for decoding in guarded:
        names, log = sets.test_sets(run), folder / f"decode_{decoding}" / "log"
        outputs = [transcripts_of(folder, decoding, name) for name in names]
        more = {"outputs": outputs, "folder": folder}
        yield guard_step(
            run, system, folder, names, guard_transcripts, log, more, outputs
        )
        yield from score(run, system, seed, decoding)


def guard_step(
    run: Run,
    system: System,
    folder: Path,
    names: Sequence[str],
    function: Callable,
    log: Path,
    more: Mapping[str, Any],
    outputs: Sequence[Path],
) -> Step:
    """The guard of a stitcher is tuned on its transcripts of some sets, or used on
    them.
    """
    heard = [hypotheses_of(run, system, name) for name in names]
    made = [transcripts_of(folder, DEFAULT_DECODING, name) for name in names]
    return Step(
        name=f"guard {log.parent.relative_to(run.expdir)}",
        log=log / "guard.log",
        function=function,
        arguments={"hypotheses": heard, "transcripts": made, **more},
        inputs=[] if folder / GUARD in outputs else [folder / GUARD],
        outputs=outputs,
    )


def transcribe(run: Run, system: System, seed: int, decoding: str) -> Step:
    """Transcripts of all test sets by a system in one decoding."""
    names, folder = sets.test_sets(run), run.locate_training(system, seed)
    heard = [hypotheses_of(run, system, name) for name in names]
    outputs = [transcripts_of(folder, decoding, name) for name in names]
    trained = (
        [folder / "config.yaml", folder / MODEL_FILE, folder / TRAINED_ON]
        if system.kind == TRAIN
        else []
    )
    return Step(
        name=f"stitch by {system.name}/seed{seed} ({decoding})",
        log=folder / f"decode_{decoding}" / "log" / "stitch.log",
        function=write_transcripts,
        arguments={
            "hypotheses": heard,
            "outputs": outputs,
            "method": system.method,
            "stitcher": trained and folder,
        },
        free={"ngpu": run.gpu},
        inputs=trained,
        outputs=outputs,
        preload=["espnet2.tasks.mt", "espnet_ext.stitch.stitcher.rewriting_search"]
        if trained
        else [],
        launch=run.decode_launch if trained else (),
    )


def write_transcripts(
    hypotheses: Sequence[Path],
    outputs: Sequence[Path],
    method: str,
    stitcher: Path | None,
    ngpu: int,
) -> None:
    """Merge the windows of each set."""
    options = (
        StitcherOptions(stitcher, device="cuda" if ngpu else "cpu")
        if stitcher
        else None
    )
    merge_windows(hypotheses, outputs, method, options)


def score(run: Run, system: System, seed: int, decoding: str) -> Iterator[Step]:
    """SA-WER of the transcripts of all test sets, of LibriCSS by condition too; it is
    also printed.
    """
    for name in sets.test_sets(run):
        transcripts = transcripts_of(run.locate_training(system, seed), decoding, name)
        output, references = transcripts.parent, sets.references(run, name)
        tables = (
            {"groups": "groups", "sessions": "segment_recording"}
            if name == sets.LIBRICSS
            else {}
        )
        of_segments = {
            option: sets.folder(run, name) / table for option, table in tables.items()
        }
        yield Step(
            name=f"score {output.relative_to(run.expdir)}",
            log=output / "log" / "score.log",
            function=evaluate_speakers,
            arguments={
                "reference": references,
                "hypothesis": transcripts,
                "output": output,
                **of_segments,
            },
            outputs=[output / "score.json"],
            preload=["espnet_ext.scoring.speaker_attributed"],
        )
        found = json.loads((output / "score.json").read_text(encoding="utf-8"))
        show(f"SA-WER {found['value']:.2f} %  ({describe_interval(found)})")


def transcripts_of(folder: Path, decoding: str, name: str) -> Path:
    return folder / f"decode_{decoding}" / name / "transcripts.json"


def hypotheses_of(run: Run, system: System, name: str) -> Path:
    return sets.below(run, "heard") / str(system.windows) / name / "hypotheses.jsonl"

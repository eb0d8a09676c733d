"""Stitchers: what they learn from, their training, and transcripts of all systems."""

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
    # by the folder that some of them share: what is in it is made once
    trained = {}
    for system in run.systems:
        if system.kind == TRAIN:
            trained[locate_shared(run, "first", system)] = system
    if not trained:
        show("no stitcher is trained for these rows")
        return
    run_steps(stitcher_tokens_step(run))
    if simulates(run):
        ways = dict.fromkeys(str(system.windows) for system in trained.values())
        for way in ways:
            run_steps(*simulate_steps(run, way))
    jobs = {}
    for folder, system in trained.items():
        jobs[str(folder.relative_to(run.expdir))] = make_first_job(system)
    run_side_by_side(run, jobs)
    run_each_system(run, train_stitcher)


def make_first_job(system: System) -> Make:
    return lambda run, nj: prepare_stitchers(run, system)


def simulates(run: Run) -> bool:
    """Return whether stitchers learn from simulated errors first."""
    return "train_simulated" in sets.read_mixing(run)


def stitcher_tokens_step(run: Run) -> Step:
    """Make word pieces of all stitchers, from the words that they are to write."""
    settings = sets.merge_settings(run)
    step = asr.tokens_step(
        run,
        "train_stitch" if sets.uses_whisper(run) else "train_single",
        run.expdir / "pairs" / "tokens",
        settings["stitcher_token_type"],
        settings["stitcher_vocab_size"],
        symbols=list(SYMBOLS),
    )
    return replace(step, name="tokens of the stitchers")


def simulate_steps(run: Run, windows: str) -> Iterator[Step]:
    """Simulate hypotheses with errors like the recogniser's.

    Stitchers learn from them first: there are many more than the recogniser has heard.
    """
    folder = run.expdir / "pairs" / windows
    place = sets.locate_output(run, "heard") / windows / "train_stitch"
    heard = place / "hypotheses.jsonl"
    errors = folder / "errors.json"
    references = run.datadir / "train_stitch" / "references.json"
    yield Step(
        name=f"errors of the recogniser in {windows}",
        log=folder / "log" / "errors.log",
        function=fit_errors,
        arguments={"hypotheses": heard, "references": references, "output": errors},
        outputs=[errors],
    )
    for name in SIMULATED:
        output = folder / f"{name}.jsonl"
        yield Step(
            name=f"simulated hypotheses {windows}/{name}",
            log=output.parent / "log" / f"{name}.log",
            function=simulate_hypotheses,
            arguments={
                "references": run.datadir / name / "references.json",
                "output": output,
                "windowing": sets.choose_windowing(run, windows),
                "errors": errors,
            },
            outputs=[output],
        )


def locate_shared(run: Run, kind: str, system: System) -> Path:
    """Return the folder that stitchers of a style and a way of cutting share.

    ``kind`` is ``pairs``, or the ``first`` training.
    """
    # with a config of the user's own, the first training is another one
    if kind == "first" and system.name in run.own_systems:
        kind += f"_{system.name}"
    return run.expdir / kind / f"{system.windows}{run.system_tag}" / str(system.method)


def prepare_stitchers(run: Run, system: System) -> Iterator[Step]:
    """Make the pairs of a style and a way of cutting, and train on simulated errors.

    All seeds begin with the stitcher of that first training.
    """
    folder = locate_shared(run, "pairs", system)
    if simulates(run):
        simulated = run.expdir / "pairs" / str(system.windows)
        for name in SIMULATED:
            yield pairs_step(run, system, name, simulated / f"{name}.jsonl")
        name = f"{system.config}_{system.method}_first"
        config = run.write_section_config(
            str(system.config), run.sections["stitcher_first"], name=name
        )
        train, valid = (folder / name for name in SIMULATED)
        first = locate_shared(run, "first", system)
        yield from train_steps(run, system, first, config, train, valid, 1)
    for name in ("train_stitch", *DEV):
        yield pairs_step(run, system, name, locate_hypotheses(run, system, name))
    # trainings are watched on both dev sets at once
    both = folder / "dev"
    folders = [folder / name for name in DEV]
    yield Step(
        name=f"pairs {both.relative_to(run.expdir / 'pairs')}",
        log=both / "log" / "pairs.log",
        function=join_pairs,
        arguments={"folders": folders, "output": both},
        inputs=[path / table for path in folders for table in ("src_text", "text")],
        outputs=[both / "src_text", both / "text"],
    )


def pairs_step(run: Run, system: System, name: str, heard: Path) -> Step:
    """Make pairs of what a stitcher of a style reads and what it is to write.

    They are made of the hypotheses of windows and the reference.
    """
    output = locate_shared(run, "pairs", system) / name
    return Step(
        name=f"pairs {output.relative_to(run.expdir / 'pairs')}",
        log=output / "log" / "pairs.log",
        function=make_pairs,
        arguments={
            "hypotheses": heard,
            "references": sets.locate_references(run, name),
            "output": output,
            "style": system.method,
            "bpemodel": run.expdir / "pairs" / "tokens" / "bpe.model",
            "stretch": sets.merge_settings(run)["stretch"],
            "within": read_pairs_within(run),
        },
        outputs=[output / TRAINED_ON],
    )


def read_pairs_within(run: Run) -> float | None:
    """Return how many seconds paired words may lie apart; None: any.

    The alignment-based stitcher reads words in pairs.
    """
    chosen = run.setting("pairs_within")
    return None if chosen in (None, "none") else float(chosen)


def train_stitcher(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Train a stitcher, if the system is one."""
    if system.kind != TRAIN:
        return
    pairs = locate_shared(run, "pairs", system)
    files = {}
    if simulates(run):
        first = locate_shared(run, "first", system)
        files["--init_param"] = first / MODEL_FILE
    yield from train_steps(
        run,
        system,
        run.locate_training(system, seed),
        run.write_system_config(system),
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
    folder = run.expdir / "pairs" / "tokens"
    stats = pairs / "stats"
    words = folder / "tokens.txt"
    model = folder / "bpe.model"
    # aligned pairs are word pieces already
    source = "word" if system.method == ALIGNMENT else "bpe"
    options = [
        *("--token_list", str(words)),
        *("--token_type", "bpe"),
        *("--bpemodel", str(model)),
        *("--src_token_list", str(words)),
        *("--src_token_type", source),
        *("--src_bpemodel", str(model)),
    ]
    for part, place in (("train", pairs), ("valid", valid)):
        tables = [(place / text, text, "text") for text in ("src_text", "text")]
        options += list_data_options(part, tables)
    made = [
        *("--collect_stats", "true"),
        *("--config", str(config)),
        *("--output_dir", str(stats)),
    ]
    # which utterances there are, since there are no lengths yet
    lengths = [
        *("--train_shape_file", str(pairs / "text")),
        *("--valid_shape_file", str(valid / "text")),
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
    shapes = []
    for part in ("train", "valid"):
        for text in ("src_text", "text"):
            shape = stats / part / f"{text}_shape"
            options += [f"--{part}_shape_file", str(shape)]
            shapes.append(shape)
    yield train_step(
        run,
        output,
        "mt_train",
        ["--seed", str(seed), *options],
        inputs=[pairs / "text", valid / "text", *shapes],
        files={"--config": config, **(files or {})},
    )
    shutil.copy(pairs / TRAINED_ON, output)


def stitching(run: Run) -> None:
    run_each_system(run, stitch, trains=False)


def stitch(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Write transcripts of all test sets by a system, and their SA-WER.

    Where a row asks for it, they are made with the guard too.
    """
    decodings = run.decodings[system.name]
    guarded = [name for name in decodings if run.decoding(name).get("guard")]
    others = [name for name in decodings if name not in guarded]
    # the guard is of transcripts without it
    for decoding in others or [DEFAULT_DECODING]:
        yield transcribe(run, system, seed, decoding)
        yield from score(run, system, seed, decoding)
    folder = run.locate_training(system, seed)
    if guarded:
        files = [sets.locate_references(run, name) for name in DEV]
        more = {"references": files, "output": folder / GUARD}
        yield guard_step(
            run, system, folder, DEV, tune_guard, folder / "log", more, [folder / GUARD]
        )
    for decoding in guarded:
        names = sets.list_test_sets(run)
        log = folder / f"decode_{decoding}" / "log"
        outputs = [locate_transcripts(folder, decoding, name) for name in names]
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
    """Tune the guard of a stitcher on its transcripts of some sets, or use it there."""
    heard = [locate_hypotheses(run, system, name) for name in names]
    made = [locate_transcripts(folder, DEFAULT_DECODING, name) for name in names]
    guard = folder / GUARD
    tunes = guard in outputs
    return Step(
        name=f"guard {log.parent.relative_to(run.expdir)}",
        log=log / "guard.log",
        function=function,
        arguments={"hypotheses": heard, "transcripts": made, **more},
        inputs=[] if tunes else [guard],
        outputs=outputs,
    )


def transcribe(run: Run, system: System, seed: int, decoding: str) -> Step:
    """Write transcripts of all test sets by a system in one decoding."""
    names = sets.list_test_sets(run)
    folder = run.locate_training(system, seed)
    outputs = [locate_transcripts(folder, decoding, name) for name in names]
    arguments = {
        "hypotheses": [locate_hypotheses(run, system, name) for name in names],
        "outputs": outputs,
        "method": system.method,
        "stitcher": [],
    }
    step = Step(
        name=f"stitch by {system.name}/seed{seed} ({decoding})",
        log=folder / f"decode_{decoding}" / "log" / "stitch.log",
        function=write_transcripts,
        arguments=arguments,
        free={"ngpu": run.gpu},
        outputs=outputs,
    )
    # systems that merge by rule alone have no model
    if system.kind != TRAIN:
        return step
    return replace(
        step,
        arguments={**arguments, "stitcher": folder},
        inputs=[folder / "config.yaml", folder / MODEL_FILE, folder / TRAINED_ON],
        preload=["espnet2.tasks.mt", "espnet_ext.stitch.stitcher.rewriting_search"],
        launch=run.decode_launch,
    )


def write_transcripts(
    hypotheses: Sequence[Path],
    outputs: Sequence[Path],
    method: str,
    stitcher: Path | None,
    ngpu: int,
) -> None:
    """Merge the windows of each set."""
    options = None
    if stitcher:
        options = StitcherOptions(stitcher, device="cuda" if ngpu else "cpu")
    merge_windows(hypotheses, outputs, method, options)


def score(run: Run, system: System, seed: int, decoding: str) -> Iterator[Step]:
    """Compute and print SA-WER of all test sets, of LibriCSS by condition too."""
    folder = run.locate_training(system, seed)
    for name in sets.list_test_sets(run):
        transcripts = locate_transcripts(folder, decoding, name)
        output = transcripts.parent
        of_segments = {}
        if name == sets.LIBRICSS:
            place = sets.locate_set(run, name)
            of_segments["groups"] = place / "groups"
            of_segments["sessions"] = place / "segment_recording"
        yield Step(
            name=f"score {output.relative_to(run.expdir)}",
            log=output / "log" / "score.log",
            function=evaluate_speakers,
            arguments={
                "reference": sets.locate_references(run, name),
                "hypothesis": transcripts,
                "output": output,
                **of_segments,
            },
            outputs=[output / "score.json"],
            preload=["espnet_ext.scoring.speaker_attributed"],
        )
        found = json.loads((output / "score.json").read_text(encoding="utf-8"))
        show(f"SA-WER {found['value']:.2f} %  ({describe_interval(found)})")


def locate_transcripts(folder: Path, decoding: str, name: str) -> Path:
    return folder / f"decode_{decoding}" / name / "transcripts.json"


def locate_hypotheses(run: Run, system: System, name: str) -> Path:
    return (
        sets.locate_output(run, "heard")
        / str(system.windows)
        / name
        / "hypotheses.jsonl"
    )

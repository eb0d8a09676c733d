"""Stitchers: what they learn from, their training, the transcripts of all systems, and their scores."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from espnet_ext.recipe import asr
from espnet_ext.recipe.run import Run, load_script
from espnet_ext.recipe.steps import Step, run_jobs, run_steps, say
from espnet_ext.recipe.training import data_options, run_command, train_step
from espnet_ext.scoring.evaluate import evaluate_speakers
from espnet_ext.stitcher.ceiling import write_ceiling
from espnet_ext.stitcher.error_statistics import fit_and_check
from espnet_ext.stitcher.guard import GUARD, guard_transcripts, read_guard, settle_guard
from espnet_ext.stitcher.inference import MODEL_FILE, StitcherOptions, merge_windows
from espnet_ext.stitcher.note import ALIGNMENT, NOTE
from espnet_ext.stitcher.pairs import SYMBOLS, join_pairs, make_pairs
from espnet_ext.stitcher.simulated_errors import simulate_hypotheses
from espnet_ext.tables.plans.schema import DEFAULT_DECODING, TRAIN
from espnet_ext.tables.plans.tables import System

CEILING = "ceiling"  # the method of tables.yaml
sets = load_script(Path(__file__).with_name("sets.py"))


def training(run: Run) -> None:
    trained = [system for system in run.systems if system.kind == TRAIN]
    if not trained:
        say("no stitcher is trained for these rows")
        return
    run_steps(stitcher_tokens(run))
    simulated = "train_simulated" in sets.mixing(run)
    if simulated:
        ways = dict.fromkeys(str(system.windows) for system in trained)
        run_steps(*(step for way in ways for step in simulate(run, way)))
    kinds = {(system.windows, system.method): system for system in trained}
    jobs = (prepare_stitchers(run, system, simulated) for system in kinds.values())
    run_jobs(jobs, 1 if run.ngpu else run.nj)  # they would share the GPUs
    run.each_system(train_stitcher)


def stitcher_tokens(run: Run) -> Step:
    """Word pieces of all stitchers, from the words that they are to write."""
    settings, folder = sets.settings(run), run.expdir / "pairs" / "tokens"
    kind, size = settings["stitcher_token_type"], settings["stitcher_vocab_size"]
    text = "train_stitch" if sets.whisper(run) else "train_single"
    step = asr.tokens_step(run, text, folder, kind, size, symbols=list(SYMBOLS))
    return replace(step, name="tokens of the stitchers")


def simulate(run: Run, windows: str) -> Iterator[Step]:
    """Hypotheses with simulated errors like the recogniser's, from which stitchers learn first."""
    folder = run.expdir / "pairs" / windows
    heard, said = run.expdir / "heard" / windows / "train_stitch" / "hypotheses.jsonl", "train_stitch/references.json"
    yield Step(
        name=f"errors of the recogniser in {windows}",
        log=folder / "log" / "errors.log",
        function=fit_and_check,
        arguments={"hypotheses": heard, "references": run.datadir / said, "output": folder / "errors.json"},
        inputs=[heard, run.datadir / said],
        outputs=[folder / "errors.json"],
    )
    for name in ("train_simulated", "dev_simulated"):
        references, output = run.datadir / name / "references.json", folder / f"{name}.jsonl"
        yield Step(
            name=f"simulated hypotheses {windows}/{name}",
            log=output.parent / "log" / f"{name}.log",
            function=simulate_hypotheses,
            arguments={
                "references": references,
                "output": output,
                "windowing": sets.windowing(run, windows),
                "errors": folder / "errors.json",
            },
            inputs=[references, folder / "errors.json"],
            outputs=[output],
        )


def pairs_folder(run: Run, system: System) -> Path:
    return run.expdir / "pairs" / str(system.windows) / str(system.method)


def first_folder(run: Run, system: System) -> Path:
    """The stitcher that was trained on simulated errors, with which others begin."""
    return run.expdir / "first" / str(system.windows) / str(system.method)


def prepare_stitchers(run: Run, system: System, simulated: bool) -> Iterator[Step]:
    """What all stitchers of a style and a way of cutting share: their pairs, and the stitcher that they begin with."""
    folder, windows = pairs_folder(run, system), str(system.windows)
    if simulated:
        for name in ("train_simulated", "dev_simulated"):
            yield pairs_step(run, system, name, run.expdir / "pairs" / windows / f"{name}.jsonl")
        name = f"{system.config}_{system.method}_first"
        config = run.section_config(str(system.config), run.sections["stitcher_first"], name=name)
        yield from train(
            run, system, first_folder(run, system), config, folder / "train_simulated", folder / "dev_simulated", 1
        )
    for name in ("train_stitch", "dev-short", "dev-long"):
        yield pairs_step(run, system, name, run.expdir / "heard" / windows / name / "hypotheses.jsonl")
    short, long, both = folder / "dev-short", folder / "dev-long", folder / "dev"
    yield Step(
        name=f"pairs {both.relative_to(run.expdir / 'pairs')}",
        log=both / "log" / "pairs.log",
        function=join_pairs,
        arguments={"folders": [short, long], "output": both},
        inputs=[path / table for path in (short, long) for table in ("src_text", "text")],
        outputs=[both / "src_text", both / "text"],
    )


def pairs_step(run: Run, system: System, name: str, heard: Path) -> Step:
    """What a stitcher of a style reads and is to write, from hypotheses of windows and the reference."""
    output, pieces = pairs_folder(run, system) / name, run.expdir / "pairs" / "tokens" / "bpe.model"
    references = sets.folder(run, name) / "references.json"
    return Step(
        name=f"pairs {output.relative_to(run.expdir / 'pairs')}",
        log=output / "log" / "pairs.log",
        function=make_pairs,
        arguments={
            "hypotheses": heard,
            "output": output,
            "style": system.method,
            "references": references,
            "bpemodel": pieces,
            "stretch": sets.settings(run)["stretch"],
        },
        inputs=[heard, references, pieces],
        outputs=[output / NOTE],
    )


def train_stitcher(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """A stitcher, if the system is one."""
    if system.kind != TRAIN:
        return
    pairs, first = pairs_folder(run, system), first_folder(run, system) / MODEL_FILE
    files = {"--init_param": first} if "train_simulated" in sets.mixing(run) else {}
    output, config = run.expdir / system.name / f"seed{seed}", run.system_config(system)
    yield from train(run, system, output, config, pairs / "train_stitch", pairs / "dev", seed, files)


def train(
    run: Run,
    system: System,
    output: Path,
    config: Path,
    pairs: Path,
    valid: Path,
    seed: int,
    files: Mapping[str, Path] | None = None,
) -> Iterator[Step]:
    """Train a stitcher by ESPnet's MT task, and put the note of its pairs beside it."""
    folder, stats = run.expdir / "pairs" / "tokens", pairs / "stats"
    words, model = folder / "tokens.txt", folder / "bpe.model"
    source = "word" if system.method == ALIGNMENT else "bpe"  # aligned pairs are word pieces already
    options = [
        *("--token_list", str(words), "--token_type", "bpe", "--bpemodel", str(model)),
        *("--src_token_list", str(words), "--src_token_type", source, "--src_bpemodel", str(model)),
    ]
    for part, place in (("train", pairs), ("valid", valid)):
        options += data_options(part, [(place / text, text, "text") for text in ("src_text", "text")])
    lengths = ["--train_shape_file", str(pairs / "text"), "--valid_shape_file", str(valid / "text")]
    made = ["--collect_stats", "true", "--config", str(config), "--output_dir", str(stats)]
    yield Step(
        name=f"statistics of {pairs.relative_to(run.expdir)}",
        log=stats / "log" / "stats.log",
        function=run_command,
        arguments={"command": "mt_train", "options": [*made, *options, *lengths]},
        inputs=[config, model, pairs / NOTE, pairs / "src_text", valid / "src_text"],
        outputs=[stats / "train" / "src_text_shape"],
        preload=["espnet_ext.bin.mt_train"],
    )
    shapes = {part: [stats / part / f"{text}_shape" for text in ("src_text", "text")] for part in ("train", "valid")}
    options += [word for part in shapes for path in shapes[part] for word in (f"--{part}_shape_file", str(path))]
    yield train_step(
        run,
        output,
        "mt_train",
        ["--seed", str(seed), *options],
        inputs=[pairs / "text", valid / "text", *(path for paths in shapes.values() for path in paths)],
        files={"--config": config, **(files or {})},
    )
    shutil.copy(pairs / NOTE, output)


def stitching(run: Run) -> None:
    run.each_system(stitch)


def stitch(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Transcripts of all test sets by a system, and their SA-WER; with the guard too, where a row asks for it."""
    plain = [name for name in run.decodings[system.name] if not guards(run, name)]
    guarded = [name for name in run.decodings[system.name] if guards(run, name)]
    for decoding in plain or [DEFAULT_DECODING]:
        yield transcribe(run, system, seed, decoding)
        yield from score(run, system, seed, decoding)
    if guarded:
        yield guard_step(run, system, seed)
    for decoding in guarded:
        yield guarded_step(run, system, seed, decoding)
        yield from score(run, system, seed, decoding)


def guards(run: Run, decoding: str) -> bool:
    return bool(run.decoding(decoding).get("guard"))


def transcribe(run: Run, system: System, seed: int, decoding: str) -> Step:
    """Transcripts of all test sets by a system in one decoding."""
    names, folder = sets.test_sets(run), run.expdir / system.name / f"seed{seed}"
    heard = [heard_of(run, system, name) for name in names]
    outputs = [transcripts_of(folder, decoding, name) for name in names]
    trained = [folder / "config.yaml", folder / MODEL_FILE, folder / NOTE] if system.kind == TRAIN else []
    return Step(
        name=f"stitch by {system.name}/seed{seed} ({decoding})",
        log=folder / f"decode_{decoding}" / "log" / "stitch.log",
        function=write_transcripts,
        arguments={
            "hypotheses": heard,
            "references": [sets.folder(run, name) / "references.json" for name in names],
            "outputs": outputs,
            "method": system.method,
            "stitcher": trained and folder,
        },
        free={"ngpu": run.gpu},
        inputs=[*heard, *trained],
        outputs=outputs,
        preload=["espnet2.tasks.mt", "espnet_ext.stitcher.rewriting_search"] if trained else [],
    )


def score(run: Run, system: System, seed: int, decoding: str) -> Iterator[Step]:
    """SA-WER of the transcripts of all test sets, which is also printed."""
    for name in sets.test_sets(run):
        transcripts = transcripts_of(run.expdir / system.name / f"seed{seed}", decoding, name)
        yield score_step(run, name, transcripts)
        found = json.loads(transcripts.with_name("score.json").read_text(encoding="utf-8"))
        say(f"SA-WER {found['value']:.2f} %  (95% interval {found['ci95'][0]:.2f} to {found['ci95'][1]:.2f})")


def transcripts_of(folder: Path, decoding: str, name: str) -> Path:
    return folder / f"decode_{decoding}" / name / "transcripts.json"


def heard_of(run: Run, system: System, name: str) -> Path:
    return run.expdir / "heard" / str(system.windows) / name / "hypotheses.jsonl"


def guard_step(run: Run, system: System, seed: int) -> Step:
    """How many edits a word a stitcher may make, settled on the dev sets."""
    folder, names = run.expdir / system.name / f"seed{seed}", ("dev-short", "dev-long")
    heard = [heard_of(run, system, name) for name in names]
    made = [transcripts_of(folder, DEFAULT_DECODING, name) for name in names]
    said = [sets.folder(run, name) / "references.json" for name in names]
    return Step(
        name=f"guard of {system.name}/seed{seed}",
        log=folder / "log" / "guard.log",
        function=settle_guard,
        arguments={"hypotheses": heard, "transcripts": made, "references": said, "output": folder / GUARD},
        inputs=[*heard, *made, *said],
        outputs=[folder / GUARD],
    )


def guarded_step(run: Run, system: System, seed: int, decoding: str) -> Step:
    """The transcripts that the guard leaves of a stitcher's."""
    folder, names = run.expdir / system.name / f"seed{seed}", sets.test_sets(run)
    heard = [heard_of(run, system, name) for name in names]
    made = [transcripts_of(folder, DEFAULT_DECODING, name) for name in names]
    outputs = [transcripts_of(folder, decoding, name) for name in names]
    return Step(
        name=f"guard of {system.name}/seed{seed} ({decoding})",
        log=folder / f"decode_{decoding}" / "log" / "guard.log",
        function=write_guarded,
        arguments={"hypotheses": heard, "transcripts": made, "outputs": outputs, "stitcher": folder},
        inputs=[*heard, *made, folder / GUARD],
        outputs=outputs,
    )


def write_transcripts(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    outputs: Sequence[Path],
    method: str,
    stitcher: Path | None,
    ngpu: int,
) -> None:
    """Merge the windows of each set; only the ceiling knows the references."""
    if method == CEILING:
        for heard, said, output in zip(hypotheses, references, outputs, strict=True):
            write_ceiling(heard, said, output)
        return
    options = StitcherOptions(stitcher, device="cuda" if ngpu else "cpu") if stitcher else None
    merge_windows(hypotheses, outputs, method, options)


def write_guarded(
    hypotheses: Sequence[Path], transcripts: Sequence[Path], outputs: Sequence[Path], stitcher: Path
) -> None:
    """Keep a stitcher's transcripts where its guard allows."""
    limit = read_guard(stitcher)
    assert limit is not None  # the step before has settled it
    guard_transcripts(hypotheses, transcripts, outputs, limit)


def score_step(run: Run, name: str, transcripts: Path) -> Step:
    """SA-WER of a set's transcripts; of LibriCSS by condition too."""
    output, references = transcripts.parent, sets.folder(run, name) / "references.json"
    groups = sets.folder(run, name) / "groups" if name == sets.LIBRICSS else None
    return Step(
        name=f"score {output.relative_to(run.expdir)}",
        log=output / "log" / "score.log",
        function=evaluate_speakers,
        arguments={"reference": references, "hypothesis": transcripts, "output": output, "groups": groups},
        inputs=[references, transcripts],
        outputs=[output / "score.json"],
        preload=["espnet_ext.scoring.evaluate"],
    )

"""Show in eight minutes what only a GPU can show: ``make -C tools test-gpu``.

    python tests/integration/gpu.py [--device cpu] [--only CHECK ...] [--minutes 8]

For a machine with one GPU. Each check runs in a process of its own, with a time limit,
so that one that fails stops no other. What is printed is a table for docs/gpus.md,
with the name of the card. ``--device cpu`` tries the script itself, with small models
and longer limits. The status is 1 if a check failed.
"""

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EGS = ROOT / "egs"
MARK = "found by this check: "  # before what a check's process prints for this one
MINUTES = {"cuda": 8.0, "cpu": 60.0}
SLOWER = 6  # a processor is given so many times the limits
UPDATES = 3  # of a training; the first one is slower
LOG_ZERO = -1e9  # CTC's scores below are of impossible labels


@dataclass(frozen=True)
class Found:
    """What a check has found: whether it is as it should be (None: nothing could be
    checked), and a line.
    """

    good: bool | None
    text: str


@dataclass(frozen=True)
class Check:
    """A check, with the seconds that it may take on a GPU."""

    function: Callable[[], Found]
    seconds: float


CHECKS: dict[str, Check] = {}
device = "cuda"  # of this process; main() sets it


def check(seconds: float, name: str = "") -> Callable:
    """Add a function to the checks, by its name or another."""

    def add(function: Callable[[], Found]) -> Callable[[], Found]:
        CHECKS[name or function.__name__] = Check(function, seconds)
        return function

    return add


def on_gpu() -> bool:
    return device == "cuda"


def measure(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and the seconds until the GPU has done it."""
    import torch

    if on_gpu():
        torch.cuda.synchronize()
    start = time.perf_counter()
    value = function()
    if on_gpu():
        torch.cuda.synchronize()
    return value, time.perf_counter() - start


def peak_memory() -> str:
    import torch

    if not on_gpu():
        return "no peak on a CPU"
    return f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"


# ---- the machine ----


@check(60)
def environment() -> Found:
    """What PyTorch and CTranslate2 see."""
    import torch

    seen = [f"PyTorch {torch.__version__}"]
    if on_gpu():
        major, minor = torch.cuda.get_device_capability()
        seen += [
            torch.cuda.get_device_name(),
            f"capability {major}.{minor}",
            f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}",
            f"NVML counts {torch.cuda._device_count_nvml()}",
        ]
    with contextlib.suppress(ImportError):
        import ctranslate2

        seen.append(f"CTranslate2 sees {ctranslate2.get_cuda_device_count()}")
    return Found(torch.cuda.is_available() or not on_gpu(), ", ".join(seen))


# ---- recipes at smoke ----

# what is trained, and what a second row would only repeat is left out
SMOKE: dict[str, tuple[str, ...]] = {
    "librispeech_sem": ("--table", "1", "--rows", "baseline"),
    "asru2019_cs": ("--table", "1", "--rows", "separate"),
    "librispeech_rescore": ("--rows", "GPT-2 MWER"),
    "libricss_stitch": ("--table", "2"),
    "spotify_longctx": ("--figure", "1"),
}


def run_smoke(recipe: str) -> Found:
    """Run a recipe at smoke, to its table."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--scale", "smoke", "--nj", "2", "--ngpu", "1" if on_gpu() else "0"]
        options += ["--expdir", f"{folder}/exp", "--datadir", f"{folder}/data"]
        done = subprocess.run(
            ["./run.sh", *options, *SMOKE[recipe]],
            cwd=EGS / recipe,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if not done.returncode:
        return Found(True, f"to its table with {' '.join(options[4:6])}")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line]
    return Found(False, f"status {done.returncode}: {(errors or lines or [''])[-1]}")


for recipe_name in SMOKE:
    CHECKS[f"smoke {recipe_name}"] = Check(
        lambda recipe=recipe_name: run_smoke(recipe), 200
    )


# ---- updates of the systems at full size ----


@dataclass(frozen=True)
class Training:
    """A model, its batch, and its optimizer's name and options, as its config says."""

    model: Any
    batch: dict[str, Any]
    optim: str
    optim_conf: dict[str, Any]
    what: str


def make_tokens(count: int) -> list[str]:
    pieces = [f"\u2581w{number}" for number in range(count - 4)]
    return ["<blank>", "<unk>", "<sc>", *pieces, "<sos/eos>"]


def make_text(rows: int, tokens: int, vocabulary: int) -> dict[str, Any]:
    """Random texts, the last one half as long as the first."""
    import torch

    lengths = torch.linspace(tokens, max(1, tokens // 2), rows).long()
    text = torch.randint(3, vocabulary - 1, (rows, tokens))
    present = torch.arange(tokens) < lengths.unsqueeze(1)
    return {"text": text.masked_fill(~present, -1), "text_lengths": lengths}


def make_audio(rows: int, seconds: float) -> dict[str, Any]:
    """Noise, the last utterance half as long as the first."""
    import torch

    samples = int(16000 * seconds)
    lengths = torch.linspace(samples, samples // 2, rows).long()
    return {"speech": 0.1 * torch.randn(rows, samples), "speech_lengths": lengths}


def load_sections(recipe: str) -> dict[str, Any]:
    from espnet_ext.tables.plan import load_scale

    return load_scale(EGS / recipe, "full" if on_gpu() else "smoke")


def load_config(recipe: str, system: str) -> dict[str, Any]:
    """Return the config of a system of a recipe."""
    from espnet_ext.tables.plan import merge_system_config
    from espnet_ext.tables.reading import load_tables

    tables = load_tables(EGS / recipe / "conf" / "tables.yaml")
    return merge_system_config(load_sections(recipe), tables.systems[system])


def build(
    task: Any, config: Mapping[str, Any], vocabulary: int
) -> tuple[Any, argparse.Namespace]:
    """Build a model as the task's command does; return it with its options."""
    import numpy as np
    import torch
    import yaml

    import espnet_ext

    espnet_ext.register()
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    config = dict(config)
    normalize = config.get("normalize", task.get_default_config().get("normalize"))
    if normalize not in ("none", "utterance_mvn", None):
        mels = config.get("frontend_conf", {}).get("n_mels", 80)
        mean, square = np.full(mels, 300.0), np.full(mels, 100.0)
        np.savez(folder / "stats.npz", count=1000, sum=mean, sum_square=square)
        stats = {"stats_file": str(folder / "stats.npz")}
        config["normalize_conf"] = config.get("normalize_conf", {}) | stats
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    args = task.get_parser().parse_args(
        ["--config", str(folder / "train.yaml"), "--output_dir", str(folder)]
    )
    args.token_list = make_tokens(vocabulary)
    if hasattr(args, "src_token_list"):
        args.src_token_list = args.token_list
    if "mode" in (getattr(args, "decoder_conf", None) or {}):
        lines = [
            f"{token} {'-' if token[0] == '<' else ('en', 'zh')[number % 2]}\n"
            for number, token in enumerate(args.token_list)
        ]
        (folder / "languages.txt").write_text("".join(lines))
        args.decoder_conf["languages_file"] = str(folder / "languages.txt")
    return task.build_model(args), args


def prepare_sem() -> Training:
    from espnet2.tasks.asr import ASRTask

    vocabulary = 10000 if on_gpu() else 100
    config = load_config("librispeech_sem", "sem_m80_0")
    model, args = build(ASRTask, config, vocabulary)
    rows, seconds, tokens = (14, 14.0, 60) if on_gpu() else (2, 1.0, 5)
    batch = make_audio(rows, seconds) | make_text(rows, tokens, vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, f"{rows} x {seconds} s")


def prepare_code_switching() -> Training:
    from espnet2.tasks.asr import ASRTask

    vocabulary = 4103 if on_gpu() else 103
    config = load_config("asru2019_cs", "separate_cs")
    model, args = build(ASRTask, config, vocabulary)
    rows, seconds, tokens = (32, 10.0, 40) if on_gpu() else (2, 1.0, 5)
    batch = make_audio(rows, seconds) | make_text(rows, tokens, vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, f"{rows} x {seconds} s")


def prepare_recogniser(kind: str) -> Training:
    import torch

    from espnet_ext.stitch.recogniser.task import SAASRTask

    vocabulary = 16000 if on_gpu() else 100
    config = load_sections("libricss_stitch")[f"sa_asr_{kind}"]
    model, args = build(SAASRTask, config | {"token_type": "bpe"}, vocabulary)
    rows, seconds, tokens = (14, 30.0, 120) if on_gpu() else (2, 2.0, 5)
    batch = make_audio(rows, seconds) | make_text(rows, tokens, vocabulary)
    batch["text"][:, 2] = 2  # a change of the speaker
    batch["profiles"] = torch.randn(rows, 8, model.profile_size)
    batch["profiles_lengths"] = torch.full((rows,), 8)
    batch["speakers"] = torch.tensor([[0, 3]]).repeat(rows, 1)
    batch["speakers_lengths"] = torch.full((rows,), 2)
    return Training(model, batch, args.optim, args.optim_conf, f"{rows} x {seconds} s")


def prepare_stitcher() -> Training:
    import torch
    from espnet2.tasks.mt import MTTask

    vocabulary = 16000 if on_gpu() else 100
    config = load_config("libricss_stitch", "stitcher_wc")
    model, args = build(MTTask, config, vocabulary)
    rows, tokens = (16, 250) if on_gpu() else (2, 5)
    source = torch.randint(3, vocabulary - 1, (rows, 2 * tokens))
    lengths = {"src_text_lengths": torch.full((rows,), 2 * tokens)}
    batch = {"src_text": source} | lengths | make_text(rows, tokens, vocabulary)
    what = f"{rows} x {2 * tokens} tokens"
    return Training(model, batch, args.optim, args.optim_conf, what)


def prepare_long(rows: int, seconds: float) -> Training:
    import torch

    from espnet_ext.longform.training import RecordingsASRTask

    vocabulary = 4096 if on_gpu() else 100
    config = load_sections("spotify_longctx")["train"]
    model, args = build(RecordingsASRTask, config, vocabulary)
    frames, tokens = int(100 * seconds), max(3, int(3 * seconds))
    batch = {
        "speech": torch.randn(rows, frames, args.input_size),
        "speech_lengths": torch.linspace(frames, 0.7 * frames, rows).long(),
    }
    batch |= make_text(rows, tokens if on_gpu() else 3, vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, f"{rows} x {seconds} s")


def prepare_recogniser_of_lists() -> Training:
    from espnet2.tasks.asr import ASRTask

    vocabulary = 5000 if on_gpu() else 100
    config = load_sections("librispeech_rescore")["asr_train"]
    model, args = build(ASRTask, config, vocabulary)
    rows, seconds, tokens = (64, 14.0, 60) if on_gpu() else (2, 1.0, 5)
    batch = make_audio(rows, seconds) | make_text(rows, tokens, vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, f"{rows} x {seconds} s")


LONGEST = (1, 3600.0)  # an hour at once
SYSTEMS: dict[str, Callable[[], Training]] = {
    "P1 separate attention": prepare_code_switching,
    "P2 SEM": prepare_sem,
    "P3 recogniser": prepare_recogniser_of_lists,
    "P4 recogniser, LSTM": lambda: prepare_recogniser("lstm"),
    "P4 recogniser, conformer": lambda: prepare_recogniser("conformer"),
    "P4 stitcher": prepare_stitcher,
    "P5 at 10 s": lambda: prepare_long(*((360, 10.0) if on_gpu() else (2, 4.0))),
    "P5 at an hour": lambda: prepare_long(*(LONGEST if on_gpu() else (1, 8.0))),
}


def take_updates(training: Training, precision: str) -> Found:
    """Take some updates as ESPnet's trainer does them; losses and some gradients must
    be finite.
    """
    import torch
    from espnet2.tasks.abs_task import optim_classes

    torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
    model = training.model.to(device).train()
    batch = {name: each.to(device) for name, each in training.batch.items()}
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = optim_classes[training.optim](trained, **training.optim_conf)
    scaler = torch.amp.GradScaler(device, enabled=precision == "float16" and on_gpu())
    half = getattr(torch, precision, torch.bfloat16)
    if precision == "float16" and not on_gpu():
        torch.backends.mkldnn.set_flags(False)  # oneDNN has no LSTM in float16

    def update() -> tuple[float, bool]:
        optimizer.zero_grad()
        enabled = precision in ("bfloat16", "float16")
        with torch.autocast(device, half, enabled=enabled):
            loss = model(**batch)[0].mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(trained, 5.0)
        if scaler.is_enabled() or norm.isfinite():
            scaler.step(optimizer)
        scaler.update()
        return float(loss), bool(norm.isfinite())

    measured = [measure(update) for _ in range(UPDATES)]
    losses = [loss for (loss, _), _ in measured]
    finite = sum(good for (_, good), _ in measured)
    seconds = min(took for _, took in measured)
    good = all(abs(loss) < 1e30 for loss in losses) and finite > 0
    return Found(
        good,
        f"{training.what}: {seconds:.3f} s an update, {peak_memory()}, loss "
        f"{losses[0]:.4g} to {losses[-1]:.4g}, gradients finite in {finite} of "
        f"{UPDATES}",
    )


PRECISIONS = {"P5 at an hour": ("bfloat16",)}
for system_name, prepare in SYSTEMS.items():
    for kind in PRECISIONS.get(system_name, ("float32", "TF32", "bfloat16", "float16")):
        CHECKS[f"{system_name}, {kind}"] = Check(
            lambda prepare=prepare, kind=kind: take_updates(prepare(), kind), 60
        )


@check(60, "P3 GPT-2, MWER")
def update_rescorer() -> Found:
    """MWER on ten hypotheses of 43 tokens for each of four utterances, by a GPT-2 of
    its real size with random parameters.
    """
    from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward
    from espnet_ext.rescore.training.small_models import SmallModel, make_small_model
    from espnet_ext.text.nbest import Hypothesis, NBest

    words = [chr(ord("a") + number) * 2 for number in range(20)]
    texts = [" ".join((words * 3)[start : start + 42]) for start in range(10)]
    hypotheses = tuple(Hypothesis(text, -number) for number, text in enumerate(texts))
    errors = tuple(range(10))
    lists = [Example(NBest(f"u{n}", hypotheses, texts[0]), errors) for n in range(4)]
    small = {} if on_gpu() else {"n_layer": 2, "n_embd": 32, "n_head": 2}
    lines = []
    for amp in (False, True):
        model = SmallModel(kind="gpt2", vocabulary=330, config=small, casing="as-is")
        scorer = make_small_model(model, texts).to(device).train()
        scorer.prepare_training(gradient_checkpointing=False, amp=amp)
        measured = [
            measure(lambda scorer=scorer: backward(scorer, lists, MwerLoss()))
            for _ in range(2)
        ]
        (values, _), (_, seconds) = measured
        kind = "bfloat16" if amp else "float32"
        lines.append(f"{kind}: {seconds:.3f} s an update, loss {values['loss']:.4g}")
    return Found("nan" not in "".join(lines), "; ".join([*lines, peak_memory()]))


# ---- searches ----


@check(150)
def fast_search() -> Found:
    """Hypotheses of ESPnet's search and of the fast one, one by one and all at once."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
    import bench_fast_decoder as bench

    if not on_gpu():
        small = {"attention_heads": 2, "linear_units": 32, "num_blocks": 1}
        bench.VOCABULARY = 60
        bench.CONFORMER.update(small, output_size=32)
        bench.DECODERS["transformer"].update(small)
    random = np.random.default_rng(0)
    lengths = (4, 6, 8, 10, 12) * 2 if on_gpu() else (1, 2, 1.5)
    speech = [
        random.normal(scale=0.1, size=int(16000 * each)).astype(np.float32)
        for each in lengths
    ]
    differ, lines = 0, []
    for decoder in ("transformer", "rnn") if on_gpu() else ("transformer",):
        with tempfile.TemporaryDirectory() as folder:
            files = bench.write_model(Path(folder), decoder, bench.DECODERS[decoder])
            others, line = compare_searches(files, speech)
        differ += others
        lines.append(f"{decoder}: {line}")
    return Found(not differ, f"{differ} hypotheses differ; {'; '.join(lines)}")


def compare_searches(files: dict[str, Any], speech: list[Any]) -> tuple[int, str]:
    """Return how many hypotheses of a model's fast search are not ESPnet's, and a line
    on how long both take.
    """
    import torch

    from espnet_ext.upstream.inference import build_speech2text

    options = {**files, "beam_size": 10, "ctc_weight": 0.3, "device": device}
    options |= {"maxlenratio": 0.16, "minlenratio": 0.15}
    espnet = build_speech2text(**options)
    fast = build_speech2text(**options, fast_decoder=True, batch_size="auto")
    few = speech[:5]
    with torch.no_grad():
        espnet(few[0])  # kernels are loaded once
        fast.batch_decode(few[:1])
        theirs, espnet_took = measure(lambda: [espnet(each) for each in few])
        single, single_took = measure(
            lambda: [fast.batch_decode([each])[0] for each in few]
        )
        many, many_took = measure(lambda: fast.batch_decode(speech))
    expected = [list(result[0][2]) for result in theirs]
    differ = 0
    for found in (single, many[: len(few)]):
        ids = [list(result[0][2]) for result in found]
        differ += sum(a != b for a, b in zip(ids, expected, strict=True))
    each = espnet_took / len(few)
    return differ, (
        f"ESPnet {each:.3f} s an utterance, one by one "
        f"{espnet_took / single_took:.1f} times as fast, all at once "
        f"{each / (many_took / len(speech)):.1f} times"
    )


@check(90)
def whisper() -> Found:
    """Whisper tiny.en hears the same on the GPU as on the processor."""
    try:
        import faster_whisper  # noqa: F401

        from espnet_ext.synthetic.voices import speak
    except ImportError as error:
        return Found(None, f"not installed: {error}")
    import torch
    from torchaudio.functional import resample

    from espnet_ext.whisper.model import load_whisper

    said = "the quick brown fox jumps over the lazy dog."
    spoken = speak(said, "en-us", rate=150, pitch=50, pitch_range=50, seed=1).samples
    samples = resample(torch.as_tensor(spoken).float(), 22050, 16000).numpy()
    heard = {}
    for each, kind in (("cpu", "float32"), (device, "float16" if on_gpu() else "int8")):
        network = load_whisper(None, each, kind)
        pieces, _ = network.transcribe(samples, language="en")
        heard[kind] = " ".join(piece.text.strip() for piece in pieces)
    first, second = heard.values()
    return Found(first == second, f"{first!r} and {second!r}")


# ---- numbers ----


@check(60)
def energy_mask() -> Found:
    """Small Energy Masking has a path of its own on a GPU."""
    import torch

    from espnet_ext.sem.energy_mask import compute_mask

    energies = torch.rand(8, 1500, 40)
    lengths = torch.linspace(1500, 3, 8).long()
    thresholds = -80 * torch.rand(8)
    on_cpu = compute_mask(energies, lengths, thresholds)
    other = compute_mask(*(x.to(device) for x in (energies, lengths, thresholds)))
    differ = int((on_cpu != other.cpu()).sum())
    return Found(
        differ < 1e-5 * energies.numel(), f"{differ} of {energies.numel()} bins differ"
    )


@check(60)
def batch_renorm_in_half_precision() -> Found:
    """Batch renormalisation under autocast, of what is far from zero."""
    import torch

    from espnet_ext.longform.batch_renorm import BatchRenorm, Ramp

    x = 300 + 10 * torch.randn(4, 200, 32, device=device)
    farthest = {}
    for name in ("bfloat16", "float16"):
        layer = BatchRenorm(32, Ramp(0, 1, 1)).to(device).train()
        half = getattr(torch, name)
        with torch.autocast(device, half):
            outputs = [layer(x.to(half)) for _ in range(20)]
        farthest[name] = max(float(each.float().abs().max()) for each in outputs)
    text = ", ".join(f"{name} at most {each:.2f}" for name, each in farthest.items())
    return Found(all(each < 100 for each in farthest.values()), text)


@check(60)
def ctc_in_half_precision() -> Found:
    """Prefix scores of encodings in half precision, a token of which is banned."""
    import torch

    from espnet_ext.fast_search.ctc_prefix import LazyCTCPrefixScorer

    class Given(torch.nn.Module):
        log_softmax = staticmethod(torch.clone)

    logits = 5 * torch.randn(2, 300, 50, device=device)
    logits[..., 7] = -torch.inf
    scores = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        scorer = LazyCTCPrefixScorer(Given(), 49)
        scorer.batch_init_state(logits.log_softmax(-1).to(dtype))
        rows = torch.arange(6, device=device)
        prefixes = scorer.make_empty_prefixes(6)
        ids = torch.arange(50, device=device).repeat(6, 1)
        for _ in range(20):
            given, extensions = scorer.extend(prefixes, ids)
            columns = given.float().masked_fill(ids == 49, -torch.inf).argmax(1)
            prefixes = scorer.advance(extensions, rows, columns)
        scores[str(dtype).removeprefix("torch.")] = prefixes.score
    finite = all(
        bool(x.isfinite().all() and (x > LOG_ZERO).all()) for x in scores.values()
    )
    text = ", ".join(f"{name} {float(x[0]):.2f}" for name, x in scores.items())
    return Found(finite, text)


@check(90)
def long_posteriors() -> Found:
    """Ten minutes at once on the device, against the processor in float32."""
    import torch

    rows, seconds = (1, 600.0) if on_gpu() else (1, 12.0)
    training = prepare_long(rows, seconds)
    model, batch = training.model.eval(), training.batch

    def compute(where: str, dtype: torch.dtype) -> torch.Tensor:
        model.to(where)
        half = torch.autocast(where, dtype, enabled=dtype != torch.float32)
        speech = [batch[name].to(where) for name in ("speech", "speech_lengths")]
        with torch.no_grad(), half:
            encodings = model.encode(*speech)[0]
            encodings = encodings[0] if isinstance(encodings, tuple) else encodings
            return model.ctc.log_softmax(encodings).float().cpu()

    expected = compute("cpu", torch.float32)
    lines, good = [], True
    for dtype, most in ((torch.float32, 1e-3), (torch.bfloat16, 0.1)):
        found, took = measure(lambda dtype=dtype: compute(device, dtype))
        differ = float((found - expected).abs().mean())
        good = good and differ < most
        name = str(dtype).removeprefix("torch.")
        lines.append(f"{name} differs by {differ:.2g} on average, {took:.2f} s")
    return Found(good, f"{training.what}: {'; '.join(lines)}; {peak_memory()}")


# ---- the table ----


def run_alone(name: str, seconds: float) -> Found:
    """Run a check in a process of its own, and return what it prints."""
    command = [sys.executable, __file__, "--one", name, "--device", device]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Found(False, f"not done in {seconds:.0f} s")
    found = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if found:
        return Found(**json.loads(found[-1].removeprefix(MARK)))
    last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
    return Found(False, last[0])


def run_checks(names: list[str], minutes: float) -> Iterator[tuple[str, Found, float]]:
    """Yield each check, what it found and its seconds. Recipes run side by side, as
    they mostly wait; the others one by one, as they are timed.
    """
    until = time.monotonic() + 60 * minutes

    def run(name: str) -> tuple[str, Found, float]:
        start = time.monotonic()
        limit = CHECKS[name].seconds * (1 if on_gpu() else SLOWER)
        left = min(limit, until - start)
        found = run_alone(name, left) if left > 5 else Found(None, "no time left")
        return name, found, time.monotonic() - start

    recipes = [name for name in names if name.startswith("smoke ")]
    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) // 2)) as pool:
        yield from pool.map(run, recipes)
    yield from map(run, (name for name in names if name not in recipes))


def name_card() -> str:
    """Return the name of the device, without asking for it in this process."""
    if not on_gpu():
        return "no GPU, small models"
    code = "import torch; print(torch.cuda.get_device_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or "no GPU found"


def main() -> None:
    global device
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="how the names of checks begin"
    )
    parser.add_argument("--minutes", type=float, help="no check begins after these")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    device = args.device
    if args.one:
        del sys.argv[1:]  # ESPnet's tasks read it
        logging.disable(logging.WARNING)
        with contextlib.redirect_stdout(sys.stderr):
            found = CHECKS[args.one].function()
        print(MARK + json.dumps(asdict(found)))
        return
    names = [name for name in CHECKS if name.startswith(tuple(args.only))]
    if not names:
        parser.error(f"--only: the checks are {', '.join(CHECKS)}")
    print(f"| {name_card()} | | seconds | |\n|---|---|--:|---|", flush=True)
    failed = 0
    for name, found, seconds in run_checks(names, args.minutes or MINUTES[device]):
        word = {True: "yes", False: "**NO**", None: "not tried"}[found.good]
        text = found.text.replace("|", "/")
        print(f"| {name} | {word} | {seconds:.0f} | {text} |", flush=True)
        failed += found.good is False
    print(f"\n{failed} of {len(names)} checks failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

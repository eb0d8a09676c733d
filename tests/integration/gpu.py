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
from dataclasses import asdict, dataclass, replace
from functools import partial
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
    """What a check has found: whether it is as it should be, and a line.

    None: nothing could be checked.
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
    gpus = ["--ngpu", "1" if on_gpu() else "0"]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--scale", "smoke", "--nj", "2", *gpus]
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
        return Found(True, f"to its table with {' '.join(gpus)}")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    # "error" and "Error"; a traceback's last line comes before run.sh's advice
    errors = [line for line in lines if "rror" in line]
    shown = errors or lines or [""]
    return Found(False, f"status {done.returncode}: {shown[-1]}")


for recipe_name in SMOKE:
    CHECKS[f"smoke {recipe_name}"] = Check(partial(run_smoke, recipe_name), 200)


# ---- updates of the systems at full size ----


@dataclass(frozen=True)
class Training:
    """A model, its batch, and its optimizer's name and options, as its config says."""

    model: Any
    batch: dict[str, Any]
    optim: str
    optim_conf: dict[str, Any]
    what: str


@dataclass(frozen=True)
class Size:
    """Utterances of a batch, the longest one's seconds and tokens, and all tokens."""

    rows: int
    seconds: float
    tokens: int
    vocabulary: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.seconds} s"


SMALL = Size(rows=2, seconds=1.0, tokens=5, vocabulary=100)


def choose_size(full: Size, small: Size = SMALL) -> Size:
    return full if on_gpu() else small


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
    # of features about which nothing is known: any mean and deviation will do
    if normalize not in ("none", "utterance_mvn", None):
        mels = config.get("frontend_conf", {}).get("n_mels", 80)
        np.savez(
            folder / "stats.npz",
            count=1000,
            sum=np.full(mels, 300.0),
            sum_square=np.full(mels, 100.0),
        )
        stats = {"stats_file": str(folder / "stats.npz")}
        config["normalize_conf"] = config.get("normalize_conf", {}) | stats
    file = folder / "train.yaml"
    file.write_text(yaml.safe_dump(config))
    parser = task.get_parser()
    args = parser.parse_args(["--config", str(file), "--output_dir", str(folder)])
    args.token_list = make_tokens(vocabulary)
    if hasattr(args, "src_token_list"):
        args.src_token_list = args.token_list
    decoder = getattr(args, "decoder_conf", None) or {}
    # P1's decoder alone has a mode, and needs the language of each token
    if "mode" in decoder:
        languages = folder / "languages.txt"
        write_languages(languages, args.token_list)
        decoder["languages_file"] = str(languages)
    return task.build_model(args), args


def write_languages(path: Path, tokens: list[str]) -> None:
    """Write tokens with two languages in turn, ``-`` for special ones."""
    with open(path, "w") as file:
        for number, token in enumerate(tokens):
            language = ("en", "zh")[number % 2]
            if token.startswith("<"):
                language = "-"
            file.write(f"{token} {language}\n")


def prepare_speech(task: Any, config: Mapping[str, Any], size: Size) -> Training:
    """Build a model of a task that reads audio, and make a batch of noise for it."""
    model, args = build(task, config, size.vocabulary)
    batch = make_audio(size.rows, size.seconds)
    batch |= make_text(size.rows, size.tokens, size.vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, str(size))


def prepare_sem() -> Training:
    from espnet2.tasks.asr import ASRTask

    size = choose_size(Size(rows=14, seconds=14.0, tokens=60, vocabulary=10000))
    return prepare_speech(ASRTask, load_config("librispeech_sem", "sem_m80_0"), size)


def prepare_code_switching() -> Training:
    from espnet2.tasks.asr import ASRTask

    size = choose_size(
        Size(rows=32, seconds=10.0, tokens=40, vocabulary=4103),
        replace(SMALL, vocabulary=103),
    )
    return prepare_speech(ASRTask, load_config("asru2019_cs", "separate_cs"), size)


def prepare_recogniser(kind: str) -> Training:
    import torch

    from espnet_ext.stitch.recogniser.task import SAASRTask

    size = choose_size(
        Size(rows=14, seconds=30.0, tokens=120, vocabulary=16000),
        replace(SMALL, seconds=2.0),
    )
    config = load_sections("libricss_stitch")[f"sa_asr_{kind}"]
    config = config | {"token_type": "bpe"}
    training = prepare_speech(SAASRTask, config, size)
    batch = training.batch
    batch["text"][:, 2] = 2  # a change of the speaker
    batch["profiles"] = torch.randn(size.rows, 8, training.model.profile_size)
    batch["profiles_lengths"] = torch.full((size.rows,), 8)
    batch["speakers"] = torch.tensor([[0, 3]]).repeat(size.rows, 1)
    batch["speakers_lengths"] = torch.full((size.rows,), 2)
    return training


def prepare_stitcher() -> Training:
    import torch
    from espnet2.tasks.mt import MTTask

    # a stitcher reads no audio
    size = choose_size(Size(rows=16, seconds=0.0, tokens=250, vocabulary=16000))
    config = load_config("libricss_stitch", "stitcher_wc")
    model, args = build(MTTask, config, size.vocabulary)
    length = 2 * size.tokens  # of the source: the hypotheses of two windows
    batch = {
        "src_text": torch.randint(3, size.vocabulary - 1, (size.rows, length)),
        "src_text_lengths": torch.full((size.rows,), length),
    }
    batch |= make_text(size.rows, size.tokens, size.vocabulary)
    what = f"{size.rows} x {length} tokens"
    return Training(model, batch, args.optim, args.optim_conf, what)


def prepare_long(rows: int, seconds: float) -> Training:
    """Prepare P5's model on ``rows`` sequences of so many seconds."""
    import torch

    from espnet_ext.longform.training import RecordingsASRTask

    tokens = max(3, int(3 * seconds)) if on_gpu() else 3
    vocabulary = 4096 if on_gpu() else 100
    size = Size(rows, seconds, tokens, vocabulary)
    config = load_sections("spotify_longctx")["train"]
    model, args = build(RecordingsASRTask, config, vocabulary)
    frames = int(100 * seconds)  # of 10 ms
    batch = {
        "speech": torch.randn(rows, frames, args.input_size),
        "speech_lengths": torch.linspace(frames, 0.7 * frames, rows).long(),
    }
    batch |= make_text(rows, tokens, vocabulary)
    return Training(model, batch, args.optim, args.optim_conf, str(size))


def prepare_recogniser_of_lists() -> Training:
    from espnet2.tasks.asr import ASRTask

    size = choose_size(Size(rows=64, seconds=14.0, tokens=60, vocabulary=5000))
    config = load_sections("librispeech_rescore")["asr_train"]
    return prepare_speech(ASRTask, config, size)


def prepare_ten_seconds() -> Training:
    return prepare_long(360, 10.0) if on_gpu() else prepare_long(2, 4.0)


def prepare_hour() -> Training:
    """Prepare P5's model on an hour at once."""
    return prepare_long(1, 3600.0) if on_gpu() else prepare_long(1, 8.0)


SYSTEMS: dict[str, Callable[[], Training]] = {
    "P1 separate attention": prepare_code_switching,
    "P2 SEM": prepare_sem,
    "P3 recogniser": prepare_recogniser_of_lists,
    "P4 recogniser, LSTM": partial(prepare_recogniser, "lstm"),
    "P4 recogniser, conformer": partial(prepare_recogniser, "conformer"),
    "P4 stitcher": prepare_stitcher,
    "P5 at 10 s": prepare_ten_seconds,
    "P5 at an hour": prepare_hour,
}


def take_updates(training: Training, precision: str) -> Found:
    """Take some updates as ESPnet's trainer does them.

    Losses must be finite, and the gradients of some updates.
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
        # a scaler leaves out such an update itself, and lowers its scale
        if scaler.is_enabled() or norm.isfinite():
            scaler.step(optimizer)
        scaler.update()
        return float(loss), bool(norm.isfinite())

    losses = []
    finite = 0
    seconds = []
    for _ in range(UPDATES):
        (loss, is_finite), took = measure(update)
        losses.append(loss)
        finite += is_finite
        seconds.append(took)
    # false for NaN, too
    good = all(abs(loss) < 1e30 for loss in losses) and finite > 0
    return Found(
        good,
        f"{training.what}: {min(seconds):.3f} s an update, {peak_memory()}, loss "
        f"{losses[0]:.4g} to {losses[-1]:.4g}, gradients finite in {finite} of "
        f"{UPDATES}",
    )


def prepare_and_update(prepare: Callable[[], Training], precision: str) -> Found:
    return take_updates(prepare(), precision)


PRECISIONS = ("float32", "TF32", "bfloat16", "float16")
# an hour at once has room in one of them
PRECISIONS_OF = {"P5 at an hour": ("bfloat16",)}
for system_name, prepare in SYSTEMS.items():
    for kind in PRECISIONS_OF.get(system_name, PRECISIONS):
        update = partial(prepare_and_update, prepare, kind)
        CHECKS[f"{system_name}, {kind}"] = Check(update, 60)


@check(60, "P3 GPT-2, MWER")
def update_rescorer() -> Found:
    """MWER on ten hypotheses of 43 tokens for each of four utterances.

    The GPT-2 has its real size, and random parameters.
    """
    from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward
    from espnet_ext.rescore.training.small_models import SmallModel, make_small_model
    from espnet_ext.text.nbest import Hypothesis, NBest

    words = [chr(ord("a") + number) * 2 for number in range(20)]
    texts = []
    for start in range(10):
        cut = (words * 3)[start : start + 42]
        texts.append(" ".join(cut))
    hypotheses = [Hypothesis(text, -number) for number, text in enumerate(texts)]
    lists = []
    for number in range(4):
        nbest = NBest(f"u{number}", tuple(hypotheses), texts[0])
        lists.append(Example(nbest, tuple(range(10))))
    small = {} if on_gpu() else {"n_layer": 2, "n_embd": 32, "n_head": 2}
    lines = []
    for amp in (False, True):
        model = SmallModel(kind="gpt2", vocabulary=330, config=small, casing="as-is")
        scorer = make_small_model(model, texts).to(device).train()
        scorer.prepare_training(gradient_checkpointing=False, amp=amp)
        update = partial(backward, scorer, lists, MwerLoss())
        values, _ = measure(update)
        _, seconds = measure(update)  # the first one loads kernels
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
    lengths: tuple[float, ...] = (1, 2, 1.5)
    decoders = ["transformer"]
    if on_gpu():
        lengths = (4, 6, 8, 10, 12) * 2
        decoders.append("rnn")
    random = np.random.default_rng(0)
    speech = []
    for seconds in lengths:
        noise = random.normal(scale=0.1, size=int(16000 * seconds))
        speech.append(noise.astype(np.float32))
    differ = 0
    lines = []
    for decoder in decoders:
        with tempfile.TemporaryDirectory() as folder:
            files = bench.write_model(Path(folder), decoder, bench.DECODERS[decoder])
            others, line = compare_searches(files, speech)
        differ += others
        lines.append(f"{decoder}: {line}")
    return Found(not differ, f"{differ} hypotheses differ; {'; '.join(lines)}")


def compare_searches(files: dict[str, Any], speech: list[Any]) -> tuple[int, str]:
    """Return how many hypotheses of a fast search are not ESPnet's, and a line.

    The line says how long both take.
    """
    import torch

    from espnet_ext.upstream.inference import build_speech2text

    options = {**files, "beam_size": 10, "ctc_weight": 0.3, "device": device}
    options |= {"maxlenratio": 0.16, "minlenratio": 0.15}
    espnet = build_speech2text(**options)
    fast = build_speech2text(**options, fast_decoder=True, batch_size="auto")
    few = speech[:5]

    def decode_with_espnet() -> list[Any]:
        return [espnet(each) for each in few]

    def decode_one_by_one() -> list[Any]:
        return [fast.batch_decode([each])[0] for each in few]

    with torch.no_grad():
        espnet(few[0])  # kernels are loaded once
        fast.batch_decode(few[:1])
        theirs, espnet_took = measure(decode_with_espnet)
        single, single_took = measure(decode_one_by_one)
        many, many_took = measure(partial(fast.batch_decode, speech))
    expected = list_best_tokens(theirs)
    differ = 0
    for found in (single, many[: len(few)]):
        pairs = zip(list_best_tokens(found), expected, strict=True)
        differ += sum(ours != best for ours, best in pairs)
    # of an utterance: the sets that were decoded differ in size
    espnet_each = espnet_took / len(few)
    many_each = many_took / len(speech)
    return differ, (
        f"ESPnet {espnet_each:.3f} s an utterance, one by one "
        f"{espnet_took / single_took:.1f} times as fast, all at once "
        f"{espnet_each / many_each:.1f} times"
    )


def list_best_tokens(results: list[Any]) -> list[list[int]]:
    """Return the numbers of the tokens of each utterance's best hypothesis."""
    found = []
    for nbest in results:
        _, _, numbers, *_ = nbest[0]  # text, tokens, their numbers
        found.append(list(numbers))
    return found


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

    def hear(where: str, kind: str) -> str:
        network = load_whisper(None, where, kind)
        pieces, _ = network.transcribe(samples, language="en")
        return " ".join(piece.text.strip() for piece in pieces)

    first = hear("cpu", "float32")
    second = hear(device, "float16" if on_gpu() else "int8")
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
    other = compute_mask(
        energies.to(device),
        lengths.to(device),
        thresholds.to(device),
    )
    differ = int((on_cpu != other.cpu()).sum())
    count = energies.numel()
    # a bin at the threshold may fall on either side by rounding
    return Found(differ < 1e-5 * count, f"{differ} of {count} bins differ")


@check(60)
def batch_renorm_in_half_precision() -> Found:
    """Batch renormalisation under autocast, of what is far from zero."""
    import torch

    from espnet_ext.longform.batch_renorm import BatchRenorm, Ramp

    x = 300 + 10 * torch.randn(4, 200, 32, device=device)
    farthest = {}
    good = True
    for name in ("bfloat16", "float16"):
        layer = BatchRenorm(32, Ramp(0, 1, 1)).to(device).train()
        half = getattr(torch, name)
        largest = []
        for _ in range(20):
            with torch.autocast(device, half):
                output = layer(x.to(half))
            largest.append(float(output.float().abs().max()))
        farthest[name] = max(largest)
        good = good and all(each < 100 for each in largest)  # false for NaN, too
    text = ", ".join(f"{name} at most {each:.2f}" for name, each in farthest.items())
    return Found(good, text)


@check(60)
def ctc_in_half_precision() -> Found:
    """Prefix scores of encodings in half precision, a token of which is banned."""
    import torch

    from espnet_ext.fast_search.ctc_prefix import LazyCTCPrefixScorer

    class Given(torch.nn.Module):
        log_softmax = staticmethod(torch.clone)

    # two encodings of 300 frames; three prefixes of each, of 20 labels in the end
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
            # the best label but the last, which ends a prefix
            labels = given.float().masked_fill(ids == 49, -torch.inf)
            prefixes = scorer.advance(extensions, rows, labels.argmax(1))
        scores[str(dtype).removeprefix("torch.")] = prefixes.score
    good = True
    shown = []
    for name, score in scores.items():
        is_possible = score.isfinite() & (score > LOG_ZERO)
        good = good and bool(is_possible.all())
        shown.append(f"{name} {float(score[0]):.2f}")
    return Found(good, ", ".join(shown))


@check(90)
def long_posteriors() -> Found:
    """Ten minutes at once on the device, against the processor in float32."""
    import torch

    training = prepare_long(1, 600.0 if on_gpu() else 12.0)
    model = training.model.eval()
    batch = training.batch

    def compute(where: str, dtype: torch.dtype) -> torch.Tensor:
        model.to(where)
        half = torch.autocast(where, dtype, enabled=dtype != torch.float32)
        speech = batch["speech"].to(where)
        lengths = batch["speech_lengths"].to(where)
        with torch.no_grad(), half:
            encodings, *_ = model.encode(speech, lengths)
            # with intermediate outputs, if the model has them
            if isinstance(encodings, tuple):
                encodings = encodings[0]
            return model.ctc.log_softmax(encodings).float().cpu()

    expected = compute("cpu", torch.float32)
    lines = []
    good = True
    for dtype, most in ((torch.float32, 1e-3), (torch.bfloat16, 0.1)):
        found, took = measure(partial(compute, device, dtype))
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
    said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return Found(False, said[-1])


def run_checks(names: list[str], minutes: float) -> Iterator[tuple[str, Found, float]]:
    """Yield each check, what it found and its seconds.

    Recipes run side by side, as they mostly wait; the others one by one, as they are
    timed.
    """
    until = time.monotonic() + 60 * minutes

    def run(name: str) -> tuple[str, Found, float]:
        start = time.monotonic()
        limit = CHECKS[name].seconds
        if not on_gpu():
            limit *= SLOWER
        left = min(limit, until - start)
        found = Found(None, "no time left")
        if left > 5:
            found = run_alone(name, left)
        return name, found, time.monotonic() - start

    recipes = [name for name in names if name.startswith("smoke ")]
    others = [name for name in names if name not in recipes]
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, cores // 2)) as pool:
        yield from pool.map(run, recipes)
    yield from map(run, others)


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
    words = {True: "yes", False: "**NO**", None: "not tried"}
    minutes = args.minutes or MINUTES[device]
    failed = 0
    for name, found, seconds in run_checks(names, minutes):
        text = found.text.replace("|", "/")  # which would end a cell
        print(f"| {name} | {words[found.good]} | {seconds:.0f} | {text} |", flush=True)
        failed += found.good is False
    print(f"\n{failed} of {len(names)} checks failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

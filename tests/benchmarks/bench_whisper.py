"""What `transcribe` without a model costs, beside faster-whisper's pipeline of batches,
with both word error rates.

    python tests/benchmarks/bench_whisper.py [--librispeech DIR] [--part test-clean]
    [--minutes 5] [--rounds 2]

Utterances of real digits (examples/digits) are joined with pauses of 0.3 to 1.5 s. Both
take the same network of one thread, and give words with times; ours also reads the
file. Prints seconds of processor time, medians with ranges, and errors of words,
numerals read digit by digit.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import numpy as np
import soundfile
import soxr
from faster_whisper import BatchedInferencePipeline

from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.whisper.model import RATE, load_whisper
from espnet_ext.whisper.recordings import transcribe

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
NAMES = ["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"]


def join(folder: Path, seconds: float) -> tuple[np.ndarray, list[str]]:
    """Join utterances in a random order until they fill ``seconds``; return samples at
    16 kHz and the words.
    """
    rng = np.random.default_rng(0)
    lines = [
        (path.parent, line.split())
        for path in folder.rglob("*.trans.txt")
        for line in path.read_text().splitlines()
    ]
    lines.sort(key=lambda line: line[1])
    parts, words = list[np.ndarray](), list[str]()
    for index in rng.permutation(len(lines)):
        parent, (key, *said) = lines[index]
        samples, rate = soundfile.read(parent / f"{key}.flac", dtype="float32")
        pause = np.zeros(round(RATE * rng.uniform(0.3, 1.5)), dtype=np.float32)
        parts += [pause, soxr.resample(samples, rate, RATE)]
        words += said
        if sum(map(len, parts)) >= seconds * RATE:
            break
    return np.concatenate(parts), words


def plain(texts: Iterable[str]) -> list[str]:
    """Return words in capitals, without punctuation, digits as words."""
    text = re.sub(
        "[0-9]", lambda digit: f" {NAMES[int(digit[0])]} ", " ".join(texts).upper()
    )
    return re.sub("[^A-Z']", " ", text).split()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--librispeech", type=Path, default=DIGITS, help="folder of a corpus of digits"
    )
    parser.add_argument("--part", default="test-clean", help="(default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="(default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="(default: %(default)s)")
    args = parser.parse_args()
    samples, words = join(args.librispeech / args.part, 60 * args.minutes)
    network = load_whisper(threads=1)
    pipeline = BatchedInferencePipeline(network)
    options = {"language": "en", "word_timestamps": True, "batch_size": 8}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.wav"
        soundfile.write(
            path, samples, RATE, subtype="FLOAT"
        )  # both get the same samples
        ways: dict[str, Callable[[], list[str]]] = {
            "batches of 8": lambda: [
                segment.text for segment in pipeline.transcribe(samples, **options)[0]
            ],
            "ours": lambda: [
                word for line in transcribe(network, path, "en") for word in line.words
            ],
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                begin = time.process_time()
                texts = way()
                taken[name].append(time.process_time() - begin)
                errors = count_errors(words, plain(texts))
                print(
                    f"{name}: {taken[name][-1]:.1f} s, {errors.errors} errors of "
                    f"{len(words)} words",
                    flush=True,
                )
    for name, seconds in taken.items():
        ratios = [
            mine / other for mine, other in zip(taken["ours"], seconds, strict=True)
        ]
        print(
            f"{len(samples) / RATE:.0f} s of audio, {name}: {median(seconds):.1f} "
            f"s ({min(seconds):.1f} to "
            f"{max(seconds):.1f}); ours takes {median(ratios):.2f} times "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()

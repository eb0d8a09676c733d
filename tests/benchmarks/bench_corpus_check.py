"""Stage 1 on many small files against Lhotse's own recipe, and how often a file is opened before training.

    python tests/benchmarks/bench_corpus_check.py [--files 20000] [--rounds 3]

Makes a corpus in LibriSpeech's layout whose files hold 0.1 s, so that files and not samples count. Both sides read the
same headers and make the same manifests, in this process and with one thread, in turn. Ours also checks transcripts and
audio. Bounds: opening a file and reading its header (soundfile alone, printed); Lhotse's objects and its validation,
which both sides do.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import soundfile

from espnet_ext.corpora.librispeech import prepare_librispeech

PART, CHAPTER = "train-clean-100", 100


def make_corpus(folder: Path, files: int) -> list[Path]:
    """Chapters of ``CHAPTER`` utterances; returns the audio files."""
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, 1600).astype(np.float32)
    paths = []
    for number in range(files // CHAPTER):
        chapter = folder / PART / str(number) / "1"
        chapter.mkdir(parents=True)
        keys = [f"{number}-1-{utterance:04d}" for utterance in range(CHAPTER)]
        (chapter / f"{number}-1.trans.txt").write_text("".join(f"{key} SOME WORDS\n" for key in keys))
        paths += [chapter / f"{key}.flac" for key in keys]
    soundfile.write(paths[0], noise, 16000)
    content = paths[0].read_bytes()
    for path in paths[1:]:
        path.write_bytes(content)
    return paths


def seconds(work) -> float:
    """Processor time of a call whose output is dropped."""
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        work()
    return time.process_time() - start


def opened(work) -> Counter:
    """How often soundfile opens each file during a call."""
    counts: Counter = Counter()
    plain = soundfile.SoundFile.__init__

    def count(file, path, *args, **options):
        counts[str(path)] += 1
        plain(file, path, *args, **options)

    soundfile.SoundFile.__init__ = count
    try:
        seconds(work)
    finally:
        soundfile.SoundFile.__init__ = plain
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    from lhotse.recipes.librispeech import prepare_librispeech as lhotse_recipe

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_corpus(folder / "corpus", args.files)

        def ours(number: int) -> None:
            prepare_librispeech(folder / "corpus", folder / f"ours{number}", [PART], check_audio="header")

        def theirs(number: int) -> None:
            lhotse_recipe(folder / "corpus", dataset_parts=[PART], output_dir=folder / f"lhotse{number}")

        headers = seconds(lambda: [soundfile.info(path) for path in paths])
        print(f"{len(paths):,} files; reading their headers alone: {headers:.2f} s of processor time")
        times = [(seconds(lambda n=n: ours(n)), seconds(lambda n=n: theirs(n))) for n in range(args.rounds)]
        for number, (own, other) in enumerate(times):
            print(f"round {number + 1}: ours {own:.2f} s, Lhotse {other:.2f} s, ratio {own / other:.2f}")
        print(f"median ratio: {statistics.median(own / other for own, other in times):.2f}")
        counts = opened(lambda: ours(args.rounds))
        print(f"stage 1 opens each file {max(counts.values())} time(s); stage 4 once (tests/upstream/test_stats.py)")


if __name__ == "__main__":
    main()

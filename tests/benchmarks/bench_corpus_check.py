"""Preparation of many small files: stage 1 against Lhotse's own recipe, stages 2 to 4, and how often a file is opened.

    python tests/benchmarks/bench_corpus_check.py [--files 20000] [--rounds 3] [--output docs/results/corpus_check.json]

Makes a corpus in LibriSpeech's layout whose files hold 0.3 s, so that files and not samples count. For the ratio both
sides read the same headers and make the same manifests, in this process and with one thread, in turn. Ours also checks
transcripts and audio. Bounds: opening a file and reading its header (soundfile alone, printed); Lhotse's objects and
its validation, which both sides do. Then run.sh of librispeech_sem does stages 1 to 4 at scale smoke, each of them a
process of its own that imports what it needs.
"""

import argparse
import contextlib
import io
import random
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.corpora.librispeech import prepare_librispeech
from espnet_ext.tables.kept.facts import write_facts

TRAINING, CHAPTER = "train-clean-100", 100
OTHERS = ("dev-clean", "dev-other", "test-clean", "test-other")  # of one chapter each
RECIPE = Path(__file__).resolve().parents[2] / "egs/librispeech_sem"
ABOUT = (
    "Seconds of processor time for small files: reading their headers alone; stage 1 of librispeech_sem and "
    "Lhotse's recipe, by round; stages 1 to 4 by run.sh, imports included; how often stage 1 opens a file"
)


def make_corpus(folder: Path, files: int) -> list[Path]:
    """Chapters of ``CHAPTER`` utterances of three words; returns the audio files."""
    draw = random.Random(0)
    words = ["".join(draw.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=draw.randint(2, 8))) for _ in range(400)]
    paths = []
    for number, part in enumerate([*OTHERS, *[TRAINING] * (files // CHAPTER)]):
        chapter = folder / part / str(number) / "1"
        chapter.mkdir(parents=True)
        keys = [f"{number}-1-{utterance:04d}" for utterance in range(CHAPTER)]
        lines = [f"{key} {' '.join(draw.choices(words, k=3))}\n" for key in keys]
        (chapter / f"{number}-1.trans.txt").write_text("".join(lines))
        paths += [chapter / f"{key}.flac" for key in keys]
    soundfile.write(paths[0], np.random.default_rng(0).uniform(-0.1, 0.1, 4800).astype(np.float32), 16000)
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


def seconds_of_stage(stage: int, corpus: Path, work: Path) -> float:
    """Processor time of a stage of librispeech_sem and of the processes that it starts."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    start = used()
    options = ["--librispeech", corpus, "--datadir", work / "data", "--expdir", work / "exp", "--check_audio", "header"]
    command = [RECIPE / "run.sh", "--scale", "smoke", "--stage", str(stage), "--stop_stage", str(stage), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return used() - start


def measure(folder: Path, files: int, rounds: int) -> dict[str, Any]:
    """All figures, printed as they come."""
    from lhotse.recipes.librispeech import prepare_librispeech as lhotse_recipe

    parts, paths = [TRAINING, *OTHERS], make_corpus(folder / "corpus", files)

    def ours(name: str) -> None:
        prepare_librispeech(folder / "corpus", folder / name, parts, check_audio="header")

    def theirs(name: str) -> None:
        lhotse_recipe(folder / "corpus", dataset_parts=parts, output_dir=folder / name)

    headers = seconds(lambda: [soundfile.info(path) for path in paths])
    print(f"{len(paths):,} files; reading their headers alone: {headers:.2f} s of processor time")
    times = [(seconds(lambda n=n: ours(f"ours{n}")), seconds(lambda n=n: theirs(f"lhotse{n}"))) for n in range(rounds)]
    for number, (own, other) in enumerate(times, start=1):
        print(f"round {number}: ours {own:.2f} s, Lhotse {other:.2f} s, ratio {own / other:.2f}")
    ratio = statistics.median(own / other for own, other in times)
    print(f"median ratio: {ratio:.2f}")
    most = max(opened(lambda: ours("opened")).values())
    print(f"stage 1 opens each file {most} time(s); stage 4 once (tests/upstream/test_stats.py)")
    stages = {}
    for stage in range(1, 5):
        stages[str(stage)] = seconds_of_stage(stage, folder / "corpus", folder)
        print(f"run.sh, stage {stage}: {stages[str(stage)]:.1f} s", flush=True)
    own, lhotse = (list(each) for each in zip(*times, strict=True))
    rounds_of = {"ours": own, "lhotse": lhotse, "ratio": ratio}
    return {"files": len(paths), "headers": headers, "stage_1": rounds_of, "opened": most, "run_sh": stages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000, help="of the training part; other parts have 400")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the figures as facts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        values = measure(Path(name), args.files, args.rounds)
    if args.output:
        write_facts(
            args.output,
            ABOUT,
            f"python {shlex.join(sys.argv)}",
            values,
        )


if __name__ == "__main__":
    main()

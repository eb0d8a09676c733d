"""Time to score LibriSpeech's 281,241 training utterances, and the ratio to jiwer in the same process.

    python tests/benchmarks/bench_scoring.py [--utterances N]

Prints processor seconds for reading and counting, the bootstrap, the reports, the command as a whole, and jiwer on the
same texts.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import jiwer

from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import summarise, write_reports

MEAN_WORDS = 33
WHOSE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
ERROR_PROBABILITY = 0.03  # each of substitution, deletion, insertion: about 9% WER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=281_241)
    number = parser.parse_args().utterances
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        references, hypotheses = make_texts(number)
        write_table(folder / "ref", references)
        write_table(folder / "hyp", hypotheses)
        print(f"{number} utterances, {sum(len(t.split()) for t in references.values())} words; seconds of one core")

        score, reading = timed(lambda: score_texts(read_table(folder / "ref"), read_table(folder / "hyp")))
        summary, bootstrap = timed(lambda: summarise(score))
        _, reports = timed(lambda: write_reports(folder / "reports", score, summary))
        command = [sys.executable, "-m", "espnet_ext.cli", "score", "wer", "--ref", str(folder / "ref")]
        command += ["--hyp", str(folder / "hyp"), "--output", str(folder / "out")]
        _, whole = timed(lambda: subprocess.run(command, check=True))
        measures, peer = timed(lambda: jiwer.process_words(list(references.values()), list(hypotheses.values())))

    for what, seconds in [
        ("read and count", reading),
        ("bootstrap, 10,000 replicas", bootstrap),
        ("write tables and aligned text", reports),
        ("the command with everything", whole),
        ("jiwer.process_words (counting only)", peer),
    ]:
        print(f"{seconds:7.1f} s  {what}")
    print(f"{reading / peer:7.2f}    read and count, ratio to jiwer")
    print(f"{(reading + bootstrap) / peer:7.2f}    read, count and bootstrap, ratio to jiwer")
    errors = measures.substitutions + measures.deletions + measures.insertions
    print(f"errors: {summary['errors']} here, {errors} in jiwer")


def make_texts(number: int) -> tuple[dict[str, str], dict[str, str]]:
    """References of random words and hypotheses with random errors."""
    generator = random.Random(0)
    vocabulary = [f"w{index}" for index in range(20_000)]
    references, hypotheses = {}, {}
    for index in range(number):
        reference = generator.choices(vocabulary, k=max(1, round(generator.gauss(MEAN_WORDS, 10))))
        hypothesis: list[str] = []
        for word in reference:
            draw = generator.random()
            if draw < ERROR_PROBABILITY:
                hypothesis.append(generator.choice(vocabulary))
            elif draw < 2 * ERROR_PROBABILITY:
                continue
            elif draw < 3 * ERROR_PROBABILITY:
                hypothesis += [word, generator.choice(vocabulary)]
            else:
                hypothesis.append(word)
        key = f"utt{index:07d}"
        references[key], hypotheses[key] = " ".join(reference), " ".join(hypothesis)
    return references, hypotheses


def timed[T](function: Callable[[], T]) -> tuple[T, float]:
    """The function's result and the processor seconds it took, those of commands it ran included.

    Everything here uses one core, so on an idle machine this is the wall-clock time; on a busy one it is what counts.
    """
    start = processor_seconds()
    result = function()
    return result, processor_seconds() - start


def processor_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, WHOSE))


if __name__ == "__main__":
    main()

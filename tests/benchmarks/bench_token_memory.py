"""Memory in which word pieces are learnt from the transcripts of long recordings (stage 3 of spotify_longctx).

The text is drawn from a vocabulary by Zipf's law, since only its size matters: lines of 5,000 words, as half an hour of
speech has. Each size is a process of its own, whose peak of memory the system tells. P5's podcasts have some 600
million words; the memory may not grow with them.
"""

import argparse
import multiprocessing
import resource
import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from espnet_ext.tables.kept.facts import write_facts

VOCABULARY, LINE = 200_000, 5_000
PIECES = 4095  # P5, section 3.2


def write_text(path: Path, words: int) -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("ETAOINSHRDLUCMFWYPVBGKJQXZ"))
    spelled = np.array(["".join(rng.choice(letters, rng.integers(1, 12))) for _ in range(VOCABULARY)])
    shares = 1 / np.arange(1, VOCABULARY + 1)
    shares /= shares.sum()
    with path.open("w", encoding="utf-8") as file:
        for number in range(words // LINE):
            file.write(f"r{number:07d} {' '.join(spelled[rng.choice(VOCABULARY, LINE, p=shares)])}\n")


def learn(text: Path, output: Path, results: multiprocessing.Queue) -> None:
    from espnet_ext.text.tokens import make_tokens

    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    make_tokens(text, output, "bpe", PIECES)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results.put({"start_mb": before / 1e3, "peak_mb": peak / 1e3, "cpu_seconds": time.process_time() - start})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=float, action="append", help="size of a text (default: 5e6 and 40e6)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the figures as facts")
    args = parser.parse_args()
    context, rows = multiprocessing.get_context("spawn"), {}
    for words in map(int, args.words or (5e6, 40e6)):
        with TemporaryDirectory() as folder:
            text, results = Path(folder) / "text", context.Queue()
            write_text(text, words)
            process = context.Process(target=learn, args=(text, Path(folder) / "tokens", results))
            process.start()
            rows[f"{words:,}"] = {"text_mb": text.stat().st_size / 1e6, **results.get()}
            process.join()
        print(f"{words:,} words: {rows[f'{words:,}']}", flush=True)
    if args.output:
        command = f"python {shlex.join(sys.argv)}"
        write_facts(args.output, "Memory in which word pieces are learnt, by the words of the text", command, rows)


if __name__ == "__main__":
    main()

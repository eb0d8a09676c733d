"""Reading N-best lists and their oracle error rate: processor time of 10,000 lists of 30 hypotheses."""

import argparse
import random
import tempfile
import time
from pathlib import Path

from espnet_ext.nbest.oracle import oracle_report
from espnet_ext.nbest.sources import read_lists
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--nbest", type=int, default=30)
    parser.add_argument("--words", type=int, default=18, help="words of a reference, as in LibriSpeech")
    args = parser.parse_args()
    source = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.jsonl"
        write_nbest(path, (make_list(source, f"u{number}", args.nbest, args.words) for number in range(args.lists)))
        start = time.process_time()
        lists = read_lists(path)
        read = time.process_time()
        report = oracle_report(lists)
        done = time.process_time()
    print(
        f"{args.lists} lists of {args.nbest}: read in {read - start:.1f} s, oracle in {done - read:.1f} s of one core"
    )
    print(f"oracle {report['oracle'][-1]['value']} %, 1-best {report['oracle'][0]['value']} %")


def make_list(source: random.Random, name: str, nbest: int, words: int) -> NBest:
    reference = [f"W{source.randrange(20_000)}" for _ in range(words)]
    hyps = []
    for rank in range(nbest):
        text = list(reference)
        for _ in range(source.randrange(5)):
            text[source.randrange(words)] = f"W{source.randrange(20_000)}"
        parts = {"decoder": -1.5 - rank, "ctc": -2.25 - rank, "lm": -60.125 - rank}
        hyps.append(Hypothesis(" ".join(text), sum(parts.values()), parts))
    return NBest(name, tuple(hyps), " ".join(reference))


if __name__ == "__main__":
    main()

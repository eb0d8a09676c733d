"""Memory of the language model's training text, as ESPnet holds it: one split, and what the whole would take.

A split of P2's language model (conf/full.yaml of librispeech_sem: ``lm_splits: 100``) has 400,000 of LibriSpeech's 40
million sentences, of 20 words each. ESPnet holds the text and the lengths of a split, and its batches. The peer is the
same text in one file (``lm_splits: 1``), estimated from the growth with the number of sentences.
"""

import argparse
import random
import resource
import string
import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

SENTENCES, WORDS, SPLITS = 400_000, 20, 100


def write(folder: Path, sentences: int) -> tuple[Path, Path]:
    """A text and the lengths of its sentences, as the recipe's stage 5 writes them."""
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_uppercase, k=rng.randint(2, 7))) for _ in range(20_000)]
    text, lengths = folder / f"text{sentences}", folder / f"lengths{sentences}"
    with text.open("w") as lines, lengths.open("w") as numbers:
        for number in range(sentences):
            count = rng.randint(1, 2 * WORDS - 1)
            lines.write(f"lm-{number:09d} {' '.join(rng.choices(words, k=count))}\n")
            numbers.write(f"lm-{number:09d} {round(1.3 * count)}\n")
    return text, lengths


def hold(text: Path, lengths: Path) -> None:
    """Load what ESPnet's training holds of a text: its table, and batches by length."""
    from espnet2.samplers.folded_batch_sampler import FoldedBatchSampler
    from espnet2.train.dataset import ESPnetDataset

    dataset = ESPnetDataset([(str(text), "text", "text")])
    sampler = FoldedBatchSampler(512, [str(lengths)], [150], min_batch_size=1)
    assert dataset.has_name("text") and len(sampler) > 0


def peak(function: Callable[..., None], *arguments: Any) -> float:
    """Peak memory of a process that calls a function, in GB."""

    def call(connection: Any) -> None:
        function(*arguments)
        connection.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)

    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=call, args=(theirs,))
    process.start()
    theirs.close()
    value = ours.recv()
    process.join()
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="of one split")
    sentences = parser.parse_args().sentences
    import espnet2.samplers.folded_batch_sampler  # noqa: F401  (imported before the fork: part of the base)
    import espnet2.train.dataset  # noqa: F401

    base = peak(lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        half, whole = (peak(hold, *write(Path(folder), count)) for count in (sentences // 2, sentences))
    per_sentence = (whole - half) / (sentences - sentences // 2)
    print(f"process without data: {base:.2f} GB")
    print(f"a split of {sentences:,} sentences: {whole:.2f} GB, {whole - base:.2f} GB of it data")
    whole_text = base + per_sentence * sentences * SPLITS
    print(f"all {SPLITS} splits at once, by {per_sentence * 1e9:.0f} bytes a sentence: {whole_text:.0f} GB")


if __name__ == "__main__":
    main()

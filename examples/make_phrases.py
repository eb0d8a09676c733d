"""Make examples/phrases again: N-best lists, and a language model that helps on them.

    tools/venv/bin/python examples/make_phrases.py

The lists are Whisper's, of synthetic speech in noise, as egs/librispeech_rescore keeps
them. GPT-2 with one small layer learns 6,000 sentences of a grammar that shares words
and agreement with the speech but not its sentences: a minute of a core.
"""

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from espnet_ext.kaldi.tables import write_table
from espnet_ext.rescore.training.lm_training import TextFiles, adapt_language_model
from espnet_ext.rescore.training.small_models import make_language_model
from espnet_ext.synthetic.english import build_text_grammar
from espnet_ext.synthetic.parameters import derive_seed
from espnet_ext.text.nbest import NBest, read_nbest, write_nbest

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "egs/librispeech_rescore/lists/mini"
OUT = ROOT / "examples/phrases"
SETS = {"dev": 150, "test": 400}  # lists of each set
SEED = 1
SENTENCES = 6_000
DEV_SENTENCES = 300
LM = {
    "kind": "gpt2",
    "vocabulary": 500,
    "config": {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 128},
}
TRAINING = {"batch_size": 32, "epochs": 3, "lr": 4e-3, "warmup_steps": 50}


def main() -> None:
    references: set[str] = set()
    for name, count in SETS.items():
        chosen = choose_evenly(read_nbest(LISTS / f"{name}-other.jsonl.gz"), count)
        write_nbest(OUT / f"{name}.jsonl", map(round_scores, chosen))
        references.update(str(each.ref) for each in chosen)
        if name == "test":
            best = {each.utt_id: each.hyps[0].text for each in chosen}
            write_table(OUT / "first_pass", best)
    with TemporaryDirectory() as folder:
        train_lm(Path(folder), references)


def choose_evenly(lists: Sequence[NBest], count: int) -> list[NBest]:
    """Choose so many lists at equal distances, so that all speakers are among them."""
    return [lists[number * len(lists) // count] for number in range(count)]


def round_scores(nbest: NBest) -> NBest:
    """Round scores to four digits, so that the file is the same on all processors."""
    hyps = (replace(hyp, score=round(hyp.score, 4)) for hyp in nbest.hyps)
    return replace(nbest, hyps=tuple(hyps))


def train_lm(work: Path, references: set[str]) -> None:
    """Train the language model on sentences of which none is in the lists."""
    grammar = build_text_grammar()
    rng = random.Random(derive_seed(SEED, "phrases"))
    lines: list[str] = []
    while len(lines) < SENTENCES + DEV_SENTENCES:
        sentence = grammar.draw_sentence(rng)
        if sentence not in references:
            lines.append(f"{sentence}\n")
    train = work / "train.txt"
    dev = work / "dev.txt"
    train.write_text("".join(lines[:SENTENCES]))
    dev.write_text("".join(lines[SENTENCES:]))
    make_language_model(LM, [train], work / "start")
    adapt_language_model(
        {"lm": str(work / "start"), **TRAINING},
        TextFiles(text=(train,)),
        TextFiles(text=(dev,)),
        work / "trained",
        source=__file__,
    )
    shutil.rmtree(OUT / "lm", ignore_errors=True)
    shutil.copytree(work / "trained/model", OUT / "lm")


if __name__ == "__main__":
    main()

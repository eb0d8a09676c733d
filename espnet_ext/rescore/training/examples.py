"""What MWER training needs of N-best lists before the first update, done once: word errors, and a check of all lengths.

For 281,241 lists of ten hypotheses the tokenizer has 2.8 million texts to read. Both use all cores, and what they found
is kept on disk, so that a training that resumes, and others on the same lists, begin at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, compress
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, errors_of_lists
from espnet_ext.rescore.models.language_model import HypothesisError, LmScorer
from espnet_ext.rescore.models.scorers import fitting
from espnet_ext.rescore.training.loop import digest
from espnet_ext.rescore.training.mwer import Example, MwerLoss, example
from espnet_ext.work.once import fingerprint, make_folder

ERRORS = "errors.npy"
CHECKED_TOGETHER = 1000  # lists; the tokenizers of ``transformers`` share them among the cores


def make_examples(lists: Sequence[NBest], cache: Path) -> list[Example]:
    """Training examples of lists; their word errors are counted once.

    Args:
        lists: with references.
        cache: folder for the counts of any number of lists.

    Raises:
        InputError: a list has no reference.
    """
    key = fingerprint("word errors", digest(_texts_of(lists)))

    def count(folder: Path) -> None:
        errors = [error for own in errors_of_lists(lists) for error in own]
        np.save(folder / ERRORS, np.array(errors, dtype=np.int32))

    folder = cache / f"errors.{key[:16]}"
    make_folder(folder, key, count, "count of word errors")
    errors = iter(np.load(folder / ERRORS).tolist())
    return [example(nbest, [next(errors) for _ in nbest.hyps]) for nbest in lists]


def check_lengths(scorer: LmScorer, items: Sequence[Example], loss: MwerLoss, cache: Path) -> None:
    """Refuse texts that are too long for the model, before hours of training are spent; the same texts only once.

    Args:
        scorer: its tokenizer reads the texts.
        items: the examples.
        loss: which texts it scores.
        cache: folder in which is noted what has been checked.

    Raises:
        InputError: a text has too many tokens; names the utterance.
    """
    lists = loss.texts(items)
    key = fingerprint(
        "lengths",
        digest(text for item, own in zip(items, lists, strict=True) for text in (item.context or "", *own)),
        digest([scorer.tokenizer.backend_tokenizer.to_str()]) if scorer.tokenizer.is_fast else repr(scorer.tokenizer),
        [scorer.casing, scorer.longest, scorer.before, scorer.after, scorer.prompt],
    )

    def check(_folder: Path) -> None:
        for start in range(0, len(items), CHECKED_TOGETHER):
            block = lists[start : start + CHECKED_TOGETHER]
            contexts = [item.context for item in items[start : start + CHECKED_TOGETHER]]
            try:
                scorer.encode(block, contexts)
            except HypothesisError as error:
                sizes = accumulate(len(texts) for texts in block)
                index = next(index for index, total in enumerate(sizes) if error.number < total)
                raise InputError(f"{items[start + index].utt_id}: {error}") from None

    make_folder(cache / f"lengths.{key[:16]}", key, check, "check of lengths")


def without_long(
    scorer: LmScorer, lists: Sequence[NBest], what: str, say: Callable[[str], None], *, references: bool = False
) -> list[NBest]:
    """The lists without hypotheses of more tokens than the model takes, and without lists of which nothing is left.

    Args:
        scorer: its tokenizer reads the texts.
        lists: the lists.
        what: they are, for the line that says how many are left out.
        say: prints that line.
        references: leave out the lists, too, whose references have more tokens, since cross-entropy scores those.

    Raises:
        InputError: nothing is left.
    """
    kept, skipped = [], 0
    for start in range(0, len(lists), CHECKED_TOGETHER):
        block = lists[start : start + CHECKED_TOGETHER]
        scored = [own.ref if references and own.ref is not None else "" for own in block]
        texts = [[ref, *(hyp.text for hyp in own.hyps)] for ref, own in zip(scored, block, strict=True)]
        found = fitting(scorer, texts, [own.context for own in block])
        for own, (ref_fits, *fits) in zip(block, found, strict=True):
            hyps = tuple(compress(own.hyps, fits)) if ref_fits else ()
            skipped += len(own.hyps) - len(hyps)
            if hyps:
                kept.append(replace(own, hyps=hyps))
    if not kept:
        raise InputError(f"no hypothesis of the {what} fits into the {scorer.longest} tokens that the model takes")
    if skipped:
        say(
            f"{what}: {skipped} hypotheses are too long for the model and left out, or their references are, and "
            f"{len(lists) - len(kept)} lists with nothing else"
            if references
            else f"{what}: {skipped} hypotheses are too long for the model and left out, and {len(lists) - len(kept)} "
            "lists with nothing else"
        )
    return kept


def _texts_of(lists: Sequence[NBest]) -> Iterator[str]:
    for nbest in lists:
        yield f"{nbest.utt_id} {len(nbest.hyps)} {nbest.ref is not None}"
        yield nbest.ref or ""
        for hyp in nbest.hyps:
            yield hyp.text

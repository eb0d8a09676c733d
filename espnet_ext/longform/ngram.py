"""N-gram language models over tokens, smoothed after Witten and Bell (1991), as an ARPA file for beam search.

Each order is interpolated with the one below: p(w|h) = (c(hw) + n(h) p(w|h')) / (c(h) + n(h)), where n(h) is the number
of different tokens after h and h' is h without its first token; below the unigram lies the uniform distribution. The
share of what is below, n(h) / (c(h) + n(h)), is what an ARPA file calls the back-off weight.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
_NEVER = -99.0  # log10 probability of what is never predicted, by custom

Gram = tuple[str, ...]


def estimate(texts: Iterable[Sequence[str]], order: int, vocabulary: Sequence[str]) -> list[dict[Gram, tuple]]:
    """Estimate a model.

    Args:
        texts: Tokens of each text.
        order: Tokens of the longest n-grams, at least 1.
        vocabulary: All tokens that may be predicted, those that no text has among them.

    Returns:
        For each order, n-gram -> (log10 probability, log10 back-off weight or None).

    Raises:
        InputError: no text, an order below 1, or a token outside the vocabulary.
    """
    if order < 1:
        raise InputError(f"the order of an n-gram model must be at least 1, not {order}")
    predicted = dict.fromkeys((*vocabulary, END, UNKNOWN))
    counts = _count(texts, order, predicted)
    followers: list[defaultdict[Gram, list[int]]] = []
    for level in counts:
        after: defaultdict[Gram, list[int]] = defaultdict(lambda: [0, 0])  # occurrences, different tokens
        for gram, count in level.items():
            after[gram[:-1]][0] += count
            after[gram[:-1]][1] += 1
        followers.append(after)
    probabilities: list[dict[Gram, float]] = []
    for number, level in enumerate(counts):
        below = probabilities[-1] if probabilities else None
        grams = level if number else {**dict.fromkeys(((token,) for token in predicted), 0), **level}
        found = {}
        for gram, count in grams.items():
            total, kinds = followers[number][gram[:-1]]
            lower = below[gram[1:]] if below is not None else 1 / len(predicted)
            found[gram] = (count + kinds * lower) / (total + kinds)
        probabilities.append(found)
    model = [
        {gram: (math.log10(value), _back_off(gram, followers, number + 1)) for gram, value in sorted(level.items())}
        for number, level in enumerate(probabilities)
    ]
    model[0][(START,)] = (_NEVER, _back_off((START,), followers, 1))
    return model


def _count(texts: Iterable[Sequence[str]], order: int, predicted: Mapping[str, None]) -> list[Counter]:
    counts: list[Counter] = [Counter() for _ in range(order)]
    for text in texts:
        for token in text:
            if token not in predicted:
                raise InputError(f"the language model's text has {token!r}, which is no token of the model")
        padded = (START, *text, END)
        for size in range(1, order + 1):
            # The start is a history, but is never predicted.
            first = 1 if size == 1 else 0
            counts[size - 1].update(padded[at : at + size] for at in range(first, len(padded) - size + 1))
    if not counts[0]:
        raise InputError("there is no text to estimate a language model from")
    return counts


def _back_off(gram: Gram, followers: Sequence[Mapping[Gram, list[int]]], number: int) -> float | None:
    if number == len(followers) or gram not in followers[number]:
        return None
    total, kinds = followers[number][gram]
    return math.log10(kinds / (total + kinds))


def write_arpa(path: str | Path, model: Sequence[Mapping[Gram, tuple]]) -> None:
    """Write a model that :func:`estimate` has made."""
    with atomic_write(path) as file:
        file.write("\\data\\\n")
        for number, level in enumerate(model, 1):
            file.write(f"ngram {number}={len(level)}\n")
        for number, level in enumerate(model, 1):
            file.write(f"\n\\{number}-grams:\n")
            for gram, (probability, weight) in level.items():
                file.write(_line(probability, " ".join(gram), weight))
        file.write("\n\\end\\\n")


def _line(probability: float, text: str, weight: float | None) -> str:
    return f"{probability:.7f}\t{text}\n" if weight is None else f"{probability:.7f}\t{text}\t{weight:.7f}\n"

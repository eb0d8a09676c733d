"""From an utterance's samples to its N-best list: cut what is too long, normalise, keep the best of each text."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from espnet_ext.nbest.lists import Hypothesis, NBest

# Text and log-probability.
Scored = tuple[str, float]
Decoder = Callable[[np.ndarray], Iterable[Scored]]

_QUIET = 0.2  # seconds over which the energy is averaged where a cut is looked for


def first_pass(
    utt_id: str,
    samples: np.ndarray,
    decode: Decoder,
    *,
    rate: int,
    longest: int,
    rules: Callable[[str], str],
    count: int,
    ref: str | None = None,
) -> NBest:
    """The ``count`` best texts of an utterance that differ after normalisation; fewer, if the search found no more.

    Audio longer than ``longest`` seconds is cut at quiet places. The pieces are decoded one by one, as if they were
    independent: a text is one of each piece, its log-probability the sum.

    Args:
        utt_id: the utterance's id.
        samples: shape (samples,).
        decode: gives texts and log-probabilities of samples, as :meth:`espnet_ext.nbest.whisper.Whisper.decode`.
        rate: the sampling rate in Hz.
        longest: seconds that ``decode`` takes.
        rules: normalises texts, the reference too.
        count: how many hypotheses are wanted.
        ref: what was said, if that is known.
    """
    pieces = [distinct_texts(decode(piece), rules) for piece in cut(samples, longest * rate, round(_QUIET * rate))]
    best = combine(pieces, count)
    hyps = tuple(Hypothesis(text, score) for text, score in best)
    return NBest(utt_id, hyps, None if ref is None else rules(ref))


def distinct_texts(found: Iterable[Scored], rules: Callable[[str], str]) -> list[Scored]:
    """Of the hypotheses that are the same after normalisation, the best one; best first.

    >>> distinct_texts([("A cat.", -2.0), ("a cat", -1.0), ("The cat", -3.0)], lambda text: text.upper().strip("."))
    [('A CAT', -1.0), ('THE CAT', -3.0)]
    """
    best: dict[str, float] = {}
    for raw, score in found:
        text = rules(raw)
        best[text] = max(score, best.get(text, -math.inf))
    return sorted(best.items(), key=lambda pair: -pair[1])


def combine(pieces: Sequence[Sequence[Scored]], count: int) -> list[Scored]:
    """The ``count`` best texts that hold one of each piece, in the pieces' order; scores add up.

    >>> combine([[("A", -1.0), ("THE", -1.5)], [("CAT", -0.1), ("", -3.0)]], 3)
    [('A CAT', -1.1), ('THE CAT', -1.6), ('A', -4.0)]
    """
    best = list(pieces[0])[:count]
    for piece in pieces[1:]:
        # The best `count` of all need no more than the best `count` of each side. Two pairs may give the same text.
        pairs = ((f"{left} {right}".strip(), a + b) for left, a in best for right, b in piece[:count])
        best = distinct_texts(pairs, str)[:count]
    return best


def cut(samples: np.ndarray, longest: int, quiet: int) -> list[np.ndarray]:
    """Cut samples into as few pieces of at most ``longest`` samples as can be, each cut at the quietest place in reach.

    Args:
        samples: shape (samples,).
        longest: samples of a piece.
        quiet: samples over which the energy is averaged to find a quiet place.
    """
    number = math.ceil(len(samples) / longest)
    if number <= 1:
        return [samples]
    energy = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    even = len(samples) / number
    # Two neighbouring cuts may move apart by this much each, and the piece between them is still short enough.
    slack = (longest - even) / 2
    edges = [0]
    for index in range(1, number):
        places = np.arange(math.ceil(index * even - slack), math.floor(index * even + slack) + 1)
        around = energy[np.minimum(places + quiet // 2, len(samples))] - energy[np.maximum(places - quiet // 2, 0)]
        edges.append(int(places[np.argmin(around)]) if len(places) else round(index * even))
    return np.split(samples, edges[1:])

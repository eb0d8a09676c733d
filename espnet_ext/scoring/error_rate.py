"""Count errors of a hypothesis against its reference, and estimate their interval.

Counts add up over utterances and speakers. Intervals are those of Bisani and Ney,
"Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP
2004. With a handful of utterances, or with utterances that share speakers, they are too
narrow.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import add

import kaldialign

from espnet_ext.errors import InputError

# A token of the reference and of the hypothesis; None: a gap.
Pair = tuple[str | None, str | None]
# kaldialign holds 4 bytes a cell of its table; this many are 1.6 GB and 4 seconds
# (20,000 x 20,000 words).
MAX_CELLS = 400_000_000
REPLICAS = 10_000  # the number in Bisani and Ney's experiments
LEVEL = 0.95  # of the intervals
_CHUNK_CELLS = 4_000_000  # draws held at once, 32 MB


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """Counts of one alignment, in words or characters, or the sum of such counts.

    Raises ValueError: one is negative.

    >>> first = ErrorRate(correct=8, substitutions=1, deletions=1, insertions=0)
    >>> total = first + ErrorRate(9, 0, 1, 2)
    >>> total.counts, total.errors, total.reference_length, total.rate
    ((17, 1, 2, 2), 5, 20, 0.25)
    """

    correct: int
    substitutions: int
    deletions: int
    insertions: int

    def __post_init__(self) -> None:
        if min(self.counts) < 0:
            raise ValueError(f"a count of errors cannot be negative: {self}")

    def __add__(self, other: "ErrorRate") -> "ErrorRate":
        if not isinstance(other, ErrorRate):
            return NotImplemented
        return ErrorRate(*map(add, self.counts, other.counts))

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Correct words, substitutions, deletions and insertions."""
        return self.correct, self.substitutions, self.deletions, self.insertions

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Words (or characters) in the reference."""
        return self.correct + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        """Errors divided by the reference length, as a fraction.

        Raises InputError: the reference is empty.
        """
        if self.reference_length == 0:
            raise InputError(
                "the error rate of an empty reference is undefined: leave the "
                "utterance out"
            )
        return self.errors / self.reference_length


ZERO = ErrorRate(0, 0, 0, 0)


def count_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorRate:
    """Count the errors in the alignment that has the fewest, and the correct words.

    The number of errors is the Levenshtein distance, so every tool agrees on it.
    Several alignments may have that number: "a b" against "b a" is two substitutions,
    or a deletion and an insertion with one word correct. The split is then that of
    Kaldi's ``compute-wer``, which kaldialign computes: of equally cheap alignments,
    going backwards from the end, an insertion is preferred to a deletion, and that to a
    match or substitution. jiwer and sclite break such ties in their own way. Texts of
    more than 20,000 tokens have rapidfuzz's split, which takes a second where
    kaldialign takes minutes. Raises TypeError: a plain ``str``, which would be counted
    by characters.

    >>> count_errors("the cat sat on the mat".split(), "the hat sat on mat now".split())
    ErrorRate(correct=4, substitutions=1, deletions=1, insertions=1)
    >>> count_errors("a b".split(), "b a".split())
    ErrorRate(correct=1, substitutions=0, deletions=1, insertions=1)
    """
    _refuse_plain_text(reference, hypothesis)
    reference = list(reference)
    hypothesis = list(hypothesis)
    # Most utterances of a good system are: no table need be filled.
    if reference == hypothesis:
        return ErrorRate(len(reference), 0, 0, 0)
    if len(reference) * len(hypothesis) > MAX_CELLS:
        return count_pairs(_align_long(reference, hypothesis))
    # In memory that grows with the length; an alignment takes its square.
    counts = kaldialign.edit_distance(reference, hypothesis)
    return ErrorRate(
        correct=len(reference) - counts["sub"] - counts["del"],
        substitutions=counts["sub"],
        deletions=counts["del"],
        insertions=counts["ins"],
    )


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Align reference and hypothesis as :func:`count_errors` counts; None is a gap.

    >>> align("the cat sat".split(), "the hat sat down".split())
    [('the', 'the'), ('cat', 'hat'), ('sat', 'sat'), (None, 'down')]
    """
    _refuse_plain_text(reference, hypothesis)
    reference = list(reference)
    hypothesis = list(hypothesis)
    if reference == hypothesis:
        return list(zip(reference, hypothesis, strict=True))
    if len(reference) * len(hypothesis) > MAX_CELLS:
        return _align_long(reference, hypothesis)
    # kaldialign marks a gap by a symbol that must not be a word. Nothing that comes
    # from a split is empty.
    if "" in reference or "" in hypothesis:
        raise ValueError("an empty string is not a word")
    return [
        (left or None, right or None)
        for left, right in kaldialign.align(reference, hypothesis, "")
    ]


def _align_long(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Align in memory that grows with the length, and not with its square."""
    from rapidfuzz.distance import Levenshtein

    pairs: list[Pair] = []
    for each in Levenshtein.opcodes(reference, hypothesis):
        left = reference[each.src_start : each.src_end]
        right = hypothesis[each.dest_start : each.dest_end]
        # Only in insertions and deletions do the lengths differ: one side is empty.
        pairs += zip_longest(left, right)
    return pairs


def count_pairs(pairs: Iterable[Pair]) -> ErrorRate:
    """Count what :func:`align` gave, or any part of it.

    The counts of parts add up to those of the whole.
    """
    kinds = Counter(map(mark_pair, pairs))
    return ErrorRate(kinds["C"], kinds["S"], kinds["D"], kinds["I"])


def mark_pair(pair: Pair) -> str:
    """Return C, S, D or I for a column of an alignment.

    >>> pairs = [("the", "the"), ("cat", "hat"), ("down", None), (None, "sat")]
    >>> "".join(map(mark_pair, pairs))
    'CSDI'
    """
    left, right = pair
    if left is None:
        return "I"
    if right is None:
        return "D"
    return "C" if left == right else "S"


def bootstrap_interval(
    counts: Sequence[ErrorRate], *, replicas: int = REPLICAS, seed: int = 0
) -> tuple[float, float]:
    """Estimate the interval of an error rate by drawing utterances.

    Its ends are fractions. The same seed gives the same interval. A draw of utterances
    that all have none of the tokens that are counted (such as English words) has no
    rate, and is left out. Raises ValueError: no utterance, or none with a reference.
    """
    if not any(each.reference_length for each in counts):
        raise ValueError("there is no utterance with a reference to draw")
    import numpy as np

    # Utterances with equal counts are interchangeable, so a draw needs only how often
    # each kind of utterance occurs: a multinomial. That is exact, and cheap for large
    # test sets, too: 281,241 utterances are of a few hundred kinds.
    numbers = Counter((each.errors, each.reference_length) for each in counts)
    kinds = np.array(list(numbers))
    shares = np.array(list(numbers.values())) / len(counts)
    generator = np.random.default_rng(seed)
    chunk = max(1, _CHUNK_CELLS // len(kinds))
    parts = []
    for start in range(0, replicas, chunk):
        size = min(chunk, replicas - start)
        draws = generator.multinomial(len(counts), shares, size=size)
        parts.append(draws @ kinds)
    sums = np.concatenate(parts)  # (replicas, 2): errors, and words of the reference
    sums = sums[sums[:, 1] > 0]
    # The percentiles of the replicas, as Bisani and Ney take them.
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(sums[:, 0] / sums[:, 1], ends)
    return float(low), float(high)


def _refuse_plain_text(reference: Sequence[str], hypothesis: Sequence[str]) -> None:
    if isinstance(reference, str) or isinstance(hypothesis, str):
        raise TypeError(
            "reference and hypothesis must be lists of words or characters, not "
            "plain text"
        )

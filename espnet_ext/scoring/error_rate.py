"""Count the errors of one hypothesis against its reference; counts add up over utterances, speakers and test sets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import kaldialign

from espnet_ext.errors import InputError

Pair = tuple[str | None, str | None]  # a token of the reference and of the hypothesis; None: a gap
# An alignment holds 4 bytes a cell of its table; this many are 1.6 GB (20,000 x 20,000 words).
MAX_ALIGNMENT_CELLS = 400_000_000


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """Counts of one alignment, in words or characters, or the sum of such counts.

    >>> first = ErrorRate(correct=8, substitutions=1, deletions=1, insertions=0)
    >>> second = ErrorRate(correct=9, substitutions=0, deletions=1, insertions=2)
    >>> first + second
    ErrorRate(correct=17, substitutions=1, deletions=2, insertions=2)
    >>> (first + second).errors, (first + second).reference_length, (first + second).hypothesis_length
    (5, 20, 20)
    >>> (first + second).rate
    0.25

    Raises:
        ValueError: a count is negative.
    """

    correct: int
    substitutions: int
    deletions: int
    insertions: int

    def __post_init__(self) -> None:
        if self.correct < 0 or self.substitutions < 0 or self.deletions < 0 or self.insertions < 0:
            raise ValueError(f"a count of errors cannot be negative: {self}")

    def __add__(self, other: "ErrorRate") -> "ErrorRate":
        if not isinstance(other, ErrorRate):
            return NotImplemented
        return ErrorRate(
            self.correct + other.correct,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Words (or characters) in the reference."""
        return self.correct + self.substitutions + self.deletions

    @property
    def hypothesis_length(self) -> int:
        """Words (or characters) in the hypothesis."""
        return self.correct + self.substitutions + self.insertions

    @property
    def rate(self) -> float:
        """Errors divided by the reference length, as a fraction; above 1 if there are many insertions.

        Raises:
            InputError: the reference is empty, where the rate has no meaning.
        """
        if self.reference_length == 0:
            raise InputError("the error rate of an empty reference is undefined: leave the utterance out")
        return self.errors / self.reference_length


ZERO = ErrorRate(0, 0, 0, 0)


def count_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorRate:
    """Count correct, substituted, deleted and inserted words in the alignment with the fewest errors.

    The number of errors is the Levenshtein distance, so every tool agrees on it. Several alignments may have that
    number: "a b" against "b a" is two substitutions, or a deletion and an insertion with one word correct. The split
    is then that of Kaldi's ``compute-wer``, which kaldialign computes: of equally cheap alignments, going backwards
    from the end, an insertion is preferred to a deletion, and that to a match or substitution. Other tools
    (jiwer, sclite) break such ties in their own way; wherever there is only one cheapest split, all are equal.

    >>> count_errors("the cat sat on the mat".split(), "the hat sat on mat now".split())
    ErrorRate(correct=4, substitutions=1, deletions=1, insertions=1)
    >>> count_errors("a b".split(), "b a".split())
    ErrorRate(correct=1, substitutions=0, deletions=1, insertions=1)

    Raises:
        TypeError: a plain ``str``, which would be counted by characters: use ``.split()``, or ``list()`` if meant.
    """
    _refuse_plain_text(reference, hypothesis)
    reference, hypothesis = list(reference), list(hypothesis)
    if reference == hypothesis:
        return ErrorRate(len(reference), 0, 0, 0)
    counts = kaldialign.edit_distance(reference, hypothesis)
    return ErrorRate(
        correct=len(reference) - counts["sub"] - counts["del"],
        substitutions=counts["sub"],
        deletions=counts["del"],
        insertions=counts["ins"],
    )


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Align word by word: pairs of reference and hypothesis; ``None`` is a gap.

    It is the alignment that :func:`count_errors` counts. Memory grows with the product of the lengths, 4 bytes each.

    >>> align("the cat sat".split(), "the hat sat down".split())
    [('the', 'the'), ('cat', 'hat'), ('sat', 'sat'), (None, 'down')]

    Raises:
        TypeError: a plain ``str`` (see :func:`count_errors`).
        ValueError: an empty string among the words.
    """
    _refuse_plain_text(reference, hypothesis)
    reference, hypothesis = list(reference), list(hypothesis)
    if reference == hypothesis:
        return list(zip(reference, hypothesis, strict=True))
    # kaldialign marks a gap by a symbol that must not be a word. Nothing that comes from a split is empty.
    if "" in reference or "" in hypothesis:
        raise ValueError("an empty string is not a word")
    return [(left or None, right or None) for left, right in kaldialign.align(reference, hypothesis, "")]


def count_pairs(pairs: Iterable[Pair]) -> ErrorRate:
    """Count what :func:`align` gave, or any part of it: the counts of parts add up to those of the whole.

    >>> count_pairs([("the", "the"), ("cat", "hat"), (None, "sat"), ("down", None)])
    ErrorRate(correct=1, substitutions=1, deletions=1, insertions=1)
    """
    kinds = Counter(
        "ins" if left is None else "del" if right is None else "correct" if left == right else "sub"
        for left, right in pairs
    )
    return ErrorRate(kinds["correct"], kinds["sub"], kinds["del"], kinds["ins"])


def _refuse_plain_text(reference: Sequence[str], hypothesis: Sequence[str]) -> None:
    if isinstance(reference, str) or isinstance(hypothesis, str):
        raise TypeError("reference and hypothesis must be lists of words or characters, not plain text")

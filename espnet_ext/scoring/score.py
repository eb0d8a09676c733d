"""Score a hypothesis against a reference: Kaldi ``text`` tables in, counts by utterance, speaker and in total out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from espnet_ext.codeswitch.mixed_text import mixed_tokens
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.bootstrap import REPLICAS, bootstrap_interval
from espnet_ext.scoring.error_rate import ZERO, ErrorRate, count_errors
from espnet_ext.scoring.normalise import normalised

UNITS = ("word", "char", "mixed")
MUCH_WRITING = 0.2  # share of the errors that are only case or punctuation, from which on it is worth saying
WHOLE = "All"  # the name of the whole if a score has parts, as in P1's tables


@dataclass(frozen=True)
class Score:
    """The score of one test set.

    Attributes:
        unit: ``word``, ``char`` or ``mixed``.
        reference, hypothesis: the texts that were compared, by utterance id, in the reference's order.
        utterances: counts by utterance id, in the same order.
        speakers: counts by speaker, sorted by name; empty if no ``utt2spk`` was given.
        speaker_of: speaker by utterance id; empty likewise.
        total: the sum.
        parts: by name, scores of the same texts that count only some of the tokens (those of one language, say); an
            utterance may then have none of them. Empty if the score has no parts.
    """

    unit: str
    reference: Mapping[str, str]
    hypothesis: Mapping[str, str]
    utterances: Mapping[str, ErrorRate]
    speakers: Mapping[str, ErrorRate]
    speaker_of: Mapping[str, str]
    total: ErrorRate
    parts: Mapping[str, "Score"] = field(default_factory=dict)

    @property
    def sentence_error_rate(self) -> float:
        """The share of utterances with an error, as a fraction."""
        return sum(counts.errors > 0 for counts in self.utterances.values()) / len(self.utterances)

    @property
    def of_writing(self) -> int:
        """How many of the errors are gone if neither case nor punctuation counts.

        >>> score_texts({"u": "Yes, we can."}, {"u": "yes we can't"}).of_writing
        1
        """
        same = {
            key: count_errors(_plain(self.reference[key], self.unit), _plain(self.hypothesis[key], self.unit))
            for key in self.utterances
        }
        return max(0, self.total.errors - sum(same.values(), ZERO).errors)

    def interval(self, *, by_speaker: bool = False, replicas: int = REPLICAS, seed: int = 0) -> tuple[float, float]:
        """95% bootstrap interval of the error rate, as fractions, resampling utterances or whole speakers.

        Raises:
            InputError: ``by_speaker`` without speakers.
        """
        if by_speaker and not self.speakers:
            raise InputError("resampling by speaker needs to know the speakers: give utt2spk")
        counts = (self.speakers if by_speaker else self.utterances).values()
        return bootstrap_interval(
            [c.errors for c in counts], [c.reference_length for c in counts], replicas=replicas, seed=seed
        )


def _plain(text: str, unit: str) -> list[str]:
    return split_units("".join(mark for mark in text.lower() if mark.isalnum() or mark.isspace()), unit)


def split_units(text: str, unit: str) -> list[str]:
    """Split a transcript into what is counted.

    ``word``: at white space, as ``str.split`` has it (ESPnet's habit; the ideographic space U+3000 separates too).
    ``char``: code points, with one space between words, which counts as a character, as in ESPnet's scoring stage and
    in jiwer. Mandarin text must therefore be spaced alike, best not at all, in reference and hypothesis.
    ``mixed``: Han characters and words of all else (:func:`mixed_tokens`), however they are spaced.
    Nothing is normalised: case, punctuation and composed against decomposed accents (NFC, NFD) all count.

    >>> split_units("ab  c", "word"), split_units("ab  c", "char"), split_units("去 x吧", "mixed")
    (['ab', 'c'], ['a', 'b', ' ', 'c'], ['去', 'x', '吧'])

    Raises:
        InputError: an unknown unit.
    """
    if unit == "word":
        return text.split()
    if unit == "char":
        return list(" ".join(text.split()))
    if unit == "mixed":
        return mixed_tokens(text)
    raise InputError(f"unknown unit {unit!r}: choose one of {', '.join(UNITS)}")


def score_files(
    reference: str | Path,
    hypothesis: str | Path,
    *,
    unit: str = "word",
    utt2spk: str | Path | None = None,
    normaliser: Callable[[str], str] | None = None,
) -> Score:
    """Score two Kaldi ``text`` files, which need not be in the same order; ``normaliser`` is applied to both first.

    An utterance with nothing after its id in ``hypothesis`` was recognised as silence: all its words are deletions.

    Raises:
        InputError: a file that cannot be read or has an id twice (see :func:`read_table`), or what
            :func:`score_texts` refuses.
    """
    texts = read_table(reference), read_table(hypothesis)
    if normaliser is not None:
        texts = normalised(texts[0], normaliser), normalised(texts[1], normaliser)
    return score_texts(
        *texts,
        unit=unit,
        utt2spk=None if utt2spk is None else read_table(utt2spk),
        names=(str(reference), str(hypothesis), str(utt2spk)),
    )


def score_texts(
    reference: Mapping[str, str],
    hypothesis: Mapping[str, str],
    *,
    unit: str = "word",
    utt2spk: Mapping[str, str] | None = None,
    names: tuple[str, str, str] = ("reference", "hypothesis", "utt2spk"),
) -> Score:
    """Score transcripts by utterance id; ``names`` say in messages where the three tables come from.

    ``utt2spk`` may hold more utterances than are scored.

    >>> score = score_texts({"u1": "one two", "u2": "three"}, {"u1": "one too", "u2": "three"})
    >>> score.total.rate, score.sentence_error_rate
    (0.3333333333333333, 0.5)

    Raises:
        InputError: there is no utterance; an utterance is missing from the hypothesis, or is only there; its
            reference is empty; it has no speaker in ``utt2spk``; an unknown unit.
    """
    reference_name, hypothesis_name, utt2spk_name = names
    if not reference:
        raise InputError(f"{reference_name}: there is no utterance to score")
    _refuse(
        [key for key in reference if key not in hypothesis],
        hypothesis_name,
        f"of {reference_name} is missing: decode it, or write its id with no text",
    )
    _refuse(
        [key for key in hypothesis if key not in reference],
        hypothesis_name,
        f"is not in {reference_name}: is this another test set?",
    )
    _refuse(
        [key for key, text in reference.items() if not split_units(text, unit)],
        reference_name,
        "has an empty reference, or one that the rules leave empty: fix it, or take it out of both files",
    )
    if utt2spk is not None:
        _refuse(
            [key for key in reference if not utt2spk.get(key)],
            utt2spk_name,
            f"of {reference_name} has no speaker: add it",
        )
    utterances = {
        key: count_errors(split_units(text, unit), split_units(hypothesis[key], unit))
        for key, text in reference.items()
    }
    speaker_of = {} if utt2spk is None else {key: utt2spk[key] for key in reference}
    return add_up(unit, reference, hypothesis, utterances, speaker_of)


def add_up(
    unit: str,
    reference: Mapping[str, str],
    hypothesis: Mapping[str, str],
    utterances: Mapping[str, ErrorRate],
    speaker_of: Mapping[str, str],
) -> Score:
    """Make a score of counts by utterance: sum them by speaker and in total."""
    speakers: dict[str, ErrorRate] = {}
    for key, speaker in speaker_of.items():
        speakers[speaker] = speakers.get(speaker, ZERO) + utterances[key]
    return Score(
        unit=unit,
        reference=reference,
        hypothesis=hypothesis,
        utterances=utterances,
        speakers=dict(sorted(speakers.items())),
        speaker_of=speaker_of,
        total=sum(utterances.values(), start=ZERO),
    )


def _refuse(ids: list[str], where: str, fault: str) -> None:
    if ids:
        more = f" ({len(ids)} such utterances)" if len(ids) > 1 else ""
        raise InputError(f"{where}: utterance {ids[0]} {fault}{more}")

"""Score texts by utterance id: by utterance, by speaker and in total.

Counted are words, characters or mixed tokens.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from unicodedata import normalize

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import (
    ZERO,
    ErrorRate,
    Pair,
    align,
    count_errors,
    count_pairs,
)

Aligner = Callable[[Sequence[str], Sequence[str]], list[Pair]]
UNITS = ("word", "char", "mixed")
# Share of errors that are only case or punctuation, from which on a warning is due.
MUCH_WRITING = 0.2
WHOLE = "All"  # the name of the whole if a score has parts, as in P1's tables
SPELT_OTHERWISE = (
    "looks the same here, but its accents are written otherwise (Unicode NFC and "
    "NFD): write both alike"
)
NAMES = ("reference", "hypothesis", "utt2spk")  # of the tables, in messages


@dataclass(frozen=True)
class Score:
    """The score of one test set."""

    unit: str  # word, char or mixed
    # Texts by utterance id, in this order; none if speakers' were compared.
    reference: Mapping[str, str]
    hypothesis: Mapping[str, str]
    utterances: Mapping[str, ErrorRate]  # counts by utterance id, in the same order
    # Sorted; empty without utt2spk.
    speakers: Mapping[str, ErrorRate] = field(default_factory=dict)
    # By utterance; empty likewise.
    speaker_of: Mapping[str, str] = field(default_factory=dict)
    # By recording; empty if each is its own session.
    session_of: Mapping[str, str] = field(default_factory=dict)
    # Counts of some tokens only, or of none.
    parts: Mapping[str, "Score"] = field(default_factory=dict)
    whole: str = "utterance"  # what the keys of ``utterances`` name
    aligner: Aligner = align  # by which the tokens were counted

    @cached_property
    def total(self) -> ErrorRate:
        """The sum over all utterances."""
        return sum(self.utterances.values(), start=ZERO)

    def align_tokens(self, key: str) -> list[Pair]:
        """Align the tokens of an utterance as they were counted."""
        return self.aligner(
            split_units(self.reference[key], self.unit),
            split_units(self.hypothesis[key], self.unit),
        )

    @property
    def sentence_error_rate(self) -> float:
        """The share of utterances with an error, as a fraction."""
        wrong = sum(counts.errors > 0 for counts in self.utterances.values())
        return wrong / len(self.utterances)

    @property
    def silent(self) -> list[str]:
        """The utterances with an empty reference, or one that the rules leave empty."""
        return [
            key
            for key, counts in self.utterances.items()
            if not counts.reference_length
        ]

    @property
    def of_writing(self) -> int:
        """How many of the errors are gone if neither case nor punctuation counts.

        >>> score_texts({"u": "Yes, we can."}, {"u": "yes we can't"}).of_writing
        1
        """
        found = 0
        for key, counts in self.utterances.items():
            if counts.errors:
                found += count_writing_errors(self.align_tokens(key))
        return found

    def replace_counts(self, utterances: Mapping[str, ErrorRate]) -> "Score":
        """Return a score of the same texts with other counts, summed by speaker."""
        speakers: dict[str, ErrorRate] = {}
        for key, speaker in self.speaker_of.items():
            speakers[speaker] = speakers.get(speaker, ZERO) + utterances[key]
        return replace(
            self, utterances=utterances, speakers=dict(sorted(speakers.items()))
        )


def count_writing_errors(pairs: Iterable[Pair]) -> int:
    """Count the errors of an alignment that are only case or punctuation.

    >>> count_writing_errors([("Yes,", "yes"), ("-", None), ("we", "they")])
    2
    """
    found = 0
    for left, right in pairs:
        if left != right:
            found += _strip_writing(left) == _strip_writing(right)
    return found


def _strip_writing(token: str | None) -> str:
    # A gap and a token of punctuation alone are the same: nothing.
    return re.sub(r"[^\w\s]|_", "", (token or "").lower())


def advise_on_writing(of_writing: int, errors: int) -> str:
    """Return what to do where many errors are only case or punctuation.

    Return "" where few are.
    """
    if of_writing <= MUCH_WRITING * errors:
        return ""
    return (
        f"{of_writing} of the {errors} errors are only case or punctuation: "
        "--normaliser lower leaves case out, whisper_english and librispeech (for "
        "mixed text mandarin_english) punctuation too"
    )


def find_speaker(utt2spk: Mapping[str, str], key: str) -> str:
    """Return the speaker of an utterance or recording.

    Of one channel of it, ``name/channel``, that of the whole if the channel has none.
    It is "" if not known.
    """
    return utt2spk.get(key) or utt2spk.get(key.rpartition("/")[0], "")


def split_units(text: str, unit: str) -> list[str]:
    """Split a transcript into what is counted; nothing is normalised.

    ``word``: at white space, as ``str.split`` has it (ESPnet's habit; the ideographic
    space U+3000 separates too). ``char``: code points, with one space between words,
    which counts as a character, as in ESPnet's scoring stage and in jiwer, so that
    Mandarin text must be spaced alike in reference and hypothesis. ``mixed``: Han
    characters and words of all else (:func:`split_mixed_text`), spaced in any way.

    >>> split_units("ab  c", "word"), split_units("ab  c", "char")
    (['ab', 'c'], ['a', 'b', ' ', 'c'])
    >>> split_units("去 x吧", "mixed")
    ['去', 'x', '吧']
    """
    if unit == "word":
        return text.split()
    if unit == "char":
        return list(" ".join(text.split()))
    if unit == "mixed":
        from espnet_ext.text.mixed_text import split_mixed_text

        return split_mixed_text(text)
    raise InputError(f"unknown unit {unit!r}: choose one of {', '.join(UNITS)}")


def score_texts(
    reference: Mapping[str, str],
    hypothesis: Mapping[str, str],
    *,
    unit: str = "word",
    utt2spk: Mapping[str, str] | None = None,
    names: tuple[str, str, str] = NAMES,
    aligner: Aligner | None = None,
) -> Score:
    """Score transcripts by utterance id.

    ``names`` tell in messages where the three tables come from. ``utt2spk`` may hold
    more utterances than are scored; ``aligner`` is another alignment than that with the
    fewest errors. An empty hypothesis was recognised as silence: all words of its
    reference are deletions. All words that are recognised where the reference is empty
    are insertions. Raises InputError: there is no utterance; one is in only one of the
    two; all references are empty; one has no speaker.

    >>> real = {"u1": "one two", "u2": "three"}
    >>> score = score_texts(real, {"u1": "one too", "u2": "three"})
    >>> score.total.rate, score.sentence_error_rate
    (0.3333333333333333, 0.5)
    """
    real, heard, speakers = names
    if not reference:
        raise InputError(f"{real}: there is no utterance to score")
    check_ids(reference, hypothesis, names[:2])
    if not any(split_units(text, unit) for text in reference.values()):
        raise InputError(
            f"{real}: nothing is said in it, or the rules leave nothing: there is "
            "nothing to score"
        )
    if utt2spk is not None:
        lost = [key for key in reference if not find_speaker(utt2spk, key)]
        refuse(lost, speakers, f"of {real} has no speaker: add it")

    utterances: dict[str, ErrorRate] = {}
    for key, text in reference.items():
        spoken = split_units(text, unit)
        recognised = split_units(hypothesis[key], unit)
        # Counts without an alignment take less memory and time.
        if aligner is None:
            utterances[key] = count_errors(spoken, recognised)
        else:
            utterances[key] = count_pairs(aligner(spoken, recognised))
    speaker_of = {}
    if utt2spk:
        speaker_of = {key: find_speaker(utt2spk, key) for key in reference}
    score = Score(
        unit,
        reference,
        hypothesis,
        utterances,
        speaker_of=speaker_of,
        aligner=aligner or align,
    )
    # The same counts again, summed by speaker.
    return score.replace_counts(utterances)


def check_ids(
    reference: Iterable[str],
    hypothesis: Iterable[str],
    names: tuple[str, str],
    what: str = "utterance",
) -> None:
    """Refuse ids that are in one of two files only, by an InputError.

    ``names`` are those of the files.
    """
    real = dict.fromkeys(reference)
    heard = dict.fromkeys(hypothesis)
    # The most particular reason first: the same id in other bytes is also missing.
    lost = [key for key in real if key not in heard]
    misspelt = [key for key in lost if is_spelt_otherwise(key, heard)]
    refuse(misspelt, names[1], f"of {names[0]} {SPELT_OTHERWISE}", what)
    advice = "recognise it, or write it without text"
    refuse(lost, names[1], f"of {names[0]} is missing: {advice}", what)
    unknown = [key for key in heard if key not in real]
    refuse(unknown, names[1], f"is not in {names[0]}: is this another test set?", what)


def is_spelt_otherwise(key: str, others: Iterable[str]) -> bool:
    r"""Return whether an id differs from one of others in the form of accents only.

    Composed accents (NFC) and decomposed ones (NFD) look the same.

    >>> is_spelt_otherwise("Jos\u00e9-1", ["Jose\u0301-1"])
    True
    >>> is_spelt_otherwise("a", ["a"])
    False
    """
    if key.isascii() or key in others:
        return False
    return normalize("NFD", key) in {normalize("NFD", other) for other in others}


def strip_speakers(
    texts: Mapping[str, str], utterances: Iterable[str]
) -> Mapping[str, str]:
    """Strip the speakers that ESPnet's scoring puts before ids (``ref.trn``).

    Texts with other ids are returned as they are.

    >>> strip_speakers({"1-a-1-a-7": "one", "1-b-1-b-2": "two"}, ["1-a-7"])
    {'1-a-7': 'one', '1-b-1-b-2': 'two'}
    """
    known = set(utterances)
    if known <= texts.keys():
        return texts
    named: dict[str, str] = {}
    # Where the speaker ends cannot be told by the hyphen, which either may hold; only
    # by what is an utterance. Of several the longest is meant: if it was not, two keys
    # would end in it, and both would take it.
    for key, text in texts.items():
        ends = [key[place + 1 :] for place, letter in enumerate(key) if letter == "-"]
        fitting = [end for end in ends if end in known]
        if not fitting and key in known:
            return texts  # an id alone, so that the others have no speakers either
        # One that is not among the utterances keeps its id, for messages to name it.
        utterance = fitting[0] if fitting else key
        if utterance in named:
            return texts
        named[utterance] = text
    # Some ids are keys as they are: speakers are there only if that explains all.
    if known & texts.keys() and not known <= named.keys():
        return texts
    return named


def refuse(ids: list[str], where: str, fault: str, what: str = "utterance") -> None:
    """Refuse ids with a fault, if there are any: an InputError names the first."""
    if ids:
        more = f" ({len(ids)} such {what}s)" if len(ids) > 1 else ""
        raise InputError(f"{where}: {what} {ids[0]} {fault}{more}")


def score_by_kind(score: Score, kinds: Mapping[str, str], name: str = "kinds") -> Score:
    """Give a score of words a part for each kind of word, such as names and others.

    ``kinds`` has, by utterance, the kind of each word of the reference, separated by
    spaces; ``name`` is what messages call it. A substitution or deletion counts for the
    kind of the reference's word, an insertion only for the whole. Raises InputError: an
    utterance without kinds, or with more or fewer of them than words.

    >>> score = score_texts({"u": "ann met bob"}, {"u": "ann saw him bob"})
    >>> scored = score_by_kind(score, {"u": "name other name"})
    >>> {kind: part.total.rate for kind, part in scored.parts.items()}
    {'name': 0.0, 'other': 1.0}
    """
    counts: dict[str, dict[str, ErrorRate]] = {}
    every = sorted({kind for text in kinds.values() for kind in text.split()})
    for key, text in score.reference.items():
        words = split_units(text, score.unit)
        own = kinds.get(key, "").split()
        if len(words) != len(own):
            raise InputError(
                f"{name}: utterance {key} has {len(own)} kinds, but its reference "
                f"{len(words)} words"
            )
        # An insertion has no word of the reference, and so no kind.
        pairs = [pair for pair in score.align_tokens(key) if pair[0] is not None]
        pairs_of_kinds: dict[str, list[Pair]] = {kind: [] for kind in every}
        for pair, kind in zip(pairs, own, strict=True):
            pairs_of_kinds[kind].append(pair)
        for kind, some in pairs_of_kinds.items():
            counts.setdefault(kind, {})[key] = count_pairs(some)
    parts = {kind: score.replace_counts(own) for kind, own in counts.items()}
    return replace(score, parts=parts)

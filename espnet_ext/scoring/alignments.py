"""A hypothesis file aligned to the reference, in rows: one for each utterance, or for
each turn of a recording.

Alignments are of whole recordings, cut at turns to be read; an inserted word is of the
turn of the word before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from espnet_ext.errors import InputError
from espnet_ext.scoring.assignments import (
    COLLAR,
    Pairs,
    align_cp,
    align_tcp,
    group_turns_by_speaker,
)
from espnet_ext.scoring.error_rate import Pair, align
from espnet_ext.scoring.normalise import FOR_MIXED_TEXT, NONE, find_normaliser
from espnet_ext.scoring.recordings import normalise_turns
from espnet_ext.scoring.score import check_ids, split_units
from espnet_ext.text.transcripts import Transcripts
from espnet_ext.text.words import (
    Segment,
    group_by_recording,
    join_words_by_speaker,
    sort_by_start,
)

# rates of plain text, and what they count
UNITS = {"wer": "word", "cer": "char", "mer": "mixed"}
BY_SPEAKER = ("sawer", "cpwer", "tcpwer")
RATES = (*UNITS, *BY_SPEAKER)


@dataclass(frozen=True)
class Measure:
    """What is counted: a rate, one of ``RATES``, and how.

    The normaliser is that of both texts, the collar of tcpWER in seconds.
    """

    rate: str = "wer"
    normaliser: str = NONE
    collar: float = COLLAR


# What a row is of (utterance, or recording), and which part: a turn's number or name.
Key = tuple[str, int | str | None]
NOBODY = "nobody"  # the part for words that were given to nobody


@dataclass(frozen=True)
class Row:
    """A stretch of the reference, which the page calls ``label``: a part of the
    utterance or recording ``whole``.

    ``key`` is unique, ``label`` need not be: two turns may have equal times.
    ``speaker`` is "" if not known. A recording's last row, without tokens, is for words
    that were given to nobody.
    """

    key: Key
    label: str
    whole: str
    speaker: str
    tokens: tuple[str, ...]


Aligned = dict[Key, tuple[Pair, ...]]  # by key of a row


def make_reference_rows(reference: Transcripts, measure: Measure) -> list[Row]:
    """Make the rows of a reference, in the order of utterances, or of recordings and
    time.

    Raises InputError: nothing in it, or a rate that needs speakers where there are
    none.
    """
    by_speaker, split = measure.rate in BY_SPEAKER, _splitter(measure)
    said = (
        normalise_turns(reference, measure.normaliser)
        if by_speaker
        else reference.segments
    )
    rows = [
        Row((key, None), key, key, "", tuple(split(text)))
        for key, text in reference.texts.items()
    ]
    for recording, turns in group_by_recording(sort_by_start(said)).items():
        spoken = False
        for number, turn in enumerate(turns, start=1):
            time = f"{turn.start:.2f}-{turn.end:.2f}" if turn.has_span else f"#{number}"
            label = f"{recording} {time} {turn.speaker}".rstrip()
            tokens = tuple(split(turn.text))
            if measure.rate == "cer" and tokens and spoken:
                # The blank between two turns counts as any other between words, as in
                # the text of the whole recording, to which hypotheses are aligned.
                tokens = (" ", *tokens)
            spoken = spoken or bool(tokens)
            rows.append(
                Row((recording, number), label, recording, turn.speaker, tokens)
            )
        if by_speaker:
            label = f"{recording} {NOBODY}"
            rows.append(Row((recording, NOBODY), label, recording, "", ()))
    if not any(row.tokens for row in rows):
        raise InputError(
            f"{reference.path}: nothing is said in it: there is nothing to score"
        )
    return rows


def _splitter(measure: Measure) -> Callable[[str], list[str]]:
    """Return what normalises a text and splits it into tokens.

    The turns of speakers are normalised before.
    """
    if measure.rate in BY_SPEAKER:
        return str.split
    if measure.rate == "mer" and measure.normaliser not in FOR_MIXED_TEXT:
        raise InputError(
            f"{measure.normaliser} is for English text only: use one of "
            f"{', '.join(FOR_MIXED_TEXT)}"
        )
    apply, _ = find_normaliser(measure.normaliser)
    return lambda text: split_units(apply(text), UNITS[measure.rate])


def align_to(
    reference: Transcripts,
    rows: Sequence[Row],
    hypothesis: Transcripts,
    measure: Measure,
) -> Aligned:
    """Align one hypothesis file to the rows of the reference: tokens by row, together
    all tokens of both files.

    Raises InputError: ids that are only in one of the files, or what the readers
    refuse.
    """
    wholes: dict[str, list[Row]] = {}
    for row in rows:
        wholes.setdefault(row.whole, []).append(row)
    if measure.rate in BY_SPEAKER:
        return _by_speaker(reference, wholes, hypothesis, measure)
    split, texts = _splitter(measure), hypothesis.plain
    what = "utterance" if reference.of_utterances else "recording"
    check_ids(wholes, texts, (str(reference.path), str(hypothesis.path)), what)
    found: Aligned = {}
    for whole, own in wholes.items():
        spoken, heard = (
            [token for row in own for token in row.tokens],
            split(texts[whole]),
        )
        found |= _cut(own, align(spoken, heard))
    return found


def _by_speaker(
    reference: Transcripts,
    wholes: Mapping[str, Sequence[Row]],
    hypothesis: Transcripts,
    measure: Measure,
) -> Aligned:
    real = normalise_turns(reference, measure.normaliser)
    heard = normalise_turns(hypothesis, measure.normaliser)
    spoken, recognised = (
        group_by_recording(sort_by_start(real)),
        group_by_recording(sort_by_start(heard)),
    )
    check_ids(
        spoken, recognised, (str(reference.path), str(hypothesis.path)), "recording"
    )
    for path, turns in (
        ((reference.path, real), (hypothesis.path, heard))
        if measure.rate == "tcpwer"
        else ()
    ):
        if timeless := next(
            (turn for turn in turns if turn.words and not turn.has_span), None
        ):
            raise InputError(
                f"{path}: words of {timeless.recording} have no times, which "
                "tcpWER needs: use cpwer"
            )
    found: Aligned = {}
    for whole, rows in wholes.items():
        found |= {row.key: () for row in rows}
        nobody: list[Pair] = []
        for (speaker, _), aligned in _speaker_pairs(
            spoken[whole], recognised[whole], measure
        ).items():
            if own := [row for row in rows if row.speaker == speaker and row.tokens]:
                found |= _cut(own, aligned)
            else:
                nobody += aligned
        found[whole, NOBODY] = tuple(nobody)
    return found


def _speaker_pairs(
    spoken: Sequence[Segment], recognised: Sequence[Segment], measure: Measure
) -> Pairs:
    if measure.rate == "tcpwer":
        return align_tcp(
            group_turns_by_speaker(spoken),
            group_turns_by_speaker(recognised),
            measure.collar,
        )
    real, heard = (
        next(iter(join_words_by_speaker(turns).values()))
        for turns in (spoken, recognised)
    )
    if measure.rate == "cpwer":
        return align_cp(real, heard)
    names = dict.fromkeys([*real, *heard])
    return {
        (name if name in real else None, name): align(
            real.get(name, ()), heard.get(name, ())
        )
        for name in names
    }


def _cut(rows: Sequence[Row], pairs: Sequence[Pair]) -> Aligned:
    """Cut an alignment at the rows of the reference."""
    parts: list[list[Pair]] = [[] for _ in rows]
    left = iter([number for number, row in enumerate(rows) for _ in row.tokens])
    number = next((number for number, row in enumerate(rows) if row.tokens), 0)
    for pair in pairs:
        if pair[0] is not None:
            number = next(left)
        parts[number].append(pair)
    return {row.key: tuple(part) for row, part in zip(rows, parts, strict=True)}

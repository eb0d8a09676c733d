"""Align a hypothesis file to the reference, in rows.

There is one row for each utterance, or for each turn of a recording.
Alignments are of whole recordings, cut at turns to be read; an inserted word is of the
turn of the word before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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

# Rates of plain text, and what they count.
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
    """A stretch of the reference, which the page calls ``label``.

    The stretch is a part of the utterance or recording ``whole``.

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
    """Make the rows of a reference: its utterances, or turns by recording and time.

    Raises InputError: nothing in it, or a rate that needs speakers where there are
    none.
    """
    by_speaker = measure.rate in BY_SPEAKER
    split = _make_splitter(measure)
    said: Sequence[Segment] = reference.segments
    if by_speaker:
        said = normalise_turns(reference, measure.normaliser)
    rows = []
    for key, text in reference.texts.items():
        rows.append(Row((key, None), key, key, "", tuple(split(text))))
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


def _make_splitter(measure: Measure) -> Callable[[str], list[str]]:
    """Return what normalises a text and splits it into tokens."""
    # The turns of speakers are normalised before (normalise_turns).
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
    """Align one hypothesis file to the rows of the reference.

    The tokens of all rows together are all tokens of both files. Raises InputError: ids
    that are only in one of the files, or what the readers refuse.
    """
    wholes: dict[str, list[Row]] = {}
    for row in rows:
        wholes.setdefault(row.whole, []).append(row)
    if measure.rate in BY_SPEAKER:
        return _align_speakers(reference, wholes, hypothesis, measure)
    split = _make_splitter(measure)
    texts = hypothesis.plain
    what = "utterance" if reference.of_utterances else "recording"
    check_ids(wholes, texts, (str(reference.path), str(hypothesis.path)), what)
    found: Aligned = {}
    for whole, own in wholes.items():
        spoken = [token for row in own for token in row.tokens]
        heard = split(texts[whole])
        found |= _cut_at_rows(own, align(spoken, heard))
    return found


def _align_speakers(
    reference: Transcripts,
    wholes: Mapping[str, Sequence[Row]],
    hypothesis: Transcripts,
    measure: Measure,
) -> Aligned:
    """Align what each speaker of the reference says with what was given to them."""
    real = normalise_turns(reference, measure.normaliser)
    heard = normalise_turns(hypothesis, measure.normaliser)
    spoken = group_by_recording(sort_by_start(real))
    recognised = group_by_recording(sort_by_start(heard))
    names = (str(reference.path), str(hypothesis.path))
    check_ids(spoken, recognised, names, "recording")
    if measure.rate == "tcpwer":
        _require_times(reference.path, real)
        _require_times(hypothesis.path, heard)
    found: Aligned = {}
    for whole, rows in wholes.items():
        # A turn of which the normaliser leaves no word is in no alignment.
        found |= {row.key: () for row in rows}
        nobody: list[Pair] = []
        pairs = _pair_speakers(spoken[whole], recognised[whole], measure)
        for (speaker, _), aligned in pairs.items():
            own = [row for row in rows if row.speaker == speaker and row.tokens]
            if own:
                found |= _cut_at_rows(own, aligned)
            else:
                nobody += aligned
        found[whole, NOBODY] = tuple(nobody)
    return found


def _require_times(path: Path, turns: Sequence[Segment]) -> None:
    """Raise InputError if a turn with words has no times."""
    for turn in turns:
        if turn.words and not turn.has_span:
            raise InputError(
                f"{path}: words of {turn.recording} have no times, which "
                "tcpWER needs: use cpwer"
            )


def _pair_speakers(
    spoken: Sequence[Segment], recognised: Sequence[Segment], measure: Measure
) -> Pairs:
    """Align the words of one recording, by the speakers that the rate compares."""
    if measure.rate == "tcpwer":
        return align_tcp(
            group_turns_by_speaker(spoken),
            group_turns_by_speaker(recognised),
            measure.collar,
        )
    # Turns of one recording: there is one key.
    [real] = join_words_by_speaker(spoken).values()
    [heard] = join_words_by_speaker(recognised).values()
    if measure.rate == "cpwer":
        return align_cp(real, heard)
    # SA-WER compares speakers of the same name, whoever is missing on either side.
    pairs: Pairs = {}
    for name in dict.fromkeys([*real, *heard]):
        speaker = name if name in real else None
        pairs[speaker, name] = align(real.get(name, ()), heard.get(name, ()))
    return pairs


def _cut_at_rows(rows: Sequence[Row], pairs: Sequence[Pair]) -> Aligned:
    """Cut an alignment at the rows of the reference."""
    parts: list[list[Pair]] = [[] for _ in rows]
    # The row of each token of the reference, which come in the order of the alignment.
    numbers = [number for number, row in enumerate(rows) for _ in row.tokens]
    remaining = iter(numbers)
    # Words inserted before the first token are of the row of that token.
    number = numbers[0] if numbers else 0
    for pair in pairs:
        if pair[0] is not None:
            number = next(remaining)
        parts[number].append(pair)
    return {row.key: tuple(part) for row, part in zip(rows, parts, strict=True)}

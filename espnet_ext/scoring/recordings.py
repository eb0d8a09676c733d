"""Turns of recordings made ready to be scored: normalised, without what is not scored,
and with silent recordings.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import LOWER, NONE, normaliser_called
from espnet_ext.text.transcripts import OF_WORDS, Transcripts
from espnet_ext.text.words import Segment, by_recording


def _normalised(
    turns: Iterable[Segment], normaliser: Callable[[str], str]
) -> list[Segment]:
    """Normalise the words of turns; a turn may lose all of them."""
    return [
        replace(
            turn,
            words=tuple(normaliser(turn.text).split()),
            times=None,
            confidences=None,
        )
        for turn in turns
    ]


def without_ignored(
    turns: Sequence[Segment], reference: Transcripts
) -> tuple[Segment, ...]:
    """Leave out the words whose middle lies in a stretch that the reference excludes
    from scoring.

    A stretch is of one channel, where both files name the same channels in a recording.
    A turn that loses words becomes one turn per word. Raises InputError: a turn of such
    a recording has no times.
    """
    spans = by_recording(reference.ignored)
    named = {turn.channel for turn in turns}
    scored: list[Segment] = []
    for turn in turns:
        own = [
            gap.span
            for gap in spans.get(turn.recording, [])
            if gap.channel == turn.channel or gap.channel not in named
        ]
        if not own or not turn.words:
            scored.append(turn)
            continue
        words = [
            replace(
                turn, words=(word,), start=start, end=end, times=None, confidences=None
            )
            for word, (start, end) in zip(turn.words, turn.word_spans, strict=True)
            if not any(low <= (start + end) / 2 <= high for low, high in own)
        ]
        scored += [turn] if len(words) == len(turn.words) else words
    return tuple(scored)


def with_silence(
    transcripts: Transcripts, turns: Sequence[Segment], recordings: Iterable[str]
) -> list[Segment]:
    """Add a wordless turn for each recording that a file does not name, if it is a CTM
    or has no turn: it cannot name those in which nothing was recognised.
    """
    if transcripts.format not in OF_WORDS and transcripts.segments:
        return list(turns)
    known = {turn.recording for turn in turns}
    return [
        *turns,
        *(
            Segment(recording, "", ())
            for recording in recordings
            if recording not in known
        ),
    ]


def recognised_texts(
    reference: Transcripts, hypothesis: Transcripts, wholes: Iterable[str]
) -> dict[str, str]:
    """Return what was recognised, by utterance or recording, without what the reference
    excludes from scoring.
    """
    if hypothesis.of_utterances:
        return hypothesis.texts
    turns = with_silence(
        hypothesis, without_ignored(hypothesis.segments, reference), wholes
    )
    return replace(hypothesis, segments=tuple(turns)).plain


def recorded_turns(
    reference: Transcripts, hypothesis: Transcripts, normaliser: str = NONE
) -> tuple[list[Segment], list[Segment]]:
    """Make the turns of two files of recordings ready to be scored: normalised, and
    without what is excluded.

    Raises InputError: a file names utterances and no recordings, or has one word per
    line where the normaliser needs more.
    """
    for each in (reference, hypothesis):
        if each.of_utterances:
            raise InputError(
                f"{each.path}: {each.format} does not say who spoke when: give "
                "STM, CTM or SegLST"
            )
        if each.format in OF_WORDS and normaliser not in (NONE, LOWER):
            raise InputError(
                f"{each.path}: {normaliser} joins words, such as numbers, and a "
                "CTM has single words"
            )
    apply, _ = normaliser_called(normaliser)
    real = _normalised(reference.segments, apply)
    recognised = without_ignored(hypothesis.segments, reference)
    silence = dict.fromkeys(turn.recording for turn in real)
    return real, with_silence(hypothesis, _normalised(recognised, apply), silence)

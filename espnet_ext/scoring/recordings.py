"""Turns of recordings made ready to be scored: normalised, without what is not scored, and with silent recordings."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import LOWER, NONE, normaliser_called
from espnet_ext.scoring.transcripts import CTM, Transcripts
from espnet_ext.text.turns import Turn, word_spans


def normalised_turns(turns: Iterable[Turn], normaliser: Callable[[str], str]) -> list[Turn]:
    """Normalise the words of turns; a turn may lose all of them."""
    return [replace(turn, words=tuple(normaliser(" ".join(turn.words)).split())) for turn in turns]


def without_ignored(turns: Sequence[Turn], channels: Sequence[str], reference: Transcripts) -> tuple[Turn, ...]:
    """Leave out the words whose middle lies in a stretch that the reference excludes from scoring.

    A stretch is of one channel, where both files name the same channels in a recording. A turn that loses words becomes
    one turn per word.

    Raises:
        InputError: a turn of such a recording has no times.
    """
    spans: dict[str, list[tuple[Turn, str]]] = {}
    for turn, channel in reference.ignored:
        spans.setdefault(turn.recording, []).append((turn, channel))
    named = set(channels)
    found: list[Turn] = []
    for turn, channel in zip(turns, channels, strict=True):
        own = [gap.span for gap, at in spans.get(turn.recording, []) if at == channel or at not in named]
        if not own or not turn.words:
            found.append(turn)
            continue
        words = [
            replace(turn, words=(word,), start=start, end=end)
            for word, (start, end) in zip(turn.words, word_spans(turn), strict=True)
            if not any(low <= (start + end) / 2 <= high for low, high in own)
        ]
        found += [turn] if len(words) == len(turn.words) else words
    return tuple(found)


def with_silence(transcripts: Transcripts, turns: Sequence[Turn], recordings: Iterable[str]) -> list[Turn]:
    """Add a wordless turn for each recording that a CTM, or a file without any turn, does not name.

    Such files cannot name a recording in which nothing was recognised.
    """
    if transcripts.format != CTM and transcripts.turns:
        return list(turns)
    known = {turn.recording for turn in turns}
    return [*turns, *(Turn(recording, "", ()) for recording in recordings if recording not in known)]


def recorded_turns(
    reference: Transcripts, hypothesis: Transcripts, normaliser: str = NONE
) -> tuple[list[Turn], list[Turn]]:
    """Return the turns of two files of recordings, ready to be scored.

    They are normalised, and without what the reference excludes from scoring.

    Raises:
        InputError: a file names utterances and no recordings, or has one word per line where the normaliser needs more.
    """
    for each in (reference, hypothesis):
        if each.of_utterances:
            raise InputError(f"{each.path}: {each.format} does not say who spoke when: give STM, CTM or SegLST")
        if each.format == CTM and normaliser not in (NONE, LOWER):
            raise InputError(f"{each.path}: {normaliser} joins words, such as numbers, and a CTM has single words")
    apply, _ = normaliser_called(normaliser)
    real = normalised_turns(reference.turns, apply)
    heard = without_ignored(hypothesis.turns, hypothesis.channels, reference)
    return real, with_silence(hypothesis, normalised_turns(heard, apply), dict.fromkeys(t.recording for t in real))

"""When the words of a stitched transcript are said: as the windows' words that they are aligned with."""

from collections.abc import Sequence

from espnet_ext.multitalker.turns import Turn
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitcher.hypotheses import Grouped, WindowHypothesis, word_times

Span = tuple[float, float]


def stitched_times(words: Sequence[str], windows: Sequence[WindowHypothesis]) -> tuple[Span, ...]:
    """Start and end in seconds of each word of one speaker's transcript, in rising order of starts.

    The transcript is aligned with all words that were heard in windows, in the order of their times. A word that has
    no counterpart lies between its neighbours. Where the recogniser gave no times, its words share their window evenly.

    Args:
        words: the transcript.
        windows: what was heard of the speaker in each window.
    """
    heard = sorted((span, word) for item in windows for span, word in zip(word_times(item), item.words, strict=True))
    spans: list[Span | None] = []
    place = 0
    for word, other in align(list(words), [word for _, word in heard]):
        if word is not None:
            spans.append(heard[place][0] if other is not None else None)
        place += other is not None
    return _filled(spans, windows)


def _filled(spans: list[Span | None], windows: Sequence[WindowHypothesis]) -> tuple[Span, ...]:
    """Give those without a time one between their neighbours, and let no word start before the one in front of it."""
    filled: list[Span] = []
    latest = windows[0].start if windows else 0.0
    for place, span in enumerate(spans):
        if span is None:
            after = next((other for other in spans[place:] if other is not None), None)
            start = filled[-1][1] if filled else latest
            span = (start, max(start, after[0] if after else start))
        start = max(latest, span[0])
        filled.append((round(start, 3), round(max(start, span[1]), 3)))
        latest = start
    return tuple(filled)


def timed_turns(turns: Sequence[Turn], grouped: Grouped, pause: float = 1.0) -> list[tuple[Turn, tuple[Span, ...]]]:
    """Transcripts with times: each speaker's words, divided where they are silent.

    Args:
        turns: one a recording and speaker, without times.
        grouped: the hypotheses that they were made of.
        pause: seconds of silence that divide two turns.

    Returns:
        Turns with the times of their words, in the order of their starts.
    """
    divided = []
    for turn in turns:
        spans = stitched_times(turn.words, grouped[turn.recording].get(turn.speaker, ()))
        first = 0
        for place in range(1, len(spans) + 1):
            if place == len(spans) or spans[place][0] - spans[place - 1][1] > pause:
                start, end = spans[first][0], max(span[1] for span in spans[first:place])
                words = turn.words[first:place]
                divided.append((Turn(turn.recording, turn.speaker, words, start, end), spans[first:place]))
                first = place
    return sorted(divided, key=lambda item: (item[0].recording, item[0].start))

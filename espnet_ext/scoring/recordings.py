"""Read files and make them ready to be scored, for all score commands.

What it knows, all rates know: channels of a call, stretches that are not scored,
recordings without a word, overlapped speech.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import LOWER, NONE, find_normaliser
from espnet_ext.scoring.sclite import warn_of_sclite_words
from espnet_ext.scoring.score import strip_speakers
from espnet_ext.text.transcripts import (
    AUTO,
    OF_WORDS,
    TRN,
    Transcripts,
    read_transcripts,
)
from espnet_ext.text.words import (
    Segment,
    Span,
    group_by_recording,
    measure_overlap_ratio,
)

MUCH_OVERLAP = 0.01  # share of the speech, from which on a warning is due


@dataclass(frozen=True)
class Loaded:
    """A reference and hypotheses, ready to be scored, and warnings to print.

    Where channels are told apart, each is a recording of its own, ``name/channel``.
    """

    reference: Transcripts
    hypotheses: tuple[Transcripts, ...]
    warnings: tuple[str, ...]


def load_for_scoring(
    reference: Path,
    hypotheses: Sequence[Path],
    *,
    by_speaker: bool = False,
    like_sclite: bool = False,
    reference_form: str = AUTO,
    form: str = AUTO,
) -> Loaded:
    """Read a reference and hypotheses, and make them ready.

    ``by_speaker`` keeps a recording's channels together, ``like_sclite`` says that
    words are read as sclite does. Raises InputError: as :func:`read_transcripts` and
    :func:`prepare`.
    """
    return prepare(
        read_transcripts(reference, reference_form),
        [read_transcripts(path, form, recognised=True) for path in hypotheses],
        by_speaker=by_speaker,
        like_sclite=like_sclite,
    )


def prepare(
    reference: Transcripts,
    hypotheses: Sequence[Transcripts],
    *,
    by_speaker: bool = False,
    like_sclite: bool = False,
) -> Loaded:
    """Make transcripts ready: channels apart, what is not scored left out.

    Raises InputError: speakers are scored, and a file names none.
    """
    if by_speaker:
        _refuse_utterances([reference, *hypotheses])
    reference, hypotheses = _strip_speakers_of_trn(reference, hypotheses)
    # Rates by speaker are right where speech overlaps, and a channel may be a speaker.
    warnings = [] if by_speaker else list(_warn_of_overlap(reference))
    if not like_sclite:
        for each in (reference, *hypotheses):
            warnings += warn_of_sclite_words(each)
    # The names that hypotheses have, before a channel becomes a part of a name: of a
    # recording that a file names, a channel without words was silent.
    named = [{turn.recording for turn in each.segments} for each in hypotheses]
    recordings = {turn.recording: turn.recording for turn in reference.segments}
    apart = None if by_speaker else split_channels([reference, *hypotheses])
    if apart is not None:
        whole = reference.segments
        reference, *hypotheses = apart
        pairs = zip(whole, reference.segments, strict=True)
        recordings = {channel.recording: turn.recording for turn, channel in pairs}
    elif not by_speaker:
        warnings += _warn_of_channels([reference, *hypotheses])
    if reference.of_utterances:
        recordings = {key: key for key in reference.texts}
    ready = []
    for each, own in zip(hypotheses, named, strict=True):
        if not each.of_utterances:
            turns = drop_ignored(each.segments, reference)
            silence = _make_silent_turns(each, turns, recordings, own)
            warnings += _warn_of_silence(each, silence)
            each = replace(each, segments=(*turns, *silence))
        ready.append(each)
    return Loaded(reference, tuple(ready), tuple(warnings))


def _strip_speakers_of_trn(
    reference: Transcripts, hypotheses: Sequence[Transcripts]
) -> tuple[Transcripts, list[Transcripts]]:
    """Strip speakers from ids of trn where the other file is none.

    ESPnet writes ``(speaker-utterance)`` there; two files of trn agree as they are.
    """
    if reference.format == TRN and hypotheses and hypotheses[0].format != TRN:
        texts = strip_speakers(reference.texts, hypotheses[0].texts)
        reference = replace(reference, texts=dict(texts))
    stripped = []
    for each in hypotheses:
        if each.format == TRN and reference.format != TRN:
            texts = strip_speakers(each.texts, reference.texts)
            each = replace(each, texts=dict(texts))
        stripped.append(each)
    return reference, stripped


def _refuse_utterances(files: Iterable[Transcripts]) -> None:
    for each in files:
        if each.of_utterances:
            raise InputError(
                f"{each.path}: {each.format} does not say who spoke when: give "
                "STM, CTM or SegLST"
            )


def split_channels(files: Sequence[Transcripts]) -> list[Transcripts] | None:
    """Split recordings by channel, where the reference, the first file, has several.

    None where it has not, or where a file names no channels.
    """
    # Channels of the hypothesis alone mean nothing: a CTM of one channel must name it.
    if not _has_channels(files[0]):
        return None
    if not all(turn.channel for each in files for turn in each.segments):
        return None
    if any(each.of_utterances for each in files):
        return None

    split = []
    for each in files:
        segments = tuple(map(_name_channel, each.segments))
        ignored = tuple(map(_name_channel, each.ignored))
        split.append(replace(each, segments=segments, ignored=ignored))
    return split


def _name_channel(turn: Segment) -> Segment:
    """Return a turn of the recording that its channel is taken for."""
    return replace(turn, recording=f"{turn.recording}/{turn.channel}")


def _has_channels(transcripts: Transcripts) -> bool:
    channels = {(turn.recording, turn.channel) for turn in transcripts.segments}
    return len(channels) > len({recording for recording, _ in channels})


def drop_ignored(
    turns: Sequence[Segment], reference: Transcripts
) -> tuple[Segment, ...]:
    """Leave out words whose middle lies in a stretch that the reference excludes.

    A stretch is of one channel, where both files name the same channels in a recording.
    A turn that loses words becomes one turn per word. Raises InputError: a turn of such
    a recording has no times.
    """
    spans = group_by_recording(reference.ignored)
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
        words = _drop_words(turn, own)
        # A turn that loses nothing stays one, with times and confidences of its words.
        if len(words) == len(turn.words):
            words = [turn]
        scored += words
    return tuple(scored)


def _drop_words(turn: Segment, spans: Sequence[Span]) -> list[Segment]:
    """Return a segment for each word of a turn whose middle is in none of the spans."""
    words = []
    for word, (start, end) in zip(turn.words, turn.word_spans, strict=True):
        # As sclite gives words to segments, by their middle (sclite.py).
        middle = (start + end) / 2
        if any(low <= middle <= high for low, high in spans):
            continue
        alone = replace(
            turn, words=(word,), start=start, end=end, times=None, confidences=None
        )
        words.append(alone)
    return words


def _make_silent_turns(
    transcripts: Transcripts,
    turns: Sequence[Segment],
    recordings: Mapping[str, str],
    named: set[str],
) -> list[Segment]:
    """Make a wordless turn for each recording that the file may leave out in silence.

    A CTM has no line for a recording in which nothing was recognised, nor has any file
    for a channel of a recording that it names. ``recordings`` are names in the
    reference, with those that they had before channels were told apart.
    """
    known = {turn.recording for turn in turns}
    # A line of a CTM is a word, and a file without a line names no recording.
    may_lack_any = transcripts.format in OF_WORDS or not named
    silent = []
    for recording, whole in recordings.items():
        may_lack = may_lack_any or whole in named
        if recording not in known and may_lack:
            silent.append(Segment(recording, "", ()))
    return silent


def _warn_of_silence(
    transcripts: Transcripts, silence: Sequence[Segment]
) -> Iterator[str]:
    if silence:
        first = min(turn.recording for turn in silence)
        yield (
            f"{transcripts.path}: has no word of {len(silence)} recordings "
            f"({first}): counted as silence"
        )


def _warn_of_overlap(reference: Transcripts) -> Iterator[str]:
    """Say how much speech is overlapped, where the order of words matters."""
    channels: dict[tuple[str, str], list[Segment]] = {}
    for turn in reference.segments:
        if turn.words and turn.has_span:
            channels.setdefault((turn.recording, turn.channel), []).append(turn)
    ratios = [
        measure_overlap_ratio(turn.span for turn in own) for own in channels.values()
    ]
    if ratios and fmean(ratios) > MUCH_OVERLAP:
        yield (
            f"{reference.path}: {100 * fmean(ratios):.0f} % of its speech is "
            "overlapped, so the order of words is unclear: "
            "tcpwer or cpwer count each speaker"
        )


def _warn_of_channels(files: Sequence[Transcripts]) -> Iterator[str]:
    """Say that channels are mixed, because another file does not tell them apart."""
    mixed = next((each for each in files if _has_channels(each)), None)
    if mixed is not None:
        yield (
            f"{mixed.path}: it has several channels in a recording, which the other "
            "file does not tell apart: their words are in the order of time"
        )


def normalise_turns(transcripts: Transcripts, normaliser: str = NONE) -> list[Segment]:
    """Normalise the words of turns; a turn may lose all of them.

    Raises InputError: one word per line, where the normaliser needs more.
    """
    if transcripts.format in OF_WORDS and normaliser not in (NONE, LOWER):
        raise InputError(
            f"{transcripts.path}: {normaliser} joins words, such as numbers, and a "
            "CTM has single words"
        )
    apply, _ = find_normaliser(normaliser)
    normalised = []
    for turn in transcripts.segments:
        words = tuple(apply(turn.text).split())
        # Their number may differ, so that times and confidences fit no more.
        normalised.append(replace(turn, words=words, times=None, confidences=None))
    return normalised

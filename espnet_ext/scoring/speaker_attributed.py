"""Score transcripts that say who spoke: SA-WER, cpWER, tcpWER and speaker counting.

SA-WER (P4, 4.1.1; Kanda et al., Interspeech 2020) compares the words given to each
*identified* speaker with what that speaker said: the right words under the wrong name
are deletions of one speaker and insertions of the other.
:mod:`espnet_ext.scoring.assignments` has the rates that forgive names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.alignment_file import format_speaker_blocks
from espnet_ext.scoring.assignments import (
    COLLAR,
    align_cp,
    align_tcp,
    count_cp_errors,
    group_turns_by_speaker,
)
from espnet_ext.scoring.error_rate import ZERO, ErrorRate, count_errors, count_pairs
from espnet_ext.scoring.normalise import NONE, find_normaliser
from espnet_ext.scoring.recordings import load_for_scoring, normalise_turns
from espnet_ext.scoring.score import Score, check_ids, count_writing_errors, refuse
from espnet_ext.scoring.score_files import (
    convert_to_percent,
    summarise,
    write_reports,
)
from espnet_ext.text.transcripts import AUTO
from espnet_ext.text.words import (
    Segment,
    group_by_recording,
    join_words_by_speaker,
    sort_by_start,
)

Pairs = dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]


@dataclass(frozen=True)
class SpeakerScore:
    """The score of speaker-attributed transcripts."""

    # SA-WER: of whole recordings, and of the persons of reference and hypothesis.
    score: Score
    pairs: Pairs  # the words of reference and hypothesis by recording and speaker
    cp: ErrorRate  # of cpWER, summed
    tcp: ErrorRate | None  # of tcpWER; None where words have no times

    @property
    def unknown(self) -> int:
        """How many speakers of recordings' hypotheses their references do not have."""
        return sum(not real for own in self.pairs.values() for real, _ in own.values())

    @property
    def of_writing(self) -> tuple[int, int]:
        """How many errors of cpWER are only case or punctuation, and all errors."""
        found = 0
        for own in self.pairs.values():
            real = {name: words for name, (words, _) in own.items() if words}
            heard = {name: words for name, (_, words) in own.items() if words}
            for pairs in align_cp(real, heard).values():
                found += count_writing_errors(pairs)
        return found, self.cp.errors

    @property
    def counting(self) -> dict[str, ErrorRate]:
        """Compare the numbers of speakers who say a word, by recording.

        Speakers who are missed count as deletions, those too many as insertions.
        """
        counts = {}
        for key, own in self.pairs.items():
            spoken = sum(bool(words) for words, _ in own.values())
            recognised = sum(bool(words) for _, words in own.values())
            counts[key] = count_speakers(spoken, recognised)
        return counts


def evaluate_speakers(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    groups: Path | None = None,
    sessions: Path | None = None,
    collar: float = COLLAR,
    normaliser: str = NONE,
    form: str = AUTO,
    reference_form: str = AUTO,
) -> tuple[SpeakerScore, dict[str, Any]]:
    """Score speaker-attributed transcripts.

    With ``output``, write the reports into that folder. Files are STM, CTM (whose
    channels are the speakers) or SegLST. ``groups`` is a table of recording and
    condition, of which each gets its own score; ``sessions`` one of recording and the
    session that it is a part of, over which tests go then; ``collar`` is that of
    tcpWER, in seconds. Returned are the score and what ``score.json`` holds. Raises
    InputError: as the readers, the normaliser and :func:`score_speakers`.
    """
    loaded = load_for_scoring(
        reference,
        [hypothesis],
        by_speaker=True,
        reference_form=reference_form,
        form=form,
    )
    for warning in loaded.warnings:
        warn(warning)
    [recognised] = loaded.hypotheses
    real = normalise_turns(loaded.reference, normaliser)
    heard = normalise_turns(recognised, normaliser)
    names = str(reference), str(hypothesis)
    result = score_speakers(
        real,
        heard,
        groups=read_table(groups) if groups else None,
        collar=collar,
        names=names,
    )
    if sessions:
        score = _add_sessions(result.score, read_table(sessions), sessions)
        result = replace(result, score=score)
    _, full_name = find_normaliser(normaliser)
    summary = summarise_speakers(result, normaliser=full_name, collar=collar)
    if output:
        alignment = format_speaker_blocks(result.pairs)
        write_reports(output, result.score, summary, alignment)
    return result, summary


def _add_sessions(score: Score, session_of: Mapping[str, str], path: Path) -> Score:
    """Return a score, and its parts, that know the sessions of recordings."""
    lost = [key for key in score.utterances if key not in session_of]
    refuse(lost, str(path), "has no session: add it", "recording")
    parts = {
        name: replace(part, session_of=session_of) for name, part in score.parts.items()
    }
    return replace(score, session_of=session_of, parts=parts)


def score_speakers(
    reference: Sequence[Segment],
    hypothesis: Sequence[Segment],
    *,
    groups: Mapping[str, str] | None = None,
    collar: float = COLLAR,
    names: tuple[str, str] = ("reference", "hypothesis"),
) -> SpeakerScore:
    """Score speaker-attributed transcripts.

    A speaker's utterances are joined in the order of their starts. ``groups`` has the
    condition of each recording (such as its overlap ratio), of which each gets a part;
    ``names`` are those of the two in messages. Raises InputError: there is no
    recording, or none has words; one is in only one of the two, or has no group.
    """
    real = join_words_by_speaker(reference)
    heard = join_words_by_speaker(hypothesis)
    if not real:
        raise InputError(f"{names[0]}: there is no recording to score")
    check_ids(real, heard, names, "recording")
    if not any(real.values()):
        raise InputError(
            f"{names[0]}: nothing is said in it, or the rules leave nothing: "
            "there is nothing to score"
        )
    conditions: dict[str, list[str]] = {}
    if groups is not None:
        lost = [key for key in real if key not in groups]
        refuse(lost, names[0], "has no group: add it", "recording")
        for key in real:
            conditions.setdefault(groups[key], []).append(key)
    pairs: Pairs = {}
    counts: dict[str, dict[str, ErrorRate]] = {}
    for key in real:
        speakers = sorted({*real[key], *heard[key]})
        # Under a speaker's own name or not at all: SA-WER forgives no name.
        pairs[key] = {
            name: (real[key].get(name, ()), heard[key].get(name, ()))
            for name in speakers
        }
        counts[key] = {
            name: count_errors(spoken, recognised)
            for name, (spoken, recognised) in pairs[key].items()
        }
    parts = {
        name: _make_score(counts, keys) for name, keys in sorted(conditions.items())
    }
    return SpeakerScore(
        score=replace(_make_score(counts, real), parts=parts),
        pairs=pairs,
        cp=_sum_counts(count_cp_errors(real[key], heard[key]) for key in real),
        tcp=_count_tcp_errors(reference, hypothesis, collar),
    )


def _count_tcp_errors(
    reference: Sequence[Segment], hypothesis: Sequence[Segment], collar: float
) -> ErrorRate | None:
    """Count the errors of tcpWER in all recordings; None where words have no times."""
    for turn in (*reference, *hypothesis):
        if turn.words and not turn.has_span:
            return None
    spoken = group_by_recording(sort_by_start(reference))
    recognised = group_by_recording(hypothesis)
    total = ZERO
    for key, turns in spoken.items():
        real = group_turns_by_speaker(turns)
        heard = group_turns_by_speaker(recognised[key])
        total += _sum_counts(map(count_pairs, align_tcp(real, heard, collar).values()))
    return total


def _sum_counts(counts: Iterable[ErrorRate]) -> ErrorRate:
    return sum(counts, start=ZERO)


def _make_score(
    counts: Mapping[str, Mapping[str, ErrorRate]], recordings: Iterable[str]
) -> Score:
    """Add up the counts of some recordings by recording and by speaker."""
    utterances: dict[str, ErrorRate] = {}
    speakers: dict[str, ErrorRate] = {}
    for key in recordings:
        utterances[key] = _sum_counts(counts[key].values())
        for speaker, errors in counts[key].items():
            speakers[speaker] = speakers.get(speaker, ZERO) + errors
    # Without texts: the words of a recording are aligned speaker by speaker.
    return Score(
        "word",
        {},
        {},
        utterances,
        dict(sorted(speakers.items())),
        whole="recording",
    )


def count_speakers(real: int, heard: int) -> ErrorRate:
    """Compare the numbers of speakers of one recording, whoever they are.

    >>> count_speakers(3, 2).counts
    (2, 0, 1, 0)
    """
    return ErrorRate(min(real, heard), 0, max(0, real - heard), max(0, heard - real))


def summarise_speakers(
    result: SpeakerScore, *, normaliser: str = NONE, collar: float = COLLAR
) -> dict[str, Any]:
    """Return the content of ``score.json``: SA-WER and the other rates, in percent.

    SA-WER is where the tables read a rate. The interval is over recordings, or over
    sessions where they are known.
    """
    summary = summarise(result.score, normaliser=normaliser)
    for name, rate in (("cpwer", result.cp), ("tcpwer", result.tcp)):
        if rate is not None:
            summary[name] = {
                "value": convert_to_percent(rate.rate),
                "errors": rate.errors,
                "words": rate.reference_length,
            }
    if result.tcp is not None:
        summary["tcpwer"]["collar"] = collar
    counting = _sum_counts(result.counting.values())
    return summary | {
        "speaker_counting": {
            "value": convert_to_percent(counting.rate),
            "speakers": counting.reference_length,
            "missed": counting.deletions,
            "false_alarms": counting.insertions,
        },
        "unknown_speakers": result.unknown,
    }

"""Error rates of transcripts that say who spoke: SA-WER, cpWER, tcpWER and speaker
counting.

SA-WER (P4, 4.1.1; Kanda et al., Interspeech 2020) compares the words given to each
*identified* speaker with what that speaker said: the right words under the wrong name
are deletions of one speaker and insertions of the other.
:mod:`espnet_ext.scoring.assignments` has the rates that forgive names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
from espnet_ext.scoring.score_files import percent, summarise, write_reports
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

    # SA-WER: of whole recordings, and of the persons of reference and hypothesis
    score: Score
    pairs: Pairs  # the words of reference and hypothesis by recording and speaker
    cp: ErrorRate  # of cpWER, summed
    tcp: ErrorRate | None  # of tcpWER; None where words have no times

    @property
    def unknown(self) -> int:
        """How many speakers of the hypothesis are not in the reference, summed over
        recordings.
        """
        return sum(not real for own in self.pairs.values() for real, _ in own.values())

    @property
    def of_writing(self) -> tuple[int, int]:
        """How many of the errors of cpWER are only case or punctuation, and how many
        there are.
        """
        aligned = (
            align_cp(_said(own, 0), _said(own, 1)).values()
            for own in self.pairs.values()
        )
        pairs = chain.from_iterable(chain.from_iterable(aligned))
        return count_writing_errors(pairs), self.cp.errors

    @property
    def counting(self) -> dict[str, ErrorRate]:
        """By recording, speakers who say a word: those missed count as deletions, those
        too many as insertions.
        """
        return {
            key: count_speakers(
                sum(bool(real) for real, _ in own.values()),
                sum(bool(heard) for _, heard in own.values()),
            )
            for key, own in self.pairs.items()
        }


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
    real, heard = (
        normalise_turns(each, normaliser)
        for each in (loaded.reference, *loaded.hypotheses)
    )
    names = str(reference), str(hypothesis)
    result = score_speakers(
        real,
        heard,
        groups=read_table(groups) if groups else None,
        collar=collar,
        names=names,
    )
    if sessions:
        of, score = read_table(sessions), result.score
        refuse(
            [key for key in score.utterances if key not in of],
            str(sessions),
            "has no session: add it",
            "recording",
        )
        parts = {
            name: replace(part, session_of=of) for name, part in score.parts.items()
        }
        result = replace(result, score=replace(score, session_of=of, parts=parts))
    summary = summarise_speakers(
        result, normaliser=find_normaliser(normaliser)[1], collar=collar
    )
    if output:
        write_reports(
            output, result.score, summary, format_speaker_blocks(result.pairs)
        )
    return result, summary


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
    real, heard = join_words_by_speaker(reference), join_words_by_speaker(hypothesis)
    if not real:
        raise InputError(f"{names[0]}: there is no recording to score")
    check_ids(real, heard, names, "recording")
    if not any(real.values()):
        raise InputError(
            f"{names[0]}: nothing is said in it, or the rules leave nothing: "
            "there is nothing to score"
        )
    if groups is not None:
        refuse(
            [key for key in real if key not in groups],
            names[0],
            "has no group: add it",
            "recording",
        )
    pairs = {
        key: {
            name: (real[key].get(name, ()), heard[key].get(name, ()))
            for name in sorted({*real[key], *heard[key]})
        }
        for key in real
    }
    counts = {
        key: {name: count_errors(*pair) for name, pair in own.items()}
        for key, own in pairs.items()
    }
    conditions: dict[str, list[str]] = {}
    if groups is not None:
        for key in real:
            conditions.setdefault(groups[key], []).append(key)
    parts = {name: _score(counts, keys) for name, keys in sorted(conditions.items())}
    spoken, recognised = (
        group_by_recording(sort_by_start(reference)),
        group_by_recording(hypothesis),
    )
    has_times = all(turn.has_span for turn in (*reference, *hypothesis) if turn.words)
    timed = (
        align_tcp(
            group_turns_by_speaker(spoken[key]),
            group_turns_by_speaker(recognised[key]),
            collar,
        )
        for key in real
    )
    return SpeakerScore(
        score=replace(_score(counts, real), parts=parts),
        pairs=pairs,
        cp=_sum(count_cp_errors(real[key], heard[key]) for key in real),
        tcp=_sum(map(count_pairs, chain(*(found.values() for found in timed))))
        if has_times
        else None,
    )


def _said(
    pairs: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]], side: int
) -> dict[str, tuple[str, ...]]:
    """Return the words of the speakers of the reference (0) or hypothesis (1)."""
    return {name: words[side] for name, words in pairs.items() if words[side]}


def _sum(counts: Iterable[ErrorRate]) -> ErrorRate:
    return sum(counts, start=ZERO)


def _score(
    counts: Mapping[str, Mapping[str, ErrorRate]], recordings: Iterable[str]
) -> Score:
    """Add up the counts of some recordings by recording and by speaker."""
    own = {key: counts[key] for key in recordings}
    speakers: dict[str, ErrorRate] = {}
    for speaker, errors in chain(*(each.items() for each in own.values())):
        speakers[speaker] = speakers.get(speaker, ZERO) + errors
    utterances = {key: _sum(each.values()) for key, each in own.items()}
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
    """Return the content of ``score.json``: SA-WER as the tables read it, and the other
    measures; rates in percent.

    The interval is over recordings, or over sessions where they are known.
    """
    summary = summarise(result.score, normaliser=normaliser)
    for name, rate in (("cpwer", result.cp), ("tcpwer", result.tcp)):
        if rate is not None:
            summary[name] = {
                "value": percent(rate.rate),
                "errors": rate.errors,
                "words": rate.reference_length,
            }
    if result.tcp is not None:
        summary["tcpwer"]["collar"] = collar
    counting = _sum(result.counting.values())
    return summary | {
        "speaker_counting": {
            "value": percent(counting.rate),
            "speakers": counting.reference_length,
            "missed": counting.deletions,
            "false_alarms": counting.insertions,
        },
        "unknown_speakers": result.unknown,
    }

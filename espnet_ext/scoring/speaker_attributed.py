"""Error rates of transcripts that say who spoke: SA-WER, cpWER, tcpWER, ORC-WER and speaker counting.

SA-WER (P4, 4.1.1; Kanda et al., Interspeech 2020) compares the words given to each *identified* speaker with what that
speaker said. Speakers are not permuted: the right words under the wrong name are deletions of one speaker and
insertions of the other, and all words of somebody who is not in the reference are insertions. The other rates forgive
names; :mod:`espnet_ext.scoring.assignments` has them.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.scoring.assignments import COLLAR, Said, cp_errors, orc_errors, streams, tcp_errors
from espnet_ext.scoring.error_rate import MAX_ALIGNMENT_CELLS, ZERO, ErrorRate, align, count_errors
from espnet_ext.scoring.score import Score, add_up
from espnet_ext.scoring.score_files import format_alignment, percent, summarise, write_reports
from espnet_ext.text.turns import Turn, by_recording, in_order, words_by_speaker


@dataclass(frozen=True)
class SpeakerCount:
    """How many speakers the recordings have and were found to have.

    Attributes:
        reference, hypothesis: speakers who say a word, summed over recordings.
        missed, false_alarms: of recordings with too few and with too many.
        recordings, wrong: recordings, and those with a wrong number.
    """

    reference: int = 0
    hypothesis: int = 0
    missed: int = 0
    false_alarms: int = 0
    recordings: int = 0
    wrong: int = 0

    def __add__(self, other: "SpeakerCount") -> "SpeakerCount":
        if not isinstance(other, SpeakerCount):
            return NotImplemented
        return SpeakerCount(*(getattr(self, name) + getattr(other, name) for name in SpeakerCount.__dataclass_fields__))

    @property
    def rate(self) -> float:
        """Missed speakers and false alarms by the reference's number of speakers, a fraction."""
        return (self.missed + self.false_alarms) / self.reference


@dataclass(frozen=True)
class SpeakerScore:
    """The score of speaker-attributed transcripts.

    Attributes:
        score: SA-WER. Its utterances are whole recordings, its speakers the persons of the reference and hypothesis.
        pairs: the words of reference and hypothesis by recording and speaker, as they were aligned.
        unknown: by recording, the speakers of the hypothesis who are not in its reference.
        cp, tcp, orc: counts of cpWER, tcpWER and ORC-WER, summed; None where they were not asked for, and tcpWER where
            words have no times.
        collar: of tcpWER, in seconds.
        orc_greedy: recordings whose ORC-WER is an upper bound.
        counting: of speakers.
    """

    score: Score
    pairs: Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]]
    unknown: Mapping[str, tuple[str, ...]]
    cp: ErrorRate | None
    tcp: ErrorRate | None
    orc: ErrorRate | None
    collar: float
    orc_greedy: tuple[str, ...]
    counting: SpeakerCount


def score_speakers(
    reference: Sequence[Turn],
    hypothesis: Sequence[Turn],
    *,
    groups: Mapping[str, str] | None = None,
    meeteval: bool = True,
    collar: float = COLLAR,
    names: tuple[str, str] = ("reference", "hypothesis"),
) -> SpeakerScore:
    """Score speaker-attributed transcripts.

    Args:
        reference: the utterances. Those of a speaker are joined in the order of their starts.
        hypothesis: the same, with or without times.
        groups: condition of each recording (its overlap ratio, say); the score gets one part per condition.
        meeteval: compute cpWER, tcpWER and ORC-WER too.
        collar: of tcpWER, in seconds.
        names: of the two in messages.

    Raises:
        InputError: there is no recording, or it has no words; a recording is in only one of the two, or has no
            group.
    """
    real, heard = words_by_speaker(reference), words_by_speaker(hypothesis)
    _check_recordings(real, heard, groups, names)
    pairs = {recording: _pairs(real[recording], heard[recording]) for recording in real}
    counts = {
        recording: {speaker: count_errors(*pair) for speaker, pair in speakers.items()}
        for recording, speakers in pairs.items()
    }
    score = _score(pairs, counts)
    if groups is not None:
        members: dict[str, list[str]] = {}
        for key in pairs:
            members.setdefault(groups[key], []).append(key)
        parts = {
            name: _score({key: pairs[key] for key in keys}, {key: counts[key] for key in keys})
            for name, keys in sorted(members.items())
        }
        score = dataclasses.replace(score, parts=parts)
    cp = tcp = orc = None
    greedy: list[str] = []
    if meeteval:
        cp = sum((cp_errors(real[key], heard[key]) for key in real), start=ZERO)
        spoken, recognised = by_recording(in_order(reference)), by_recording(hypothesis)
        if all(turn.start is not None for turn in (*reference, *hypothesis) if turn.words):
            tcp = sum((tcp_errors(streams(spoken[key]), streams(recognised[key]), collar) for key in real), start=ZERO)
        results = {key: orc_errors(spoken[key], heard[key]) for key in real}
        orc = sum((counts for counts, _ in results.values()), start=ZERO)
        greedy = [key for key, (_, exact) in results.items() if not exact]
    unknown = {key: tuple(sorted(heard[key].keys() - real[key].keys())) for key in real}
    return SpeakerScore(
        score=score,
        pairs=pairs,
        unknown={key: speakers for key, speakers in unknown.items() if speakers},
        cp=cp,
        tcp=tcp,
        orc=orc,
        collar=collar,
        orc_greedy=tuple(greedy),
        counting=sum((count_speakers(real[key], heard[key]) for key in real), start=SpeakerCount()),
    )


def _check_recordings(real: Mapping, heard: Mapping, groups: Mapping | None, names: tuple[str, str]) -> None:
    if not real:
        raise InputError(f"{names[0]}: there is no recording to score")
    for recording in real:
        if recording not in heard:
            raise InputError(
                f"{names[1]}: recording {recording} of {names[0]} is missing: decode it, or write a turn without words"
            )
        if not real[recording]:
            raise InputError(f"{names[0]}: nobody says a word in {recording}: take it out of both files")
        if groups is not None and recording not in groups:
            raise InputError(f"recording {recording} of {names[0]} has no group: add it")
    other = [recording for recording in heard if recording not in real]
    if other:
        raise InputError(f"{names[1]}: recording {other[0]} is not in {names[0]}: is this another test set?")


def _pairs(real: Said, heard: Said) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {speaker: (real.get(speaker, ()), heard.get(speaker, ())) for speaker in sorted(real.keys() | heard.keys())}


def _score(pairs: Mapping[str, Mapping], counts: Mapping[str, Mapping[str, ErrorRate]]) -> Score:
    utterances = {key: sum(of_speaker.values(), start=ZERO) for key, of_speaker in counts.items()}
    reference, hypothesis = (
        {key: " ".join(" ".join(pair[side]) for pair in speakers.values()) for key, speakers in pairs.items()}
        for side in (0, 1)
    )
    speakers: dict[str, ErrorRate] = {}
    for of_speaker in counts.values():
        for speaker, errors in of_speaker.items():
            speakers[speaker] = speakers.get(speaker, ZERO) + errors
    score = add_up("word", reference, hypothesis, utterances, {})
    return dataclasses.replace(score, speakers=dict(sorted(speakers.items())))


def count_speakers(real: Said, heard: Said) -> SpeakerCount:
    """Compare the numbers of speakers of one recording, whoever they are.

    >>> count_speakers({"a": ("ONE",), "b": ("TWO",)}, {"c": ("ONE",)})
    SpeakerCount(reference=2, hypothesis=1, missed=1, false_alarms=0, recordings=1, wrong=1)
    """
    excess = len(heard) - len(real)
    return SpeakerCount(len(real), len(heard), max(0, -excess), max(0, excess), 1, int(excess != 0))


def summarise_speakers(
    result: SpeakerScore, *, replicas: int, seed: int = 0, normaliser: str = "none"
) -> dict[str, Any]:
    """The content of ``score.json``: SA-WER as the tables read it, and the other measures; rates are in percent.

    The interval resamples whole recordings.
    """
    summary = summarise(result.score, replicas=replicas, seed=seed, normaliser=normaliser)
    summary["bootstrap"]["resample"] = "recording"
    for name, rate in (("cpwer", result.cp), ("tcpwer", result.tcp), ("orcwer", result.orc)):
        if rate is not None:
            summary[name] = {"value": percent(rate.rate), "errors": rate.errors, "words": rate.reference_length}
    if result.tcp is not None:
        summary["tcpwer"]["collar"] = result.collar
    if result.orc is not None:
        summary["orcwer"]["recordings_with_upper_bound"] = len(result.orc_greedy)
    counting = result.counting
    summary["speaker_counting"] = {
        "value": percent(counting.rate),
        "speakers": counting.reference,
        "found": counting.hypothesis,
        "missed": counting.missed,
        "false_alarms": counting.false_alarms,
        "recordings_with_wrong_number": counting.wrong,
    }
    summary["unknown_speakers"] = sum(map(len, result.unknown.values()))
    return summary


def write_speaker_reports(folder: str | Path, result: SpeakerScore, summary: Mapping[str, Any]) -> None:
    """Write ``score.json``, the tables by recording and by speaker, and ``alignment.txt`` by recording and speaker."""
    write_reports(folder, result.score, summary, alignment=alignment_by_speaker(result))


def alignment_by_speaker(result: SpeakerScore) -> Iterator[str]:
    """One block of text for each recording and speaker."""
    for recording, speakers in result.pairs.items():
        for speaker, (real, heard) in speakers.items():
            note = "" if real else " (not in the reference)"
            yield f"recording {recording}, speaker {speaker}{note}\n"
            if len(real) * len(heard) > MAX_ALIGNMENT_CELLS:
                yield f"(too long to align: {len(real)} x {len(heard)})\n\n"
            else:
                yield format_alignment(align(real, heard)) + "\n"

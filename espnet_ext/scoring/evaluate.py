"""Whole evaluations: from files of references and hypotheses to a score with its reports, and two systems compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import has_han, mixed_tokens
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.errors import InputError
from espnet_ext.scoring.assignments import COLLAR
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import ZERO
from espnet_ext.scoring.mixed import WITHIN, count_switches, score_mixed_files
from espnet_ext.scoring.normalise import NONE, normaliser_called
from espnet_ext.scoring.score import Score, compare, score_files
from espnet_ext.scoring.score_files import percent, summarise, write_reports
from espnet_ext.scoring.speaker_attributed import (
    SpeakerScore,
    score_speakers,
    summarise_speakers,
    write_speaker_reports,
)
from espnet_ext.scoring.transcripts import AUTO, read_transcripts, recorded_turns
from espnet_ext.work.files import write_json


@dataclass(frozen=True)
class Draws:
    """What the bootstrap draws: how often, from which seed, and whether whole speakers or utterances."""

    replicas: int = REPLICAS
    seed: int = 0
    by_speaker: bool = False


@dataclass(frozen=True)
class ScoredSet:
    """Kaldi text files of one test set.

    Attributes:
        reference: what was said.
        hypotheses: what was recognised, by one system or by several.
        utt2spk: the speakers, if they are to be told apart.
    """

    reference: Path
    hypotheses: tuple[Path, ...]
    utt2spk: Path | None = None


def evaluate_words(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    unit: str = "word",
    utt2spk: Path | None = None,
    normaliser: str = NONE,
    draws: Draws = Draws(),
    alignment: bool = True,
) -> tuple[Score, dict[str, Any]]:
    """Score a Kaldi text file in words or characters; with ``output``, write the reports into that folder.

    Returns:
        The score, and what ``score.json`` holds.

    Raises:
        InputError: what :func:`espnet_ext.scoring.score.score_files` and the normaliser refuse.
    """
    apply, name = normaliser_called(normaliser)
    score = score_files(reference, hypothesis, unit=unit, utt2spk=utt2spk, normaliser=apply)
    summary = summarise(score, **asdict(draws), normaliser=name)
    if output:
        write_reports(output, score, summary, alignment=alignment)
    return score, summary


def evaluate_mixed(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    utt2spk: Path | None = None,
    within: int = WITHIN,
    draws: Draws = Draws(),
    alignment: bool = True,
) -> tuple[Score, dict[str, Any]]:
    """Score Mandarin-English text in Han characters and English words; otherwise as :func:`evaluate_words`.

    Args:
        within: how many tokens from a point where the language changes count as near it.
    """
    score = score_mixed_files(reference, hypothesis, utt2spk=utt2spk, within=within)
    switches = count_switches(map(mixed_tokens, score.reference.values()), has_han)
    summary = {**summarise(score, **asdict(draws)), "within": within, **switches}
    if output:
        write_reports(output, score, summary, alignment=alignment)
    return score, summary


def evaluate_speakers(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    groups: Path | None = None,
    meeteval: bool = True,
    collar: float = COLLAR,
    normaliser: str = NONE,
    form: str = AUTO,
    draws: Draws = Draws(),
) -> tuple[SpeakerScore, dict[str, Any]]:
    """Score speaker-attributed transcripts; with ``output``, write the reports into that folder.

    Args:
        reference, hypothesis: STM, CTM (whose channels are the speakers) or SegLST.
        groups: table of recording and condition; each condition gets its own score.
        meeteval: compute cpWER, ORC-WER and, where words have times, tcpWER too.
        collar: of tcpWER, in seconds.
        form: format of the hypothesis.

    Returns:
        The score, and what ``score.json`` holds.

    Raises:
        InputError: what the readers, the normaliser and
            :func:`espnet_ext.scoring.speaker_attributed.score_speakers` refuse.
    """
    real, heard = recorded_turns(read_transcripts(reference), read_transcripts(hypothesis, form), normaliser)
    result = score_speakers(
        real,
        heard,
        groups=read_table(groups) if groups else None,
        meeteval=meeteval,
        collar=collar,
        names=(str(reference), str(hypothesis)),
    )
    name = normaliser_called(normaliser)[1]
    summary = summarise_speakers(result, replicas=draws.replicas, seed=draws.seed, normaliser=name)
    if output:
        write_speaker_reports(output, result, summary)
    return result, summary


def compare_systems(
    sets: Sequence[ScoredSet],
    output: Path | None = None,
    *,
    names: tuple[str, str] = ("a", "b"),
    unit: str = "word",
    normaliser: str = NONE,
    within: int = WITHIN,
    draws: Draws = Draws(),
) -> dict[str, Any]:
    """Paired bootstrap test between two systems on one or several pooled test sets.

    Args:
        sets: each with the hypotheses of both systems.
        output: folder for ``compare.json``.

    Returns:
        What ``compare.json`` holds: both rates, their difference with its interval and p-value; for ``mixed`` also of
        each language and near switch points, under ``measures``.

    Raises:
        InputError: what scoring and :func:`espnet_ext.scoring.score.compare` refuse.
    """
    scored = [_score_pair(each, unit, normaliser, within) for each in sets]
    result: dict[str, Any] = {
        "unit": unit,
        "normaliser": normaliser_called(normaliser)[1],
        **_comparison(scored, names, draws),
        "utterances": sum(len(a.utterances) for a, _ in scored),
        "bootstrap": {
            "replicas": draws.replicas,
            "seed": draws.seed,
            "resample": "speaker" if draws.by_speaker else "utterance",
        },
    }
    parts = {name: [(a.parts[name], b.parts[name]) for a, b in scored] for name in scored[0][0].parts}
    counted = {name: some for name, some in parts.items() if any(a.total.reference_length for a, _ in some)}
    if counted:
        result["measures"] = {name: _comparison(some, names, draws) for name, some in counted.items()}
    if output:
        write_json(output / "compare.json", result)
    return result


def _score_pair(each: ScoredSet, unit: str, normaliser: str, within: int) -> tuple[Score, Score]:
    if unit == "mixed" and normaliser != NONE:
        raise InputError("--normaliser is for --unit word and char: mixed text has its own rules")
    first, second = each.hypotheses

    def score(hypothesis: Path) -> Score:
        if unit == "mixed":
            return score_mixed_files(each.reference, hypothesis, utt2spk=each.utt2spk, within=within)
        apply = normaliser_called(normaliser)[0]
        return score_files(each.reference, hypothesis, unit=unit, utt2spk=each.utt2spk, normaliser=apply)

    return score(first), score(second)


def _comparison(pairs: Sequence[tuple[Score, Score]], names: Sequence[str], draws: Draws) -> dict[str, Any]:
    test = compare(pairs, **asdict(draws))
    totals = [sum((pair[side].total for pair in pairs), start=ZERO) for side in (0, 1)]
    a, b = (
        {"name": name, "value": percent(total.rate), **asdict(total), "errors": total.errors}
        for name, total in zip(names, totals, strict=True)
    )
    return {
        "a": a,
        "b": b,
        "difference": percent(test.difference),
        "ci95": [percent(limit) for limit in test.ci95],
        "p_value": test.p_value,
        "probability_of_improvement": test.probability_of_improvement,
        "words": totals[0].reference_length,
    }


def describe_errors(summary: Mapping[str, Any], counted: str) -> str:
    """One line: the errors of a summary by kind; ``counted`` says in what.

    >>> describe_errors({"errors": 3, "words": 9, "substitutions": 2, "deletions": 1, "insertions": 0}, "words")
    '3 errors in 9 words: 2 substitutions, 1 deletions, 0 insertions'
    """
    return (
        f"{summary['errors']} errors in {summary['words']} {counted}: {summary['substitutions']} substitutions, "
        f"{summary['deletions']} deletions, {summary['insertions']} insertions"
    )

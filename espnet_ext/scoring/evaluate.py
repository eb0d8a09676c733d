"""Whole evaluations: from files of references and hypotheses to a score with its reports."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import ScriptPair
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.assignments import COLLAR
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.kinds import score_by_kind
from espnet_ext.scoring.mixed import MANDARIN_ENGLISH, WITHIN, count_switches, score_mixed_files
from espnet_ext.scoring.normalise import NONE, normaliser_called
from espnet_ext.scoring.score import Score, score_files
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.scoring.speaker_attributed import (
    SpeakerScore,
    score_speakers,
    summarise_speakers,
    write_speaker_reports,
)
from espnet_ext.scoring.transcripts import AUTO, read_transcripts, recorded_turns


@dataclass(frozen=True)
class Draws:
    """What the bootstrap draws: how often, from which seed, and whether whole speakers or utterances."""

    replicas: int = REPLICAS
    seed: int = 0
    by_speaker: bool = False


def evaluate_words(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    unit: str = "word",
    utt2spk: Path | None = None,
    normaliser: str = NONE,
    kinds: Path | None = None,
    draws: Draws = Draws(),
    alignment: bool = True,
) -> tuple[Score, dict[str, Any]]:
    """Score a Kaldi text file in words or characters; with ``output``, write the reports into that folder.

    Args:
        kinds: table of utterance and the kind of each word of its normalised reference; each kind gets its own rate.

    Returns:
        The score, and what ``score.json`` holds.

    Raises:
        InputError: what :func:`espnet_ext.scoring.score.score_files`, the normaliser and
            :func:`espnet_ext.scoring.kinds.score_by_kind` refuse.
    """
    apply, name = normaliser_called(normaliser)
    score = score_files(reference, hypothesis, unit=unit, utt2spk=utt2spk, normaliser=apply)
    if kinds:
        score = score_by_kind(score, read_table(kinds), str(kinds))
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
    rules: str = NONE,
    languages: ScriptPair = MANDARIN_ENGLISH,
    draws: Draws = Draws(),
    alignment: bool = True,
) -> tuple[Score, dict[str, Any]]:
    """Score mixed text, by default in Han characters and English words; otherwise as :func:`evaluate_words`.

    Args:
        within: how many tokens from a point where the language changes count as near it.
        rules: name of the normaliser of both texts; ``score.json`` has it.
        languages: the two languages, by their scripts.
    """
    apply, name = normaliser_called(rules)
    score = score_mixed_files(
        reference, hypothesis, utt2spk=utt2spk, within=within, normaliser=apply, languages=languages
    )
    switches = count_switches(map(languages.tokens, score.reference.values()), languages.is_first)
    scripts = {"scripts": list(languages.scripts)}
    summary = {**summarise(score, **asdict(draws), normaliser=name), "within": within, **switches, **scripts}
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


def describe_errors(summary: Mapping[str, Any], counted: str) -> str:
    """One line: the errors of a summary by kind; ``counted`` says in what.

    >>> describe_errors({"errors": 3, "words": 9, "substitutions": 2, "deletions": 1, "insertions": 0}, "words")
    '3 errors in 9 words: 2 substitutions, 1 deletions, 0 insertions'
    """
    return (
        f"{summary['errors']} errors in {summary['words']} {counted}: {summary['substitutions']} substitutions, "
        f"{summary['deletions']} deletions, {summary['insertions']} insertions"
    )

"""Score files, and write ``score.json``, tables of counts and aligned text."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.alignment_file import format_alignment_blocks
from espnet_ext.scoring.error_rate import (
    REPLICAS,
    ZERO,
    ErrorRate,
    bootstrap_interval,
)
from espnet_ext.scoring.formatting import NOTHING, format_count, format_value
from espnet_ext.scoring.normalise import NONE, find_normaliser
from espnet_ext.scoring.recordings import load_for_scoring
from espnet_ext.scoring.sclite import (
    Segments,
    align_like_sclite,
    cut_at_segments,
)
from espnet_ext.scoring.score import (
    WHOLE,
    Score,
    find_speaker,
    score_by_kind,
    score_texts,
)
from espnet_ext.text.transcripts import AUTO
from espnet_ext.work.files import atomic_write, write_json

PARTS = "parts"  # the folder of a score's parts


def evaluate(
    reference: Path,
    hypothesis: Path,
    output: Path | None = None,
    *,
    unit: str = "word",
    utt2spk: Path | None = None,
    normaliser: str = NONE,
    kinds: Path | None = None,
    by_segment: bool = False,
    form: str = AUTO,
    reference_form: str = AUTO,
) -> tuple[Score, dict[str, Any]]:
    """Score texts of any format, by utterance or recording.

    With ``output``, write the reports into that folder. Ids need not be in the same
    order; an id alone in ``hypothesis`` was recognised as silence. ``unit`` is
    ``word``, ``char``, or ``mixed`` for the mixed error rate; ``normaliser`` names what
    is done to both texts. ``kinds`` is a table of utterance and the kind of each word
    of its normalised reference; each kind gets its own rate. ``by_segment`` aligns each
    segment of an STM with a CTM, as sclite does. Returned are the score and what
    ``score.json`` holds. Raises InputError: as the readers, the normaliser and the
    functions of :mod:`espnet_ext.scoring.score`.
    """
    apply, name = find_normaliser(normaliser)
    loaded = load_for_scoring(
        reference,
        [hypothesis],
        like_sclite=by_segment,
        reference_form=reference_form,
        form=form,
    )
    (recognised,) = loaded.hypotheses
    speakers = None if utt2spk is None else read_table(utt2spk)
    real = loaded.reference.plain
    heard = recognised.plain
    if by_segment:
        cut = cut_at_segments(loaded.reference, recognised)
        real = cut.reference
        heard = cut.hypothesis
        if speakers is None:
            speakers = cut.speakers
        else:
            speakers = _find_speakers_of_segments(cut, speakers)
    # Not before: what is refused is refused without warnings.
    for warning in loaded.warnings:
        warn(warning)
    real = {key: apply(text) for key, text in real.items()}
    heard = {key: apply(text) for key, text in heard.items()}
    names = str(reference), str(hypothesis), str(utt2spk)
    more: dict[str, Any] = {}
    if unit == "mixed":
        from espnet_ext.scoring.mixed import score_mixed_texts

        score = score_mixed_texts(real, heard, utt2spk=speakers, names=names)
        more = _summarise_switches(score)
    else:
        aligner = align_like_sclite if by_segment else None
        score = score_texts(
            real, heard, unit=unit, utt2spk=speakers, names=names, aligner=aligner
        )
    if not loaded.reference.of_utterances:
        score = _name_whole(score, "segment" if by_segment else "recording")
    # Kinds are of the words that are scored, after the normaliser.
    if kinds:
        score = score_by_kind(score, read_table(kinds), str(kinds))
    summary = summarise(score, normaliser=name) | more
    if output:
        write_reports(output, score, summary)
    return score, summary


def _find_speakers_of_segments(
    cut: Segments, speakers: Mapping[str, str]
) -> dict[str, str]:
    """Find the speakers of segments by those of their recordings."""
    found = {}
    for key in cut.reference:
        recording, _, _ = key.rpartition("-")
        found[key] = find_speaker(speakers, recording)
    return found


def _summarise_switches(score: Score) -> dict[str, Any]:
    """Count the places where the language changes in the references (P1)."""
    from espnet_ext.scoring.mixed import WITHIN, count_switches
    from espnet_ext.text.mixed_text import has_han, split_mixed_text

    references = map(split_mixed_text, score.reference.values())
    return {"within": WITHIN, **count_switches(references, has_han)}


def _name_whole(score: Score, whole: str) -> Score:
    """Say what the keys of a score and its parts name."""
    parts = {key: replace(part, whole=whole) for key, part in score.parts.items()}
    return replace(score, whole=whole, parts=parts)


def summarise(score: Score, *, normaliser: str = NONE) -> dict[str, Any]:
    """Return the content of ``score.json``.

    Rates are in percent, ``words`` is the reference length in ``unit``. ``normaliser``
    names what was done to both texts before. ``measures`` holds the same numbers of
    each part by name; ``value`` and ``ci95`` are null if the reference has no token of
    a part, ``ci95`` also where a single speaker (or session) is known. ``interval``
    says over which units ``ci95`` is.
    """
    summary = {
        **_list_figures(score),
        "normaliser": normaliser,
        "interval": _describe_units(score),
    }
    if score.parts:
        parts = {name: _list_figures(part) for name, part in score.parts.items()}
        summary["measures"] = parts
    return summary


def _list_figures(score: Score) -> dict[str, Any]:
    total = score.total
    known = total.reference_length > 0
    return {
        "unit": score.unit,
        "value": convert_to_percent(total.rate) if known else None,
        "ci95": _estimate_interval(score) if known else None,
        "errors": total.errors,
        "words": total.reference_length,
        "correct": total.correct,
        "substitutions": total.substitutions,
        "deletions": total.deletions,
        "insertions": total.insertions,
        "utterances": len(score.utterances),
        "sentence_error_rate": convert_to_percent(score.sentence_error_rate),
    }


def _find_units(score: Score) -> tuple[str, Mapping[str, str]]:
    """Return of what kind the units of the interval are, and that of each utterance.

    The utterances themselves, without a table, if nothing else is known.
    """
    if score.session_of:
        return "session", score.session_of
    if score.speaker_of:
        return "speaker", score.speaker_of
    return score.whole, {}


def _estimate_interval(score: Score) -> list[float] | None:
    """Estimate the interval of a rate in percent, over the units that share speakers.

    Over speakers or sessions it is that of comparisons and tables; over utterances, of
    which there are many, that of the bootstrap. None below two units with a reference.
    """
    _, unit_of = _find_units(score)
    sums: dict[str, ErrorRate] = {}
    for key, counts in score.utterances.items():
        unit = unit_of.get(key, key)
        sums[unit] = sums.get(unit, ZERO) + counts
    if sum(counts.reference_length > 0 for counts in sums.values()) < 2:
        return None  # every draw would be the same
    if not unit_of:
        ends = bootstrap_interval([*sums.values()])
        return [convert_to_percent(end) for end in ends]
    from espnet_ext.scoring.significance import estimate_interval

    errors = [counts.errors for counts in sums.values()]
    lengths = [counts.reference_length for counts in sums.values()]
    found = estimate_interval([errors], lengths)
    if found is None:
        return None
    return [convert_to_percent(end) for end in found]


def _describe_units(score: Score) -> dict[str, Any]:
    """Say over which units the interval is, and by which method."""
    unit, unit_of = _find_units(score)
    if unit_of:
        number = len({unit_of[key] for key in score.utterances})
        return {"unit": unit, "number": number, "method": "t"}
    return {
        "unit": unit,
        "number": len(score.utterances),
        "method": "bootstrap",
        "replicas": REPLICAS,
        "seed": 0,
    }


def describe_interval(summary: Mapping[str, Any]) -> str:
    """Write the interval of a summary with its unit, to follow the rate.

    >>> of = {"unit": "speaker", "number": 6}
    >>> describe_interval({"ci95": [12.3, 33.6], "interval": of})
    '95% interval 12.30 to 33.60 over 6 speakers'
    >>> describe_interval({"ci95": None, "interval": {"unit": "speaker", "number": 1}})
    'no interval over 1 speaker'
    """
    if "interval" not in summary:
        raise InputError(
            "score.json does not say over which units its interval is: score again"
        )
    of = summary["interval"]
    units = format_count(of["number"], of["unit"])
    if summary["ci95"] is None:
        return f"no interval over {units}"
    low, high = summary["ci95"]
    return f"95% interval {low:.2f} to {high:.2f} over {units}"


def format_measures(summary: Mapping[str, Any]) -> str:
    """Write the whole and its parts as a table, one line each.

    A line has the rate with its interval, reference tokens, and errors.
    """
    from tabulate import tabulate

    # By the names of their columns.
    counts = {
        "tokens": "words",
        "errors": "errors",
        "sub": "substitutions",
        "del": "deletions",
        "ins": "insertions",
    }
    header = ["measure", "rate %", "95% interval", *counts]
    rows = []
    for name, figures in {WHOLE: summary, **summary["measures"]}.items():
        interval = NOTHING
        if figures["ci95"] is not None:
            low, high = figures["ci95"]
            interval = f"{low:.2f} to {high:.2f}"
        row = [name, format_value(figures["value"]), interval]
        row += [figures[key] for key in counts.values()]
        rows.append(row)
    return tabulate(rows, header, disable_numparse=True, stralign="right")


def convert_to_percent(fraction: float) -> float:
    """Convert a fraction to percent, to four decimals."""
    return round(100 * fraction, 4)


def write_reports(
    folder: str | Path,
    score: Score,
    summary: Mapping[str, Any],
    alignment: Iterable[str] | None = None,
) -> None:
    """Write the reports into ``folder``.

    ``score.json`` comes last, so if it is there, the rest is complete.
    ``per_speaker.tsv`` is written if speakers are known. ``alignment`` is the text of
    ``alignment.txt``, by default a block for each utterance. If the score has parts,
    ``measures.txt`` lists them and ``parts/<name>/`` holds the counts of each. Files of
    an earlier call that are not written again are deleted.
    """
    folder = Path(folder)
    # score.json first: without it, nobody takes what is left of a killed call for
    # whole.
    for name in ("score.json", "per_speaker.tsv", "measures.txt", "alignment.txt"):
        (folder / name).unlink(missing_ok=True)
    if (folder / PARTS).is_dir():
        shutil.rmtree(folder / PARTS)
    _write_tables(folder, score)
    for name, part in score.parts.items():
        _write_tables(folder / PARTS / name, part)
    if score.parts:
        with atomic_write(folder / "measures.txt") as file:
            file.write(format_measures(summary) + "\n")
    if alignment is None:
        alignment = format_alignment_blocks(score)
    with atomic_write(folder / "alignment.txt") as file:
        file.writelines(alignment)
    write_json(folder / "score.json", summary)


def _write_tables(folder: Path, score: Score) -> None:
    # The units of the interval (_find_units), so that it can be computed from the
    # table.
    unit = "session" if score.session_of else "speaker"
    unit_of = score.session_of or score.speaker_of
    _write_counts(folder / "per_utterance.tsv", score.utterances, unit_of, unit)
    if score.speakers:
        _write_counts(folder / "per_speaker.tsv", score.speakers, {})


def _write_counts(
    path: Path,
    counts: Mapping[str, ErrorRate],
    unit_of: Mapping[str, str],
    unit: str = "",
) -> None:
    """Write a line for each utterance or speaker.

    The speaker or session of an utterance, if known, comes last; ``unit`` says which.
    """
    header = ["id", "words", "correct", "sub", "del", "ins"]
    if unit_of:
        header.append(unit)
    with atomic_write(path) as file:
        file.write("\t".join(header) + "\n")
        for key, each in counts.items():
            cells = [key, each.reference_length, *each.counts]
            if unit_of:
                cells.append(unit_of[key])
            file.write("\t".join(map(str, cells)) + "\n")

"""Read N-best lists of any decoder: formats, references, and what cannot be right."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest import readers
from espnet_ext.nbest.espnet3 import is_espnet3, read_espnet3
from espnet_ext.nbest.espnet_output import (
    find_published_references,
    is_espnet_output,
    read_espnet_output,
)
from espnet_ext.nbest.selection import ALL, Selection, select_hypotheses
from espnet_ext.nbest.speakers import find_speakers
from espnet_ext.scoring.normalise import LIBRISPEECH, find_normaliser
from espnet_ext.scoring.score import (
    MUCH_WRITING,
    SPELT_OTHERWISE,
    is_spelt_otherwise,
    score_texts,
    strip_speakers,
)
from espnet_ext.text.nbest import (
    NBest,
    count_word_errors,
    join_lines,
    read_nbest,
    split_reference,
    write_nbest,
)
from espnet_ext.text.transcripts import read_transcripts
from espnet_ext.work.files import open_unpacked, refuse_input

AUTO = "auto"
DECODED = re.compile(r"\d+best_recog")  # a folder inside an ESPnet decoding
# An oracle's word error rate above which lists and references cannot belong together.
IMPLAUSIBLE = 0.9
_MARKS = re.compile(r"<[a-z]+><(?:asr|st_[a-z]+)>")  # of language and task
_CAPITALS, _SMALL = 0.9, 0.1  # shares of capitals that make a text upper and lower case


class Format(NamedTuple):
    """A format of N-best lists."""

    what: str  # for people
    read: Callable[[Path], list[NBest]]
    fits: Callable[[Path], bool]  # whether a path looks like it, read in part


def _begins_with(path: Path, text: str) -> bool:
    if not path.is_file():
        return False
    with open_unpacked(path) as file:
        return file.read(len(text)) == text.encode()


def _holds(path: Path, *patterns: str) -> bool:
    return path.is_dir() and any(any(path.glob(pattern)) for pattern in patterns)


# In this order the first that fits is taken: jsonl takes any file, and so is the last.
FORMATS: Mapping[str, Format] = {
    "espnet": Format(
        "output folder of a decoding with --nbest", read_espnet_output, is_espnet_output
    ),
    "espnet3": Format(
        "nbest.scp of ESPnet3's infer, or its folder", read_espnet3, is_espnet3
    ),
    "kaldi": Format(
        "folder with archives.*/{words_text,acwt,lmwt.withlm}",
        readers.read_kaldi,
        lambda path: _holds(path, "archives.*/words_text", "words_text"),
    ),
    "nemo": Format(
        "preds_out*.tsv beside its manifest",
        readers.read_nemo,
        lambda path: path.suffix == ".tsv" or _holds(path, readers.NEMO_BEAMS),
    ),
    "icefall": Format(
        "recogs-*.txt, or a folder of them",
        readers.read_icefall,
        lambda path: path.name.startswith("recogs-") or _holds(path, "recogs-*.txt*"),
    ),
    "wenet": Format(
        "decoder_main --output_nbest",
        readers.read_wenet,
        lambda path: _begins_with(path, "wav "),
    ),
    "whisper": Format(
        "JSON of whisper and faster-whisper", readers.read_whisper, readers.is_whisper
    ),
    "srilm": Format(
        "folder with a file per utterance", readers.read_srilm, readers.is_srilm
    ),
    "jsonl": Format(
        "one list per line, plain or .gz", read_nbest, lambda path: not path.is_dir()
    ),
}


def read_lists(
    path: str | Path,
    reference: str | Path | None = None,
    form: str = AUTO,
    reference_form: str = AUTO,
) -> list[NBest]:
    """Read N-best lists in a format, a key of ``FORMATS``.

    "auto" takes the first that fits. ``reference`` is any transcripts with their
    references, which replace those in the lists, and ``reference_form`` their format.
    Published lists of ESPnet have references beside them.
    """
    path = Path(path)
    if form == AUTO:
        form = detect_format(path)
    elif form not in FORMATS:
        raise InputError(
            f"no format {form} of N-best lists: choose one of {', '.join(FORMATS)}"
        )
    lists = FORMATS[form].read(path)
    reference = reference or find_published_references(path)
    if not reference:
        return lists
    texts = read_transcripts(reference, reference_form).plain
    return add_references(lists, texts, str(path), str(reference))


def detect_format(path: Path) -> str:
    """Return the format of lists; InputError if a path is of none."""
    for name, each in FORMATS.items():
        if each.fits(path):
            return name
    if DECODED.fullmatch(path.name) and path.is_dir():
        raise InputError(
            f"{path}: a part of an ESPnet decoding: give the decoding's folder"
        )
    known = ", ".join(f"{name} ({each.what})" for name, each in FORMATS.items())
    raise InputError(f"{path}: not N-best lists in any of these formats: {known}")


def convert_lists(
    path: str | Path,
    output: Path,
    reference: str | Path | None = None,
    *,
    selection: Selection = ALL,
    form: str = AUTO,
    reference_form: str = AUTO,
    rules: Callable[[str], str] | None = None,
) -> tuple[list[NBest], list[str]]:
    """Read lists as :func:`read_lists` does, and write them as JSONL.

    ``rules`` normalise hypotheses and references, after which texts may be equal;
    ``selection`` is what is used of them. Returned are the lists as they are written,
    and lines that say what was done.
    """
    # Lists are written when all are read, but what they came from would be gone.
    refuse_input(output, (path, reference))
    lists = read_lists(path, reference, form, reference_form)
    if rules:
        lists = [normalise_list(nbest, rules) for nbest in lists]
    selected, notes = select_hypotheses(lists, selection, path)
    write_nbest(output, selected)
    return selected, notes


def convert_part(
    source: Path,
    output: Path,
    reference: Path,
    selection: Selection,
    normaliser: str = LIBRISPEECH,
) -> None:
    """Convert the lists of a part of a corpus, and print what was done and is odd.

    Texts are normalised as error rates are counted.
    """
    rules, _ = find_normaliser(normaliser)
    changed: list[str] = []  # in more than their case

    def normalise(text: str) -> str:
        found = rules(text)
        if found.casefold() != text.casefold():
            changed.append(text)
        return found

    lists, notes = convert_lists(
        source, output, reference, selection=selection, rules=normalise
    )
    if changed:
        say(
            f"warning: the normaliser {normaliser} changes more than the case of "
            f"{len(changed)} hypotheses or references of {source}, first "
            f"{changed[0]!r} to {rules(changed[0])!r}: if these are not English, or "
            "the model shall read them as they are, give --normaliser none"
        )
    for line in (*notes, *find_oddities(lists, source)):
        say(line)
    say(
        f"{len(lists)} lists, {sum(len(nbest.hyps) for nbest in lists)} "
        f"hypotheses -> {output}"
    )


def find_lists(folder: Path, part: str) -> Path | None:
    """Return where a folder has the lists of a part, None if it has not.

    Raises InputError: it has several, which may differ.
    """
    found: list[Path] = []
    # ESPnet's recipes write test_clean for test-clean.
    for name in dict.fromkeys((part, part.replace("-", "_"))):
        for end in ("", ".jsonl", ".jsonl.gz"):
            path = folder / f"{name}{end}"
            if path.exists() and not any(map(path.samefile, found)):
                found.append(path)
    if len(found) > 1:
        raise InputError(
            f"{found[0]}, {found[1]}: both have lists of {part}: leave one of them"
        )
    return found[0] if found else None


def find_listed_parts(folder: Path) -> list[str]:
    """Find the parts that a folder has N-best lists of: JSONL, or output of ESPnet."""
    parts = set()
    for path in folder.iterdir():
        if is_espnet_output(path) or find_published_references(path):
            parts.add(path.name)
        elif path.name.endswith((".jsonl", ".jsonl.gz")):
            parts.add(path.name.removesuffix(".gz").removesuffix(".jsonl"))
    return sorted(parts)


def has_references(path: Path) -> bool:
    """Return whether lists have references: their first line, or published ones."""
    if not path.is_file():
        return find_published_references(path) is not None
    with open_unpacked(path) as file:
        lines = (line for line in file if line.strip())
        first = next(lines, b"").decode("utf-8", errors="replace")
    try:
        record = json.loads(first)
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("ref") is not None


def write_references(source: Path, folder: Path) -> None:
    """Write the references of lists as a data dir: text, utt2spk and spk2utt.

    Where speakers are not known, each utterance is its own, as in Kaldi.
    """
    lists = read_lists(source)
    known = find_speakers([nbest.utt_id for nbest in lists], source)
    texts: dict[str, str] = {}
    speakers: dict[str, str] = {}
    utterances: dict[str, list[str]] = {}
    for nbest in sorted(lists, key=lambda nbest: nbest.utt_id):
        if nbest.ref is None:
            raise InputError(f"{source}: {nbest.utt_id} has no reference")
        key = nbest.utt_id
        texts[key] = nbest.ref
        speakers[key] = known.get(key, key)
        utterances.setdefault(speakers[key], []).append(key)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "text", texts)
    write_table(folder / "utt2spk", speakers)
    by_speaker = {speaker: " ".join(keys) for speaker, keys in utterances.items()}
    write_table(folder / "spk2utt", by_speaker)


def normalise_list(nbest: NBest, rules: Callable[[str], str]) -> NBest:
    """Return a list with hypotheses and reference normalised alike."""
    hyps = tuple(replace(hyp, text=rules(hyp.text)) for hyp in nbest.hyps)
    ref = None if nbest.ref is None else rules(nbest.ref)
    return replace(nbest, hyps=hyps, ref=ref)


def add_references(
    lists: Iterable[NBest],
    references: Mapping[str, str],
    name: str = "lists",
    reference_name: str = "references",
) -> list[NBest]:
    """Give each list its reference; messages name where both come from."""
    lists = list(lists)
    utterances = [nbest.utt_id for nbest in lists]
    references = strip_speakers(references, utterances)
    missing = [utterance for utterance in utterances if utterance not in references]
    if missing:
        why = _explain_missing(missing, references, reference_name)
        raise InputError(f"{reference_name}: {_count_ids(missing)} of {name} {why}")
    # Both ways: an error rate of some utterances would pass for that of the set.
    without_list = sorted(references.keys() - set(utterances))
    if without_list:
        raise InputError(
            f"{name}: {_count_ids(without_list)} of {reference_name} without N-best "
            "list: decode the whole set"
        )
    return [replace(nbest, ref=join_lines(references[nbest.utt_id])) for nbest in lists]


def _explain_missing(
    missing: Sequence[str], references: Mapping[str, str], reference_name: str
) -> str:
    """Say why there may be no references of these utterances."""
    if is_spelt_otherwise(missing[0], references):
        return SPELT_OTHERWISE
    # Lhotse numbers the cuts of a recording: call-0, call-1 ...
    recordings = {re.sub(r"-\d+$", "", utterance) for utterance in missing}
    if recordings <= references.keys():
        return (
            "missing: these are Lhotse's ids of cuts, and "
            f"{reference_name} has those of recordings"
        )
    first = next(iter(references), "no utterance")
    return f"missing: is this another test set? It has {first}"


def _count_ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"utterance {ids[0]}{more}"


def find_oddities(lists: Sequence[NBest], path: str | Path | None = None) -> list[str]:
    """Return what must be wrong with lists, as lines to print.

    Marks of OWSM in texts are wrong, and references that do not fit. Errors are counted
    on the texts as they are. So hypotheses in another case than the references are all
    wrong, and nothing else says so. The lines name ``path``, if there are lists from
    several files.
    """
    begin = "warning:" if path is None else f"warning: {path}:"
    found = list(_find_marks(lists))
    # Against an empty reference every hypothesis is wrong, in whatever spelling.
    known = [nbest for nbest in lists if nbest.ref]
    if known:
        found += _find_other_spelling(known)
        found += _find_other_references(known)
    return [f"{begin} {fault}" for fault in found]


def _find_marks(lists: Sequence[NBest]) -> Iterator[str]:
    """Find marks of language and task, with which OWSM begins its texts."""
    marked = []
    for nbest in lists:
        marks = [_MARKS.match(hyp.text) for hyp in nbest.hyps]
        marked += [mark[0] for mark in marks if mark][:1]
    if marked:
        yield (
            f"texts begin with marks of OWSM ({marked[0]} and the like, in "
            f"{len(marked)} of {len(lists)} lists), which count as words: decode to "
            "text_nospecial, or leave them out (espnet-ext nbest convert "
            "--normaliser whisper_english)"
        )


def _find_other_spelling(known: Sequence[NBest]) -> Iterator[str]:
    """Find references whose case or punctuation is not that of the hypotheses."""
    references = {nbest.utt_id: nbest.ref or "" for nbest in known}
    firsts = {nbest.utt_id: nbest.hyps[0].text for nbest in known}
    case_of_references = _find_case(references.values())
    case_of_firsts = _find_case(firsts.values())
    has_cases = case_of_references is not None and case_of_firsts is not None
    if has_cases and case_of_references != case_of_firsts:
        yield (
            f"the references are in {case_of_references} case, the hypotheses in "
            f"{case_of_firsts}: words are compared as they are written: normalise both "
            "(espnet-ext nbest convert --normaliser)"
        )
        return
    score = score_texts(references, firsts)
    if score.of_writing > MUCH_WRITING * score.total.errors:
        yield (
            f"{score.of_writing} of the {score.total.errors} errors of the first "
            "hypotheses are only case or punctuation: normalise both (espnet-ext "
            "nbest convert --normaliser)"
        )


def _find_other_references(known: Sequence[NBest]) -> Iterator[str]:
    """Find references that are so far from all hypotheses that they are of others."""
    words = sum(len(split_reference(nbest)) for nbest in known)
    rate = sum(min(count_word_errors(nbest)) for nbest in known) / words
    if rate > IMPLAUSIBLE:
        yield (
            f"even the best choice from the lists has a word error rate of "
            f"{100 * rate:.0f} %: are these the references of these lists, in the same "
            "spelling?"
        )


def _find_case(texts: Iterable[str]) -> str | None:
    """Return ``upper``, ``lower`` or ``mixed`` by the share of capitals.

    Texts without a letter have no case.
    """
    capitals = 0
    letters = 0
    for letter in "".join(texts):
        # Digits, marks and Han characters have no case.
        capitals += letter.isupper()
        letters += letter.isupper() or letter.islower()
    if not letters:
        return None
    share = capitals / letters
    if share > _CAPITALS:
        return "upper"
    if share < _SMALL:
        return "lower"
    return "mixed"

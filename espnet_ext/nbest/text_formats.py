"""N-best lists from text files of other toolkits: Kaldi, SRILM, NeMo, WeNet and icefall.

Scores become natural logarithms; the parts that a toolkit keeps apart become the hypotheses' named ``scores``.

- Kaldi, as ``steps/rnnlmrescore.sh`` and its like leave it: ``archives.<job>/{words_text,acwt,lmwt.withlm}`` with ids
  ``<utterance>-<rank>``. Costs are negative log-probabilities; the acoustic one is unscaled.
- SRILM, nbest-format(5): a file per utterance, perhaps gzipped, with lines ``acoustic lm words w1 w2 ...`` in log10, or
  one of Decipher's, ``NBestList1.0`` with lines ``(score) w1 w2 ...`` and ``NBestList2.0`` with times after each word.
- NeMo, ``eval_beamsearch_ngram*.py``: ``preds_out_width<n>_...tsv`` with n lines ``text<TAB>score`` per utterance of
  the manifest, which lies beside it.
- WeNet, ``decoder_main --output_nbest``: ``wav <utterance>``, then lines ``candidate <score> <text>``.
- icefall, ``recogs-*.txt``: lines ``<cut>:<TAB>ref=[...]`` and ``hyp=[...]``. They have no scores (0 here). Several
  files in a folder, one for each way of decoding, are the hypotheses of a cut.
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, text_lines, unpacked_lines
from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.work.json_text import parse_json

# Kaldi's lattices have acoustic log-likelihoods ten times as large as they should be beside a language model.
KALDI_ACOUSTIC_SCALE = 0.1
_LN10 = math.log(10.0)
_BYTELOG = 1024 / 10000.5  # of SRILM's Prob.h: bytelogs are logarithms to the base 1.0001, divided by 1024
_RANKED = re.compile(r"(.+)-([1-9][0-9]*)")
_WIDTH = re.compile(r"preds_out_width([0-9]+)")
_RECOGS = re.compile(r"(\S+?):\t(ref|hyp)=(\[.*\])")
_TIMESTAMPS = re.compile(r"\S+:\ttimestamp_(ref|hyp)=")  # below the texts, if icefall was asked for times
_BORDERS = frozenset(("<s>", "</s>"))


def read_kaldi(path: str | Path) -> list[NBest]:
    """Read Kaldi's n-best lists, sorted by utterance.

    ``score`` is the language model's log-probability plus 0.1 times the acoustic one; both are also ``scores``.

    Args:
        path: the folder with ``archives.*``, or one of these.

    Raises:
        InputError: a file is missing; a hypothesis is in only some of them; an id is not ``<utterance>-<rank>``; ranks
            are not 1, 2 ...; a cost is not a number.
    """
    path = Path(path)
    found: dict[str, dict[int, Hypothesis]] = {}
    for folder in [path] if (path / "words_text").exists() else sorted(path.glob("archives.*")):
        texts, acoustic = read_table(folder / "words_text"), read_table(folder / "acwt")
        lm = read_table(folder / "lmwt.withlm")  # lmwt.nolm lacks the language model
        for name, table in (("acwt", acoustic), ("lmwt", lm)):
            if odd := sorted(texts.keys() ^ table.keys()):
                raise InputError(f"{folder}: {odd[0]} is in only one of words_text and {name}: make the lists again")
        for key, text in texts.items():
            match = _RANKED.fullmatch(key)
            if not match:
                raise InputError(f"{folder / 'words_text'}: {key} is not an id such as utt1-1, utterance and rank")
            parts = {"acoustic": -_number(acoustic[key], folder, key), "lm": -_number(lm[key], folder, key)}
            score = parts["lm"] + KALDI_ACOUSTIC_SCALE * parts["acoustic"]
            ranked = found.setdefault(match[1], {})
            if int(match[2]) in ranked:
                raise InputError(f"{folder}: {key} is also in another folder: remove the stale one")
            ranked[int(match[2])] = Hypothesis(" ".join(text.split()), score, parts)
    if not found:
        raise InputError(
            f"{path}: no archives.*/words_text: make n-best lists with lattice-to-nbest and nbest-to-linear"
        )
    for utterance, ranked in found.items():
        if sorted(ranked) != list(range(1, len(ranked) + 1)):
            raise InputError(f"{path}: {utterance}: its ranks are {sorted(ranked)}, not 1 to {len(ranked)}")
    return _lists(path, {name: [ranked[rank] for rank in sorted(ranked)] for name, ranked in found.items()})


def read_srilm(path: str | Path) -> list[NBest]:
    """Read SRILM's n-best lists, one file per utterance, sorted by utterance; the id is the name without suffixes.

    ``score`` is the acoustic score plus the language model's. The number of words is in ``scores`` too.

    Raises:
        InputError: no files, or a line is in none of the three formats; names file and line.
    """
    path = Path(path)
    files = [path] if path.is_file() else _plain_files(path)
    lists = {}
    for file in files:
        lines = list(unpacked_lines(file))
        kind = lines[0].strip() if lines[0].startswith("NBestList") else ""
        if kind and kind not in ("NBestList1.0", "NBestList2.0"):
            raise InputError(f"{file}: {kind}: only NBestList1.0, NBestList2.0 and SRILM's own format are read")
        name = file.name.removesuffix(".gz").removesuffix(".nbest").removesuffix(".score")
        if name in lists:
            raise InputError(f"{path}: {name} has two files, {file.name} and another one: leave one")
        lists[name] = [
            _srilm_hypothesis(line, kind, file, number)
            for number, line in enumerate(lines[bool(kind) :], start=1 + bool(kind))
        ]
    return _lists(path, lists)


def _plain_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def is_srilm(path: str | Path) -> bool:
    """Whether the first file of a folder begins as SRILM writes n-best lists."""
    files = _plain_files(Path(path)) if Path(path).is_dir() else []
    if not files:
        return False
    try:
        first = next(unpacked_lines(files[0]))
        return first.startswith("NBestList") or bool(_srilm_hypothesis(first, "", files[0], 1))
    except InputError:
        return False


def _srilm_hypothesis(line: str, kind: str, file: Path, number: int) -> Hypothesis:
    try:
        if kind:
            score, rest = re.fullmatch(r"\s*\(\s*(\S+?)\s*\)(.*)", line).groups()  # type: ignore[union-attr]
            words = re.sub(r"\([^()]*\)", " ", rest).split()
            return Hypothesis(_words(words), float(score) * _BYTELOG)
        acoustic, lm, count, *words = line.split()
        parts = {"acoustic": float(acoustic) * _LN10, "lm": float(lm) * _LN10, "words": float(int(count))}
    except (AttributeError, ValueError):
        wanted = "(score) word ..." if kind else "acoustic-score lm-score number-of-words word ..."
        raise InputError(f"{file}: line {number} is not `{wanted}` as SRILM writes it") from None
    return Hypothesis(_words(words), parts["acoustic"] + parts["lm"], parts)


def _words(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word not in _BORDERS)


def read_nemo(path: str | Path) -> list[NBest]:
    """Read NeMo's beams, in the manifest's order, with its references; the id is the name of the audio file.

    Args:
        path: ``preds_out_width<n>_....tsv``, or the folder with it. One manifest (``.json``, one object per line with
            ``audio_filepath`` and ``text``) lies beside it.

    Raises:
        InputError: there is not one of each; the number of lines is not n for each utterance; a line is not
            ``text<TAB>score``.
    """
    path = Path(path)
    beams = path if path.is_file() else _only(path, "preds_out_width*.tsv", "beams, one file per folder")
    manifest = _only(beams.parent, "*.json", "manifest beside the beams")
    lines, records = (
        list(text_lines(beams)),
        [_manifest_line(manifest, *each) for each in enumerate(text_lines(manifest), 1)],
    )
    match = _WIDTH.match(beams.name)
    width = int(match[1]) if match else len(lines) // len(records)
    if len(lines) != width * len(records):
        if not match:
            raise InputError(
                f"{beams}: {len(lines)} lines are no multiple of the {len(records)} utterances of {manifest}"
            )
        raise InputError(
            f"{beams}: {len(lines)} lines are not {width} for each of the {len(records)} utterances of {manifest}: is "
            f"it the manifest that was decoded? If it is, a beam ended with fewer than {width} hypotheses, and nothing "
            "says which: decode with a smaller beam_width, or write the lists as JSONL"
        )
    lists = []
    for index, (name, ref) in enumerate(records):
        hyps = []
        for number in range(index * width + 1, (index + 1) * width + 1):
            text, tab, score = lines[number - 1].rpartition("\t")
            if not tab:
                raise InputError(f"{beams}: line {number} is not text and score with a tab between them")
            hyps.append(Hypothesis(" ".join(text.split()), _number(score, beams, f"line {number}")))
        lists.append(_list(beams, name, hyps, ref))
    if len({nbest.utt_id for nbest in lists}) < len(lists):
        raise InputError(f"{manifest}: two audio files have the same name, which is the utterance's id: rename one")
    return lists


def _manifest_line(manifest: Path, number: int, line: str) -> tuple[str, str | None]:
    try:
        record: Any = parse_json(line)
        text = record.get("text")
        if not isinstance(text, str | None):
            raise InputError(f"{manifest}: line {number}: text is {text!r}, and must be a string")
        return Path(record["audio_filepath"]).stem.replace(" ", "_"), text
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{manifest}: line {number} has no audio_filepath ({error!r}): give NeMo's manifest") from None


def _only(folder: Path, pattern: str, what: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        advice = f"; of several, name one, as {files[0]}" if files else ""
        raise InputError(f"{folder}: {len(files)} files {pattern}, but one is needed: the {what}{advice}")
    return files[0]


def read_wenet(path: str | Path) -> list[NBest]:
    """Read the output of WeNet's ``decoder_main --output_nbest``, in the file's order.

    An utterance without candidates, since WeNet leaves out empty ones, gets one empty hypothesis.

    Raises:
        InputError: the file is missing, an utterance comes twice, or a line is neither ``wav`` nor ``candidate``.
    """
    lists: dict[str, list[Hypothesis]] = {}
    current = ""
    for number, line in enumerate(unpacked_lines(Path(path)), start=1):
        word, _, rest = line.partition(" ")
        if not line.strip():
            continue
        if word == "wav" and rest.strip() and rest.strip() not in lists:
            current = rest.strip()
            lists[current] = []
        elif word == "candidate" and current:
            score, _, text = rest.partition(" ")
            lists[current].append(Hypothesis(" ".join(text.split()), _number(score, path, f"line {number}")))
        else:
            raise InputError(f"{path}: line {number} is not a new `wav UTTERANCE` or `candidate SCORE TEXT`")
    return [_list(path, name, hyps or [Hypothesis("", 0.0)], None) for name, hyps in lists.items()]


def read_icefall(path: str | Path) -> list[NBest]:
    """Read icefall's ``recogs-*.txt``, sorted by cut, with references. All scores are 0.

    Args:
        path: a file, or a folder with several; a text that several have is one hypothesis.

    Raises:
        InputError: no such file, a line of another form, a cut with different references or none, or a decoding that
            lacks a cut that another has.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.glob("recogs-*.txt*"))
    references: dict[str, str] = {}
    found: dict[str, dict[str, Hypothesis]] = {}
    decoded: dict[Path, set[str]] = {}
    for file in files:
        own: set[tuple[str, str]] = set()
        for number, cut, what, text in _recogs(file):
            if (cut, what) in own:
                raise InputError(f"{file}: line {number}: {cut} comes twice in this decoding")
            own.add((cut, what))
            if what == "hyp":
                found.setdefault(cut, {}).setdefault(text, Hypothesis(text, 0.0))
            elif references.setdefault(cut, text) != text:
                raise InputError(f"{file}: line {number}: {cut} has another reference than before")
        decoded[file] = {cut for cut, _ in own}
    for file, cuts in decoded.items():
        if odd := sorted(references.keys() - cuts):
            raise InputError(
                f"{file}: lacks {odd[0]}, which another decoding has: was it cut short, or is it of another set? Then "
                "give the files of one set alone"
            )
    if odd := sorted(references.keys() ^ found.keys()):
        raise InputError(f"{path}: {odd[0]} has no reference or no hypothesis: was the file cut short?")
    return [_list(path, cut, list(found[cut].values()), references[cut]) for cut in sorted(found)]


def _recogs(file: Path) -> Iterator[tuple[int, str, str, str]]:
    """Number of the line, cut, ref or hyp, and words."""
    for number, line in enumerate(unpacked_lines(file), start=1):
        if _TIMESTAMPS.match(line):
            continue
        match = _RECOGS.fullmatch(line)
        try:
            words = ast.literal_eval(match[3]) if match else None
        except (ValueError, SyntaxError):
            words = None
        if match is None or not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError(f"{file}: line {number} is not `CUT:<TAB>ref=[...]` or `hyp=[...]` as icefall writes it")
        yield number, match[1], match[2], " ".join(words)


def _number(text: str, where: str | Path, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {what}: {text!r} is not a score") from None


def _list(path: str | Path, utterance: str, hyps: list[Hypothesis], ref: str | None) -> NBest:
    try:
        return NBest(utterance, tuple(hyps), ref)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _lists(path: str | Path, lists: dict[str, list[Hypothesis]]) -> list[NBest]:
    return [_list(path, utterance, lists[utterance], None) for utterance in sorted(lists)]

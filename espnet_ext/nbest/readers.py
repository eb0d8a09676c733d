"""N-best lists as other toolkits write them, plain or gzipped: one small function for
each format.

Scores become natural logarithms; parts that a toolkit has apart become the named
``scores`` of hypotheses.
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.tables import read_table, read_text_lines
from espnet_ext.text import formats
from espnet_ext.text.nbest import Hypothesis, NBest, join_lines, make_list, rank_lists
from espnet_ext.work.files import parse_json, refuse_twins

# Kaldi's lattices have acoustic log-likelihoods ten times as large as they should be
# beside a language model.
KALDI_ACOUSTIC_SCALE = 0.1
_LN10 = math.log(10.0)
# of SRILM's Prob.h: bytelogs are logarithms to the base 1.0001, divided by 1024
_BYTELOG = 1024 / 10000.5
_RANKED = re.compile(r"(.+)-([1-9][0-9]*)")
NEMO_BEAMS = "preds_out*.tsv"
_WIDTH = re.compile(r"_(?:width|bw|(?:beam_?)?size)_?([0-9]+)")
_RECOGS = re.compile(r"(\S+?):\t(ref|hyp)=(\[.*\])")
# below the texts, if icefall was asked for times
_TIMESTAMPS = re.compile(r"\S+:\ttimestamp_(ref|hyp)=")


def read_kaldi(path: Path) -> list[NBest]:
    """Read Kaldi's n-best lists, as ``steps/rnnlmrescore.sh`` and its like leave them,
    sorted by utterance.

    ``path`` is the folder with ``archives.<job>/{words_text,acwt,lmwt.withlm}``, or one
    of these, with ids ``<utterance>-<rank>``. Costs are negative log-probabilities; the
    acoustic one is unscaled. ``score`` is the language model's log-probability plus 0.1
    times the acoustic one; both are also ``scores``.
    """
    found: dict[str, dict[int, Hypothesis]] = {}
    for folder in (
        [path] if (path / "words_text").exists() else sorted(path.glob("archives.*"))
    ):
        texts, acoustic = read_table(folder / "words_text"), read_table(folder / "acwt")
        lm = read_table(folder / "lmwt.withlm")  # lmwt.nolm lacks the language model
        for name, table in (("acwt", acoustic), ("lmwt", lm)):
            if odd := sorted(texts.keys() ^ table.keys()):
                raise InputError(
                    f"{folder}: {odd[0]} is in only one of words_text and {name}: "
                    "make the lists again"
                )
        for key, text in texts.items():
            match = _RANKED.fullmatch(key)
            if not match:
                raise InputError(
                    f"{folder / 'words_text'}: {key} is not an id such as utt1-1, "
                    "utterance and rank"
                )
            parts = {
                "acoustic": -_parse_number(acoustic[key], folder, key),
                "lm": -_parse_number(lm[key], folder, key),
            }
            ranks = found.setdefault(match[1], {})
            if int(match[2]) in ranks:
                raise InputError(
                    f"{folder}: {key} is also in another folder: remove the stale one"
                )
            score = parts["lm"] + KALDI_ACOUSTIC_SCALE * parts["acoustic"]
            ranks[int(match[2])] = Hypothesis(join_lines(text), score, parts)
    if not found:
        raise InputError(
            f"{path}: no archives.*/words_text: make lists with lattice-to-nbest "
            "and nbest-to-linear"
        )
    return rank_lists(path, found)


def read_srilm(path: Path) -> list[NBest]:
    """Read SRILM's n-best lists, nbest-format(5), one file per utterance, whose id is
    the name without suffixes.

    Lines are ``acoustic lm words w1 w2 ...`` in log10, or Decipher's: ``NBestList1.0``
    with ``(score) w1 w2 ...`` and ``NBestList2.0`` with times after each word.
    ``score`` is the acoustic score plus the language model's.
    """
    lists: dict[str, list[Hypothesis]] = {}
    for file in [path] if path.is_file() else _list_plain_files(path):
        lines = list(read_text_lines(file))
        kind = lines[0].strip() if lines[0].startswith("NBestList") else ""
        if kind and kind not in ("NBestList1.0", "NBestList2.0"):
            raise InputError(
                f"{file}: {kind}: only NBestList1.0, NBestList2.0 and SRILM's own "
                "format are read"
            )
        name = (
            file.name.removesuffix(".gz").removesuffix(".nbest").removesuffix(".score")
        )
        if name in lists:
            raise InputError(
                f"{path}: {name} has two files, {file.name} and another one: leave one"
            )
        numbered = list(enumerate(lines, start=1))[bool(kind) :]
        lists[name] = [
            _parse_srilm_hypothesis(line, kind, file, number)
            for number, line in numbered
        ]
    return [make_list(path, name, lists[name]) for name in sorted(lists)]


def is_srilm(path: Path) -> bool:
    """Tell whether the first file of a folder begins as SRILM writes n-best lists."""
    files = _list_plain_files(path) if path.is_dir() else []
    if not files:
        return False
    try:
        first = next(read_text_lines(files[0]))
        return first.startswith("NBestList") or bool(
            _parse_srilm_hypothesis(first, "", files[0], 1)
        )
    except InputError:
        return False


def _list_plain_files(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and not file.name.startswith(".")
    )


def _parse_srilm_hypothesis(
    line: str, kind: str, file: Path, number: int
) -> Hypothesis:
    try:
        if kind:
            score, rest = re.fullmatch(r"\s*\(\s*(\S+?)\s*\)(.*)", line).groups()  # type: ignore[union-attr]
            return Hypothesis(
                _inside(re.sub(r"\([^()]*\)", " ", rest).split()),
                float(score) * _BYTELOG,
            )
        acoustic, lm, count, *words = line.split()
        parts = {
            "acoustic": float(acoustic) * _LN10,
            "lm": float(lm) * _LN10,
            "words": float(int(count)),
        }
    except (AttributeError, ValueError):
        wanted = (
            "(score) word ..."
            if kind
            else "acoustic-score lm-score number-of-words word ..."
        )
        raise InputError(
            f"{file}: line {number} is not `{wanted}` as SRILM writes it"
        ) from None
    return Hypothesis(_inside(words), parts["acoustic"] + parts["lm"], parts)


def _inside(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word not in ("<s>", "</s>"))


def read_nemo(path: Path) -> list[NBest]:
    """Read NeMo's beams, in the manifest's order, with its references.

    The id is the name of the audio file. ``eval_beamsearch_ngram_*.py`` writes
    ``preds_out_width<n>_....tsv`` or, for transducers,
    ``preds_out_<search>_bw<n>_....tsv`` (``path``, or its folder): at most n lines
    ``text<TAB>score`` per utterance of the one manifest (``.json``, with
    ``audio_filepath`` and ``text``) that lies beside it. Costs, which rise within a
    list, become log-probabilities. Raises InputError: no width in the name, or nothing
    says where a list ends.
    """
    beams = (
        path
        if path.is_file()
        else _find_only(path, NEMO_BEAMS, "beams, one file per folder")
    )
    manifest = _find_only(beams.parent, "*.json", "manifest beside the beams")
    lines, records = list(read_text_lines(beams)), formats.read_nemo(manifest)
    match = _WIDTH.search(beams.name)
    if match is None:
        raise InputError(
            f"{beams}: its name has no width, such as width8 or bw8: rename it as NeMo "
            "does"
        )
    rows = [
        _parse_nemo_line(line, beams, number) for number, line in enumerate(lines, 1)
    ]
    sizes, sign = _measure_nemo_lists(rows, int(match[1]), len(records), beams)
    if sign < 0:
        warn(f"{beams}: its scores rise within lists: read as costs")
    lists = []
    first = 0
    for (name, ref), size in zip(records.items(), sizes, strict=True):
        hyps = [
            Hypothesis(text, sign * score) for text, score in rows[first : first + size]
        ]
        lists.append(make_list(beams, name.replace(" ", "_"), hyps, ref))
        first += size
    return lists


def _parse_nemo_line(line: str, beams: Path, number: int) -> tuple[str, float]:
    text, tab, score = line.rpartition("\t")
    if not tab:
        raise InputError(
            f"{beams}: line {number} is not text and score with a tab between them"
        )
    return join_lines(text), _parse_number(score, beams, f"line {number}")


def _measure_nemo_lists(
    rows: Sequence[tuple[str, float]], width: int, number: int, beams: Path
) -> tuple[list[int], int]:
    """Return the lengths of the lists, and -1 where their scores are costs.

    Lists are sorted, best first. So if some have fewer hypotheses than the beam's
    width, a new one begins where scores do not go on as within a list; that is certain
    only if there are as many such places as utterances.
    """
    scores = [score for _, score in rows]
    if len(rows) == width * number:
        lists = [scores[first : first + width] for first in range(0, len(rows), width)]
        for sign in (1, -1):
            if all(_falls([sign * score for score in each]) for each in lists):
                return [width] * number, sign
        raise InputError(
            f"{beams}: within its lists scores neither fall nor rise, so they may be "
            "costs or log-probabilities: write the lists as JSONL"
        )
    for sign in (1, -1):
        sizes = _measure_falling_runs([sign * score for score in scores])
        if len(sizes) == number and max(sizes) <= width:
            return sizes, sign
    raise InputError(
        f"{beams}: {len(rows)} lines are not {width} for each of {number} utterances: "
        "is it the manifest that was decoded? If it is, a beam ended with fewer "
        "hypotheses, and nothing says which: decode with a smaller beam_width, or "
        "write the lists as JSONL"
    )


def _falls(scores: Sequence[float]) -> bool:
    return all(later <= score for score, later in pairwise(scores))


def _measure_falling_runs(scores: Sequence[float]) -> list[int]:
    """Return the lengths of stretches in which scores fall."""
    sizes = [1]
    for score, later in pairwise(scores):
        if later <= score:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes


def _find_only(folder: Path, pattern: str, what: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        advice = f"; of several, name one, as {files[0]}" if files else ""
        raise InputError(
            f"{folder}: {len(files)} files {pattern}, but one is needed: the "
            f"{what}{advice}"
        )
    return files[0]


def read_wenet(path: Path) -> list[NBest]:
    """Read the output of WeNet's ``decoder_main --output_nbest``, in the file's order.

    Lines are ``wav <utterance>``, then ``candidate <score> <text>``. An utterance
    without candidates, since WeNet leaves out empty ones, gets one empty hypothesis.
    """
    lists: dict[str, list[Hypothesis]] = {}
    current = ""
    for number, line in enumerate(read_text_lines(path), start=1):
        word, _, rest = line.partition(" ")
        if not line.strip():
            continue
        if word == "wav" and rest.strip() and rest.strip() not in lists:
            current = rest.strip()
            lists[current] = []
        elif word == "candidate" and current:
            score, _, text = rest.partition(" ")
            lists[current].append(
                Hypothesis(
                    join_lines(text), _parse_number(score, path, f"line {number}")
                )
            )
        else:
            raise InputError(
                f"{path}: line {number} is not a new `wav UTTERANCE` or "
                "`candidate SCORE TEXT`"
            )
    return [
        make_list(path, name, hyps or [Hypothesis("", 0.0)])
        for name, hyps in lists.items()
    ]


def read_icefall(path: Path) -> list[NBest]:
    """Read icefall's ``recogs-*.txt``, sorted by cut, with references.

    They have no scores: all are 0. Lines are ``<cut>:<TAB>ref=[...]`` and
    ``hyp=[...]``. Of a folder, with a file for each way of decoding, a text that
    several have is one hypothesis.
    """
    references: dict[str, str] = {}
    found: dict[str, dict[str, Hypothesis]] = {}
    decoded: dict[Path, set[str]] = {}
    for file in [path] if path.is_file() else sorted(path.glob("recogs-*.txt*")):
        own: set[tuple[str, str]] = set()
        for number, cut, what, text in _read_recogs(file):
            if (cut, what) in own:
                raise InputError(
                    f"{file}: line {number}: {cut} comes twice in this decoding"
                )
            own.add((cut, what))
            if what == "hyp":
                found.setdefault(cut, {}).setdefault(text, Hypothesis(text, 0.0))
            elif references.setdefault(cut, text) != text:
                raise InputError(
                    f"{file}: line {number}: {cut} has another reference than before"
                )
        decoded[file] = {cut for cut, _ in own}
    for file, cuts in decoded.items():
        if odd := sorted(references.keys() - cuts):
            raise InputError(
                f"{file}: lacks {odd[0]}, which another decoding has: was it cut "
                "short, or is it of another set? Then "
                "give the files of one set alone"
            )
    if odd := sorted(references.keys() ^ found.keys()):
        raise InputError(
            f"{path}: {odd[0]} has no reference or no hypothesis: was the file "
            "cut short?"
        )
    return [
        make_list(path, cut, list(found[cut].values()), references[cut])
        for cut in sorted(found)
    ]


def _read_recogs(file: Path) -> Iterator[tuple[int, str, str, str]]:
    """Return the number of the line, cut, ref or hyp, and words."""
    for number, line in enumerate(read_text_lines(file), start=1):
        if _TIMESTAMPS.match(line):
            continue
        match = _RECOGS.fullmatch(line)
        try:
            words = ast.literal_eval(match[3]) if match else None
        except (ValueError, SyntaxError):
            words = None
        if (
            match is None
            or not isinstance(words, list)
            or not all(isinstance(word, str) for word in words)
        ):
            raise InputError(
                f"{file}: line {number} is not `CUT:<TAB>ref=[...]` or "
                "`hyp=[...]` as icefall writes it"
            )
        yield number, match[1], match[2], " ".join(words)


def is_whisper(path: Path) -> bool:
    """Tell whether a file, or a file of a folder or of its folders, is such as Whisper
    writes.

    ``[]``, of a silent recording, may be other JSON, too: it counts if there is nothing
    else.
    """
    records = []
    for file in (
        [path]
        if path.is_file()
        else sorted([*path.glob("*.json"), *path.glob("*/*.json")])
    ):
        if file.suffix == ".json":
            try:
                records.append(_read_json(file))
            except InputError:
                records.append(None)
    if any(record and _segments(record) is not None for record in records):
        return True
    return bool(records) and all(record == [] for record in records)


def read_whisper(path: Path) -> list[NBest]:
    """Read the JSON of ``whisper --output_format json`` or of faster-whisper, sorted by
    recording.

    ``path`` is a file, a folder with a file per recording, or a folder of such folders,
    one for each decoding, whose texts of a recording are its hypotheses, best first. A
    recording's id is the name of its file, with ``_`` for blanks. ``avg_logprob`` is
    that of a window of 30 s, whose segments have the same ``seek``: the sum over its
    tokens and the end token, divided by their number. It is multiplied by that number
    again, so that the score is a log-probability.
    """
    if not path.exists():
        raise InputError(
            f"{path}: no such file or folder: give what whisper --output_format "
            "json has written"
        )
    alone = path.is_file() or any(path.glob("*.json"))
    decodings: dict[Path, dict[str, Hypothesis]] = {}
    for folder in (
        [path] if alone else sorted({file.parent for file in path.glob("*/*.json")})
    ):
        own = decodings.setdefault(folder, {})
        for file in [folder] if folder.is_file() else sorted(folder.glob("*.json")):
            name = "_".join(file.stem.split())
            if name in own:
                raise InputError(
                    f"{file}: another file has this name but for blanks: rename one"
                )
            own[name] = _read_whisper_hypothesis(file)
    first: dict[str, Hypothesis] = next(iter(decodings.values()), {})
    for folder, own in decodings.items():
        if odd := sorted(own.keys() ^ first.keys()):
            raise InputError(
                f"{folder}: {odd[0]} is not in all of the decodings: transcribe "
                "it with each of them"
            )
    if not first:
        raise InputError(
            f"{path}: no JSON of recordings: transcribe with --output_format json"
        )
    lists = []
    for name in sorted(first):
        # no segments have no score: 0 would be the highest
        hyps = sorted(
            (own[name] for own in decodings.values()),
            key=lambda hyp: (not hyp.text, -hyp.score),
        )
        lists.append(make_list(path, name, hyps))
    return lists


def _segments(record: Any) -> list[dict[str, Any]] | None:
    segments = record.get("segments") if isinstance(record, dict) else record
    fits = isinstance(segments, list) and all(
        isinstance(segment, dict) and isinstance(segment.get("text"), str)
        for segment in segments
    )
    return segments if fits else None


def _read_whisper_hypothesis(path: Path) -> Hypothesis:
    segments = _segments(_read_json(path))
    if segments is None:
        raise InputError(
            f"{path}: no segments with text: is it JSON of whisper or faster-whisper?"
        )
    tokens: dict[Any, int] = {}
    means: dict[Any, float] = {}
    for number, segment in enumerate(segments, start=1):
        try:
            window = segment["seek"]
            tokens[window] = tokens.get(window, 0) + len(segment["tokens"])
            means[window] = float(segment["avg_logprob"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}: segment {number} lacks seek, tokens or avg_logprob "
                f"({error!r})"
            ) from None
    score = sum(means[window] * (tokens[window] + 1) for window in means)
    return Hypothesis(
        join_lines(" ".join(segment["text"] for segment in segments)), score
    )


def _read_json(path: Path) -> Any:
    """Read a JSON file.

    A key that comes twice in an object is refused, since Python would take the last in
    silence.
    """
    try:
        return parse_json("\n".join(read_text_lines(path)), refuse_twins)
    except ValueError as error:
        raise InputError(
            f"{path}: not JSON ({error}); name a file with one N-best list per "
            "line .jsonl"
        ) from None
    except InputError as error:
        message = str(error)
        raise InputError(
            message if message.startswith(str(path)) else f"{path}: {message}"
        ) from None


def _parse_number(text: str, where: Path, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {what}: {text!r} is not a score") from None

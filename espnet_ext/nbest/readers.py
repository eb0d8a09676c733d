"""Read N-best lists as other toolkits write them, plain or gzipped.

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
# Of SRILM's Prob.h: bytelogs are logarithms to the base 1.0001, divided by 1024, and
# the natural logarithm of 1.0001 is 1 / 10000.5.
_BYTELOG = 1024 / 10000.5
# Kaldi's lattice-to-nbest numbers the hypotheses of utt1 as utt1-1, utt1-2 ...
_RANKED = re.compile(r"(.+)-([1-9][0-9]*)")
NEMO_BEAMS = "preds_out*.tsv"
# The width of a beam in names of NeMo's files: _width8_alpha..., _maes_bw8_ma2_...
_WIDTH = re.compile(r"_(?:width|bw|(?:beam_?)?size)_?([0-9]+)")
_RECOGS = re.compile(r"(\S+?):\t(ref|hyp)=(\[.*\])")
# Lines below the texts, if icefall was asked for times.
_TIMESTAMPS = re.compile(r"\S+:\ttimestamp_(ref|hyp)=")


def read_kaldi(path: Path) -> list[NBest]:
    """Read Kaldi's n-best lists, as ``steps/rnnlmrescore.sh`` and its like leave them.

    Lists are sorted by utterance. ``path`` is the folder with
    ``archives.<job>/{words_text,acwt,lmwt.withlm}``, or one of these, with ids
    ``<utterance>-<rank>``. Costs are negative log-probabilities; the acoustic one is
    unscaled. ``score`` is the language model's log-probability plus 0.1 times the
    acoustic one; both are also ``scores``.
    """
    found: dict[str, dict[int, Hypothesis]] = {}
    is_one_job = (path / "words_text").exists()
    folders = [path] if is_one_job else sorted(path.glob("archives.*"))
    for folder in folders:
        for key, hypothesis in _read_kaldi_job(folder).items():
            match = _RANKED.fullmatch(key)
            if not match:
                raise InputError(
                    f"{folder / 'words_text'}: {key} is not an id such as utt1-1, "
                    "utterance and rank"
                )
            ranks = found.setdefault(match[1], {})
            rank = int(match[2])
            if rank in ranks:
                raise InputError(
                    f"{folder}: {key} is also in another folder: remove the stale one"
                )
            ranks[rank] = hypothesis
    if not found:
        raise InputError(
            f"{path}: no archives.*/words_text: make lists with lattice-to-nbest "
            "and nbest-to-linear"
        )
    return rank_lists(path, found)


def _read_kaldi_job(folder: Path) -> dict[str, Hypothesis]:
    """Read the hypotheses of one job by their ids, ``<utterance>-<rank>``."""
    texts = read_table(folder / "words_text")
    acoustic = read_table(folder / "acwt")
    lm = read_table(folder / "lmwt.withlm")  # lmwt.nolm lacks the language model
    for name, table in (("acwt", acoustic), ("lmwt", lm)):
        if odd := sorted(texts.keys() ^ table.keys()):
            raise InputError(
                f"{folder}: {odd[0]} is in only one of words_text and {name}: "
                "make the lists again"
            )
    hypotheses = {}
    for key, text in texts.items():
        parts = {
            "acoustic": -_parse_number(acoustic[key], folder, key),
            "lm": -_parse_number(lm[key], folder, key),
        }
        score = parts["lm"] + KALDI_ACOUSTIC_SCALE * parts["acoustic"]
        hypotheses[key] = Hypothesis(join_lines(text), score, parts)
    return hypotheses


def read_srilm(path: Path) -> list[NBest]:
    """Read SRILM's n-best lists, nbest-format(5), one file per utterance.

    An id is a file's name without suffixes. Lines are ``acoustic lm words w1 w2 ...``
    in log10, or Decipher's: ``NBestList1.0`` with ``(score) w1 w2 ...`` and
    ``NBestList2.0`` with times after each word. ``score`` is the acoustic score plus
    the language model's.
    """
    lists: dict[str, list[Hypothesis]] = {}
    files = [path] if path.is_file() else _list_plain_files(path)
    for file in files:
        lines = list(read_text_lines(file))
        has_header = lines[0].startswith("NBestList")
        kind = lines[0].strip() if has_header else ""
        if kind and kind not in ("NBestList1.0", "NBestList2.0"):
            raise InputError(
                f"{file}: {kind}: only NBestList1.0, NBestList2.0 and SRILM's own "
                "format are read"
            )
        name = file.name
        # In this order: a file may be called utt1.score.nbest.gz.
        for suffix in (".gz", ".nbest", ".score"):
            name = name.removesuffix(suffix)
        if name in lists:
            raise InputError(
                f"{path}: {name} has two files, {file.name} and another one: leave one"
            )
        lists[name] = [
            _parse_srilm_hypothesis(line, kind, file, number)
            for number, line in enumerate(lines, start=1)
            if not (has_header and number == 1)
        ]
    return [make_list(path, name, lists[name]) for name in sorted(lists)]


def is_srilm(path: Path) -> bool:
    """Tell whether the first file of a folder begins as SRILM writes n-best lists."""
    files = _list_plain_files(path) if path.is_dir() else []
    if not files:
        return False
    try:
        first = next(read_text_lines(files[0]))
        if not first.startswith("NBestList"):
            _parse_srilm_hypothesis(first, "", files[0], 1)
    except InputError:
        return False
    return True


def _list_plain_files(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and not file.name.startswith(".")
    )


def _parse_srilm_hypothesis(
    line: str, kind: str, file: Path, number: int
) -> Hypothesis:
    wanted = "acoustic-score lm-score number-of-words word ..."
    parse = _parse_srilm_line
    if kind:
        wanted = "(score) word ..."
        parse = _parse_decipher_line
    try:
        return parse(line)
    except ValueError:
        raise InputError(
            f"{file}: line {number} is not `{wanted}` as SRILM writes it"
        ) from None


def _parse_srilm_line(line: str) -> Hypothesis:
    """Parse ``acoustic lm words w1 w2 ...``; ValueError for anything else."""
    acoustic, lm, count, *words = line.split()
    parts = {
        "acoustic": float(acoustic) * _LN10,
        "lm": float(lm) * _LN10,
        # No logarithm: what a weight of it adds is a word insertion penalty.
        "words": float(int(count)),
    }
    return Hypothesis(_join_words(words), parts["acoustic"] + parts["lm"], parts)


def _parse_decipher_line(line: str) -> Hypothesis:
    """Parse ``(score) w1 w2 ...``, with or without times; ValueError otherwise."""
    match = re.fullmatch(r"\s*\(\s*(\S+?)\s*\)(.*)", line)
    if match is None:
        raise ValueError("no score in brackets")
    score, rest = match.groups()
    # NBestList2.0 has times and scores in brackets after each word.
    words = re.sub(r"\([^()]*\)", " ", rest).split()
    return Hypothesis(_join_words(words), float(score) * _BYTELOG)


def _join_words(words: Iterable[str]) -> str:
    """Join words without the marks of a sentence's begin and end."""
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
    beams = path
    if not path.is_file():
        beams = _find_only_file(path, NEMO_BEAMS, "beams, one file per folder")
    manifest = _find_only_file(beams.parent, "*.json", "manifest beside the beams")
    records = formats.read_nemo(manifest)
    lines = list(read_text_lines(beams))
    match = _WIDTH.search(beams.name)
    if match is None:
        raise InputError(
            f"{beams}: its name has no width, such as width8 or bw8: rename it as NeMo "
            "does"
        )
    rows = [
        _parse_nemo_line(line, beams, number) for number, line in enumerate(lines, 1)
    ]
    width = int(match[1])
    # A file has texts and scores alone: nothing says where a list begins.
    sizes, sign = _measure_nemo_lists(rows, width, len(records), beams)
    if sign < 0:
        warn(f"{beams}: its scores rise within lists: read as costs")
    lists = []
    first = 0
    for (name, ref), size in zip(records.items(), sizes, strict=True):
        own = rows[first : first + size]
        hyps = [Hypothesis(text, sign * score) for text, score in own]
        # A file's name may have blanks, which an id may not.
        utterance = name.replace(" ", "_")
        lists.append(make_list(beams, utterance, hyps, ref))
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
        # Log-probabilities first: a list of equal scores may be either.
        for sign in (1, -1):
            signed = [[sign * score for score in each] for each in lists]
            if all(map(_is_falling, signed)):
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


def _is_falling(scores: Sequence[float]) -> bool:
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


def _find_only_file(folder: Path, pattern: str, what: str) -> Path:
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
            number_text, _, text = rest.partition(" ")
            score = _parse_number(number_text, path, f"line {number}")
            lists[current].append(Hypothesis(join_lines(text), score))
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
    files = [path] if path.is_file() else sorted(path.glob("recogs-*.txt*"))
    for file in files:
        own: set[tuple[str, str]] = set()
        for number, cut, what, text in _read_recogs(file):
            if (cut, what) in own:
                raise InputError(
                    f"{file}: line {number}: {cut} comes twice in this decoding"
                )
            own.add((cut, what))
            # setdefault keeps what came first: of equal texts the first decoding's, of
            # references the one that all others must agree with.
            if what == "hyp":
                found.setdefault(cut, {}).setdefault(text, Hypothesis(text, 0.0))
            elif references.setdefault(cut, text) != text:
                raise InputError(
                    f"{file}: line {number}: {cut} has another reference than before"
                )
        decoded[file] = {cut for cut, _ in own}
    # Lists of fewer decodings than others would have fewer hypotheses to choose from.
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
    """Yield the number of each line of text, its cut, ``ref`` or ``hyp``, and words."""
    for number, line in enumerate(read_text_lines(file), start=1):
        if _TIMESTAMPS.match(line):
            continue
        match = _RECOGS.fullmatch(line)
        words = _parse_python_list(match[3]) if match else None
        if match is None or words is None:
            raise InputError(
                f"{file}: line {number} is not `CUT:<TAB>ref=[...]` or "
                "`hyp=[...]` as icefall writes it"
            )
        yield number, match[1], match[2], " ".join(words)


def _parse_python_list(text: str) -> list[str] | None:
    """Return the words of a printed list, which icefall's files hold; None if not one.

    ``literal_eval`` reads values and runs nothing.
    """
    try:
        words = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    fits = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if fits else None


def is_whisper(path: Path) -> bool:
    """Tell whether a file, or one in a folder or below it, is such as Whisper writes.

    ``[]``, of a silent recording, may be other JSON, too: it counts if there is nothing
    else.
    """
    records = []
    files = [path]
    if not path.is_file():
        files = sorted([*path.glob("*.json"), *path.glob("*/*.json")])
    for file in files:
        if file.suffix == ".json":
            try:
                records.append(_read_json(file))
            except InputError:
                records.append(None)
    if any(record and _find_segments(record) is not None for record in records):
        return True
    return bool(records) and all(record == [] for record in records)


def read_whisper(path: Path) -> list[NBest]:
    """Read the JSON of ``whisper --output_format json`` or of faster-whisper.

    Lists are sorted by recording. ``path`` is a file, a folder with a file per
    recording, or a folder of such folders, one for each decoding, whose texts of a
    recording are its hypotheses, best first. A recording's id is the name of its file,
    with ``_`` for blanks. ``avg_logprob`` is that of a window of 30 s, whose segments
    have the same ``seek``: the sum over its tokens and the end token, divided by their
    number. It is multiplied by that number again, so that the score is a
    log-probability.
    """
    if not path.exists():
        raise InputError(
            f"{path}: no such file or folder: give what whisper --output_format "
            "json has written"
        )
    is_one_decoding = path.is_file() or any(path.glob("*.json"))
    folders = [path]
    if not is_one_decoding:
        folders = sorted({file.parent for file in path.glob("*/*.json")})
    decodings = {folder: _read_whisper_decoding(folder) for folder in folders}
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
        hyps = [own[name] for own in decodings.values()]
        hyps.sort(key=_rank_whisper_hypothesis)
        lists.append(make_list(path, name, hyps))
    return lists


def _rank_whisper_hypothesis(hyp: Hypothesis) -> tuple[bool, float]:
    """Return what hypotheses are sorted by: the highest score first.

    Without segments there is no score, and its 0 would be the highest: such are last.
    """
    return not hyp.text, -hyp.score


def _read_whisper_decoding(path: Path) -> dict[str, Hypothesis]:
    """Read a file, or the files of a folder, by recording."""
    files = [path] if path.is_file() else sorted(path.glob("*.json"))
    found: dict[str, Hypothesis] = {}
    for file in files:
        name = "_".join(file.stem.split())  # an id holds no white space
        if name in found:
            raise InputError(
                f"{file}: another file has this name but for blanks: rename one"
            )
        found[name] = _read_whisper_hypothesis(file)
    return found


def _find_segments(record: Any) -> list[dict[str, Any]] | None:
    """Return the segments in JSON: those of an object, or a list of them alone."""
    segments = record.get("segments") if isinstance(record, dict) else record
    fits = isinstance(segments, list) and all(
        isinstance(segment, dict) and isinstance(segment.get("text"), str)
        for segment in segments
    )
    return segments if fits else None


def _read_whisper_hypothesis(path: Path) -> Hypothesis:
    segments = _find_segments(_read_json(path))
    if segments is None:
        raise InputError(
            f"{path}: no segments with text: is it JSON of whisper or faster-whisper?"
        )
    # Segments of one window of 30 s have the same ``seek`` and the same mean, which is
    # that of all its tokens: their number is needed, and the mean once.
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
    # Whisper divides by one more: the end token, which segments leave out.
    score = sum(means[window] * (tokens[window] + 1) for window in means)
    text = " ".join(segment["text"] for segment in segments)
    return Hypothesis(join_lines(text), score)


def _read_json(path: Path) -> Any:
    """Read a JSON file; InputError if it is not JSON, or an object has a key twice."""
    try:
        # refuse_twins, since Python would take the last of equal keys in silence.
        return parse_json("\n".join(read_text_lines(path)), refuse_twins)
    except ValueError as error:
        raise InputError(
            f"{path}: not JSON ({error}); name a file with one N-best list per "
            "line .jsonl"
        ) from None
    except InputError as error:
        # Of a key that comes twice, the message does not name the file.
        message = str(error)
        if not message.startswith(str(path)):
            message = f"{path}: {message}"
        raise InputError(message) from None


def _parse_number(text: str, where: Path, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {what}: {text!r} is not a score") from None

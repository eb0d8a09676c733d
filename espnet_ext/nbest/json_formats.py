"""N-best lists from JSON of other tools: masked-LM-scoring tools, Whisper and faster-whisper.

Masked-LM-scoring tools (Shin et al. 2019; Salazar et al. 2020, P3's [2] and [4]) write one object for a set::

    {"1-2-3": {"ref": "the cat", "hyp_1": {"score": -1.5, "text": "the cat"}, "hyp_2": ...}, ...}

The hypotheses are ranked by their number. ``ref`` may be absent. Those tools work without scores; a second pass does
not.

``whisper --output_format json`` writes ``<recording>.json`` with one transcript, and so do programs around
faster-whisper (a list of its segments, or an object with ``segments``)::

    {"text": " The cat.", "segments": [{"seek": 0, "text": " The cat.", "tokens": [440, 3857], "avg_logprob": -0.2}]}

One decoding is a list of one hypothesis. Several, such as by several models or temperatures, lie in folders of their
own; their texts of a recording are its hypotheses, best first. ``avg_logprob`` is that of a window of 30 s, whose
segments have the same ``seek``: the sum over its tokens and the end token, divided by their number. It is multiplied
by that number again, so that the score is a log-probability.
"""

import re
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import unpacked_lines
from espnet_ext.nbest.lists import Hypothesis, NBest, hypothesis_of, one_line
from espnet_ext.work.json_text import parse_json, refuse_twins

_HYPOTHESIS = re.compile(r"hyp_([1-9][0-9]{0,8})")


def read_json(path: Path) -> Any:
    """A JSON file; a key that comes twice in an object is refused, since Python would keep the last in silence.

    Raises:
        InputError: the file is missing, empty or not JSON.
    """
    try:
        return parse_json("\n".join(unpacked_lines(path)), refuse_twins)
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); name a file with one N-best list per line .jsonl") from None
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from None


def read_mlm_scoring(path: str | Path) -> list[NBest]:
    """Read the JSON of a masked-LM-scoring tool, sorted by utterance.

    Raises:
        InputError: the file is missing, empty or not such JSON; an utterance comes twice, or has a key that is neither
            ``ref`` nor ``hyp_<number>``; what :class:`espnet_ext.nbest.lists.NBest` refuses.
    """
    records = read_json(Path(path))
    if not isinstance(records, dict) or not records:
        raise InputError(
            f"{path}: no object of utterances, as masked-LM-scoring tools write: name a file with one N-best list per "
            "line .jsonl"
        )
    try:
        return [_from_record(utterance, records[utterance]) for utterance in sorted(records)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _from_record(utterance: str, record: Any) -> NBest:
    if not isinstance(record, dict):
        raise InputError(f"{utterance}: not an object with ref and hyp_1, hyp_2 ...")
    ranked: dict[int, Any] = {}
    for key, value in record.items():
        match = _HYPOTHESIS.fullmatch(key)
        if match:
            ranked[int(match[1])] = value
        elif key != "ref":
            raise InputError(f"{utterance}: {key!r} is neither ref nor hyp_<number>")
    if sorted(ranked) != list(range(1, len(ranked) + 1)):
        raise InputError(f"{utterance}: its hypotheses are {sorted(ranked)}, not 1 to {len(ranked)}")
    ref = record.get("ref")
    if not (ref is None or isinstance(ref, str)):
        raise InputError(f"{utterance}: ref must be a text or null")
    return NBest(
        utterance, tuple(hypothesis_of(utterance, rank, ranked[rank]) for rank in sorted(ranked)), one_line(ref)
    )


def is_whisper(path: Path) -> bool:
    """Whether a file, or a file of a folder or of its folders, is such as Whisper writes."""
    files = [path] if path.is_file() else sorted([*path.glob("*.json"), *path.glob("*/*.json")])
    kinds = {_is_whisper(file) for file in files if file.suffix == ".json"}
    return True in kinds or kinds == {None}


def _is_whisper(file: Path) -> bool | None:
    """None of a silent recording, ``[]``, which may be other JSON, too."""
    try:
        record = read_json(file)
    except InputError:
        return False
    return None if record == [] else _segments_of(record) is not None


def read_whisper(path: str | Path) -> list[NBest]:
    """Read the JSON of Whisper or faster-whisper, sorted by recording; a recording's id is the name of its file, with
    ``_`` for blanks.

    Args:
        path: a file; a folder with a file per recording; or a folder of such folders, one for each decoding.

    Raises:
        InputError: a file is missing, or not such JSON; a decoding lacks a recording that another has.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder: give what whisper --output_format json has written")
    alone = path.is_file() or any(path.glob("*.json"))
    folders = [path] if alone else sorted({file.parent for file in path.glob("*/*.json")})
    decodings = []
    for folder in folders:
        files = [folder] if folder.is_file() else sorted(folder.glob("*.json"))
        names = {"_".join(file.stem.split()): file for file in files}
        if len(names) < len(files):
            twin = next(file for file in files if file not in names.values())
            raise InputError(f"{twin}: another file has this name but for blanks: rename one")
        decodings.append({name: _whisper_hypothesis(file) for name, file in names.items()})
    for folder, decoding in zip(folders, decodings, strict=True):
        if odd := sorted(decoding.keys() ^ decodings[0].keys()):
            raise InputError(f"{folder}: {odd[0]} is not in all of the decodings: transcribe it with each of them")
    if not decodings or not decodings[0]:
        raise InputError(f"{path}: no JSON of recordings: transcribe with --output_format json")
    lists = []
    for name in sorted(decodings[0]):
        # no segments have no score: 0 would be the highest
        hyps = sorted((decoding[name] for decoding in decodings), key=lambda hyp: (not hyp.text, -hyp.score))
        try:
            lists.append(NBest(name, tuple(hyps)))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return lists


def _segments_of(record: Any) -> list[dict[str, Any]] | None:
    segments = record.get("segments") if isinstance(record, dict) else record
    fits = isinstance(segments, list) and all(
        isinstance(segment, dict) and isinstance(segment.get("text"), str) for segment in segments
    )
    return segments if fits else None


def _whisper_hypothesis(path: Path) -> Hypothesis:
    segments = _segments_of(read_json(path))
    if segments is None:
        raise InputError(f"{path}: no segments with text: is it JSON of whisper or faster-whisper?")
    tokens: dict[Any, int] = {}
    means: dict[Any, float] = {}
    for number, segment in enumerate(segments, start=1):
        try:
            window = segment["seek"]
            tokens[window] = tokens.get(window, 0) + len(segment["tokens"])
            means[window] = float(segment["avg_logprob"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: segment {number} lacks seek, tokens or avg_logprob ({error!r})") from None
    score = sum(means[window] * (tokens[window] + 1) for window in means)
    return Hypothesis(" ".join(" ".join(segment["text"] for segment in segments).split()), score)

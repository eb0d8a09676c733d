"""Scores of language models that are kept in a file for each model, and used again.

A score depends on the text alone. So another weight, another depth or other parts of
the first pass need no forward pass for a text that has been scored, and a scoring that
was killed resumes after its last block.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import FiniteFloat

from espnet_ext.errors import InputError
from espnet_ext.rescore.devices import is_main
from espnet_ext.text.nbest import NBest
from espnet_ext.work.settings import StrictMapping

# New scores of each hypothesis of each list, in the order given.
ListScorer = Callable[[Sequence[NBest]], list[list[float]]]
LISTS_PER_BLOCK = 64  # lists between two writes: at most so much work is lost
PROGRESS_SECONDS = 30.0  # between lines in the log
NAME_LENGTH = 16  # hexadecimal digits in the name of a model's file


class _Line(StrictMapping):
    """A line of a file of kept scores, after the first."""

    text: str
    score: FiniteFloat


@dataclass(frozen=True)
class Scoring:
    """What a score depends on besides the text, and how to compute one."""

    label: str  # what the log calls it
    identity: Mapping[str, Any]  # for people, and for the name of the file
    load: Callable[[], ListScorer]  # called when the first text lacks a score


class KeptScores:
    """Keep the scores of a model by text, in a file of its own in ``folder``.

    The file grows by whole lines, under a lock: several runs may share a folder. What
    a killed one has left of its last line is removed. Raises InputError: a line that is
    no score.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        content = json.dumps(identity, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        self.path = folder / f"{digest[:NAME_LENGTH]}.jsonl"
        self.by_text: dict[str, float] = {}
        self._first_line = content  # for people, since the name says nothing
        self._lock = FileLock(f"{self.path}.lock")
        if is_main():
            self._open_file()
        else:
            self._read_file()

    def _open_file(self) -> None:
        """Read the file, or begin it; remove a last line that was not written whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            length = self._read_file()
            with open(self.path, "ab") as file:
                file.truncate(length)
                if not length:
                    file.write(f"{self._first_line}\n".encode())

    def _read_file(self) -> int:
        """Read all whole lines, and return their length in bytes; 0: there is none."""
        length = 0
        if not self.path.exists():
            return length
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                if number > 1:
                    self._read_line(line, number)
                length += len(line)
        return length

    def _read_line(self, line: bytes, number: int) -> None:
        try:
            found = _Line.model_validate_json(line)
        except ValueError as error:
            raise InputError(
                f"{self.path}: line {number} is no kept score: delete the file to "
                "score its texts again"
            ) from error
        self.by_text[found.text] = found.score

    def add(self, lists: Sequence[NBest], scores: Sequence[Sequence[float]]) -> None:
        """Keep the scores of all hypotheses of some lists."""
        lines = []
        for nbest, scores_of_list in zip(lists, scores, strict=True):
            for hyp, score in zip(nbest.hyps, scores_of_list, strict=True):
                self.by_text[hyp.text] = score
                line = {"text": hyp.text, "score": score}
                lines.append(json.dumps(line, ensure_ascii=False, allow_nan=False))
        # Several processes all have the same scores; one of them writes these, at once:
        # if it is killed, at most the last line is broken.
        if is_main():
            with self._lock, open(self.path, "a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))

    def look_up(self, lists: Sequence[NBest]) -> list[list[float]]:
        """Return the scores of all hypotheses of lists, all of which are kept."""
        return [[self.by_text[hyp.text] for hyp in nbest.hyps] for nbest in lists]

    def count_complete(self, lists: Sequence[NBest]) -> int:
        """Count the lists of which no hypothesis lacks a score."""
        return sum(
            all(hyp.text in self.by_text for hyp in nbest.hyps) for nbest in lists
        )

    def find_missing(self, lists: Sequence[NBest]) -> list[NBest]:
        """Return the hypotheses that lack a score, each text once, in their lists.

        A list that has all its scores is left out.
        """
        found: set[str] = set()
        missing = []
        for nbest in lists:
            hyps = []
            for hyp in nbest.hyps:
                if hyp.text not in self.by_text and hyp.text not in found:
                    hyps.append(hyp)
                    found.add(hyp.text)
            if hyps:
                missing.append(replace(nbest, hyps=tuple(hyps)))
        return missing


def make_keeping_scorer(
    scoring: Scoring, folder: Path, log: Callable[[str], None]
) -> ListScorer:
    """Return a function that scores lists by a model, and keeps scores in ``folder``.

    It takes what is kept there, keeps what is new, and says how far it is.
    """
    kept = KeptScores(folder, scoring.identity)
    model: ListScorer | None = None

    def score(lists: Sequence[NBest]) -> list[list[float]]:
        nonlocal model
        complete = kept.count_complete(lists)
        if complete:
            log(
                f"{scoring.label}: {complete} of {len(lists)} lists have all their "
                f"scores in {kept.path}"
            )
        missing = kept.find_missing(lists)
        if not missing:
            return kept.look_up(lists)
        if model is None:
            model = scoring.load()
        for block in yield_blocks(missing, scoring.label, log):
            kept.add(block, model(block))
        return kept.look_up(lists)

    return score


def yield_blocks(
    lists: Sequence[NBest], label: str, log: Callable[[str], None]
) -> Iterator[Sequence[NBest]]:
    """Yield lists in blocks, and log now and then how long the rest will take."""
    began = time.monotonic()
    last_log = began
    for start in range(0, len(lists), LISTS_PER_BLOCK):
        now = time.monotonic()
        if start and now - last_log >= PROGRESS_SECONDS:
            last_log = now
            seconds_per_list = (now - began) / start
            minutes = seconds_per_list * (len(lists) - start) / 60
            log(
                f"{label}: {start} of {len(lists)} lists scored "
                f"({100 * start / len(lists):.0f} %), {minutes:.0f} min left"
            )
        yield lists[start : start + LISTS_PER_BLOCK]


def identify_model(path: str | Path) -> str:
    """Return what tells a model from all others.

    It is a hash of the contents of its folder or file, or the commit of its name on the
    hub.
    """
    path = Path(path)
    if path.is_file():
        return _hash_files([path])
    if path.is_dir():
        return _hash_files(sorted(each for each in path.iterdir() if each.is_file()))
    # Here, not above: transformers takes seconds to import.
    from espnet_ext.rescore.models.language_model import read_config

    commit = getattr(read_config(str(path)), "_commit_hash", None)
    return f"{path}@{commit}"


def _hash_files(paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.name} {content}\n".encode())
    return total.hexdigest()

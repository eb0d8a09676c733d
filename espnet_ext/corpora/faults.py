"""The faults of a corpus: all written to a file; then refused, or left out up to a share that the user allows."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write, files_below

SHARE = 0.02  # of a part's utterances, what --skip-faulty alone leaves out at most
SHOWN = 3
ADVICE = "fix or remove them"


def skip_share(value: str) -> float:
    """The value of ``--skip-faulty``: ``false``, ``true``, or a percentage of a part's utterances.

    >>> skip_share("false"), skip_share("true"), skip_share("5")
    (0.0, 0.02, 0.05)

    Raises:
        InputError: something else, or more than 50 %.
    """
    if value in ("", "false", "true"):
        return SHARE if value == "true" else 0.0
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) > 50:
        raise InputError(f"--skip-faulty takes true, false, or a percentage of at most 50, not '{value}'")
    return float(value) / 100


class Faults:
    """Collects the faults of a corpus, by part and item: an utterance, or a whole recording where those are prepared.

    Args:
        where: The corpus, for the messages.
        file: Gets all faults, one in a line: part, item, fault, with tabs between (None: they are not written).
        skip: The share of each part's items that may be faulty, and is then left out. 0: every fault is refused.
    """

    def __init__(self, where: str | Path, file: str | Path | None = None, skip: float = 0.0):
        self.where, self.file, self.skip = where, file and Path(file), skip
        self.found: dict[tuple[str, str], str] = {}
        self.harmless: dict[str, list[str]] = {}

    def add(self, part: str, item: str, fault: str) -> None:
        """Note a fault; of several faults of one item, the first is kept."""
        self.found.setdefault((part, item), fault)

    def pass_on(self, part: str, item: str, to: Iterable[str]) -> None:
        """Make a fault of an item, such as a recording, one of each of its parts, if there is one."""
        fault = self.found.pop((part, item), None)
        if fault is not None:
            for each in to:
                self.add(part, each, fault)

    def ignore(self, what: str, place: str | Path) -> None:
        """Note something harmless that is ignored, such as a blank line. It is only counted and named."""
        self.harmless.setdefault(what, []).append(str(place))

    def sound[Item](self, part: str, items: Mapping[str, Item]) -> dict[str, Item]:
        """The items of a part that have no fault so far."""
        return {key: item for key, item in items.items() if (part, key) not in self.found}

    def settle(self, sound: Mapping[str, int]) -> None:
        """Write all faults to the file; go on without the faulty items if they are few enough.

        Args:
            sound: Part -> how many of its items have no fault.

        Raises:
            InputError: There are faults, and either none may be left out, or there are too many in a part, or nothing
                else is in it. One line names the first few.
        """
        for what, places in self.harmless.items():
            print(
                f"warning: {self.where}: {what} ignored, {len(places):,} times, first in {places[0]}", file=sys.stderr
            )
        if not self.found:
            if self.file:
                self.file.unlink(missing_ok=True)
            return
        faulty = Counter(part for part, _ in self.found)
        counts = ", ".join(
            f"{number:,} of {number + sound.get(part, 0):,} in {part}" for part, number in faulty.items()
        )
        self._write(f"{'left out' if self.skip else 'faulty'}: {counts}")
        if not self.skip:
            self._refuse("", f"{ADVICE}, or leave them out with --skip-faulty")
        for part, number in faulty.items():
            share = number / (number + sound.get(part, 0))
            if share > self.skip:
                limit = f"{self.skip:.2%}".replace(".00", "")
                self._refuse(f"{share:.1%} of {part} is faulty, and --skip-faulty allows {limit}: ", ADVICE)
        more = f"; all of them are in {self.file}" if self.file else ""
        print(f"warning: {self.where}: left out: {counts}: {self._first()}{more}", file=sys.stderr, flush=True)

    def _first(self) -> str:
        texts = list(self.found.values())
        return "; ".join(texts[:SHOWN]) + (f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else "")

    def _refuse(self, why: str, advice: str) -> None:
        listed = f" (all {len(self.found):,} faults: {self.file})" if self.file else ""
        raise InputError(f"{self.where}: {why}{self._first()}: {advice}{listed}")

    def _write(self, title: str) -> None:
        if self.file:
            with atomic_write(self.file) as file:
                file.write(f"# {title}\n")
                file.writelines(_lines(self.found))


def _lines(found: Mapping[tuple[str, str], str]) -> Iterable[str]:
    return (
        "\t".join(" ".join(text.split()) for text in (part, item, fault)) + "\n"
        for (part, item), fault in found.items()
    )


def faults_file(output_dir: str | Path | None, corpus: str) -> Path | None:
    """Where the faults of a corpus go: into the folder of its manifests."""
    return None if output_dir is None else Path(output_dir) / f"{corpus}_faults.txt"


def own_files(folder: Path, faults: Faults) -> Iterator[Path]:
    """All files below a folder, but those named ``._*``, which macOS leaves beside others."""
    for path in files_below(folder):
        if path.name.startswith("._"):
            faults.ignore("macOS's files ._*", path)
        else:
            yield path

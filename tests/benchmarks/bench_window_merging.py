"""Errors that merging windows itself makes: P4's overlapping inference (before), and merging by time (after).

People talk at 2.8 words a second. Windows hold the words whose middle they have heard, with times that differ by up to
0.3 s from window to window. ``perfect`` windows have no errors, so that every error is one of merging; ``wrong`` ones
have those of ``espnet-ext stitch simulate``. One speaker talks without a break, or three take turns of 2 to 18 s
(``turns``; SA-WER). The text is of the synthetic corpus's grammar, in which phrases come back, or real English: this
repository's licence. ``parts`` are monologues of 70 to 80 s that are divided in two for a stitcher, which rewrites each
without an error, and joined again: before as windows without times, by P4's rule.

The rates are kept in window_merging.json, and its table in egs/libricss_stitch/README.md: ``--table`` prints it.
"""

import argparse
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis, group_by_speaker
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.scoring.error_rate import ZERO, count_errors
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.stitcher.long_recordings import Longest, cut_by_half, merge_parts
from espnet_ext.stitcher.overlapping import align_windows, choose, positions
from espnet_ext.stitcher.simulated_errors import SimulatedErrors, simulate_windows
from espnet_ext.synthetic.english import english_grammar
from espnet_ext.text.turns import Turn
from espnet_ext.work.files import write_json

RATE = 2.8  # words a second
JITTER = 0.3  # seconds by which two windows' times of a word may differ
KEPT = Path(__file__).with_name("window_merging.json")
KINDS = ("grammar", "real English")
Windows = Sequence[WindowHypothesis]
SPANS = {  # length and overlap of windows
    "16 s, 50 %": (16.0, 0.5),
    "16 s, 25 %": (16.0, 0.25),
    "30 s, 2.5 s": (30.0, 2.5 / 30),
    "8 s, 50 %": (8.0, 0.5),
}


def texts(kind: str, seconds: float, count: int) -> list[tuple[str, ...]]:
    """So many texts that take so long to say."""
    words, long = [], round(seconds * RATE)
    if kind == "grammar":
        drawn, grammar = random.Random(0), english_grammar()
        while len(words) < long * count:
            words += grammar.sentence(drawn).split()
    else:
        words = re.findall(r"[a-z']+", (KEPT.parents[2] / "LICENSE").read_text(encoding="utf-8").lower())
    starts = np.linspace(0, len(words) - long, count).astype(int)
    return [tuple(words[start : start + long]) for start in starts]


def perfect(text: Sequence[str], windowing: Windowing, rng: np.random.Generator) -> list[WindowHypothesis]:
    """What windows have heard of a text, without an error."""
    middles = (np.arange(len(text)) + 0.5) / RATE
    heard = []
    for item in windowing.cut("r", len(text) / RATE):
        inside = np.flatnonzero((middles >= item.start) & (middles < item.end))
        jitter = rng.uniform(-JITTER / 2, JITTER / 2, len(inside))
        times = tuple((m + d - 0.15, m + d + 0.15) for m, d in zip(middles[inside], jitter, strict=True))
        words = tuple(text[place] for place in inside)
        heard.append(WindowHypothesis("r", item.index, "a", words, item.start, item.end, times or None))
    return heard


def wrong(text: Sequence[str], windowing: Windowing, rng: np.random.Generator) -> list[WindowHypothesis]:
    """What windows have heard of a text, with simulated errors."""
    turn = Turn("r", "a", tuple(text), 0.0, len(text) / RATE)
    heard = simulate_windows([turn], len(text) / RATE, windowing, sorted(set(text)), SimulatedErrors(), rng)
    return [
        item if item.speaker else WindowHypothesis("r", item.window, "a", (), item.start, item.end) for item in heard
    ]


def turns(text: Sequence[str], rng: np.random.Generator) -> list[Turn]:
    """Three speakers say a text in turns, some of which overlap."""
    said: list[Turn] = []
    start, at = 0.0, 0
    while at < len(text):
        words = tuple(text[at : at + int(rng.integers(5, 50))])
        speaker = str((int(said[-1].speaker) + int(rng.integers(1, 3))) % 3) if said else "0"
        said.append(Turn("r", speaker, words, start, start + len(words) / RATE))
        start, at = said[-1].span[1] + float(rng.uniform(-1, 1)), at + len(words)
    return said


def literal(windows: Windows) -> tuple[str, ...]:
    """P4's rule, also where windows overlap by less than half."""
    chosen = choose(align_windows(windows), positions(windows[::2]), positions(windows[1::2]))
    return tuple(heard.word for heard in chosen)


def by_time(windows: Windows) -> tuple[str, ...]:
    return tuple(word.text for word in merge_by_time(windows))


def rate(text: Sequence[str], words: Sequence[str]) -> float:
    return 100 * count_errors(list(text), list(words)).rate


def windows_rows(count: int) -> list[dict]:
    """One speaker: mean WER over texts."""
    rows = []
    for kind in KINDS:
        for make in (perfect, wrong):
            for seconds, span in ((24.0, "16 s, 50 %"), *((75.0, name) for name in SPANS)):
                rng = np.random.default_rng(0)
                heard = [(text, make(text, Windowing(*SPANS[span]), rng)) for text in texts(kind, seconds, count)]
                rates = [[rate(text, merge(windows)) for text, windows in heard] for merge in (literal, by_time)]
                rows.append(
                    _row(kind, make.__name__, f"{seconds:g} s", span, *(float(np.mean(each)) for each in rates))
                )
    return rows


def turns_rows(count: int) -> list[dict]:
    """Three speakers in turns, five minutes each: SA-WER with simulated errors."""
    rows = []
    for kind in KINDS:
        for span, windowing in SPANS.items():
            rng, totals = np.random.default_rng(1), [ZERO, ZERO]
            for text in texts(kind, 300.0, max(1, count // 2)):
                said = turns(text, rng)
                words = sorted({word for turn in said for word in turn.words})
                end = max(turn.span[1] for turn in said)
                heard = simulate_windows(said, end, Windowing(*windowing), words, SimulatedErrors(), rng)
                for speaker, windows in group_by_speaker(heard)["r"].items():
                    reference = [word for turn in said if turn.speaker == speaker for word in turn.words]
                    for side, merge in enumerate((literal, by_time)):
                        totals[side] += count_errors(reference, list(merge(windows)))
            rows.append(_row(kind, "wrong, turns", "300 s", span, *(100 * total.rate for total in totals)))
    return rows


def parts_rows(count: int) -> list[dict]:
    """Monologues that are too long for a stitcher: divided in two, rewritten without an error, joined."""
    rows = []
    for kind in KINDS:
        for timed in (True, False):
            rng = np.random.default_rng(0)
            rates: list[list[float]] = [[], []]
            for text in (text for seconds in (70.0, 75.0, 80.0) for text in texts(kind, seconds, max(1, count // 3))):
                heard = perfect(text, Windowing(16.0, 0.5), rng)
                if not timed:
                    heard = [
                        WindowHypothesis("r", item.window, "a", item.words, item.start, item.end) for item in heard
                    ]
                parts = cut_by_half(tuple(heard), Longest(6, 10_000))
                said = [_said(text, part[0].start, part[-1].end) for part in parts]
                as_windows = [WindowHypothesis("", n, "", words, n, n + 2) for n, words in enumerate(said)]
                rates[0].append(rate(text, literal(as_windows)))
                merged = merge_parts(list(zip(parts, said, strict=True)))
                rates[1].append(rate(text, [word.text for word in merged]))
            cut = "two parts" if timed else "two parts, no times"
            rows.append(_row(kind, "perfect", "70-80 s", cut, *(float(np.mean(each)) for each in rates)))
    return rows


def _row(text: str, windows: str, length: str, cut: str, before: float, after: float) -> dict:
    return {
        "text": text,
        "windows": windows,
        "length": length,
        "cut": cut,
        "before": round(before, 1),
        "after": round(after, 1),
    }


def table(kept: Path = KEPT) -> str:
    """The table in the recipe's README, of what is kept."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in json.loads(kept.read_text(encoding="utf-8"))["rows"]:
        at = rows.setdefault((row["length"], row["cut"], row["windows"]), {})
        at[row["text"]] = f"{row['before']:.1f} → **{row['after']:.1f}**"
    lines = [[windows, length, cut, *(at[kind] for kind in KINDS)] for (length, cut, windows), at in rows.items()]
    return tabulate(lines, ["windows", "speech", "cut", *KINDS], tablefmt="github", disable_numparse=True)


def _said(text: Sequence[str], start: float, end: float) -> tuple[str, ...]:
    return tuple(word for place, word in enumerate(text) if start <= (place + 0.5) / RATE < end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20, help="of each kind and length")
    parser.add_argument("--table", action="store_true", help="print the table of what is kept, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        rows = windows_rows(options.texts) + turns_rows(options.texts) + parts_rows(options.texts)
        write_json(KEPT, {"unit": "WER (%)", "texts": options.texts, "rows": rows})
    print(table())


if __name__ == "__main__":
    main()

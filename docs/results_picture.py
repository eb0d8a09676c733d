"""Draw README's picture, docs/results.png, from the committed results: the main claim
of each recipe, as a difference in percent of its baseline.

From the root of the repository: python docs/results_picture.py
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from espnet_ext.tables.publish import read_results
from espnet_ext.tables.result import ClaimResult, TableResult
from espnet_ext.work.plot_style import BLUE, COLOURS

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Bar:
    """One comparison: a claim of kept results, on one set against one row."""

    recipe: str
    results: str
    claim: str
    test_set: str
    against: str
    label: str
    real: bool


BARS = (
    Bar(
        "asru2019_cs", "mini_again-synthetic", "separate_all", "test All", "CS+CH+EN",
        "P1: attention by language\nagainst none, all data", False,
    ),
    Bar(
        "librispeech_sem", "mini_out-LibriSpeech-digits-out", "sem_other", "test-other",
        "baseline", "P2: energy masking against none,\nunheard speakers, in noise",
        True,
    ),
    Bar(
        "librispeech_sem", "mini_few-LibriSpeech-digits-few", "sem_other", "test-other",
        "baseline", "P2: the same, speakers of the training,\n18 minutes of digits",
        True,
    ),
    Bar(
        "librispeech_sem", "mini_short-LibriSpeech-digits-all", "sem", "test-other",
        "baseline", "P2: the same, all of the digits", True,
    ),
    Bar(
        "librispeech_sem", "mini_short-synthetic", "sem", "test-other", "baseline",
        "P2: the same, noisy phrases (synthetic)", False,
    ),
    Bar(
        "librispeech_rescore", "lists-LibriSpeech-lists", "lists_untrained",
        "test-other", "first pass",
        "P3: SmolLM2 against the first pass,\npublic lists of test-other", True,
    ),
    Bar(
        "librispeech_rescore", "lists_trained-LibriSpeech-lists-held", "lists_ce",
        "test-other", "SmolLM2 untrained",
        "P3: SmolLM2 with CE against untrained,\nthe same, lambda of eight speakers",
        True,
    ),
    Bar(
        "librispeech_rescore", "lists_trained-LibriSpeech-lists-held", "lists_mwer",
        "test-other", "SmolLM2 CE", "P3: SmolLM2 with MWER against CE,\nthe same", True,
    ),
    Bar(
        "librispeech_rescore", "mini-synthetic", "bert_mwer", "test-other", "BERT CE",
        "P3: BERT by MWER against by CE,\nnoisy phrases (synthetic)", False,
    ),
    Bar(
        "libricss_stitch", "mini_digits-LibriSpeech-digits", "wcoe", "test-long",
        "No segmentation",
        "P4: stitcher against no segmentation,\ndigits of six voices", True,
    ),
    Bar(
        "libricss_stitch", "mini_digits-LibriSpeech-digits", "wcoe_blocks", "test-long",
        "Block-wise inference", "P4: stitcher against blocks alone,\nthe same", True,
    ),
    Bar(
        "libricss_stitch", "mini_digits_long-LibriSpeech-digits-out", "wcoe",
        "test-long", "Block-wise inference",
        "P4: the same where no segmentation\nfails, unheard speakers", True,
    ),
    Bar(
        "libricss_stitch", "mini_libricss_again-synthetic", "total", "libricss",
        "No segmentation",
        "P4: stitcher against no segmentation,\nsessions (synthetic)", False,
    ),
    Bar(
        "spotify_longctx", "mini-synthetic", "earnings22", "earnings22",
        "calls (synthetic) at 10 s",
        "P5: context of 40 s against 10 s,\ncalls (synthetic)", False,
    ),
    Bar(
        "spotify_longctx", "mini_rooms-LibriSpeech-digits-rooms", "rooms_unseen",
        "unseen", "unseen kinds of noise at 5 s",
        "P5: context of 40 s against 5 s,\ndigits in rooms, unseen noise", True,
    ),
    Bar(
        "spotify_longctx", "mini_rooms_again-LibriSpeech-digits-rooms-again",
        "rooms_unseen", "unseen", "unseen kinds of noise at 5 s",
        "P5: the same again,\ntrained longer", True,
    ),
)  # fmt: skip


def main() -> None:
    """Draw a row for each comparison, with its interval and its verdict."""
    figure, axes = plt.subplots(figsize=(10.5, 8), layout="constrained")
    colours = {True: BLUE, False: COLOURS[5]}
    for place, bar in enumerate(BARS):
        results = read_results(
            ROOT / "egs" / bar.recipe / "results" / bar.results,
            ROOT / "egs" / bar.recipe,
        )
        points, low, high, verdict = _read_difference(results, bar)
        axes.errorbar(
            points, place, xerr=[[points - low], [high - points]], fmt="o",
            color=colours[bar.real], markerfacecolor=colours[bar.real]
            if bar.real
            else "white", capsize=4, linewidth=2, markersize=8,
        )  # fmt: skip
        axes.text(
            1.01, place, verdict, transform=axes.get_yaxis_transform(), va="center"
        )
    for is_real, said in ((True, "real speech"), (False, "synthetic speech")):
        face = colours[is_real] if is_real else "white"
        axes.plot([], [], "o", color=colours[is_real], markerfacecolor=face, label=said)
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(BARS)), [bar.label for bar in BARS])
    axes.invert_yaxis()
    axes.set_xlabel(
        "errors of the method minus those of the baseline, in % of the "
        "baseline's,\nwith corrected intervals; left of zero the method is better"
    )
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(ROOT / "docs" / "results.png", dpi=100)


def _read_difference(
    results: list[TableResult], bar: Bar
) -> tuple[float, float, float, str]:
    """Return a claim's difference and interval in percent of its baseline, and its
    verdict.
    """
    [claim] = [
        claim
        for result in results
        for claim in result.claims
        if claim.name == bar.claim and bar.against in claim.baselines
    ]
    [effect] = [
        test.here
        for test in claim.tests
        if test.column.name == bar.test_set and test.against == bar.against
    ]
    assert effect is not None and effect.interval is not None
    base = _read_rate(results, claim, bar)
    low, high = effect.interval
    scale = -100 / base
    least = max(-100.0, scale * high)  # there are no fewer errors than none
    return scale * effect.points, least, scale * low, claim.verdict


def _read_rate(results: list[TableResult], claim: ClaimResult, bar: Bar) -> float:
    """Return the error rate of the baseline, in percent."""
    tables = {side.partition("/")[0] for side in claim.claim.rows}
    rates = [
        cell.here.value
        for result in results
        if result.table.id in tables
        for row in result.rows
        if row.name == bar.against
        for column, cell in row.cells.items()
        if column.name == bar.test_set and cell.here
    ]
    return rates[-1]


if __name__ == "__main__":
    main()

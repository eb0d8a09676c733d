"""Draw README's picture, docs/results.png, from the committed results: one comparison
of each recipe.

From the root of the repository: python docs/results_picture.py
"""

from pathlib import Path

import matplotlib.pyplot as plt

from espnet_ext.tables.collect import collect
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.score_table import read_scores
from espnet_ext.work.plot_style import BLUE, COLOURS

ROOT = Path(__file__).parents[1]
PANELS = {  # recipe: results, test set, title, and bars: table, row, label
    "asru2019_cs": (
        "mini_again-synthetic",
        "test All",
        "P1: attention by language\nMER of test, all data (%)",
        [("2", "CS+CH+EN", "baseline"), ("4", "CS+CH+EN", "separate\nattention")],
    ),
    "librispeech_sem": (
        "mini_few-LibriSpeech-digits-few",
        "test-other",
        "P2: Small Energy Masking\nWER of noisy real digits (%)",
        [("1", "baseline", "baseline"), ("1", "0dB", "masking")],
    ),
    "librispeech_rescore": (
        "mini-synthetic",
        "test-other",
        "P3: rescoring\nWER of test-other (%)",
        [
            ("1", "first pass", "first\npass"),
            ("1", "GPT-2 initial", "GPT-2"),
            ("1", "GPT-2 MWER", "with\nMWER"),
        ],
    ),
    "libricss_stitch": (
        "mini_digits-LibriSpeech-digits",
        "test-short",
        "P4: hypothesis stitcher\nSA-WER of real digits (%)",
        [
            ("2", "Block-wise inference", "blocks"),
            ("2", "Stitcher WCOE", "stitcher"),
            ("2", "Time-aware overlapping inference", "by time\n(ours)"),
        ],
    ),
    "spotify_longctx": (
        "mini-synthetic",
        "earnings22",
        "P5: long contexts\nWER of Earnings-22 (%)",
        [
            ("figure1", f"Earnings-22 at {context} s", f"{context} s")
            for context in (10, 20, 40)
        ],
    ),
}


def main() -> None:
    """Draw one panel per recipe: bars with the values of single seeds and the interval."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(15, 3.6), layout="constrained")
    for axis, (recipe, (results, test_set, title, bars)) in zip(
        axes, PANELS.items(), strict=True
    ):
        tables = load_tables(
            ROOT / "egs" / recipe / "conf" / "tables.yaml", results.partition("-")[0]
        )
        scores, meta = read_scores(ROOT / "egs" / recipe / "results" / results)
        for place, (table, row, _) in enumerate(bars):
            [result] = collect(tables, [table], scores, meta)
            [cells] = [each.cells for each in result.rows if each.name == row]
            [here] = [
                cell.here for column, cell in cells.items() if column.name == test_set
            ]
            axis.bar(
                place,
                here.value,
                width=0.6,
                color=COLOURS[5] if place == 0 else BLUE,
                alpha=0.75,
            )
            low, high = here.interval
            axis.errorbar(
                place,
                here.value,
                [[here.value - low], [high - here.value]],
                color="black",
                capsize=4,
            )
            axis.plot(
                [place + 0.38] * len(here.by_seed),
                list(here.by_seed.values()),
                "k.",
                markersize=4,
            )
            axis.annotate(
                f"{here.value:.1f}",
                (place, 0),
                (0, 4),
                textcoords="offset points",
                ha="center",
            )
        axis.set_xticks(range(len(bars)), [label for _, _, label in bars])
        axis.set_title(title, fontsize=11)
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "results.png", dpi=100)


if __name__ == "__main__":
    main()

"""What is said of trainings of scorers beside their error rates: in tables, and as a picture."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from espnet_ext.work.files import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "training.json"  # of a training, written last


def write_quantities(folder: Path) -> None:
    """Write what tables say of a system's trainings, from the ``seed<N>/training.json`` below its folder.

    - ``best_step.json``: updates after which the model that was kept is best, the mean over seeds;
    - ``initial_kept.json``: seeds whose training found nothing better than its initial model;
    - ``effective.json``, of a training on lists: how many hypotheses share the posterior of a development list before
      training, the mean over lists and seeds.
    """
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"seed*/{REPORT}"))]
    if not reports:
        return
    steps = [report["best_step"] for report in reports]
    found = {"best_step": (fmean(steps), "updates"), "initial_kept": (steps.count(0), "seeds")}
    effective = [report["history"][0].get("dev_effective") for report in reports]
    if None not in effective:
        found["effective"] = (round(fmean(effective), 2), "hypotheses")
    for name, (value, unit) in found.items():
        write_json(folder / f"{name}.json", {"value": value, "unit": unit, "seeds": len(reports)})


def draw_training(report: Mapping[str, Any], name: str) -> "Figure":
    """Expected word errors and word error rate of the development lists over the updates of MWER training.

    Above: ``mwer``, the expected word errors per utterance, in training and on the development lists. Below: the word
    error rate in percent, with lambda tuned on these lists. A line marks the model that is kept.

    Args:
        report: the contents of ``training.json``.
        name: what was trained, for the title.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from espnet_ext.results.pages.plot_style import BLUE, STYLE, VERMILLION

    history, best = report["history"], report["best_step"]
    steps = [values["step"] for values in history]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.8, 5.2), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        above.plot(steps, [values["dev_mwer"] for values in history], "o-", color=BLUE, label="development lists")
        trained = [(values["step"], values["mwer"]) for values in history if "mwer" in values]
        above.plot(*zip(*trained, strict=True), "s--", color="0.5", label="training lists, since the last evaluation")
        below.plot(steps, [values["dev_wer"] for values in history], "o-", color=BLUE)
        above.set_ylabel("Expected word errors\nper utterance")
        below.set_ylabel("Word error rate (%)")
        below.set_xlabel("Updates")
        for axes in (above, below):
            axes.axvline(best, color=VERMILLION, linewidth=1.0, label="initial model kept" if best == 0 else "best")
            axes.grid(color="0.9", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        above.legend(frameon=False)
        figure.suptitle(name, parse_math=False)
        return figure

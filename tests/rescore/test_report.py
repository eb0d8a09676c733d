"""What tables and pictures say of trainings."""

import json
from pathlib import Path

from espnet_ext.rescore.figures import draw_training
from espnet_ext.rescore.report import write_quantities


def report(best: int, effective: float | None) -> dict:
    first = {"step": 0, "dev_mwer": 1.6, "dev_wer": 17.0}
    if effective is not None:
        first["dev_effective"] = effective
    later = [{"step": step, "mwer": 1.5, "dev_mwer": 1.4, "dev_wer": 16.0} for step in (10, 20)]
    return {"best_step": best, "history": [first, *later], "seconds": 1.0, "key": {}}


def test_quantities_of_several_seeds(tmp_path: Path):
    for seed, best, effective in ((1, 0, 1.5), (2, 20, 2.5), (3, 10, 3.0)):
        folder = tmp_path / f"seed{seed}"
        folder.mkdir()
        (folder / "training.json").write_text(json.dumps(report(best, effective)))
    write_quantities(tmp_path)
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert found == {
        "best_step": {"value": 10, "unit": "updates", "seeds": 3},
        "initial_kept": {"value": 1, "unit": "seeds", "seeds": 3},
        "effective": {"value": 2.33, "unit": "hypotheses", "seeds": 3},
    }


def test_a_training_on_text_has_no_posteriors(tmp_path: Path):
    (tmp_path / "seed1").mkdir()
    (tmp_path / "seed1" / "training.json").write_text(json.dumps(report(20, None)))
    write_quantities(tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["best_step", "initial_kept"]
    write_quantities(tmp_path / "nothing")


def test_the_picture_shows_both_curves_and_the_model_that_is_kept():
    figure = draw_training(report(20, 2.0), "GPT-2 with MWER")
    above, below = figure.axes
    assert [line.get_ydata().tolist() for line in above.lines[:2]] == [[1.6, 1.4, 1.4], [1.5, 1.5]]
    assert below.lines[0].get_ydata().tolist() == [17.0, 16.0, 16.0]
    assert {tuple(axes.lines[-1].get_xdata()) for axes in (above, below)} == {(20, 20)}
    assert "per utterance" in above.get_ylabel() and "%" in below.get_ylabel()
    labels = [text.get_text() for text in draw_training(report(0, 2.0), "x").axes[0].get_legend().get_texts()]
    assert "initial model kept" in labels

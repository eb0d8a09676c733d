"""Curves from training logs."""

import re

import pytest

from espnet_ext.errors import InputError
from espnet_ext.pages.training_curves import Curve, draw_curves, read_curves, shared_range

LINE = "[vm] (trainer:392) INFO: {}epoch results: [train] loss={}, acc=0.5, time=2 seconds, [valid] loss={}, cer=nan\n"


def test_espnet_log(tmp_path):
    log = tmp_path / "train.log"
    text = "begins\n" + LINE.format(1, 4.0, 5.5) + "noise\n" + LINE.format(2, "3.0e-01", "nan")
    log.write_text(text, encoding="utf-8")
    loss, accuracy = read_curves(log)
    assert loss == Curve("loss", "epoch", ((1.0, 4.0), (2.0, 0.3)), ((1.0, 5.5),))
    assert accuracy == Curve("acc", "epoch", ((1.0, 0.5), (2.0, 0.5)), ())


def test_an_epoch_that_was_done_twice_counts_as_the_second_time(tmp_path):
    earlier, log = tmp_path / "train.earlier.log", tmp_path / "train.log"
    earlier.write_text(LINE.format(8, 5.0, 5.0) + LINE.format(10, 4.0, 5.0), encoding="utf-8")
    log.write_text(LINE.format(9, 3.0, 4.0) + LINE.format(10, 1.0, 2.0), encoding="utf-8")
    assert read_curves(log)[0].valid == ((8.0, 5.0), (9.0, 4.0), (10.0, 2.0))


def test_a_log_without_an_epoch_has_no_curves(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("begins\n", encoding="utf-8")
    assert read_curves(log) == []


def test_our_own_training(tmp_path, lm_report):
    path = tmp_path / "training.json"
    path.write_text(lm_report, encoding="utf-8")
    curves = {curve.measure: curve for curve in read_curves(path)}
    assert curves["wer"] == Curve("wer", "update", (), ((0.0, 9.6),))
    assert curves["mwer"] == Curve("mwer", "update", ((8.0, 0.7),), ((0.0, 0.8), (8.0, 0.7)))
    assert curves["loss"].valid == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"history": [{"wer": 1}]}', '{"history": [{"step": "x"}]}'])
def test_a_report_that_is_none(tmp_path, text):
    path = tmp_path / "training.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="training.json: not a training's report"):
        read_curves(path)


def test_drawn_for_a_page():
    curve = Curve("loss", "epoch", ((1.0, 2.0),), ((1.0, 3.0), (2.0, 1.0)))
    limits = shared_range([curve])
    assert limits == pytest.approx((0.9, 3.1))
    svg = draw_curves('a "b" <c> $d$', {"1": curve, "2": curve}, limits, "k3")
    assert svg.startswith("<svg ") and svg.endswith("</svg>")
    assert 'aria-label="Loss of a &quot;b&quot; &lt;c&gt; $d$"' in svg
    for text in ("Epoch", "Loss", "training, seed 1", "validation, seed 2", "$d$"):
        assert text in svg
    # The page's colours, none of its own; nothing that would reach beyond the element, or differ from run to run.
    assert {"currentColor", "var(--blue)", "var(--vermillion)"} <= set(re.findall(r"stroke: ([^;]*);", svg))
    assert not re.search(r": #[0-9a-fA-F]{6}", svg)
    assert "<style" not in svg and "<metadata" not in svg and "font-family" not in svg
    assert svg.count(' id="') == svg.count(' id="k3-') > 0
    assert svg == draw_curves('a "b" <c> $d$', {"1": curve, "2": curve}, limits, "k3")

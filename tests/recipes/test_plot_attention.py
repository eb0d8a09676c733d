"""``local/plot_attention.py`` of the code-switching recipe; its weights are tested in ``tests/codeswitch``."""

from pathlib import Path

import cross_entropy
import numpy as np
import plot_attention
import pytest
import trained_systems
from attention_figures import draw_attention
from matplotlib.image import imread

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.pictures import check_picture

TOKENS = ("<sos/eos>", "▁A", "$_", "▁你", "好")
LANGUAGES = ("-", "en", "-", "zh", "zh")


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "wav.scp").write_text("u1 u1.wav\nu2 u2.wav\n")
    (folder / "text").write_text("u1 你好 HELLO\nu2 A 你 B 好\n")
    return folder


def test_figure_names_and_colours_tokens():
    weights = np.tri(5) / np.arange(1, 6)[:, None]
    figure = draw_attention({"one": weights, "two": weights}, TOKENS, LANGUAGES, "title")
    figure.canvas.draw()
    one, two, bar = figure.axes
    for axes in (one, two):
        labels = axes.get_yticklabels()
        assert [label.get_text() for label in labels] == ["<sos/eos>", "_A", "$_", "你", "好"]
        colours = [label.get_color() for label in labels]
        assert colours[3] == colours[4] != colours[1] != colours[0] == colours[2]
        shown = axes.get_images()[0].get_array()
        assert shown.mask.sum() == 10 and np.allclose(shown.compressed(), weights[np.tri(5, dtype=bool)])
    assert one.get_ylabel() == "Attending token" and bar.get_ylabel() == "Share of what a token takes, by norm"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["English", "Mandarin", "neither"]


def test_han_characters_have_a_glyph(recwarn):
    draw_attention({"one": np.eye(5)}, TOKENS, LANGUAGES, "title").canvas.draw()
    assert not [str(warning.message) for warning in recwarn if "missing from font" in str(warning.message)]


def test_the_utterance_with_most_switches_is_drawn():
    assert plot_attention.switches("你好 HELLO") == 1
    assert plot_attention.most_switches({"u1": "你好 HELLO", "u2": "A 你 B 好", "u3": "A你B 好"}) == "u2"


def test_systems_side_by_side(data, tmp_path, monkeypatch, capsys):
    """What the models give is replaced; files, names and numbers are the script's."""
    from espnet_ext.codeswitch import attention_maps, trained_decoder

    class Fake:
        def __init__(self, config_file, model_file):
            self.scale = 1.0 if "baseline" in str(model_file) else 0.5

        def example(self, utterance, source, text):
            return self.scale

    def attention_map(decoder, scale, block):
        weights = scale * np.tri(5) / np.arange(1, 6)[:, None]
        return attention_maps.AttentionMap(weights, TOKENS, LANGUAGES)

    monkeypatch.setattr(trained_decoder, "TrainedDecoder", Fake)
    monkeypatch.setattr(attention_maps, "attention_map", attention_map)
    systems = [tmp_path / system / seed for system, seed in (("baseline_cs", "seed1"), ("baseline_cs", "seed2"))]
    systems.append(tmp_path / "shared_cs" / "seed1")
    for folder in systems:
        folder.mkdir(parents=True)
        for name in ("best3.ave.pth", "valid.acc.ave.pth"):  # the recipe's, and what ESPnet leaves
            (folder / name).touch()
    output = tmp_path / "out"
    plot_attention.main(["--systems", *map(str, systems), "--data", str(data), "--output", str(output)])
    numbers = read_facts(output / "attention.json")["values"]
    assert list(numbers["systems"]) == ["baseline_cs", "shared_cs"]
    assert numbers["utterance"] == "u2" and list(numbers["systems"]["baseline_cs"]["by_seed"]) == ["1", "2"]
    # 你 gives 1/4 to the one English token before it, 好 gives it 1/5
    assert numbers["systems"]["baseline_cs"]["between_languages"] == pytest.approx((1 / 4 + 1 / 5) / 2)
    assert numbers["systems"]["shared_cs"]["weights"][1] == [0.25, 0.25, 0, 0, 0]
    assert imread(output / "attention.png").shape[0] > 500
    check_picture(output / "attention.png")
    assert "shared_cs: between languages 0.113 in data" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--utterance", "u9"], "there is no utterance u9"),
        ([], "0 averages over epochs"),
        (["--data", "/nonexistent/dir"], "/nonexistent/dir: no such data dir"),
    ],
)
def test_bad_arguments_are_refused(data, tmp_path, arguments, message):
    (tmp_path / "system").mkdir()
    base = ["--systems", str(tmp_path / "system"), "--data", str(data), "--output", str(tmp_path / "out")]
    with pytest.raises(InputError, match=message):
        plot_attention.main([*base, *arguments])
    assert not (tmp_path / "out").exists()


def test_cross_entropy_by_class_seed_and_speaker():
    """Means and the test are those of the sums; systems are compared over the seeds that both have."""
    rng = np.random.default_rng(0)

    def sums(shift):
        return {"zh": {f"s{speaker}": (40.0 * (1 + shift) + rng.normal(), 40) for speaker in range(14)}}

    measured = {"base": {seed: sums(0.2) for seed in "1234"}, "other": {seed: sums(0.0) for seed in "123"}}
    found = cross_entropy.summarise(measured)
    assert found["base"]["zh"]["mean"] == pytest.approx(1.2, abs=0.02) and "lower_by" not in found["base"]["zh"]
    other = found["other"]["zh"]
    assert other["lower_by"] == pytest.approx(0.2, abs=0.02) and other["p_value"] < 0.05
    assert (other["seeds"], other["speakers"]) == (3, 14) and other["ci95"][0] < 0.2 < other["ci95"][1]


def test_a_system_and_seed_is_given_once(tmp_path):
    with pytest.raises(InputError, match="another system separate_cs 1"):
        trained_systems.by_name([tmp_path / "a" / "separate_cs" / "seed1", tmp_path / "b" / "separate_cs" / "seed1"])

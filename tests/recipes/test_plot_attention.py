"""The attention figure of the code-switching recipe: its maps against the equation and
the block's own output.
"""

import json
from pathlib import Path

import attention_maps
import numpy as np
import plot_attention
import pytest
import torch
from attention_figures import draw_attention
from attention_maps import AttentionMap, TranscriptReader, compute_contributions
from matplotlib.image import imread

from espnet_ext.codeswitch.language_transformer import MODES
from espnet_ext.codeswitch.token_languages import write_languages
from espnet_ext.errors import InputError

TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "你", "好", "<sos/eos>"]
FED = ("<sos/eos>", "A", "B", "<space>", "你", "好", "<space>", "C")
LANGUAGES = ("-", "en", "en", "-", "zh", "zh", "-", "en")
TEXT = "AB 你好 C"
FACTOR = 0.1
SPEECH = np.random.default_rng(0).normal(scale=0.1, size=16000).astype(np.float32)


@pytest.fixture(scope="module")
def make_reader(tmp_path_factory, save_model):
    """Return a function that makes a reader with a decoder of three blocks and random
    parameters.
    """
    from espnet2.tasks.asr import ASRTask

    def make(decoder: str, **decoder_conf) -> TranscriptReader:
        folder = tmp_path_factory.mktemp("system")
        write_languages(folder / "languages.txt", TOKENS)
        small = {"attention_heads": 2, "linear_units": 8}
        if decoder == "language_transformer":
            decoder_conf["languages_file"] = str(folder / "languages.txt")
        settings = {
            "token_list": TOKENS,
            "token_type": "char",
            "frontend_conf": {
                "fs": 16000,
                "n_fft": 256,
                "hop_length": 160,
                "n_mels": 20,
            },
            "encoder": "transformer",
            "encoder_conf": {"output_size": 16, "num_blocks": 1, **small},
            "decoder": decoder,
            "decoder_conf": decoder_conf
            if decoder == "rnn"
            else {"num_blocks": 3, **small, **decoder_conf},
        }
        save_model(ASRTask, folder, seed=1, **settings)
        return TranscriptReader(folder / "config.yaml", folder / "model.pth")

    return make


def given_by(attention, x: np.ndarray) -> np.ndarray:
    """Sum over heads of a_ij v_j W_o without later tokens, (L, L, D), in numpy; x (L,
    D).
    """
    query, key, value = (
        x @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        for linear in (attention.linear_q, attention.linear_k, attention.linear_v)
    )
    projections = np.split(attention.linear_out.weight.detach().numpy(), attention.h, 1)
    total = 0.0
    for q, k, v, w in zip(
        *(np.split(each, attention.h, 1) for each in (query, key, value)),
        projections,
        strict=True,
    ):
        scores = np.exp(q @ k.T / np.sqrt(attention.d_k)) * np.tri(len(x))
        total = (
            total
            + (scores / scores.sum(1, keepdims=True))[:, :, None] * (v @ w.T)[None]
        )
    return total


@pytest.mark.parametrize(
    ("mode", "block"), [("none", None), ("shared", 1), ("separate", 2)]
)
def test_a_map_is_the_attention_of_the_block(make_reader, mode, block):
    reader = make_reader("language_transformer", mode=mode)
    layer = reader.model.decoder.decoders[(block or 3) - 1]
    inputs = []
    layer.norm1.register_forward_hook(
        lambda module, given, output: inputs.append(output[0].numpy())
    )
    found = reader.map_attention("u1", SPEECH, TEXT, block)
    assert (found.tokens, found.languages) == (FED, LANGUAGES)

    (x,) = inputs
    languages = np.array(found.languages)
    if mode == "none":
        wanted = given_by(layer.self_attn, x)
    else:
        own = {}
        for name, attention in zip(
            ("en", "zh"), layer.self_attn.attentions, strict=True
        ):
            other = (languages != name) & (languages != "-")
            own[name] = given_by(attention, np.where(other, FACTOR, 1.0)[:, None] * x)
        own["-"] = (own["en"] + own["zh"]) / 2
        wanted = np.stack(
            [own[language][row] for row, language in enumerate(languages)]
        )
    norms = np.linalg.norm(wanted, axis=2)
    np.testing.assert_allclose(
        found.weights, norms / norms.sum(1, keepdims=True), atol=1e-6
    )


@pytest.mark.parametrize("mode", MODES)
def test_contributions_and_bias_are_the_output(make_reader, mode):
    reader = make_reader("language_transformer", mode=mode)
    attention, calls = reader.model.decoder.decoders[0].self_attn, []
    attention.register_forward_hook(
        lambda module, given, output: calls.append((given, output))
    )
    reader.map_attention("u1", SPEECH, TEXT)
    given, output = calls[0]
    rest = (output - compute_contributions(attention, *given).sum(2))[0]
    biases = torch.stack(
        [each.linear_out.bias for each in getattr(attention, "attentions", [attention])]
    )
    expected = biases[0].expand_as(rest)
    if mode == "separate":
        codes = given[2][0]
        expected = torch.where(
            (codes > 0)[:, None], biases[(codes - 1).clamp(min=0)], biases.mean(0)
        )
    torch.testing.assert_close(rest, expected, atol=1e-6, rtol=1e-5)


def test_share_between_languages_counts_tokens_with_a_choice():
    weights = np.array(
        [[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]]
    )
    found = AttentionMap(
        weights, ("<sos/eos>", "A", "你", "B"), ("-", "en", "zh", "en")
    )
    # 你 gives A 0.3, B gives 你 0.3; A has no Mandarin before it
    assert found.share_between_languages() == pytest.approx(0.3)
    alone = AttentionMap(weights[:2, :2], ("<sos/eos>", "A"), ("-", "en"))
    assert np.isnan(alone.share_between_languages())


def test_what_has_no_map_is_refused(make_reader):
    reader = make_reader("transformer")  # ESPnet's decoder
    assert reader.map_attention("u1", SPEECH, TEXT).weights.shape == (8, 8)
    for text, block, message in ((TEXT, 4, "block 4"), ("", None, "u1")):
        with pytest.raises(InputError, match=message):
            reader.map_attention("u1", SPEECH, text, block)
    with pytest.raises(InputError, match="'rnn'"):
        make_reader("rnn")


def test_the_figure_names_and_colours_tokens(recwarn):
    weights = np.tri(8) / np.arange(1, 9)[:, None]
    figure = draw_attention({"one": weights, "two": weights}, FED, LANGUAGES, "title")
    figure.canvas.draw()
    for axes in figure.axes[:2]:
        labels = axes.get_yticklabels()
        assert [label.get_text() for label in labels] == list(FED)
        colours = [label.get_color() for label in labels]
        assert colours[4] == colours[5] != colours[1] != colours[0] == colours[3]
        shown = axes.get_images()[0].get_array()
        assert np.allclose(shown.compressed(), weights[np.tri(8, dtype=bool)])
    assert not [
        str(warning.message)
        for warning in recwarn
        if "missing from font" in str(warning.message)
    ]


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "feats.scp").write_text("u1 none\nu2 none\n")
    (folder / "text").write_text("u1 你好 HELLO\nu2 A 你 B 好\n")
    return folder


def test_systems_side_by_side(data, tmp_path, monkeypatch, capsys):
    """What the models give is replaced; files, names and values are the script's."""

    class Fake:
        def __init__(self, config_file, model_file):
            self.scale = 1.0 if "baseline" in str(model_file) else 0.5

        def map_attention(self, utterance, speech, text, block):
            return AttentionMap(
                self.scale * np.tri(8) / np.arange(1, 9)[:, None], FED, LANGUAGES
            )

    monkeypatch.setattr(attention_maps, "TranscriptReader", Fake)
    monkeypatch.setattr(plot_attention, "read_array", lambda place: None)
    systems = [
        tmp_path / name
        for name in ("baseline_cs/seed1", "baseline_cs/seed2", "shared_cs/seed1")
    ]
    for folder in systems:
        folder.mkdir(parents=True)
        for name in (
            "best3.ave.pth",
            "valid.acc.ave.pth",
        ):  # the recipe's, and what ESPnet leaves
            (folder / name).touch()
    output = tmp_path / "out"
    plot_attention.main(
        ["--systems", *map(str, systems), "--data", str(data), "--output", str(output)]
    )
    values = json.loads((output / "attention.json").read_text())
    assert values["utterance"] == "u2"  # with most switches
    assert {
        name: list(each["by_seed"]) for name, each in values["systems"].items()
    } == {
        "baseline_cs": ["1", "2"],
        "shared_cs": ["1"],
    }
    # 你 takes 2/5 from the two English tokens before it, 好 2/6, and C 2/8 from the two
    # Mandarin ones
    assert values["systems"]["baseline_cs"]["between_languages"] == pytest.approx(
        (2 / 5 + 2 / 6 + 2 / 8) / 3
    )
    assert imread(output / "attention.png").shape[0] > 500
    assert "shared_cs: between languages 0.164 in data" in capsys.readouterr().out
    with pytest.raises(InputError, match="u9"):
        plot_attention.main(
            [
                "--systems",
                str(systems[0]),
                "--data",
                str(data),
                "--output",
                "x",
                "--utterance",
                "u9",
            ]
        )
    (systems[0] / "best3.ave.pth").unlink()
    with pytest.raises(InputError, match=str(systems[0])):
        plot_attention.main(
            ["--systems", str(systems[0]), "--data", str(data), "--output", "x"]
        )

"""Import of the authors' checkpoints: a random model of their architecture, computed
here step by step.

The architecture is that of P5's published models, by the names and shapes of the
tensors in their checkpoints.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from import_checkpoint import import_checkpoint
from omegaconf import OmegaConf
from torch.nn.functional import conv1d, conv2d, gelu, layer_norm, linear, silu, softmax

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.posteriors import load
from espnet_ext.longform.decoding.transcribe import load_transcriber
from espnet_ext.sharing.model_files import read_folder
from espnet_ext.work import model_cache
from espnet_ext.work.yaml_files import read_yaml

SETTINGS = {
    "feat_in": 16,
    "n_layers": 2,
    "d_model": 12,
    "n_heads": 3,
    "head_dim": 4,
    "subsampling_conv_channels": 5,
    "subsampling_act": "silu",
    "decoder_norm": True,
    "use_rotary": True,
    "rotary_base_freq": 1500000,
    "default_norm": "layer_norm",
    "bias_in_ff": False,
}


def shapes(pieces, settings):
    """The tensors of a checkpoint: name -> shape."""
    d, c, found = settings["d_model"], settings["subsampling_conv_channels"], {}

    def layer(name, *shape, bias=True):
        found[f"{name}.weight"] = shape
        if bias:
            found[f"{name}.bias"] = shape[:1]

    layer("subsampling.conv.0", c, 1, 3, 3)
    for place in (2, 5):
        layer(f"subsampling.conv.{place}", c, 1, 3, 3)
        layer(f"subsampling.conv.{place + 1}", c, c, 1, 1)
    layer("subsampling.out", d, c * settings["feat_in"] // 8, bias=False)
    for own in (f"layers.{number}" for number in range(settings["n_layers"])):
        for part in (
            "ff1.fn.norm",
            "attend.norm",
            "conv.norm",
            "ff2.fn.norm",
            "norm_out",
            "conv.fn.batch_norm",
        ):
            layer(f"{own}.{part}", d)
        for part in ("ff1", "ff2"):
            layer(f"{own}.{part}.fn.fn.fc1", 4 * d, d, bias=False)
            layer(f"{own}.{part}.fn.fn.fc2", d, 4 * d, bias=False)
        layer(f"{own}.attend.fn.qkv_proj", 3 * d, d, bias=False)
        layer(f"{own}.attend.fn.out_proj", d, d, bias=False)
        layer(f"{own}.conv.fn.pointwise_conv1", 2 * d, d, 1)
        layer(f"{own}.conv.fn.depthwise_conv", d, 1, 9)
        layer(f"{own}.conv.fn.pointwise_conv2", d, d, 1)
        found |= {
            f"{own}.conv.fn.batch_norm.running_{part}": (d,) for part in ("mean", "std")
        }
    layer("decoder.ff", pieces + 1, d)
    layer("decoder.reprojection", d, pieces + 1)
    layer("decoder.norm", d)
    return found


def draw(pieces, settings):
    generator = torch.Generator().manual_seed(1)
    state = {
        name: torch.randn(shape, generator=generator)
        / math.sqrt(max(1, math.prod(shape[1:])))
        for name, shape in shapes(pieces, settings).items()
    }
    for name in state:
        if name.endswith("running_std"):
            state[name] = state[name].abs() + 0.5
    for number in range(settings["n_layers"]):
        state[f"layers.{number}.conv.fn.batch_norm.num_batches_tracked"] = torch.tensor(
            7
        )
    if settings.get("fourier_pos_enc"):
        state["fourier_pos_enc.w_r"] = torch.randn(
            (1, settings["d_model"] // 2), generator=generator
        )
    else:
        state["rotary_pos_emb.inv_freq"] = torch.ones(settings["head_dim"] // 2)
    return state


def outputs(state, settings, features):
    """Posteriors of their model, (frames, pieces + 1), of features (time, channels);
    the blank is the last.
    """

    def at(name):
        return [
            state[f"{name}.{kind}"]
            for kind in ("weight", "bias")
            if f"{name}.{kind}" in state
        ]

    def normal(x, name):
        return layer_norm(x, x.shape[-1:], *at(name))

    def head(x):
        return softmax(linear(normal(x, "decoder.norm"), *at("decoder.ff")), dim=-1)

    x = features[None, None]
    x = silu(conv2d(x, *at("subsampling.conv.0"), stride=2, padding=1))
    for place in (2, 5):
        x = conv2d(
            x, *at(f"subsampling.conv.{place}"), stride=2, padding=1, groups=x.shape[1]
        )
        x = silu(conv2d(x, *at(f"subsampling.conv.{place + 1}")))
    x = linear(x[0].permute(1, 0, 2).flatten(1), *at("subsampling.out"))  # (frames, D)
    frames, heads, size = len(x), settings["n_heads"], settings["head_dim"]
    if settings.get("fourier_pos_enc"):
        angles = torch.arange(frames)[:, None] * state["fourier_pos_enc.w_r"]
        x = x + torch.cat([angles.cos(), angles.sin()], -1) / math.sqrt(
            settings["d_model"]
        )
    for number in range(settings["n_layers"]):
        own = f"layers.{number}"

        def forward(x, name):
            hidden = gelu(
                linear(normal(x, f"{name}.fn.norm"), *at(f"{name}.fn.fn.fc1")),
                approximate="tanh",
            )
            return x + 0.5 * linear(hidden, *at(f"{name}.fn.fn.fc2"))

        x = forward(x, f"{own}.ff1")
        projected = linear(
            normal(x, f"{own}.attend.norm"), *at(f"{own}.attend.fn.qkv_proj")
        )
        projected = projected.reshape(frames, heads, size, 3)
        context = torch.zeros(frames, heads, size)
        for index in range(heads):
            query, key, value = (projected[:, index, :, kind] for kind in range(3))
            if settings["use_rotary"]:
                query, key = (
                    turned(one, settings["rotary_base_freq"]) for one in (query, key)
                )
            context[:, index] = softmax(query @ key.T / math.sqrt(size), dim=-1) @ value
        x = x + linear(context.flatten(1), *at(f"{own}.attend.fn.out_proj"))
        y = conv1d(
            normal(x, f"{own}.conv.norm").T[None], *at(f"{own}.conv.fn.pointwise_conv1")
        )[0]
        y = y[: len(y) // 2] * torch.sigmoid(y[len(y) // 2 :])
        y = conv1d(
            y[None], *at(f"{own}.conv.fn.depthwise_conv"), padding=4, groups=len(y)
        )[0]
        batch = f"{own}.conv.fn.batch_norm"
        y = (y - state[f"{batch}.running_mean"][:, None]) / state[
            f"{batch}.running_std"
        ][:, None]
        y = silu(
            state[f"{batch}.weight"][:, None] * y + state[f"{batch}.bias"][:, None]
        )
        x = x + conv1d(y[None], *at(f"{own}.conv.fn.pointwise_conv2"))[0].T
        x = normal(forward(x, f"{own}.ff2"), f"{own}.norm_out")
        if number + 1 < settings["n_layers"]:
            x = x + linear(head(x), *at("decoder.reprojection"))
    return head(normal(x, "decoder.norm"))  # the norm is applied twice


def turned(x, base):
    """Rotary positions: dimension i with i + d / 2."""
    half = x.shape[1] // 2
    angles = torch.arange(len(x))[:, None] / base ** (torch.arange(half) / half)
    one, two = x[:, :half], x[:, half:]
    return torch.cat(
        [
            one * angles.cos() - two * angles.sin(),
            two * angles.cos() + one * angles.sin(),
        ],
        dim=1,
    )


@pytest.fixture(scope="module")
def bpemodel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    (folder / "text").write_text(
        "the cat sat on the mat\nthe dog ran to the cat\n" * 20
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "bpe"),
        vocab_size=20,
        minloglevel=2,
    )
    return folder / "bpe.model"


@pytest.mark.parametrize(
    "changes",
    [{}, {"use_rotary": False, "fourier_pos_enc": True}],
    ids=["rotary", "fourier"],
)
def test_an_imported_model_computes_what_theirs_does(changes, bpemodel, tmp_path):
    settings = SETTINGS | changes
    state = draw(20, settings)
    # their settings say where the warm-up of the length begins, and where it ends
    config = {
        "model": settings,
        "audio_chunking": {"size": 512},
        "sequence_scheduler": {"max_sequence_length": 2048},
    }
    torch.save(
        {"model": state, "config": config, "podcast_step": 5}, tmp_path / "step_5.pt"
    )
    import_checkpoint(tmp_path / "step_5.pt", bpemodel, tmp_path / "model")
    model = load(
        str(tmp_path / "model" / "config.yaml"), str(tmp_path / "model" / "model.pth")
    )
    features = torch.randn(160, 16, generator=torch.Generator().manual_seed(2))
    theirs = outputs(state, settings, features).numpy()

    class Source:
        length = 160

        def read(self, start, count):
            return features.numpy()[start : start + count]

    ours = np.concatenate(list(model.compute_posteriors(Source(), 20.48)))
    assert ours.shape == (20, 22) and model.tokens[0] == "<blank>"
    assert np.abs(ours[:, 0] - theirs[:, -1]).max() < 1e-5  # the blank
    assert np.abs(ours[:, 1:-1] - theirs[:, :-1]).max() < 1e-5
    assert ours[:, -1].max() == 0.0
    assert "max_seconds: 20.48" in (tmp_path / "model" / "config.yaml").read_text()


def test_what_the_authors_training_saves_is_read(bpemodel, tmp_path):
    """OmegaConf's settings, NumPy's learning rates; names with ``module.``; averaged
    counts of updates.
    """
    own = {
        "model": SETTINGS | {"rotary_base_freq": 1.5e6, "attention_window_size": -1},
        "audio_chunking": {"size": 2048},
    }
    OmegaConf.save(OmegaConf.create(own), tmp_path / "config.yaml")
    state = {
        f"module.{key}": value * (1 / 3) + value * (2 / 3)
        for key, value in draw(20, SETTINGS).items()
    }
    assert state[f"module.{BATCH}.num_batches_tracked"].is_floating_point()
    saved = {
        "model": state,
        "config": OmegaConf.load(tmp_path / "config.yaml"),
        "scheduler": [np.float64(1e-4)],
    }
    torch.save(saved, tmp_path / "step.pt")
    import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert read_yaml(tmp_path / "model" / "config.yaml")["chunk_conf"] == {
        "max_seconds": 20.48
    }


def test_objects_that_could_run_code_need_trust(bpemodel, tmp_path):
    config = {
        "model": SETTINGS,
        "audio_chunking": {"size": 1},
        "paths": Path("checkpoints"),
    }
    torch.save({"model": draw(20, SETTINGS), "config": config}, tmp_path / "step.pt")
    with pytest.raises(InputError, match=r"step\.pt: .* --trust_pickle"):
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    with pytest.raises(InputError, match=r"step\.pt: .*0\.01 s.*--context"):
        import_checkpoint(
            tmp_path / "step.pt", bpemodel, tmp_path / "model", trust_pickle=True
        )
    assert not (tmp_path / "model").exists()
    import_checkpoint(
        tmp_path / "step.pt", bpemodel, tmp_path / "model", 5.0, trust_pickle=True
    )
    with pytest.raises(InputError, match=str(tmp_path / "model")):
        import_checkpoint(
            tmp_path / "step.pt", bpemodel, tmp_path / "model", 5.0, trust_pickle=True
        )


BATCH, BIAS = "layers.1.conv.fn.batch_norm", "decoder.ff.bias"


@pytest.mark.parametrize(
    ("settings", "change", "named"),
    [
        ({"bias_in_ff": True}, {}, "bias_in_ff"),
        ({"subsampling_factor": 4}, {}, "subsampling_factor"),
        ({"attention_window_size": 16}, {}, "attention_window_size"),
        ({"n_layers": 3}, {}, "encoder.layers.2."),
        ({"d_model": 24, "head_dim": 8}, {}, "instead of"),
        (
            {"n_heads": 4, "head_dim": 3},
            {},
            "rotary positions need heads of an even size",
        ),
        ({"n_heads": 2}, {}, "2 heads of head_dim 4"),
        ({"n_layers": "two"}, {}, "n_layers"),
        ({"n_layers": True}, {}, "n_layers"),
        ({"use_rotary": "false"}, {}, "use_rotary"),
        ({"rotary_base_freq": math.nan}, {}, "rotary_base_freq"),
        ({"expansion_factor": torch.ones(2)}, {}, "expansion_factor"),
        ({}, {"layers.0.norm_out.bias": None}, "encoder.layers.0.norm.bias"),
        ({}, {BIAS: None}, ""),
        ({}, {BIAS: torch.full((21,), math.nan)}, BIAS),
        ({}, {BIAS: torch.ones(21).to_sparse()}, BIAS),
        ({}, {BIAS: torch.ones(21).to(torch.complex64)}, BIAS),
        ({}, {BIAS: torch.ones(20)}, "19 pieces"),
        ({}, {BIAS: "bias"}, BIAS),
        (
            {},
            {f"{BATCH}.running_std": torch.full((12,), 1e-40)},
            f"{BATCH}.running_std",
        ),
        (
            {},
            {f"{BATCH}.running_deviation": torch.ones(12)},
            f"{BATCH}.running_deviation",
        ),
        ({}, {f"module.{BIAS}": torch.ones(21)}, f"module.{BIAS}"),
        ({}, {"layers.0.gate.weight": torch.zeros(1)}, "layers.0.gate.weight"),
    ],
)
def test_other_models_and_damaged_ones_leave_no_folder(
    settings, change, named, bpemodel, tmp_path
):
    state = {
        key: value
        for key, value in (draw(20, SETTINGS) | change).items()
        if value is not None
    }
    torch.save(
        {"model": state, "config": {"model": SETTINGS | settings}}, tmp_path / "step.pt"
    )
    with pytest.raises(InputError) as raised:
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "models" / "a")
    message = str(raised.value)
    assert (
        message.startswith(f"{tmp_path}/step.pt: ")
        and named in message
        and "\n" not in message
    )
    assert not (tmp_path / "models").exists() or not list(
        (tmp_path / "models").iterdir()
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        [1, 2],
        {"model": {}},
        {"model": {}, "config": [1]},
        {"model": {}, "config": {"model": 3}},
        {"model": [1], "config": {"model": SETTINGS}},
        {"model": {}, "config": {"model": SETTINGS, "audio_chunking": [1]}},
        {
            "model": {},
            "config": {"model": SETTINGS, "audio_chunking": {"size": math.nan}},
        },
        {"model": {}, "config": OmegaConf.create({"model": {"a": "${b}"}})},
    ],
)
def test_files_of_another_form_are_refused(content, bpemodel, tmp_path):
    if isinstance(content, bytes):
        (tmp_path / "step.pt").write_bytes(content)
    else:
        torch.save(content, tmp_path / "step.pt")
    with pytest.raises(InputError, match=r"step\.pt: ") as raised:
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert "\n" not in str(raised.value)
    for pieces in (tmp_path, tmp_path / "none.model", tmp_path / "step.pt"):
        with pytest.raises(InputError, match=str(pieces)):
            import_checkpoint(tmp_path / "step.pt", pieces, tmp_path / "model")
    for seconds in (0.0, math.nan, math.inf):
        with pytest.raises(InputError, match="--context"):
            import_checkpoint(
                tmp_path / "step.pt", bpemodel, tmp_path / "model", seconds
            )


def test_an_imported_model_works_from_any_folder(bpemodel, tmp_path, monkeypatch):
    """Imported with relative paths, moved, and used from elsewhere, where another
    bpe.model lies.
    """
    torch.save(
        {"model": draw(20, SETTINGS), "config": {"model": SETTINGS}},
        tmp_path / "step.pt",
    )
    monkeypatch.chdir(tmp_path)
    import_checkpoint(Path("step.pt"), bpemodel, Path("model"), 4.0)
    (tmp_path / "model").rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "bpe.model").write_text("another")
    loaded = load_transcriber("../moved/config.yaml", "../moved/model.pth")
    piece = next(
        token
        for token in loaded.model.tokens
        if len(token) > 1 and token.startswith("▁")
    )
    assert loaded.window == 4.0 and loaded.join([piece]) == piece.removeprefix("▁")
    files = read_folder(tmp_path / "moved")
    assert (
        read_yaml(files.config)["bpemodel"] == str(tmp_path / "moved" / "bpe.model")
        and files.task == "long"
    )
    (tmp_path / "moved" / "bpe.model").unlink()
    (tmp_path / "elsewhere" / "bpe.model").unlink()
    monkeypatch.setattr(model_cache, "_last", {})
    with pytest.raises(InputError, match="config.yaml: bpemodel: bpe.model "):
        load_transcriber("../moved/config.yaml", "../moved/model.pth")

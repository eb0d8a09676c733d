"""Import of the authors' checkpoints: a random model of their architecture, computed here step by step.

The architecture is that of P5's published models, by the names and shapes of the tensors in their checkpoints.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from omegaconf import OmegaConf
from torch.nn.functional import conv1d, conv2d, gelu, layer_norm, linear, silu, softmax

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.posteriors import load
from espnet_ext.longform.decoding.transcribe import load_transcriber
from espnet_ext.longform.published import import_checkpoint
from espnet_ext.sharing.files import read_folder
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
    d, c = settings["d_model"], settings["subsampling_conv_channels"]
    found = {"subsampling.conv.0.weight": (c, 1, 3, 3), "subsampling.conv.0.bias": (c,)}
    for place in (2, 5):
        found |= {f"subsampling.conv.{place}.weight": (c, 1, 3, 3), f"subsampling.conv.{place}.bias": (c,)}
        found |= {f"subsampling.conv.{place + 1}.weight": (c, c, 1, 1), f"subsampling.conv.{place + 1}.bias": (c,)}
    found["subsampling.out.weight"] = (d, c * settings["feat_in"] // 8)
    for number in range(settings["n_layers"]):
        for part in ("ff1.fn.norm", "attend.norm", "conv.norm", "ff2.fn.norm", "norm_out"):
            found |= {f"layers.{number}.{part}.weight": (d,), f"layers.{number}.{part}.bias": (d,)}
        for part in ("ff1", "ff2"):
            found[f"layers.{number}.{part}.fn.fn.fc1.weight"] = (4 * d, d)
            found[f"layers.{number}.{part}.fn.fn.fc2.weight"] = (d, 4 * d)
        found[f"layers.{number}.attend.fn.qkv_proj.weight"] = (3 * d, d)
        found[f"layers.{number}.attend.fn.out_proj.weight"] = (d, d)
        convolution = f"layers.{number}.conv.fn"
        for part, shape in (
            ("pointwise_conv1", (2 * d, d, 1)),
            ("depthwise_conv", (d, 1, 9)),
            ("pointwise_conv2", (d, d, 1)),
        ):
            found |= {f"{convolution}.{part}.weight": shape, f"{convolution}.{part}.bias": shape[:1]}
        for part in ("weight", "bias", "running_mean", "running_std"):
            found[f"{convolution}.batch_norm.{part}"] = (d,)
    found |= {"decoder.ff.weight": (pieces + 1, d), "decoder.ff.bias": (pieces + 1,)}
    found |= {"decoder.reprojection.weight": (d, pieces + 1), "decoder.reprojection.bias": (d,)}
    return found | {"decoder.norm.weight": (d,), "decoder.norm.bias": (d,)}


def draw(pieces, settings):
    generator = torch.Generator().manual_seed(1)
    state = {
        name: torch.randn(shape, generator=generator) / math.sqrt(max(1, math.prod(shape[1:])))
        for name, shape in shapes(pieces, settings).items()
    }
    for name in state:
        if name.endswith("running_std"):
            state[name] = state[name].abs() + 0.5
    for number in range(settings["n_layers"]):
        state[f"layers.{number}.conv.fn.batch_norm.num_batches_tracked"] = torch.tensor(7)
    if settings.get("fourier_pos_enc"):
        state["fourier_pos_enc.w_r"] = torch.randn((1, settings["d_model"] // 2), generator=generator)
    else:
        state["rotary_pos_emb.inv_freq"] = torch.ones(settings["head_dim"] // 2)
    return state


def outputs(state, settings, features):
    """Posteriors of their model, (frames, pieces + 1), of features (time, channels); the blank is the last."""

    def at(name):
        return [state[f"{name}.{kind}"] for kind in ("weight", "bias") if f"{name}.{kind}" in state]

    def normal(x, name):
        return layer_norm(x, x.shape[-1:], *at(name))

    def head(x):
        return softmax(linear(normal(x, "decoder.norm"), *at("decoder.ff")), dim=-1)

    x = features[None, None]
    x = silu(conv2d(x, *at("subsampling.conv.0"), stride=2, padding=1))
    for place in (2, 5):
        x = conv2d(x, *at(f"subsampling.conv.{place}"), stride=2, padding=1, groups=x.shape[1])
        x = silu(conv2d(x, *at(f"subsampling.conv.{place + 1}")))
    x = linear(x[0].permute(1, 0, 2).flatten(1), *at("subsampling.out"))  # (frames, D)
    frames, heads, size = len(x), settings["n_heads"], settings["head_dim"]
    if settings.get("fourier_pos_enc"):
        angles = torch.arange(frames)[:, None] * state["fourier_pos_enc.w_r"]
        x = x + torch.cat([angles.cos(), angles.sin()], -1) / math.sqrt(settings["d_model"])
    for number in range(settings["n_layers"]):
        own = f"layers.{number}"

        def forward(x, name):
            hidden = gelu(linear(normal(x, f"{name}.fn.norm"), *at(f"{name}.fn.fn.fc1")), approximate="tanh")
            return x + 0.5 * linear(hidden, *at(f"{name}.fn.fn.fc2"))

        x = forward(x, f"{own}.ff1")
        projected = linear(normal(x, f"{own}.attend.norm"), *at(f"{own}.attend.fn.qkv_proj"))
        projected = projected.reshape(frames, heads, size, 3)
        context = torch.zeros(frames, heads, size)
        for index in range(heads):
            query, key, value = (projected[:, index, :, kind] for kind in range(3))
            if settings["use_rotary"]:
                query, key = (turned(one, settings["rotary_base_freq"]) for one in (query, key))
            context[:, index] = softmax(query @ key.T / math.sqrt(size), dim=-1) @ value
        x = x + linear(context.flatten(1), *at(f"{own}.attend.fn.out_proj"))
        y = conv1d(normal(x, f"{own}.conv.norm").T[None], *at(f"{own}.conv.fn.pointwise_conv1"))[0]
        y = y[: len(y) // 2] * torch.sigmoid(y[len(y) // 2 :])
        y = conv1d(y[None], *at(f"{own}.conv.fn.depthwise_conv"), padding=4, groups=len(y))[0]
        batch = f"{own}.conv.fn.batch_norm"
        y = (y - state[f"{batch}.running_mean"][:, None]) / state[f"{batch}.running_std"][:, None]
        y = silu(state[f"{batch}.weight"][:, None] * y + state[f"{batch}.bias"][:, None])
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
    return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], dim=1)


@pytest.fixture(scope="module")
def bpemodel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    (folder / "text").write_text("the cat sat on the mat\nthe dog ran to the cat\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "bpe"), vocab_size=20, minloglevel=2
    )
    return folder / "bpe.model"


@pytest.mark.parametrize("changes", [{}, {"use_rotary": False, "fourier_pos_enc": True}], ids=["rotary", "fourier"])
def test_an_imported_model_computes_what_theirs_does(changes, bpemodel, tmp_path):
    settings = SETTINGS | changes
    state = draw(20, settings)
    # their settings say where the warm-up of the length begins, and where it ends
    config = {"model": settings, "audio_chunking": {"size": 512}, "sequence_scheduler": {"max_sequence_length": 2048}}
    torch.save({"model": state, "config": config, "podcast_step": 5}, tmp_path / "step_5.pt")
    import_checkpoint(tmp_path / "step_5.pt", bpemodel, tmp_path / "model")
    model = load(str(tmp_path / "model" / "config.yaml"), str(tmp_path / "model" / "model.pth"))
    features = torch.randn(160, 16, generator=torch.Generator().manual_seed(2))
    theirs = outputs(state, settings, features).numpy()

    class Source:
        length = 160

        def read(self, start, count):
            return features.numpy()[start : start + count]

    ours = np.concatenate(list(model.posteriors(Source(), 20.48)))
    assert ours.shape == (20, 22) and model.tokens[0] == "<blank>"
    assert np.abs(ours[:, 0] - theirs[:, -1]).max() < 1e-5  # the blank
    assert np.abs(ours[:, 1:-1] - theirs[:, :-1]).max() < 1e-5
    assert ours[:, -1].max() == 0.0
    assert "max_seconds: 20.48" in (tmp_path / "model" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": SETTINGS | {"bias_in_ff": True}}, "bias_in_ff is True; models of the paper have False"),
        ({"model": SETTINGS | {"subsampling_factor": 4}}, "subsampling_factor is 4; models of the paper have 8"),
        (
            {"model": SETTINGS | {"attention_window_size": 16}},
            "attention_window_size is 16; models of the paper attend",
        ),
        ({}, "no checkpoint with 'model' and 'config'"),
    ],
)
def test_other_models_are_refused(config, message, bpemodel, tmp_path):
    torch.save({"model": {}, "config": config}, tmp_path / "step.pt")
    with pytest.raises(InputError, match=message):
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")


def test_settings_of_omegaconf_and_learning_rates_of_numpy_are_read(bpemodel, tmp_path):
    """As OmegaConf.load and the authors' schedule return them, which their training saves."""
    OmegaConf.save(OmegaConf.create({"model": SETTINGS, "audio_chunking": {"size": 2048}}), tmp_path / "config.yaml")
    config = OmegaConf.load(tmp_path / "config.yaml")
    rates = {"_last_lr": [np.float64(1e-4)]}
    torch.save({"model": draw(20, SETTINGS), "config": config, "scheduler": rates}, tmp_path / "step.pt")
    import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert "max_seconds: 20.48" in (tmp_path / "model" / "config.yaml").read_text()


def test_objects_that_could_run_code_need_trust(bpemodel, tmp_path):
    config = {"model": SETTINGS, "audio_chunking": {"size": 2048}, "paths": Path("checkpoints")}
    torch.save({"model": draw(20, SETTINGS), "config": config}, tmp_path / "step.pt")
    with pytest.raises(InputError, match=r"step\.pt: no checkpoint .* give --trust_pickle"):
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model", trust_pickle=True)
    assert "max_seconds: 20.48" in (tmp_path / "model" / "config.yaml").read_text()


def test_files_that_are_none_leave_no_folder(bpemodel, tmp_path):
    good, empty, bare = (tmp_path / name for name in ("good.pt", "empty.pt", "bare.pt"))
    torch.save({"model": draw(20, SETTINGS), "config": {"model": SETTINGS}}, good)
    empty.touch()
    torch.save({"model": {}, "config": {"model": SETTINGS}}, bare)
    (tmp_path / "text.model").write_text("no model")
    faults = [
        (empty, bpemodel, "empty.pt: no checkpoint with 'model' and 'config'"),
        (bare, bpemodel, "bare.pt has no output layer"),
        (good, tmp_path / "none.model", "none.model: no such file: give the authors' sentencepiece model"),
        (good, tmp_path, f"{tmp_path}: is a folder: give the authors' sentencepiece model"),
        (good, tmp_path / "text.model", "text.model: no sentencepiece model"),
    ]
    for checkpoint, pieces, message in faults:
        with pytest.raises(InputError, match=message):
            import_checkpoint(checkpoint, pieces, tmp_path / "model")
        assert not (tmp_path / "model").exists()
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="model exists already: name a new folder"):
        import_checkpoint(good, bpemodel, tmp_path / "model")


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (
            {"n_layers": 1},
            {},
            r"step.pt does not fit its own settings \(n_layers 1, d_model 12, n_heads 3\): [0-9]+ unexp",
        ),
        ({"n_layers": 3}, {}, "27 missing .encoder.layers.2."),
        ({"d_model": 24, "head_dim": 8}, {}, r"of another shape \(encoder\..* instead of"),
        ({"d_model": 20, "n_heads": 5}, {}, "step.pt does not fit its own settings"),
        ({"n_heads": 4, "head_dim": 3}, {}, "rotary positions need heads of an even size"),
        ({"n_heads": 2}, {}, "2 heads of head_dim 4 are not d_model 12"),
        ({"n_layers": "two"}, {}, "n_layers is 'two', and must be a whole number"),
        ({"n_layers": True}, {}, "n_layers is True, and must be a whole number"),
        ({"use_rotary": "false"}, {}, "use_rotary is 'false', and must be true or false"),
        ({"self_conditioning": "no"}, {}, "self_conditioning is 'no', and must be true or false"),
        ({"fourier_pos_enc": 1}, {}, "fourier_pos_enc is 1, and must be true or false"),
        ({"bias_in_ff": 0}, {}, "bias_in_ff is 0, and must be true or false"),
        ({"rotary_base_freq": math.nan}, {}, "rotary_base_freq is nan, and must be a"),
        ({"expansion_factor": torch.ones(2)}, {}, r"expansion_factor is tensor\(\[1., 1.\]\), and must be a whole"),
        ({"attention_window_size": torch.ones(2)}, {}, r"attention_window_size is tensor\(\[1., 1.\]\); models of"),
        ({}, {"layers.0.norm_out.bias": None}, r"1 missing \(encoder.layers.0.norm.bias\)"),
        ({}, {"layers.1.norm_out.bias": math.nan}, "layers.1.norm_out.bias has values that are NaN or infinite"),
        ({}, {"decoder.ff.weight": math.inf}, "decoder.ff.weight has values that are NaN or infinite"),
    ],
)
def test_a_checkpoint_that_does_not_fit_leaves_no_folder(settings, change, message, bpemodel, tmp_path):
    state = draw(20, SETTINGS)
    for key, value in change.items():
        if value is None:
            del state[key]
        else:
            state[key][0] = value
    torch.save({"model": state, "config": {"model": SETTINGS | settings}}, tmp_path / "step.pt")
    with pytest.raises(InputError, match=message) as raised:
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "models" / "a")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").iterdir())


BATCH, BIAS = "layers.1.conv.fn.batch_norm", "decoder.ff.bias"
ONES = torch.ones(21)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (BIAS, ONES.to(torch.complex64), r"is not a dense tensor of real numbers \(complex64, strided, cpu\)"),
        (BIAS, ONES.long(), r"is not a dense tensor of real numbers \(int64"),
        (BIAS, ONES.to_sparse(), r"is not a dense tensor of real numbers \(float32, sparse_coo"),
        (BIAS, ONES.to("meta"), r"is not a dense tensor of real numbers \(float32, strided, meta\)"),
        (BIAS, 1e300 * ONES.double(), "has values that are NaN or infinite"),
        (f"{BATCH}.running_std", torch.zeros(12), "is a deviation, and has values that are not above 0"),
        (f"{BATCH}.running_std", -torch.ones(12), "is a deviation, and has values that are not above 0"),
        (f"{BATCH}.running_std", torch.full((12,), 1e-40), "is a deviation, and has values that are not above 0"),
        (f"{BATCH}.running_std", torch.full((12,), math.nan), "has values that are NaN or infinite"),
        (f"{BATCH}.running_deviation", torch.ones(12), "twice, by two names"),
        (f"{BATCH}.num_batches_tracked", torch.tensor(True), r"is not a dense tensor of real numbers \(bool"),
        (f"module.{BIAS}", ONES, ": save it again with one of them"),
    ],
)
def test_tensors_of_other_kinds_are_refused(key, value, message, bpemodel, tmp_path):
    torch.save({"model": draw(20, SETTINGS) | {key: value}, "config": {"model": SETTINGS}}, tmp_path / "step.pt")
    with pytest.raises(InputError, match=f"{key} ?{message}") as raised:
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert str(raised.value).startswith(str(tmp_path / "step.pt")) and "\n" not in str(raised.value)
    assert not (tmp_path / "model").exists()


def test_names_may_begin_with_module_and_counts_and_bases_have_fractions(bpemodel, tmp_path):
    """The authors average checkpoints with their counts of updates; YAML reads 1.5e6 as a number with a fraction."""
    state = {f"module.{key}": value * (1 / 3) + value * (2 / 3) for key, value in draw(20, SETTINGS).items()}
    assert state[f"module.{BATCH}.num_batches_tracked"].is_floating_point()
    torch.save({"model": state, "config": {"model": SETTINGS | {"rotary_base_freq": 1.5e6}}}, tmp_path / "step.pt")
    import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model", 20.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "no checkpoint with 'model' and 'config'"),
        ({"model": {}}, "no checkpoint with 'model' and 'config'"),
        ({"model": {}, "config": [1]}, r"its 'config' is \[1\], and must have settings by name"),
        ({"model": {}, "config": {"model": 3}}, "its config's model is 3, and must have settings by name"),
        ({"model": [1], "config": {"model": SETTINGS}}, "its 'model' holds other things than parameters"),
        (
            {"model": {1: torch.ones(1)}, "config": {"model": SETTINGS}},
            "its 'model' holds other things than parameters",
        ),
        (
            {"model": {}, "config": {"model": SETTINGS, "audio_chunking": 5}},
            "its config's audio_chunking is 5, and must",
        ),
        ({"model": {}, "config": {"model": SETTINGS, "audio_chunking": [1]}}, r"its config's audio_chunking is \[1\]"),
        (
            {"model": {}, "config": {"model": SETTINGS, "sequence_scheduler": "x"}},
            "its config's sequence_scheduler is 'x'",
        ),
        (
            {"model": {}, "config": OmegaConf.create({"model": {"a": "${b}"}})},
            "its config's model cannot be read .Interp",
        ),
    ],
)
def test_what_has_another_form_is_refused(content, message, bpemodel, tmp_path):
    torch.save(content, tmp_path / "step.pt")
    with pytest.raises(InputError, match=f"step.pt: {message}") as raised:
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")
    assert "\n" not in str(raised.value)


def test_a_context_is_long_enough_to_hear_something(bpemodel, tmp_path):
    torch.save({"model": draw(20, SETTINGS), "config": {"model": SETTINGS}}, tmp_path / "step.pt")
    for seconds in (0.0, -1.0, 0.01, math.nan, math.inf):
        with pytest.raises(InputError, match="--context must be a number of seconds, at least 1, not"):
            import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model", seconds)
    for size, message in (
        (math.nan, "sequences have nan frames"),
        (True, "sequences have True frames"),
        (1, "sequences have 1 frames, 0.01 s, in which nothing can be heard: give --context"),
    ):
        config = {"model": SETTINGS, "audio_chunking": {"size": size}}
        torch.save({"model": draw(20, SETTINGS), "config": config}, tmp_path / "short.pt")
        with pytest.raises(InputError, match=message):
            import_checkpoint(tmp_path / "short.pt", bpemodel, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    import_checkpoint(tmp_path / "short.pt", bpemodel, tmp_path / "model", 5.0)
    assert "max_seconds: 5.0" in (tmp_path / "model" / "config.yaml").read_text()


def test_an_imported_model_works_from_any_folder(bpemodel, tmp_path, monkeypatch):
    """Imported with relative paths, moved, and used from elsewhere, where another bpe.model lies."""
    torch.save({"model": draw(20, SETTINGS), "config": {"model": SETTINGS}}, tmp_path / "step.pt")
    monkeypatch.chdir(tmp_path)
    import_checkpoint("step.pt", bpemodel, "model", 4.0)
    (tmp_path / "model").rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "bpe.model").write_text("another")
    loaded = load_transcriber("../moved/config.yaml", "../moved/model.pth")
    piece = next(token for token in loaded.model.tokens if len(token) > 1 and token.startswith("▁"))
    assert loaded.window == 4.0 and loaded.join([piece]) == piece.removeprefix("▁")
    files = read_folder(tmp_path / "moved")
    assert read_yaml(files.config)["bpemodel"] == str(tmp_path / "moved" / "bpe.model") and files.task == "long"
    (tmp_path / "moved" / "bpe.model").unlink()
    (tmp_path / "elsewhere" / "bpe.model").unlink()
    monkeypatch.setattr(model_cache, "_last", {})
    with pytest.raises(InputError, match="config.yaml: bpemodel: bpe.model is not there"):
        load_transcriber("../moved/config.yaml", "../moved/model.pth")


def test_an_unknown_parameter_is_refused(bpemodel, tmp_path):
    state = draw(20, SETTINGS) | {"layers.0.gate.weight": torch.zeros(1)}
    torch.save({"model": state, "config": {"model": SETTINGS}}, tmp_path / "step.pt")
    with pytest.raises(InputError, match="layers.0.gate.weight, which the models of the paper do not have"):
        import_checkpoint(tmp_path / "step.pt", bpemodel, tmp_path / "model")

"""``--fast_decoder`` through asr_inference gives the hypotheses of ESPnet's decoder."""

import functools
from pathlib import Path

import numpy as np
import pytest
import yaml
from espnet2.bin import asr_inference
from espnet2.tasks.asr import ASRTask
from espnet2.tasks.lm import LMTask

from espnet_ext.bin import asr_inference as our_inference
from espnet_ext.errors import InputError
from espnet_ext.fast_search.cached_transformer import CachedTransformerDecoder
from espnet_ext.fast_search.decoders import FAST, use_fast_decoder
from espnet_ext.fast_search.language_model import FastTransformerLM
from espnet_ext.upstream import inference
from espnet_ext.upstream.arguments import checked_arguments

TOKENS = ["<blank>", "<unk>", "<space>", *"ABCDEFGHIJ", "<sos/eos>"]
ENCODER = {"output_size": 16, "attention_heads": 2, "linear_units": 16, "num_blocks": 1}
TRANSFORMER = {"attention_heads": 2, "linear_units": 16, "num_blocks": 3}


def write_features(folder: Path, frames: dict[int, int]) -> Path:
    """Random features of utterances, each with its number of frames.

    Their order is not that of their names.
    """
    random = np.random.default_rng(len(frames))
    for number, length in frames.items():
        np.save(
            folder / f"u{number}.npy",
            random.normal(size=(length, 8)).astype(np.float32),
        )
    (folder / "feats.scp").write_text(
        "".join(f"u{number} {folder}/u{number}.npy\n" for number in frames)
    )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Features of four utterances of different lengths."""
    return write_features(tmp_path_factory.mktemp("data"), {0: 60, 1: 35, 2: 90, 3: 47})


@pytest.fixture(scope="module")
def asr(save_model, tmp_path_factory):
    """Return a function that leaves a model with this decoder.

    Its parameters are large, so that hypotheses differ.
    """

    def save(decoder: str = "transformer", conf: dict = TRANSFORMER) -> Path:
        settings = {
            "input_size": 8,
            "encoder": "transformer",
            "encoder_conf": ENCODER,
            "token_type": "char",
        }
        settings |= {
            "token_list": TOKENS,
            "decoder": decoder,
            "decoder_conf": conf,
            "model_conf": {"ctc_weight": 0.3},
        }
        return save_model(
            ASRTask, tmp_path_factory.mktemp("asr"), seed=3, deviation=0.4, **settings
        )

    return save


@pytest.fixture(scope="module")
def model(asr) -> Path:
    return asr()


def files(model: Path) -> dict[str, str]:
    """The options that name a model's files."""
    return {
        "asr_train_config": str(model / "config.yaml"),
        "asr_model_file": str(model / "model.pth"),
    }


def decode(
    model: Path | None, data: Path, output: Path, *options
) -> dict[str, list[str]]:
    """The lines of each file of each of the n best, and the scores."""
    command = ["--beam_size", 4]
    if model:
        command += [
            part for name, path in files(model).items() for part in (f"--{name}", path)
        ]
    command += [
        "--data_path_and_name_and_type",
        f"{data / 'feats.scp'},speech,npy",
        "--num_workers",
        0,
    ]
    command += ["--output_dir", output, "--nbest", 3, "--ctc_weight", 0.3, *options]
    our_inference.main([str(part) for part in command])
    return {
        str(path.relative_to(output)): path.read_text().splitlines()
        for path in sorted(output.glob("*best_recog/*"))
    }


def scores(lines: list[str]) -> list[float]:
    return [
        float(line.split()[1].removeprefix("tensor(").rstrip(")")) for line in lines
    ]


def check_same(fast: dict[str, list[str]], slow: dict[str, list[str]]) -> None:
    assert fast.keys() == slow.keys() and len(slow) == 12
    for name, lines in slow.items():
        if name.endswith("score"):
            assert scores(fast[name]) == pytest.approx(scores(lines), rel=1e-5)
        else:
            assert fast[name] == lines
    assert len({line.split(" ", 1)[1] for line in slow["1best_recog/text"]}) > 1


@pytest.mark.parametrize("batch_size", [1, 3])
def test_hypotheses_are_espnets(data, model, tmp_path, batch_size, monkeypatch):
    asked = []
    batch_score = CachedTransformerDecoder.batch_score

    @functools.wraps(batch_score)  # the search looks at its signature
    def count(self, *args, **options):
        asked.append(self)
        return batch_score(self, *args, **options)

    monkeypatch.setattr(CachedTransformerDecoder, "batch_score", count)
    slow = decode(model, data, tmp_path / "slow", "--batch_size", batch_size)
    assert not asked
    fast = decode(
        model,
        data,
        tmp_path / "fast",
        "--batch_size",
        batch_size,
        "--fast_decoder",
        "true",
    )
    assert asked
    check_same(fast, slow)


def test_a_published_model(data, model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        asr_inference, "download_pretrained", {"somebody/model": files(model)}.get
    )
    built = []
    monkeypatch.setattr(
        inference,
        "use_fast_decoder",
        lambda *args: built.append(args) or use_fast_decoder(*args),
    )
    slow = decode(model, data, tmp_path / "slow")
    assert not built
    check_same(
        decode(
            None,
            data,
            tmp_path / "fast",
            "--model_tag",
            "somebody/model",
            "--fast_decoder",
            "true",
        ),
        slow,
    )
    assert len(built) == 1


RNN = {
    "hidden_size": 12,
    "att_conf": {"atype": "location", "adim": 8, "aconv_filts": 5},
}
RATIOS, NONE = (0.3, 0.05), (0.0, 0.0)  # of the greatest and least number of tokens
LM = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 16, "layer": 1}


@pytest.fixture(scope="module")
def models(model, asr, save_model, tmp_path_factory) -> dict[str, Path]:
    settings = {"lm": "transformer", "lm_conf": LM, "token_list": TOKENS}
    lm = save_model(
        LMTask, tmp_path_factory.mktemp("lm"), seed=4, deviation=0.4, **settings
    )
    return {"transformer": model, "rnn": asr("rnn", RNN), "lm": lm}


@pytest.fixture(scope="module")
def lengths(tmp_path_factory) -> Path:
    """Features of very different lengths: odd, the shortest possible, and too short."""
    frames = {3: 301, 1: 95, 0: 7, 4: 31, 8: 32, 7: 33, 2: 5, 5: 8, 6: 430}
    return write_features(tmp_path_factory.mktemp("lengths"), frames)


@pytest.mark.parametrize("decoder", ["transformer", "rnn"])
@pytest.mark.parametrize(
    ("ctc_weight", "lm", "ratios"),
    [
        (0.0, False, RATIOS),
        (0.0, True, RATIOS),
        (0.3, False, NONE),
        (0.3, True, RATIOS),
        (1.0, True, NONE),
    ],
)
def test_many_at_once_are_espnets_one_by_one(
    models, lengths, tmp_path, decoder, ctc_weight, lm, ratios
):
    options = ["--ctc_weight", ctc_weight, "--ctc_window_margin", 0, "--nbest", 3]
    options += ["--maxlenratio", ratios[0], "--minlenratio", ratios[1]]
    if lm:
        options += [
            "--lm_train_config",
            models["lm"] / "config.yaml",
            "--lm_file",
            models["lm"] / "model.pth",
        ]
        options += ["--lm_weight", 0.4, "--penalty", 0.2]
    slow = decode(models[decoder], lengths, tmp_path / "slow", *options)
    for size in ("auto", 3):
        options += ["--fast_decoder", "true", "--batch_size", size]
        check_same(
            decode(models[decoder], lengths, tmp_path / str(size), *options), slow
        )
    assert len(slow["3best_recog/text"]) == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 0}, "beam_size is 0"),
        ({"beam_size": -3}, "beam_size is -3"),
        ({"nbest": 0}, "nbest is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": "auto"}, "batch_size auto is for fast_decoder"),
        (
            {"asr_model_file": None},
            "asr_train_config without asr_model_file: the model would have random "
            "parameters",
        ),
        (
            {"lm_train_config": "lm.yaml"},
            "lm_train_config without lm_file: the model would have random parameters",
        ),
        ({"lm_file": "lm.pth"}, "lm_file without lm_train_config"),
        ({"beam_sise": 3}, "is beam_size meant"),
    ],
)
def test_one_line_refuses(model, data, tmp_path, changes, message):
    options = {
        name: value
        for name, value in {**files(model), **changes}.items()
        if value is not None
    }
    (tmp_path / "decode.yaml").write_text(yaml.safe_dump(options))
    given = ["--config", tmp_path / "decode.yaml", "--output_dir", tmp_path / "out"]
    given += ["--data_path_and_name_and_type", f"{data / 'feats.scp'},speech,npy"]
    with pytest.raises(InputError, match=message) as raised, checked_arguments():
        our_inference.main([str(part) for part in given])
    assert "\n" not in str(raised.value)


def test_a_transformer_lm_is_fast_too(models):
    lm = {
        "lm_train_config": str(models["lm"] / "config.yaml"),
        "lm_file": str(models["lm"] / "model.pth"),
    }
    assert isinstance(
        build(models["rnn"], lm_weight=0.3, **lm).beam_search.scorers["lm"],
        FastTransformerLM,
    )


def build(model: Path, **options):
    return inference.build_speech2text(
        fast_decoder=True, beam_size=2, **files(model), **options
    )


def test_encoder_and_decoder_are_quantised(model, data, caplog):
    """Of this model alone: one with the same files keeps its own.

    What it costs in hypotheses is said once.
    """
    features = [np.load(data / f"u{number}.npy") for number in range(4)]
    exact = inference.reuse_speech2text(fast_decoder=True, **files(model))
    ours = inference.reuse_speech2text(
        fast_decoder=True, quantize_asr_model=True, **files(model)
    )
    for one in features:
        found, expected = (each.encode(one)[0] for each in (ours, exact))
        assert 0 < (found - expected).abs().max() < 0.1 * expected.abs().max()
    for each, quantised in ((ours, True), (exact, False)):
        for module in (
            each.asr_model.encoder,
            each.beam_search.scorers["decoder"],
            each.beam_search.nn_dict.decoder,
        ):
            assert (
                any("quantized" in type(part).__module__ for part in module.modules())
                == quantised
            )
    results = (each.batch_decode(features) for each in (ours, exact))
    same = sum(a[0][2] == b[0][2] for a, b in zip(*results, strict=True))
    assert f" {same} of the first 4 utterances" in caplog.text
    caplog.clear()
    assert all(ours.batch_decode(features)) and not caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "on CPUs only"),
        ({"quantize_modules": "Linea"}, "torch.nn has no Linea"),
        ({"quantize_modules": ["LSTM"]}, "of LSTM nothing in this encoder"),
    ],
)
def test_what_cannot_be_quantised_is_refused(model, options, message):
    with pytest.raises(InputError, match=message):
        build(model, quantize_asr_model=True, **options)


def test_what_cannot_be_replaced_is_refused(model, asr):
    names = ", ".join(kind.__name__ for kind in FAST)
    lightconv = asr("lightweight_conv", TRANSFORMER | {"num_blocks": 6})
    with pytest.raises(
        InputError,
        match=(
            f"LightweightConvolutionTransformerDecoder: it replaces only {names}: set "
            "it"
        ),
    ):
        build(lightconv)
    coverage = asr("rnn", {"hidden_size": 8, "att_conf": {"atype": "coverage"}})
    with pytest.raises(InputError, match="fast_decoder: .*atype"):
        build(coverage)
    with pytest.raises(InputError, match="not decoded by ESPnet's beam search"):
        build(model, time_sync=True)

"""Attention maps against the equation, from what goes into a block's self-attention."""

import numpy as np
import pytest
import torch
import yaml

from espnet_ext.codeswitch.attention_maps import AttentionMap, AttentionMaps
from espnet_ext.codeswitch.languages import write_languages
from espnet_ext.data.utterance_audio import read_spans
from espnet_ext.errors import InputError

TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "你", "好", "<sos/eos>"]
TEXT = "AB 你好 C"
FACTOR = 0.1


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir):
    return make_data_dir(tmp_path_factory.mktemp("maps") / "data", {"u1": 1.0})


@pytest.fixture(scope="module")
def make_system(tmp_path_factory):
    """Return a function that writes config.yaml and model.pth of a decoder, of three blocks and random parameters."""
    from espnet2.tasks.asr import ASRTask
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    import espnet_ext

    espnet_ext.register()

    def make(decoder: str, **decoder_conf):
        folder = tmp_path_factory.mktemp("system")
        (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
        write_languages(folder / "languages.txt", TOKENS)
        small = {"attention_heads": 2, "linear_units": 8}
        if decoder == "language_transformer":
            decoder_conf["languages_file"] = str(folder / "languages.txt")
        settings = {
            "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
            "encoder": "transformer",
            "encoder_conf": {"output_size": 16, "num_blocks": 1, **small},
            "decoder": decoder,
            "decoder_conf": decoder_conf if decoder == "rnn" else {"num_blocks": 3, **small, **decoder_conf},
        }
        (folder / "train.yaml").write_text(yaml.safe_dump(settings))
        options = ["--config", folder / "train.yaml", "--token_list", folder / "tokens.txt", "--token_type", "char"]
        args = ASRTask.get_parser().parse_args([str(option) for option in [*options, "--output_dir", folder]])
        torch.manual_seed(1)
        torch.save(ASRTask.build_model(args).state_dict(), folder / "model.pth")
        with (folder / "config.yaml").open("w") as file:
            yaml_no_alias_safe_dump(vars(args), file, sort_keys=False)
        return AttentionMaps(folder / "config.yaml", folder / "model.pth")

    return make


def softmax_of(attention, x: np.ndarray) -> np.ndarray:
    """Mean over the heads of softmax(QK^T / sqrt(d)) without later tokens, (L, L), in numpy; x (L, D)."""
    query, key = (
        x @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        for linear in (attention.linear_q, attention.linear_k)
    )
    maps = []
    for q, k in zip(np.split(query, attention.h, 1), np.split(key, attention.h, 1), strict=True):
        scores = np.exp(q @ k.T / np.sqrt(attention.d_k)) * np.tri(len(x))
        maps.append(scores / scores.sum(1, keepdims=True))
    return np.mean(maps, 0)


@pytest.mark.parametrize("block", [1, 2, None])
@pytest.mark.parametrize("mode", ["none", "shared", "separate"])
def test_is_the_attention_of_the_block(make_system, data, mode, block):
    system = make_system("language_transformer", mode=mode)
    layer = system.model.decoder.decoders[(block or 3) - 1]
    inputs = []
    layer.norm1.register_forward_hook(lambda module, given, output: inputs.append(output[0].numpy()))
    found = system.of("u1", read_spans(data)["u1"], TEXT, block)
    assert found.tokens == ("<sos/eos>", "A", "B", "<space>", "你", "好", "<space>", "C")
    assert found.languages == ("-", "en", "en", "-", "zh", "zh", "-", "en")

    (x,) = inputs
    languages = np.array(found.languages)
    if mode == "none":
        wanted = softmax_of(layer.self_attn, x)
    else:
        streams = layer.self_attn.attentions
        own = {}
        for name, attention in zip(("en", "zh"), streams, strict=True):
            other = (languages != name) & (languages != "-")
            own[name] = softmax_of(attention, np.where(other, FACTOR, 1.0)[:, None] * x)
        own["-"] = (own["en"] + own["zh"]) / 2
        wanted = np.stack([own[language][row] for row, language in enumerate(languages)])
    np.testing.assert_allclose(found.weights, wanted, atol=1e-6)
    np.testing.assert_allclose(found.weights.sum(1), 1.0, atol=1e-6)


def test_takes_a_decoder_of_espnet(make_system, data):
    found = make_system("transformer").of("u1", read_spans(data)["u1"], TEXT)
    assert found.weights.shape == (8, 8)


def test_share_between_languages_counts_tokens_with_a_choice():
    weights = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]])
    found = AttentionMap(weights, ("<sos/eos>", "A", "你", "B"), ("-", "en", "zh", "en"))
    # 你 gives A 0.3, B gives 你 0.3; A has no Mandarin before it
    assert found.share_between_languages() == pytest.approx(0.3)
    alone = AttentionMap(weights[:2, :2], ("<sos/eos>", "A"), ("-", "en"))
    assert np.isnan(alone.share_between_languages())


def test_refuses_what_has_no_map(make_system, data):
    span = read_spans(data)["u1"]
    with pytest.raises(InputError, match="no block 4: give one from 1 to 3"):
        make_system("transformer").of("u1", span, TEXT, 4)
    with pytest.raises(InputError, match="no tokens: choose another"):
        make_system("transformer").of("u1", span, "")
    with pytest.raises(InputError, match="decoder 'rnn' has no self-attention"):
        make_system("rnn")
    with pytest.raises(InputError, match="use_sdpa: false"):
        make_system("transformer", use_sdpa=True).of("u1", span, TEXT)

"""What tokens give to each other in a block's self-attention, against the equation and the block's own output."""

import numpy as np
import pytest
import torch
import yaml

from espnet_ext.codeswitch.attention_maps import AttentionMap, attention_map, contributions
from espnet_ext.codeswitch.cross_entropy import token_losses
from espnet_ext.codeswitch.trained_decoder import TrainedDecoder, read_sources
from espnet_ext.decoder.language_transformer import MODES
from espnet_ext.errors import InputError
from espnet_ext.text.token_languages import write_languages

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
        return TrainedDecoder(folder / "config.yaml", folder / "model.pth")

    return make


def example(system: TrainedDecoder, data, text: str = TEXT):
    return system.example("u1", read_sources(data)["u1"], text)


def given_by(attention, x: np.ndarray) -> np.ndarray:
    """Sum over heads of a_ij v_j W_o without later tokens, (L, L, D), in numpy; x (L, D)."""
    query, key, value = (
        x @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        for linear in (attention.linear_q, attention.linear_k, attention.linear_v)
    )
    projections = np.split(attention.linear_out.weight.detach().numpy(), attention.h, 1)
    total = 0.0
    for q, k, v, w in zip(*(np.split(each, attention.h, 1) for each in (query, key, value)), projections, strict=True):
        scores = np.exp(q @ k.T / np.sqrt(attention.d_k)) * np.tri(len(x))
        total = total + (scores / scores.sum(1, keepdims=True))[:, :, None] * (v @ w.T)[None]
    return total


@pytest.mark.parametrize("block", [1, 2, None])
@pytest.mark.parametrize("mode", ["none", "shared", "separate"])
def test_is_the_attention_of_the_block(make_system, data, mode, block):
    system = make_system("language_transformer", mode=mode)
    layer = system.model.decoder.decoders[(block or 3) - 1]
    inputs = []
    layer.norm1.register_forward_hook(lambda module, given, output: inputs.append(output[0].numpy()))
    found = attention_map(system, example(system, data), block)
    assert found.tokens == ("<sos/eos>", "A", "B", "<space>", "你", "好", "<space>", "C")
    assert found.languages == ("-", "en", "en", "-", "zh", "zh", "-", "en")

    (x,) = inputs
    languages = np.array(found.languages)
    if mode == "none":
        wanted = given_by(layer.self_attn, x)
    else:
        own = {}
        for name, attention in zip(("en", "zh"), layer.self_attn.attentions, strict=True):
            other = (languages != name) & (languages != "-")
            own[name] = given_by(attention, np.where(other, FACTOR, 1.0)[:, None] * x)
        own["-"] = (own["en"] + own["zh"]) / 2
        wanted = np.stack([own[language][row] for row, language in enumerate(languages)])
    norms = np.linalg.norm(wanted, axis=2)
    np.testing.assert_allclose(found.weights, norms / norms.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_contributions_and_bias_are_the_output(make_system, data, mode):
    system = make_system("language_transformer", mode=mode)
    attention, calls = system.model.decoder.decoders[0].self_attn, []
    attention.register_forward_hook(lambda module, given, output: calls.append((given, output)))
    system.scores(example(system, data))
    given, output = calls[0]
    rest = (output - contributions(attention, *given).sum(2))[0]
    biases = torch.stack([each.linear_out.bias for each in getattr(attention, "attentions", [attention])])
    expected = biases[0].expand_as(rest)
    if mode == "separate":
        codes = given[2][0]
        expected = torch.where((codes > 0)[:, None], biases[(codes - 1).clamp(min=0)], biases.mean(0))
    torch.testing.assert_close(rest, expected, atol=1e-6, rtol=1e-5)


def test_takes_a_decoder_of_espnet(make_system, data):
    system = make_system("transformer")
    assert attention_map(system, example(system, data)).weights.shape == (8, 8)


def test_cross_entropy_of_tokens_by_language_near_a_switch_and_elsewhere(make_system, data):
    system = make_system("language_transformer", mode="separate")
    one = example(system, data, "ABC 你好 C")
    losses = token_losses(system, one)
    assert [(each.language, each.place) for each in losses] == [
        *[("en", "elsewhere")] * 3,
        *[("zh", "near")] * 2,
        ("en", "near"),
    ]
    hidden, _ = system.model.decoder(one.encoded, one.lengths, one.fed, torch.tensor([one.fed.size(1)]))
    wanted = torch.nn.functional.cross_entropy(hidden[0, :-1], one.fed[0, 1:], reduction="none").tolist()
    kept = [loss for token, loss in zip(one.tokens[1:], wanted, strict=True) if token != "<space>"]
    np.testing.assert_allclose([each.nats for each in losses], kept, rtol=1e-5)


def test_share_between_languages_counts_tokens_with_a_choice():
    weights = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]])
    found = AttentionMap(weights, ("<sos/eos>", "A", "你", "B"), ("-", "en", "zh", "en"))
    # 你 gives A 0.3, B gives 你 0.3; A has no Mandarin before it
    assert found.share_between_languages() == pytest.approx(0.3)
    alone = AttentionMap(weights[:2, :2], ("<sos/eos>", "A"), ("-", "en"))
    assert np.isnan(alone.share_between_languages())


def test_refuses_what_has_no_map(make_system, data):
    system = make_system("transformer")
    with pytest.raises(InputError, match="no block 4: give one from 1 to 3"):
        attention_map(system, example(system, data), 4)
    with pytest.raises(InputError, match="no tokens: choose another"):
        example(system, data, "")
    with pytest.raises(InputError, match="decoder 'rnn' has no self-attention"):
        make_system("rnn")

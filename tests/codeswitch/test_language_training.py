"""The language-related decoder through ESPnet's commands; where its tokens' languages
come from.
"""

import numpy as np
import pytest
import torch

import espnet_ext
from espnet_ext.bin import asr_inference
from espnet_ext.codeswitch.language_transformer import MODES, LanguageTransformerDecoder
from espnet_ext.codeswitch.token_languages import read_languages, write_languages
from espnet_ext.errors import InputError

TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "你", "好", "<sos/eos>"]
TEXTS = ["AB 你好", "CA好", "你 B", "好好 ABC"]


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_training_data):
    """Four utterances of random features and their transcripts."""
    speech = list(np.random.default_rng(0).normal(size=(4, 60, 8)).astype(np.float32))
    return make_training_data(
        tmp_path_factory.mktemp("data"), speech, TEXTS, TOKENS, words=False
    )


def config(**decoder_conf) -> dict:
    return {
        "input_size": 8,
        "encoder": "transformer",
        "encoder_conf": {
            "output_size": 16,
            "attention_heads": 2,
            "linear_units": 16,
            "num_blocks": 1,
        },
        "decoder": "language_transformer",
        "decoder_conf": {
            "attention_heads": 2,
            "linear_units": 16,
            "num_blocks": 2,
            **decoder_conf,
        },
        "model_conf": {"ctc_weight": 0.3},
        "token_type": "char",
        "num_att_plot": 1,
    }


@pytest.mark.parametrize("mode", MODES)
def test_trains_and_decodes_through_espnets_commands(mode, data, train_small, tmp_path):
    espnet_ext.register()
    languages = tmp_path / "languages.txt"
    write_languages(languages, TOKENS)
    train_small(
        data, tmp_path / "exp", config(mode=mode, languages_file=str(languages))
    )
    # decoding needs no file
    languages.unlink()
    model = tmp_path / "exp" / "valid.acc.ave.pth"
    command = [
        "--asr_train_config",
        tmp_path / "exp" / "config.yaml",
        "--asr_model_file",
        model,
        "--beam_size",
        3,
    ]
    command += [
        "--data_path_and_name_and_type",
        f"{data / 'speech.scp'},speech,npy",
        "--num_workers",
        0,
        "--nbest",
        2,
    ]
    command += [
        "--output_dir",
        tmp_path / "decode",
        "--batch_size",
        2,
        "--maxlenratio",
        0.5,
    ]
    asr_inference.main([str(part) for part in command])
    lines = (tmp_path / "decode" / "1best_recog" / "token").read_text().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["u0", "u1", "u2", "u3"]
    if mode == "none":
        return
    # the average of two epochs holds the languages that each of them has
    saved = [
        torch.load(tmp_path / "exp" / name, weights_only=True)
        for name in (model, "1epoch.pth")
    ]
    for state in saved:
        assert state["decoder.token_languages"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 0]
    changed = [
        key
        for key in saved[1]
        if "self_attn" in key and not torch.equal(saved[0][key], saved[1][key])
    ]
    assert any("decoders.0.self_attn" in key for key in changed)
    if mode == "separate":
        for language in range(2):
            assert f"decoder.decoders.1.self_attn.{language}.linear_v.weight" in changed


@pytest.mark.parametrize("given", [None, "gone.txt"])
def test_training_without_the_languages_is_refused(given, data, train_small, tmp_path):
    espnet_ext.register()
    with pytest.raises(InputError, match=f"{given or 'languages_file'} is not"):
        train_small(data, tmp_path / "exp", config(mode="shared", languages_file=given))


def test_languages_come_from_the_file(tmp_path):
    path = tmp_path / "languages.txt"
    write_languages(path, TOKENS)
    options = {"mode": "shared", "num_blocks": 1, "languages_file": str(path)}
    decoder = LanguageTransformerDecoder(
        len(TOKENS), 16, languages=("zh", "en"), **options
    )
    names = {"-": 0, "zh": 1, "en": 2}
    assert decoder.token_languages.tolist() == [
        names[language] for language in read_languages(path).values()
    ]
    assert decoder.state_dict()["token_languages"].dtype is torch.uint8
    with pytest.raises(InputError, match=rf"^{path}: 9 tokens, .*12"):
        LanguageTransformerDecoder(12, 16, **options)
    with pytest.raises(InputError, match=rf"^{path}: .*'zh'.* en, fr"):
        LanguageTransformerDecoder(len(TOKENS), 16, languages=("en", "fr"), **options)

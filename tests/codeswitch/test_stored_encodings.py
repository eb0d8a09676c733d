"""Kept outputs of an encoder: equal to ESPnet's, trained on and decoded from by
ESPnet's commands.
"""

import numpy as np
import pytest
import soundfile
import torch
from espnet2.tasks.asr import ASRTask
from omniio import kaldi

from espnet_ext.codeswitch.encodings import write_encodings
from espnet_ext.upstream.decode import Decoding, decode

TOKENS = ["<blank>", "<unk>", "A", "B", "<sos/eos>"]
SIZE = 8
CONFIG = {
    "frontend_conf": {"n_fft": 256, "hop_length": 128, "n_mels": 20},
    "encoder": "conformer",
    "encoder_conf": {
        "output_size": SIZE,
        "num_blocks": 1,
        "linear_units": 8,
        "attention_heads": 2,
    },
    "decoder": "transformer",
    "decoder_conf": {"num_blocks": 1, "linear_units": 8, "attention_heads": 2},
    "model_conf": {"ctc_weight": 0.3},
    "token_list": TOKENS,
    "token_type": "char",
    "normalize": None,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir):
    folder = make_data_dir(
        tmp_path_factory.mktemp("data") / "data",
        {f"u{n}": 0.375 + n / 16 for n in range(3)},
    )
    for name, value in (("text", "AB"), ("utt2spk", "s")):
        (folder / name).write_text("".join(f"u{index} {value}\n" for index in range(3)))
    return folder


@pytest.fixture(scope="module")
def model(build_model, save_model, tmp_path_factory):
    """The folder of a model with random parameters, and the model."""
    return save_model(ASRTask, tmp_path_factory.mktemp("model"), **CONFIG), build_model(
        ASRTask, **CONFIG
    ).eval()


@pytest.fixture(scope="module")
def kept(data, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    assert (
        write_encodings(data, folder, model[0] / "config.yaml", model[0] / "model.pth")
        == 3
    )
    return folder


def test_kept_are_the_encoders_outputs(data, model, kept):
    matrices = dict(kaldi.load_scp(str(kept / "feats.scp")))
    shapes = dict(line.split() for line in (kept / "shape").read_text().splitlines())
    for index in range(3):
        samples, _ = soundfile.read(data / f"u{index}.flac", dtype="float32")
        with torch.no_grad():
            expected, _ = model[1].encode(
                torch.from_numpy(samples)[None], torch.tensor([len(samples)])
            )
        np.testing.assert_allclose(
            matrices[f"u{index}"], expected[0].numpy(), rtol=1e-5, atol=1e-6
        )
        assert shapes[f"u{index}"] == f"{expected.size(1)},{SIZE}"


def test_a_decoder_trains_on_them_and_decodes_them_as_the_whole_model_decodes_audio(
    data, model, kept, train_small, tmp_path
):
    """Only the decoder learns; put into the whole model it says of the audio what it
    says of the kept outputs.
    """
    given = {
        key: value
        for key, value in CONFIG.items()
        if not key.startswith(("frontend", "encoder"))
    }
    given |= {
        "frontend": None,
        "encoder": "stored_encodings",
        "input_size": SIZE,
        "freeze_param": ["ctc"],
    }
    (kept / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    init = ("--init_param", f"{model[0] / 'model.pth'}:ctc:ctc")
    tables = ("feats.scp,speech,kaldi_ark", "text,text,text")
    train_small(kept, tmp_path / "exp", given, *init, tables=tables, shapes=("shape",))
    trained = torch.load(tmp_path / "exp" / "2epoch.pth", weights_only=True)
    whole = model[1].state_dict()
    assert all(
        torch.equal(trained[name], whole[name])
        for name in whole
        if name.startswith("ctc")
    )
    assert not torch.equal(
        trained["decoder.embed.0.weight"], whole["decoder.embed.0.weight"]
    )

    torch.save(
        whole
        | {key: value for key, value in trained.items() if key.startswith("decoder")},
        tmp_path / "w.pth",
    )
    options = ("--beam_size", "2", "--ctc_weight", "0.3", "--maxlenratio", "-4")
    jobs = (
        Decoding(
            tmp_path / "exp/config.yaml",
            tmp_path / "exp/2epoch.pth",
            kept,
            tmp_path / "a",
            options=options,
        ),
        Decoding(
            model[0] / "config.yaml",
            tmp_path / "w.pth",
            data,
            tmp_path / "b",
            options=options,
        ),
    )
    for job in jobs:
        assert decode(job) == 3
    assert (tmp_path / "a" / "text").read_text() == (
        tmp_path / "b" / "text"
    ).read_text()

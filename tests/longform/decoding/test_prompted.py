"""OWSM-CTC's kind of model in moving windows, against ESPnet's own encoding of the same audio with the same prompt."""

import math
from itertools import groupby

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_ext.audio.recordings import opened
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.posteriors import load
from espnet_ext.longform.decoding.prompted import special_tokens
from espnet_ext.longform.decoding.settings import WindowSettings
from espnet_ext.longform.decoding.transcribe import load_transcriber, transcribe
from espnet_ext.sharing.model_files import find_model

SECONDS, RATE, UNIT = 2.0, 16000, 1280
MARKS = ["<unk>", "<na>", "<nolang>", "<eng>", "<deu>", "<asr>", "<st_eng>"]
TOKENS = ["<blank>", *MARKS, "<space>", *"ABCDE", "<sop>", "<sos>", "<eos>"]
CONFIG = {
    "model": "espnet_ctc",
    "frontend_conf": {"fs": RATE, "n_fft": 512, "hop_length": 160, "n_mels": 20},
    "specaug": None,
    "normalize": "utterance_mvn",
    "encoder": "e_branchformer_ctc",
    "encoder_conf": {
        "output_size": 16,
        "attention_heads": 2,
        "cgmlp_linear_units": 16,
        "linear_units": 16,
        "num_blocks": 2,
        "input_layer": "conv2d8",
        "use_ffn": True,
        "interctc_layer_idx": [1],
        "interctc_use_conditioning": True,
    },
    "promptencoder": "transformer",
    "promptencoder_conf": {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    },
    "preprocessor_conf": {"speech_length": SECONDS, "fs": RATE},
    "token_type": "char",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from espnet2.tasks.s2t_ctc import S2TTask
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    folder = tmp_path_factory.mktemp("owsm_ctc")
    (folder / "train.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    options = ["--config", folder / "train.yaml", "--token_list", folder / "tokens.txt", "--output_dir", folder]
    args = S2TTask.get_parser().parse_args([str(option) for option in options])
    torch.manual_seed(0)
    network = S2TTask.build_model(args)
    with torch.no_grad():  # posteriors that differ from frame to frame, and rarely those of the blank
        network.ctc.ctc_lo.weight.mul_(8)
        network.ctc.ctc_lo.bias[[0, *range(len(MARKS) + 1), -1, -2, -3]] -= 3
    torch.save(network.state_dict(), folder / "model.pth")
    with (folder / "config.yaml").open("w") as file:
        yaml_no_alias_safe_dump(vars(args), file, sort_keys=False)
    return folder


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """5.1 s, more than two windows."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    rng = np.random.default_rng(3)
    soundfile.write(path, rng.normal(size=81600) * np.repeat(rng.uniform(0.01, 0.2, 102), 800), RATE)
    return path


def espnets(folder, samples, language):
    """ESPnet's posteriors of one stretch, padded as in training, with those of marks given to the blank."""
    from espnet2.bin.s2t_inference import Speech2Text

    espnet = Speech2Text(folder / "config.yaml", folder / "model.pth")
    padded = np.zeros(round(SECONDS * RATE), np.float32)
    padded[: len(samples)] = samples
    with torch.no_grad():
        encoded, _ = espnet._encode(torch.from_numpy(padded)[None], [TOKENS.index("<na>")], language, "<asr>")
        found = espnet.s2t_model.ctc.softmax(encoded[:, 2:])[0].numpy()  # after <language> and <task>
    marks = special_tokens(TOKENS)
    found[:, 0] += found[:, marks].sum(axis=1)
    found[:, marks] = 0
    return found[: math.ceil(len(samples) / UNIT)]


def test_special_tokens_are_no_speech():
    assert [TOKENS[index] for index in special_tokens(TOKENS)] == [*MARKS, "<sop>", "<sos>", "<eos>"]


@pytest.mark.parametrize(("language", "symbol"), [(None, "<nolang>"), ("deu", "<deu>")])
@pytest.mark.parametrize("samples", [32000, 20000, 900])
def test_posteriors_of_a_window_are_espnets(folder, talk, tmp_path, samples, language, symbol):
    model = load(str(folder / "config.yaml"), str(folder / "model.pth"), language=language)
    assert (model.unit, model.rate, model.shortest) == (UNIT, RATE, 32000)
    short = tmp_path / "short.wav"
    soundfile.write(short, soundfile.read(talk)[0][:samples], RATE)
    with opened(short, RATE) as audio:
        found = np.concatenate(list(model.posteriors(model.source(audio), SECONDS)))
        expected = espnets(folder, audio.read(0, samples), symbol)
    assert found.shape == expected.shape and np.allclose(found, expected, atol=1e-5)
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)


def test_languages_differ_and_an_unknown_one_is_refused(folder, talk):
    heard = []
    for language in ("eng", "deu"):
        transcriber = load_transcriber(
            folder / "config.yaml", folder / "model.pth", WindowSettings(window=SECONDS), language=language
        )
        heard.append([word for line in transcribe(transcriber, talk) for word in line.timed_words])
    assert heard[0] != heard[1]
    with pytest.raises(InputError, match="no language en: give its three letters"):
        load(str(folder / "config.yaml"), str(folder / "model.pth"), language="en")


def test_windows_of_a_long_recording(folder, talk):
    """Windows that do not overlap: the words are those of ESPnet's best paths of each, one after the other."""
    transcriber = load_transcriber(
        folder / "config.yaml", folder / "model.pth", WindowSettings(window=SECONDS, stride=1.0)
    )
    samples, size = soundfile.read(talk, dtype="float32")[0], round(SECONDS * RATE)
    parts = [espnets(folder, samples[start : start + size], "<nolang>") for start in range(0, len(samples), size)]
    best = np.concatenate(
        [np.pad(part.argmax(1), (0, 25 - len(part)), "edge") for part in parts[:-1]] + [parts[-1].argmax(1)]
    )
    text = "".join(TOKENS[token] for token, _ in groupby(best) if token).replace("<space>", " ")
    found = [word for line in transcribe(transcriber, talk) for word in line.timed_words]
    assert [word.text for word in found] == text.split() and found
    assert all(0 <= word.start < word.end <= 5.12 for word in found)


def test_the_command_takes_a_folder_and_a_packed_model(folder, talk, tmp_path):
    packed = tmp_path / "packed"
    (packed / "exp").mkdir(parents=True)
    for name in ("config.yaml", "model.pth"):
        (packed / "exp" / name).write_bytes((folder / name).read_bytes())
    meta = {"yaml_files": {"s2t_train_config": "exp/config.yaml"}, "files": {"s2t_model_file": "exp/model.pth"}}
    (packed / "meta.yaml").write_text(yaml.safe_dump(meta | {"espnet": "202402"}))
    assert find_model(packed).task == "s2t_ctc"
    texts = []
    for name in (folder, packed):
        output = tmp_path / f"out_{name.name}"
        call(
            [
                "transcribe",
                str(talk),
                "--model",
                str(name),
                "--language",
                "eng",
                "--formats",
                "txt,ctm",
                "--output",
                str(output),
            ]
        )
        texts.append((output / "talk.txt").read_text())
        assert (output / "talk.ctm").read_text()
    assert texts[0] == texts[1]
    for options, fault in (
        (["--config", "x.yaml"], "--config"),
        (["--language", "xx"], "no language xx"),
        (["--speakers"], "does not tell speakers"),
    ):
        with pytest.raises(InputError, match=fault):
            call(["transcribe", str(talk), "--model", str(folder), "--output", str(tmp_path / "refused"), *options])


def test_a_packed_model_with_a_decoder_is_refused(folder, tmp_path):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({key: value for key, value in config.items() if key != "promptencoder"})
    )
    (tmp_path / "model.pth").write_bytes(b"")
    meta = {"yaml_files": {"s2t_train_config": "config.yaml"}, "files": {"s2t_model_file": "model.pth"}}
    (tmp_path / "meta.yaml").write_text(yaml.safe_dump(meta))
    with pytest.raises(InputError, match="task s2t with a decoder"):
        find_model(tmp_path)

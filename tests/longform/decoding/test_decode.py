"""Decoding by moving windows, against ESPnet's encoder, and as a command."""

import dataclasses
import itertools
import json
import math
import shutil

import numpy as np
import pytest
import soundfile
import torch
import yaml
from espnet2.tasks.asr import ASRTask
from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.longform.decoding import posteriors as longform
from espnet_ext.longform.decoding.decode import LongDecoding, decode_long
from espnet_ext.longform.decoding.settings import DecodeSettings
from espnet_ext.longform.recording_features import RecordingFeatures

SECONDS = {"long": 9.37, "short": 1.3, "tiny": 0.12}
WINDOW = 2.0


@pytest.fixture(scope="module")
def data(make_data_dir, tmp_path_factory):
    return make_data_dir(tmp_path_factory.mktemp("long") / "data", SECONDS)


@pytest.fixture(scope="module")
def samples_model(model) -> longform.LongModel:
    """ESPnet's default frontend and a transformer with 4x subsampling.

    It takes samples.
    """
    return longform.load(str(model / "config.yaml"), str(model / "model.pth"))


@pytest.fixture(scope="module")
def features_folder(tmp_path_factory, token_list):
    """A model without frontend, as those of training on recordings are."""
    folder = tmp_path_factory.mktemp("features")
    config = {
        "input_size": 20,
        "encoder": "conformer",
        "encoder_conf": {
            "output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1,
            "input_layer": "conv2d8",
            "cnn_module_kernel": 5, "macaron_style": True, "rel_pos_type": "latest",
            "pos_enc_layer_type": "rel_pos", "selfattention_layer_type": "rel_selfattn",
        },
        "decoder": "none",
        "model_conf": {"ctc_weight": 1.0},
        "token_type": "char",
    }  # fmt: skip
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    options = [
        "--config",
        folder / "train.yaml",
        "--token_list",
        token_list,
        "--output_dir",
        folder,
    ]
    args = ASRTask.get_parser().parse_args([str(option) for option in options])
    torch.manual_seed(3)
    torch.save(ASRTask.build_model(args).state_dict(), folder / "model.pth")
    saved = {
        **vars(args),
        "features_conf": {"n_mels": 20},
        "chunk_conf": {"max_seconds": WINDOW},
    }
    with (folder / "config.yaml").open("w") as file:
        yaml_no_alias_safe_dump(saved, file, sort_keys=False)
    return folder


@pytest.fixture(scope="module")
def features_model(features_folder) -> longform.LongModel:
    return longform.load(
        str(features_folder / "config.yaml"), str(features_folder / "model.pth")
    )


@torch.inference_mode()
def direct(model, inputs: np.ndarray) -> np.ndarray:
    """ESPnet's posteriors of one input."""
    batch = torch.from_numpy(inputs)[None]
    encoded, _ = model.model.encode(batch, torch.tensor([batch.size(1)]))
    return model.model.ctc.softmax(encoded)[0].numpy()


def source_of(model, data):
    return model.open_source(RecordingAudio("long", data / "long.flac"))


@pytest.fixture(params=["samples_model", "features_model"])
def either_model(request) -> longform.LongModel:
    return request.getfixturevalue(request.param)


def test_frames_are_measured(samples_model, features_model):
    assert (samples_model.unit, features_model.unit) == (640, 8)
    assert samples_model.frame_seconds == pytest.approx(
        0.04
    ) and features_model.frame_seconds == pytest.approx(0.08)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_window_of_the_whole_recording_is_one_pass(either_model, batch, data):
    source = source_of(either_model, data)
    found = np.concatenate(
        list(either_model.compute_posteriors(source, seconds=60.0, batch=batch))
    )
    assert np.allclose(
        found, direct(either_model, source.read(0, source.length)), atol=1e-5
    )


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("stride", [1.0, 0.125])
def test_posteriors_are_averaged_over_windows(either_model, stride, batch, data):
    """Against the mean written out, of posteriors and not of logits.

    At a stride of a window it is that of one block.
    """
    source = source_of(either_model, data)
    unit = either_model.unit
    frames = round(WINDOW / either_model.frame_seconds)
    sums = {}
    counts = {}
    for start in itertools.count(step=round(frames * stride)):
        last = (start + frames) * unit >= source.length
        end = source.length if last else (start + frames) * unit
        for index, row in enumerate(
            direct(either_model, source.read(start * unit, end - start * unit))
        ):
            if last or index < frames:
                sums[start + index] = sums.get(start + index, 0) + row
                counts[start + index] = counts.get(start + index, 0) + 1
        if last:
            break
    expected = [sums[0]]
    for frame in range(
        1, max(sums) + 1
    ):  # a frame that the encoder loses at the end of a block repeats the last one
        expected.append(sums[frame] / counts[frame] if frame in sums else expected[-1])
    found = np.concatenate(
        list(either_model.compute_posteriors(source, WINDOW, stride, batch))
    )
    assert max(counts.values()) >= (7 if stride < 1 else 1)
    assert np.allclose(found, np.stack(expected), atol=1e-5)


def test_what_is_held_does_not_grow_with_the_recording(features_model, monkeypatch):
    held = []
    original = longform.PosteriorMean.take

    def take(self, before=None):
        held.append(len(self._sums))
        return original(self, before)

    monkeypatch.setattr(longform.PosteriorMean, "take", take)

    class Endless:
        length = 20_000

        def read(self, start, count):
            return np.zeros((count, 20), dtype=np.float32)

    frames = sum(
        map(len, features_model.compute_posteriors(Endless(), WINDOW, 0.5, batch=2))
    )
    assert frames >= 20_000 // 8 - 2 and max(held) < 4 * WINDOW / 0.08


def decode(folder, data, output, *options, **settings):
    """Call the command, with settings in a file."""
    files = ["--model-config", folder / "config.yaml", "--model", folder / "model.pth"]
    config = output.with_name("settings.yaml")
    config.write_text(yaml.safe_dump(settings))
    words = [
        "decode",
        "long",
        *files,
        "--data",
        data,
        "--output",
        output,
        "--config",
        config,
        *options,
    ]
    call([str(word) for word in words])
    return read_table(output / "text")


def test_the_command(features_folder, features_model, data, tmp_path, capsys):
    """Among the recordings are some shorter than a window or than the subsampling."""
    found = decode(features_folder, data, tmp_path / "out")
    assert list(found) == sorted(SECONDS)
    with RecordingAudio("long", data / "long.flac") as audio:
        source = longform.FeatureSource(audio, RecordingFeatures(n_mels=20))
        best = (
            np.concatenate(list(features_model.compute_posteriors(source, WINDOW)))
            .argmax(axis=1)
            .tolist()
        )
    letters = "".join(
        features_model.tokens[token] for token, _ in itertools.groupby(best) if token
    )
    assert found["long"] == " ".join(letters.replace("<space>", " ").split())
    settings = json.loads((tmp_path / "out" / "decode.json").read_text())["settings"]
    assert settings["window"] == WINDOW and settings["stride"] == 0.125
    decode(features_folder, data, tmp_path / "out")
    assert "3 of 3 shards are done already" in capsys.readouterr().err
    decode(features_folder, data, tmp_path / "out", stride=0.5)
    assert "are done already" not in capsys.readouterr().err


def test_nan_does_not_read_as_silence(features_folder, data, tmp_path):
    """Of parameters that are finite, with which a layer overflows."""
    folder = tmp_path / "model"
    state = torch.load(features_folder / "model.pth", weights_only=True)
    shutil.copytree(features_folder, folder)
    (first,) = (name for name in state if name.endswith("embed.conv.0.weight"))
    state[first] = torch.full_like(state[first], 3e38)
    torch.save(state, folder / "model.pth")
    with pytest.raises(
        InputError,
        match=r"recording (long|short|tiny): .*model.pth gives posteriors that are NaN",
    ):
        decode(folder, data, tmp_path / "out")
    assert not (tmp_path / "out" / "text").exists()


def test_features_of_overlapping_windows_are_computed_once(data):
    class Counted(RecordingAudio):
        samples = 0

        def read(self, start, count):
            self.samples += count
            return super().read(start, count)

    features = RecordingFeatures(n_mels=20, log=True)
    with Counted("long", data / "long.flac") as audio:
        source = longform.FeatureSource(audio, features)
        whole = features.normalise(audio, source._statistics, 0, source.length)
        audio.samples = 0
        starts = range(0, source.length - 200, 25)
        for start in [*starts, 10, 400]:  # and back
            assert np.allclose(
                source.read(start, 200), whole[start : start + 200], atol=1e-5
            )
            if start == starts[-1]:
                assert audio.samples < 1.1 * audio.length


def test_several_sets_and_settings_at_once(features_folder, data, tmp_path):
    """Each as it would come out alone; regions may be of one of the sets."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "wav.scp").write_text(f"again {data / 'long.flac'}\n")
    (tmp_path / "zeroed").write_text("again 0 3\n")
    outputs = [tmp_path / name for name in ("a", "b", "c")]
    files = {
        "model_config": features_folder / "config.yaml",
        "model_file": features_folder / "model.pth",
    }
    files["zeroed"] = tmp_path / "zeroed"
    plain = DecodeSettings(stride=0.5)
    noisy = DecodeSettings(noise="music", snr=0.0, batch_seconds=4)
    sets = zip((plain, noisy, noisy), (data, data, other), outputs, strict=True)
    jobs = [
        LongDecoding(settings=own, data=folder, output=output, **files)
        for own, folder, output in sets
    ]
    assert decode_long(*jobs) == 7
    found = [read_table(output / "text") for output in outputs]
    assert [len(texts) for texts in found] == [3, 3, 1]
    settings = [
        json.loads((output / "decode.json").read_text())["settings"]
        for output in outputs
    ]
    assert [setting["stride"] for setting in settings] == [0.5, 0.125, 0.125]
    assert [bool(setting["noise"]) for setting in settings] == [False, True, True]
    alone = decode(
        features_folder,
        data,
        tmp_path / "alone",
        noise="music",
        snr=0.0,
        batch_seconds=4,
    )
    assert found[1] == alone


def test_a_config_of_the_command(features_folder, data, tmp_path):
    decode(
        features_folder,
        data,
        tmp_path / "out",
        "--window",
        WINDOW / 2,
        noise="music",
        snr=0.0,
        window=9,
    )
    settings = json.loads((tmp_path / "out" / "decode.json").read_text())["settings"]
    assert (settings["noise"], settings["snr"], settings["window"]) == (
        "music",
        0.0,
        WINDOW / 2,
    )
    (tmp_path / "bad.yaml").write_text("colour: red\n")
    with pytest.raises(InputError, match="bad.yaml: unknown key 'colour'"):
        decode(features_folder, data, tmp_path / "x", "--config", tmp_path / "bad.yaml")


def test_noise_and_regions_are_in_what_the_model_hears(
    model, data, tmp_path, monkeypatch
):
    heard = {}

    def source(self, audio):
        heard[audio.name] = audio.read(0, audio.length)
        return audio

    monkeypatch.setattr(longform.LongModel, "open_source", source)
    (tmp_path / "zeroed").write_text("long 0 3\nlong 5 6.5\n")
    decode(model, data, tmp_path / "plain", "--window", 3)
    plain = dict(heard)
    settings = DecodeSettings(window=3, noise="music", snr=5)
    files = (model / "config.yaml", model / "model.pth", data, tmp_path / "noisy")
    decode_long(LongDecoding(*files, settings, zeroed=tmp_path / "zeroed"))
    silent = np.zeros(len(plain["long"]), dtype=bool)
    silent[: 3 * 16000] = silent[5 * 16000 : 6 * 16000 + 8000] = True
    assert not heard["long"][silent].any()
    for name, clean in plain.items():
        spoken = ~silent if name == "long" else np.ones(len(clean), dtype=bool)
        ratio = (
            np.square(clean[spoken]).mean()
            / np.square((heard[name] - clean)[spoken]).mean()
        )
        assert 10 * np.log10(ratio) == pytest.approx(5.0, abs=1.0)


def test_half_precision_is_close(either_model, data):
    half = dataclasses.replace(either_model, precision="bfloat16")
    source = source_of(either_model, data)
    found, wanted = (
        np.concatenate(list(each.compute_posteriors(source, WINDOW)))
        for each in (half, either_model)
    )
    assert found.shape == wanted.shape and 0 < np.abs(found - wanted).max() < 0.05


def test_bad_input(model, features_folder, data, tmp_path):
    def refused(fault, folder=features_folder, data=data, **settings):
        with pytest.raises(InputError, match=fault):
            decode(folder, data, tmp_path / "out", **settings)

    refused("give --window", folder=model)
    refused("noise and snr go together", noise="music")
    refused(
        "a window of 0.01 s is shorter than an encoder frame .0.08 s.: give a longer",
        window=0.01,
    )
    refused("needs MUSAN", noise="speech", snr=5)
    (tmp_path / "zeroed").write_text("other 0 1\n")
    files = (
        features_folder / "config.yaml",
        features_folder / "model.pth",
        data,
        tmp_path / "out",
    )
    with pytest.raises(InputError, match="recording other is not in"):
        decode_long(LongDecoding(*files, zeroed=tmp_path / "zeroed"))
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "wav.scp").write_text(f"r {bad / 'r.wav'}\n")
    for name, samples in (("short", [0.1] * 100), ("silent", [0.0] * 16000)):
        soundfile.write(bad / "r.wav", samples, 16000)
        assert decode(features_folder, bad, tmp_path / name) == {"r": ""}
    assert decode(features_folder, bad, tmp_path / "noisy", noise="music", snr=5) == {
        "r": ""
    }
    wrong = {
        "window": (math.nan, math.inf, 0, "ten"),
        "batch_seconds": (-1,),
        "stride": (0, 2),
        "noise": ("rain",),
    }
    wrong |= {"snr": (math.nan, -9999), "seed": (True,)}
    for name, values in wrong.items():
        for value in values:
            refused(f"settings.yaml: {name}: ", **{name: value})
    (bad / "r.wav").write_bytes(b"no audio")
    refused("r.wav: no audio", data=bad)
    assert not (tmp_path / "out" / "text").exists()

"""Speaker-attributed ASR by the commands: ESPnet's training, windows, refusals."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.recogniser.decode import (
    SpeakerDecoding,
    decode_speakers,
    split_by_speaker,
)
from espnet_ext.stitch.recogniser.profiles import write_profiles
from espnet_ext.stitch.recogniser.search_settings import (
    DecodingSettings,
    SearchOptions,
    change_options,
    read_decoding_settings,
)
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.upstream.stats import Statistics, collect_stats

TOKENS = ["<blank>", "<unk>", "<sc>", "AB", "CAD", "E", "<sos/eos>"]
MIXTURES = {
    "m1": ("AB <sc> E CAD", "x y"),
    "m2": ("E", "z"),
    "m3": ("AB <sc> E <sc> AB", "z x z"),
    "m4": ("CAD", "y"),
}
WINDOWS = {"m1": ((0.0, 0.8), (0.4, 1.0)), "m3": ((0.0, 0.8), (0.4, 1.2))}
ENCODER = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1}
CONFIG = {
    "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
    "normalize": "utterance_mvn",
    "encoder": "conformer",
    "encoder_conf": ENCODER,
    "speaker_encoder": "transformer",
    "speaker_encoder_conf": ENCODER,
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "model_conf": {
        "profile_size": 4,
        "speaker_conf": {"query_conf": {"hidden_size": 6}},
    },
    "inventory_size": 3,
    "token_type": "word",
    "num_att_plot": 1,
    "best_model_criterion": [["valid", "acc_speaker", "max"]],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir) -> Path:
    """Four mixtures of noise, their windows in ``windows/``, and profiles.

    The tables are those that training needs.
    """
    folder = tmp_path_factory.mktemp("data")
    make_data_dir(folder / "train", {"m1": 1.0, "m2": 0.6, "m3": 1.2, "m4": 0.5})
    write_table(
        folder / "train" / "text", {key: text for key, (text, _) in MIXTURES.items()}
    )
    write_table(
        folder / "train" / "speakers",
        {key: names for key, (_, names) in MIXTURES.items()},
    )
    write_table(folder / "train" / "shape", {key: "9600" for key in MIXTURES})
    (folder / "train" / "tokens.txt").write_text(
        "".join(f"{token}\n" for token in TOKENS)
    )
    random = np.random.default_rng(0)
    write_profiles(folder, {name: random.normal(size=(3, 4)) for name in "wxyz"})
    windows = folder / "windows"
    windows.mkdir()
    shutil.copy(folder / "train" / "wav.scp", windows)
    cut = {
        f"{key}-w{n:05d}": (key, *span)
        for key, spans in WINDOWS.items()
        for n, span in enumerate(spans)
    }
    write_table(
        windows / "segments",
        {key: f"{name} {start} {end}" for key, (name, start, end) in cut.items()},
    )
    write_table(
        windows / "inventory",
        {key: "y z" if name == "m1" else "x w z" for key, (name, *_) in cut.items()},
    )
    return folder


@pytest.fixture(scope="module")
def train(data, train_small):
    """Return a function that trains a model with profiles."""
    tables = ("wav.scp,speech,sound", "text,text,text", "speakers,speakers,text")

    def train(output: Path, profiles: Path) -> Path:
        given = {"command": "sa_asr_train", "tables": tables, "shapes": ("shape",)}
        train_small(
            data / "train", output, CONFIG | {"profiles": [str(profiles)]}, **given
        )
        return output

    return train


@pytest.fixture(scope="module")
def model(data, train) -> Path:
    return train(data / "exp", data / "profiles.scp")


def decode(folder: Path, model: Path, output: Path, /, **changes) -> Path:
    options = {
        "data": folder / "windows",
        "profiles": (folder / "profiles.scp",),
        "search": SearchOptions(beam_size=3, maxlenratio=-4),
        **changes,
    }
    files = (model / "config.yaml", model / "valid.acc_speaker.best.pth")
    decode_speakers([SpeakerDecoding(*files, output=output, **options)])
    return output


def test_trained_by_espnets_trainer_and_decoded_window_by_window(
    data, model, tmp_path, capsys
):
    output = decode(data, model, tmp_path / "out")
    heard = read_hypotheses(output / "hypotheses.jsonl")
    places = {(item.recording, item.window, item.start, item.end) for item in heard}
    expected = set()
    for key, spans in WINDOWS.items():
        expected |= {(key, number, *span) for number, span in enumerate(spans)}
    assert places == expected
    # Only who is in the inventory is heard, or nobody.
    inventories = {"m1": {"y", "z", ""}, "m3": {"x", "w", "z", ""}}
    for recording, known in inventories.items():
        found = {item.speaker for item in heard if item.recording == recording}
        assert found <= known
    texts = read_table(output / "text")
    speakers = read_table(output / "speakers")
    for key in texts:
        names = speakers[key].split()
        utterances = texts[key].split(" <sc> ") if texts[key] else []
        assert len(names) == len(utterances)
        # Each line has a speaker's words of the window, in the order of utterances.
        joined = {name: [] for name in names}
        for name, utterance in zip(names, utterances, strict=True):
            joined[name] += utterance.split()
        recording, window = key.split("-w")
        lines = {}
        for item in heard:
            if (item.recording, item.window) == (recording, int(window)):
                lines[item.speaker] = list(item.words)
        lines.pop("", None)  # nobody was heard
        assert lines == joined
    # a second run finds all shards done; another inventory is another run
    before = (output / "hypotheses.jsonl").read_bytes()
    decode(data, model, output)
    assert "4 of 4 shards are done already" in capsys.readouterr().err
    assert (output / "hypotheses.jsonl").read_bytes() == before


def test_an_inventory_by_recording_whose_profiles_have_other_names(
    data, model, tmp_path
):
    write_table(tmp_path / "inventory.txt", {"m1": "ann=y ben=z", "m3": "x w=w z"})
    heard = read_hypotheses(
        decode(data, model, tmp_path / "out", inventory=tmp_path / "inventory.txt")
        / "hypotheses.jsonl"
    )
    # the same as by the profiles' own names, in the same order
    own = read_hypotheses(decode(data, model, tmp_path / "own") / "hypotheses.jsonl")
    names = {"y": "ann", "z": "ben"}
    assert {
        (item.window, item.speaker, item.words)
        for item in heard
        if item.recording == "m1"
    } == {
        (item.window, names.get(item.speaker, ""), item.words)
        for item in own
        if item.recording == "m1"
    }
    write_table(tmp_path / "inventory.txt", {"m1": "y"})
    with pytest.raises(
        InputError, match="inventory.txt: m3-w00000 is missing: name the speakers"
    ):
        decode(data, model, tmp_path / "out", inventory=tmp_path / "inventory.txt")


def test_recordings_without_windows_and_an_inventory_of_all(data, model, tmp_path):
    output = decode(data, model, tmp_path / "out", data=data / "train")
    heard = read_hypotheses(output / "hypotheses.jsonl")
    assert {(item.recording, item.window) for item in heard} == {
        (key, 0) for key in MIXTURES
    }
    assert {item.end for item in heard if item.recording == "m3"} == {1.2}


def test_a_window_in_which_nobody_is_heard_has_a_line():
    (line,) = split_by_speaker(None, ["x"], "m", 3, 24.0, 40.0)
    assert (line.recording, line.window, line.speaker, line.words, line.end) == (
        "m",
        3,
        "",
        (),
        40.0,
    )


def test_statistics_are_collected_without_speakers(data, tmp_path):
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(CONFIG))
    job = Statistics(
        data / "train",
        data / "train",
        tmp_path / "train.yaml",
        data / "train" / "tokens.txt",
        tmp_path / "stats",
        task="sa_asr",
    )
    collect_stats(job)
    assert set(read_table(tmp_path / "stats" / "train" / "speech_shape")) == set(
        MIXTURES
    )
    with np.load(tmp_path / "stats" / "train" / "feats_stats.npz") as stats:
        assert stats["sum"].shape == (20,)


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        (None, "profiles.scp: no such file"),
        (
            {name: np.ones((1, 5)) for name in "wxyz"},
            "5 dimensions, but the model takes 4",
        ),
        (
            {"y": np.ones((1, 4)), "z": np.ones((1, 4))},
            "m3-w00000: no profile for x, w",
        ),
    ],
)
def test_profiles_that_do_not_fit_are_refused(data, model, tmp_path, rows, place):
    profiles = (
        write_profiles(tmp_path / "other", rows) if rows else tmp_path / "profiles.scp"
    )
    with pytest.raises(InputError, match=place):
        decode(data, model, tmp_path / "out", profiles=(profiles,))
    assert not (tmp_path / "out" / "hypotheses.jsonl").exists()
    job = SpeakerDecoding(model, model, data, (profiles,), tmp_path, SearchOptions())
    with pytest.raises(InputError, match="--output"):
        decode_speakers([job, job])


@pytest.mark.parametrize("search", [{"beam": 3}, {"beam_size": 0}, {"ctc_weight": 1.0}])
def test_bad_options_of_the_search(tmp_path, search):
    with pytest.raises(InputError, match=f"^decode.yaml: .*{next(iter(search))}"):
        change_options(SearchOptions(), search, "decode.yaml")
    assert read_decoding_settings(tmp_path / "model.pth") == DecodingSettings()
    (tmp_path / "decoding.json").write_text(json.dumps({"search": search}))
    with pytest.raises(InputError, match=f"decoding.json: .*{next(iter(search))}"):
        read_decoding_settings(tmp_path / "model.pth")


def test_training_on_a_speaker_without_profile_is_refused(train, tmp_path):
    few = write_profiles(tmp_path / "few", {"y": np.ones((1, 4)), "z": np.ones((1, 4))})
    with pytest.raises(InputError, match="^m[13]: no profile for x: make the profiles"):
        train(tmp_path / "exp", few)

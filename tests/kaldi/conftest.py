import numpy as np
import pytest
import soundfile
from hypothesis import strategies as st

from espnet_ext.kaldi.data_dir import DataDir


@pytest.fixture
def audio_dir(tmp_path):
    """A data dir of four recordings of noise, 16 kHz, with 0.5, 0.6, 0.7 and 0.8 s, two
    speakers.
    """
    random = np.random.default_rng(0)
    names = ["a-1", "a-2", "b-1", "b-2"]
    (tmp_path / "wav").mkdir()
    for number, name in enumerate(names):
        soundfile.write(
            tmp_path / "wav" / f"{name}.flac",
            random.uniform(-0.5, 0.5, 8000 + 1600 * number),
            16000,
        )
    return DataDir(
        wav_scp={name: str(tmp_path / "wav" / f"{name}.flac") for name in names},
        utt2spk={name: name[0] for name in names},
        text={name: f"WORDS OF {name.upper()}" for name in names},
    )


@pytest.fixture(scope="session")
def data_dirs():
    """The strategy of sound data dirs."""
    return _data_dirs()


@st.composite
def _data_dirs(draw) -> DataDir:
    """Sound data dirs of 1 to 4 speakers with 1 to 4 utterances each, with and without
    each optional file.
    """
    utt2spk = {}
    for speaker in range(draw(st.integers(1, 4))):
        for number in range(draw(st.integers(1, 4))):
            utt2spk[f"s{speaker}-{number}"] = f"s{speaker}"
    words = st.lists(
        st.sampled_from(["ZERO", "你好", "é", "nine"]), min_size=1, max_size=4
    ).map(" ".join)
    segments = reco2dur = None
    recordings = list(utt2spk)
    if draw(st.booleans()):
        recording = {key: f"r{draw(st.integers(0, 3))}" for key in utt2spk}
        recordings = sorted(set(recording.values()))
        segments = {
            key: f"{recording[key]} {number} {number + 0.5}"
            for number, key in enumerate(utt2spk)
        }
        reco2dur = dict.fromkeys(recordings, "100")

    def maybe(value):
        return draw(st.sampled_from([None, value]))

    return DataDir(
        wav_scp={key: f"/corpus/{key}.flac" for key in recordings},
        utt2spk=utt2spk,
        text={key: draw(words) for key in utt2spk},
        segments=segments,
        reco2dur=maybe(reco2dur),
        utt2lang=maybe({key: "en" for key in utt2spk}),
        utt2dur=maybe({key: str(1 + number / 4) for number, key in enumerate(utt2spk)}),
        spk2gender=maybe({"s0": "f"}),
    )

"""The synthetic corpora of long recordings, as the readers of the real corpora find
them.
"""

import random
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
import soundfile

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.corpora import earnings22, rev16, spotify, tedlium
from espnet_ext.kaldi.tables import read_table
from espnet_ext.synthetic import long_recordings, parameters
from espnet_ext.synthetic.spotify import draw_shards, make_spotify, write_audio
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.text.word_times import read_word_times

PARTS = {
    "train": 3,
    "dev": 1,
    "control": 1,
    "tedlium-dev": 1,
    "tedlium-test": 3,
    "earnings22": 1,
    "rev16": 2,
}
TINY = parameters.LongformSize(PARTS, (6, 9), voices=2)


@pytest.fixture(scope="module")
def corpora(make_tiny) -> list[Path]:
    """Two corpora of one seed."""
    return [make_tiny(make_spotify, parameters.LONGFORM_SIZES, TINY) for _ in range(2)]


def test_same_seed_same_bytes(corpora):
    first, second = (
        {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in corpora
    )
    assert first.keys() == second.keys() and any(
        name.endswith(".ogg") for name in first
    )
    assert [name for name in first if first[name] != second[name]] == []


def test_the_readers_take_it(corpora, tmp_path):
    corpus = corpora[0]
    train = spotify.prepare_spotify(corpus / "spotify", tmp_path)["train"]
    assert len(train.text) == 3
    assert (
        len(
            spotify.prepare_spotify(corpus / "spotify-dev", tmp_path, "dev")["dev"].text
        )
        == 1
    )
    tests = {
        "tedlium": tedlium.prepare_tedlium(corpus, tmp_path)["test"],
        "earnings22": earnings22.prepare_earnings22(corpus / "earnings22", tmp_path)[
            "test"
        ],
        "rev16": rev16.prepare_rev16(corpus / "rev16", tmp_path)["test"],
        "control": spotify.prepare_spotify(
            corpus / "spotify-control", tmp_path, "control"
        )["control"],
    }
    assert (tmp_path / "tedlium_ignored_test.txt").is_file()
    assert [len(data.text) for data in tests.values()] == [3, 1, 2, 1]
    for name, data in tests.items():  # the kind of each word stands beside the corpora
        kinds = read_table(corpus / "kinds" / f"{name}.txt")
        assert {key: len(value.split()) for key, value in kinds.items()} == {
            key: len(text.split()) for key, text in data.text.items()
        }
        assert ("drowned" in " ".join(kinds.values())) == (name != "rev16")

    table = read_table(tmp_path / "spotify_words_train.scp")
    for key, path in train.wav_scp.items():
        words = read_word_times(key, table[key])
        assert 6 < float(train.utt2dur[key]) < 16
        with RecordingAudio(key, path) as audio:
            samples = audio.read(0, audio.length)
        spoken = np.zeros(len(samples), dtype=bool)
        for word in words:
            spoken[int(16000 * word.start) : int(16000 * word.end)] = True
        # Words are where the sound is; bursts reach a little into the pauses.
        assert np.median(np.abs(samples[spoken])) > 2 * np.median(
            np.abs(samples[~spoken])
        )


@pytest.mark.parametrize("size", ["tiny", *parameters.LONGFORM_SIZES])
def test_each_recording_has_files_of_its_own(size, tmp_path):
    """Also where a part has more recordings than there are voices."""
    wanted = TINY if size == "tiny" else parameters.LONGFORM_SIZES[size]
    shards = draw_shards(tmp_path, wanted, seed=0)
    assert (
        len({shard.audio for shard in shards})
        == len({shard.transcript for shard in shards})
        == len(shards)
    )
    assert (
        len({(shard.part, shard.id) for shard in shards})
        == len(shards)
        == sum(wanted.recordings.values())
    )


@pytest.mark.parametrize("ending", ["ogg", "mp3", "sph"])
def test_minutes_of_audio_are_written_whole(ending, tmp_path):
    """libsndfile's Vorbis encoder crashes on so many samples in one call."""
    samples = np.random.default_rng(0).integers(
        -3000, 3000, 250 * 16000, dtype=np.int16
    )
    write_audio(tmp_path / f"a.{ending}", samples)
    with soundfile.SoundFile(tmp_path / f"a.{ending}") as file:
        assert abs(file.frames - len(samples)) < 2000
        read = file.read(16000, dtype="int16")
    assert read.any()


@pytest.fixture
def speaker():
    return draw_speakers({"train": 1}, 0)["train"][0]


def test_half_of_the_words_are_names_that_recur(speaker):
    recording = long_recordings.draw_recording(
        "train", 0, speaker, (60, 61), 0, drowned=0.6, recurring=True
    )
    samples, words = long_recordings.speak_recording(recording)
    names = [word for word in words if word.kind != long_recordings.OTHER]
    assert len(names) == pytest.approx(len(words) / 2, abs=0.5)
    assert {word.text for word in names} == set(recording.names) and len(
        set(recording.names)
    ) == 8
    drowned = sum(word.kind == long_recordings.DROWNED for word in names)
    assert 0.4 < drowned / len(names) < 0.8
    assert all(
        first.end <= second.start + 1e-9
        for first, second in zip(words, words[1:], strict=False)
    )
    assert words[0].start >= 0 and words[-1].end <= len(samples) / 16000
    other = long_recordings.draw_recording(
        "train", 1, speaker, (60, 61), 0, drowned=0.6, recurring=True
    )
    assert (other.speaker.pitch, other.names) != (
        recording.speaker.pitch,
        recording.names,
    )


def test_what_is_spoken_under_a_burst_is_independent_of_the_name(speaker):
    recording = long_recordings.draw_recording(
        "train", 0, speaker, (60, 61), 0, drowned=0.6, recurring=True
    )
    drawn = random.Random(0)
    words = [
        word
        for _ in range(1000)
        for word in long_recordings.draw_sentence(recording, drawn)
    ]
    assert all(
        word.spoken == word.text
        for word in words
        if word.kind != long_recordings.DROWNED
    )
    drowned = [word for word in words if word.kind == long_recordings.DROWNED]
    pair_of = {name: pair for pair in long_recordings.NAMES for name in pair}
    assert all(word.spoken in pair_of[word.text] for word in drowned)
    for pair in long_recordings.NAMES:
        said = [word.spoken == word.text for word in drowned if word.text in pair]
        assert abs(np.mean(said) - 0.5) < 3 / np.sqrt(
            len(said)
        )  # six standard deviations


def test_the_sound_of_a_clear_name_tells_it_and_that_of_a_drowned_one_does_not(speaker):
    """A linear classifier of spectra of a name's first 450 ms, trained on the first
    half of a recording's names.
    """
    recording = long_recordings.draw_recording(
        "control", 0, speaker, (240, 241), 0, drowned=0.6, recurring=False
    )
    samples, words = long_recordings.speak_recording(recording)
    _, _, spectra = scipy.signal.stft(
        samples.astype(float), 16000, nperseg=400, noverlap=240
    )
    bands = (
        np.log(np.abs(spectra[:200]) ** 2 + 1).reshape(20, 10, -1).mean(1)
    )  # frames of 10 ms
    right = {}
    for kind in (long_recordings.CLEAR, long_recordings.DROWNED):
        names = [
            word
            for word in words
            if word.kind == kind and 100 * word.end < bands.shape[1] - 20
        ]
        first = [int(100 * word.start) for word in names]
        seen = np.array(
            [bands[:, at : at + 45].reshape(20, 9, 5).mean(2).ravel() for at in first]
        )
        seen = (seen - seen.mean(0)) / seen.std(0)
        member = np.array(
            [
                1 if any(word.text == pair[0] for pair in long_recordings.NAMES) else -1
                for word in names
            ]
        )
        half = len(names) // 2
        weights = np.linalg.solve(
            seen[:half].T @ seen[:half] + 100 * np.eye(180),
            seen[:half].T @ member[:half],
        )
        right[kind] = np.sign(seen[half:] @ weights) == member[half:]
    assert right[long_recordings.CLEAR].mean() > 0.95
    drowned = right[long_recordings.DROWNED]
    assert abs(drowned.mean() - 0.5) < 1.5 / np.sqrt(
        len(drowned)
    )  # three standard deviations


def test_bursts_cover_the_onsets_and_nothing_else():
    rng = np.random.default_rng(0)
    quiet = (1000 * rng.standard_normal(16000)).astype(np.int16)
    noisy = long_recordings.drown_names(
        quiet, [0.3, 0.7], np.random.default_rng(1)
    ).astype(float)
    ratio = 20 * np.log10(
        np.std(noisy[4800:6720]) / np.std(quiet.astype(float))
    )  # 120 ms from the first onset on
    assert ratio == pytest.approx(long_recordings.BURST_LEVEL, abs=1.0)
    for start, end in ((0, 3840), (8320, 10240), (14720, 16000)):
        assert np.array_equal(noisy[start:end], quiet[start:end])


def test_ogg_without_its_serial_number_is_the_same_audio(tmp_path):
    noise = (3000 * np.random.default_rng(0).standard_normal(40_000)).astype(np.int16)
    soundfile.write(tmp_path / "a.ogg", noise, 16000, subtype="VORBIS")
    write_audio(tmp_path / "b.ogg", noise)
    first, second = (soundfile.read(tmp_path / name)[0] for name in ("a.ogg", "b.ogg"))
    assert np.array_equal(first, second)

"""``local/noisy_rooms.py`` of the long-context recipe: isolated words, joined."""

from pathlib import Path

import noisy_rooms
import numpy as np
import pytest
import soundfile

from espnet_ext.corpora.audio import read_ctm_words
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir

RATE = 16000
PARTS = ("train-clean-100", "dev-clean", "test-clean")
SPEAKERS = ("11", "12")
# Seconds of sound and silence in turns: the last word pauses for 60 ms before its end.
WORDS = {
    "ONE": (0.1, 0.4), "SIX": (0.08, 0.35), "EIGHT": (0.1, 0.3, 0.06, 0.08),
}  # fmt: skip


def make_words(rng: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """Make an utterance of the three words; return it and their starts and ends."""
    samples = 1e-4 * rng.standard_normal(2 * RATE)
    times = []
    place = 0.0
    for pattern in WORDS.values():
        times.append(place + pattern[0])
        for number, seconds in enumerate(pattern):
            first = round(place * RATE)
            place += seconds
            if number % 2:
                count = round(place * RATE) - first
                samples[first : first + count] += 0.1 * rng.standard_normal(count)
        times.append(place)
    return samples, times


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path / "corpus"
    rng = np.random.default_rng(1)
    for part in PARTS:
        for speaker in SPEAKERS:
            chapter = folder / part / speaker / "5"
            chapter.mkdir(parents=True)
            names = [f"{speaker}-5-000{number}" for number in range(3)]
            for name in names:
                soundfile.write(chapter / f"{name}.flac", make_words(rng)[0], RATE)
            lines = "".join(f"{name} {' '.join(WORDS)}\n" for name in names)
            (chapter / f"{speaker}-5.trans.txt").write_text(lines)
    return folder


def make_rooms(corpus: Path, name: str = "rooms") -> Path:
    output = corpus.with_name(name)
    words = ["--output", str(output), "--rounds", "3", "--test-rounds", "2"]
    noisy_rooms.main([str(corpus), *words])
    return output


def test_recordings_have_all_words_and_their_kinds_of_noise(corpus):
    output = make_rooms(corpus)
    kinds = {
        "train": noisy_rooms.SEEN,
        "dev": noisy_rooms.SEEN,
        "quiet": ("quiet",),
        "seen": noisy_rooms.SEEN[1:],
        "unseen": noisy_rooms.UNSEEN,
    }
    number_of = {**dict.fromkeys(kinds, 2), "train": 3}
    for name, allowed in kinds.items():
        data = read_data_dir(output / name)
        spoken = read_ctm_words(output / name / "ctm")
        assert len(data.utt2spk) == len(SPEAKERS) * number_of[name]
        heard = {(key.split("-")[0], key.split("-")[2]) for key in data.utt2spk}
        assert {kind for _, kind in heard} <= set(allowed)
        # no speaker hears one kind alone
        assert len(heard) == len(SPEAKERS) * min(len(allowed), number_of[name])
        for key, text in data.text.items():
            assert text.split() == list(WORDS) * 3
            assert [word.text for word in spoken[key]] == text.split()
            samples, rate = soundfile.read(data.wav_scp[key])
            assert rate == RATE and len(samples) == 3 * 2 * RATE
    # no kind of noise of the unseen set is in training
    assert not set(noisy_rooms.SEEN) & set(noisy_rooms.UNSEEN)


def test_the_same_seed_gives_the_same_bytes(corpus):
    paths = [make_rooms(corpus, name) / "audio" for name in ("a", "b")]
    files = sorted(path.relative_to(paths[0]) for path in paths[0].rglob("*.flac"))
    assert len(files) == 22
    for file in files:
        assert (paths[0] / file).read_bytes() == (paths[1] / file).read_bytes()
    with pytest.raises(InputError, match="a: "):
        make_rooms(corpus, "a")


def test_words_are_found_although_one_pauses_within(corpus):
    samples, times = make_words(np.random.default_rng(5))
    words = noisy_rooms.find_words(samples, list(WORDS))
    found = []
    for word in words:
        found += [word.start, word.end]
    assert [word.text for word in words] == list(WORDS)
    assert np.allclose(found, times, atol=0.011)


def test_connected_speech_is_refused(corpus):
    path = next((corpus / "dev-clean").rglob("12-5-0001.flac"))
    soundfile.write(path, 0.1 * np.random.default_rng(2).standard_normal(RATE), RATE)
    with pytest.raises(InputError, match=path.name):
        make_rooms(corpus)


@pytest.mark.parametrize("kind", [*noisy_rooms.SEEN[1:], *noisy_rooms.UNSEEN])
def test_noise_has_the_ratio_that_is_asked_for(kind):
    rng = np.random.default_rng(3)
    samples, _ = make_words(rng)
    others = [[noisy_rooms.Utterance(make_words(rng)[0], [])]]
    mixtures = []
    # the same draws each time, so that the noise alone differs
    for ratio in (5, 200):
        rng = np.random.default_rng(4)
        snr = (ratio, ratio)
        mixtures.append(
            noisy_rooms.record(samples, kind, snr, others, rng).astype(float)
        )
    noisy, clean = mixtures
    measured = 10 * np.log10(np.mean(clean**2) / np.mean((noisy - clean) ** 2))
    assert measured == pytest.approx(5, abs=0.1)

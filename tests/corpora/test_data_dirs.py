"""A folder of Kaldi data dirs in place of a corpus: what is taken, and what is refused
with its place.
"""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.corpora.data_dirs import find_test_sets, prepare_data_dirs
from espnet_ext.corpora.long_data_dirs import prepare_long_data_dirs
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table

PARTS = ("train", "dev", "calls")


def write_part(
    folder: Path, part: str, rate: int = 16000, seconds: float = 1.0
) -> Path:
    """Write a data dir of two speakers, whose audio is named from the folder above."""
    path = folder / part
    path.mkdir(parents=True)
    random = np.random.default_rng(3)
    lines: dict[str, list[str]] = {"wav.scp": [], "text": [], "utt2spk": []}
    for speaker in ("a", "b"):
        name = f"{speaker}-{part}"
        audio = Path("audio") / f"{name}.flac"
        (folder.parent / "audio").mkdir(exist_ok=True)
        noise = random.normal(scale=0.1, size=round(rate * seconds))
        soundfile.write(folder.parent / audio, noise, rate)
        lines["wav.scp"].append(f"{name} {audio}")
        lines["text"].append(f"{name} HELLO {speaker.upper()}")
        lines["utt2spk"].append(f"{name} {speaker}")
    for table, rows in lines.items():
        (path / table).write_text("".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    for part in PARTS:
        write_part(tmp_path / "data", part)
    return tmp_path / "data"


def test_data_dirs_are_taken_as_they_are(folder, tmp_path):
    assert find_test_sets(folder) == ["calls"]
    prepare_data_dirs(folder, tmp_path / "out", PARTS)
    for part in PARTS:
        made = read_data_dir(tmp_path / "out" / part)
        assert made.text == read_table(folder / part / "text")
        assert made.utt2spk == read_table(folder / part / "utt2spk")
        assert set(made.utt2dur.values()) == {"1"}
        assert all(Path(path).is_file() for path in made.wav_scp.values())


def test_segments_are_cut(folder, tmp_path):
    part = folder / "calls"
    (part / "segments").write_text("u1 a-calls 0 0.25\nu2 a-calls 0.5 1\n")
    (part / "text").write_text("u1 ONE\nu2 TWO\n")
    (part / "utt2spk").write_text("u1 a\nu2 a\n")
    (part / "wav.scp").write_text("a-calls audio/a-calls.flac\n")
    made = prepare_data_dirs(folder, tmp_path / "out", PARTS)["calls"]
    assert made.segments is None and made.utt2dur == {"u1": "0.25", "u2": "0.5"}
    assert soundfile.info(made.wav_scp["u1"]).frames == 4000


def break_text(folder: Path) -> None:
    (folder / "dev" / "text").write_text("a-dev HELLO\n")


def break_audio(folder: Path) -> None:
    (folder.parent / "audio" / "a-dev.flac").write_bytes(b"fLaC")


def lose_audio(folder: Path) -> None:
    (folder.parent / "audio" / "a-dev.flac").unlink()


def take_telephone(folder: Path) -> None:
    noise = np.random.default_rng(1).normal(scale=0.1, size=8000)
    soundfile.write(folder.parent / "audio" / "a-dev.flac", noise, 8000)


def run_command(folder: Path) -> None:
    wav = folder / "dev" / "wav.scp"
    wav.write_text("a-dev touch ran |\nb-dev audio/b-dev.flac\n")


def write_twice(folder: Path) -> None:
    text = folder / "dev" / "text"
    text.write_text("a-dev ONE\na-dev TWO\nb-dev THREE\n")


@pytest.mark.parametrize(
    ("spoil", "places"),
    [
        (break_text, ("dev/text", "b-dev")),
        (break_audio, ("a-dev.flac", "data_faults.txt")),
        (lose_audio, ("a-dev.flac", "data_faults.txt")),
        (take_telephone, ("a-dev.flac", "8000")),
        (run_command, ("dev/wav.scp", "a-dev")),
        (write_twice, ("dev/text", "a-dev")),
    ],
)
def test_faults_are_named_and_nothing_is_written(folder, tmp_path, spoil, places):
    spoil(folder)
    with pytest.raises(InputError) as caught:
        prepare_data_dirs(folder, tmp_path / "out", PARTS)
    assert all(place in str(caught.value) for place in places), caught.value
    assert not (tmp_path / "out" / "train").exists() and not Path("ran").exists()


def test_faulty_utterances_can_be_left_out(folder, tmp_path):
    lose_audio(folder)
    made = prepare_data_dirs(folder, tmp_path / "out", PARTS, skip_faulty=0.5)
    assert list(made["dev"].utt2spk) == ["b-dev"] and len(made["train"].utt2spk) == 2


@pytest.mark.parametrize("missing", PARTS)
def test_a_part_that_is_missing_is_named(folder, missing):
    (folder / missing).rename(folder.parent / missing)
    with pytest.raises(InputError, match="test set" if missing == "calls" else missing):
        find_test_sets(folder)


@pytest.mark.parametrize("name", ["a b", "average", "tokens_bpe5", "train-more"])
def test_a_name_that_cannot_be_a_column_is_refused(folder, name):
    (folder / "calls").rename(folder / name)
    with pytest.raises(InputError, match=name):
        find_test_sets(folder)
    if name == "train-more":
        write_part(folder, "talks")
        assert find_test_sets(folder, [name]) == ["talks"]


def test_long_recordings_of_segments_and_word_times(tmp_path):
    part = write_part(tmp_path / "data", "train", seconds=3)
    (part / "segments").write_text("u1 a-train 2 2.5\nu2 a-train 0 1\nu3 b-train 0 1\n")
    (part / "text").write_text("u1 C\nu2 A B\nu3 D\n")
    (part / "utt2spk").write_text("u1 a\nu2 a\nu3 b\n")
    out = tmp_path / "out"
    with pytest.raises(InputError, match="train/ctm"):
        prepare_long_data_dirs(tmp_path / "data", out, "train", trained_on=True)
    (part / "ctm").write_text(
        "a-train 1 0 0.5 A\na-train 1 0.5 0.5 B\na-train 1 2 0.5 C\nb-train 1 0 1 D\n"
    )
    made = prepare_long_data_dirs(tmp_path / "data", out, "train", trained_on=True)
    assert made["train"].text == {"a-train": "A B C", "b-train": "D"}
    assert read_table(out / "data_words_train.scp").keys() == {"a-train", "b-train"}
    made = prepare_long_data_dirs(tmp_path / "data", tmp_path / "test", "train")
    assert made["train"].text == {"a-train": "A B C", "b-train": "D"}
    assert not (tmp_path / "test" / "data_words_train.scp").exists()

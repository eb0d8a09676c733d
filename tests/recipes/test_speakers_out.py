"""Corpora whose test speakers are in no other part: ``few_digits.py --leave-out`` of
librispeech_sem, and ``speaker_folds.py`` of libricss_stitch.
"""

import math
from pathlib import Path

import few_digits
import numpy as np
import pytest
import soundfile
import speaker_folds

from espnet_ext.errors import InputError

PARTS = ("train-clean-100", "dev-clean", "dev-other", "test-clean", "test-other")
SPEAKERS = ("11", "12", "13")


@pytest.fixture
def corpus(tmp_path) -> Path:
    """Two utterances of each speaker in each part, with the same ids in all parts."""
    folder = tmp_path / "corpus"
    rng = np.random.default_rng(1)
    for part in PARTS:
        for speaker in SPEAKERS:
            chapter = folder / part / speaker / "5"
            chapter.mkdir(parents=True)
            ids = [f"{speaker}-5-000{number}" for number in range(2)]
            for name in ids:
                noise = 0.1 * rng.standard_normal(8000)
                soundfile.write(chapter / f"{name}.flac", noise, 16000)
            lines = "".join(f"{name} {part}\n" for name in ids)
            (chapter / f"{speaker}-5.trans.txt").write_text(lines)
    (folder / "SPEAKERS.TXT").write_text(";\n")
    return folder


def leave_out(monkeypatch, corpus: Path, speaker: str) -> Path:
    output = corpus.with_name(f"without-{speaker}")
    words = ["--corpus", corpus, "--output", output, "--share", 1]
    words += ["--leave-out", speaker]
    monkeypatch.setattr("sys.argv", ["few_digits.py", *map(str, words)])
    few_digits.main()
    return output


def test_the_speaker_left_out_is_in_the_test_parts_alone(corpus, monkeypatch):
    output = leave_out(monkeypatch, corpus, "12")
    assert (output / "SPEAKERS.TXT").is_file()
    for part in (*PARTS, "train-other-500"):
        files = list((output / part).rglob("*.flac"))
        ids = [path.stem for path in files]
        speakers = {name.split("-")[0] for name in ids}
        assert speakers == ({"12"} if "test" in part else {"11", "13"}), part
        # the two of each part that the speaker has recorded so, and those in pink noise
        assert len(set(ids)) == len(ids) == (6 if "test" in part else 4), part
    quiet = output / "test-clean" / "12"
    said = [line for path in quiet.rglob("*.txt") for line in path.open()]
    assert {line.split()[1] for line in said} == {
        "train-clean-100", "dev-clean", "test-clean",
    }  # fmt: skip


def test_copies_in_pink_noise_keep_their_words_and_ratio(corpus, monkeypatch):
    output = leave_out(monkeypatch, corpus, "12")
    clean, _ = soundfile.read(corpus / "train-clean-100/12/5/12-5-0001.flac")
    noisy, _ = soundfile.read(output / "test-other/12/95/12-95-0001.flac")
    noise = noisy - clean / 2
    ratio = 20 * math.log10(np.std(clean / 2) / np.std(noise))
    assert 4.9 < ratio < 15.1


def test_a_speaker_who_is_not_there_is_refused(corpus, monkeypatch):
    with pytest.raises(InputError, match="14"):
        leave_out(monkeypatch, corpus, "14")
    assert not corpus.with_name("without-14").exists()


def test_two_speakers_of_a_fold_are_in_its_test_part_alone(corpus):
    output = corpus.with_name("fold")
    speaker_folds.make_corpus(corpus, output, ["11", "13"])
    for part in ("train-clean-100", "dev-clean", "test-clean"):
        ids = [path.stem for path in (output / part).rglob("*.flac")]
        is_test = part == "test-clean"
        speakers = {name.split("-")[0] for name in ids}
        assert speakers == ({"11", "13"} if is_test else {"12"}), part
        assert len(set(ids)) == len(ids) == (12 if is_test else 2), part

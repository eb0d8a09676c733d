"""``local/few_digits.py --leave-out`` and ``local/speakers_out.py``: corpora without a
speaker, and results that are joined over speakers.
"""

import math
from pathlib import Path

import few_digits
import numpy as np
import pytest
import soundfile
import speakers_out

from espnet_ext.errors import InputError
from espnet_ext.tables.score_table import Key, Meta, Score, Scores, write_scores

PARTS = ("train-clean-100", "dev-clean", "dev-other", "test-clean", "test-other")
SPEAKERS = ("11", "12", "13")
KEYS = [Key(system, "default", "test-clean", None) for system in ("a", "b")]


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


def fold(folder: Path, speaker: str, losses: dict, unfinished: dict, seeds=(1, 2)):
    """Write the results of a run whose test set has one speaker of ten words."""
    errors = {key: int(speaker) + number for number, key in enumerate(KEYS)}
    rates = {
        key: {
            seed: Score("", (errors[key] + seed,), (40,), (speaker,)) for seed in seeds
        }
        for key in KEYS
    }
    shared = {
        "units": {"test-clean": "speaker"},
        "normaliser": "none",
        "dev_losses": losses,
        "unfinished": unfinished,
    }
    run = speakers_out.collect_meta("./run.sh", folder.parent)
    meta = Meta.model_validate(
        {"recipe": "r", "corpus": "c", "scale": "s", "tables": ["1"], "runs": [run]}
        | shared
    )
    write_scores(folder, Scores(rates, {}, shared["units"], "none", losses), meta)
    return folder


def test_results_are_joined_over_speakers(tmp_path):
    losses = [{"a": {1: 0.5, 2: 0.7}}, {"a": {1: 0.6, 2: math.nan}}]
    folders = [
        fold(tmp_path / speaker, speaker, loss, at_end)
        for speaker, loss, at_end in zip(
            ("11", "12"), losses, ({"a": [2]}, {"a": [1]}), strict=True
        )
    ]
    scores, meta = speakers_out.join_folds(folders, "c-out", "command")
    joined = scores.select("b", "default", "test-clean", None)[2]
    assert (joined.units, joined.errors, joined.words) == (
        ("11", "12"), (14, 15), (40, 40),
    )  # fmt: skip
    # a seed has failed, or is unfinished, if it is so without one of the speakers
    assert meta.dev_losses["a"][1] == 0.6 and math.isnan(meta.dev_losses["a"][2])
    assert meta.unfinished == {"a": (1, 2)}
    assert (meta.corpus, meta.runs[0].command) == ("c-out", "command")


def test_a_training_that_one_fold_lacks_is_refused(tmp_path):
    folders = [
        fold(tmp_path / "11", "11", {}, {}),
        fold(tmp_path / "12", "12", {}, {}, seeds=(1,)),
    ]
    with pytest.raises(InputError, match="seed 2"):
        speakers_out.join_folds(folders, "c-out", "command")

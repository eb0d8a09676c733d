"""Reading corpora in LibriSpeech's layout, and what is wrong with them."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from bad_corpora import each_damage, refused_by

from espnet_ext.corpora.librispeech import prepare_librispeech

DIGITS = Path(__file__).resolve().parents[3] / "shared" / "data" / "LibriSpeech-digits"


def noise(seconds: float = 0.3, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.1, 0.1, (int(16000 * seconds), channels)).astype(np.float32)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A part with two chapters of two utterances each."""
    for speaker, chapter in (("7", "70"), ("8", "80")):
        folder = tmp_path / "corpus" / "dev-clean" / speaker / chapter
        folder.mkdir(parents=True)
        for number in range(2):
            soundfile.write(folder / f"{speaker}-{chapter}-000{number}.flac", noise(), 16000)
        lines = [f"{speaker}-{chapter}-000{number} IT'S NUMBER {number * 'A'}B\n" for number in range(2)]
        (folder / f"{speaker}-{chapter}.trans.txt").write_text("".join(lines))
    return tmp_path / "corpus"


def chapter(corpus: Path) -> Path:
    return corpus / "dev-clean" / "7" / "70"


def transcripts(corpus: Path) -> Path:
    return chapter(corpus) / "7-70.trans.txt"


refused = refused_by(prepare_librispeech)


def test_manifests_hold_what_lies_on_disk(corpus: Path) -> None:
    output = corpus.parent / "manifests"
    manifests = prepare_librispeech(corpus, output)
    assert list(manifests) == ["dev-clean"]
    assert sorted(path.name for path in output.iterdir()) == [
        "librispeech_recordings_dev-clean.jsonl.gz",
        "librispeech_supervisions_dev-clean.jsonl.gz",
    ]
    with gzip.open(output / "librispeech_supervisions_dev-clean.jsonl.gz", "rt") as file:
        supervisions = [json.loads(line) for line in file]
    assert [item["id"] for item in supervisions] == ["7-70-0000", "7-70-0001", "8-80-0000", "8-80-0001"]
    assert [item["text"] for item in supervisions] == ["IT'S NUMBER B", "IT'S NUMBER AB"] * 2
    assert [item["speaker"] for item in supervisions] == ["7", "7", "8", "8"]
    with gzip.open(output / "librispeech_recordings_dev-clean.jsonl.gz", "rt") as file:
        recordings = [json.loads(line) for line in file]
    assert all(item["sampling_rate"] == 16000 and item["num_samples"] == 4800 for item in recordings)
    assert all(Path(item["sources"][0]["source"]).is_absolute() for item in recordings)


def test_top_folder_of_the_archive_is_found(corpus: Path) -> None:
    above = corpus.parent / "disk"
    above.mkdir()
    corpus.rename(above / "LibriSpeech")
    assert len(prepare_librispeech(above)["dev-clean"]["supervisions"]) == 4


@pytest.mark.parametrize("linked", ["dev-clean", "dev-clean/7", "dev-clean/7/70", "dev-clean/7/70/7-70-0000.flac"])
def test_links_are_followed(corpus: Path, linked: str) -> None:
    plain = prepare_librispeech(corpus)["dev-clean"]
    elsewhere = corpus.parent / "elsewhere" / linked
    elsewhere.parent.mkdir(parents=True)
    (corpus / linked).rename(elsewhere)
    (corpus / linked).symlink_to(elsewhere)
    found = prepare_librispeech(corpus)["dev-clean"]
    assert found["supervisions"].ids and list(found["supervisions"]) == list(plain["supervisions"])
    assert list(found["recordings"]) == list(plain["recordings"])


def test_a_link_to_a_folder_above_is_left_alone(corpus: Path) -> None:
    (chapter(corpus) / "up").symlink_to(corpus / "dev-clean")
    assert len(prepare_librispeech(corpus)["dev-clean"]["supervisions"]) == 4


def test_a_changed_corpus_is_read_anew(corpus: Path) -> None:
    output = corpus.parent / "manifests"
    prepare_librispeech(corpus, output)
    transcripts(corpus).write_text("7-70-0000 NEW WORDS\n7-70-0001 HERE\n")
    prepare_librispeech(corpus, output)
    with gzip.open(output / "librispeech_supervisions_dev-clean.jsonl.gz", "rt") as file:
        assert json.loads(next(file))["text"] == "NEW WORDS"


@pytest.mark.skipif(not DIGITS.is_dir(), reason="the real recordings (shared/data/LibriSpeech-digits) are not here")
def test_real_recordings() -> None:
    manifests = prepare_librispeech(DIGITS, parts=["test-clean", "test-other"], check_audio="header")
    assert [len(manifests[part]["supervisions"]) for part in manifests] == [162, 166]


# --- what is refused: the corpus as a whole ---


def test_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere: no such corpus folder")


def test_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    refused(tmp_path / "corpus", "corpus: the corpus folder is empty")


def test_folder_without_a_part(tmp_path: Path) -> None:
    (tmp_path / "corpus" / "music").mkdir(parents=True)
    refused(tmp_path / "corpus", "none of LibriSpeech's parts")


def test_wanted_part_that_is_missing(corpus: Path) -> None:
    refused(corpus, "has no test-other, test-clean:", parts=["dev-clean", "test-other", "test-clean"])


def test_unknown_part(corpus: Path) -> None:
    refused(corpus, "no part 'dev-claen'", parts=["dev-claen"])


def test_part_without_utterances(corpus: Path) -> None:
    (corpus / "test-clean" / "1").mkdir(parents=True)
    refused(corpus, "no utterances in .*test-clean")


# --- transcripts ---


def test_transcript_without_audio(corpus: Path) -> None:
    (chapter(corpus) / "7-70-0001.flac").unlink()
    refused(corpus, "no audio file .*/7-70-0001.flac for utterance 7-70-0001")


def test_audio_without_transcript(corpus: Path) -> None:
    transcripts(corpus).write_text("7-70-0000 ONE\n")
    refused(corpus, r"no transcript of utterance 7-70-0001 \(.*/7-70-0001.flac\)")


def test_chapter_without_transcripts(corpus: Path) -> None:
    transcripts(corpus).unlink()
    refused(corpus, "no transcript of utterance 7-70-0000", "7-70-0001")


def test_duplicate_id(corpus: Path) -> None:
    transcripts(corpus).write_text("7-70-0000 ONE\n7-70-0001 TWO\n7-70-0000 THREE\n")
    refused(corpus, r"utterance 7-70-0000 comes twice \(line 3 of .*7-70.trans.txt\)")


@pytest.mark.parametrize("line", ["7-70-0001", "7-70-0001 ", "7-70-0001  \t"])
def test_empty_transcript(corpus: Path, line: str) -> None:
    transcripts(corpus).write_text(f"7-70-0000 ONE\n{line}\n")
    refused(corpus, r"empty transcript of 7-70-0001 \(line 2 of .*7-70.trans.txt\)")


@pytest.mark.parametrize("line", ["HELLO WORLD", "8-80-0001 OF ANOTHER", "7-70-../../x UP", "7-70- NO NUMBER"])
def test_malformed_line(corpus: Path, line: str) -> None:
    transcripts(corpus).write_text(f"7-70-0000 ONE\n7-70-0001 TWO\n{line}\n")
    refused(corpus, r"malformed line .* \(line 3 of .*7-70.trans.txt\)")


def test_transcripts_that_are_not_text(corpus: Path) -> None:
    transcripts(corpus).write_bytes(b"7-70-0000 \xff\xfe\n")
    refused(corpus, "7-70.trans.txt is not UTF-8")


def test_utterance_in_a_wrong_folder(corpus: Path) -> None:
    (corpus / "dev-clean" / "7").rename(corpus / "dev-clean" / "9")
    refused(corpus, "utterance 7-70-0000 is in the wrong folder .*dev-clean/9/70")


def test_speaker_folder_that_links_to_nothing(corpus: Path) -> None:
    (corpus / "dev-clean" / "9").symlink_to(corpus.parent / "unplugged" / "9")
    refused(corpus, "dev-clean/9 links to nothing")


def test_many_faults_in_one_line(corpus: Path) -> None:
    lines = "".join(f"7-70-{number:04d} WORDS\n" for number in range(17))
    transcripts(corpus).write_text(lines)
    refused(corpus, "7-70-0002.*7-70-0003.*7-70-0004; and 12 more: ")


# --- audio ---


@pytest.mark.parametrize("check_audio", ["header", "full"])
@each_damage
def test_bad_audio(corpus: Path, damage, pattern: str, check_audio: str) -> None:
    damage(chapter(corpus) / "7-70-0001.flac")
    refused(corpus, rf"({pattern}).* 7-70-0001 \(.*/7-70-0001.flac\)", check_audio=check_audio)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated_audio_is_found_by_decoding(corpus: Path, kept: float) -> None:
    path = chapter(corpus) / "7-70-0000.flac"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    # Four files are few enough to decode by default.
    refused(corpus, r"(breaks off before its end|corrupt audio).* 7-70-0000 \(")


# --- what is ignored, and what can be left out ---


def test_blank_lines_and_files_of_macos_are_ignored(corpus: Path, capsys: pytest.CaptureFixture) -> None:
    plain = prepare_librispeech(corpus)["dev-clean"]
    transcripts(corpus).write_text(transcripts(corpus).read_text() + "\n \n")
    (chapter(corpus) / "._7-70-0000.flac").write_bytes(b"Mac OS X")
    (chapter(corpus) / "._7-70.trans.txt").write_bytes(b"\x00\x05\x16\x07\xff")
    assert list(prepare_librispeech(corpus)["dev-clean"]["supervisions"]) == list(plain["supervisions"])
    said = capsys.readouterr().err
    assert "blank lines ignored, 2 times" in said and "macOS's files ._* ignored, 2 times, first in" in said


def damage(corpus: Path) -> None:
    """One utterance of four without a transcript, and another file that is cut off."""
    transcripts(corpus).write_text("7-70-0000 ONE\n")
    path = corpus / "dev-clean" / "8" / "80" / "8-80-0001.flac"
    path.write_bytes(path.read_bytes()[:500])


def test_faulty_utterances_are_left_out_and_counted(corpus: Path, capsys: pytest.CaptureFixture) -> None:
    damage(corpus)
    output = corpus.parent / "manifests"
    manifests = prepare_librispeech(corpus, output, skip_faulty=0.5)["dev-clean"]
    assert list(manifests["supervisions"].ids) == list(manifests["recordings"].ids) == ["7-70-0000", "8-80-0000"]
    title, *lines = (output / "librispeech_faults.txt").read_text().splitlines()
    assert title == "# left out: 2 of 4 in dev-clean"
    assert [line.split("\t")[:2] for line in lines] == [["dev-clean", "7-70-0001"], ["dev-clean", "8-80-0001"]]
    assert "left out: 2 of 4 in dev-clean: no transcript of utterance 7-70-0001" in capsys.readouterr().err
    # without faults there is no such file
    transcripts(corpus).write_text("7-70-0000 ONE\n7-70-0001 TWO\n")
    soundfile.write(corpus / "dev-clean" / "8" / "80" / "8-80-0001.flac", noise(), 16000)
    prepare_librispeech(corpus, output)
    assert not (output / "librispeech_faults.txt").exists()


def test_more_faults_than_allowed(corpus: Path) -> None:
    damage(corpus)
    refused(corpus, "50.0% of dev-clean is faulty, and --skip-faulty allows 2%: no transcript", skip_faulty=0.02)
    refused(corpus, "no transcript.*or leave them out with --skip-faulty .all 2 faults: .*librispeech_faults.txt")
    title, *lines = (corpus.parent / "manifests" / "librispeech_faults.txt").read_text().splitlines()
    assert title == "# faulty: 2 of 4 in dev-clean" and len(lines) == 2


def test_the_share_counts_for_each_part(corpus: Path) -> None:
    """A large training set does not pay for a faulty test set."""
    shutil.copytree(corpus / "dev-clean", corpus / "train-clean-100")
    damage(corpus)
    refused(corpus, "50.0% of dev-clean", skip_faulty=0.3)
    manifests = prepare_librispeech(corpus, skip_faulty=0.5)
    assert [len(manifests[part]["recordings"]) for part in ("train-clean-100", "dev-clean")] == [4, 2]


def test_manifests_are_lhotse_s(corpus: Path, tmp_path: Path) -> None:
    from lhotse.recipes.librispeech import prepare_librispeech as lhotse_recipe

    theirs = lhotse_recipe(corpus, dataset_parts=["dev-clean"])["dev-clean"]
    ours = prepare_librispeech(corpus)["dev-clean"]
    for kind in ("recordings", "supervisions"):
        assert sorted(ours[kind], key=lambda item: item.id) == sorted(theirs[kind], key=lambda item: item.id)

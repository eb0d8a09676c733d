"""Reading corpora in LibriSpeech's layout, and what is wrong with them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_corpora import each_damage, refused_by, write_noise

from espnet_ext.corpora.librispeech import prepare_librispeech
from espnet_ext.kaldi.data_dir import read_data_dir


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A part with two chapters of two utterances each."""
    for speaker, chapter in (("7", "70"), ("8", "80")):
        folder = tmp_path / "corpus" / "dev-clean" / speaker / chapter
        for number in range(2):
            write_noise(folder / f"{speaker}-{chapter}-000{number}.flac")
        lines = [
            f"{speaker}-{chapter}-000{number} IT'S NUMBER {number * 'A'}B\n"
            for number in range(2)
        ]
        (folder / f"{speaker}-{chapter}.trans.txt").write_text("".join(lines))
    return tmp_path / "corpus"


def chapter(corpus: Path) -> Path:
    return corpus / "dev-clean" / "7" / "70"


def transcripts(corpus: Path) -> Path:
    return chapter(corpus) / "7-70.trans.txt"


def dev(corpus: Path, **options):
    return prepare_librispeech(corpus, corpus.parent / "out", **options)["dev-clean"]


refused = refused_by(prepare_librispeech)


def test_data_dirs_hold_what_lies_on_disk(corpus: Path) -> None:
    data = dev(corpus)
    assert read_data_dir(corpus.parent / "out" / "dev-clean") == data
    assert [path.name for path in (corpus.parent / "out").iterdir()] == ["dev-clean"]
    keys = ["7-70-0000", "7-70-0001", "8-80-0000", "8-80-0001"]
    assert data.text == dict(
        zip(keys, ["IT'S NUMBER B", "IT'S NUMBER AB"] * 2, strict=True)
    )
    assert data.utt2spk == dict(zip(keys, "7788", strict=True))
    assert data.utt2dur == dict.fromkeys(keys, "0.3") and set(
        data.utt2lang.values()
    ) == {"English"}
    assert data.wav_scp["7-70-0001"] == str(chapter(corpus) / "7-70-0001.flac")


def test_data_dirs_are_those_of_lhotse_s_recipe(corpus: Path) -> None:
    from lhotse.recipes.librispeech import prepare_librispeech as lhotse_recipe

    theirs, ours = (
        lhotse_recipe(corpus, dataset_parts=["dev-clean"])["dev-clean"],
        dev(corpus),
    )
    assert ours.text == {item.id: item.text for item in theirs["supervisions"]}
    assert ours.utt2spk == {item.id: item.speaker for item in theirs["supervisions"]}
    assert ours.utt2lang == {item.id: item.language for item in theirs["supervisions"]}
    assert ours.wav_scp == {
        item.id: item.sources[0].source for item in theirs["recordings"]
    }
    assert all(
        float(ours.utt2dur[item.id]) == item.duration for item in theirs["recordings"]
    )


def test_top_folder_of_the_archive_is_found(corpus: Path) -> None:
    above = corpus.parent / "disk"
    above.mkdir()
    corpus.rename(above / "LibriSpeech")
    assert len(dev(above).text) == 4


@pytest.mark.parametrize(
    "linked", ["dev-clean", "dev-clean/7/70", "dev-clean/7/70/7-70-0000.flac"]
)
def test_links_are_followed_but_not_to_a_folder_above(
    corpus: Path, linked: str
) -> None:
    plain = dev(corpus)
    (chapter(corpus) / "up").symlink_to(corpus / "dev-clean")
    assert dev(corpus) == plain
    (chapter(corpus) / "up").unlink()
    elsewhere = corpus.parent / "elsewhere" / linked
    elsewhere.parent.mkdir(parents=True)
    (corpus / linked).rename(elsewhere)
    (corpus / linked).symlink_to(elsewhere)
    assert dev(corpus) == plain


def test_real_recordings(digits: Path, tmp_path: Path) -> None:
    found = prepare_librispeech(
        digits, tmp_path, ["test-clean", "test-other"], check_audio="header"
    )
    assert [len(data.text) for data in found.values()] == [162, 166]


# --- what is refused ---


def test_folders_and_parts(corpus: Path) -> None:
    other = corpus.parent / "other"
    refused(other, "other: no such corpus folder")
    other.mkdir()
    refused(other, "other: the corpus folder is empty")
    (other / "music").mkdir()
    refused(other, "none of LibriSpeech's parts")
    refused(
        corpus,
        "has no test-other, test-clean:",
        parts=["dev-clean", "test-other", "test-clean"],
    )
    refused(corpus, "no part 'dev-claen'", parts=["dev-claen"])
    (corpus / "test-clean" / "1").mkdir(parents=True)
    refused(corpus, "no utterances in .*test-clean")


def lines(*each: str) -> Callable[[Path], object]:
    return lambda corpus: transcripts(corpus).write_text(
        "".join(f"{line}\n" for line in each)
    )


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (
            lambda corpus: (chapter(corpus) / "7-70-0001.flac").unlink(),
            "no audio file .*/7-70-0001.flac for utterance",
        ),
        (
            lines("7-70-0000 ONE"),
            r"no transcript of utterance 7-70-0001 \(.*/7-70-0001.flac\)",
        ),
        (
            lambda corpus: transcripts(corpus).unlink(),
            "no transcript of utterance 7-70-0000.* 7-70-0001",
        ),
        (
            lines("7-70-0000 A", "7-70-0001 B", "7-70-0000 C"),
            r"7-70-0000 comes twice \(line 3 of .*7-70.trans.txt\)",
        ),
        (
            lines("7-70-0000 ONE", "7-70-0001"),
            r"empty transcript of 7-70-0001 \(line 2 of .*7-70.trans.txt\)",
        ),
        (
            lines("7-70-0000 A", "7-70-0001 B", "HELLO WORLD"),
            r"malformed line .* \(line 3 of .*7-70.trans.txt\)",
        ),
        (
            lines("7-70-0000 A", "7-70-0001 B", "8-80-0001 OF ANOTHER"),
            r"malformed line .* \(line 3 of",
        ),
        (
            lines("7-70-0000 A", "7-70-0001 B", "7-70-../../x UP"),
            r"malformed line .* \(line 3 of",
        ),
        (
            lambda corpus: transcripts(corpus).write_bytes(b"7-70-0000 \xff\xfe\n"),
            "7-70.trans.txt is not UTF-8",
        ),
        (
            lambda corpus: (corpus / "dev-clean" / "7").rename(
                corpus / "dev-clean" / "9"
            ),
            "utterance 7-70-0000 is in the wrong folder .*dev-clean/9/70",
        ),
        (
            lambda corpus: (corpus / "dev-clean" / "9").symlink_to("/unplugged/9"),
            "dev-clean/9: a broken link",
        ),
        (
            lines(*(f"7-70-{n:04d} WORDS" for n in range(17))),
            "7-70-0002.*7-70-0003.*7-70-0004; and 12 more: ",
        ),
    ],
)
def test_faulty_transcripts(
    corpus: Path, change: Callable[[Path], object], pattern: str
) -> None:
    change(corpus)
    refused(corpus, pattern)


@pytest.mark.parametrize("check_audio", ["header", "full"])
@each_damage
def test_bad_audio(corpus: Path, damage, pattern: str, check_audio: str) -> None:
    damage(chapter(corpus) / "7-70-0001.flac")
    refused(
        corpus,
        rf"({pattern}).* 7-70-0001 \(.*/7-70-0001.flac\)",
        check_audio=check_audio,
    )


def test_truncated_audio_is_found_by_decoding(corpus: Path) -> None:
    """Four files are few enough to decode by default."""
    path = chapter(corpus) / "7-70-0000.flac"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(corpus, r"(breaks off before its end|corrupt audio).* 7-70-0000 \(")


# --- what is ignored, and what can be left out ---


def test_blank_lines_and_files_of_macos_are_ignored(
    corpus: Path, capsys: pytest.CaptureFixture
) -> None:
    plain = dev(corpus)
    transcripts(corpus).write_text(transcripts(corpus).read_text() + "\n \n")
    (chapter(corpus) / "._7-70-0000.flac").write_bytes(b"Mac OS X")
    (chapter(corpus) / "._7-70.trans.txt").write_bytes(b"\x00\x05\x16\x07\xff")
    assert dev(corpus) == plain
    warned = capsys.readouterr().err
    assert (
        "blank lines ignored, 2 times" in warned
        and "macOS's files ._* ignored, 2 times, first in" in warned
    )


def damage(corpus: Path) -> None:
    """One utterance of four without a transcript, and another file that is cut off."""
    transcripts(corpus).write_text("7-70-0000 ONE\n")
    path = corpus / "dev-clean" / "8" / "80" / "8-80-0001.flac"
    path.write_bytes(path.read_bytes()[:500])


def test_faulty_utterances_are_left_out_and_counted(
    corpus: Path, capsys: pytest.CaptureFixture
) -> None:
    damage(corpus)
    file = corpus.parent / "out" / "librispeech_faults.txt"
    refused(
        corpus,
        "50.0% of dev-clean is faulty, and --skip-faulty allows 2%: no transcript",
        skip_faulty=0.02,
    )
    refused(
        corpus,
        rf"no transcript.*or leave them out with --skip-faulty .all 2 faults: {file}",
    )
    assert file.read_text().startswith("# faulty: 2 of 4 in dev-clean\n")
    assert dev(corpus, skip_faulty=0.5).utterances == ["7-70-0000", "8-80-0000"]
    title, *found = file.read_text().splitlines()
    assert title == "# left out: 2 of 4 in dev-clean"
    assert [line.split("\t")[:2] for line in found] == [
        ["dev-clean", "7-70-0001"],
        ["dev-clean", "8-80-0001"],
    ]
    assert (
        "left out: 2 of 4 in dev-clean: no transcript of utterance 7-70-0001"
        in capsys.readouterr().err
    )


def test_the_share_counts_for_each_part(corpus: Path) -> None:
    """A large training set does not pay for a faulty test set."""
    shutil.copytree(corpus / "dev-clean", corpus / "train-clean-100")
    damage(corpus)
    refused(corpus, "50.0% of dev-clean", skip_faulty=0.3)
    found = prepare_librispeech(corpus, corpus.parent / "out", skip_faulty=0.5)
    assert {part: len(data.text) for part, data in found.items()} == {
        "train-clean-100": 4,
        "dev-clean": 2,
    }

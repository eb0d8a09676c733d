"""Reading the ASRU 2019 code-switching corpus in the forms that people have it in, and what is wrong with it."""

import gzip
import json
from pathlib import Path

import pytest
from bad_corpora import each_damage, refused_by, write_noise

from espnet_ext.corpora.asru2019 import PARTS, RULES, prepare_asru2019
from espnet_ext.corpora.audio_folder import scan_audio_folder as scan
from espnet_ext.corpora.faults import Faults
from espnet_ext.corpora.manifests import data_dirs_from_manifests
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import validate_data_dir
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.kaldi.parts import combine_data_dirs


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Code-switching training speech with a list, Mandarin with a transcript a file, a Kaldi data dir, and English."""
    root = tmp_path / "corpus"
    for speaker in ("G1", "G2"):
        for number in range(2):
            write_noise(root / "train-cs" / speaker / f"{speaker}-{number}.wav")
            name = f"T9{speaker}S{number}"
            write_noise(root / "train-zh" / "wav" / speaker / f"{name}.wav")
            (root / "train-zh" / "wav" / speaker / f"{name}.txt").write_text(f"我 喜欢 {'茶' * (number + 1)}。\n")
    lines = ["G1-0 我的 ｄoctor 很忙。", "G1-1\t[NOISE] 他 don’t 去", "G2-0 好", "G2-1  ok ， 三 点"]
    (root / "train-cs" / "transcript.txt").write_text("\n".join(lines) + "\n")
    dev = DataDir(
        wav_scp={key: write_noise(tmp_path / "elsewhere" / f"{key}.wav") for key in ("d1", "d2")},
        utt2spk={"a-1": "a", "a-2": "a", "b-1": "b"},
        text={"a-1": "我 like 茶", "a-2": "茶", "b-1": "100"},
        segments={"a-1": "d1 0 0.1", "a-2": "d1 0.1 0.3", "b-1": "d2 0 0.3"},
    )
    write_data_dir(dev, root / "dev")
    for part in ("train-clean-100", "train-clean-360"):
        chapter = root / "LibriSpeech" / part / "7" / "70"
        write_noise(chapter / "7-70-0000.flac")
        (chapter / "7-70.trans.txt").write_text("7-70-0000 THE DOGS' TEA\n")
    return root


def scan_audio_folder(folder: Path) -> DataDir:
    return scan(folder, folder.name, Faults(folder))


refused = refused_by(prepare_asru2019)


def listed(corpus: Path, *lines: str) -> None:
    (corpus / "train-cs" / "transcript.txt").write_text("".join(f"{line}\n" for line in lines))


LINES = ("G1-0 我", "G1-1 你", "G2-0 他")


def texts(manifests: dict, part: str) -> dict[str, str]:
    return {item.id: item.text for item in manifests[part]["supervisions"]}


# --- what is read ---


def test_lists_transcripts_beside_audio_data_dirs_and_librispeech(corpus: Path) -> None:
    manifests = prepare_asru2019(corpus)
    assert list(manifests) == ["train-cs", "train-zh", "dev", "train-clean-100", "train-clean-360"]
    assert texts(manifests, "train-cs") == {
        "G1-0": "我的DOCTOR很忙",
        "G1-1": "他DON'T去",
        "G2-0": "好",
        "G2-1": "OK三点",
    }
    assert texts(manifests, "train-zh")["T9G1S1"] == "我喜欢茶茶"
    assert texts(manifests, "dev") == {"a-1": "我LIKE茶", "a-2": "茶", "b-1": "100"}
    assert texts(manifests, "train-clean-360") == {"7-70-0000": "THE DOGS TEA"}


def test_languages_are_those_of_the_text_and_else_the_part_s(corpus: Path) -> None:
    languages = {
        part: {item.id: item.language for item in sets["supervisions"]}
        for part, sets in prepare_asru2019(corpus).items()
    }
    assert languages["train-cs"] == {"G1-0": "cs", "G1-1": "cs", "G2-0": "zh", "G2-1": "cs"}
    assert set(languages["train-zh"].values()) == {"zh"}
    assert languages["dev"] == {"a-1": "cs", "a-2": "zh", "b-1": "cs"}
    assert languages["train-clean-100"] == {"7-70-0000": "en"}


def test_speakers(corpus: Path) -> None:
    manifests = prepare_asru2019(corpus)
    speakers = {item.id: item.speaker for sets in manifests.values() for item in sets["supervisions"]}
    assert (speakers["G1-0"], speakers["T9G2S0"], speakers["b-1"], speakers["7-70-0000"]) == ("G1", "T9G2", "b", "7")


def test_segments_keep_their_times(corpus: Path) -> None:
    item = prepare_asru2019(corpus)["dev"]["supervisions"]["a-2"]
    assert (item.recording_id, item.start, item.duration) == ("d1", 0.1, 0.2)


def test_manifests_on_disk_and_data_dirs_of_them(corpus: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "manifests"
    prepare_asru2019(corpus, output)
    said = capsys.readouterr().out
    assert "train-cs: 4 utterances, 0.00 hours" in said and "(mandarin_english)" in said
    parts = ["train-cs", "train-zh", "dev", "train-clean-100", "train-clean-360"]
    files = {
        kind: [output / f"asru2019_{kind}_{part}.jsonl.gz" for part in parts] for kind in ("recordings", "supervisions")
    }
    made = {*files["recordings"], *files["supervisions"], output / "text_rules.json", output / "audio"}
    assert set(output.iterdir()) == made
    assert json.loads((output / "text_rules.json").read_text()) == RULES.record
    with gzip.open(files["supervisions"][0], "rt") as file:
        assert json.loads(next(file))["text"] == "我的DOCTOR很忙"
    # all of them as Kaldi data dirs, and together
    folders = [tmp_path / "data" / part for part in parts]
    data_dirs_from_manifests(*files.values(), folders)
    combine_data_dirs(tmp_path / "all", folders, suffix_source=True)
    assert validate_data_dir(tmp_path / "all", audio=True, rate=16000)
    together = read_data_dir(tmp_path / "all")
    assert len(together.utterances) == 4 + 4 + 3 + 2
    assert all(key.startswith(speaker) for key, speaker in together.utt2spk.items())
    assert together.utt2lang["7-70-0000-train-clean-100"] == "en"


def test_utterances_without_a_word_are_left_out_and_named(corpus: Path, capsys: pytest.CaptureFixture) -> None:
    listed(corpus, *LINES, "G2-1 [NOISE] 。")
    assert list(texts(prepare_asru2019(corpus), "train-cs")) == ["G1-0", "G1-1", "G2-0"]
    assert "train-cs: left out G2-1: no word in the transcript" in capsys.readouterr().out


def test_folders_elsewhere(corpus: Path, tmp_path: Path) -> None:
    (corpus / "train-cs").rename(tmp_path / "cs200")
    (corpus / "LibriSpeech").rename(tmp_path / "english")
    options = {"folders": {"train-cs": tmp_path / "cs200"}, "librispeech_dir": tmp_path / "english"}
    assert len(prepare_asru2019(corpus, **options)) == 5
    assert list(prepare_asru2019(corpus, parts=["dev"], **options)) == ["dev"]
    # LibriSpeech may also be given as the folder above
    (tmp_path / "disk").mkdir()
    (tmp_path / "english").rename(tmp_path / "disk" / "LibriSpeech")
    assert len(prepare_asru2019(corpus, librispeech_dir=tmp_path / "disk")) == 4


def test_parts(corpus: Path) -> None:
    assert list(prepare_asru2019(corpus, parts=["train-clean-100", "dev"])) == ["dev", "train-clean-100"]


def test_utt2spk_names_the_speakers(corpus: Path) -> None:
    (corpus / "train-cs" / "utt2spk").write_text("G1-0 x\nG1-1 y\nG2-0 x\nG2-1 x\n")
    assert scan_audio_folder(corpus / "train-cs").utt2spk == {
        "G1-0": "x",
        "G1-1": "y",
        "G2-0": "x",
        "G2-1": "x",
    }


def test_what_else_lies_in_a_folder_is_left_alone(corpus: Path) -> None:
    before = scan_audio_folder(corpus / "train-zh")
    (corpus / "train-zh" / "README.txt").write_text("about")
    (corpus / "train-zh" / "wav" / "G1" / "T9G1S0.metadata").write_text("about")
    assert scan_audio_folder(corpus / "train-zh") == before
    # a list takes the place of the transcripts beside the audio
    lines = [f"{key} 一" for key in before.wav_scp]
    (corpus / "train-zh" / "aidatatang_transcript.txt").write_text("\n".join(lines))
    assert set(scan_audio_folder(corpus / "train-zh").text.values()) == {"一"}


def test_links_byte_order_marks_and_capital_suffixes(corpus: Path, tmp_path: Path) -> None:
    (corpus / "train-cs" / "G2").rename(tmp_path / "G2")
    (corpus / "train-cs" / "G2").symlink_to(tmp_path / "G2")
    (tmp_path / "G2" / "G2-0.wav").rename(tmp_path / "G2" / "G2-0.WAV")
    path = corpus / "train-cs" / "transcript.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(prepare_asru2019(corpus)["train-cs"]["supervisions"]) == 4


# --- what is refused: folders ---


def test_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere: no such corpus folder: give the folder that holds train-cs, train-zh")


def test_folder_without_a_part(tmp_path: Path) -> None:
    (tmp_path / "corpus" / "music").mkdir(parents=True)
    refused(tmp_path / "corpus", "none of the corpus's parts was found: it should hold train-cs, train-zh, dev, test")


def test_wanted_part_that_is_missing(corpus: Path) -> None:
    found = "found train-cs, train-zh, dev, train-clean-100, train-clean-360"
    refused(corpus, rf"no folder for test \({corpus}/test\); {found}", parts=[*PARTS])


def test_named_folder_that_is_missing(corpus: Path) -> None:
    refused(corpus, r"no folder for test \(/nowhere/t\)", folders={"test": "/nowhere/t"})
    refused(corpus, r"no folder for train-clean-100 \(/nowhere/", librispeech_dir="/nowhere")


def test_unknown_part(corpus: Path) -> None:
    refused(corpus, "no part 'train-en': the parts are", parts=["train-en"])
    refused(corpus, "no part 'train-clean-100'", folders={"train-clean-100": "x"})


def test_part_without_utterances(corpus: Path) -> None:
    (corpus / "test").mkdir()
    refused(corpus, "no utterances in .*/test")


# --- transcripts ---


def test_transcript_without_audio(corpus: Path) -> None:
    (corpus / "train-cs" / "G1" / "G1-1.wav").unlink()
    refused(corpus, r"no audio file for utterance G1-1 \(.*/transcript.txt\)")


def test_audio_without_transcript(corpus: Path) -> None:
    listed(corpus, *LINES)
    refused(corpus, r"no transcript of utterance G2-1 \(.*/G2/G2-1.wav\)")


def test_lost_transcript_beside_audio(corpus: Path) -> None:
    (corpus / "train-zh" / "wav" / "G1" / "T9G1S0.txt").rename(corpus / "train-zh" / "wav" / "G1" / "T9G1S7.txt")
    refused(corpus, r"no audio file for utterance T9G1S7 \(", r"no transcript of utterance T9G1S0 \(")


def test_folder_without_transcripts(corpus: Path) -> None:
    (corpus / "train-cs" / "transcript.txt").unlink()
    refused(corpus, "no transcript of utterance G1-0", "G2-0.*; and 1 more")


def test_duplicates(corpus: Path) -> None:
    listed(corpus, *LINES, "G2-1 好", "G1-0 好")
    refused(corpus, "G1-0 comes twice")
    listed(corpus, *LINES, "G2-1 好")
    write_noise(corpus / "train-cs" / "G3" / "G1-0.wav")
    refused(corpus, r"G1-0 comes twice \(.*/G1/G1-0.wav and .*/G3/G1-0.wav\)")


@pytest.mark.parametrize("line", ["G2-1", "G2-1 ", "G2-1 \t "])
def test_empty_transcript(corpus: Path, line: str) -> None:
    listed(corpus, *LINES, line)
    refused(corpus, r"empty transcript of G2-1 \(.*/transcript.txt\)")


def test_empty_transcript_beside_audio(corpus: Path) -> None:
    (corpus / "train-zh" / "wav" / "G1" / "T9G1S0.txt").write_text("\n")
    refused(corpus, r"empty transcript of T9G1S0 \(.*/T9G1S0.txt\)")


def test_line_that_is_no_transcript(corpus: Path) -> None:
    listed(corpus, *LINES, "G2-1 好", "transcripts of 2019")
    refused(corpus, r"no audio file for utterance transcripts \(")


def test_transcripts_in_another_encoding(corpus: Path) -> None:
    path = corpus / "train-cs" / "transcript.txt"
    path.write_bytes(path.read_text().encode("gb18030"))
    refused(corpus, "transcript.txt is not UTF-8 text .iconv -f GB18030")


def test_no_word_at_all(corpus: Path) -> None:
    listed(corpus, *(f"G{speaker}-{number} [NOISE]" for speaker in (1, 2) for number in range(2)))
    refused(corpus, "train-cs: no transcript contains a word")


def test_utt2spk_with_gaps(corpus: Path) -> None:
    (corpus / "train-cs" / "utt2spk").write_text("G1-0 x\nG1-1 y\nG2-0 x\n")
    refused(corpus, "no speaker of utterance G2-1 in .*/utt2spk")


def test_space_in_a_file_name(corpus: Path) -> None:
    write_noise(corpus / "train-cs" / "G1" / "G1 2.wav")
    refused(corpus, r"a name with a space in it \(.*/G1 2.wav\)")


# --- Kaldi data dirs ---


def test_data_dir_that_does_not_fit_together(corpus: Path) -> None:
    (corpus / "dev" / "text").write_text("a-1 我\na-2 你\n")
    refused(corpus, "dev/text: no transcript for b-1")


def test_commands_in_wav_scp(corpus: Path) -> None:
    path = corpus / "dev" / "wav.scp"
    path.write_text(path.read_text().replace("d2 ", "d2 cat ").replace("d2.wav", "d2.wav |"))
    refused(corpus, r"dev/wav.scp: recording d2 is a command \(ending in \|\)")


# --- audio ---


@pytest.mark.parametrize("check_audio", ["header", "full"])
@each_damage
@pytest.mark.parametrize(
    ("place", "key"),
    [("corpus/train-zh/wav/G1/T9G1S0.wav", "T9G1S0"), ("elsewhere/d1.wav", "d1")],
    ids=["folder", "data dir"],
)
def test_bad_audio(corpus: Path, damage, pattern: str, check_audio: str, place: str, key: str) -> None:
    path = corpus.parent / place
    damage(path)
    refused(corpus, rf"({pattern}) {key} \({path}\)", check_audio=check_audio)


def test_truncated_audio_is_found_by_decoding(corpus: Path) -> None:
    path = corpus / "train-cs" / "G1" / "G1-0.wav"
    path.write_bytes(path.read_bytes()[:4000])
    refused(corpus, r"breaks off before its end, of G1-0 \(")


def test_bad_english_audio(corpus: Path) -> None:
    (corpus / "LibriSpeech" / "train-clean-360" / "7" / "70" / "7-70-0000.flac").write_bytes(b"")
    refused(corpus, "empty audio file .* 7-70-0000")


# --- faults that are left out ---


def test_faulty_utterances_can_be_left_out(corpus: Path, capsys: pytest.CaptureFixture) -> None:
    output = corpus.parent / "manifests"
    (corpus / "train-cs" / "G1" / "G1-0.wav").write_bytes(b"")
    (corpus / "train-cs" / "G1" / "._G1-1.wav").write_bytes(b"macOS")
    (corpus.parent / "elsewhere" / "d2.wav").unlink()
    with pytest.raises(InputError, match="25.0% of train-cs is faulty, and --skip-faulty allows 24%: an empty audio"):
        prepare_asru2019(corpus, output, skip_faulty=0.24)
    assert not list(output.glob("*.gz"))
    manifests = prepare_asru2019(corpus, output, skip_faulty=0.5)
    assert list(texts(manifests, "train-cs")) == ["G1-1", "G2-0", "G2-1"]
    assert list(texts(manifests, "dev")) == ["a-1", "a-2"]
    assert list(manifests["dev"]["recordings"].ids) == ["a-1", "a-2"]  # cut from d1
    assert len(texts(manifests, "train-clean-100")) == 1
    said = capsys.readouterr().err
    assert "left out: 1 of 4 in train-cs, 1 of 3 in dev" in said and "macOS's files ._* ignored, 1 times" in said
    title, *lines = (output / "asru2019_faults.txt").read_text().splitlines()
    assert title == "# left out: 1 of 4 in train-cs, 1 of 3 in dev"
    assert [line.split("\t")[:2] for line in lines] == [["train-cs", "G1-0"], ["dev", "b-1"]]  # of the recording d2

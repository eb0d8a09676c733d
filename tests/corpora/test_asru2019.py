"""Reading the ASRU 2019 code-switching corpus in the forms that people have it in, and
what is wrong with it.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_corpora import refused_by, write_noise

from espnet_ext.corpora.asru2019 import RULES, prepare_asru2019
from espnet_ext.corpora.checks import Faults
from espnet_ext.corpora.code_switching import scan_audio_folder as scan
from espnet_ext.kaldi.checks import validate_data_dir
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.kaldi.parts import combine_data_dirs


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Code-switching training speech with a list, Mandarin with a transcript a file, a
    Kaldi data dir, and English.
    """
    root = tmp_path / "corpus"
    for speaker in ("G1", "G2"):
        for number in range(2):
            write_noise(root / "train-cs" / speaker / f"{speaker}-{number}.wav")
            name = f"T9{speaker}S{number}"
            write_noise(root / "train-zh" / "wav" / speaker / f"{name}.wav")
            (root / "train-zh" / "wav" / speaker / f"{name}.txt").write_text(
                f"我 喜欢 {'茶' * (number + 1)}。\n"
            )
    lines = [
        "G1-0 我的 ｄoctor 很忙。",
        "G1-1\t[NOISE] 他 don’t 去",
        "G2-0 好",
        "G2-1  ok ， 三 点",
    ]
    (root / "train-cs" / "transcript.txt").write_text("\n".join(lines) + "\n")
    dev = DataDir(
        wav_scp={
            key: write_noise(tmp_path / "elsewhere" / f"{key}.wav")
            for key in ("d1", "d2")
        },
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
    return scan(folder, folder.name, Faults(folder, folder / "faults.txt"))


def prepare(corpus: Path, **options) -> dict[str, DataDir]:
    return prepare_asru2019(corpus, corpus.parent / "out", **options)


refused = refused_by(prepare_asru2019)


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda corpus: (corpus / name).write_text(text)


def listed(*lines: str) -> Callable[[Path], object]:
    return written("train-cs/transcript.txt", "".join(f"{line}\n" for line in lines))


LINES = ("G1-0 我", "G1-1 你", "G2-0 他")


# --- what is read ---


def test_lists_transcripts_beside_audio_data_dirs_and_librispeech(
    corpus: Path, capsys
) -> None:
    output, found = corpus.parent / "out", prepare(corpus)
    assert list(found) == [
        "train-cs",
        "train-zh",
        "dev",
        "train-clean-100",
        "train-clean-360",
    ]
    assert found["train-cs"].text == {
        "G1-0": "我的DOCTOR很忙",
        "G1-1": "他DON'T去",
        "G2-0": "好",
        "G2-1": "OK三点",
    }
    assert found["train-zh"].text["T9G1S1"] == "我喜欢茶茶"
    assert found["dev"].text == {"a-1": "我LIKE茶", "a-2": "茶", "b-1": "100"}
    assert found["train-clean-360"].text == {"7-70-0000": "THE DOGS TEA"}
    # languages are those of the text, or of the part where it is in neither script
    assert found["train-cs"].utt2lang == {
        "G1-0": "cs",
        "G1-1": "cs",
        "G2-0": "zh",
        "G2-1": "cs",
    }
    assert set(found["train-zh"].utt2lang.values()) == {"zh"}
    assert found["dev"].utt2lang == {"a-1": "cs", "a-2": "zh", "b-1": "cs"}
    assert found["train-clean-100"].utt2lang == {"7-70-0000": "en"}
    speakers = {
        key: speaker for data in found.values() for key, speaker in data.utt2spk.items()
    }
    assert (
        speakers["G1-0"],
        speakers["T9G2S0"],
        speakers["b-1"],
        speakers["7-70-0000"],
    ) == ("G1", "T9G2", "b", "7")
    assert found["dev"].segments is None and found["dev"].utt2dur == {
        "a-1": "0.1",
        "a-2": "0.2",
        "b-1": "0.3",
    }
    assert {path.name for path in output.iterdir()} == {
        *found,
        "text_rules.json",
        "asru2019_audio",
    }
    assert json.loads((output / "text_rules.json").read_text()) == RULES.record
    printed = capsys.readouterr().out
    assert (
        f"{output}/train-cs: 4 utterances, 2 speakers, 0.00 hours" in printed
        and "(mandarin_english)" in printed
    )
    # all of them together
    combine_data_dirs(
        output / "all", [output / part for part in found], suffix_source=True
    )
    assert validate_data_dir(output / "all", audio=True, rate=16000)
    together = read_data_dir(output / "all")
    assert len(together.utterances) == 4 + 4 + 3 + 2
    assert all(key.startswith(speaker) for key, speaker in together.utt2spk.items())
    assert together.utt2lang["7-70-0000-train-clean-100"] == "en"


def test_utterances_without_a_word_are_left_out_and_named(
    corpus: Path, capsys: pytest.CaptureFixture
) -> None:
    listed(*LINES, "G2-1 [NOISE] 。")(corpus)
    assert list(prepare(corpus)["train-cs"].text) == ["G1-0", "G1-1", "G2-0"]
    assert (
        "train-cs: left out G2-1: no word in the transcript" in capsys.readouterr().out
    )


def test_parts_and_folders_elsewhere(corpus: Path, tmp_path: Path) -> None:
    assert list(prepare(corpus, parts=["train-clean-100", "dev"])) == [
        "dev",
        "train-clean-100",
    ]
    (corpus / "train-cs").rename(tmp_path / "cs200")
    (corpus / "LibriSpeech").rename(tmp_path / "english")
    options = {
        "folders": {"train-cs": tmp_path / "cs200"},
        "librispeech_dir": tmp_path / "english",
    }
    assert len(prepare(corpus, **options)) == 5
    # LibriSpeech may also be given as the folder above
    (tmp_path / "disk").mkdir()
    (tmp_path / "english").rename(tmp_path / "disk" / "LibriSpeech")
    assert len(prepare(corpus, librispeech_dir=tmp_path / "disk")) == 4


def test_what_else_lies_in_a_folder_is_left_alone(corpus: Path) -> None:
    before = scan_audio_folder(corpus / "train-zh")
    (corpus / "train-zh" / "README.txt").write_text("about")
    (corpus / "train-zh" / "wav" / "G1" / "T9G1S0.metadata").write_text("about")
    assert scan_audio_folder(corpus / "train-zh") == before
    # a list takes the place of the transcripts beside the audio
    lines = [f"{key} 一" for key in before.wav_scp]
    (corpus / "train-zh" / "aidatatang_transcript.txt").write_text("\n".join(lines))
    assert set(scan_audio_folder(corpus / "train-zh").text.values()) == {"一"}


# --- what is refused ---


def test_folders_and_parts(corpus: Path, tmp_path: Path) -> None:
    refused(
        tmp_path / "no",
        "no: no such corpus folder: give the folder that holds train-cs, train-zh",
    )
    (tmp_path / "other" / "music").mkdir(parents=True)
    refused(
        tmp_path / "other",
        "none of the corpus's parts was found: it should hold train-cs, train-zh, "
        "dev, test",
    )
    found = "found train-cs, train-zh, dev, train-clean-100, train-clean-360"
    refused(
        corpus,
        rf"no folder for test \({corpus}/test\); {found}",
        parts=["train-cs", "test"],
    )
    refused(
        corpus, r"no folder for test \(/nowhere/t\)", folders={"test": "/nowhere/t"}
    )
    refused(
        corpus, r"no folder for train-clean-100 \(/nowhere/", librispeech_dir="/nowhere"
    )
    refused(corpus, "no part 'train-en': the parts are", parts=["train-en"])
    refused(corpus, "no part 'train-clean-100'", folders={"train-clean-100": "x"})
    (corpus / "test").mkdir()
    refused(corpus, "no utterances of test in or beside .*/test")


def other_encoding(corpus: Path) -> None:
    path = corpus / "train-cs" / "transcript.txt"
    path.write_bytes(path.read_text().encode("gb18030"))


def lost_transcript(corpus: Path) -> None:
    folder = corpus / "train-zh" / "wav" / "G1"
    (folder / "T9G1S0.txt").rename(folder / "T9G1S7.txt")


def audio_twice(corpus: Path) -> None:
    write_noise(corpus / "train-cs" / "G3" / "G1-0.wav", seconds=0.4)


def command_in_wav_scp(corpus: Path) -> None:
    path = corpus / "dev" / "wav.scp"
    path.write_text(
        path.read_text().replace("d2 ", "d2 cat ").replace("d2.wav", "d2.wav |")
    )


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (
            lambda corpus: (corpus / "train-cs/G1/G1-1.wav").unlink(),
            r"no audio file for utterance G1-1 \(.*transcript",
        ),
        (listed(*LINES), r"no transcript of utterance G2-1 \(.*/G2/G2-1.wav\)"),
        (
            lost_transcript,
            r"no audio file for utterance T9G1S7 \("
            r".*no transcript of utterance T9G1S0 \(",
        ),
        (listed(*LINES, "G2-1 好", "G1-0 好"), "G1-0 comes twice"),
        (
            audio_twice,
            r"G1-0 comes twice, and the files differ: "
            r".*/G1/G1-0.wav and .*/G3/G1-0.wav",
        ),
        (listed(*LINES, "G2-1 \t "), r"empty transcript of G2-1 \(.*/transcript.txt\)"),
        (
            written("train-zh/wav/G1/T9G1S0.txt", "\n"),
            r"empty transcript of T9G1S0 \(.*/T9G1S0.txt\)",
        ),
        (
            listed(*LINES, "G2-1 好", "transcripts of 2019"),
            r"no audio file for utterance transcripts \(",
        ),
        (other_encoding, "transcript.txt is not UTF-8 text: .*iconv -f GB18030"),
        (
            listed(
                *(
                    f"G{speaker}-{number} [NOISE]"
                    for speaker in (1, 2)
                    for number in range(2)
                )
            ),
            "train-cs: no transcript contains a word",
        ),
        (
            written("train-cs/utt2spk", "G1-0 x\nG1-1 y\nG2-0 x\n"),
            "no speaker of utterance G2-1 in .*/utt2spk",
        ),
        (
            lambda corpus: write_noise(corpus / "train-cs/G1/G1 2.wav"),
            r"a name with a space in it \(.*/G1 2.wav\)",
        ),
        (written("dev/text", "a-1 我\na-2 你\n"), "dev/text: no transcript for b-1"),
        (command_in_wav_scp, r"dev/wav.scp: d2 is a command"),
        (
            written("LibriSpeech/train-clean-360/7/70/7-70-0000.flac", ""),
            "empty audio file .* 7-70-0000",
        ),
    ],
)
def test_faulty_corpora(
    corpus: Path, change: Callable[[Path], object], pattern: str
) -> None:
    change(corpus)
    refused(corpus, pattern)

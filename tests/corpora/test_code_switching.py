"""Corpora of code-switching and Mandarin speech in the folders in which people get
them.
"""

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from bad_corpora import write_noise

from espnet_ext.corpora.asru2019 import prepare_asru2019
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def challenge(root: Path) -> None:
    """ASRU 2019 as its participants got it: a folder for each speaker and session, dev
    and test flat.
    """
    for part, ids in {
        "ZH+EN-200h/data/category1/G0013/session1": [
            "T0055G0013S0001",
            "T0055G0013S0002",
        ],
        "ZH+EN-200h/data/category2/G0014/session1": ["T0055G0014S0001"],
        "ZH-500h/data/category1/G0099/session2": ["T0100G0099S0001"],
        "ASRU-DEV/data": ["T0200G0001S0001", "T0200G0002S0001"],
        "ASRU-TEST": ["T0300G0003S0001"],
    }.items():
        for key in ids:
            write_noise(root / part / f"{key}.wav")
            write(root / part / f"{key}.txt", "我 想要 ａpp。")


def talcs(root: Path) -> None:
    for part in ("train_set", "dev_set", "test_set"):
        for number in range(2):
            write_noise(root / "TALCS_corpus" / part / "wav" / f"{part}{number}.wav")
        write(
            root / "TALCS_corpus" / part / "label.txt",
            f"{part}0 好 的 yes",
            f"{part}1 我们 看 page",
        )


def seame(root: Path) -> None:
    """Kaldi data dirs with segments."""
    for part in ("train", "dev_man", "dev_sge"):
        source = write_noise(root / "conversation" / f"{part}.wav", 1.0)
        write(root / part / "wav.scp", f"NI01{part} {source}")
        write(
            root / part / "segments",
            f"NI01{part}-1 NI01{part} 0.1 0.5",
            f"NI01{part}-2 NI01{part} 0.5 1.0",
        )
        write(
            root / part / "utt2spk",
            f"NI01{part}-1 NI01{part}",
            f"NI01{part}-2 NI01{part}",
        )
        write(
            root / part / "text",
            f"NI01{part}-1 <v-noise> 然后 lah",
            f"NI01{part}-2 okay 咯 [ah]",
        )


def ascend(root: Path) -> None:
    head = (
        "id,path,transcription,duration,language,original_speaker_id,session_id,topic"
    )
    for part, number in (("train", 1), ("validation", 2), ("test", 3)):
        name = f"ses{number}_spk{number}_L1_0.1_0.3.wav"
        write_noise(root / "waves" / name)
        row = (
            f'00001,waves/{name},"他 说, deadline '
            f'了",0.3,mixed,{number},{number},technology'
        )
        write(root / f"{part}_metadata.csv", head, row)


CORPORA = {"asru2019": challenge, "talcs": talcs, "seame": seame, "ascend": ascend}


@pytest.fixture(params=list(CORPORA))
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    CORPORA[request.param](tmp_path / "corpus")
    return request.param, tmp_path / "corpus"


def prepare(layout: str, corpus: Path, **options) -> dict[str, DataDir]:
    return prepare_asru2019(corpus, corpus.parent / "out", layout=layout, **options)


# part, utterance, speaker, seconds, text
READ = {
    "asru2019": """
        train-cs T0055G0013S0001 T0055G0013 0.3 我想要APP
        train-cs T0055G0013S0002 T0055G0013 0.3 我想要APP
        train-cs T0055G0014S0001 T0055G0014 0.3 我想要APP
        dev T0200G0001S0001 T0200G0001 0.3 我想要APP
        dev T0200G0002S0001 T0200G0002 0.3 我想要APP
        test T0300G0003S0001 T0300G0003 0.3 我想要APP""",
    "talcs": """
        train-cs train_set0 train_set0 0.3 好的YES
        train-cs train_set1 train_set1 0.3 我们看PAGE
        dev dev_set0 dev_set0 0.3 好的YES
        dev dev_set1 dev_set1 0.3 我们看PAGE
        test test_set0 test_set0 0.3 好的YES
        test test_set1 test_set1 0.3 我们看PAGE""",
    "seame": """
        train-cs NI01train-1 NI01train 0.4 然后LAH
        train-cs NI01train-2 NI01train 0.5 OKAY咯
        dev NI01dev_man-1 NI01dev_man 0.4 然后LAH
        dev NI01dev_man-2 NI01dev_man 0.5 OKAY咯
        test NI01dev_sge-1 NI01dev_sge 0.4 然后LAH
        test NI01dev_sge-2 NI01dev_sge 0.5 OKAY咯""",
    "ascend": """
        train-cs ses1_spk1_L1_0.1_0.3 spk1 0.3 他说DEADLINE了
        dev ses2_spk2_L1_0.1_0.3 spk2 0.3 他说DEADLINE了
        test ses3_spk3_L1_0.1_0.3 spk3 0.3 他说DEADLINE了""",
}


def test_each_corpus_is_read_as_it_is_delivered(layout: tuple[str, Path]) -> None:
    prepared = prepare(*layout)
    assert all(
        Path(path).is_file()
        for data in prepared.values()
        for path in data.wav_scp.values()
    )
    rows = [
        f"{part} {key} {data.utt2spk[key]} {data.utt2dur[key]} {data.text[key]}"
        for part, data in prepared.items()
        for key in data.utterances
        if part in ("train-cs", "dev", "test")
    ]
    assert rows == [line.strip() for line in READ[layout[0]].strip().splitlines()]


@pytest.mark.parametrize("corpus", ["data_aishell", "aidatatang_200zh"])
def test_mandarin_part_with_one_file_of_transcripts(
    corpus: str, tmp_path: Path, capsys
) -> None:
    talcs(tmp_path / "corpus")
    root = tmp_path / "mandarin" / corpus
    folder, name = {
        "data_aishell": ("wav", "aishell_transcript_v0.8.txt"),
        "aidatatang_200zh": ("corpus", "aidatatang_200_zh_transcript.txt"),
    }[corpus]
    for part in ("train", "dev"):
        write_noise(root / folder / part / "S0002" / f"BAC009S0002{part}.wav")
    # AISHELL-1 has hundreds of these
    unwritten = write_noise(root / folder / "train" / "S0002" / "BAC009S0002W0005.wav")
    write(
        root / "transcript" / name,
        "BAC009S0002train 而 对 楼市",
        "BAC009S0002dev 好",
        "BAC009S0099X 没有 音频",
    )
    for given in (
        root,
        root.parent,
    ):  # the folder into which it unpacks, or the one above
        data = prepare("talcs", tmp_path / "corpus", mandarin_dir=given)["train-zh"]
        (key,) = data.utterances
        assert (data.text[key], data.utt2spk[key], data.utt2lang[key]) == (
            "而对楼市",
            "S0002",
            "zh",
        )
        assert (
            f"audio without a transcript ignored, 1 times, first in {unwritten}"
            in capsys.readouterr().err
        )


@pytest.mark.parametrize(
    ("place", "transcript"),
    [
        ("wav", "aishell_transcript_v0.8.txt"),
        ("corpus/train", "aidatatang_200_zh_transcript.txt"),
    ],
)
def test_speakers_that_are_still_in_archives(
    place: str, transcript: str, tmp_path: Path
) -> None:
    """As AISHELL-1 and aidatatang_200zh unpack; --skip-faulty does not help. The
    command that is printed does.
    """
    talcs(tmp_path / "corpus")
    root = tmp_path / "mandarin"
    name = f"{'train/' if place == 'wav' else ''}S0002/BAC009S0002W0122.wav"
    write_noise(tmp_path / "loose" / name)
    write(root / "transcript" / transcript, "BAC009S0002W0122 而 对 楼市")
    (root / place).mkdir(parents=True)
    with tarfile.open(root / place / "S0002.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "loose" / name, name)
    with pytest.raises(
        InputError, match=r"1 speakers are still in archives"
    ) as refused:
        prepare("talcs", tmp_path / "corpus", mandarin_dir=root, skip_faulty=0.5)
    subprocess.run(
        ["bash", "-c", str(refused.value).partition("unpack them: ")[2]], check=True
    )
    assert prepare("talcs", tmp_path / "corpus", mandarin_dir=root)[
        "train-zh"
    ].utterances == ["BAC009S0002W0122"]


def test_an_incomplete_or_damaged_parquet_corpus(tmp_path: Path) -> None:
    folder = tmp_path / "corpus" / "main"
    folder.mkdir(parents=True)
    for name in (
        "train-00000-of-00002",
        "validation-00000-of-00001",
        "test-00000-of-00001",
    ):
        (folder / f"{name}.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        InputError, match=r"train-00000-of-00002.parquet: 1 of its 2 files"
    ):
        prepare("ascend", tmp_path / "corpus")
    (folder / "train-00001-of-00002.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        InputError,
        match=r"train-00000-of-00002.parquet: not ASCEND's Parquet, or damaged",
    ):
        prepare("ascend", tmp_path / "corpus")


def test_a_segment_beyond_its_recording_is_a_fault(tmp_path: Path, capsys) -> None:
    """But not by half a second, which Kaldi cuts off."""
    seame(tmp_path)
    write(
        tmp_path / "train" / "segments",
        "NI01train-1 NI01train 0.1 0.5",
        "NI01train-2 NI01train 0.5 1.4",
    )
    assert prepare("seame", tmp_path)["train-cs"].utt2dur == {
        "NI01train-1": "0.4",
        "NI01train-2": "0.5",
    }
    assert re.search(
        "^warning: .*/segments: .*NI01train-2", capsys.readouterr().out, re.M
    )
    write(
        tmp_path / "train" / "segments",
        "NI01train-1 NI01train 0.1 0.5",
        "NI01train-2 NI01train 0.5 1.6",
    )
    with pytest.raises(
        InputError,
        match=r"segment goes beyond the end of its recording, of NI01train-2",
    ):
        prepare("seame", tmp_path)
    assert prepare("seame", tmp_path, skip_faulty=0.5)["train-cs"].utterances == [
        "NI01train-1"
    ]


def test_the_share_of_faults_counts_utterances_and_not_recordings(
    tmp_path: Path, capsys
) -> None:
    seame(tmp_path)
    source = tmp_path / "conversation" / "train.wav"

    def train(*recordings: str, utterances: int, last: str) -> None:
        keys = [
            (f"{name}-{number:03}", name)
            for name in recordings
            for number in range(utterances)
        ]
        write(
            tmp_path / "train" / "wav.scp", *(f"{name} {source}" for name in recordings)
        )
        lines = [
            f"{key} {name} {number % utterances / 1000} 1.0"
            for number, (key, name) in enumerate(keys)
        ]
        write(tmp_path / "train" / "segments", *lines[:-1], last or lines[-1])
        write(tmp_path / "train" / "utt2spk", *(f"{key} {name}" for key, name in keys))
        write(tmp_path / "train" / "text", *(f"{key} 好" for key, _ in keys))

    train("A", utterances=100, last="A-099 A 0.5 1.6")
    assert len(prepare("seame", tmp_path, skip_faulty=0.02)["train-cs"].text) == 99
    assert "left out: 1 of 100 in train-cs" in capsys.readouterr().err

    train("A", "B", utterances=60, last="")
    (tmp_path / "bad.wav").write_bytes(b"no audio")
    write(tmp_path / "train" / "wav.scp", f"A {source}", f"B {tmp_path / 'bad.wav'}")
    with pytest.raises(
        InputError, match=r"50.0% of train-cs is faulty, and --skip-faulty allows 2%"
    ):
        prepare("seame", tmp_path, skip_faulty=0.02)
    faults = (tmp_path.parent / "out" / "asru2019_faults.txt").read_text()
    assert "# left out: 60 of 120 in train-cs" in faults and faults.count("\tB-0") == 60


def test_other_formats_and_metadata_in_another_encoding(tmp_path: Path) -> None:
    talcs(tmp_path / "t")
    wav = tmp_path / "t" / "TALCS_corpus" / "dev_set" / "wav"
    write_noise(wav / "dev_set0.flac")
    (wav / "dev_set0.flac").rename(wav / "dev_set0.FLAC")
    (wav / "dev_set0.wav").unlink()
    assert len(prepare("talcs", tmp_path / "t")["dev"].text) == 2
    ascend(tmp_path / "a")
    table = tmp_path / "a" / "test_metadata.csv"
    table.write_bytes(table.read_text(encoding="utf-8").encode("gb18030"))
    with pytest.raises(InputError, match="test_metadata.csv is not UTF-8 text"):
        prepare("ascend", tmp_path / "a")


def test_layouts_and_folders_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match="no layout 'miami': the layouts are asru2019, talcs, seame, ascend",
    ):
        prepare("miami", tmp_path)
    for folder, message in (
        (tmp_path / "none", "give the folder that holds"),
        (tmp_path, "it should hold"),
    ):
        with pytest.raises(
            InputError, match=f"{message} TALCS_corpus/train_set, TALCS_corpus/dev_set"
        ):
            prepare("talcs", folder)

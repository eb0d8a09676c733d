"""egs/asru2019_cs/run.sh on replicas of the challenge's corpus and of public ones, from their files to a table."""

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow
import pytest
from pyarrow.parquet import write_table
from runs import assert_nothing_is_repeated, cells_of, smoke_run, table_of

from espnet_ext.corpora.asru2019 import prepare_asru2019
from espnet_ext.synthetic.asru2019 import LIBRISPEECH, make_asru2019

run = partial(smoke_run, "asru2019_cs")
SPOKEN = ("train-cs", "dev", "test")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic") / "corpus"
    make_asru2019(str(folder), "smoke", 0, 1)
    return folder


@pytest.fixture(scope="module")
def parts(synthetic) -> dict[str, list[tuple[str, str, str, Path, float]]]:
    """The synthetic corpus: part -> utterances with their speaker, text, audio and seconds."""
    prepared = prepare_asru2019(synthetic, synthetic.parent / "data")
    return {
        part: [
            (key, data.utt2spk[key], data.text[key], Path(data.wav_scp[key]), float(data.utt2dur[key]))
            for key in data.utterances
        ]
        for part, data in prepared.items()
        if part in (*SPOKEN, "train-zh")
    }


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def challenge(root: Path, parts) -> None:
    """As its participants got it: a folder for each speaker and session in training, dev and test flat."""
    places = {
        "train-cs": "ZH+EN-200h/data/category1",
        "train-zh": "ZH-500h/data/category2",
        "dev": "ASRU-DEV/data",
        "test": "ASRU-TEST",
    }
    for part, place in places.items():
        for key, speaker, text, audio, _ in parts[part]:
            folder = root / place / (f"{speaker[-5:]}/session1" if part.startswith("train") else "")
            copy(audio, folder / f"{key}.wav")
            write(folder / f"{key}.txt", [text])


def seame(root: Path, parts, names: Sequence[str] = ("train", "dev_man", "dev_sge")) -> None:
    for part, name in zip((*SPOKEN, "dev"), names, strict=False):
        rows = parts[part]
        for key, _, _, audio, _ in rows:
            copy(audio, root / "audio" / f"{key}.wav")
        folder = root / name
        write(folder / "wav.scp", [f"rec-{key} {root}/audio/{key}.wav" for key, *_ in rows])
        write(folder / "segments", [f"{key} rec-{key} 0.0 {seconds:.2f}" for key, *_, seconds in rows])
        write(folder / "utt2spk", [f"{key} {speaker}" for key, speaker, *_ in rows])
        write(folder / "text", [f"{key} <noise> {text}" for key, _, text, *_ in rows])


def seame_of_espnet(root: Path, parts) -> None:
    seame(root, parts, ("train", "devman", "devsge", "valid"))


def ascend_of_the_hub(root: Path, parts) -> None:
    """In two Parquet files for training, and one for each of the others."""
    for part, name, number in zip(SPOKEN, ("train", "validation", "test"), (2, 1, 1), strict=True):
        rows = [
            {
                "id": f"{index:05}",
                "path": f"waves/{key}.wav",
                "audio": {"bytes": audio.read_bytes(), "path": f"{key}.wav"},
                "transcription": text,
                "original_speaker_id": index % 2,
            }
            for index, (key, _, text, audio, _) in enumerate(parts[part])
        ]
        (root / "main").mkdir(parents=True, exist_ok=True)
        for index in range(number):
            table = pyarrow.Table.from_pylist(rows[index::number])
            write_table(table, root / "main" / f"{name}-{index:05}-of-{number:05}.parquet")


def mandarin(root: Path, parts, audio_in: str, transcript: str) -> str:
    """AISHELL-1 or aidatatang_200zh: folders of speakers, and one file of transcripts."""
    for key, speaker, _, audio, _ in parts["train-zh"]:
        copy(audio, root / audio_in / speaker / f"{key}.wav")
    write(root / "transcript" / transcript, [f"{key} {' '.join(text)}" for key, _, text, _, _ in parts["train-zh"]])
    return str(root)


def aishell(folder: Path, parts) -> str:
    return mandarin(folder / "data_aishell", parts, "wav/train", "aishell_transcript_v0.8.txt")


def aidatatang(folder: Path, parts) -> str:
    return mandarin(folder / "aidatatang_200zh", parts, "corpus/train", "aidatatang_200_zh_transcript.txt")


# A layout: the value of --corpus, and the Mandarin part if the corpus has none of its own. Those in PREPARED only run
# the first stage, the only one that knows them. Other layouts are tested in tests/corpora.
CORPORA = {
    challenge: ("asru2019", None),
    seame: ("seame", aishell),
    seame_of_espnet: ("seame", aidatatang),
    ascend_of_the_hub: ("ascend", aishell),
}
PREPARED = (seame, ascend_of_the_hub)
SAID = {"seame": " (dev is dev_man, test is dev_sge)"}


@pytest.mark.parametrize("make", list(CORPORA))
def test_a_corpus_goes_from_its_files_to_a_table(make, parts, synthetic, tmp_path):
    corpus, make_mandarin = CORPORA[make]
    make(tmp_path / "corpus", parts)
    options = ["--corpus", corpus, "--asru2019", str(tmp_path / "corpus")]
    options += ["--mandarin", make_mandarin(tmp_path, parts)] if make_mandarin else []
    options += ["--librispeech", str(synthetic / LIBRISPEECH)]
    options += ["--stop_stage", "1"] if make in PREPARED else []
    wanted = ("all", "baseline,CS+CH") if make == challenge else ("1", "baseline")
    options += ["--table", wanted[0], "--rows", wanted[1]]
    run(*options, folder=tmp_path)
    if make == challenge:
        for number in range(1, 6):
            rows = cells_of("asru2019_cs", tmp_path, str(number))
            filled = {name for name, cells in rows.items() if all(cell.here for cell in cells.values())}
            assert {"baseline", "CS+CH"} & rows.keys() <= filled
        assert_nothing_is_repeated(run(*options, folder=tmp_path))
    heard = (tmp_path / "data" / "train-zh" / "text").read_text().splitlines()
    assert heard == sorted(f"{key} {text}" for key, _, text, _, _ in parts["train-zh"])
    if make in PREPARED:
        for part in ("dev", "test"):
            written = (tmp_path / "data" / part / "text").read_text().splitlines()
            assert written == sorted(f"{key} {text}" for key, _, text, _, _ in parts[part])
    if make == seame:
        trained, watched = (
            (tmp_path / "data" / name / "text").read_text().splitlines() for name in ("train-cs", "valid")
        )
        assert len(watched) == 8 and sorted(trained + watched) == sorted(
            f"{key} {text}" for key, _, text, _, _ in parts["train-cs"]
        )
    if make in PREPARED:
        return

    table = table_of("asru2019_cs", tmp_path)
    assert table.meta.corpus == f"corpus{SAID.get(corpus, '')}"
    assert {cell.paper is None for row in table.rows for cell in row.cells.values()} == {corpus != "asru2019"}
    cells = {column.name: cell.here for column, cell in table.rows[0].cells.items()}
    for part in ("dev", "test"):
        text = " ".join(text for _, _, text, _, _ in parts[part])
        assert cells[f"{part} CH"].words == len(re.findall(r"[\u4e00-\u9fff]", text))
        assert cells[f"{part} EN"].words == len(re.findall(r"[A-Za-z']+", text))
    if make == seame_of_espnet:
        assert (tmp_path / "data" / "valid" / "text").read_text() == (tmp_path / "data" / "dev" / "text").read_text()

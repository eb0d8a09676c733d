"""egs/asru2019_cs/run.sh on replicas of other corpora: the synthetic speech in their folders and formats."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from runs import smoke_run

from espnet_ext.corpora.code_switching import scan_part
from espnet_ext.corpora.faults import Faults
from espnet_ext.data.data_dir import DataDir
from espnet_ext.synthetic.asru2019 import make_asru2019

run = partial(smoke_run, "asru2019_cs")
PARTS = ("train-cs", "train-zh", "dev", "test")


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> tuple[Path, dict[str, DataDir]]:
    """The synthetic corpus, and what its parts hold."""
    root = tmp_path_factory.mktemp("speech") / "corpus"
    make_asru2019(root, "smoke")
    return root, {part: scan_part(root / part, part, Faults(root)) for part in PARTS}


def link(source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)


def lines(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def aishell(root: Path, data: DataDir) -> None:
    for key, source in data.wav_scp.items():
        link(source, root / "wav" / "train" / data.utt2spk[key] / f"{key}.wav")
    lines(root / "transcript" / "aishell_transcript_v0.8.txt", (f"{key} {text}" for key, text in data.text.items()))


def challenge(root: Path, parts: dict[str, DataDir]) -> None:
    for part, name in zip(
        PARTS, ("ZH+EN-200h/data/category1", "ZH-500h/data/category1", "ASRU-DEV/data", "ASRU-TEST"), strict=True
    ):
        for key, source in parts[part].wav_scp.items():
            flat = name.startswith("ASRU")
            folder = root / name if flat else root / name / parts[part].utt2spk[key] / "session1"
            link(source, folder / f"{key}.wav")
            lines(folder / f"{key}.txt", [parts[part].text[key]])


def talcs(root: Path, parts: dict[str, DataDir]) -> None:
    for part, name in (("train-cs", "train_set"), ("dev", "dev_set"), ("test", "test_set")):
        for key, source in parts[part].wav_scp.items():
            link(source, root / "TALCS_corpus" / name / "wav" / f"{key}.wav")
        lines(root / "TALCS_corpus" / name / "label.txt", (f"{k} {text}" for k, text in parts[part].text.items()))


def ascend(root: Path, parts: dict[str, DataDir]) -> None:
    for part, name in (("train-cs", "train"), ("dev", "validation"), ("test", "test")):
        for key, source in parts[part].wav_scp.items():
            link(source, root / "waves" / f"{key}.wav")
        rows = (f"{key},waves/{key}.wav,{parts[part].text[key]},{parts[part].utt2spk[key]}" for key in parts[part].text)
        lines(root / f"{name}_metadata.csv", ["id,path,transcription,original_speaker_id", *rows])


def seame(root: Path, parts: dict[str, DataDir]) -> None:
    """Commands in wav.scp, and segments without the first 50 ms."""
    for part, name in (("train-cs", "train"), ("dev", "dev_man"), ("test", "dev_sge")):
        data = parts[part]
        keys = sorted(data.wav_scp, key=lambda key: (data.utt2spk[key], key))
        lines(root / name / "wav.scp", (f"r{key} cat {data.wav_scp[key]} |" for key in sorted(keys)))
        lines(root / name / "segments", (f"{key} r{key} 0.05 -1" for key in sorted(keys)))
        lines(root / name / "utt2spk", (f"{key} {data.utt2spk[key]}" for key in sorted(keys)))
        lines(root / name / "text", (f"{key} {data.text[key]}" for key in sorted(keys)))


@pytest.mark.parametrize("corpus", ["asru2019", "talcs", "ascend", "seame"])
def test_a_replica_goes_through_the_stages(corpus: str, speech: tuple[Path, dict[str, DataDir]], tmp_path: Path):
    """Data dirs and tokens of each, and a table of the one with segments and commands."""
    original, parts = speech
    {"asru2019": challenge, "talcs": talcs, "ascend": ascend, "seame": seame}[corpus](tmp_path / corpus, parts)
    options = ["--corpus", corpus, "--asru2019", str(tmp_path / corpus), "--librispeech", str(original / "LibriSpeech")]
    if corpus != "asru2019":
        aishell(tmp_path / "data_aishell", parts["train-zh"])
        options += ["--mandarin", str(tmp_path / "data_aishell")]
    if corpus == "seame":
        refused = run(*options, "--stop_stage", "1", folder=tmp_path)
        assert refused.returncode == 1 and "--allow-pipes" in refused.stdout + refused.stderr
        options += ["--allow_pipes", "true", "--table", "1", "--rows", "separate"]
    else:
        options += ["--stop_stage", "3"]
    done = run(*options, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in PARTS:
        table = (tmp_path / "data" / part / "text").read_text(encoding="utf-8").splitlines()
        assert [line.split(" ", 1)[0] for line in table] == sorted(parts[part].text)
    if corpus == "seame":
        result = json.loads((tmp_path / "exp" / "results" / "table1.json").read_text())
        (row,) = (row for row in result["rows"] if row["name"] == "separate")
        assert row["cells"]["test All"]["here"]["words"] > 0
    shutil.rmtree(tmp_path / "data")

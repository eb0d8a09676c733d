"""egs/asru2019_cs/run.sh on replicas of public corpora, from their files to a table."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from runs import smoke_run

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
    manifests = prepare_asru2019(synthetic, synthetic.parent / "manifests")
    found = {}
    for part in (*SPOKEN, "train-zh"):
        audio = {item.id: Path(item.sources[0].source) for item in manifests[part]["recordings"]}
        found[part] = [
            (item.id, item.speaker, item.text, audio[item.recording_id], item.duration)
            for item in manifests[part]["supervisions"]
        ]
    return found


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def talcs(root: Path, parts) -> None:
    for part, name in zip(SPOKEN, ("train_set", "dev_set", "test_set"), strict=True):
        folder = root / "TALCS_corpus" / name
        for key, _, _, audio, _ in parts[part]:
            copy(audio, folder / "wav" / f"{key}.wav")
        write(folder / "label.txt", [f"{key} {text}" for key, _, text, _, _ in parts[part]])


def seame(root: Path, parts) -> None:
    for part, name in zip(SPOKEN, ("train", "dev_man", "dev_sge"), strict=True):
        rows = parts[part]
        for key, _, _, audio, _ in rows:
            copy(audio, root / "audio" / f"{key}.wav")
        folder = root / name
        write(folder / "wav.scp", [f"rec-{key} cat {root}/audio/{key}.wav |" for key, *_ in rows])
        write(folder / "segments", [f"{key} rec-{key} 0.0 {seconds:.2f}" for key, *_, seconds in rows])
        write(folder / "utt2spk", [f"{key} {speaker}" for key, speaker, *_ in rows])
        write(folder / "text", [f"{key} <noise> {text}" for key, _, text, *_ in rows])


def ascend(root: Path, parts) -> None:
    for part, name in zip(SPOKEN, ("train", "validation", "test"), strict=True):
        lines = ["id,path,transcription,duration,language,original_speaker_id,session_id,topic"]
        for number, (key, speaker, text, audio, seconds) in enumerate(parts[part]):
            copy(audio, root / "waves" / f"{key}.wav")
            lines.append(f'{number:05},waves/{key}.wav,"{text}",{seconds},mixed,{speaker},1,technology')
        write(root / f"{name}_metadata.csv", lines)


def aishell(root: Path, parts) -> None:
    for key, speaker, _, audio, _ in parts["train-zh"]:
        copy(audio, root / "data_aishell" / "wav" / "train" / speaker / f"{key}.wav")
    lines = [f"{key} {' '.join(text)}" for key, _, text, _, _ in parts["train-zh"]]
    write(root / "data_aishell" / "transcript" / "aishell_transcript_v0.8.txt", lines)


CORPORA = {"talcs": talcs, "seame": seame, "ascend": ascend}
SAID = {"talcs": "", "seame": " (dev is dev_man, test is dev_sge)", "ascend": " (dev is validation)"}


@pytest.mark.parametrize("corpus", list(CORPORA))
def test_a_public_corpus_goes_from_its_files_to_a_table(corpus, parts, synthetic, tmp_path):
    CORPORA[corpus](tmp_path / "corpus", parts)
    aishell(tmp_path, parts)
    options = ["--corpus", corpus, "--asru2019", str(tmp_path / "corpus"), "--mandarin", str(tmp_path / "data_aishell")]
    options += ["--librispeech", str(synthetic / LIBRISPEECH), "--allow_pipes", "true"]
    result = run(*options, "--table", "1", "--rows", "baseline", "--nj", "1", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr

    table = json.loads((tmp_path / "exp" / "results" / "table1.json").read_text())
    assert table["meta"]["corpus"] == f"corpus{SAID[corpus]}"
    cells = {column: cell["here"] for column, cell in table["rows"][0]["cells"].items()}
    for part in ("dev", "test"):
        text = " ".join(text for _, _, text, _, _ in parts[part])
        assert cells[f"{part} CH"]["words"] == len(re.findall(r"[\u4e00-\u9fff]", text))
        assert cells[f"{part} EN"]["words"] == len(re.findall(r"[A-Za-z']+", text))
    if corpus == "seame":
        trained, watched = (
            (tmp_path / "data" / name / "text").read_text().splitlines() for name in ("train-cs", "valid")
        )
        assert len(watched) == 8 and sorted(trained + watched) == sorted(
            f"{key} {text}" for key, _, text, _, _ in parts["train-cs"]
        )

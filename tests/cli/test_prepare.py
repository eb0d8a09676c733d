"""``espnet-ext data prepare`` and ``download``."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.cli import main
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for part in ("dev-clean", "test-clean"):
        folder = tmp_path / "corpus" / part / "7" / "70"
        folder.mkdir(parents=True)
        soundfile.write(folder / "7-70-0000.flac", np.zeros(16000), 16000)
        (folder / "7-70.trans.txt").write_text("7-70-0000 HELLO\n")
    return tmp_path / "corpus"


def test_chosen_parts(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    output = tmp_path / "out"
    call(["data", "prepare", "librispeech", "--corpus", str(corpus), "--output", str(output), "--parts", "test-clean"])
    assert [path.name for path in output.iterdir()] == ["test-clean"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{corpus}: checking 1 audio files in test-clean (decoding each file)"
    assert lines[1] == f"{output}/test-clean: 1 utterances, 1 speakers, 0.00 hours"


@pytest.mark.parametrize(("option", "kept"), [(["--skip-faulty"], None), (["--skip-faulty", "50"], 1)])
def test_faulty_utterances(corpus: Path, tmp_path: Path, option: list[str], kept: int | None) -> None:
    transcripts = next(corpus.glob("test-clean/**/*.trans.txt"))
    transcripts.write_text(transcripts.read_text() + "7-70-0001 NOWHERE\n")
    output = tmp_path / "out"
    command = ["data", "prepare", "librispeech", "--corpus", str(corpus), "--output", str(output), *option]
    if kept is None:
        with pytest.raises(InputError, match="50.0% of test-clean is faulty, and --skip-faulty allows 2%"):
            call(command)
    else:
        call(command)
        assert "left out: 1 of 2 in test-clean" in (output / "librispeech_faults.txt").read_text()


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = [
        "data",
        "prepare",
        "librispeech",
        "--corpus",
        str(tmp_path / "none"),
        "--output",
        str(tmp_path / "out"),
    ]
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path}/none: no such corpus folder")


def test_download_names_its_server(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no part 'dev-cleen'"):
        call(["data", "download", "librispeech", "--output", str(tmp_path), "--parts", "dev-cleen"])


@pytest.mark.parametrize("nj", ["0", "-1", "two"])
def test_number_of_jobs(corpus: Path, tmp_path: Path, nj: str) -> None:
    with pytest.raises(InputError, match="'--nj'"):
        call(["data", "prepare", "librispeech", "--corpus", str(corpus), "--output", str(tmp_path / "m"), "--nj", nj])


def test_corpora_of_one_part(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--parts: rev16 has one part"):
        call(["data", "prepare", "rev16", "--corpus", str(corpus), "--output", str(tmp_path), "--parts", "test"])

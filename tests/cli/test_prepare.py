"""``espnet-ext data prepare``."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

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


def test_chosen_parts(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output = tmp_path / "out"
    call(
        [
            "data",
            "prepare",
            "librispeech",
            "--corpus",
            str(corpus),
            "--output",
            str(output),
            "--parts",
            "test-clean",
        ]
    )
    assert [path.name for path in output.iterdir()] == ["test-clean"]
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0]
        == f"{corpus}: checking 1 audio files in test-clean (decoding each file)"
    )
    assert lines[1] == f"{output}/test-clean: 1 utterances, 1 speakers, 0.00 hours"


def test_faulty_utterances(corpus: Path, tmp_path: Path) -> None:
    transcripts = next(corpus.glob("test-clean/**/*.trans.txt"))
    transcripts.write_text(transcripts.read_text() + "7-70-0001 NOWHERE\n")
    output = tmp_path / "out"
    command = [
        "data",
        "prepare",
        "librispeech",
        "--corpus",
        str(corpus),
        "--output",
        str(output),
        "--skip-faulty",
    ]
    with pytest.raises(
        InputError, match="50.0% of test-clean is faulty, and --skip-faulty allows 2%"
    ):
        call(command)
    call([*command, "50"])
    assert (
        "left out: 1 of 2 in test-clean"
        in (output / "librispeech_faults.txt").read_text()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["prepare", "librispeech", "--corpus", "none"],
            r"none: no such corpus folder[^\n]*$",
        ),
        (["prepare", "librispeech", "--corpus", ".", "--nj", "two"], "'--nj'"),
        (
            ["prepare", "rev16", "--corpus", ".", "--parts", "test"],
            "--parts: rev16 has one part",
        ),
        (
            ["prepare", "librispeech", "--corpus", ".", "--parts", "dev-cleen"],
            "none of LibriSpeech's parts",
        ),
    ],
)
def test_bad_input(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        call(["data", *words, "--output", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()

"""``espnet-ext data synthesise``."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.synthetic import parameters as sizes

pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")

COMMAND = [sys.executable, "-m", "espnet_ext.cli", "data", "synthesise", "librispeech", "--size", "smoke"]


def test_killed_and_run_again(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "corpus"
    process = subprocess.Popen([*COMMAND, "--output", str(output)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.flac")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.rglob("*.flac"))
    assert not output.exists()
    # What the killed run left is of another size; nothing of it may come into the new corpus.
    part = sizes.PartSize(speakers=1, chapters=1, utterances=2)
    tiny = sizes.Size(dict.fromkeys(sizes.LIBRISPEECH_SIZES["smoke"].parts, part), lm_sentences=10)
    monkeypatch.setitem(sizes.LIBRISPEECH_SIZES, "smoke", tiny)
    arguments = [*COMMAND[3:], "--output", str(output)]
    call(arguments)
    assert {path.name for path in tmp_path.iterdir()} <= {"corpus", ".corpus.lock"}
    assert len(list(output.glob("*/*/*/*.flac"))) == len(list(output.rglob("*.flac"))) == 10
    call(arguments)
    assert capsys.readouterr().out.splitlines() == [
        f"{output}: made (librispeech, size smoke)",
        f"{output}: already there, left as it is (librispeech, size smoke)",
    ]


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("all of it")
    done = subprocess.run([*COMMAND, "--output", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {tmp_path} is not empty and not a synthetic corpus: choose another output or empty it\n"
    )

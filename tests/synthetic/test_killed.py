"""A synthetic corpus that is killed while it is made, and made again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espnet_ext.synthetic import parameters as sizes
from espnet_ext.synthetic.librispeech import make_librispeech

pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")

MAKE = (
    "import sys; from espnet_ext.synthetic.librispeech import make_librispeech; "
    "make_librispeech(sys.argv[1], 'smoke')"
)


def test_killed_and_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "corpus"
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(output)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.flac")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.rglob("*.flac"))
    assert not output.exists()
    # What the killed run left is of another size; nothing of it may come into the new
    # corpus.
    part = sizes.PartSize(speakers=1, chapters=1, utterances=2)
    tiny = sizes.Size(
        dict.fromkeys(sizes.LIBRISPEECH_SIZES["smoke"].parts, part), lm_sentences=10
    )
    monkeypatch.setitem(sizes.LIBRISPEECH_SIZES, "smoke", tiny)
    assert make_librispeech(output, "smoke")
    assert {path.name for path in tmp_path.iterdir()} <= {"corpus", ".corpus.lock"}
    assert (
        len(list(output.glob("*/*/*/*.flac")))
        == len(list(output.rglob("*.flac")))
        == 10
    )
    assert not make_librispeech(output, "smoke")

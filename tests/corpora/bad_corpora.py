"""How corpora are damaged, and how they are refused."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError


def write_noise(
    path: Path, seconds: float = 0.3, rate: int = 16000, channels: int = 1
) -> str:
    """A file of noise; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (int(rate * seconds), channels))
    form = "WAV" if not seconds else {".sph": "NIST"}.get(path.suffix)
    soundfile.write(path, noise, rate, format=form)
    return str(path)


def refused_by(prepare: Callable) -> Callable[..., None]:
    """A check that ``prepare`` refuses a corpus in one line that has the patterns, and
    writes no data dir.
    """

    def refused(corpus: Path, *patterns: str, **options) -> None:
        output = corpus.parent / "out"
        with pytest.raises(InputError) as error:
            prepare(corpus, output, **options)
        message = str(error.value)
        assert "\n" not in message
        for pattern in patterns:
            assert re.search(pattern, message), message
        assert not list(output.glob("*/text"))

    return refused


DAMAGES = {
    "zero bytes": (
        lambda path: path.write_bytes(b""),
        "empty audio file .0 bytes. for",
    ),
    "garbage": (
        lambda path: path.write_bytes(b"no sound at all" * 99),
        "corrupt audio .* of",
    ),
    "sampling rate": (
        lambda path: write_noise(path, rate=8000),
        "sampling rate 8000 Hz, not 16000 Hz, of",
    ),
    "stereo": (
        lambda path: write_noise(path, channels=2),
        "2 channels instead of one in the audio of",
    ),
    "zero frames": (
        lambda path: write_noise(path, seconds=0),
        "no samples in the audio of",
    ),
}
each_damage = pytest.mark.parametrize(
    ("damage", "pattern"), DAMAGES.values(), ids=DAMAGES
)

"""A recording of three seconds of noise."""

from pathlib import Path

import numpy as np
import pytest
import soundfile


@pytest.fixture
def audio(tmp_path) -> Path:
    path = tmp_path / "my talk.flac"
    soundfile.write(
        path,
        np.random.default_rng(0).normal(scale=0.05, size=48000).astype(np.float32),
        16000,
    )
    return path

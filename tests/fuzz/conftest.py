"""Where the fuzz tests put their files."""

import os
import tempfile
from pathlib import Path

import pytest

# Linux's disk in memory: 100,000 small files a test, each to be on the disk before the
# next
MEMORY = "/dev/shm"


@pytest.fixture(scope="module")
def scratch():
    """A folder in memory, where there is such a disk."""
    with tempfile.TemporaryDirectory(
        dir=MEMORY if os.access(MEMORY, os.W_OK) else None
    ) as folder:
        yield Path(folder)

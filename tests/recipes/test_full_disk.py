"""Every recipe on a disk that is full in each stage: a clear message, no corrupt file,
and it resumes with room.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import RECIPES, Run, stages

pytestmark = pytest.mark.disk
ROOMS = (0, 40_000, 1_000_000)  # bytes that are left at the beginning of a stage
FULL = re.compile(r"error: .*[Nn]o space left on device|the disk .* is full")


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A disk of 2 GB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(folder)]
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a small disk")
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(ballast: Path, room: int) -> None:
    """Leave ``room`` bytes of the disk."""
    free = os.statvfs(ballast.parent)
    with open(ballast, "wb") as file:
        os.posix_fallocate(
            file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - room)
        )


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_full_disk_in_each_stage(recipe, disk, tmp_path):
    whole, tried = Run(recipe, tmp_path / "whole"), Run(recipe, disk)
    whole.finish()
    failures = 0
    for stage in stages(recipe):
        only = ("--stage", str(stage), "--stop_stage", str(stage))
        for room in ROOMS:
            fill(disk / "ballast", room)
            output, status = tried.attempt(*only)
            (disk / "ballast").unlink()
            if status:
                failures += 1
                assert status == 1, output
                assert FULL.search(output), (
                    f"stage {stage} with {room} bytes:\n{output}"
                )
        tried.finish(*only)
    assert failures >= 2 * len(ROOMS)
    assert tried.results() == whole.results()

"""Files that are written whole, scratch folders of killed runs, and folders that cannot
be read.
"""

import errno
import os
import subprocess
import sys

import pytest

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write, list_files_below, open_scratch_folder


def test_a_full_disk_is_named_by_the_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OSError, match="No space left") as raised,
        atomic_write(tmp_path / "score.json") as file,
    ):
        file.write("x")
    assert raised.value.filename == str(tmp_path / "score.json") and not list(
        tmp_path.iterdir()
    )


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path):
    output = tmp_path / "model[1].zip"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom espnet_ext.work.files "
        "import open_scratch_folder\n"
        "with open_scratch_folder(Path(sys.argv[1])) as folder:\n print(folder, "
        "flush=True)\n time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(output)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        left = other.stdout.readline().strip()
        with open_scratch_folder(output) as own:
            assert own.is_dir() and os.path.isdir(left), "its process lives"
        other.kill()
    (tmp_path / ".model[1].zip.backup").mkdir()
    with open_scratch_folder(output) as own:
        assert own.is_dir() and not os.path.exists(left)
    assert [path.name for path in tmp_path.iterdir()] == [".model[1].zip.backup"]


def test_a_folder_that_cannot_be_read_is_no_empty_folder(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(
        InputError, match=r"closed: cannot be read \(Permission denied\)"
    ):
        list(list_files_below(tmp_path))

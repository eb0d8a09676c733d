"""Files that are written completely or not at all."""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write


def test_a_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}: is a folder: name a file"), atomic_write(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []

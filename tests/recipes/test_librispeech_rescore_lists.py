"""The N-best lists that egs/librispeech_rescore/lists keeps: what their card says, and
the rates of the kept table.
"""

import gzip
import hashlib
import re
from pathlib import Path

import pytest

from espnet_ext.nbest.oracle import count_oracle_errors
from espnet_ext.tables.publish import read_results
from espnet_ext.text.nbest import read_nbest

RECIPE = Path(__file__).parents[2] / "egs" / "librispeech_rescore"
FOLDERS = sorted(path.parent for path in RECIPE.glob("lists/*/README.md"))
ROW = re.compile(r"\| (\S+\.jsonl) \| (\d+) \| `([0-9a-f]{64})` \|")


def test_there_are_some():
    assert [folder.name for folder in FOLDERS] == ["mini"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_card_fits_the_lists(folder):
    rows = ROW.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert {f"{name}.gz" for name, _, _ in rows} == {
        path.name for path in folder.glob("*.gz")
    }
    for name, number, checksum in rows:
        text = gzip.decompress((folder / f"{name}.gz").read_bytes())
        assert hashlib.sha256(text).hexdigest() == checksum
        assert len(read_nbest(folder / f"{name}.gz")) == int(number)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("part", ["test-clean", "test-other"])
def test_the_kept_table_was_made_of_these_lists(folder, part):
    (table,) = read_results(RECIPE / "results" / f"{folder.name}-synthetic", RECIPE)
    lists = read_nbest(folder / f"{part}.jsonl.gz")
    first, *_, best = count_oracle_errors(lists)
    for row, errors in (("first pass", first), ("10-best oracle", best)):
        shown = next(each for each in table.rows if each.name == row)
        here = next(
            cell.here for column, cell in shown.cells.items() if column.name == part
        )
        assert errors * len(shown.seeds) == here.errors

"""The value of --skip-faulty."""

import pytest

from espnet_ext.corpora.faults import Faults, skip_share
from espnet_ext.errors import InputError


@pytest.mark.parametrize(("value", "share"), [("false", 0.0), ("", 0.0), ("true", 0.02), ("5", 0.05), ("0.5", 0.005)])
def test_values(value: str, share: float) -> None:
    assert skip_share(value) == pytest.approx(share)


@pytest.mark.parametrize("value", ["yes", "-1", "51", "nan", "5%"])
def test_wrong_values(value: str) -> None:
    with pytest.raises(InputError, match="--skip-faulty takes true, false, or a percentage"):
        skip_share(value)


def test_exactly_the_share_may_be_left_out_and_no_part_may_become_empty() -> None:
    faults = Faults("corpus", skip=0.25)
    faults.add("dev", "a", "a is cut")
    faults.add("dev", "a", "and has no text")
    faults.settle({"dev": 3})
    with pytest.raises(InputError, match="corpus: 33.3% of dev is faulty, and --skip-faulty allows 25%: a is cut: fix"):
        faults.settle({"dev": 2})
    with pytest.raises(InputError, match="100.0% of dev"):
        faults.settle({"train": 5})

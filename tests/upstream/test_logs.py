import logging

import pytest

from espnet_ext.upstream.logs import without_warnings


def test_warnings_come_back_whatever_happens(caplog):
    with pytest.raises(ValueError), without_warnings():
        logging.warning("unheard")
        logging.error("heard")
        raise ValueError
    logging.warning("heard again")
    assert [record.message for record in caplog.records] == ["heard", "heard again"]

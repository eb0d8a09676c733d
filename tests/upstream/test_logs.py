import logging

import pytest

from espnet_ext.upstream.logs import (
    escape_logged_controls,
    suppress_message,
    suppress_warnings,
)


def test_warnings_come_back_whatever_happens(caplog):
    with pytest.raises(ValueError), suppress_warnings():
        logging.warning("unheard")
        logging.error("heard")
        raise ValueError
    logging.warning("heard again")
    assert [record.message for record in caplog.records] == ["heard", "heard again"]


def test_one_message_of_one_logger_is_left_out(caplog):
    logger = logging.getLogger("some.module")
    with suppress_message("fall back", "some.module"):
        logger.warning("we fall back to it")
        logger.warning("something else")
        logging.warning("others fall back")
    logger.warning("we fall back again")
    said = [record.message for record in caplog.records]
    assert said == ["something else", "others fall back", "we fall back again"]


def test_what_a_terminal_would_obey_is_escaped(caplog):
    make = logging.getLogRecordFactory()
    try:
        escape_logged_controls()
        escape_logged_controls()
        logging.getLogger("any").warning("init=%s\nnext", "\x1b]0;x\x07\u202e")
        logging.warning("%d wrong")
    finally:
        logging.setLogRecordFactory(make)
    assert [record.getMessage() for record in caplog.records] == [
        "init=\\x1b]0;x\\x07\\u202e\nnext",
        "%d wrong",
    ]

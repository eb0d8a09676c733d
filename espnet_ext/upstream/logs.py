"""Filters for ESPnet's log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from espnet_ext.errors import escape_controls

# ESPnet's RNN attention logs this, spelt so, at each decoder step of each batch. It
# concerns only tracing.
REPEATED = ("Using make_pad_mask with a list of lengths is not tracable",)


def drop_repeated_warnings() -> None:
    """Drop the warnings in ``REPEATED`` from the root logger.

    Calling it again changes nothing.
    """
    logging.getLogger().addFilter(_is_not_repeated)


def escape_logged_controls() -> None:
    """Escape what a terminal would obey in all that is logged in this process.

    ESPnet logs values of configs, which come from anybody. Calling it again changes
    nothing.
    """
    # The factory makes the records of all loggers; a filter would see only those of the
    # logger that it is added to.
    make_record = logging.getLogRecordFactory()
    if getattr(make_record, "escapes", False):
        return

    def make_escaped(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = make_record(*arguments, **named)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # which logging itself reports, with the place
            return record
        record.msg = escape_controls(text)
        record.args = None  # they are in the text already
        return record

    setattr(make_escaped, "escapes", True)  # noqa: B010 - mypy knows no such attributes
    logging.setLogRecordFactory(make_escaped)


@contextmanager
def suppress_message(part: str, logger: str) -> Iterator[None]:
    """In this block, leave out log records of ``logger`` that contain ``part``."""
    target = logging.getLogger(logger)

    def is_other(record: logging.LogRecord) -> bool:
        return part not in str(record.msg)

    target.addFilter(is_other)
    try:
        yield
    finally:
        target.removeFilter(is_other)


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Log only errors: for commands that build a model just to look at it."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _is_not_repeated(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(REPEATED)

"""What of ESPnet's logging is kept out of the logs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# ESPnet's RNN attention says this for each decoder step of each batch; it concerns tracing only.
REPEATED = ("Using make_pad_mask with a list of lengths is not tracable",)


def drop_repeated_warnings() -> None:
    """Drop the warnings in ``REPEATED`` from the root logger. Calling it again changes nothing."""
    logging.getLogger().addFilter(_is_news)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Log nothing up to warnings meanwhile: for commands that build models only to look at them."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(REPEATED)

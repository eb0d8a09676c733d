"""A beam that a small vocabulary has room for."""

import logging
from typing import Any

from espnet2.legacy.nets.beam_search import BeamSearch


def fit_beam(search: Any) -> None:
    """Make the beam of a search less than its tokens, and say so in the log.

    ``search``: one that ESPnet has built, or none. ESPnet's default is 20. The first
    step of a search has as many hypotheses as tokens: with a wider beam it fails, and
    with one that is as wide it keeps the blank, whose score of -1e10 leaves no digit
    for those that follow it.
    """
    if isinstance(search, BeamSearch) and search.beam_size >= search.n_vocab:
        logging.warning(
            "a beam of %d for a model of %d tokens: %d is used",
            search.beam_size,
            search.n_vocab,
            search.n_vocab - 1,
        )
        search.beam_size = search.n_vocab - 1

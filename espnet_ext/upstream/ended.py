"""Finished hypotheses of a beam search let go of their scorers' states."""

from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch, Hypothesis


def forget_ended(search: BeamSearch) -> None:
    """Make a batched search drop the states of a hypothesis when it ends, since nothing scores it again.

    ESPnet copies the tensors in them, so that memory shared with other hypotheses can be freed. A state that refers to
    shared memory in another way, as those of ``language_transformer``, would keep all of it until the search ends.
    """
    if isinstance(search, BatchBeamSearch):
        release = search._release
        search._release = lambda hypothesis: release(_without_states(hypothesis))


def _without_states(hypothesis: Hypothesis) -> Hypothesis:
    return hypothesis._replace(states=dict.fromkeys(hypothesis.states))

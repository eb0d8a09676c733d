"""Make and read N-best lists of ESPnet3's stage ``infer``.

Its inference config names the function that makes them::

    model: {_target_: espnet2.bin.asr_inference.Speech2Text, nbest: 10, ...}
    runner: {_target_: espnet3.systems.base.inference_runner.InferenceRunner}
    output_fn: espnet_ext.nbest.espnet3.outputs
    contract:  # none, since ESPnet3 takes either that or an output_fn

Each test set then has ``hyp.scp`` with the best texts, ``ref.scp``, and ``nbest.scp``:
an id and a list in JSON a line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_text_lines
from espnet_ext.text.nbest import Hypothesis, NBest, join_lines, parse_lists

LISTS = "nbest.scp"


def outputs(data: Any, model_output: Any, idx: Any) -> Any:
    """Return what ESPnet3 writes of an utterance.

    That is ``utt_id``, ``hyp``, ``nbest``, and ``ref`` if the data has ``text``.
    ``data`` is an item of the test set, ``model_output`` what ``Speech2Text`` gives for
    it, ``idx`` its number, which names an item without ``utt_id``; or each is a list,
    of a batch. An utterance that is too short for the encoder has one empty hypothesis.
    Raises InputError: the model has no tokenizer, so there is no text.
    """
    if isinstance(idx, list | tuple):
        return [outputs(*each) for each in zip(data, model_output, idx, strict=True)]
    utterance = str(data.get("utt_id", idx))
    text = data.get("text")
    ref = join_lines(text) if isinstance(text, str) else None
    hyps = [_make_hypothesis(utterance, item) for item in model_output]
    # Too short for the encoder: nothing was recognised, and a list may not be empty.
    hyps = hyps or [Hypothesis("", 0.0)]
    nbest = NBest(utterance, tuple(hyps), ref)
    # ESPnet3 writes values of an SCP as they are, one line each: so JSON in one line.
    line = json.dumps(asdict(nbest), ensure_ascii=False, allow_nan=False)
    found = {"utt_id": utterance, "hyp": hyps[0].text, "nbest": line}
    return found if ref is None else found | {"ref": ref}


def _make_hypothesis(utterance: str, item: Sequence[Any]) -> Hypothesis:
    # (text, tokens, ids, hypothesis) of Speech2Text, whose last holds the scores.
    text = item[0]
    hyp = item[-1]
    if text is None:
        raise InputError(
            f"{utterance}: the model has no tokenizer, so there is no text: its "
            "config needs token_type"
        )
    scores: Mapping[str, Any] = getattr(hyp, "scores", None) or {}
    parts = {name: float(value) for name, value in scores.items()}
    return Hypothesis(join_lines(text), float(hyp.score), parts)


def read_espnet3(path: Path) -> list[NBest]:
    """Read the lists of a test set, from its folder or its ``nbest.scp``."""
    path = path / LISTS if path.is_dir() else path
    # The id before the blank is in the JSON, too.
    records = (line.partition(" ")[2] for line in read_text_lines(path))
    return parse_lists(records, path)


def is_espnet3(path: Path) -> bool:
    """Tell whether a path is, or holds, the lists of a test set."""
    return (path / LISTS).is_file() if path.is_dir() else path.name == LISTS

"""Which utterances an epoch of P2's reference [17] (Zeyer et al. 2018) is trained on.

Early epochs see short utterances of clean parts. A selection is a shape file of
ESPnet's with fewer lines.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.work.files import write_json


@dataclass(frozen=True)
class Selection:
    """Say what a training sees of the training set.

    ``max_tokens``: longest transcript; ``mean_chars``: the shortest utterances, as many
    as have transcripts of this mean length; ``parts`` of the corpus, by the endings
    that combining them gave to the ids. None or empty: all.
    """

    max_tokens: int | None = None
    mean_chars: float | None = None
    parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For file names, such as ``tokens60_mean75``; empty if it takes all."""
        values = (
            ("tokens", self.max_tokens),
            ("mean", self.mean_chars),
            # All selections of a run have the same parts or none, so that their number
            # tells these apart.
            ("parts", len(self.parts) or None),
        )
        return "_".join(
            f"{name}{value:g}" for name, value in values if value is not None
        )


def select_utterances(
    tokens: Mapping[str, int],
    characters: Mapping[str, int],
    selection: Selection,
) -> list[str]:
    """Return the ids of a selection, in the order of ``tokens``.

    ``tokens`` and ``characters``: lengths of transcripts.

    >>> tokens = {"a": 9, "b": 3, "c": 2, "d": 5}
    >>> characters = {"a": 40, "b": 10, "c": 8, "d": 18}
    >>> select_utterances(tokens, characters, Selection(max_tokens=8, mean_chars=12))
    ['b', 'c', 'd']
    """
    limit = float("inf") if selection.max_tokens is None else selection.max_tokens
    # Combining data dirs appends the name of the part. Every id ends with "".
    endings = tuple(f"-{part}" for part in selection.parts) or ("",)
    kept = []
    for key, length in tokens.items():
        if length <= limit and key.endswith(endings):
            kept.append(key)
    if selection.mean_chars is None:
        return kept
    # From the shortest on, until their mean length is reached: it never falls again,
    # since lengths only rise. Ids break ties, so that a table in another order gives
    # the same selection.
    shortest = set()
    total = 0
    by_length = sorted(kept, key=lambda key: (characters[key], key))
    for number, key in enumerate(by_length, start=1):
        total += characters[key]
        if total > selection.mean_chars * number:
            break
        shortest.add(key)
    return [key for key in kept if key in shortest]


def write_selection(
    text: Path,
    stats: str,
    token_type: str,
    selection: Selection,
    output: str,
) -> None:
    """Write the shape file of a selection, and ``<output>.json`` beside it.

    The second has the selection's share of the audio. ``stats`` has ``speech_shape``
    and ``text_shape.<token type>``. Raises InputError if no utterance is left, or if
    the shapes are not of ``text``, the transcripts of the training set.
    """
    speech = read_table(Path(stats) / "speech_shape")
    tokens = _read_lengths(read_table(Path(stats) / f"text_shape.{token_type}"))
    characters = {key: len(value) for key, value in read_table(text).items()}
    if not speech.keys() == tokens.keys() <= characters.keys():
        raise InputError(
            f"{stats}: its shapes are not of {text}: remove the folder, and run "
            "stage statistics again"
        )
    kept = select_utterances(tokens, characters, selection)
    if not kept:
        raise InputError(
            f"{text}: no utterance is short enough for {selection}: change the "
            "pre-training's settings"
        )
    # Of the audio and not of the utterances, as updates are: the short ones that a
    # curriculum begins with hold less than their number says.
    samples = _read_lengths(speech)
    share = sum(samples[key] for key in kept) / sum(samples.values())
    write_table(output, {key: speech[key] for key in kept})
    write_json(
        f"{output}.json",
        {"utterances": len(kept), "of": len(speech), "audio_share": share},
    )
    say(
        f"{len(kept):,} of {len(speech):,} utterances, {share:.1%} of the audio "
        f"-> {output}"
    )


def read_audio_share(shapes: Path) -> float:
    """Return the share of the audio that a selection's shape file holds."""
    return float(
        json.loads(Path(f"{shapes}.json").read_text(encoding="utf-8"))["audio_share"]
    )


def _read_lengths(table: Mapping[str, str]) -> dict[str, int]:
    # ESPnet's shapes are ``length`` or ``length,dimension``.
    return {key: int(value.partition(",")[0]) for key, value in table.items()}

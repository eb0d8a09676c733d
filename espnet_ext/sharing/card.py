"""The model card, README.md of a packed model: what the model is, its rows of the tables, and how to load it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import yaml

LOAD = """```
pip install espnet_ext    # from its repository; the model has modules of this package
```

```python
import espnet_ext

recogniser = espnet_ext.load("{name}")
text = recogniser(speech)[0][0]    # speech: 16 kHz samples, (samples,)
```

`espnet-ext transcribe --model {name} FILE...` writes text, subtitles and word times."""
TASK_NAMES = {
    "asr": "Speech recognition",
    "sa_asr": "Speech recognition with the speaker of each word",
    "long": "Speech recognition of long recordings",
    "mt": "Merging the hypotheses of overlapping windows into one",
}
SLOTS = ("frontend", "specaug", "normalize", "preencoder", "encoder", "speaker_encoder", "decoder", "model")


@dataclass(frozen=True)
class Card:
    """What a card says that the model's files do not.

    Attributes:
        corpus: what the model was trained on.
        paper: the citation of its recipe's paper.
        how: recipe, system, seed and scale, in a sentence.
        results: lines of a Markdown table with the model's rows of the tables.
        licence: of the weights, as the hub names it; "" if its author did not say.
        language: codes such as ``en``.
    """

    corpus: str = ""
    paper: str = ""
    how: str = ""
    results: Sequence[str] = ()
    licence: str = ""
    language: Sequence[str] = ()


def write_card(card: Card, name: str, task: str, config: Mapping[str, Any], search: Mapping[str, Any]) -> str:
    """Return the card as Markdown, with the header that hubs read.

    Args:
        task: one of :data:`espnet_ext.sharing.model_files.TASKS`.
        config: of the training.
        search: options of the search.
    """
    header: dict[str, Any] = {
        "library_name": "espnet",
        "tags": ["espnet", "audio", "automatic-speech-recognition", "espnet_ext"],
        **({"license": card.licence} if card.licence else {}),
        **({"language": list(card.language)} if card.language else {}),
    }
    espnet = 'S. Watanabe et al., "ESPnet: End-to-end speech processing toolkit", Interspeech 2018.'
    sections = {
        "Load it": LOAD.format(name=name),
        "Results": "\n".join(card.results) or "None were packed.",
        "Model": _bullets({slot: config[slot] for slot in SLOTS if config.get(slot)}),
        "Search": _bullets(search) or "Its defaults are those of ESPnet.",
        "Made with": _bullets({package: version(package) for package in ("espnet_ext", "espnet", "torch")}),
        "Licence": f"{card.licence or 'Not said by its author: ask before you use the weights'}. The corpus of its "
        "training has a licence of its own.",
        "Citation": "\n\n".join(filter(None, [card.paper, espnet])),
    }
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n",
        f"# {name}\n\n{TASK_NAMES[task]}. {card.how}\n",
        f"Trained on: {card.corpus or 'not said'}.\n",
        *(f"## {title}\n\n{text}\n" for title, text in sections.items()),
    ]
    return "\n".join(parts)


def _bullets(values: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: `{value}`" for name, value in values.items())

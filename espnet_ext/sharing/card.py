"""The model card, README.md of a packed model: what the model is, its row of the table, and how to load it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from espnet_ext.tables.pages.render import markdown_table
from espnet_ext.tables.plans.schema import Paper

LOAD = """```
pip install espnet_ext    # from its repository; the model has modules of this package
```

```python
import espnet_ext

recogniser = espnet_ext.load("{name}")
text = recogniser(speech)[0][0]    # speech: 16 kHz samples, (samples,)
```

`espnet-ext transcribe --model {name} FILE...` writes text, subtitles and word times.
"""
TASK_NAMES = {
    "asr": "Speech recognition",
    "sa_asr": "Speech recognition with the speaker of each word",
    "long": "Speech recognition of long recordings",
    "s2t_ctc": "Speech recognition and translation by CTC, told the language and the task",
    "mt": "Merging the hypotheses of overlapping windows into one",
}


@dataclass(frozen=True)
class Card:
    """What a card says.

    Attributes:
        name: the model's name.
        task: one of :data:`espnet_ext.sharing.files.TASKS`.
        results: tables that hold only the rows of this model.
        corpus: what it was trained on.
        paper: the paper of its recipe.
        how: recipe, system, seed and scale, in a sentence.
        modules: its modules, by slot.
        search: options of the search.
        versions: of the packages that it was packed with.
        licence: of the weights, as the hub names it; "" if its author did not say.
        language: codes such as ``en``.
    """

    name: str
    task: str
    results: Sequence[Mapping[str, Any]]
    corpus: str
    paper: Paper | None
    how: str
    modules: Mapping[str, str]
    search: Mapping[str, Any]
    versions: Mapping[str, str | None]
    licence: str
    language: Sequence[str]


def write_card(card: Card) -> str:
    """The card as Markdown, with the header that hubs read."""
    header: dict[str, Any] = {
        "library_name": "espnet",
        "tags": ["espnet", "audio", "automatic-speech-recognition", "espnet_ext"],
        **({"license": card.licence} if card.licence else {}),
        **({"language": list(card.language)} if card.language else {}),
    }
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n",
        f"# {card.name}\n\n{TASK_NAMES[card.task]}. {card.how}\n",
        f"Trained on: {card.corpus or 'not said'}.\n",
        f"## Load it\n\n{LOAD.format(name=card.name)}",
        f"## Results\n\n{_results(card.results)}",
        f"## Model\n\n{_bullets(card.modules)}\n",
        f"## Search\n\n{_bullets(card.search) or 'Its defaults are those of ESPnet.'}\n",
        f"## Made with\n\n{_bullets({k: v for k, v in card.versions.items() if v})}\n",
        f"## Licence\n\n{card.licence or 'Not said by its author: ask before you use the weights'}. The corpus that it "
        "was trained on has a licence of its own.\n",
        f"## Citation\n\n{_citation(card.paper)}\n",
    ]
    return "\n".join(parts)


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "None were packed.\n"
    return "\n".join(markdown_table({**result, "claims": []}, heading="###") for result in results)


def _bullets(values: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: `{value}`" for name, value in values.items())


def _citation(paper: Paper | None) -> str:
    espnet = 'S. Watanabe et al., "ESPnet: End-to-end speech processing toolkit", Interspeech 2018.'
    own = [f'{paper.authors}, "{paper.title}", {paper.year}.'] if paper else []
    return "\n\n".join([*own, espnet])

"""The model card, README.md of a packed model: what it is, and how to load it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import yaml

from espnet_ext.scoring.score_files import describe_interval

LOAD = """```
pip install espnet_ext    # from its repository; the model has modules of this package
```

```python
import espnet_ext

recogniser = espnet_ext.load("{name}")
text = recogniser(speech)[0][0]    # speech: 16 kHz samples, (samples,)
```

`espnet-ext transcribe --model {name} FILE...` writes text, subtitles and word times."""
PIPELINE = "automatic-speech-recognition"  # as hubs name the task
SPEECH_TASKS = ("asr", "sa_asr", "long")
TASK_NAMES = {
    "asr": "Speech recognition",
    "sa_asr": "Speech recognition with the speaker of each word",
    "long": "Speech recognition of long recordings",
    "mt": "Merging the hypotheses of overlapping windows into one",
}
ESPNET = (
    'S. Watanabe et al., "ESPnet: End-to-end speech processing toolkit", '
    "Interspeech 2018."
)
RATES = {"word": "wer", "char": "cer", "mixed": "mer"}  # unit of a score -> metric
SLOTS = (
    "frontend",
    "specaug",
    "normalize",
    "preencoder",
    "encoder",
    "speaker_encoder",
    "decoder",
    "model",
)


@dataclass(frozen=True)
class Card:
    """What a card says that the model's files do not.

    ``how`` is a sentence with recipe, system, seed and scale; ``results`` has the
    ``score.json`` of each test set, and ``decoding`` a sentence on how they were
    decoded; ``dataset`` is the corpus as the hub names it, "" if it is not there, such
    as a synthetic one; ``licence`` is that of the weights, as the hub names it, "" if
    its author did not say; ``language`` are codes such as ``en``.
    """

    corpus: str = ""
    paper: str = ""
    how: str = ""
    decoding: str = ""
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dataset: str = ""
    licence: str = ""
    language: Sequence[str] = ()


def write_card(
    card: Card,
    name: str,
    task: str,
    config: Mapping[str, Any],
    search: Mapping[str, Any],
) -> str:
    """Return the card as Markdown, with the header that hubs read.

    ``config`` is that of the training, ``search`` the options of the search.
    """
    lists = {
        "Model": {slot: config[slot] for slot in SLOTS if config.get(slot)},
        "Search": search or {"options": "ESPnet's defaults"},
        "Made with": {
            package: version(package) for package in ("espnet_ext", "espnet", "torch")
        },
    }
    results = "None were packed."
    if card.results:
        results = f"{card.decoding}\n\n{format_results(card.results)}".strip()
    sections = {"Load it": LOAD.format(name=name), "Results": results}
    for title, values in lists.items():
        lines = [f"- {key}: `{value}`" for key, value in values.items()]
        sections[title] = "\n".join(lines)
    licence = card.licence or "Not said by its author: ask before you use the weights"
    sections["Licence"] = (
        f"{licence}. The corpus of its training has a licence of its own."
    )
    sections["Citation"] = "\n\n".join(filter(None, [card.paper, ESPNET]))
    header = yaml.safe_dump(_make_header(card, name, task), sort_keys=False)
    return "\n".join(
        [
            f"---\n{header}---\n",
            f"# {name}\n\n{TASK_NAMES[task]}. {card.how}\n",
            f"Trained on: {card.corpus or 'not said'}.\n",
            *(f"## {title}\n\n{text}\n" for title, text in sections.items()),
        ]
    )


def _make_header(card: Card, name: str, task: str) -> dict[str, Any]:
    """Return what a hub reads of a card, without what is not known."""
    header: dict[str, Any] = {"library_name": "espnet"}
    if task in SPEECH_TASKS:
        header["pipeline_tag"] = PIPELINE
    header["tags"] = ["espnet", "audio", PIPELINE, "espnet_ext"]
    if card.licence:
        header["license"] = card.licence
    if card.language:
        header["language"] = list(card.language)
    if card.dataset:
        header["datasets"] = [card.dataset]
    # A hub asks for the id of the data set of each result.
    if card.results and card.dataset:
        header["model-index"] = [{"name": name, "results": list_metrics(card)}]
    return header


def list_metrics(card: Card) -> list[dict[str, Any]]:
    """Return the error rates as a hub reads them (``model-index``)."""
    return [
        {
            "task": {"type": PIPELINE},
            "dataset": {
                "name": f"{card.corpus}, {part}",
                "type": card.dataset,
                "split": part,
            },
            "metrics": [
                {
                    "type": RATES.get(score.get("unit", ""), "wer"),
                    "value": score["value"],
                }
            ],
        }
        for part, score in card.results.items()
    ]


def format_results(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the error rates as a Markdown table."""
    lines = [
        f"| {part} | {score['value']:.2f} | {describe_interval(score)} |"
        for part, score in results.items()
    ]
    return "\n".join(
        ["| test set | error rate (%) | interval |", "|---|---|---|", *lines]
    )

"""The card beside published N-best lists: licence, command, model and checksums, as the Hugging Face Hub reads it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from espnet_ext.work.files import atomic_write
from espnet_ext.work.provenance import hardware, versions

CARD = "README.md"
LICENCES = {"LibriSpeech": "cc-by-4.0", "synthetic": "cc0-1.0"}  # of the transcripts in the lists


def write_card(folder: Path, lists: Sequence[Path], corpus: str, command: str, made: Mapping[str, Any]) -> Path:
    """Write ``README.md`` into a folder of lists.

    Args:
        folder: of the card.
        lists: JSONL files in it.
        corpus: a key of ``LICENCES``; another one has no licence here, and the card says so.
        command: that made the lists.
        made: the first pass's settings.
    """
    head = {"license": LICENCES.get(corpus, "unknown"), "language": ["en"], "task_categories": ["text-ranking"]}
    rows = [f"| {path.name} | {_lines(path)} | `{hashlib.sha256(path.read_bytes()).hexdigest()}` |" for path in lists]
    text = [
        "---",
        yaml.safe_dump(head, sort_keys=False).strip(),
        "---",
        f"# N-best lists of {corpus}",
        "",
        'One utterance per line: `{"utt_id", "ref", "hyps": [{"text", "score", "scores"}]}`, best hypothesis first.',
        "Scores are natural logarithms of probabilities. Hypotheses and references went through the same rules",
        "(`librispeech` of espnet_ext).",
        "",
        f"Made by `{command}` with",
        "",
        "```",
        yaml.safe_dump(dict(made), sort_keys=False).strip(),
        "```",
        "",
        f"on {hardware()['cpu']}; " + ", ".join(f"{name} {version}" for name, version in versions().items() if version),
        "",
        "| file | lists | SHA-256 |",
        "|---|---|---|",
        *rows,
        "",
    ]
    with atomic_write(folder / CARD) as file:
        file.write("\n".join(text))
    return folder / CARD


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")

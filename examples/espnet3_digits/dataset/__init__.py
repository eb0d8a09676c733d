"""The digits of ``examples/digits``, in LibriSpeech's layout: nothing is to prepare."""

from pathlib import Path
from typing import Any

import soundfile
from espnet3.components.data.dataset_builder import DatasetBuilder as Builder

try:
    from espnet3.components.data.base_dataset import BaseDataset
    from espnet3.contract import Field
except ImportError:  # ESPnet 202610, where datasets declare no fields
    from torch.utils.data import Dataset as BaseDataset

    Field = dict


def read_transcripts(corpus: str, split: str) -> dict[Path, str]:
    """Read the transcript of each FLAC file of a split."""
    texts = {}
    for file in sorted(Path(corpus, split).rglob("*.trans.txt")):
        for line in file.read_text().splitlines():
            utterance, text = line.split(maxsplit=1)
            texts[file.with_name(f"{utterance}.flac")] = text
    return texts


class Dataset(BaseDataset):
    """Utterances of a split.

    ``ids`` adds their names, which inference writes and a training cannot batch.
    """

    def __init__(self, corpus: str, split: str, ids: bool = False):
        self.utterances = list(read_transcripts(corpus, split).items())
        self.ids = ids
        kinds = {"speech": "audio", "text": "text"}
        if ids:
            kinds["utt_id"] = "text"
        self.fields = tuple(Field(name=name, kind=kind) for name, kind in kinds.items())

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> dict[str, Any]:
        path, text = self.utterances[index]
        speech, _ = soundfile.read(path, dtype="float32")
        item = {"speech": speech, "text": text}
        if self.ids:
            item["utt_id"] = path.stem
        return item


class DatasetBuilder(Builder):
    """Check that the recordings are there."""

    def is_source_prepared(self, corpus: str, **_: Any) -> bool:
        return Path(corpus, "train-clean-100").is_dir()

    def prepare_source(self, corpus: str, **_: Any) -> None:
        raise FileNotFoundError(
            f"{corpus}: no recordings: clone the whole repository, or set corpus"
        )

    def is_built(self, **_: Any) -> bool:
        return True

    def build(self, **_: Any) -> None:
        """Leave the recordings as they are."""


def training_text(corpus: str) -> list[str]:
    """Return the text from which word pieces are learnt."""
    return list(read_transcripts(corpus, "train-clean-100").values())

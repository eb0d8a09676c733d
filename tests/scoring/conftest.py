"""Files of made-up systems for the comparator."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

WORDS = ["the", "cat", "sat", "on", "a", "mat", "Zürich", "rain"]


@dataclass(frozen=True)
class MadeUp:
    """A reference of ``speakers`` speakers with 4 utterances each, and files of its
    hypotheses.
    """

    folder: Path
    reference: dict[str, str]
    speaker_of: dict[str, str]

    def hypothesis(self, name: str, share: float, seed: int) -> Path:
        """A file in Kaldi's format; ``share`` of its words are wrong, deleted or
        followed by another.
        """
        rng = random.Random(f"{name} {seed}")
        lines = []
        for key, text in self.reference.items():
            words = []
            for word in text.split():
                what = rng.random() / share
                if what < 1 / 3:
                    continue
                words += (
                    [rng.choice(WORDS)]
                    if what < 2 / 3
                    else [word, rng.choice(WORDS)]
                    if what < 1
                    else [word]
                )
            lines.append(" ".join([key, *words]) + "\n")
        path = self.folder / f"{name}{seed}.txt"
        path.write_text("".join(lines), encoding="utf-8")
        return path


@pytest.fixture
def made_up(tmp_path):
    """Return a function that makes a reference."""

    def made_up(speakers: int = 6) -> MadeUp:
        rng = random.Random(speakers)
        speaker_of = {
            f"s{s:02d}-{u}": f"s{s:02d}" for s in range(speakers) for u in range(4)
        }
        reference = {
            key: " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12)))
            for key in speaker_of
        }
        (tmp_path / "ref.txt").write_text(
            "".join(f"{key} {text}\n" for key, text in reference.items()), "utf-8"
        )
        (tmp_path / "utt2spk").write_text(
            "".join(f"{key} {name}\n" for key, name in speaker_of.items())
        )
        return MadeUp(tmp_path, reference, speaker_of)

    return made_up

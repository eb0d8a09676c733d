"""Second-pass rescoring of N-best lists with language models (P3: Shivakumar et al. 2023)."""

from typing import NamedTuple

SCORERS = ("causal", "pll", "pooled")
POOLINGS = ("last", "cls", "attention")
ADAPTER = "adapter_config.json"  # in a folder that holds only matrices of LoRA


class ScorerKind(NamedTuple):
    """A scorer of P3: the language model that it is made of, its score, and its pooling."""

    lm: str
    scorer: str
    pooling: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in self if part)

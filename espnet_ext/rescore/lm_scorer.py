"""What all language-model scorers have in common: a model, its tokenizer, text as its input, and a folder on disk."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.errors import InputError
from espnet_ext.rescore.language_model import CASINGS, HypothesisError, position_limit, quiet
from espnet_ext.work.files import write_json

SETTINGS = "scorer.json"
# Positions that one forward pass computes at most: with gradients about 1.5 GB at the size of GPT-2 or BERT.
POSITIONS = 1024


class LmScorer(torch.nn.Module):
    """A language model of ``transformers`` that scores hypotheses.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        casing: how hypotheses are written for it, a key of ``CASINGS``.
        surrounding: the tokens before and after a hypothesis in the model's input.

    Attributes:
        budget: positions that one forward pass computes at most.
        longest: tokens that the model takes at once.
    """

    name = ""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        casing: str,
        surrounding: tuple[list[int], list[int]],
    ):
        super().__init__()
        if casing not in CASINGS:
            raise InputError(f"casing {casing}: choose one of {', '.join(CASINGS)}")
        self.model = model
        self.tokenizer = tokenizer
        self.casing = casing
        self.before, self.after = surrounding
        self.budget = POSITIONS
        self.longest = position_limit(model, tokenizer)

    def encode(self, lists: Sequence[Sequence[str]]) -> list[list[tuple[int, list[int]]]]:
        """Each list's hypotheses, numbered through all lists, as the model's input.

        Raises:
            HypothesisError: one has more tokens than the model takes.
        """
        write = CASINGS[self.casing]
        texts = [write(" ".join(text.split())) for texts in lists for text in texts]
        tokens = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        inputs = [[*self.before, *ids, *self.after] for ids in tokens]
        for number, (text, ids) in enumerate(zip(texts, inputs, strict=True)):
            if len(ids) > self.longest:
                raise HypothesisError(
                    number,
                    text,
                    f"{len(ids)} tokens, but the model takes {self.longest}: leave it out, or take another model",
                )
        numbered = iter(enumerate(inputs))
        return [[next(numbered) for _ in texts] for texts in lists]

    def settings(self) -> dict[str, str]:
        """What a saved scorer needs beside model and tokenizer."""
        return {"scorer": self.name, "casing": self.casing}

    def save(self, folder: str | Path) -> None:
        """Write a folder that ``transformers`` loads too, and ``load_lm`` as it is."""
        with quiet():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_json(Path(folder) / SETTINGS, self.settings())

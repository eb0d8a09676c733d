"""Models and tokenizers of Hugging Face ``transformers``: loaded and checked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging

from espnet_ext.errors import InputError

# How a hypothesis is written for the language model. Transcripts of LibriSpeech are upper-case, texts that models have
# read are not.
CASINGS = {"as-is": str, "lower": str.lower, "upper": str.upper, "sentence": str.capitalize}
SHOWN = 40


class HypothesisError(InputError):
    """A hypothesis that a model cannot score.

    Attributes:
        number: which, counted through all lists.
        reason: what is wrong and what to do.
    """

    def __init__(self, number: int, text: str, reason: str):
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
        super().__init__(f'hypothesis "{shown}": {reason}')
        self.number = number


def load(loader: type, name: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model by one of ``transformers``' Auto classes, in float32, and its tokenizer.

    A model without output layers is loaded without the layer that some families put on the first token's hidden
    state, which masked language models are not trained with.

    Args:
        loader: such as ``AutoModelForCausalLM``.
        name: a local folder or a name on the hub. Code that comes with a model is not run.

    Raises:
        InputError: neither exists, files are broken, weights are missing, or the tokenizer has no tokens or
            more than the model.
    """
    try:
        with quiet():  # of weights that are missing, which are looked at here, and those of other layers
            tokenizer = AutoTokenizer.from_pretrained(name)
            model, report = loader.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
    except Exception as error:  # an OSError for most faults, and whatever the readers of the files raise
        raise InputError(
            f"{name}: no language model and tokenizer that load ({first_line(error)}): give a folder that transformers "
            "has written, or a name on the hub"
        ) from error
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    faults = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    faults += [str(key) for key in report["mismatched_keys"]]
    if faults:
        raise InputError(
            f"{name}: {len(faults)} weights of {type(model).__name__} are missing or of another shape "
            f"({', '.join(faults[:3])}): give a model that was trained for this"
        )
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes of no files at all
        raise InputError(f"{name}: its tokenizer has no tokens: copy the tokenizer's files into the folder too")
    size = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > size:
        raise InputError(f"{name}: its tokenizer has {len(tokenizer)} tokens, its model {size}: they are no pair")
    return model, tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' warnings, and its bars of what takes a second, out of the log meanwhile."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).strip().split("\n")[0]


def config_of(name: str | Path) -> PreTrainedConfig:
    """Settings of a model.

    Raises:
        InputError: there is no such model.
    """
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name}: no language model ({first_line(error)}): give a folder or a name on the hub"
        ) from error


def reads_both_ways(config: PreTrainedConfig) -> bool:
    """Whether a model is of a family that predicts masked tokens from both sides, such as BERT."""
    return config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)


def begin_and_end(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Ids of the tokens before and after a sentence for a causal model; GPT-2 has one for both.

    Raises:
        InputError: the tokenizer has neither.
    """
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    if begin is None and end is None:
        raise InputError(f"{tokenizer.name_or_path}: its tokenizer has no begin or end token: set one, and save it")
    return end if begin is None else begin, begin if end is None else end


def surrounding(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Ids of the special tokens that a tokenizer puts before and after a sentence, such as [CLS] and [SEP]."""
    empty, text = tokenizer("")["input_ids"], tokenizer("a")["input_ids"]
    first = next((index for index, pair in enumerate(zip(empty, text, strict=False)) if pair[0] != pair[1]), len(empty))
    return empty[:first], empty[first:]


def position_limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> float:
    """How many tokens the model takes at once; infinite if it does not say."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from after the padding token's id
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((limit for limit in limits if isinstance(limit, int) and 0 < limit < 1e9), default=float("inf"))

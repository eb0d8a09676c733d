"""Load and check language models of ``transformers``; the base of their scorers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.utils import logging as hub_logging
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging

from espnet_ext.errors import InputError
from espnet_ext.rescore import check_model_path, is_gguf
from espnet_ext.rescore.models.prefix_trees import takes_trees
from espnet_ext.work.files import write_json
from espnet_ext.work.precision import has_bfloat16

# How a hypothesis is written for the language model. LibriSpeech's transcripts are
# upper-case; the texts that models were trained on are not.
CASINGS: Mapping[str, Callable[[str], str]] = {
    "as-is": str,
    "lower": str.lower,
    "upper": str.upper,
    "sentence": str.capitalize,
}
CASING_SAMPLE = 1000  # texts whose tokens are counted
CASING_GAIN = 1.2  # times as many tokens as in lower case, of which a warning tells
UNKNOWN = 0.2  # share of unknown tokens that is warned of
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
SHOWN = 40  # characters of a hypothesis in a message
SETTINGS = "scorer.json"
# Most positions of one forward pass: with gradients about 1.5 GB at the size of GPT-2
# or BERT.
POSITIONS = 1024


def load(
    loader: Any, name: str | Path, dtype: str = "float32"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model by one of ``transformers``' Auto classes, and its tokenizer.

    Code that comes with them is not run. Some families put a pooling layer on the first
    token's hidden state. It is dropped, since masked language models are trained
    without it. ``name`` is a folder, a GGUF file or a name on the hub, ``dtype`` a key
    of ``DTYPES``.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype}: choose one of {', '.join(DTYPES)}")
    place, file = locate_model(name)
    try:
        # Missing weights are checked below; those of other layers do not matter.
        with silence_transformers():
            # False and not None, the default: transformers would ask on the terminal
            # whether to run the model's code.
            tokenizer = AutoTokenizer.from_pretrained(
                place, trust_remote_code=False, **file
            )
            options = {
                "dtype": DTYPES[dtype],
                "output_loading_info": True,
                "trust_remote_code": False,
            }
            model, report = loader.from_pretrained(place, **options, **file)
    except Exception as error:
        # Mostly OSError, but also what the readers of the files raise.
        raise InputError(
            f"{name}: no language model and tokenizer that load ({explain(error, name)}"
        ) from error
    if file:
        forget_gguf(model)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    missing = report["missing_keys"]
    faults = sorted(key for key in missing if not key.startswith("pooler."))
    faults += [str(key) for key in report["mismatched_keys"]]
    if faults:
        raise InputError(
            f"{name}: {len(faults)} weights of {type(model).__name__} are missing "
            "or have another shape "
            f"({', '.join(faults[:3])}): give a model that was trained for this"
        )
    # If there are no files, transformers makes a tokenizer of special tokens alone.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise InputError(
            f"{name}: its tokenizer has no tokens: copy the tokenizer's files "
            "into the folder as well"
        )
    return model, tokenizer


def locate_model(name: str | Path) -> tuple[str | Path, dict[str, str]]:
    """Return what ``from_pretrained`` takes for a model, and its options.

    It takes a folder or a hub name; for a GGUF file its folder, and the file as option.
    """
    check_model_path(name)
    if not is_gguf(name):
        return name, {}
    path = Path(name).absolute()
    return path.parent, {"gguf_file": path.name}


def forget_gguf(model: PreTrainedModel) -> None:
    """Make a model that was read from a GGUF file one like any other.

    Its weights are numbers of full precision now. What its config says of the file
    would make a saved copy look for it.
    """
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Hide progress bars and warnings of transformers and of the hub's client.

    The client would name each of its attempts.
    """
    verbosity = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    hubs = hub_logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub_logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hubs)
        if bar:
            logging.enable_progress_bar()


def explain(error: BaseException, name: str | Path) -> str:
    """Return why a model does not load, in a bracket that ends here, and what to do.

    >>> explain(OSError("no such thing"), "gpt2")
    'no such thing): give a folder written by transformers, or a name on the hub'
    """
    # Transformers raises its own exception from the hub's.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LocalEntryNotFoundError):
            return (
                "the hub cannot be reached, and there is no copy here): check the "
                "network, or give a folder"
            )
        cause = cause.__cause__
    if is_gguf(name):
        return (
            f"{take_first_line(error)}): convert the model again, or give the folder "
            "that it was converted from"
        )
    return (
        f"{take_first_line(error)}): give a folder written by transformers, or a "
        "name on the hub"
    )


def take_first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().split("\n")[0]


def read_config(name: str | Path) -> PreTrainedConfig:
    """Return the config of a model."""
    place, file = locate_model(name)
    try:
        with silence_transformers():
            return AutoConfig.from_pretrained(place, trust_remote_code=False, **file)
    except Exception as error:
        # Mostly OSError and ValueError, of a GGUF file also what its reader raises.
        raise InputError(
            f"{name}: no language model ({explain(error, name)}"
        ) from error


def reads_both_ways(config: PreTrainedConfig) -> bool:
    """Tell whether a model predicts masked tokens from both sides, as BERT does."""
    # A BERT that was made a decoder is causal, and of the same type.
    if getattr(config, "is_decoder", False):
        return False
    return config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def find_begin_and_end(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Return the ids of the tokens before and after a sentence for a causal model.

    GPT-2 uses one for both.
    """
    begin = tokenizer.bos_token_id
    end = tokenizer.eos_token_id
    if begin is None and end is None:
        raise InputError(
            f"{tokenizer.name_or_path}: its tokenizer has no begin or end token: "
            "set one, and save it"
        )
    if begin is None:
        return end, end
    if end is None:
        return begin, begin
    return begin, end


def find_surrounding(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids of the tokens that a tokenizer puts before and after a sentence.

    Such tokens are [CLS] and [SEP], for example. What an empty sentence has in common
    with another one at its beginning is before it.
    """
    empty = tokenizer("")["input_ids"]
    text = tokenizer("a")["input_ids"]
    before = 0
    for token, other in zip(empty, text, strict=False):
        if token != other:
            break
        before += 1
    return empty[:before], empty[before:]


def find_position_limit(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> float:
    """Return the most tokens that the model takes at once; infinite if unknown."""
    limits = [
        tokenizer.model_max_length,
        getattr(model.config, "max_position_embeddings", None),
    ]
    for name, module in model.named_modules():
        # RoBERTa and its relatives count positions from after the padding token's id.
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            limits.append(module.num_embeddings - padding - 1)
    # "No limit" is written as a huge number, or -1.
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1e9]
    return min(known, default=float("inf"))


class LmScorer(torch.nn.Module):
    """Score hypotheses by a language model of ``transformers``.

    This is the base of the scorers of P3, eq. 2, 3, 10 to 12. The log-probability of a
    hypothesis is a sum of terms. ``chunks`` splits the work on some lists into forward
    passes of bounded size, and ``terms`` runs one of them. ``surrounding``: the tokens
    before and after a hypothesis; ``budget``: most positions of one forward pass, of
    which more are faster and take more memory; ``longest``: most tokens that the model
    takes at once; ``amp``: compute in bfloat16 where that is exact enough (automatic
    mixed precision).
    """

    name = ""
    amp = False
    model: PreTrainedModel

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
        self.longest = find_position_limit(model, tokenizer)
        embeddings = cast(torch.nn.Embedding, model.get_input_embeddings())
        self.size = embeddings.num_embeddings

    @cached_property
    def as_trees(self) -> bool:
        """Tell whether hypotheses share a row as a prefix tree.

        The answer is found out where the model runs.
        """
        return takes_trees(self.model)

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[Any]:
        """Return forward passes over hypotheses, numbered through all lists.

        The ``ids`` of each are (rows, positions).
        """
        raise NotImplementedError

    def use_precision(self) -> torch.autocast:
        """Compute in this block with the precision that ``amp`` asks for."""
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.amp)

    def forward(self, chunk: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return :meth:`terms`, computed with the precision that ``amp`` asks for."""
        with self.use_precision():
            return self.terms(chunk)

    def terms(self, chunk: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return terms with gradient, (n,) float, and the hypothesis of each.

        Hypotheses are numbers, (n,) int64.
        """
        raise NotImplementedError

    def encode(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[list[tuple[int, list[int]]]]:
        """Return each list's hypotheses as numbers and the model's input.

        Hypotheses are numbered through all lists; special tokens are included. Raises
        InputError, with the name of the list, for a hypothesis that is too long for the
        model.
        """
        write = CASINGS[self.casing]
        texts: list[str] = []
        for own in lists:
            texts += [write(" ".join(text.split())) for text in own]
        # All at once: fast tokenizers share the texts among the cores.
        numbered = iter(enumerate(self._tokenize(texts)))
        encoded = [[next(numbered) for _ in own] for own in lists]
        for place, hypotheses in enumerate(encoded):
            name = names[place] if names else f"list {place + 1}"
            for number, ids in hypotheses:
                if len(ids) > self.longest:
                    self._refuse_long(name, texts[number], len(ids))
        return encoded

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the model's input for each text."""
        if not texts:
            return []  # which tokenizers do not take
        # No warning of the tokenizer's own about long texts, which are refused by name.
        tokens = self.tokenizer(texts, add_special_tokens=False, verbose=False)
        inputs = []
        for ids in tokens["input_ids"]:
            inputs.append(self.require_known([*self.before, *ids, *self.after]))
        return inputs

    def _refuse_long(self, name: str, text: str, count: int) -> None:
        """Raise an InputError for a text of ``count`` tokens."""
        shown = text[:SHOWN]
        if len(text) > SHOWN:
            shown += "..."
        raise InputError(
            f'{name}: hypothesis "{shown}": {count} tokens, but the model takes '
            f"{self.longest}: leave it out, or use another model"
        )

    def require_known(self, ids: list[int]) -> list[int]:
        """Return the same token ids; refuse one that the model lacks.

        Some tokenizers have more tokens than they write: only these count.
        """
        last = max(ids, default=0)
        if last >= self.size:
            token = self.tokenizer.convert_ids_to_tokens(last)
            raise InputError(
                f"{self.tokenizer.name_or_path}: its tokenizer writes the token "
                f"{last} ({token!r}), and its model has "
                f"{self.size}: they do not belong together"
            )
        return ids

    def check_casing(self, texts: Iterable[str]) -> str | None:
        """Return a warning if the vocabulary has no words as the texts are written.

        The first 1,000 texts are read. Capitals cost GPT-2 half as many tokens again,
        and it has rarely seen them; a vocabulary without capitals knows none of these
        words.
        """
        text = " ".join(islice(texts, CASING_SAMPLE))

        def count_tokens(write: Callable[[str], str]) -> tuple[int, int]:
            """Return the number of tokens, and of those for what is not known."""
            # No warning that the model takes fewer: it does not read them.
            found = self.tokenizer(write(text), add_special_tokens=False, verbose=False)
            tokens = found["input_ids"]
            return len(tokens), tokens.count(self.tokenizer.unk_token_id)

        here, unknown = count_tokens(CASINGS[self.casing])
        lower, still = count_tokens(str.lower)
        if here <= CASING_GAIN * lower and unknown <= UNKNOWN * here:
            return None
        return (
            f"warning: with casing {self.casing} these texts are {here} tokens "
            f"({unknown} unknown), in lower case "
            f"{lower} ({still} unknown): consider casing lower, or a language "
            "model of their language"
        )

    def prepare_training(
        self, gradient_checkpointing: bool, amp: bool, use_tf32: bool = False
    ) -> None:
        """Set how gradients are computed, with parameters and their updates in float32.

        ``use_tf32`` rounds the inputs of products to 10 bits, on GPUs that can.
        ``gradient_checkpointing`` computes activations inside of layers again: less
        memory, a third more time.
        """
        self.amp = amp and has_bfloat16(self.model.device, "amp")
        torch.backends.cuda.matmul.allow_tf32 = use_tf32
        # Not reentrant, as PyTorch advises.
        if gradient_checkpointing:
            self.model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )

    def settings(self) -> dict[str, str]:
        """Return what a saved scorer needs besides model and tokenizer."""
        return {"scorer": self.name, "casing": self.casing}

    def save(self, folder: str | Path) -> None:
        """Write a folder that both ``transformers`` and ``load_lm`` load."""
        with silence_transformers():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_json(Path(folder) / SETTINGS, self.settings())

"""Models that take a language and a task with the audio, as models that take audio alone: OWSM-CTC, ESPnet's s2t_ctc.

Peng et al., "OWSM-CTC: An Open Encoder-Only Speech Foundation Model for Speech Recognition, Translation, and Language
Identification", 2024. Its encoder puts the symbols ``<language><task>`` before the audio, and was trained on audio that
was padded with silence to one length.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError

if TYPE_CHECKING:
    import torch

NO_LANGUAGE, RECOGNITION = "<nolang>", "<asr>"  # the model finds out the language; it is to recognise, not translate
_SECONDS = 30.0  # of the public models


def takes_prompt(config: Mapping[str, Any]) -> bool:
    """Return whether a training config is that of such a model."""
    return "promptencoder" in config


def padded_seconds(config: Mapping[str, Any]) -> float:
    """Return the length of the audio that the model was trained on, in seconds."""
    return float((config.get("preprocessor_conf") or {}).get("speech_length", _SECONDS))


def special_tokens(tokens: Sequence[str]) -> list[int]:
    """Return the ids of the tokens that are no speech, as ``<eng>``, but for the first, which is CTC's blank.

    >>> special_tokens(["<blank>", "<unk>", "<eng>", "<0.02>", "<", "▁a", "<space>", "<sos>"])
    [1, 2, 3, 7]
    """
    return [id for id, token in enumerate(tokens) if id and re.fullmatch("<.+>", token) and token != "<space>"]


class PromptedModel:
    """An ``ESPnetS2TCTCModel`` with its prompt; ``encode`` takes audio and gives the frames of the audio.

    Args:
        model: the model.
        tokens: its tokens by id.
        language: ISO 639-3, as ``eng``; None: the model finds it out.

    Raises:
        InputError: the model does not know the language.
    """

    def __init__(self, model: Any, tokens: Sequence[str], language: str | None = None):
        self._model, self.frontend, self.ctc = model, model.frontend, model.ctc
        self._prompt = [tokens.index(name) for name in (language_symbol(tokens, language), RECOGNITION)]

    def encode(self, speech: "torch.Tensor", lengths: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """Encode samples, (B, length): (B, frames, size) of the audio, and its numbers of frames."""
        import torch

        count, none = len(speech), torch.tensor([[self._model.na]])
        previous, prompt = (ids.repeat(count, 1).to(speech.device) for ids in (none, torch.tensor([self._prompt])))
        encoded, frames = self._model.encode(
            speech,
            lengths,
            text_prev=previous,
            text_prev_lengths=torch.full_like(lengths, previous.size(1)),
            prefix=prompt,
            prefix_lengths=torch.full_like(lengths, prompt.size(1)),
        )
        encoded = encoded[0] if isinstance(encoded, tuple) else encoded
        return encoded[:, prompt.size(1) :], frames - prompt.size(1)


def language_symbol(tokens: Sequence[str], language: str | None) -> str:
    """Return the token of a language, as in :class:`PromptedModel`.

    Raises:
        InputError: there is none.
    """
    wanted = [f"<{language}>"] if language else [NO_LANGUAGE, "<eng>"]
    known = next((name for name in wanted if name in tokens), None)
    if known is None:
        raise InputError(f"the model has no language {language or 'eng'}: give its three letters (ISO 639-3), as eng")
    return known

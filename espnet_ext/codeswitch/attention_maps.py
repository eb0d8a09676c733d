"""The self-attention weights of a decoder, token by token, for an utterance with its transcript."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from espnet_ext.codeswitch.languages import NEITHER, token_languages
from espnet_ext.data.utterance_audio import AudioSpan, read_samples
from espnet_ext.errors import InputError
from espnet_ext.upstream.options import sampling_rate


@dataclass(frozen=True)
class AttentionMap:
    """The self-attention of one decoder block.

    Attributes:
        weights: mean over the heads, (L, L); row i is what token i attends to, and sums to 1.
        tokens: the L input tokens of the decoder; the first is the start of the sentence.
        languages: the language of each token, ``-`` for neither.
    """

    weights: np.ndarray
    tokens: tuple[str, ...]
    languages: tuple[str, ...]

    def share_between_languages(self) -> float:
        """The weight that a token with a language gives to tokens of the other language, on average.

        Only tokens that follow one of the other language count. NaN if there are none.
        """
        known = np.array([language != NEITHER for language in self.languages])
        names = np.array(self.languages)
        other = (names[:, None] != names[None, :]) & known[:, None] & known[None, :]
        rows = (np.tril(other)).any(axis=1)
        return float((self.weights * other).sum(axis=1)[rows].mean()) if rows.any() else float("nan")


class AttentionMaps:
    """A trained ESPnet ASR model with a transformer decoder, ready for :meth:`of`."""

    def __init__(self, config_file: str | Path, model_file: str | Path):
        import espnet_ext

        espnet_ext.register()
        from espnet2.tasks.asr import ASRTask
        from espnet2.train.preprocessor import CommonPreprocessor

        self.model, options = ASRTask.build_model_from_file(config_file, model_file, "cpu")
        self.model.eval()
        if not hasattr(self.model.decoder, "decoders"):
            raise InputError(
                f"{config_file}: decoder '{options.decoder}' has no self-attention: give a transformer model"
            )
        rate = sampling_rate(vars(options))
        if rate is None:
            raise InputError(
                f"{config_file}: frontend '{options.frontend}' has no sampling rate: set fs in its options"
            )
        self.rate = rate
        self.tokenize = CommonPreprocessor(
            train=False,
            token_type=options.token_type,
            token_list=options.token_list,
            bpemodel=options.bpemodel,
        )

    @torch.no_grad()
    def of(self, utterance: str, span: AudioSpan, text: str, block: int | None = None) -> AttentionMap:
        """Run the decoder on an utterance's transcript and read the attention of one block.

        Args:
            utterance: its id.
            span: its audio.
            text: its transcript.
            block: number of the block, from 1; None: the last.

        Raises:
            InputError: there is no such block, or it does not store weights; the audio cannot be read or has another
                rate; or the text has no tokens.
        """
        layers = self.model.decoder.decoders
        number = len(layers) if block is None else block
        if not 1 <= number <= len(layers):
            raise InputError(f"the decoder has no block {number}: give one from 1 to {len(layers)}")
        speech = read_samples(utterance, span, self.rate)
        ids = self.tokenize(utterance, {"text": text})["text"]
        if not len(ids):
            raise InputError(f"utterance {utterance}: its transcript has no tokens: choose another")
        fed = torch.tensor([[self.model.sos, *ids]])
        encoded, lengths = self.model.encode(torch.from_numpy(speech)[None], torch.tensor([len(speech)]))
        self.model.decoder(encoded, lengths, fed, torch.tensor([fed.size(1)]))
        tokens = tuple(self.model.token_list[index] for index in fed[0].tolist())
        attention = layers[number - 1].self_attn.attn
        if attention is None:
            raise InputError(
                "a fused kernel computes the attention and does not store weights: set use_sdpa: false in decoder_conf"
            )
        weights = attention[0].mean(0).double().numpy()
        return AttentionMap(weights, tokens, tuple(token_languages(tokens)))

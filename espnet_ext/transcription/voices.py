"""Whose words they are: d-vectors of runs of words, and the profiles of enrolled
speakers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile

from espnet_ext.audio.recordings import RecordingAudio, copy_times, opened
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.multitalker.profiles import RATE, Embed, make_profiles
from espnet_ext.text.words import Word
from espnet_ext.transcription.request import Request, find_enrolment
from espnet_ext.transcription.turns import Runs, find_turns, unit

# dB below the loudest frame of a word: a pause that the recogniser gave to the word
QUIET = 25.0
FRAME = 0.02  # seconds
SHORTEST = 0.1  # seconds of a word that are embedded, at least
LONGEST_RUN = 8  # words
FRAMES_A_SECOND = 100  # of Resemblyzer's network
_RUN_FRAMES = 200  # its network was trained on 160
_LOUDNESS = 10 ** (-30 / 20)  # Resemblyzer's, of full scale
_WORDS = 128  # that are embedded at a time
_BLOCK = 60 * RATE  # samples that are copied at a time


def enrolled(request: Request, embed: Embed) -> dict[str, np.ndarray]:
    """Speaker -> embeddings of the enrolment files, (files, E); their audio is copied."""
    assert request.enrolment
    found, work = find_enrolment(request.enrolment), request.folder
    utterances = {
        f"{who}--{number}": path
        for who, files in found.items()
        for number, path in enumerate(files)
    }
    speakers = {key: key.rpartition("--")[0] for key in utterances}
    copy_audio(utterances, work / "enrolment", speakers, request.broken)
    return make_profiles(
        [work / "enrolment" / "data"], embed, max(map(len, found.values()))
    )[0]


def copy_audio(
    files: Mapping[str, Path],
    folder: Path,
    speakers: Mapping[str, str] | None = None,
    broken: Callable[[Path, str], None] | None = None,
) -> DataDir:
    """Write audio of any format, rate and number of channels with one channel at 16
    kHz, and a data dir of it.

    ``broken`` is called with a file that cannot be read, which is then left out.
    """
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    paths, seconds = {}, {}
    for key, path in files.items():
        copy = str((folder / "audio" / f"{key}.flac").resolve())
        try:
            with (
                opened(path, RATE) as audio,
                soundfile.SoundFile(copy, "w", RATE, 1, subtype="PCM_16") as file,
            ):
                for start in range(0, audio.length, _BLOCK):
                    file.write(audio.read(start, min(_BLOCK, audio.length - start)))
        except InputError as error:
            if broken is None:
                raise
            broken(path, str(error))
            continue
        copy_times(path, copy)
        paths[key], seconds[key] = copy, format_seconds(audio.length / RATE)
    if not paths:
        raise InputError(
            f"{path.parent}: no audio file can be read, here or beside it: replace them"
        )
    who = {key: speakers[key] if speakers else key for key in paths}
    data = DataDir(wav_scp=paths, utt2spk=who, utt2dur=seconds, reco2dur=seconds)
    write_data_dir(data, folder / "data")
    return data


def loud_part(word: Word, audio: RecordingAudio) -> Word:
    """Return the word without the pauses at its ends, which Whisper gives to the words
    around them.

    A pause is QUIET dB below the word's loudest frame, so that steady noise leaves the
    word as it was.
    """
    size = round(FRAME * RATE)
    frames = max(1, round((word.end - word.start) / FRAME))
    samples = np.asarray(
        audio.read(round(word.start * RATE), frames * size), dtype=np.float64
    ).reshape(frames, size)
    level = 10 * np.log10(np.square(samples).mean(axis=1) + 1e-10)
    loud = np.flatnonzero(level > level.max() - QUIET)
    return replace(
        word,
        start=word.start + loud[0] * FRAME,
        end=min(word.end, word.start + (loud[-1] + 1) * FRAME),
    )


def tell_voices(
    words: Sequence[Word],
    audio: RecordingAudio,
    runs_of: Callable[[Sequence[Word], RecordingAudio], Runs],
    profiles: Mapping[str, np.ndarray] | None = None,
    number: int | None = None,
) -> dict[str, tuple[Word, ...]]:
    """Return speaker -> words, of the words of a recording at 16 kHz, in order, as
    :func:`find_turns` tells them.

    ``runs_of`` embeds runs of words.
    """
    runs = runs_of([loud_part(word, audio) for word in words], audio)
    spoken: dict[str, list[Word]] = {}
    for name, word in zip(find_turns(runs, profiles, number), words, strict=True):
        spoken.setdefault(name, []).append(word)
    return {name: tuple(own) for name, own in spoken.items()}


def d_vectors_of_runs() -> Callable[[Sequence[Word], RecordingAudio], Runs]:
    """Return a function that embeds runs of words by Resemblyzer's network, which reads
    each word equally loud.

    From the first frame of a word on, its state at the end of each word gives the
    d-vector of the run up to there.
    """
    from espnet_ext.encoder.d_vectors import voice_encoder

    network = voice_encoder()
    import torch
    from resemblyzer.audio import wav_to_mel_spectrogram

    def frames_of(word: Word, audio: RecordingAudio) -> np.ndarray:
        count = round(max(word.end - word.start, SHORTEST) * RATE)
        samples = np.asarray(
            audio.read(round(word.start * RATE), count), dtype=np.float32
        )
        loudness = max(float(np.sqrt(np.square(samples).mean())), 1e-6)
        return wav_to_mel_spectrogram(samples * (_LOUDNESS / loudness))[:-1]

    @torch.no_grad()
    def runs_of(words: Sequence[Word], audio: RecordingAudio) -> Runs:
        vectors, seconds = [], []
        for first in range(0, len(words), _WORDS):
            frames = [
                frames_of(word, audio)
                for word in words[first : first + _WORDS + LONGEST_RUN - 1]
            ]
            ends = [
                np.cumsum([len(each) for each in frames[start : start + LONGEST_RUN]])
                for start in range(min(_WORDS, len(words) - first))
            ]
            ends = [
                np.minimum(
                    each[: max(1, int((each <= _RUN_FRAMES).sum()))], _RUN_FRAMES
                )
                for each in ends
            ]
            batch = [
                torch.from_numpy(
                    np.concatenate(frames[start : start + len(each)])[:_RUN_FRAMES]
                )
                for start, each in enumerate(ends)
            ]
            states, _ = network.lstm(
                torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
            )
            found = torch.cat(
                [
                    states[row, torch.from_numpy(each) - 1]
                    for row, each in enumerate(ends)
                ]
            )
            vectors.append(unit(torch.relu(network.linear(found)).numpy()))
            seconds += [each / FRAMES_A_SECOND for each in ends]
        if not words:
            return Runs(
                np.empty((0, 1)), np.empty(0), np.zeros(1, dtype=np.int64), np.empty(0)
            )
        pauses = [0.0, *(word.start - before.end for before, word in pairwise(words))]
        first_runs = np.cumsum([0, *map(len, seconds)])
        return Runs(
            np.concatenate(vectors),
            np.concatenate(seconds),
            first_runs,
            np.array(pauses),
        )

    return runs_of

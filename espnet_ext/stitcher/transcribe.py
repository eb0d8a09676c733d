"""Transcribe a long recording with several talkers: who said what, and when, from audio files to a transcript."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.data.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import RecordingAudio
from espnet_ext.multitalker.decode import SpeakerDecoding, decode_speakers, read_search_options
from espnet_ext.multitalker.hypotheses import Grouped, group_by_speaker, read_jsonl, write_jsonl
from espnet_ext.multitalker.importers import SPEAKER
from espnet_ext.multitalker.profiles import (
    RATE,
    Embed,
    espnet_speaker_model,
    make_profiles,
    profile,
    resemblyzer,
    write_profiles,
)
from espnet_ext.multitalker.settled import read_settled, require_speaker_model
from espnet_ext.multitalker.windows import WINDOW_SECONDS, Windowing, window_data_dir
from espnet_ext.nbest.whisper import BUNDLED
from espnet_ext.stitcher import whisper_windows
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.stitcher.guard import read_guard
from espnet_ext.stitcher.inference import Stitcher, StitcherOptions
from espnet_ext.stitcher.note import read_note, require_windows
from espnet_ext.stitcher.transcripts import BY_TIME, MERGES, WRITERS, Merge, Timed, text_lines, timed_turns, transcripts

AUDIO = (".wav", ".flac", ".ogg", ".mp3")
OVERLAPS = {"no": 0.0, "block": 0.0, "overlapping": 0.5, BY_TIME: 0.5}  # of windows, by method
_BLOCK = 60 * RATE  # samples that are copied at a time


@dataclass(frozen=True)
class Transcription:
    """What to transcribe with a speaker-attributed recogniser.

    Attributes:
        recording: audio file of any rate and number of channels.
        enrolment: folder with a folder of audio files for each speaker, named after the speaker.
        model_config, model_file: ``config.yaml`` and checkpoint of the recogniser.
        windowing: how the recording is cut; None: it is not.
        output: folder for the results, and for intermediate files (``work/``).
        search: options of the beam search by name.
        ngpu: 0, or 1 to decode on a GPU.
    """

    recording: Path
    enrolment: Path
    model_config: Path
    model_file: Path
    windowing: Windowing | None
    output: Path
    search: Mapping[str, Any]
    ngpu: int = 0


def transcribe_with_model(
    recording: Path,
    enrolment: Path,
    model_config: Path,
    model_file: Path,
    output: Path,
    *,
    config: Path | None = None,
    method: str | None = None,
    stitcher: Path | None = None,
    window: float | None = None,
    window_overlap: float | None = None,
    speaker_model: tuple[Path, Path] | None = None,
    nj: int = 1,
    ngpu: int = 0,
) -> Timed:
    """Transcribe a recording as the recipe does: cut into windows, recognise these, and merge the hypotheses.

    Writes ``<recording>.json`` (SegLST), ``.ctm`` and ``.txt``, and prints the transcript.

    Args:
        recording, enrolment, model_config, model_file, output, ngpu: see :class:`Transcription`.
        config: YAML with options of the beam search, over those that the model's folder holds.
        method: ``time_aware`` (the default), ``overlapping``, ``block``, or ``no``, which does not cut the recording.
        stitcher: folder of a trained stitcher, which merges windows in place of a method.
        window: length of windows in seconds; None: the stitcher's, otherwise the recogniser's, otherwise 16.
        window_overlap: share of a window that two neighbours have in common; None: the stitcher's, otherwise 0.5, or 0
            for ``block``.
        speaker_model: config.yaml and checkpoint of an ESPnet speaker model for the profiles; None: Resemblyzer.
        nj: processes.

    Returns:
        The turns with the times of their words.

    Raises:
        InputError: as :func:`transcribe`; a model of another kind; a method and a stitcher; windows that are not the
            stitcher's.
    """
    if stitcher and method:
        raise InputError("--stitcher is a method itself: leave out --method")
    require_speaker_model(model_config, model_file)
    settled = read_settled(model_config)
    known = read_note(stitcher).windows if stitcher else None
    length = window or (known.length if known else settled.window or WINDOW_SECONDS)
    overlap = OVERLAPS[method or BY_TIME] if window_overlap is None else window_overlap
    if known and window_overlap is None:
        overlap = known.overlap
    windowing = None if method == "no" else Windowing(length, overlap)
    merge = merged_by(method or BY_TIME)
    if stitcher:
        require_windows(read_note(stitcher), windowing, stitcher)
        device = "cuda" if ngpu else "cpu"
        merge = Stitcher(StitcherOptions(stitcher, device=device, guard=read_guard(stitcher))).stitch
    search = {**settled.search, **(read_search_options(config) if config else {})}
    job = Transcription(recording, enrolment, model_config, model_file, windowing, output, search, ngpu)
    timed = transcribe(job, espnet_speaker_model(*speaker_model) if speaker_model else resemblyzer(), merge, nj=nj)
    return _shown(timed, output)


def transcribe_with_whisper(
    recording: Path,
    output: Path,
    *,
    enrolment: Path | None = None,
    whisper: str = BUNDLED,
    language: str = "en",
    window: float | None = None,
    window_overlap: float | None = None,
    one_speaker: bool = False,
) -> Timed:
    """Transcribe a recording without a model of one's own: Whisper in windows, merged by time, and d-vectors.

    Writes ``<recording>.json`` (SegLST), ``.ctm`` and ``.txt``, and what was heard in each window to
    ``<recording>.windows.jsonl``; prints the transcript.

    Args:
        recording: audio file of any rate and number of channels.
        output: folder for the results.
        enrolment: folder with a folder of audio files for each speaker; other voices are ``unknown``. None: voices are
            clustered, and called speaker1, speaker2 ...
        whisper: a folder of CTranslate2, or ``bundled``.
        language: for multilingual models.
        window, window_overlap: length of windows in seconds, at most 30, and their overlap as a share; None: 30 s, of
            which 5 overlap.
        one_speaker: do not tell voices.

    Raises:
        InputError: a missing or bad file, no such model, or windows that are too long.
    """
    default = whisper_windows.WINDOWS
    windowing = Windowing(window or default.length, default.overlap if window_overlap is None else window_overlap)
    whisper_windows.require(whisper, windowing)
    enrolled = find_enrolment(enrolment) if enrolment else None
    embed = None if one_speaker else resemblyzer()
    name = "_".join(recording.stem.split())
    output.mkdir(parents=True, exist_ok=True)
    profiles = None
    if enrolled and embed:
        profiles = {who: profile(own) for who, own in _profiles(enrolled, embed, output / "work").items()}
    with RecordingAudio(name, recording, RATE) as audio:
        heard = list(whisper_windows.hear(name, audio, windowing, whisper, language))
        write_jsonl(output / f"{name}.windows.jsonl", heard)
        words = merge_by_time(group_by_speaker(heard)[name].get(SPEAKER, ()))
        speakers = whisper_windows.tell_voices(words, audio, embed, profiles) if embed else {SPEAKER: words}
    timed = timed_turns({name: speakers})
    write_transcript(output, name, timed)
    return _shown(timed, output)


def _shown(timed: Timed, output: Path) -> Timed:
    for line in text_lines(timed):
        print(line)
    print(f"written to {output}")
    return timed


def find_enrolment(folder: Path) -> dict[str, list[Path]]:
    """Speaker -> audio files, from a folder with a folder for each speaker.

    Raises:
        InputError: no such folder, no speaker in it, a speaker without audio files, or a name with a blank or ``=``.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: give one with a folder of audio files for each speaker")
    found = {
        path.name: sorted(file for file in path.iterdir() if file.suffix.lower() in AUDIO)
        for path in sorted(folder.iterdir())
        if path.is_dir()
    }
    if not found:
        raise InputError(
            f"{folder}: no folder in it: put each speaker's audio files into a folder of the speaker's name"
        )
    for speaker, files in found.items():
        if not files:
            raise InputError(
                f"{folder / speaker}: no audio file in it ({', '.join(AUDIO)}): enrol {speaker}, or remove it"
            )
        if len(speaker.split()) != 1 or "=" in speaker:
            raise InputError(f"{folder / speaker}: a speaker's name must have no blank and no equals sign: rename it")
    return found


def transcribe(job: Transcription, embed: Embed, merge: Callable[[Grouped], Merge], *, nj: int = 1) -> Timed:
    """Enrol, cut, recognise and merge; write the transcript as JSON, CTM and readable text.

    Args:
        job: what to transcribe.
        embed: makes an embedding of samples at 16 kHz; the same as in the recogniser's training.
        merge: makes the function that merges windows from all hypotheses, as a stitcher's ``stitch`` does.
        nj: processes.

    Returns:
        The turns with the times of their words.

    Raises:
        InputError: a missing or bad file; profiles of another dimension than the recogniser's; an unknown option.
    """
    enrolled = find_enrolment(job.enrolment)
    name = "_".join(job.recording.stem.split())
    work = job.output / "work"
    data = _copy_audio({name: job.recording}, work / "recording")
    profiles = _profiles(enrolled, embed, work)
    scp = write_profiles(work / "profiles", profiles)
    decoded = work / "recording" / "data"
    if job.windowing is not None:
        windows, _ = window_data_dir(data, job.windowing)
        decoded = work / "windows"
        write_data_dir(windows, decoded)
    decoding = SpeakerDecoding(job.model_config, job.model_file, decoded, (scp,), work / "heard", job.search, job.ngpu)
    decode_speakers([decoding], nj=nj)
    grouped = group_by_speaker(read_jsonl(work / "heard" / "hypotheses.jsonl"))
    timed = timed_turns(transcripts(grouped, merge(grouped)))
    write_transcript(job.output, name, timed)
    return timed


def _profiles(enrolled: Mapping[str, list[Path]], embed: Embed, work: Path) -> dict[str, np.ndarray]:
    """Speaker -> embeddings of the enrolment files, (files, E)."""
    utterances = {f"{who}--{number}": path for who, files in enrolled.items() for number, path in enumerate(files)}
    speakers = {key: key.rpartition("--")[0] for key in utterances}
    _copy_audio(utterances, work / "enrolment", speakers)
    return make_profiles(work / "enrolment" / "data", embed, max(map(len, enrolled.values())))[0]


def write_transcript(folder: Path, recording: str, timed: Timed) -> None:
    """Write ``<recording>.json`` (SegLST), ``<recording>.ctm`` and ``<recording>.txt``."""
    for suffix, write in WRITERS.items():
        write(folder / f"{recording}{suffix}", timed)


def merged_by(method: str) -> Callable[[Grouped], Merge]:
    """Merging without a trained model, by one of ``MERGES``."""
    return lambda _: MERGES[method]


def _copy_audio(files: dict[str, Path], folder: Path, speakers: dict[str, str] | None = None) -> DataDir:
    """Write audio of any rate and number of channels with one channel at 16 kHz, and a data dir of it."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    paths, seconds = {}, {}
    for key, path in files.items():
        paths[key] = str((folder / "audio" / f"{key}.flac").resolve())
        with (
            RecordingAudio(key, path, RATE) as audio,
            soundfile.SoundFile(paths[key], "w", RATE, 1, subtype="PCM_16") as file,
        ):
            for start in range(0, audio.length, _BLOCK):
                file.write(audio.read(start, min(_BLOCK, audio.length - start)))
            seconds[key] = format_seconds(audio.length / RATE)
    data = DataDir(wav_scp=paths, utt2spk=speakers or {key: key for key in files}, utt2dur=seconds, reco2dur=seconds)
    write_data_dir(data, folder / "data")
    return data

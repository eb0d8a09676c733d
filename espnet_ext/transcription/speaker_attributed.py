"""Transcribe a file by a speaker-attributed model, as P4's recipe does.

The recording is cut into windows, these are recognised, and the hypotheses are merged
by a method or a stitcher.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import soundfile

from espnet_ext.audio.recordings import copy_times, open_recording
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.sharing.model_files import ModelFiles
from espnet_ext.stitch.recogniser.decode import SpeakerDecoding, decode_speakers
from espnet_ext.stitch.recogniser.profiles import (
    RATE,
    Embed,
    load_espnet_speaker_model,
    load_resemblyzer,
    make_profiles,
    write_profiles,
)
from espnet_ext.stitch.recogniser.search_settings import (
    change_options,
    read_decoding_settings,
)
from espnet_ext.stitch.stitcher.by_time import merge_by_time
from espnet_ext.stitch.stitcher.guard import read_guard
from espnet_ext.stitch.stitcher.inference import Stitcher, StitcherOptions
from espnet_ext.stitch.stitcher.pairs import read_trained_on, require_windows
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.windows import WINDOW_SECONDS, Windowing, cut_into_windows
from espnet_ext.text.words import Segment, make_spoken_lines
from espnet_ext.transcription.request import (
    Engine,
    Request,
    find_enrolment,
    raise_unusable,
)
from espnet_ext.work.once import hash_content
from espnet_ext.work.yaml_files import read_yaml

_BLOCK = 60 * RATE  # samples that are copied at a time


def load_speaker_engine(request: Request, model: ModelFiles) -> Engine:
    """Return a speaker-attributed model, which chooses among enrolled speakers.

    Windows are the stitcher's, else the model's, else 16 s long, and overlap by half;
    they are merged by the stitcher or by time. Raises InputError: nobody is enrolled,
    an unknown option, or windows that are not the stitcher's.
    """
    if request.enrolment is None:
        raise InputError(
            f"{model.name}: chooses among enrolled speakers: give --enrolment "
            "DIR, a folder per speaker"
        )
    # What is wrong with the folder is said before models are loaded.
    find_enrolment(request.enrolment)
    windowing = find_windowing(request, model)
    search = read_decoding_settings(model.model).search
    if request.config:
        search = change_options(search, read_yaml(request.config), str(request.config))
    stitcher = None
    if request.stitcher:
        guard = read_guard(request.stitcher)
        stitcher = Stitcher(
            StitcherOptions(request.stitcher, device=request.device, guard=guard)
        )
    speaker_model = request.speaker_model
    if speaker_model:
        config = speaker_model.with_name("config.yaml")
        embed = load_espnet_speaker_model(config, speaker_model)
    else:
        embed = load_resemblyzer()
    # Once, for all files.
    scp = write_profiles(request.folder / "profiles", embed_enrolment(request, embed))
    check_once = cache(partial(_check_loads, model))

    def recognise(path: Path) -> Iterator[Segment]:
        check_once()
        # A recording's id has no blanks in Kaldi's tables.
        name = "_".join(path.stem.split())
        # Other files may have the same name.
        work = request.folder / f"{name}-{str(hash_content(path))[:8]}"
        recording = copy_audio({name: path}, work / "recording")
        write_data_dir(cut_into_windows(recording, windowing), work / "windows")
        job = SpeakerDecoding(
            model_config=model.config,
            model_file=model.model,
            data=work / "windows",
            profiles=(scp,),
            output=work / "heard",
            search=search,
            ngpu=int(request.device != "cpu"),
        )
        decode_speakers([job])
        heard = read_hypotheses(work / "heard" / "hypotheses.jsonl")
        grouped = group_by_speaker(heard)
        merge = stitcher.stitch(grouped) if stitcher else merge_by_time
        merged = {who: merge(windows) for who, windows in grouped[name].items()}
        return iter(make_spoken_lines(merged))

    return recognise


def _check_loads(model: ModelFiles) -> None:
    """Load a model once, to refuse one that cannot be used before the first file.

    Otherwise each file would fail in turn.
    """
    from espnet_ext.upstream.checkpoint import strict_loading
    from espnet_ext.upstream.own_process import prepare_process

    prepare_process()
    from espnet_ext.sharing.load import explain_faults
    from espnet_ext.stitch.recogniser.task import SAASRTask

    with raise_unusable(), explain_faults(model), strict_loading():
        SAASRTask.build_model_from_file(model.config, model.model)


def find_windowing(request: Request, model: ModelFiles) -> Windowing:
    """Return how recordings are cut; refuse windows that are not the stitcher's."""
    trained = read_trained_on(request.stitcher).windows if request.stitcher else None
    own = read_decoding_settings(model.model).window
    windowing = trained or Windowing(own or WINDOW_SECONDS, 0.5)
    if request.window is not None:
        windowing = replace(windowing, length=request.window)
    if request.window_overlap is not None:
        windowing = replace(windowing, overlap=request.window_overlap)
    if request.stitcher:
        require_windows(trained, windowing, request.stitcher)
    return windowing


def embed_enrolment(request: Request, embed: Embed) -> dict[str, np.ndarray]:
    """Embed the enrolment files, whose audio is copied: speaker -> (files, E)."""
    assert request.enrolment
    found = find_enrolment(request.enrolment)
    folder = request.folder / "enrolment"
    utterances = {}
    speakers = {}
    for who, files in found.items():
        for number, path in enumerate(files):
            key = f"{who}--{number}"
            utterances[key] = path
            speakers[key] = who
    copy_audio(utterances, folder, speakers, request.broken)
    # All files of each speaker, however many: none is drawn.
    most = max(len(files) for files in found.values())
    profiles, _ = make_profiles([folder / "data"], embed, most)
    return profiles


def copy_audio(
    files: Mapping[str, Path],
    folder: Path,
    speakers: Mapping[str, str] | None = None,
    broken: Callable[[Path, str], None] | None = None,
) -> DataDir:
    """Write audio of any format with one channel at 16 kHz, and a data dir of it.

    ``broken`` is called with a file that cannot be read, which is then left out.
    """
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    paths = {}
    seconds = {}
    for key, path in files.items():
        copy = str((folder / "audio" / f"{key}.flac").resolve())
        try:
            with (
                open_recording(path, RATE) as audio,
                soundfile.SoundFile(copy, "w", RATE, 1, subtype="PCM_16") as file,
            ):
                for start in range(0, audio.length, _BLOCK):
                    count = min(_BLOCK, audio.length - start)
                    file.write(audio.read(start, count))
        except InputError as error:
            if broken is None:
                raise
            broken(path, str(error))
            continue
        # A copy is as old as its file: what was decoded of it is not decoded again.
        copy_times(path, copy)
        paths[key] = copy
        seconds[key] = format_seconds(audio.length / RATE)
    if not paths:
        raise InputError(
            f"{path.parent}: no audio file can be read, here or beside it: replace them"
        )
    who = {key: speakers[key] if speakers else key for key in paths}
    data = DataDir(wav_scp=paths, utt2spk=who, utt2dur=seconds, reco2dur=seconds)
    write_data_dir(data, folder / "data")
    return data

"""Audio of utterances as MP3 files, which every browser plays."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import soundfile

from espnet_ext.audio.files import save_audio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan

MP3 = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)  # of MP3, in Hz
# A longer recording is not an utterance to listen to; 20 minutes are 5 MB.
MOST_SECONDS = 1200.0


def write_clips(
    keys: Iterable[str], spans: Mapping[str, AudioSpan], folder: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Write the audio of utterances into a folder, numbered.

    Of several channels the first is taken. Returned are the name of each utterance's
    file; and of those whose audio cannot be read, why not, in one line.
    """
    names: dict[str, str] = {}
    failed: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for key in keys:
        # a number, since an id may hold what no name of a file can
        name = f"{len(names)}.mp3"
        try:
            if key not in spans:
                raise InputError("not in wav.scp or segments")
            _write_clip(spans[key], folder / name)
            names[key] = name
        except (InputError, soundfile.SoundFileError, OSError) as error:
            failed[key] = " ".join(str(error).split())
    return names, failed


def _write_clip(span: AudioSpan, path: Path) -> None:
    with soundfile.SoundFile(span.path) as file:
        rate = file.samplerate
        if rate not in RATES:
            raise InputError(f"{span.path}: {rate} Hz is none of MP3's sampling rates")
        # a segment may end a little after its recording
        start = min(round(span.start * rate), file.frames)
        end = file.frames
        if span.end != -1:  # the end of the file
            end = min(round(span.end * rate), file.frames)
        if end <= start:
            raise InputError(f"{span.path}: no samples")
        if end - start > MOST_SECONDS * rate:
            raise InputError(
                f"{span.path}: longer than {MOST_SECONDS / 60:.0f} minutes"
            )
        file.seek(start)
        samples = file.read(end - start, dtype="float32", always_2d=True)[:, 0]
    save_audio(path, samples, rate, **MP3)

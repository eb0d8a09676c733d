"""``espnet-ext transcribe``: audio files to text, subtitles and word times."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError, say

KINDS = "Some of txt, json, seglst, ctm, srt, vtt, html."


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR...",
)
@common.path(
    "--model",
    "Packed model, folder of a model, its checkpoint, user/model on the hub, or the "
    "folder of a Whisper of CTranslate2.  [default: Whisper tiny.en, English, by "
    "faster-whisper]",
    metavar="MODEL",
)
@common.output(
    "Folder for NAME.FORMAT of each file.  [default: transcripts]", required=False
)
@click.option(
    "--formats",
    "kinds",
    default="txt,srt,html",
    show_default=True,
    metavar="LIST",
    help=KINDS,
)
@common.path(
    "--enrolment",
    "Folder with one folder of audio files per speaker, with their names, for a "
    "speaker-attributed model.",
    metavar="DIR",
)
@common.choice(
    "--channels",
    ["separate"],
    "Recognise each channel by itself, as a speaker of its own: for calls.  "
    "[default: all channels together]",
    default=None,
)
@click.option(
    "--track",
    type=click.IntRange(min=1),
    metavar="N",
    help="Audio track of a video.  [default: that which is flagged as default]",
)
@click.option(
    "--language",
    metavar="CODE",
    help="Language, for multilingual Whisper models.  [default: detected]",
)
@click.option(
    "--window",
    type=float,
    metavar="SECONDS",
    help="Length of a window.  [default: the model's]",
)
@common.window_overlap(
    None,
    most="below 1; of a speaker-attributed model 0.5",
    says="  [default: the model's, else 0.5; 0.875 for models of long recordings]",
)
@common.config("Options of the beam search, over the model's own.")
@common.path(
    "--stitcher",
    "Trained stitcher that merges a speaker-attributed model's windows.  "
    "[default: by time]",
    metavar="DIR",
)
@common.path(
    "--speaker-model",
    "Checkpoint of an ESPnet speaker model for the profiles.  [default: Resemblyzer]",
)
@common.path(
    "--work", "Keep intermediate files here, and resume from them.", metavar="DIR"
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Make transcripts again, and replace what is there.",
)
@common.ngpu()
def transcribe(
    files: tuple[Path, ...],
    model: Path | None,
    output: Path | None,
    kinds: str,
    enrolment: Path | None,
    window: float | None,
    overwrite: bool,
    ngpu: int,
    **options: Any,
) -> None:
    """Transcribe audio files of any length to text, subtitles, word times and a page.

    The page plays the audio. Short files are decoded by the model's beam search, longer
    ones in moving windows by its CTC. Without --model, faster-whisper recognises
    English with Whisper tiny.en. A speaker-attributed model tells who of the speakers
    of --enrolment says what, also where they speak at once. With --channels separate,
    each channel of a call is a speaker.

    Reads wav, flac, mp3, ogg, and with the extra `whisper` m4a, mp4 and the like; of a
    folder, all in and below it. A file that cannot be read is named, and the others go
    on. Lines are in NAME.txt.part until all of a file is done. The same command again
    leaves out files that are done; with other options their transcripts are replaced. A
    transcript that was not written here, or was changed since, stays.
    """
    from espnet_ext.longform.decoding.settings import SHORTEST
    from espnet_ext.transcription.engines import choose_engine
    from espnet_ext.transcription.notes import compute_key, list_unfinished
    from espnet_ext.transcription.recordings import find_recordings
    from espnet_ext.transcription.request import Request, find_enrolment
    from espnet_ext.transcription.run import check_kinds, check_output, transcribe_files
    from espnet_ext.work.gpus import choose_device

    wanted = common.split_names(kinds)
    output = output or Path("transcripts")
    # What is wrong with the options is refused before a model is loaded.
    check_kinds(wanted)
    if window is not None and not SHORTEST <= window < float("inf"):
        raise InputError(
            f"--window must be a number of seconds, at least {SHORTEST:g}, not "
            f"{window:g}"
        )
    if enrolment:
        find_enrolment(enrolment)
    check_output(output)
    recordings, failures = find_recordings(files, _report_failure, wanted)
    count = len(recordings) + failures
    broken: list[Path] = []  # enrolment files
    with tempfile.TemporaryDirectory() as folder:
        own: dict[str, Any] = {
            "enrolment": enrolment,
            "window": window,
            "device": choose_device(ngpu),
            "temporary": Path(folder),
        }
        request = Request(**own, broken=partial(_note_broken, broken), **options)
        key = compute_key(model, request)
        left = recordings
        if not overwrite:
            left, blocked = list_unfinished(
                recordings, output, wanted, key, _report_done, _report_failure
            )
            failures += blocked
        if left:
            say(f"loading {model or 'Whisper tiny.en'} ...", error=True)
            reports: dict[str, Any] = {
                "show": _print_line,
                "failed": _report_failure,
                "silent": _report_silence,
            }
            failures += transcribe_files(
                choose_engine(model, request),
                left,
                output,
                wanted,
                key=key,
                separate=bool(request.channels),
                track=request.track,
                **reports,
            )
    say(f"{count - failures} of {count} files -> {output}", error=True)
    # Only now, so that a file that cannot be read costs nobody the others.
    if failures:
        raise InputError(
            f"{failures} of {count} files could not be transcribed: their names "
            "are above"
        )
    if broken:
        raise InputError(
            f"{len(broken)} enrolment files could not be read; the others were used"
        )


def _print_line(path: Path, line: Any, share: float) -> None:
    from espnet_ext.text.writing import show_line

    say(f"{path.name} {100 * share:3.0f} % {show_line(line)}")


def _report_failure(path: Path, reason: str) -> None:
    say(f"error: {reason}", error=True)


def _note_broken(broken: list[Path], path: Path, reason: str) -> None:
    broken.append(path)
    _report_failure(path, reason)


def _report_silence(path: Path) -> None:
    say(f"{path.name}: no speech found; its transcripts are empty", error=True)


def _report_done(path: Path, reason: str) -> None:
    say(f"{path.name}: {reason}", error=True)

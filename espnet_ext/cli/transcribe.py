"""``espnet-ext transcribe-speakers``: who said what in a recording of any length."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError

if TYPE_CHECKING:
    from espnet_ext.transcription.engines import Engine

METHODS = ("no", "block", "overlapping", "time_aware")


@click.command("transcribe-speakers")
@click.argument("recording", type=common.PATH, metavar="RECORDING")
@common.path(
    "--enrolment", "Folder with one folder of audio files per speaker.  [default: voices are clustered]", metavar="DIR"
)
@common.output("Folder for the results.  [default: transcripts]", required=False)
@click.option(
    "--whisper", metavar="MODEL", help="Folder of a Whisper model of CTranslate2.  [default: bundled, tiny.en]"
)
@click.option("--language", default="en", show_default=True, help="Language, for multilingual Whisper models.")
@click.option("--one-speaker", is_flag=True, help="Do not tell voices.")
@common.path("--model-config", "The config.yaml of a speaker-attributed model, in place of Whisper.", metavar="YAML")
@common.path("--model", "Checkpoint of this model.")
@common.config("Options of its beam search.  [default: decoding.json in its folder]")
@click.option(
    "--method", type=click.Choice(METHODS), help="How its windows are merged; no: do not cut.  [default: time_aware]"
)
@common.path("--stitcher", "Folder of a trained stitcher that merges its windows.", metavar="DIR")
@click.option(
    "--window", type=float, metavar="SECONDS", help="Length of a window.  [default: the model's; Whisper: 30]"
)
@common.window_overlap(None)
@common.path("--speaker-model-config", "The config.yaml of an ESPnet speaker model for the profiles.", metavar="YAML")
@common.path("--speaker-model", "Checkpoint of the speaker model.  [default: Resemblyzer's d-vectors]")
@common.nj()
@common.ngpu()
def transcribe_speakers(
    recording: Path,
    enrolment: Path | None,
    output: Path | None,
    whisper: str | None,
    language: str,
    one_speaker: bool,
    model_config: Path | None,
    model: Path | None,
    config: Path | None,
    method: str | None,
    stitcher: Path | None,
    window: float | None,
    window_overlap: float | None,
    speaker_model_config: Path | None,
    speaker_model: Path | None,
    nj: int,
    ngpu: int,
) -> None:
    """Transcribe a recording of several talkers: who said what, and when.

    Writes RECORDING's name with .json (SegLST), .ctm and .txt. Without a model of your own, Whisper tiny.en recognises
    windows, which are merged by the times of their words, and d-vectors tell voices: English, one voice at a time.
    Where people talk at once, the weaker voice is lost, and single words may go to the wrong speaker. With --enrolment,
    voices that match nobody are `unknown`.

    For overlapped speech give a speaker-attributed model with --model-config and --model, and --enrolment.
    """
    output = output or Path("transcripts")
    if (model_config is None) != (model is None):
        raise InputError("a speaker-attributed model needs both --model-config and --model")
    if (speaker_model_config is None) != (speaker_model is None):
        raise InputError("a speaker model needs both --speaker-model-config and --speaker-model")
    if not recording.is_file():
        raise InputError(f"{recording}: no such file: give an audio file")
    if model_config is None or model is None:
        given = {"--method": method, "--stitcher": stitcher, "--config": config, "--speaker-model": speaker_model}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong:
            raise InputError(f"{wrong} needs a speaker-attributed model: give --model-config and --model")
        from espnet_ext.stitcher.transcribe import transcribe_with_whisper

        transcribe_with_whisper(
            recording,
            output,
            enrolment=enrolment,
            whisper=whisper or "bundled",
            language=language,
            window=window,
            window_overlap=window_overlap,
            one_speaker=one_speaker,
        )
        return
    if whisper or one_speaker:
        raise InputError("--whisper and --one-speaker are for Whisper: leave them out, or --model")
    if enrolment is None:
        raise InputError("a speaker-attributed model chooses among enrolled speakers: give --enrolment DIR")
    from espnet_ext.stitcher.transcribe import transcribe_with_model

    transcribe_with_model(
        recording,
        enrolment,
        model_config,
        model,
        output,
        config=config,
        method=method,
        stitcher=stitcher,
        window=window,
        window_overlap=window_overlap,
        speaker_model=(speaker_model_config, speaker_model) if speaker_model_config and speaker_model else None,
        nj=nj,
        ngpu=ngpu,
    )


@click.command()
@click.argument("files", nargs=-1, required=True, type=common.PATH, metavar="FILE...")
@click.option(
    "--model",
    type=common.PATH,
    metavar="MODEL",
    help="Packed model, folder of a model, or user/model on the hub.  [default: Whisper tiny.en, English]",
)
@common.output("Folder for NAME.FORMAT of each file.  [default: transcripts]", required=False)
@click.option(
    "--formats",
    "kinds",
    default="txt,srt,html",
    show_default=True,
    metavar="LIST",
    help="Some of txt, json, ctm, srt, vtt, html.",
)
@click.option("--speakers", is_flag=True, help="Tell who speaks.")
@common.path("--enrolment", "Folder with one folder of audio files per speaker, with their names.", metavar="DIR")
@click.option("--language", default="en", show_default=True, help="Language, for multilingual Whisper models.")
@click.option("--window", type=float, metavar="SECONDS", help="Length of a window.  [default: the model's]")
@click.option("--beam-size", type=common.COUNT, metavar="N", help="Hypotheses of the search.  [default: the model's]")
@common.ngpu()
def transcribe(
    files: tuple[Path, ...],
    model: Path | None,
    output: Path | None,
    kinds: str,
    speakers: bool,
    enrolment: Path | None,
    language: str,
    window: float | None,
    beam_size: int | None,
    ngpu: int,
) -> None:
    """Transcribe audio files: text, subtitles, word times, and a page that plays the audio.

    Short files are decoded by the model's beam search, longer ones in moving windows by its CTC. A model that tells
    speakers needs --enrolment. Without --model, Whisper tiny.en recognises English; with --speakers it tells voices
    too. Reads wav, flac, mp3, ogg, and what ffmpeg reads if it is installed. A file that cannot be read is named, and
    the others go on.
    """
    from espnet_ext.transcription.engines import Request, engine_for
    from espnet_ext.transcription.run import check_kinds, check_names

    wanted = common.names(kinds)
    check_kinds(wanted)
    check_names(files)
    if window is not None and window <= 0:
        raise InputError(f"--window must be above 0 seconds, not {window:g}")
    if enrolment and not enrolment.is_dir():
        raise InputError(f"{enrolment}: no such folder: give one with a folder of audio files per speaker")
    found = None
    if model:
        from espnet_ext.sharing.find import find_model

        found = find_model(model)
    device = "cuda" if ngpu else "cpu"
    engine = engine_for(Request(found, speakers, enrolment, language, window, beam_size, device))
    transcribe_and_report(engine, files, output or Path("transcripts"), wanted)


def transcribe_and_report(engine: "Engine", files: Sequence[Path], output: Path, kinds: Sequence[str]) -> None:
    """Transcribe files and print lines as they are done, with the share of the file.

    Raises:
        InputError: some files could not be transcribed.
    """
    from espnet_ext.longform.transcript import Line, clock
    from espnet_ext.transcription.run import transcribe_files

    def show(path: Path, line: Line, share: float) -> None:
        who = f"{line.speaker}: " if line.speaker else ""
        click.echo(f"{path.name} {100 * share:3.0f} % [{clock(line.start)} --> {clock(line.end)}] {who}{line.text}")

    def failed(path: Path, reason: str) -> None:
        click.echo(f"error: {reason}", err=True)

    failures = transcribe_files(engine, files, output, kinds, show=show, failed=failed)
    click.echo(f"{len(files) - failures} of {len(files)} files -> {output}", err=True)
    if failures:
        raise InputError(f"{failures} of {len(files)} files could not be transcribed: their names are above")

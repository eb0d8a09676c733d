"""``espnet-ext transcribe-long``: audio files of any length to text and subtitles."""

from functools import partial
from pathlib import Path

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.decode import PRECISIONS
from espnet_ext.cli.transcribe import transcribe_and_report
from espnet_ext.errors import InputError


@click.command("transcribe-long")
@click.argument("files", nargs=-1, required=True, type=common.PATH, metavar="FILE...")
@common.model()
@common.output("Folder for NAME.FORMAT of each file.")
@click.option(
    "--formats",
    default="txt,srt",
    show_default=True,
    metavar="LIST",
    help="Some of txt, json, ctm, srt, vtt.",
)
@click.option(
    "--window", type=float, metavar="SECONDS", help="Length of a window.  [default: the model's max_seconds, or 30]"
)
@click.option(
    "--stride",
    type=float,
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Step from window to window, as a share of a window. 1 is fastest, 0.125 is what the paper has.",
)
@click.option(
    "--batch-seconds",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Audio that is encoded together, at least a window.",
)
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="float32", show_default=True, help="bfloat16: for GPUs."
)
@click.option("--beam-size", type=common.COUNT, metavar="N", help="Beam search.  [default: greedy search]")
@common.path("--ngram", "An n-gram model over the model's tokens, from `espnet-ext data ngram`.", metavar="ARPA")
@click.option("--lm-weight", type=float, default=1.0, show_default=True, help="Weight of --ngram.")
@common.ngpu()
def transcribe_long(
    files: tuple[Path, ...],
    model_config: Path,
    model: Path,
    output: Path,
    formats: str,
    window: float | None,
    stride: float,
    batch_seconds: float,
    precision: str,
    beam_size: int | None,
    ngram: Path | None,
    lm_weight: float,
    ngpu: int,
) -> None:
    """Transcribe audio files of any length with a model's CTC.

    This works with any ESPnet model that has a CTC: its config.yaml and its checkpoint are all it takes. Each line
    appears as soon as it is done. A file that cannot be read is named, and the others go on. Reads wav, flac, mp3, ogg
    and opus, and what ffmpeg reads if it is installed, such as m4a. Memory does not grow with the length of a file.
    """
    from espnet_ext.longform.ctc_search import BeamSettings
    from espnet_ext.longform.decode import check_numbers, device_of
    from espnet_ext.transcription.run import check_kinds

    kinds = common.names(formats)
    check_kinds(kinds)
    if ngram and not beam_size:
        raise InputError("--ngram needs a beam search: give --beam-size")
    check_numbers({"window": window, "stride": stride, "batch_seconds": batch_seconds}, "the options")
    from espnet_ext.longform.transcribe import load_transcriber, transcribe  # takes seconds

    transcriber = load_transcriber(
        model_config,
        model,
        device=device_of(ngpu),
        precision=precision,
        window=window,
        stride=stride,
        batch_seconds=batch_seconds,
        beam=BeamSettings(ngram, lm_weight, beam_size=beam_size) if beam_size else None,
    )
    transcribe_and_report(partial(transcribe, transcriber), files, output, kinds)

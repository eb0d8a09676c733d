"""``espnet-ext decode``: utterances, long recordings and overlapped speech."""

from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError, say

Paths = tuple[Path, ...]


@click.group(cls=common.OrderedGroup)
def decode() -> None:
    """Recognise utterances, long recordings and overlapped speech.

    The work is split into shards, on several processes or on a cluster. A killed run
    resumes where it stopped.
    """


@decode.command()
@common.model
@common.data(
    "Kaldi data dir without segments; repeat it to decode several.", several=True
)
@common.output("Folder for the results of each --data.", several=True)
@common.config("Options of espnet2.bin.asr_inference.")
@common.path("--lm-config", "The config.yaml of a language model.", metavar="YAML")
@common.path("--lm-file", "Checkpoint of the language model.")
@common.processes
@click.argument(
    "options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF ASR_INFERENCE]"
)
def asr(
    model: Path,
    data: Paths,
    output: Paths,
    nj: int,
    parallel: Path | None,
    options: tuple[str, ...],
    **others: Any,
) -> None:
    """Decode Kaldi data dirs with an ESPnet ASR model.

    Writes text, token, token_int and score into the output folder. Options of
    espnet2.bin.asr_inference follow after `--`, as in `--nj 4 -- --fast_decoder true
    --batch_size auto`, or are in the YAML of --config.
    """
    from espnet_ext.upstream.decode import Decoding, decode_all

    # Click takes what follows no option for one of ESPnet's, with or without the --.
    if options and not options[0].startswith("-"):
        raise InputError(
            f"unexpected argument {options[0]}: repeat an option for each value; "
            "ESPnet's follow after --"
        )
    jobs = [
        Decoding(
            model_file=model, data=source, output=target, options=options, **others
        )
        for source, target in common.pair_outputs(data, output)
    ]
    counts = decode_all(jobs, nj=nj, parallel=parallel)
    for job, count in zip(jobs, counts, strict=True):
        say(f"{count} utterances -> {job.output / 'text'}")


@decode.command()
@common.model
@common.data(
    "Kaldi data dir, whose wav.scp names the recordings; repeat it to decode several.",
    several=True,
)
@common.output("Folder for text and decode.json of each --data.", several=True)
@common.config(
    "Settings: window, stride, batch_seconds, precision; noise, snr, seed, to mix "
    "in noise."
)
@click.option(
    "--window",
    type=float,
    metavar="SECONDS",
    help="Length of a window.  [default: the model's max_seconds]",
)
@common.processes
def long(
    model: Path,
    data: Paths,
    output: Paths,
    config: Path | None,
    window: float | None,
    ngpu: int,
    model_config: Path,
    **how: Any,
) -> None:
    """Decode recordings of any length with a model's CTC.

    Windows move over the recording, and the posteriors of overlapping windows are
    averaged (Flynn and Ragni 2024, section 2.2). This works with any ESPnet model that
    has a CTC. A model of espnet_ext.bin.asr_train_long has its features and the length
    of its windows in its config. Memory does not grow with the length of a recording.
    """
    from espnet_ext.longform.decoding.decode import LongDecoding, decode_long
    from espnet_ext.longform.decoding.settings import DecodeSettings
    from espnet_ext.work.settings import check_settings

    settings = check_settings(
        DecodeSettings,
        common.merge_settings(config, {"window": window}),
        str(config or "the options"),
    )
    jobs = [
        LongDecoding(model_config, model, source, target, settings, ngpu=ngpu)
        for source, target in common.pair_outputs(data, output)
    ]
    count = decode_long(*jobs, **how)
    written = ", ".join(str(target / "text") for target in output)
    say(f"{count} recordings -> {written}")


@decode.command()
@common.model
@common.data(
    "Kaldi data dir of windows or recordings; repeat it to decode several. Its "
    "file inventory says who may speak in each, as NAME or NAME=PROFILE; without it, "
    "all profiles.",
    several=True,
)
@common.path(
    "--profiles",
    "profiles.scp of speakers; repeat it for several.",
    required=True,
    several=True,
)
@common.output("Folder for the results of each --data.", several=True)
@common.config(
    "Options of the beam search.  [default: decoding.json in the model's folder]"
)
@common.processes
def speakers(
    model_config: Path,
    model: Path,
    data: Paths,
    profiles: Paths,
    output: Paths,
    config: Path | None,
    ngpu: int,
    **how: Any,
) -> None:
    """Decode overlapped speech with a speaker-attributed model.

    Decodes windows or whole recordings. Writes hypotheses.jsonl (a line for each window
    and speaker in it), text and speakers.
    """
    from espnet_ext.stitch.recogniser.decode import SpeakerDecoding, decode_speakers
    from espnet_ext.stitch.recogniser.search_settings import (
        change_options,
        read_decoding_settings,
        require_speaker_model,
    )

    require_speaker_model(model_config, model)
    search = change_options(
        read_decoding_settings(model_config).search,
        common.merge_settings(config, {}),
        str(config),
    )
    jobs = [
        SpeakerDecoding(model_config, model, source, profiles, target, search, ngpu)
        for source, target in common.pair_outputs(data, output)
    ]
    count = decode_speakers(jobs, **how)
    written = ", ".join(str(target / "hypotheses.jsonl") for target in output)
    say(f"{count} windows -> {written}")

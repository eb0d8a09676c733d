"""Shapes and feature statistics with ESPnet's ``collect_stats``, in shards.

This is stage 10 of ESPnet's ``asr.sh``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from espnet_ext.errors import InputError
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import is_mix, read_mix
from espnet_ext.upstream import options as espnet_options
from espnet_ext.work import shards as sharding
from espnet_ext.work.files import atomic_write
from espnet_ext.work.parallel import Place
from espnet_ext.work.shards import Shard
from espnet_ext.work.yaml_files import read_yaml

PARTS = ("train", "valid")
# Value of --task -> ESPnet task, whose parser reads the config and whose model computes
# the features.
TASKS = {
    "asr": "espnet2.tasks.asr:ASRTask",
    "sa_asr": "espnet_ext.stitch.recogniser.task:SAASRTask",
}
LEAST_SHARDS = 4
UTTERANCES_PER_SHARD = 1000
OUR_OPTIONS = {
    "--collect_stats": "it is what this command does",
    "--output_dir": "use --output",
    "--config": "use --config before `--`",
    "--token_list": "use --token-list",
    "--num_workers": "audio is read in the process that computes",
    "--write_collected_feats": "features are not kept",
    "--train_data_path_and_name_and_type": "use --train",
    "--train_shape_file": "use --train",
    "--valid_data_path_and_name_and_type": "use --valid",
    "--valid_shape_file": "use --valid",
}


@dataclass(frozen=True)
class Statistics:
    """What to collect of Kaldi data dirs without ``segments``, and where.

    Results are in ``train/`` and ``valid/`` of ``output``. ``config`` is a training
    config of a ``task`` of ``TASKS``, and ``options`` are more options of
    ``espnet2.bin.asr_train``, such as ``--token_type bpe --bpemodel bpe.model``.
    """

    train: Path
    valid: Path
    config: Path
    token_list: Path
    output: Path
    options: tuple[str, ...] = ()
    task: str = "asr"


def collect_stats(
    job: Statistics,
    *,
    nj: int = 1,
    parallel: Place | None = None,
) -> None:
    """Write shapes and statistics to ``job.output``.

    The files are ``{train,valid}/{speech_shape,text_shape,text_shape.<token type>}``
    and ``{train,valid}/feats_stats.npz``. The batch size is 1, since padding would
    change the last frames of frontends that look beyond the end of an utterance, and
    the shards are the same for any ``nj``, since sums in another order round otherwise:
    so the result is, to the bit.
    """
    shards = plan_shards(job)
    sharding.run_shards(
        [(job.output, shards)],
        partial(collect_shard, task=job.task),
        nj=nj,
        parallel=parallel,
        describe="statistics",
    )
    _aggregate([Path(shard.folder) for shard in shards], job)


def plan_shards(job: Statistics) -> list[Shard]:
    """Split both data dirs into the same number of shards.

    There are at most as many shards as the smaller one has utterances. Raises
    InputError: options do not fit, or files are not there.
    """
    for path, what in ((job.config, "--config"), (job.token_list, "--token-list")):
        if not path.is_file():
            raise InputError(
                f"{path}: no such file ({what}): check the path, or run the stage "
                "that makes it"
            )
    espnet_options.refuse_options(job.options, OUR_OPTIONS)
    tables = {"train": _read_tables(job.train), "valid": _read_tables(job.valid)}
    sizes = [len(audio) for audio, _ in tables.values()]
    # collect_stats needs at least one utterance of each part in each shard.
    count = min(*sizes, max(LEAST_SHARDS, sizes[0] // UTTERANCES_PER_SHARD))
    options = (
        *("--config", str(job.config)),
        *("--token_list", str(job.token_list)),
        *("--batch_size", "1"),
        *job.options,
    )
    files = espnet_options.list_option_values(options)
    inputs = sharding.fingerprint(options, sharding.hash_files(files))
    pieces = {}
    for part, (audio, _) in tables.items():
        pieces[part] = sharding.split_evenly(list(audio), count)
    shards = []
    for number in range(count):
        own: dict[str, dict[str, str]] = {}
        stamps = []
        for part, (audio, text) in tables.items():
            utterances = pieces[part][number]
            own_audio = {utterance: audio[utterance] for utterance in utterances}
            own_text = {utterance: text[utterance] for utterance in utterances}
            own[f"data/{part}/wav.scp"] = own_audio
            own[f"data/{part}/text"] = own_text
            stamps.append(sharding.stamp_files(own_audio))
        name = str(number + 1)
        log = job.output / "log"
        shard = Shard(
            name=name,
            folder=str(log / f"stats.{name}"),
            log=str(log / f"collect_stats.{name}.log"),
            options=options,
            tables=own,
            key=sharding.fingerprint(inputs, own, stamps),
        )
        shards.append(shard)
    return shards


def collect_shard(shard: Shard, task: str = "asr") -> None:
    """Run ESPnet's ``collect_stats`` on one shard, in a worker process.

    ``task``: one of ``TASKS``.
    """
    if shard.is_done():  # its worker died after it had finished
        return
    audio = shard.tables["data/train/wav.scp"] | shard.tables["data/valid/wav.scp"]
    with sharding.attempt_shard(shard) as folder:
        from espnet_ext.upstream.own_process import prepare_process

        prepare_process()
        module, _, name = TASKS[task].partition(":")
        task_class = getattr(import_module(module), name)
        options = [*shard.options, *_list_shard_options(folder)]
        args = espnet_options.parse_options(task_class.get_parser(), options)
        # which changes the choices of ESPnet's ASR task alone
        light = skip_networks() if task == "asr" else nullcontext()
        rate = espnet_options.read_sampling_rate(vars(args))
        try:
            with light, checked_audio(audio, rate):
                task_class.main(args=args)
        except InputError:
            raise
        # Audio that cannot be read is the likeliest cause, and is named here.
        except Exception:
            audio_tables.check_audio(audio, decode=True)
            raise
        _check_finite(folder, audio)


def _list_shard_options(folder: Path) -> list[str]:
    """Return what ESPnet's command is told of a shard with tables in ``folder``."""
    options = [
        *("--collect_stats", "true"),
        *("--use_preprocessor", "true"),
        *("--num_workers", "0"),
        *("--output_dir", str(folder)),
    ]
    for part in PARTS:
        data = folder / "data" / part
        for entry in (f"{data}/wav.scp,speech,sound", f"{data}/text,text,text"):
            options += [f"--{part}_data_path_and_name_and_type", entry]
    return options


def _check_finite(folder: Path, audio: dict[str, str]) -> None:
    """Refuse statistics that are NaN or infinite; name the audio, if it is to blame."""
    import numpy as np

    for path in sorted(folder.glob("*/*_stats.npz")):
        with np.load(path) as stats:
            if all(np.isfinite(stats[name]).all() for name in stats.files):
                continue
        audio_tables.check_audio(audio, decode=True)
        raise InputError(
            f"{path.stem} of {next(iter(audio))} and the {len(audio) - 1} utterances "
            "after it is NaN or infinite: check the frontend's settings and these "
            "utterances' audio"
        )


def _read_tables(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Read audio and transcripts of a data dir, which must have the same utterances."""
    audio = audio_tables.read_audio_table(folder)
    text = read_table(folder / "text")
    alone = sorted(audio.keys() ^ text.keys())
    if alone:
        where = "wav.scp but not in text"
        if alone[0] in text:
            where = "text but not in wav.scp"
        raise InputError(
            f"{folder}: {alone[0]} is in {where}: run `espnet-ext data fix {folder}`"
        )
    empty = next((key for key, value in text.items() if not value), None)
    if empty:
        raise InputError(
            f"{folder / 'text'}: {empty} has an empty transcript: drop the utterance"
        )
    return audio, text


def _aggregate(folders: list[Path], job: Statistics) -> None:
    from espnet2.bin.aggregate_stats_dirs import aggregate_stats_dirs

    # Beside the folders of the shards, with a name that sharding.clean() removes after
    # a killed run.
    whole = job.output / "log" / ".stats.all"
    with sharding.log_to(job.output / "log" / "aggregate.log"):
        aggregate_stats_dirs(
            input_dir=folders, output_dir=whole, log_level="INFO", skip_sum_stats=False
        )
    token_type = read_yaml(folders[0] / "config.yaml")["token_type"]
    tokens = job.token_list.read_text(encoding="utf-8").removesuffix("\n")
    size = len(tokens.split("\n"))
    for part in PARTS:
        target = job.output / part
        target.mkdir(parents=True, exist_ok=True)
        # complete files take the place of those of an earlier run
        for path in sorted((whole / part).iterdir()):
            os.replace(path, target / path.name)
        (whole / part).rmdir()
        shapes = (target / "text_shape").read_text(encoding="utf-8").splitlines()
        # ESPnet's batches by size count a text as length x tokens, as asr.sh writes it.
        with atomic_write(target / f"text_shape.{token_type}") as file:
            for shape in shapes:
                file.write(f"{shape},{size}\n")
    whole.rmdir()


@contextmanager
def checked_audio(table: Mapping[str, str], rate: int | None) -> Iterator[None]:
    """In this block, let ESPnet's type ``sound`` check each file that it reads.

    ``rate`` is in Hz (None: any). ESPnet drops the rate, and to look at headers first
    would open each file twice. ``table`` is for the messages.
    """
    import soundfile
    from espnet2.train.iterable_dataset import DATA_TYPES

    utterances = {path: utterance for utterance, path in table.items()}

    def read(path: str) -> Any:
        samples, found = read_mix(path) if is_mix(path) else soundfile.read(path)
        name = f"{utterances.get(path, 'audio')}: {path}"
        if not len(samples):
            raise InputError(
                f"{name} has no samples: replace it, or drop the utterance"
            )
        if rate and found != rate:
            raise InputError(
                f"{name} has {found} Hz, but the model's frontend takes {rate} "
                "Hz: resample it"
            )
        return samples

    with patch.dict(DATA_TYPES, sound=read):
        yield


@contextmanager
def skip_networks() -> Iterator[None]:
    """In this block, let ASR models have encoders and decoders without parameters.

    A model of 200 million parameters takes ten seconds to build, which is longer than
    the features of a shard. The statistics of ESPnet's ``collect_stats`` come from the
    frontend, which is built as it is.
    """
    from espnet2.asr.decoder.abs_decoder import AbsDecoder
    from espnet2.asr.encoder.abs_encoder import AbsEncoder
    from espnet2.tasks import asr
    from torch.nn import Module

    def init(self: Any, *_: Any, **__: Any) -> None:
        Module.__init__(self)

    methods = {"__init__": init, "output_size": lambda self: 1, "forward": None}
    slots = ((asr.encoder_choices, AbsEncoder), (asr.decoder_choices, AbsDecoder))
    with ExitStack() as stack:
        for choices, base in slots:
            nothing = type("Nothing", (base,), methods)
            replaced = dict.fromkeys(choices.classes, nothing)
            stack.enter_context(patch.dict(choices.classes, replaced))
        yield

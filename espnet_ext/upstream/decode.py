"""Decode data dirs with ESPnet's ``inference()``, in shards."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.arks import forbid_commands
from espnet_ext.kaldi.data_dir import refuse_commands
from espnet_ext.kaldi.tables import read_table
from espnet_ext.upstream import options as espnet_options
from espnet_ext.work import shards as sharding
from espnet_ext.work.files import atomic_write
from espnet_ext.work.gpus import require_own_gpus
from espnet_ext.work.parallel import Place
from espnet_ext.work.shards import Shard

# Small enough that progress is visible and a lost worker costs little. The model stays
# loaded from shard to shard.
UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
AUDIO = "wav.scp"
FEATURES = "feats.scp"
KINDS = {AUDIO: "sound", FEATURES: "kaldi_ark"}  # what ESPnet calls them
BEST = "1best_recog"  # ESPnet's folder for the best hypotheses
OUR_OPTIONS = {
    "--output_dir": "use --output",
    "--data_path_and_name_and_type": "use --data",
    "--key_file": "use a data dir with the utterances wanted",
    "--asr_train_config": "use --model-config",
    "--asr_model_file": "use --model",
    "--lm_train_config": "use --lm-config",
    "--lm_file": "use --lm-file",
    "--config": "use --config before `--`",
    "--ngpu": "use --ngpu before `--`",
    "--num_workers": "audio is read in the process that decodes",
    "--model_tag": "models are not downloaded: use --model-config and --model",
}


@dataclass(frozen=True)
class Decoding:
    """What to decode, and with what."""

    model_config: Path  # ``config.yaml`` of the ASR model
    model_file: Path  # its checkpoint
    # without ``segments``; or with ``feats.scp``, for a model without frontend
    data: Path
    output: Path  # folder for the results
    config: Path | None = None  # YAML with options of ``espnet2.bin.asr_inference``
    lm_config: Path | None = None  # ``config.yaml`` of a language model
    lm_file: Path | None = None  # its checkpoint
    ngpu: int = 0  # 1 to decode on GPUs: the workers of a machine share all that it has
    options: tuple[str, ...] = ()  # more options of ``espnet2.bin.asr_inference``


def decode(job: Decoding, *, nj: int = 1, parallel: Place | None = None) -> int:
    """Decode one data dir, as :func:`decode_all`; return the number of utterances."""
    (count,) = decode_all([job], nj=nj, parallel=parallel)
    return count


def decode_all(
    jobs: Sequence[Decoding],
    *,
    nj: int = 1,
    parallel: Place | None = None,
) -> list[int]:
    """Decode each ``job.data`` into ``job.output/{text,token,token_int,score}``.

    Returns the number of utterances of each. With ``nbest`` above 1, the n-th
    hypotheses are also in ``<n>best_recog/``. ``log/`` holds the shards as ESPnet
    writes them, and their logs; those that are done are skipped. The shards of all jobs
    share the workers and their models.
    """
    # all of them before the first runs: a fault in the last one is no fault after hours
    planned = [(job.output, plan_shards(job, nj)) for job in jobs]
    ngpu = max(job.ngpu for job in jobs)
    sharding.run_shards(planned, decode_shard, nj=nj, ngpu=ngpu, parallel=parallel)
    counts = []
    for output, shards in planned:
        utterances: list[str] = []
        for shard in shards:
            (table,) = shard.tables.values()
            utterances.extend(table)
        folders = [Path(shard.folder) for shard in shards]
        merge_results(folders, output, sorted(utterances))
        counts.append(len(utterances))
    return counts


def plan_shards(job: Decoding, nj: int) -> list[Shard]:
    """Split the data dir into shards of similar lengths by ``utt2dur``, if it exists.

    Their number depends on ``nj`` only for small sets, so a run can be resumed with
    another ``nj``. Raises InputError: options do not fit, or files are not there.
    """
    _check_job(job)
    features = job.data / FEATURES
    # Kaldi's data dirs may have both: the audio is what a model with a frontend takes
    if features.is_file() and not (job.data / AUDIO).exists():
        name = FEATURES
        audio = read_table(features)
        seconds: Mapping[str, float] = {}
        refuse_commands(features, audio)
    else:
        name = AUDIO
        audio = audio_tables.read_audio_table(job.data)
        seconds = audio_tables.read_durations(job.data, audio)
    options = _list_options(job)
    files = [
        *espnet_options.list_option_values(options),
        _find_bpemodel(job.model_config),
    ]
    # models and configs by their contents, audio by size and time: it is much larger
    inputs = sharding.fingerprint(options, sharding.hash_files(files))
    wanted = max(SHARDS_PER_JOB * nj, math.ceil(len(audio) / UTTERANCES_PER_SHARD))
    count = min(len(audio), wanted)

    def rank(utterance: str) -> tuple[float, str]:
        return -seconds.get(utterance, 0.0), utterance

    # Similar lengths are searched together. The longest are first, so that no worker is
    # left with them at the end.
    split = sharding.split_evenly(sorted(audio, key=rank), count)
    shards = []
    for number, utterances in enumerate(split, start=1):
        table = {utterance: audio[utterance] for utterance in utterances}
        stamps = sharding.stamp_files(list_files(name, table))
        shard = Shard(
            name=str(number),
            folder=str(job.output / "log" / f"output.{number}"),
            log=str(job.output / "log" / f"decode.{number}.log"),
            options=options,
            tables={name: table},
            key=sharding.fingerprint(inputs, stamps),
        )
        shards.append(shard)
    return shards


def _check_job(job: Decoding) -> None:
    for path, what in (
        (job.model_config, "--model-config"),
        (job.model_file, "--model"),
        (job.config, "--config"),
        (job.lm_config, "--lm-config"),
        (job.lm_file, "--lm-file"),
    ):
        if path and not path.is_file():
            raise InputError(
                f"{path}: no such file ({what}): check the path, or run the stage "
                "that makes it"
            )
    if (job.lm_config is None) != (job.lm_file is None):
        raise InputError("a language model needs both --lm-config and --lm-file")
    if job.ngpu not in (0, 1):
        raise InputError(
            f"--ngpu must be 0 or 1, not {job.ngpu}: --nj makes several "
            "processes, each with one GPU"
        )
    espnet_options.refuse_options(job.options, OUR_OPTIONS)


def list_files(name: str, table: Mapping[str, str]) -> dict[str, str]:
    """Return the file behind each line of a table.

    Of ``feats.scp`` it is the ark file, without the position in it.
    """
    if name != FEATURES:
        return dict(table)
    files = {}
    for key, place in table.items():
        files[key], _, _ = place.rpartition(":")
    return files


def decode_shard(shard: Shard) -> None:
    """Decode one shard, in a worker process, with ESPnet's ``inference()``.

    The model is kept from shard to shard.
    """
    if shard.is_done():  # its worker died after it had finished
        return
    with sharding.attempt_shard(shard) as folder:
        from espnet_ext.upstream.own_process import prepare_process

        prepare_process()
        from espnet_ext.upstream import inference

        ((name, table),) = shard.tables.items()
        data = f"{folder / name},speech,{KINDS[name]}"
        own = ["--output_dir", str(folder), "--data_path_and_name_and_type", data]
        args = espnet_options.parse_options(
            inference.get_parser(), [*shard.options, *own, "--num_workers", "0"]
        )
        require_own_gpus(args.ngpu)

        def build_or_reuse(**options: Any) -> Any:
            speech2text = inference.reuse_speech2text(**options)
            # here, where the model is known, and before the first utterance is searched
            if name == AUDIO:
                config = vars(speech2text.asr_train_args)
                rate = espnet_options.read_sampling_rate(config)
                audio_tables.check_audio(table, rate)
            return speech2text

        try:
            with forbid_commands():  # the data dir may be anybody's
                inference.inference(args, build_or_reuse)
        except InputError:
            raise
        # Headers were checked: the samples of a file may still be broken.
        except Exception:
            if name == AUDIO:
                audio_tables.check_audio(table, decode=True)
            raise


def merge_results(
    folders: Sequence[Path],
    output: Path,
    utterances: Sequence[str],
) -> None:
    """Merge ESPnet's ``<n>best_recog/<name>`` of several folders into ``output``.

    Lines are sorted by utterance. The best hypotheses become ``output/<name>``; if
    there are others, ``<n>best_recog/`` there holds all of them.
    """
    names: set[Path] = set()
    for folder in folders:
        for path in folder.glob("*best_recog/*"):
            names.add(path.relative_to(folder))
    if not names:
        raise InputError(
            f"{output}: no hypotheses: look at the logs in {output / 'log'}"
        )
    several = any(name.parts[0] != BEST for name in names)
    for name in sorted(names):
        lines: dict[str, str] = {}
        for folder in folders:
            if (folder / name).exists():
                lines |= _read_lines(folder / name)
        targets = []
        if name.parts[0] == BEST:
            target = output / name.name
            targets.append(target)
            # a search may end with fewer than nbest hypotheses, but has a best one
            if name.name.startswith(("text", "token", "score")):
                _require_all(lines, utterances, target)
            if name.name == "score":
                _refuse_nan(lines, target)
        if several:
            targets.append(output / name)
        merged = "".join(f"{lines[key]}\n" for key in sorted(lines))
        for target in targets:
            with atomic_write(target) as file:
                file.write(merged)


def _read_lines(path: Path) -> dict[str, str]:
    """Read a table of ESPnet's as utterance -> its whole line.

    Lines are copied unchanged, since the blanks of an empty hypothesis matter.
    """
    rows = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    lines = {}
    for row in rows:
        utterance, _, _ = row.partition(" ")
        lines[utterance] = row
    return lines


def _require_all(
    lines: Mapping[str, str],
    utterances: Sequence[str],
    path: Path,
) -> None:
    missing = [utterance for utterance in utterances if utterance not in lines]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} of {len(utterances)} utterances have no "
            f"hypothesis, the first is {missing[0]}: "
            f"remove {path.parent / 'log'} and decode again"
        )


def _refuse_nan(scores: Mapping[str, str], path: Path) -> None:
    """Refuse NaN: such hypotheses are empty or nonsense, and look like any other."""
    bad = []
    for utterance, row in scores.items():
        _, _, score = row.partition(" ")
        if "nan" in score:
            bad.append(utterance)
    if bad:
        raise InputError(
            f"{path}: the model scores {len(bad)} of {len(scores)} utterances "
            f"with NaN, the first is {bad[0]}: listen to it; if it is in order, use "
            "another checkpoint"
        )


def _list_options(job: Decoding) -> tuple[str, ...]:
    given = {
        "--config": job.config,
        "--asr_train_config": job.model_config,
        "--asr_model_file": job.model_file,
        "--lm_train_config": job.lm_config,
        "--lm_file": job.lm_file,
        "--ngpu": job.ngpu,
    }
    options: list[str] = []
    for name, value in given.items():
        if value is not None:
            options += [name, str(value)]
    return (*options, *job.options)


def _find_bpemodel(config: Path) -> str | None:
    """Return the file of the model's word pieces that a config names.

    The config may hold thousands of tokens: its line is found without parsing YAML.
    """
    for line in config.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == "bpemodel":
            return value.strip(" \"'")
    return None

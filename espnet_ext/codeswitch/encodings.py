"""The outputs of a trained encoder for whole data dirs, in ark files.

Decoders are trained on them.
"""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.arks import split_into_shards, write_arks
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.work import shards as sharding
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.parallel import Place

FRAMES = "frames"  # beside the ark of each shard
SHAPES = "shape"
_RECORDINGS_OF_A_SHARD = 200


def write_encodings(
    data: str | Path,
    output: str | Path,
    config: Path,
    model: Path,
    *,
    nj: int = 1,
    parallel: Place | None = None,
) -> int:
    """Write ``feats.scp``, ``text``, ``utt2spk`` and ``shape`` for a data dir.

    Returns the number of utterances. ``config`` and ``model`` are those of the ESPnet
    ASR model whose encoder it is; the data dir has no ``segments``. Each utterance is
    encoded by itself, since padding changes what convolutions see. Shards that are done
    are skipped.
    """
    audio = audio_tables.read_audio_table(data)
    output = Path(output).absolute()
    compute = partial(encode_utterances, config=str(config), model=str(model))
    # By their contents: a checkpoint that was trained again has the same path.
    settings = sharding.hash_files([str(config), str(model)])
    shards = split_into_shards(
        audio, output / "arks", compute, (settings,), _RECORDINGS_OF_A_SHARD
    )
    positions = write_arks(shards, nj=nj, parallel=parallel, describe="encodings")
    shapes: dict[str, str] = {}
    for shard in shards:
        shapes |= read_table(Path(shard.folder) / FRAMES)
    write_table(output / SHAPES, dict(sorted(shapes.items())))
    for name in ("text", "utt2spk"):
        if (Path(data) / name).exists():
            shutil.copyfile(Path(data) / name, output / name)
    # Last, since a step that finds it takes the folder as done.
    write_table(output / "feats.scp", positions)
    say(f"{len(positions)} utterances -> {output / 'feats.scp'}")
    return len(positions)


def encode_utterances(
    audio: Mapping[str, str],
    folder: Path,
    config: str,
    model: str,
) -> dict[str, np.ndarray]:
    """Encode the utterances of one shard, (T, D) each, in a worker process.

    Their shapes are written to its folder.
    """
    import torch

    network, rate = _load_model(config, model)
    audio_tables.check_audio(audio, rate)
    matrices = {}
    with torch.inference_mode():
        for name, path in audio.items():
            samples = torch.from_numpy(read_samples(name, AudioSpan(path), rate))
            # One at a time: in a batch, padding changes what convolutions see.
            encoded, _ = network.encode(samples[None], torch.tensor([len(samples)]))
            matrices[name] = encoded[0].numpy()
    write_table(
        folder / FRAMES,
        {name: f"{len(matrix)},{matrix.shape[1]}" for name, matrix in matrices.items()},
    )
    return matrices


@keep_last
def _load_model(config: str, model: str):  # type: ignore[no-untyped-def]
    """Load the model; return it with its sampling rate in Hz."""
    from espnet_ext.upstream.checkpoint import strict_loading
    from espnet_ext.upstream.own_process import prepare_process

    # Before ESPnet is imported, whose models know our plugins only after it.
    prepare_process()
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.upstream.options import read_sampling_rate

    with strict_loading():
        network, options = ASRTask.build_model_from_file(config, model, "cpu")
    rate = read_sampling_rate(vars(options))
    if rate is None:
        raise InputError(
            f"{config}: frontend '{options.frontend}' has no sampling rate: set "
            "fs in its options"
        )
    return network.eval(), rate

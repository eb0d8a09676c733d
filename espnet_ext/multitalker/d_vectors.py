"""d-vectors of a data dir's recordings, computed once for training, which else computes them in every epoch."""

import functools
from collections.abc import Mapping
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.data.kaldi import write_table
from espnet_ext.data.utterance_audio import AudioSpan, read_samples
from espnet_ext.errors import InputError
from espnet_ext.work import shards as work
from espnet_ext.work.arks import ark_shards, write_arks
from espnet_ext.work.yaml_files import read_yaml

_RECORDINGS_OF_A_SHARD = 200
_RECORDINGS_AT_ONCE = 16


def read_options(config: Path) -> dict[str, Any]:
    """The options of ``speaker_encoder: d_vectors`` in a training config.

    Raises:
        InputError: no such file, or another speaker encoder.
    """
    settings = read_yaml(config)
    if settings.get("speaker_encoder") != "d_vectors":
        raise InputError(
            f"{config}: speaker_encoder is {settings.get('speaker_encoder')}: only d_vectors can be computed before"
        )
    return dict(settings.get("speaker_encoder_conf") or {})


def write_d_vectors(
    data: str | Path, output: str | Path, options: Mapping[str, Any], *, nj: int = 1, parallel: Path | None = None
) -> int:
    """Write ``<output>/d_vectors.scp`` for all recordings of a data dir: matrices (windows, 256).

    Shards that are done, from the same audio and options, are skipped. Returns the number of recordings.

    Args:
        data: a data dir; only ``wav.scp`` is read.
        output: a folder.
        options: of :class:`espnet_ext.encoder.d_vectors.DVectorEncoder`.
        nj: processes.
        parallel: YAML of a Dask cluster, see :func:`espnet_ext.work.parallel.map_shards`.

    Raises:
        InputError: no data dir, or bad audio; the message names the recording.
    """
    audio = work.read_audio_table(data)
    compute = functools.partial(compute_d_vectors, options=dict(options))
    folder = Path(output).absolute() / "d_vectors"
    shards = ark_shards(audio, folder, compute, (dict(options),), _RECORDINGS_OF_A_SHARD)
    table = write_arks(shards, nj=nj, parallel=parallel, describe="d-vectors")
    write_table(Path(output) / "d_vectors.scp", table)
    return len(table)


def compute_d_vectors(audio: Mapping[str, str], stem: str, options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """d-vectors of the recordings of one shard, (windows, 256) each (in a worker process)."""
    import torch

    from espnet_ext.encoder.d_vectors import RATE, DVectorEncoder

    encoder = DVectorEncoder(**options)
    matrices = {}
    for names in batched(audio, _RECORDINGS_AT_ONCE):
        samples = [torch.from_numpy(read_samples(name, AudioSpan(audio[name]), RATE)) for name in names]
        lengths = torch.tensor([len(each) for each in samples])
        vectors, windows, _ = encoder(torch.nn.utils.rnn.pad_sequence(samples, batch_first=True), lengths)
        for name, row, count in zip(names, vectors.numpy(), windows.tolist(), strict=True):
            matrices[name] = row[:count]
    return matrices

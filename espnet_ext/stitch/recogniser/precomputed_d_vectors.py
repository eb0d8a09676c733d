"""d-vectors of a data dir's recordings, computed once.

Otherwise training computes them in every epoch.
"""

import functools
from collections.abc import Mapping
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import say
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.arks import split_into_shards, write_arks
from espnet_ext.kaldi.tables import write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.parallel import Place

_RECORDINGS_OF_A_SHARD = 200
_RECORDINGS_AT_ONCE = 16


def write_d_vectors(
    data: str | Path,
    output: str | Path,
    options: Mapping[str, Any],
    *,
    nj: int = 1,
    parallel: Place | None = None,
    ngpu: int = 0,
) -> int:
    """Write ``<output>/d_vectors.scp`` of a data dir's recordings; return their number.

    A recording's matrix is (windows, 256). Training reads them as data ``d_vectors`` of
    type ``kaldi_ark``. Shards that are done, from the same audio and options
    (``speaker_encoder_conf``), are skipped; ``parallel`` is that of
    :func:`espnet_ext.work.parallel.map_shards`, and with ``ngpu`` 1 worker processes
    take a GPU each in turn. Raises InputError for bad audio, by recording.

    Training reads them as data ``d_vectors`` of type ``kaldi_ark``. Shards that are
    done, from the same audio and options (``speaker_encoder_conf``), are skipped;
    ``parallel`` is that of
    :func:`espnet_ext.work.parallel.map_shards`, and with ``ngpu`` 1 worker processes
        take a GPU each in turn. Raises
    Raises InputError for bad audio, by recording.
    """
    # The network is not trained, so that its output of a recording never changes.
    audio = audio_tables.read_audio_table(data)
    compute = functools.partial(compute_d_vectors, options=dict(options), ngpu=ngpu)
    folder = Path(output).absolute() / "d_vectors"
    shards = split_into_shards(
        audio, folder, compute, (dict(options),), _RECORDINGS_OF_A_SHARD
    )
    table = write_arks(
        shards, nj=nj, ngpu=ngpu, parallel=parallel, describe="d-vectors"
    )
    write_table(Path(output) / "d_vectors.scp", table)
    say(f"{len(table)} recordings -> {Path(output) / 'd_vectors.scp'}")
    return len(table)


def compute_d_vectors(
    audio: Mapping[str, str], folder: Path, options: Mapping[str, Any], ngpu: int = 0
) -> dict[str, np.ndarray]:
    """Compute d-vectors of one shard's recordings, (windows, 256) each.

    It runs in a worker process.
    """
    import torch

    from espnet_ext.stitch.recogniser.d_vectors import RATE, DVectorEncoder

    place = choose_device(ngpu)
    encoder = DVectorEncoder(**options).to(place)
    matrices = {}
    for names in batched(audio, _RECORDINGS_AT_ONCE):
        samples = [
            torch.from_numpy(read_samples(name, AudioSpan(audio[name]), RATE))
            for name in names
        ]
        lengths = torch.tensor([len(each) for each in samples])
        batch = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
        vectors, windows, _ = encoder(batch.to(place), lengths.to(place))
        rows = vectors.cpu().numpy()
        for name, row, count in zip(names, rows, windows.tolist(), strict=True):
            matrices[name] = row[:count]  # without the padding of the batch
    return matrices

"""Speed perturbation that makes new voices (Ko et al., Interspeech 2015).

A model that learns to distinguish speakers takes a speaker at another speed for a new
one (Yamamoto et al. 2019).
"""

from collections.abc import Sequence
from functools import partial
from itertools import batched
from pathlib import Path

import soundfile

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import (
    DataDir,
    format_seconds,
    read_data_dir,
    write_tables,
)
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.work.parallel import map_shards

RATE = 16000  # Hz
LIMITS = (0.5, 2.0)
_UTTERANCES_OF_A_SHARD = 200


def perturb_speed(
    data: str | Path, factors: Sequence[float], output: str | Path, *, nj: int = 1
) -> None:
    """Write the utterances of a data dir at other speeds, as those of new speakers.

    The data dir has audio of 16 kHz, and ``text``.

    The output is a data dir, with the audio in ``audio/`` and ids that begin with
    ``sp<factor>-``. A factor of 1.1 is 10 % faster and higher; InputError for one that
    is 1, far from it, or given twice.
    """
    slowest, fastest = LIMITS
    for factor in factors:
        is_new = factor != 1 and list(factors).count(factor) == 1
        if not is_new or not slowest <= factor <= fastest:
            raise InputError(
                f"speed {factor}: give factors from {slowest} to {fastest} "
                "other than 1, each once"
            )
    source = read_data_dir(data)
    spans = read_spans(data)
    if source.text is None:
        raise InputError(f"{data}: no text: make the data dir with its transcripts")
    folder = Path(output).resolve() / "audio"
    folder.mkdir(parents=True, exist_ok=True)
    work: list[tuple[str, AudioSpan, float]] = []
    utt2spk = {}
    text = {}
    for factor in factors:
        prefix = f"sp{factor}-"  # as Kaldi's utils/perturb_data_dir_speed.sh names them
        for key, span in spans.items():
            work.append((prefix + key, span, factor))
        for key, speaker in source.utt2spk.items():
            utt2spk[prefix + key] = prefix + speaker
        for key, words in source.text.items():
            text[prefix + key] = words
    shards = list(batched(work, _UTTERANCES_OF_A_SHARD))
    seconds: dict[str, float] = {}
    for durations in map_shards(
        partial(_write_shard, folder=folder), shards, nj=nj, describe="speed"
    ):
        seconds |= durations
    made = DataDir(
        wav_scp={key: str(folder / f"{key}.flac") for key in seconds},
        utt2spk=utt2spk,
        text=text,
        utt2dur={key: format_seconds(value) for key, value in seconds.items()},
    )
    write_tables(made, Path(output))
    say(
        f"{len(made.utt2spk)} utterances, {len(set(made.utt2spk.values()))} "
        f"speakers -> {output}"
    )


def _write_shard(
    shard: Sequence[tuple[str, AudioSpan, float]], folder: Path
) -> dict[str, float]:
    """Write the audio of a shard (in a worker process).

    Return the seconds of each utterance.
    """
    import soxr

    seconds = {}
    for key, span, factor in shard:
        # Samples that are said to be of a higher rate last for less time, and all
        # frequencies in them are higher.
        samples = soxr.resample(read_samples(key, span, RATE), RATE * factor, RATE)
        soundfile.write(folder / f"{key}.flac", samples, RATE, subtype="PCM_16")
        seconds[key] = len(samples) / RATE
    return seconds

"""Mixtures cut as windows cut recordings, from which a recogniser learns to hear the middle of an utterance too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import batched
from pathlib import Path

import numpy as np

from espnet_ext.data.audio_files import save_audio
from espnet_ext.data.data_dir import DataDir, format_seconds, read_data_dir, write_tables
from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.data.utterance_audio import AudioSpan, read_samples
from espnet_ext.errors import InputError
from espnet_ext.multitalker.mixture_plan import serialise
from espnet_ext.multitalker.mixtures import SAMPLING_RATE
from espnet_ext.multitalker.turns import Turn, by_recording, read_turns, word_spans
from espnet_ext.work.parallel import map_shards

_SHARD = 200


@dataclass(frozen=True)
class Cut:
    """A stretch of a mixture, from ``start`` to ``end`` in seconds, and what is said in it."""

    start: float
    end: float
    turns: Sequence[Turn]


@dataclass(frozen=True)
class CutShard:
    """Stretches of mixtures that one worker writes: name -> audio file, start and end in seconds."""

    name: str
    spans: Mapping[str, AudioSpan]
    folder: str


def draw_span(seconds: float, window: float, random: np.random.Generator) -> tuple[float, float]:
    """A stretch of a recording as long as a window, or shorter at the recording's end: start and end in seconds.

    Starts are drawn evenly, up to half a window before the end.
    """
    start = float(random.uniform(0.0, max(0.0, seconds - window / 2)))
    return start, min(seconds, start + window)


def cut_turns(turns: Sequence[Turn], start: float, end: float) -> list[Turn]:
    """What is said between two times: the words whose middle lies there. Turns without any are left out.

    Where only a turn's times are known, its words share them by their letters.
    """
    kept = []
    for turn in turns:
        middles = [(first + last) / 2 for first, last in word_spans(turn)]
        words = tuple(word for word, middle in zip(turn.words, middles, strict=True) if start <= middle < end)
        if words:
            kept.append(replace(turn, words=words))
    return kept


def cut_mixtures(
    data: str | Path, output: str | Path, *, window: float, share: float = 1.0, seed: int = 0, nj: int = 1
) -> int:
    """Write a data dir of a set's mixtures, of which a share are cut; the others stay as they are.

    Args:
        data: a set's folder, see :mod:`espnet_ext.multitalker.mixtures`.
        output: a folder for ``wav.scp``, ``text``, ``text_speakers``, ``utt2spk``, durations and audio.
        window: length of a cut in seconds.
        share: of the mixtures that are cut, 0 to 1; one in whose stretch nobody says a word is not.
        seed: of the choice.
        nj: processes.

    Returns:
        How many are cut.

    Raises:
        InputError: a missing or bad set, a window of no length, or a share that is none.
    """
    if window <= 0 or not 0 <= share <= 1:
        raise InputError(f"cuts of {window} s of a share of {share}: give a window above 0 and a share from 0 to 1")
    mixtures = read_data_dir(data)
    speakers = read_table(Path(data) / "text_speakers")
    seconds = {name: float(value) for name, value in mixtures.utt2dur.items()}
    cuts = _draw_cuts(seconds, _timed_turns(data, mixtures.utterances), window, share, np.random.default_rng(seed))
    audio = Path(output).resolve() / "audio"
    _write_audio({name: AudioSpan(mixtures.wav_scp[name], cut.start, cut.end) for name, cut in cuts.items()}, audio, nj)
    wavs, text = dict(mixtures.wav_scp), dict(mixtures.text or {})
    for name, cut in cuts.items():
        wavs[name], seconds[name] = str(audio / f"{name}.flac"), cut.end - cut.start
        text[name], heard = serialise(cut.turns)
        speakers[name] = " ".join(heard)
    write_table(Path(output) / "text_speakers", speakers)
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    own = {name: name for name in wavs}
    write_tables(DataDir(wav_scp=wavs, utt2spk=own, text=text, utt2dur=durations, reco2dur=durations), output)
    return len(cuts)


def _timed_turns(data: str | Path, mixtures: Iterable[str]) -> dict[str, list[Turn]]:
    """The turns of each mixture, in the order of ``mixtures``; InputError if they have no times."""
    references = Path(data) / "references.json"
    turns = by_recording(read_turns(references))
    for name in mixtures:
        if name not in turns or any(turn.start is None for turn in turns[name]):
            raise InputError(f"{references}: {name} has no turns with times: make the set again")
    return {name: turns[name] for name in mixtures}


def _draw_cuts(
    seconds: Mapping[str, float],
    turns: Mapping[str, Sequence[Turn]],
    window: float,
    share: float,
    random: np.random.Generator,
) -> dict[str, Cut]:
    """Which mixtures are cut, and what is heard of them."""
    cuts = {}
    for name, own in turns.items():
        chosen, (start, end) = random.uniform() < share, draw_span(seconds[name], window, random)
        kept = cut_turns(own, start, end)
        if chosen and kept:
            cuts[name] = Cut(start, end, kept)
    return cuts


def _write_audio(spans: Mapping[str, AudioSpan], folder: Path, nj: int) -> None:
    """Write each stretch as ``<folder>/<name>.flac``."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = [
        CutShard(names[0], {name: spans[name] for name in names}, str(folder)) for names in batched(spans, _SHARD)
    ]
    map_shards(write_cuts, shards, nj=nj, describe="cuts")


def write_cuts(shard: CutShard) -> None:
    """Write the audio of a shard's stretches (in a worker process)."""
    for name, span in shard.spans.items():
        samples = read_samples(name, span, SAMPLING_RATE)
        save_audio(Path(shard.folder) / f"{name}.flac", samples, SAMPLING_RATE, subtype="PCM_16")

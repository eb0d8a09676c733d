"""Sets of multi-talker mixtures on disk: whole, or cut as windows cut recordings.

A set's folder holds ``audio/<mixture>.flac``; ``references.json`` (SegLST); and a data dir whose utterances are the
mixtures: ``wav.scp``, ``text`` (serialised, with ``<sc>``), ``text_speakers`` (the speaker of each part of ``text``),
``utt2spk`` (each mixture is its own speaker), ``utt2dur``; ``mixed_utterances``: the ids of what was mixed. A set that
is mixed on the fly has recipes, ``audio/<mixture>.mix``, in place of audio.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import batched
from pathlib import Path

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, read_data_dir, write_tables
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import MIX, AudioSpan, MixedPart, mix_parts, read_samples, write_mix
from espnet_ext.multitalker.mixture_plan import (
    ON_THE_FLY,
    UNITS,
    Mixture,
    MixtureSettings,
    SourceUtterance,
    count_set,
    count_turns,
    counts_line,
    plan_mixtures,
)
from espnet_ext.text.turns import Turn, by_recording, read_turns, serialise, word_spans, write_turns
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import map_shards

SAMPLING_RATE = 16000
_MIXTURES_OF_A_SHARD, _CUTS_OF_A_SHARD = 50, 200


@dataclass(frozen=True)
class MixtureShard:
    """Mixtures that one worker writes."""

    name: str
    mixtures: tuple[Mixture, ...]
    folder: str
    on_the_fly: bool


def make_mixtures(
    data: Sequence[str | Path],
    output: Path,
    *,
    name: str,
    settings: MixtureSettings,
    leave_out: Path | None = None,
    nj: int = 1,
) -> None:
    """Make a set of mixtures from data dirs, and print its counts.

    Args:
        data: the data dir of each part of the corpus.
        output: the set's folder.
        name: of the set; begins the mixtures' ids, with ``-`` for blanks.
        settings: how they are made.
        leave_out: a table of speakers and enrolment utterances, which are not mixed.
        nj: processes.

    Raises:
        InputError: bad data dirs, or audio that cannot be mixed.
    """
    left_out = enrolment_utterances(leave_out) if leave_out else frozenset()
    sources = [source for folder in data for source in read_sources(folder, left_out)]
    mixtures = plan_mixtures(sources, settings, prefix=name.replace(" ", "-"), nj=nj)
    if settings.audio:
        write_mixtures(mixtures, output, on_the_fly=settings.audio == ON_THE_FLY, nj=nj)
    else:
        write_references(mixtures, output)
    print(counts_line(name, count_set(mixtures)))


def read_sources(folder: str | Path, left_out: Collection[str] = frozenset()) -> list[SourceUtterance]:
    """Read the utterances of a data dir, one audio file each, without those to leave out.

    Raises:
        InputError: no such data dir, or one with segments, without texts, or without durations.
    """
    data = read_data_dir(folder)
    if data.segments is not None or data.text is None or data.utt2dur is None:
        raise InputError(
            f"{folder}: each utterance to mix must have its own audio file, its text and its duration in utt2dur: cut "
            "the recordings first"
        )
    lengths, texts = data.utt2dur, data.text
    return [
        SourceUtterance(key, data.utt2spk[key], data.wav_scp[key], float(lengths[key]), tuple(texts[key].split()))
        for key in data.utterances
        if key not in left_out
    ]


def enrolment_utterances(path: str | Path) -> frozenset[str]:
    """The utterances in a table of speakers and the utterances that they are enrolled with."""
    return frozenset(utterance for row in read_table(path).values() for utterance in row.split())


def mix(mixture: Mixture) -> np.ndarray:
    """The samples of a mixture, see :func:`espnet_ext.kaldi.utterance_audio.mix_parts`: float32, (samples,), 16 kHz."""
    return mix_parts(mixture.name, mixture.seconds, mixed_parts(mixture), SAMPLING_RATE)


def mixed_parts(mixture: Mixture) -> list[MixedPart]:
    """What is added up."""
    return [MixedPart(part.source.id, part.source.path, part.start, part.source.seconds) for part in mixture.parts]


def write_shard(shard: MixtureShard) -> int:
    """Write the audio of a shard's mixtures (in a worker process). Returns their number.

    A mixture that is one utterance is not written again: it is the utterance's own file.
    """
    for mixture in (mixture for mixture in shard.mixtures if not is_copy(mixture)):
        path = _audio_path(shard.folder, mixture, shard.on_the_fly)
        if shard.on_the_fly:
            write_mix(path, mixture.seconds, mixed_parts(mixture), SAMPLING_RATE)
        else:
            save_audio(path, mix(mixture), SAMPLING_RATE, subtype="PCM_16")
    return len(shard.mixtures)


def _audio_path(folder: str | Path, mixture: Mixture, on_the_fly: bool) -> str:
    if is_copy(mixture):
        return mixture.parts[0].source.path
    return str(Path(folder) / "audio" / f"{mixture.name}{MIX if on_the_fly else '.flac'}")


def is_copy(mixture: Mixture) -> bool:
    """Is the mixture a single utterance, whose audio can be read as it is?"""
    return len(mixture.parts) == 1 and mixture.parts[0].start == 0 and _readable(mixture.parts[0].source.path)


def _readable(path: str) -> bool:
    """A file, not a command, in a format that ESPnet reads by its path."""
    return path.endswith((".flac", ".wav"))


def write_mixtures(mixtures: Sequence[Mixture], folder: str | Path, *, on_the_fly: bool = False, nj: int = 1) -> None:
    """Write a set of mixtures into a folder (see this module's description); the tables last.

    Args:
        on_the_fly: write recipes in place of audio, which are mixed whenever they are read.

    Raises:
        InputError: as :func:`mix`.
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    shards = [
        MixtureShard(group[0].name, tuple(group), str(folder), on_the_fly)
        for group in batched(mixtures, _MIXTURES_OF_A_SHARD)
    ]
    map_shards(write_shard, shards, nj=nj, describe="mixtures")
    text = write_references(mixtures, folder)
    seconds = {mixture.name: format_seconds(mixture.seconds) for mixture in mixtures}
    data = DataDir(
        wav_scp={mixture.name: _audio_path(folder, mixture, on_the_fly) for mixture in mixtures},
        utt2spk={mixture.name: mixture.name for mixture in mixtures},
        text=text,
        utt2dur=seconds,
        reco2dur=seconds,
    )
    write_tables(data, folder)


def write_references(mixtures: Sequence[Mixture], folder: str | Path) -> dict[str, str]:
    """Write what needs no audio: a set's references and tables of text, ``text`` last.

    Returns:
        The serialised text of each mixture.
    """
    folder = Path(folder)
    write_turns(folder / "references.json", [turn for mixture in mixtures for turn in mixture.turns])
    serialised = {mixture.name: serialise(mixture.turns) for mixture in mixtures}
    write_table(folder / "text_speakers", {name: " ".join(speakers) for name, (_, speakers) in serialised.items()})
    write_table(
        folder / "mixed_utterances",
        {mixture.name: " ".join(part.source.id for part in mixture.parts) for mixture in mixtures},
    )
    text = {name: text for name, (text, _) in serialised.items()}
    write_table(folder / "text", text)
    return text


def write_counts(data: Path, output: Path) -> None:
    """Count a set as P4's Table 1 does: ``<output>/<count>.json``, where the recipe's table looks for them.

    Args:
        data: the set's folder; ``references.json`` is read.
        output: a folder.
    """
    counts = asdict(count_turns(read_turns(data / "references.json")))
    for name, unit in UNITS.items():
        write_json(output / f"{name}.json", {"value": round(counts[name], 4), "unit": unit})
    print(f"{data}: {counts['samples']} mixtures -> {output}")


@dataclass(frozen=True)
class MixtureCut:
    """A piece of a mixture, from ``start`` to ``end`` in seconds, and what is said in it."""

    start: float
    end: float
    turns: Sequence[Turn]


@dataclass(frozen=True)
class CutShard:
    """Pieces of mixtures that one worker writes: name -> audio file, start and end in seconds."""

    name: str
    spans: Mapping[str, AudioSpan]
    folder: str


def cut_mixtures(
    data: str | Path, output: str | Path, *, window: float, share: float = 1.0, seed: int = 0, nj: int = 1
) -> int:
    """Write a data dir of a set's mixtures in which a share of them is cut; the others stay as they are.

    From such a set a recogniser learns to hear the middle of an utterance too, where windows begin.

    Args:
        data: a set's folder.
        output: a folder for ``wav.scp``, ``text``, ``text_speakers``, ``utt2spk``, durations and audio.
        window: length of a cut in seconds.
        share: share of the mixtures that are cut, 0 to 1; a mixture without a word in its piece is not cut.
        seed: of the choice.
        nj: processes.

    Returns:
        How many are cut.

    Raises:
        InputError: a missing or bad set, a window without length, or a share outside 0 to 1.
    """
    if window <= 0 or not 0 <= share <= 1:
        raise InputError(f"cuts of {window} s of a share of {share}: give a window above 0 and a share from 0 to 1")
    mixtures = read_data_dir(data)
    speakers = read_table(Path(data) / "text_speakers")
    seconds = {name: float(value) for name, value in (mixtures.utt2dur or {}).items()}
    cuts = _draw_cuts(seconds, _timed_turns(data, mixtures.utterances), window, share, np.random.default_rng(seed))
    audio = Path(output).resolve() / "audio"
    _write_cuts({name: AudioSpan(mixtures.wav_scp[name], cut.start, cut.end) for name, cut in cuts.items()}, audio, nj)
    wavs, text = dict(mixtures.wav_scp), dict(mixtures.text or {})
    for name, cut in cuts.items():
        wavs[name], seconds[name] = str(audio / f"{name}.flac"), cut.end - cut.start
        text[name], heard = serialise(cut.turns)
        speakers[name] = " ".join(heard)
    write_table(Path(output) / "text_speakers", speakers)
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    own = {name: name for name in wavs}
    write_tables(DataDir(wav_scp=wavs, utt2spk=own, text=text, utt2dur=durations, reco2dur=durations), Path(output))
    print(f"{len(cuts)} of {len(wavs)} mixtures are cut -> {output}")
    return len(cuts)


def draw_span(seconds: float, window: float, random: np.random.Generator) -> tuple[float, float]:
    """A piece of a recording as long as a window, or shorter at the recording's end: start and end in seconds.

    Starts are drawn evenly, up to half a window before the end.
    """
    start = float(random.uniform(0.0, max(0.0, seconds - window / 2)))
    return start, min(seconds, start + window)


def cut_turns(turns: Sequence[Turn], start: float, end: float) -> list[Turn]:
    """What is said between two times: the words whose middle is there. Turns without any are left out."""
    kept = []
    for turn in turns:
        middles = [(first + last) / 2 for first, last in word_spans(turn)]
        words = tuple(word for word, middle in zip(turn.words, middles, strict=True) if start <= middle < end)
        if words:
            kept.append(replace(turn, words=words))
    return kept


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
) -> dict[str, MixtureCut]:
    """Which mixtures are cut, and what is heard of them."""
    cuts = {}
    for name, own in turns.items():
        chosen, (start, end) = random.uniform() < share, draw_span(seconds[name], window, random)
        kept = cut_turns(own, start, end)
        if chosen and kept:
            cuts[name] = MixtureCut(start, end, kept)
    return cuts


def _write_cuts(spans: Mapping[str, AudioSpan], folder: Path, nj: int) -> None:
    """Write each piece as ``<folder>/<name>.flac``."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = batched(spans, _CUTS_OF_A_SHARD)
    shards = [CutShard(names[0], {name: spans[name] for name in names}, str(folder)) for names in groups]
    map_shards(write_cut_shard, shards, nj=nj, describe="cuts")


def write_cut_shard(shard: CutShard) -> None:
    """Write the audio of a shard's pieces (in a worker process)."""
    for name, span in shard.spans.items():
        samples = read_samples(name, span, SAMPLING_RATE)
        save_audio(Path(shard.folder) / f"{name}.flac", samples, SAMPLING_RATE, subtype="PCM_16")

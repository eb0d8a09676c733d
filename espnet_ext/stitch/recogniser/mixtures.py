"""Sets of multi-talker mixtures on disk: whole, or cut as windows cut recordings.

A set's folder holds ``audio/<mixture>.flac``, or recipes ``.mix``; ``references.json``
(SegLST); and a data dir whose utterances are the mixtures, with serialised ``text``
(with ``<sc>``), ``text_speakers`` (the speaker of each part of it), ``utt2spk`` (each
mixture is its own) and ``mixed_utterances``, the ids of what was mixed.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import batched
from pathlib import Path

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import (
    DataDir,
    format_seconds,
    read_data_dir,
    write_tables,
)
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import (
    MIX,
    AudioSpan,
    MixedPart,
    add_up_parts,
    read_samples,
    write_mix,
)
from espnet_ext.stitch.recogniser.mixture_plan import (
    ON_THE_FLY,
    UNITS,
    Mixture,
    MixtureSettings,
    count_turns,
    plan_mixtures,
)
from espnet_ext.synthetic.overlap import SourceUtterance
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, group_by_recording, serialise
from espnet_ext.text.writing import write_segments
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import map_shards

SAMPLING_RATE = 16000  # Hz
_MIXTURES_OF_A_SHARD = 50
_CUTS_OF_A_SHARD = 200


def make_mixtures(
    data: Sequence[str | Path],
    output: Path,
    *,
    prefix: str,
    settings: MixtureSettings,
    leave_out: Path | None = None,
    nj: int = 1,
) -> None:
    """Make a set of mixtures from data dirs of a corpus, and print its counts.

    ``prefix`` begins the mixtures' ids, with ``-`` for blanks; ``leave_out`` is a table
    of speakers and enrolment utterances, which are not mixed. Raises InputError for bad
    data dirs, or audio that cannot be mixed.
    """
    left_out: set[str] = set()
    if leave_out:
        for row in read_table(leave_out).values():
            left_out.update(row.split())
    sources = []
    for folder in data:
        sources += read_sources(folder, left_out)
    mixtures = plan_mixtures(sources, settings, prefix=prefix.replace(" ", "-"))
    if settings.audio:
        write_mixtures(mixtures, output, on_the_fly=settings.audio == ON_THE_FLY, nj=nj)
    else:
        write_references(mixtures, output)
    counts = count_turns(turn for mixture in mixtures for turn in mixture.turns)
    say(
        f"{prefix}: {counts.samples:,} mixtures of {counts.mean_words:.0f} words "
        f"and {counts.mean_seconds:.1f} s each "
        f"({counts.hours:.1f} h in all), overlap {counts.overlap:.1f} %"
    )


def read_sources(
    folder: str | Path, left_out: Collection[str] = frozenset()
) -> list[SourceUtterance]:
    """Read the utterances of a data dir, one audio file each.

    Those to leave out are not among them.

    Raises InputError for a data dir with segments, without texts, or without durations.
    """
    data = read_data_dir(folder)
    if data.segments is not None or data.text is None or data.utt2dur is None:
        raise InputError(
            f"{folder}: each utterance to mix must have its own audio file, its "
            "text and its duration in utt2dur: cut "
            "the recordings first"
        )
    sources = []
    for key in data.utterances:
        if key in left_out:
            continue
        words = tuple(data.text[key].split())
        seconds = float(data.utt2dur[key])
        sources.append(
            SourceUtterance(key, data.utt2spk[key], data.wav_scp[key], seconds, words)
        )
    return sources


def add_up_mixture(mixture: Mixture) -> np.ndarray:
    """Add up a mixture: float32, (samples,), 16 kHz.

    See :func:`espnet_ext.kaldi.utterance_audio.add_up_parts`.
    """
    return add_up_parts(
        mixture.name, mixture.seconds, _list_mixed_parts(mixture), SAMPLING_RATE
    )


def _list_mixed_parts(mixture: Mixture) -> list[MixedPart]:
    return [
        MixedPart(part.source.id, part.source.path, part.start, part.source.seconds)
        for part in mixture.parts
    ]


def _find_audio(folder: Path, mixture: Mixture, on_the_fly: bool) -> Path:
    """Return where a mixture is written.

    One that is a single utterance is the utterance's own file.
    """
    first = mixture.parts[0]
    own = first.source.path
    # ESPnet reads these two as they are; other formats have to be converted.
    is_readable = own.endswith((".flac", ".wav"))
    if len(mixture.parts) == 1 and first.start == 0 and is_readable:
        return Path(own)
    suffix = MIX if on_the_fly else ".flac"
    return folder / "audio" / f"{mixture.name}{suffix}"


def _write_audio(mixtures: Sequence[Mixture], folder: Path, on_the_fly: bool) -> None:
    """Write the audio of some mixtures (in a worker process)."""
    for mixture in mixtures:
        path = _find_audio(folder, mixture, on_the_fly)
        # An utterance's own file is there already.
        if path.parent != folder / "audio":
            continue
        if on_the_fly:
            write_mix(path, mixture.seconds, _list_mixed_parts(mixture), SAMPLING_RATE)
        else:
            save_audio(path, add_up_mixture(mixture), SAMPLING_RATE, subtype="PCM_16")


def write_mixtures(
    mixtures: Sequence[Mixture],
    folder: str | Path,
    *,
    on_the_fly: bool = False,
    nj: int = 1,
) -> None:
    """Write a set of mixtures into a folder (see this module's description).

    The tables are written last: where they are, the audio is complete.
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    write = partial(_write_audio, folder=folder, on_the_fly=on_the_fly)
    map_shards(
        write, list(batched(mixtures, _MIXTURES_OF_A_SHARD)), nj=nj, describe="mixtures"
    )
    text = write_references(mixtures, folder)
    paths = {}
    seconds = {}
    for mixture in mixtures:
        paths[mixture.name] = str(_find_audio(folder, mixture, on_the_fly))
        seconds[mixture.name] = mixture.seconds
    _write_data_dir(paths, text, seconds, folder)


def _write_data_dir(
    paths: dict[str, str], text: dict[str, str], seconds: dict[str, float], folder: Path
) -> None:
    """Write the tables of a set of recordings.

    Each is one utterance, and its own speaker.
    """
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    # Kaldi asks for one speaker an utterance, and a mixture has several.
    own = {name: name for name in paths}
    data = DataDir(
        wav_scp=paths, utt2spk=own, text=text, utt2dur=durations, reco2dur=durations
    )
    write_tables(data, folder)


def write_references(mixtures: Sequence[Mixture], folder: str | Path) -> dict[str, str]:
    """Write what needs no audio: references and tables of text, ``text`` last.

    Return each mixture's text.
    """
    folder = Path(folder)
    turns: list[Segment] = []
    text = {}
    speakers = {}
    mixed = {}
    for mixture in mixtures:
        name = mixture.name
        turns += mixture.turns
        text[name], own = serialise(mixture.turns)
        speakers[name] = " ".join(own)
        mixed[name] = " ".join(part.source.id for part in mixture.parts)
    write_segments(folder / "references.json", turns)
    write_table(folder / "text_speakers", speakers)
    write_table(folder / "mixed_utterances", mixed)
    # Last: where it is, the other tables are complete.
    write_table(folder / "text", text)
    return text


def write_counts(data: Path, output: Path) -> None:
    """Count a set's ``references.json`` as P4's Table 1 does.

    The table reads ``<output>/<count>.json``.
    """
    counts = asdict(count_turns(read_segments(data / "references.json")))
    for name, unit in UNITS.items():
        count = {"value": round(counts[name], 4), "unit": unit}
        write_json(output / f"{name}.json", count)
    say(f"{data}: {counts['samples']} mixtures -> {output}")


def cut_mixtures(
    data: str | Path,
    output: str | Path,
    *,
    window: float,
    share: float = 1.0,
    seed: int = 0,
    nj: int = 1,
) -> int:
    """Write a data dir of a set's mixtures, some cut to ``window`` seconds.

    ``share``, 0 to 1, says how many. From such a set a recogniser learns to hear the
    middle of an utterance too, where windows begin. A mixture without a word in its
    piece is not cut. Returns how many are; raises InputError for a bad set, window or
    share.
    """
    if window <= 0 or not 0 <= share <= 1:
        raise InputError(
            f"cuts of {window} s of a share of {share}: give a window above 0 and "
            "a share from 0 to 1"
        )
    mixtures = read_data_dir(data)
    output = Path(output)
    audio = output.resolve() / "audio"
    references = Path(data) / "references.json"
    turns = group_by_recording(read_segments(references))
    # Those that are not cut stay as they are, with the audio where it is.
    speakers = read_table(Path(data) / "text_speakers")
    paths = dict(mixtures.wav_scp)
    text = dict(mixtures.text or {})
    seconds = {name: float(value) for name, value in (mixtures.utt2dur or {}).items()}
    random = np.random.default_rng(seed)
    cuts = []  # names with the spans of whole mixtures' audio
    for name in mixtures.utterances:
        if name not in turns or any(not turn.has_span for turn in turns[name]):
            raise InputError(
                f"{references}: {name} has no turns with times: make the set again"
            )
        # Both are drawn for each mixture: with another share the pieces are the same.
        is_chosen = random.uniform() < share
        start, end = draw_span(seconds[name], window, random)
        inside = cut_turns(turns[name], start, end)
        if is_chosen and inside:
            cuts.append((name, AudioSpan(paths[name], start, end)))
            paths[name] = str(audio / f"{name}.flac")
            seconds[name] = end - start
            text[name], own = serialise(inside)
            speakers[name] = " ".join(own)
    audio.mkdir(parents=True, exist_ok=True)
    shards = list(batched(cuts, _CUTS_OF_A_SHARD))
    map_shards(partial(_write_cuts, folder=audio), shards, nj=nj, describe="cuts")
    write_table(output / "text_speakers", speakers)
    _write_data_dir(paths, text, seconds, output)
    say(f"{len(cuts)} of {len(paths)} mixtures are cut -> {output}")
    return len(cuts)


def _write_cuts(spans: Sequence[tuple[str, AudioSpan]], folder: Path) -> None:
    """Write each piece as ``<folder>/<name>.flac`` (in a worker process)."""
    for name, span in spans:
        samples = read_samples(name, span, SAMPLING_RATE)
        path = folder / f"{name}.flac"
        save_audio(path, samples, SAMPLING_RATE, subtype="PCM_16")


def draw_span(
    seconds: float, window: float, random: np.random.Generator
) -> tuple[float, float]:
    """Draw a piece of a recording, start and end in seconds.

    The piece is as long as a window, or shorter at the recording's end. Starts are
    drawn evenly, up to half a window before the end.
    """
    start = float(random.uniform(0.0, max(0.0, seconds - window / 2)))
    return start, min(seconds, start + window)


def cut_turns(turns: Sequence[Segment], start: float, end: float) -> list[Segment]:
    """Return what is said between two times: the words whose middle is there.

    Turns without any are left out.
    """
    inside = []
    for turn in turns:
        words = []
        for word, (first, last) in zip(turn.words, turn.word_spans, strict=True):
            if start <= (first + last) / 2 < end:
                words.append(word)
        if words:
            inside.append(replace(turn, words=tuple(words)))
    return inside

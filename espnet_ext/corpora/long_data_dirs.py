"""Prepare Kaldi data dirs of long recordings, which become the utterances.

What is said in ``segments`` is joined. Words have times, from a file ``ctm`` in the
data dir or from a model that aligns.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from espnet_ext.corpora import checks
from espnet_ext.corpora.audio import Align, read_ctm_words
from espnet_ext.corpora.data_dirs import read_part
from espnet_ext.corpora.long_recordings import (
    keep_long_enough,
    make_data_dir,
    write_timed,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, parse_segment
from espnet_ext.text.words import Word

TIMES = "ctm"  # in a data dir: when its words are said


def prepare_long_data_dirs(
    corpus_dir: str | Path,
    output_dir: str | Path,
    part: str,
    *,
    trained_on: bool = False,
    align: Align | None = None,
    **options: Any,
) -> dict[str, DataDir]:
    """Check a data dir, and write one whose utterances are whole recordings.

    Of one that is ``trained_on`` the times of its words are written too, as
    :func:`espnet_ext.corpora.audio.prepare_audio` does, for the corpus ``data``.
    """
    folder = Path(os.path.abspath(corpus_dir))
    output = Path(output_dir)
    place = folder / part
    listed = output / f"data_{part}_faults.txt"
    faults = checks.Faults(place, listed, checks.Options(**options))
    data = read_part(folder, part, faults)
    texts = join_texts(data)
    files = {name: Path(data.wav_scp[name]) for name in texts}
    sounds = checks.check_audio_files(faults, {part: files})[part]
    if not trained_on:
        faults.settle({part: len(sounds)})
        kept = {name: texts[name] for name in sounds}
        made = {part: make_data_dir(files, kept, sounds)}
        checks.write_parts(made, output, faults.options)
        return made
    times = place / TIMES
    if not times.is_file() and align is None:
        raise InputError(
            f"{times}: no such file: training needs the times of the words: add it, or "
            "give --aligner DIR (a trained model with CTC)"
        )
    spoken: dict[str, list[Word]] = {}
    if times.is_file():
        spoken = read_ctm_words(times)
        for name in texts:
            if name not in spoken:
                faults.add(part, name, f"no words of {name} in {times}")
    sounds = faults.select_faultless(
        part, keep_long_enough(faults, part, sounds, files)
    )
    words: Iterable[tuple[str, list[Word] | str]]
    # Times that are there are better than a model's.
    if align and not times.is_file():
        said = {name: texts[name].split() for name in sounds}
        words = align(said, files, output / f"data_{part}_alignment")
    else:
        words = [(name, spoken[name]) for name in sounds]
    return write_timed("data", part, words, sounds, files, faults, output)


def join_texts(data: DataDir) -> dict[str, str]:
    """Join what is said in each recording, its segments in the order of starts."""
    texts = data.text or {}
    # Without segments, utterances are recordings.
    if data.segments is None:
        return dict(texts)
    parts: dict[str, list[tuple[float, str]]] = {}
    for utterance, value in data.segments.items():
        if utterance in texts:
            segment = parse_segment(value)
            said = (segment.start, texts[utterance])
            parts.setdefault(segment.recording, []).append(said)
    joined = {}
    for recording in sorted(parts):
        in_order = sorted(parts[recording])
        joined[recording] = " ".join(text for _, text in in_order)
    return joined

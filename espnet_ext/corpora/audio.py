"""Any folder of recordings, with the times of their words (ctm), or with transcripts
that a model aligns.

Training leaves out regions where word times overlap, or where ``<unk>`` or another mark
that is no noise stands.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.corpora import checks, tedlium
from espnet_ext.corpora.long_recordings import Transcript, long_enough, write_timed
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.formats import read_ctm
from espnet_ext.text.word_times import DROPPED
from espnet_ext.text.words import Word

# Words of recordings, their audio files, a folder for the work -> the words with their
# times, or why there are none.
Align = Callable[
    [Mapping[str, Sequence[str]], Mapping[str, Path], Path],
    Iterator[tuple[str, list[Word] | str]],
]

_MARK = re.compile(r"<.*>|\[.*\]|\{.*\}")
_SILENCE = ("SIL", "!SIL")  # Kaldi's and HTK's, which have no brackets
_NOISES = (
    "eps",
    "sil",
    "silence",
    "noise",
    "laughter",
    "laugh",
    "breath",
    "cough",
    "click",
    "applause",
    "music",
)


def prepare_audio(
    corpus_dir: str | Path,
    output_dir: str | Path,
    words: str | Path = "",
    text: str | Path = "",
    part: str = "train",
    *,
    align: Align | None = None,
    **options: Any,
) -> dict[str, DataDir]:
    """Check recordings, and write their data dir (``part``) and the table of their word
    times.

    ``words`` is the ctm file. Otherwise ``text`` is the transcripts, and ``align``
    finds the times of their words, such as
    :func:`espnet_ext.longform.alignment.recordings.align_recordings` with a model. The
    output is as that of
    :func:`espnet_ext.corpora.spotify.prepare_spotify`, with ``audio`` in place of
        ``spotify``.
    """
    if bool(words) == bool(text) or bool(text) != bool(align):
        raise InputError(
            "recordings need --words CTM, or --text FILE and --aligner DIR (a "
            "model with CTC)"
        )
    corpus, output = (
        checks.require_corpus(corpus_dir, "the recordings"),
        Path(output_dir),
    )
    faults = checks.Faults(
        corpus, output / f"audio_{part}_faults.txt", checks.Options(**options)
    )
    there = list(checks.own_files(corpus, faults))
    files, unread = checks.audio_files(there, part, faults), checks.unread_files(there)
    spoken, ends = (
        (word_times(Path(words)), {})
        if words
        else _transcripts(Path(text), part, faults)
    )
    for key in sorted(spoken.keys() - files.keys()):
        hint = ": leave out the ending there" if Path(key).stem in files else ""
        faults.add(
            part, key, unread.get(key) or f"no audio of {key} ({words or text}){hint}"
        )
    for key in sorted(files.keys() - spoken.keys()):
        faults.add(part, key, f"no words of {key} ({files[key]})")
    sounds = checks.check_audio_files(faults, {part: faults.sound(part, files)})[part]
    sounds = long_enough(faults, part, sounds, files, ends)
    found: Iterable[tuple[str, list[Word] | str]] = [
        (key, spoken[key]) for key in sounds
    ]
    if align:
        said = {key: [word.text for word in spoken[key]] for key in sounds}
        found = align(said, files, output / f"audio_{part}_alignment")
    return write_timed("audio", part, found, sounds, files, faults, output)


def _transcripts(
    path: Path, part: str, faults: checks.Faults
) -> tuple[dict[str, list[Word]], dict[str, float]]:
    """Read the words of each recording, without times; and when the last of them end,
    where files of segments say.
    """
    if path.is_dir():
        found = _texts_of_files(path, part, faults)
    else:
        found = {key: Transcript(text) for key, text in read_table(path).items()}
    words = {
        key: [Word(word, 0.0, 0.0) for word in transcript.text.split()]
        for key, transcript in found.items()
    }
    return words, {key: transcript.end for key, transcript in found.items()}


def _texts_of_files(
    folder: Path, part: str, faults: checks.Faults
) -> dict[str, Transcript]:
    """Read transcripts; those that cannot be read are faults of their recordings."""
    every = (
        file
        for file in sorted(checks.own_files(folder, faults))
        if file.suffix in (".txt", ".stm")
    )
    files = checks.by_id(every, part, faults)
    if not files:
        raise InputError(f"{folder}: there is no <recording>.txt or .stm in it")
    found = {}
    for key, file in files.items():
        try:
            found[key] = (
                tedlium.read_stm(file)
                if file.suffix == ".stm"
                else Transcript("\n".join(checks.read_lines(file)))
            )
        except InputError as error:
            faults.add(part, key, str(error))
    return found


def word_times(path: Path) -> dict[str, list[Word]]:
    """Read the words of each recording of a CTM, each channel's in the order of the
    file, merged by their starts.

    Marks of silence and noise are left out; words that are not known are called
    ``<dropped>``.
    """
    recordings: dict[str, dict[str, list[Word]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for word in read_ctm(path):
        own = recordings[word.recording][word.channel]
        if not _is_silence(word.text):
            own.append(
                Word(
                    DROPPED if _MARK.fullmatch(word.text) else word.text,
                    word.start,
                    word.end,
                )
            )
    return {
        recording: list(heapq.merge(*channels.values(), key=lambda word: word.start))
        for recording, channels in recordings.items()
    }


def _is_silence(text: str) -> bool:
    mark = _MARK.fullmatch(text)
    return text in _SILENCE or (mark is not None and text[1:-1].lower() in _NOISES)

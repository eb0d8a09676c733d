"""Prepare any folder of recordings, with times of their words or with transcripts.

Times are in ctm files; a model aligns transcripts. Training leaves out regions where
word times overlap, or where ``<unk>`` or another mark that is no noise stands.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from espnet_ext.corpora import checks, tedlium
from espnet_ext.corpora.long_recordings import Transcript, keep_long_enough, write_timed
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
    """Check recordings, and write their data dir and the table of their word times.

    ``words`` is the ctm file. Otherwise ``text`` is the transcripts, and ``align``
    finds the times of their words, such as
    :func:`espnet_ext.longform.alignment.recordings.align_recordings` with a model. The
    output is as that of :func:`espnet_ext.corpora.spotify.prepare_spotify`, with
    ``audio`` in place of ``spotify``.
    """
    has_one = bool(words) != bool(text)
    if not has_one or bool(text) != bool(align):
        raise InputError(
            "recordings need --words CTM, or --text FILE and --aligner DIR (a "
            "model with CTC)"
        )
    corpus = checks.require_corpus(corpus_dir, "the recordings")
    output = Path(output_dir)
    listed = output / f"audio_{part}_faults.txt"
    faults = checks.Faults(corpus, listed, checks.Options(**options))
    there = list(checks.find_own_files(corpus, faults))
    files = checks.find_audio_files(there, part, faults)
    unsupported = checks.list_unsupported_files(there)
    ends: dict[str, float] = {}
    if words:
        spoken = read_ctm_words(Path(words))
    else:
        spoken, ends = _read_transcripts(Path(text), part, faults)
    for key in sorted(spoken.keys() - files.keys()):
        hint = ": leave out the ending there" if Path(key).stem in files else ""
        fault = f"no audio of {key} ({words or text}){hint}"
        faults.add(part, key, unsupported.get(key) or fault)
    for key in sorted(files.keys() - spoken.keys()):
        faults.add(part, key, f"no words of {key} ({files[key]})")
    faultless = faults.select_faultless(part, files)
    sounds = checks.check_audio_files(faults, {part: faultless})[part]
    sounds = keep_long_enough(faults, part, sounds, files, ends)
    # Only now is anything aligned, which takes hours: all faults are known by then.
    found: Iterable[tuple[str, list[Word] | str]] = [
        (key, spoken[key]) for key in sounds
    ]
    if align:
        said = {key: [word.text for word in spoken[key]] for key in sounds}
        found = align(said, files, output / f"audio_{part}_alignment")
    return write_timed("audio", part, found, sounds, files, faults, output)


def _read_transcripts(
    path: Path,
    part: str,
    faults: checks.Faults,
) -> tuple[dict[str, list[Word]], dict[str, float]]:
    """Read the words of each recording, without times, and when the last of them end.

    Ends are in seconds, 0 unless the file has segments.
    """
    if path.is_dir():
        found = _read_text_files(path, part, faults)
    else:
        found = {key: Transcript(text) for key, text in read_table(path).items()}
    words = {}
    ends = {}
    for key, transcript in found.items():
        words[key] = [Word(word, 0.0, 0.0) for word in transcript.text.split()]
        ends[key] = transcript.end
    return words, ends


def _read_text_files(
    folder: Path,
    part: str,
    faults: checks.Faults,
) -> dict[str, Transcript]:
    """Read transcripts; those that cannot be read are faults of their recordings."""
    # Other files, such as audio, may lie beside them.
    every = sorted(checks.find_own_files(folder, faults))
    texts = [file for file in every if file.suffix in (".txt", ".stm")]
    files = checks.map_by_id(texts, part, faults)
    if not files:
        raise InputError(f"{folder}: there is no <recording>.txt or .stm in it")
    found = {}
    for key, file in files.items():
        try:
            if file.suffix == ".stm":
                found[key] = tedlium.read_stm(file)
            else:
                found[key] = Transcript("\n".join(checks.read_lines(file)))
        except InputError as error:
            faults.add(part, key, str(error))
    return found


def read_ctm_words(path: Path) -> dict[str, list[Word]]:
    """Read the words of each recording of a CTM, in the order of their starts.

    Within a channel the file's order stays, so that times that go back are found. Marks
    of silence and noise are left out; words that are not known are called
    ``<dropped>``.
    """
    recordings: dict[str, dict[str, list[Word]]] = {}
    for word in read_ctm(path):
        # A recording of silence alone has an entry, too.
        channels = recordings.setdefault(word.recording, {})
        own = channels.setdefault(word.channel, [])
        if _is_silence(word.text):
            continue
        # <unk> and the like were spoken, but a training must not learn such marks.
        text = DROPPED if _MARK.fullmatch(word.text) else word.text
        own.append(Word(text, word.start, word.end))
    merged = {}
    for recording, channels in recordings.items():
        # A merge and no sort, which would hide times that go back within a channel.
        words = heapq.merge(*channels.values(), key=attrgetter("start"))
        merged[recording] = list(words)
    return merged


def _is_silence(text: str) -> bool:
    mark = _MARK.fullmatch(text)
    return text in _SILENCE or (mark is not None and text[1:-1].lower() in _NOISES)

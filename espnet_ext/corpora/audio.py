"""Any folder of recordings, with the times of their words or with transcripts that a model aligns.

Recordings ``<recording>.wav`` (or ``flac``, ``mp3``, ``ogg``, ``opus``, ``sph``), of any length, rate and number of
channels, are in folders of any depth; others, such as ``m4a``, must be converted. Word times are a file in Kaldi's ctm
format, ``recording channel start duration word``, in seconds. In it, ``<eps>``, ``<sil>``, ``SIL`` and noises such as
``[noise]`` and ``[laughter]`` are no words. Where it has ``<unk>`` or another mark in brackets, something is said and
nobody knows what: training leaves that region out, as it does where word times overlap.

Transcripts are a file with lines ``recording transcript``, or a folder with a file of each recording:
``<recording>.txt`` or, as in TED-LIUM, ``<recording>.stm``; or supervisions of Lhotse, ``.jsonl`` or ``.jsonl.gz``,
which ``lhotse prepare`` makes of many corpora. Of these, recordings that they do not name are left out.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from espnet_ext.corpora import long_recordings, tedlium
from espnet_ext.corpora.checks import (
    Faults,
    audio_files,
    check_audio_files,
    own_files,
    read_lines,
    require_corpus,
    unread_files,
    write_parts,
)
from espnet_ext.corpora.long_recordings import DroppedRegions, spoken_text
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.formats import read_ctm
from espnet_ext.text.word_times import DROPPED, write_word_times
from espnet_ext.text.words import Word

# Words of recordings, their audio files, a folder for the work -> the words with their times, or why there are none.
Align = Callable[[Mapping[str, Sequence[str]], Mapping[str, Path], Path], Iterator[tuple[str, list[Word] | str]]]

SUPERVISIONS = (".jsonl", ".jsonl.gz")
_MARK = re.compile(r"<.*>|\[.*\]|\{.*\}")
_SILENCE = ("SIL", "!SIL")  # Kaldi's and HTK's, which have no brackets
_NOISES = ("eps", "sil", "silence", "noise", "laughter", "laugh", "breath", "cough", "click", "applause", "music")


def prepare_audio(
    corpus_dir: str | Path,
    output_dir: str | Path,
    words: str | Path = "",
    text: str | Path = "",
    part: str = "train",
    *,
    align: Align | None = None,
    names: Mapping[str, str] | None = None,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, DataDir]:
    """Check recordings, and write their data dir and the table of their word times.

    Args (others: see :func:`espnet_ext.corpora.librispeech.prepare_librispeech`):
        corpus_dir: The folder of the recordings.
        output_dir: Also gets ``audio_words_<part>.words`` and ``.scp``, ``audio_<part>_faults.txt`` and
            ``audio_<part>_dropped.txt`` as of :func:`espnet_ext.corpora.spotify.prepare_spotify`.
        words: The ctm file, in which times may overlap as there, or:
        text: The transcripts, and
        align: What finds the times of their words, such as
            :func:`espnet_ext.longform.alignment.recordings.align_recordings` with a model.
        part: The part's name.
    """
    if bool(words) == bool(text) or bool(text) != bool(align):
        raise InputError("recordings need --words CTM, or --text FILE and --aligner DIR (a model with CTC)")
    corpus, output = require_corpus(corpus_dir, "the recordings"), Path(output_dir)
    faults = Faults(corpus, output / f"audio_{part}_faults.txt", skip_faulty)
    there = list(own_files(corpus, faults))
    files, unread = audio_files(there, part, faults), unread_files(there)
    spoken, ends = (word_times(Path(words)), {}) if words else _transcripts(Path(text), part, faults)
    if Path(text).name.endswith(SUPERVISIONS):
        files = _named(files, spoken, faults)
    for key in sorted(spoken.keys() - files.keys()):
        hint = ": leave out the ending there" if Path(key).stem in files else ""
        faults.add(part, key, unread.get(key) or f"no audio of {key} ({words or text}){hint}")
    for key in sorted(files.keys() - spoken.keys()):
        faults.add(part, key, f"no words of {key} ({files[key]})")
    whole = faults.sound(part, files)
    sounds = check_audio_files(faults, {part: whole}, None, check_audio, num_jobs)[part]
    sounds = long_recordings.long_enough(faults, part, sounds, files)
    sounds = long_recordings.long_as_transcribed(faults, part, sounds, ends)
    output.mkdir(parents=True, exist_ok=True)

    dropped = DroppedRegions(corpus, output / f"audio_{part}_dropped.txt", skip_faulty)
    texts: dict[str, str] = {}

    def timed() -> Iterator[tuple[str, list[Word]]]:
        found: Iterable[tuple[str, list[Word] | str]] = [(key, spoken[key]) for key in sounds]
        if align:
            said = {key: [word.text for word in spoken[key]] for key in sounds}
            found = align(said, files, output / f"audio_{part}_alignment")
        for key, own in found:
            kept = own if isinstance(own, str) else dropped.drop(key, own, sounds[key].seconds)
            if isinstance(kept, str):
                faults.add(part, key, f"{key}: {kept}")
            else:
                texts[key] = spoken_text(kept)
                yield key, kept
        faults.settle({part: len(faults.sound(part, sounds))})  # in here, so that nothing is written if it refuses
        dropped.settle()

    write_word_times(output / f"audio_words_{part}", timed())
    good = faults.sound(part, sounds)
    recordings = [long_recordings.Transcribed(key, files[key], texts[key]) for key in good]
    data = {part: long_recordings.data_of(recordings, good)}
    write_parts(data, output, names)
    return data


def _named(files: Mapping[str, Path], spoken: Mapping[str, object], faults: Faults) -> dict[str, Path]:
    """Keep the files of recordings that are spoken of; a manifest may be that of a part of a corpus."""
    for key in files.keys() - spoken.keys():
        faults.ignore("recordings that the manifest does not name", key)
    return {key: path for key, path in files.items() if key in spoken}


def _transcripts(path: Path, part: str, faults: Faults) -> tuple[dict[str, list[Word]], dict[str, float]]:
    """Read the words of each recording, without times; and when the last of them end, where files of segments say."""
    ends: dict[str, float] = {}
    if path.name.endswith(SUPERVISIONS):
        texts = long_recordings.supervision_texts(path)
    elif path.is_dir():
        texts, ends = _texts_of_files(path, part, faults)
    else:
        texts = read_table(path)
    return {key: [Word(word, 0.0, 0.0) for word in text.split()] for key, text in texts.items()}, ends


def _texts_of_files(folder: Path, part: str, faults: Faults) -> tuple[dict[str, str], dict[str, float]]:
    """Read transcripts, and the ends of those in stm; those that cannot be read are faults of their recordings."""
    every = (file for file in sorted(own_files(folder, faults)) if file.suffix in (".txt", ".stm"))
    files = long_recordings.by_id(every, part, faults)
    if not files:
        raise InputError(f"{folder}: there is no <recording>.txt or .stm in it")
    texts, ends = {}, {}
    for key, file in files.items():
        try:
            if file.suffix == ".stm":
                texts[key], _, ends[key] = tedlium.read_stm(file)
            else:
                texts[key] = "\n".join(read_lines(file))
        except InputError as error:
            faults.add(part, key, str(error))
    return texts, ends


def word_times(path: Path) -> dict[str, list[Word]]:
    """Read the words of each recording of a CTM, each channel's in the order of the file, merged by their starts.

    Marks of silence and noise are left out; words that are not known are called ``<dropped>``.
    """
    recordings: dict[str, dict[str, list[Word]]] = defaultdict(lambda: defaultdict(list))
    for word in read_ctm(path):
        own = recordings[word.recording][word.channel]
        if not _is_silence(word.text):
            own.append(Word(DROPPED if _MARK.fullmatch(word.text) else word.text, word.start, word.end))
    return {
        recording: list(heapq.merge(*channels.values(), key=lambda word: word.start))
        for recording, channels in recordings.items()
    }


def _is_silence(text: str) -> bool:
    mark = _MARK.fullmatch(text)
    return text in _SILENCE or (mark is not None and text[1:-1].lower() in _NOISES)

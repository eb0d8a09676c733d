"""Any folder of recordings, with the times of their words or with transcripts that a model aligns.

Recordings ``<recording>.wav`` (or ``flac``, ``mp3``, ``ogg``, ``opus``, ``sph``), of any length, rate and number of
channels, are in folders of any depth. Word times are a file in Kaldi's ctm format, ``recording channel start duration
word``, in seconds. Transcripts are a file with lines ``recording transcript``, or a folder with a file of each
recording: ``<recording>.txt`` or, as in TED-LIUM, ``<recording>.stm``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from espnet_ext.corpora import long_recordings, tedlium
from espnet_ext.corpora.checks import audio_files, check_audio_files, require_corpus
from espnet_ext.corpora.faults import Faults, faults_file, own_files
from espnet_ext.data.ctm import read_ctm
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.data.manifests import Manifests, write_parts
from espnet_ext.data.transcript import Word
from espnet_ext.errors import InputError
from espnet_ext.longform.word_times import word_faults, write_word_times


def prepare_audio(
    corpus_dir: str | Path,
    output_dir: str | Path,
    words: str | Path = "",
    text: str | Path = "",
    aligner: str | Path = "",
    part: str = "train",
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, Manifests]:
    """Check recordings, and make their Lhotse manifests and the table of their word times.

    Args:
        corpus_dir: The folder of the recordings.
        output_dir: Where ``audio_recordings_<part>.jsonl.gz``, ``audio_supervisions_<part>.jsonl.gz``,
            ``audio_words_<part>.words`` and ``audio_words_<part>.scp`` go, and ``audio_<part>_faults.txt``.
        words: The ctm file, or:
        text: The transcripts, and
        aligner: the folder of an ESPnet model with CTC, ``config.yaml`` and a checkpoint, that finds their words.
        part: The part's name in the names of the files.
        num_jobs, check_audio, skip_faulty: See :func:`espnet_ext.corpora.librispeech.prepare_librispeech`.

    Raises:
        InputError: Neither or both of ``words`` and ``text``, or no ``aligner`` for ``text``. More recordings than
            ``skip_faulty`` allows have no words, decreasing or overlapping times, corrupt audio, or a transcript that
            does not agree with what is heard.
    """
    if bool(words) == bool(text) or bool(text) != bool(aligner):
        raise InputError("recordings need --words CTM, or --text FILE and --aligner DIR (a model with CTC)")
    corpus, output = require_corpus(corpus_dir, "the recordings"), Path(output_dir)
    faults = Faults(corpus, faults_file(output, f"audio_{part}"), skip_faulty)
    files = audio_files(own_files(corpus, faults), part, faults)
    spoken = word_times(Path(words)) if words else _untimed(_texts(Path(text), faults))
    for key in sorted(spoken.keys() - files.keys()):
        faults.add(part, key, f"no audio of {key} ({words or text})")
    for key in sorted(files.keys() - spoken.keys()):
        faults.add(part, key, f"no words of {key} ({files[key]})")
    whole = faults.sound(part, files)
    sounds = check_audio_files(faults, {part: list(whole.items())}, None, check_audio, num_jobs)[part]
    output.mkdir(parents=True, exist_ok=True)

    def timed() -> Iterator[tuple[str, list[Word]]]:
        found = {key: spoken[key] for key in sounds}
        for key, own in found.items() if words else _aligned(found, files, Path(aligner), part, faults):
            fault = word_faults(own, sounds[key].seconds) if own else "no word in it"
            if fault:
                faults.add(part, key, f"{key}: {fault}")
            else:
                yield key, own
        if not faults.sound(part, sounds):
            faults.settle({part: 0})  # refuses: each recording has a fault

    write_word_times(output / f"audio_words_{part}", timed())
    good = faults.sound(part, sounds)
    faults.settle({part: len(good)})
    recordings = [
        long_recordings.Transcribed(key, files[key], " ".join(word.text for word in spoken[key])) for key in good
    ]
    manifests = {part: long_recordings.make_manifests(corpus, recordings, good)}
    write_parts("audio", manifests, output)
    return manifests


def _texts(path: Path, faults: Faults) -> dict[str, str]:
    """The transcripts of a file, or of the files in a folder."""
    if not path.is_dir():
        return read_table(path)
    readers = {".txt": long_recordings.transcript_text, ".stm": lambda file: tedlium.read_stm(file)[0]}
    files = [file for file in sorted(own_files(path, faults)) if file.suffix in readers]
    if not files:
        raise InputError(f"{path}: there is no <recording>.txt or .stm in it")
    return {file.stem: readers[file.suffix](file) for file in files}


def _untimed(texts: Mapping[str, str]) -> dict[str, list[Word]]:
    return {key: [Word(word, 0.0, 0.0) for word in text.split()] for key, text in texts.items()}


def word_times(path: Path) -> dict[str, list[Word]]:
    """The words of each recording of a CTM, in the order of the file.

    Raises:
        InputError: no such file, or a line that is not of the format.
    """
    recordings: dict[str, list[Word]] = defaultdict(list)
    for word in read_ctm(path):
        recordings[word.recording].append(Word(word.text, word.start, word.end))
    return dict(recordings)


def _aligned(
    spoken: Mapping[str, list[Word]], files: Mapping[str, Path], aligner: Path, part: str, faults: Faults
) -> Iterator[tuple[str, list[Word]]]:
    """The words of each recording with the times that a model finds; those it cannot align are faults."""
    from espnet_ext.longform.alignment import load_aligner  # takes seconds

    model = load_aligner(aligner)
    for key, words in spoken.items():
        try:
            own = model.words(files[key], [word.text for word in words])
        except InputError as error:
            faults.add(part, key, f"{key}: {error}")
            continue
        yield key, [Word(word.text, word.start, word.end) for word in own]

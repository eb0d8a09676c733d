"""Spotify podcasts (Clifton et al. 2020): some 100,000 episodes with automatic transcripts and word times.

The layout, as the dataset was handed out until 2023::

    podcasts-transcripts/<c>/<c>/show_<id>/<episode>.json    <c>: the first two characters of the show's id
    podcasts-audio/<c>/<c>/show_<id>/<episode>.ogg           44.1 kHz, two channels
    metadata.tsv                                             one line for each episode

The transcripts are Google's: ``results``, each of which holds ``alternatives[0].words`` with times like ``"12.300s"``.
The last result repeats all words, each with a speaker tag, and is left out. The folders may lie deeper (the archives
have ``podcasts-no-audio-13GB`` and ``podcasts-audio-only-2TB`` above them).

Word times go to a ctm file, not into the manifests: the complete dataset has 600 million words.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from pathlib import Path
from typing import Any

from espnet_ext.corpora import long_recordings
from espnet_ext.corpora.checks import check_audio_files, require_corpus
from espnet_ext.corpora.faults import Faults, faults_file
from espnet_ext.data.manifests import Manifests, write_parts
from espnet_ext.errors import InputError
from espnet_ext.longform.word_times import TimedWord, word_faults, write_word_times
from espnet_ext.work.json_text import parse_json

TRANSCRIPTS, AUDIO = "podcasts-transcripts", "podcasts-audio"
METADATA = "metadata.tsv"
_EPISODES_AT_ONCE = 64  # their words are in memory together
_DEPTH = 3  # folders between the corpus folder and these, at most


def prepare_spotify(
    corpus_dir: str | Path,
    output_dir: str | Path | None = None,
    part: str = "train",
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, Manifests]:
    """Check podcasts, and make their Lhotse manifests and the table of their word times.

    Args:
        corpus_dir: The folder described above.
        output_dir: Where ``spotify_recordings_<part>.jsonl.gz``, ``spotify_supervisions_<part>.jsonl.gz``,
            ``spotify_words_<part>.ctm`` and ``spotify_words_<part>.scp`` go (None: nowhere), and
            ``spotify_<part>_faults.txt`` with all faults, if there are any.
        part: The part's name in the names of the files.
        num_jobs: Threads.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.
        skip_faulty: The share of the episodes that may be faulty, and is then left out.

    Raises:
        InputError: A folder is missing. More episodes than ``skip_faulty`` allows have no audio or transcript, a
            transcript without times, overlapping or decreasing times, or corrupt audio.
    """
    corpus = require_corpus(corpus_dir, f"{TRANSCRIPTS}, {AUDIO} and {METADATA}")
    faults = Faults(corpus, faults_file(output_dir, f"spotify_{part}"), skip_faulty)
    transcripts, audio = (
        long_recordings.files_by_id(_find(corpus, name), f"*/*/show_*/*.{end}", faults)
        for name, end in ((TRANSCRIPTS, "json"), (AUDIO, "ogg"))
    )
    listed = read_metadata(_find(corpus, METADATA))
    for id in sorted(listed - transcripts.keys()):
        faults.add(part, id, f"episode {id} of {METADATA} has no transcript")
    for id, path in transcripts.items():
        if id not in audio:
            faults.add(part, id, f"episode {id} has no audio ({path})")
        elif id not in listed:
            faults.add(part, id, f"episode {id} is not in {METADATA} ({path})")
    whole = faults.sound(part, {id: audio.get(id, path) for id, path in transcripts.items()})
    sounds = check_audio_files(faults, {part: list(whole.items())}, None, check_audio, num_jobs)[part]
    texts: dict[str, str] = {}

    def words() -> Iterator[tuple[str, list[TimedWord]]]:
        with ThreadPoolExecutor(num_jobs) as pool:
            for group in batched(faults.sound(part, sounds), _EPISODES_AT_ONCE):
                read = pool.map(lambda id: _read(transcripts[id], sounds[id].seconds), group)
                for id, result in zip(group, read, strict=True):
                    if isinstance(result, str):
                        faults.add(part, id, result)
                        continue
                    texts[id] = " ".join(word.text for word in result)
                    yield id, result

    for _ in words():  # nothing is written before all are known to be good, or bad ones to be few
        pass
    faults.settle({part: len(texts)})
    if output_dir is not None:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        write_word_times(Path(output_dir) / f"spotify_words_{part}", words())
    recordings = [long_recordings.Transcribed(id, audio[id], text) for id, text in texts.items()]
    manifests = {part: long_recordings.make_manifests(corpus, recordings, sounds)}
    if output_dir is not None:
        write_parts("spotify", manifests, Path(output_dir))
    return manifests


def _find(corpus: Path, name: str) -> Path:
    for depth in range(_DEPTH + 1):
        found = sorted(corpus.glob("/".join(["*"] * depth + [name])))
        if found:
            return found[0]
    raise InputError(
        f"{corpus}: there is no {name} in it: give the folder that holds {TRANSCRIPTS}, {AUDIO}, {METADATA}"
    )


def read_metadata(path: Path) -> set[str]:
    """The episodes that metadata.tsv lists, by the names of their files.

    Raises:
        InputError: It is no table with a column ``episode_filename_prefix``.
    """
    return set(long_recordings.listed(path, "episode_filename_prefix", "the podcasts' metadata", "\t"))


def _read(transcript: Path, seconds: float) -> list[TimedWord] | str:
    """The words of an episode that is this long, or its fault."""
    try:
        words = read_transcript(transcript)
    except InputError as error:
        return str(error)
    fault = word_faults(words, seconds)
    return f"{transcript}: {fault}" if fault else words


def read_transcript(path: Path) -> list[TimedWord]:
    """The words of a transcript with their times, in the order of the file; the last result is left out.

    Raises:
        InputError: Not a transcript in JSON, no word in it, or words without times.
    """
    try:
        results = parse_json(path.read_text(encoding="utf-8"))["results"]
        entries = _entries(results)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise InputError(f"{path}: not a transcript with results and alternatives: download it again") from None
    if not entries:
        raise InputError(f"{path}: the transcript holds no word")
    try:
        return [
            TimedWord(" ".join(entry["word"].split()), _seconds(entry["startTime"]), _seconds(entry["endTime"]))
            for entry in entries
        ]
    except (KeyError, ValueError, AttributeError):
        raise InputError(f"{path}: a transcript whose words have no times, or none like '12.300s'") from None


def _entries(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    spoken = [result["alternatives"][0].get("words", []) for result in results]
    if spoken and spoken[-1] and "speakerTag" in spoken[-1][0]:
        spoken.pop()
    return [entry for words in spoken for entry in words if entry["word"].strip()]


def _seconds(value: str) -> float:
    if not value.endswith("s"):
        raise ValueError(value)
    return float(value.removesuffix("s"))

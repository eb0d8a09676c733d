"""Rev16: 16 podcast episodes of Rev's transcription benchmark, those that Whisper's authors took (P5, section 3.1).

The layout is that of https://github.com/revdotcom/speech-datasets, folder ``rev16``, with the audio, which comes from
the addresses in its list, in ``media``::

    podcasts.csv                                         the episodes: File number, Show Title ...
    verbatim_transcripts/nlp_references/<number>.nlp     (or verbatim/<number>.nlp)
    media/<number>.mp3

Where there is no list, all 16 are wanted.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from espnet_ext.corpora import longform
from espnet_ext.corpora.manifest_files import write_parts
from espnet_ext.errors import InputError

if TYPE_CHECKING:  # Lhotse imports torch
    from lhotse import RecordingSet, SupervisionSet

# The file numbers of Radford et al., "Robust speech recognition via large-scale weak supervision", appendix A.2.
EPISODES = (3, 4, 9, 10, 11, 14, 17, 18, 20, 21, 23, 24, 26, 27, 29, 32)
PART = "test"
_TRANSCRIPTS = ("verbatim_transcripts/nlp_references", "verbatim")
_AUDIO = (".mp3", ".flac", ".wav")


def prepare_rev16(
    corpus_dir: str | Path, output_dir: str | Path | None = None, num_jobs: int = 1, check_audio: str = "auto"
) -> dict[str, dict[str, "RecordingSet | SupervisionSet"]]:
    """Check the corpus, and make its Lhotse manifests of the part ``test``.

    Args:
        corpus_dir: The folder described above.
        output_dir: Where ``rev16_recordings_test.jsonl.gz`` and ``..._supervisions_...`` go (None: nowhere).
        num_jobs: Threads.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.

    Raises:
        InputError: A folder, an episode's audio or its transcript is missing, or one of these is faulty.
    """
    corpus = longform.require_corpus(corpus_dir, "verbatim_transcripts and media")
    transcripts = next((corpus / name for name in _TRANSCRIPTS if (corpus / name).is_dir()), None)
    if transcripts is None:
        raise InputError(
            f"{corpus}: there is no {' or '.join(_TRANSCRIPTS)} in it: give the folder rev16 of Rev's data"
        )
    recordings = [
        longform.Transcribed(
            f"rev16-{number:02d}", _audio(corpus, number), longform.nlp_text(transcripts / f"{number}.nlp")
        )
        for number in _episodes(corpus / "podcasts.csv")
    ]
    manifests = {PART: longform.manifests_of(corpus, recordings, check_audio, num_jobs)}
    if output_dir is not None:
        write_parts("rev16", manifests, Path(output_dir))
    return manifests


def _episodes(path: Path) -> list[int]:
    if not path.is_file():
        return list(EPISODES)
    listed = longform.listed(path, "File number", "Rev16's list")
    return [number for number in EPISODES if str(number) in listed]


def _audio(corpus: Path, number: int) -> Path:
    for suffix in _AUDIO:
        path = corpus / "media" / f"{number}{suffix}"
        if path.is_file():
            return path
    raise InputError(f"{corpus / 'media'}: there is no {number}.mp3: get the episode that podcasts.csv names")

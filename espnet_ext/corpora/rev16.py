"""Rev16: 16 podcast episodes of Rev's transcription benchmark, the ones that Whisper's authors chose (P5, section 3.1).

The layout is that of https://github.com/revdotcom/speech-datasets, folder ``rev16``. The audio, from the addresses in
the list, is in ``media``::

    podcasts.csv                                         the episodes: File number, Show Title ...
    verbatim_transcripts/nlp_references/<number>.nlp     (or verbatim/<number>.nlp)
    media/<number>.mp3

Without a list, all 16 are expected; of a list that lacks some of them, those that it holds are taken, and a warning
names the others.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_ext.corpora import long_recordings
from espnet_ext.corpora.checks import Faults, require_corpus, write_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir

# The file numbers of Radford et al., "Robust speech recognition via large-scale weak supervision", appendix A.2.
EPISODES = (3, 4, 9, 10, 11, 14, 17, 18, 20, 21, 23, 24, 26, 27, 29, 32)
PART = "test"
_TRANSCRIPTS = ("verbatim_transcripts/nlp_references", "verbatim")
_AUDIO = (".mp3", ".flac", ".wav")


def prepare_rev16(
    corpus_dir: str | Path,
    output_dir: str | Path,
    *,
    complete: bool = True,
    names: Mapping[str, str] | None = None,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, DataDir]:
    """Check the corpus, and write the data dir of its part ``test``, whose utterances are whole episodes.

    Args (others: see :func:`espnet_ext.corpora.librispeech.prepare_librispeech`):
        corpus_dir: The folder described above.
        complete: Warn of episodes that the list lacks; False for synthetic corpora, which have fewer.
    """
    corpus = require_corpus(corpus_dir, "verbatim_transcripts and media")
    transcripts = next((corpus / name for name in _TRANSCRIPTS if (corpus / name).is_dir()), None)
    if transcripts is None:
        raise InputError(
            f"{corpus}: there is no {' or '.join(_TRANSCRIPTS)} in it: give the folder rev16 of Rev's data"
        )
    faults = Faults(corpus, Path(output_dir) / "rev16_faults.txt", skip_faulty)
    recordings = []
    numbers = _episodes(corpus / "podcasts.csv")
    if complete:
        _warn_of_missing(corpus / "podcasts.csv", numbers)
    for number in numbers:
        id = f"rev16-{number:02d}"
        try:
            audio = _audio(corpus, number)
            text = long_recordings.nlp_text(transcripts / f"{number}.nlp")
            recordings.append(long_recordings.Transcribed(id, audio, text))
        except InputError as error:
            faults.add(PART, id, str(error))
    data = long_recordings.checked_parts({PART: recordings}, faults, check_audio, num_jobs)
    write_parts(data, output_dir, names)
    return data


def _episodes(path: Path) -> list[int]:
    if not path.is_file():
        return list(EPISODES)
    listed = long_recordings.listed(path, "File number", "Rev16's list")
    numbers = [number for number in EPISODES if str(number) in listed]
    if not numbers:
        raise InputError(f"{path}: it lists none of the {len(EPISODES)} episodes of Rev16: download it again")
    return numbers


def _warn_of_missing(path: Path, numbers: Sequence[int]) -> None:
    missing = [str(number) for number in EPISODES if number not in numbers]
    if missing:
        print(
            f"warning: {path}: lists {len(numbers)} of the {len(EPISODES)} episodes, without {', '.join(missing)}: "
            "error rates are of these alone; complete the list, or delete it, to score all",
            flush=True,
        )


def _audio(corpus: Path, number: int) -> Path:
    for suffix in _AUDIO:
        path = corpus / "media" / f"{number}{suffix}"
        if path.is_file():
            return path
    raise InputError(f"{corpus / 'media'}: there is no {number}.mp3: download the episode that podcasts.csv names")

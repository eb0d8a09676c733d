"""Prepare Rev16, the part of Rev's benchmark that Whisper's authors chose (P5, 3.1).

The layout is that of the folder ``rev16`` of
https://github.com/revdotcom/speech-datasets: ``media/<number>.mp3``,
``verbatim_transcripts/nlp_references/<number>.nlp``, and ``podcasts.csv``, without
which all 16 are expected.
"""

from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import Faults, Options, require_corpus
from espnet_ext.corpora.long_recordings import (
    pair_transcripts,
    read_column,
    read_nlp,
    write_recordings,
)
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import DataDir

# The file numbers of Radford et al., "Robust speech recognition via large-scale weak
# supervision", appendix A.2.
EPISODES = (3, 4, 9, 10, 11, 14, 17, 18, 20, 21, 23, 24, 26, 27, 29, 32)
PART = "test"
_TRANSCRIPTS = ("verbatim_transcripts/nlp_references", "verbatim")


def prepare_rev16(
    corpus_dir: str | Path,
    output_dir: str | Path,
    *,
    complete: bool = True,
    **options: Any,
) -> dict[str, DataDir]:
    """Check the corpus, and write the data dir of its part ``test``.

    Its utterances are whole episodes. ``complete`` warns of episodes that the list
    lacks; synthetic corpora have fewer.
    """
    corpus = require_corpus(corpus_dir, "verbatim_transcripts and media")
    folders = [corpus / name for name in _TRANSCRIPTS if (corpus / name).is_dir()]
    if not folders:
        raise InputError(
            f"{corpus}: holds no {' or '.join(_TRANSCRIPTS)}: give the folder "
            "rev16 of Rev's data"
        )
    faults = Faults(corpus, Path(output_dir) / "rev16_faults.txt", Options(**options))
    table = corpus / "podcasts.csv"
    numbers = _read_episodes(table)
    missing = [str(number) for number in EPISODES if number not in numbers]
    if complete and missing:
        say(
            f"warning: {table}: lists {len(numbers)} of the {len(EPISODES)} "
            f"episodes, without {', '.join(missing)}: "
            "error rates are of these alone; complete the list, or delete it, to "
            "score all",
        )
    # Two digits, so that ids sort as the numbers do.
    ids = {f"rev16-{number:02d}": number for number in numbers}
    nlp = {}
    audio = {}
    for id, number in ids.items():
        transcript = folders[0] / f"{number}.nlp"
        if transcript.is_file():
            nlp[id] = transcript
        media = corpus / "media" / f"{number}.mp3"
        if media.is_file():
            audio[id] = media
    transcripts = pair_transcripts(audio, nlp, read_nlp, PART, faults, ids)
    return write_recordings({PART: audio}, {PART: transcripts}, faults, output_dir)


def _read_episodes(path: Path) -> list[int]:
    """Read which of the episodes the list has; all of them without a list."""
    if not path.is_file():
        return list(EPISODES)
    known = read_column(path, "File number", "Rev16's list")
    numbers = [number for number in EPISODES if str(number) in known]
    if not numbers:
        raise InputError(
            f"{path}: it lists none of the {len(EPISODES)} episodes of Rev16: "
            "download it again"
        )
    return numbers

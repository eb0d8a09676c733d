"""Earnings-22 (Del Rio et al. 2022): 125 earnings calls, 119 hours, all of them a test set (P5, section 3.1).

The layout is that of https://github.com/revdotcom/speech-datasets, folder ``earnings22``::

    metadata.csv                                one line for each call, with its "File ID"
    media/<file id>.mp3                         8 to 48 kHz
    transcripts/nlp_references/<file id>.nlp

Lhotse's recipe takes the first field of an nlp file as the token, and only counts the files. Here fields are found by
their names, and the calls are those of metadata.csv.
"""

from collections.abc import Mapping
from pathlib import Path

from espnet_ext.corpora import long_recordings
from espnet_ext.corpora.checks import Faults, require_corpus, write_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir

PART = "test"
CALLS = 125


def prepare_earnings22(
    corpus_dir: str | Path,
    output_dir: str | Path,
    *,
    complete: bool = True,
    names: Mapping[str, str] | None = None,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, DataDir]:
    """Check the corpus, and write the data dir of its part ``test``, whose utterances are whole calls.

    Args (others: see :func:`espnet_ext.corpora.librispeech.prepare_librispeech`):
        corpus_dir: The folder described above.
        complete: Warn if metadata.csv lists fewer calls than the corpus has; False for synthetic corpora.
    """
    corpus = require_corpus(corpus_dir, "metadata.csv, media and transcripts/nlp_references")
    calls = _calls(corpus / "metadata.csv")
    if complete and len(calls) < CALLS:
        print(
            f"warning: {corpus / 'metadata.csv'}: lists {len(calls)} of the {CALLS} calls of Earnings-22: error rates "
            "are of these alone; download the list again to score all",
            flush=True,
        )
    faults = Faults(corpus, Path(output_dir) / "earnings22_faults.txt", skip_faulty)
    audio = long_recordings.files_by_id([corpus / "media"], "*.mp3", PART, faults)
    nlp = long_recordings.files_by_id([corpus / "transcripts" / "nlp_references"], "*.nlp", PART, faults)
    for call in calls:
        if call not in audio and call not in nlp:
            faults.add(PART, call, f"call {call} of metadata.csv has neither audio nor transcript")
    for call in sorted((audio.keys() & nlp.keys()) - set(calls)):
        faults.add(PART, call, f"call {call} is not in metadata.csv ({audio[call]}): add its line")
    recordings = long_recordings.paired(audio, nlp, long_recordings.nlp_text, PART, faults)
    data = long_recordings.checked_parts({PART: recordings}, faults, check_audio, num_jobs)
    write_parts(data, output_dir, names)
    return data


def _calls(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path}: no such file: give the folder earnings22 of Rev's speech-datasets")
    return long_recordings.listed(path, "File ID", "Earnings-22")

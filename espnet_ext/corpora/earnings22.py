"""Prepare Earnings-22 (Del Rio et al. 2022), a test set of long calls (P5, 3.1).

There are 125 calls, of 119 hours. The layout is that of the folder ``earnings22`` of
https://github.com/revdotcom/speech-datasets: ``metadata.csv`` lists the calls ("File
ID"), of which there are ``media/<id>.mp3`` and ``transcripts/nlp_references/<id>.nlp``.
"""

from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import Faults, Options, find_files_by_id, require_corpus
from espnet_ext.corpora.long_recordings import (
    pair_transcripts,
    read_column,
    read_nlp,
    write_recordings,
)
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import DataDir

PART = "test"
CALLS = 125


def prepare_earnings22(
    corpus_dir: str | Path,
    output_dir: str | Path,
    *,
    complete: bool = True,
    **options: Any,
) -> dict[str, DataDir]:
    """Check the corpus, and write the data dir of its part ``test``.

    Its utterances are whole calls. ``complete`` warns if metadata.csv lists fewer calls
    than the corpus has; synthetic corpora do.
    """
    corpus = require_corpus(
        corpus_dir, "metadata.csv, media and transcripts/nlp_references"
    )
    table = corpus / "metadata.csv"
    if not table.is_file():
        raise InputError(
            f"{table}: no such file: give the folder earnings22 of Rev's "
            "speech-datasets"
        )
    calls = read_column(table, "File ID", "Earnings-22")
    if complete and len(calls) < CALLS:
        say(
            f"warning: {table}: lists {len(calls)} of the {CALLS} calls of "
            "Earnings-22: error rates "
            "are of these alone; download the list again to score all",
        )
    faults = Faults(
        corpus, Path(output_dir) / "earnings22_faults.txt", Options(**options)
    )
    audio = find_files_by_id([corpus / "media"], "*.mp3", PART, faults)
    nlp = find_files_by_id(
        [corpus / "transcripts" / "nlp_references"], "*.nlp", PART, faults
    )
    # Of a call that is not listed, audio alone or a transcript alone is a fault anyway.
    for call in sorted((audio.keys() & nlp.keys()) - set(calls)):
        faults.add(
            PART,
            call,
            f"call {call} is not in metadata.csv ({audio[call]}): add its line",
        )
    transcripts = pair_transcripts(audio, nlp, read_nlp, PART, faults, calls)
    return write_recordings({PART: audio}, {PART: transcripts}, faults, output_dir)

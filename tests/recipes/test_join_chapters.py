"""``local/join_chapters.py`` of the long-context recipe, on real recordings of read
digits.
"""

import shutil
from pathlib import Path

import join_chapters
import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table

DIGITS = Path(__file__).parents[3] / "shared" / "data" / "LibriSpeech-digits"


@pytest.fixture
def corpus(tmp_path) -> Path:
    if not DIGITS.is_dir():
        pytest.skip("the real recordings (shared/data/LibriSpeech-digits) are not here")
    for transcripts in sorted((DIGITS / "dev-clean").glob("*/*/*.trans.txt"))[:2]:
        shutil.copytree(
            transcripts.parent,
            tmp_path / "LibriSpeech" / transcripts.parent.relative_to(DIGITS),
        )
    return tmp_path / "LibriSpeech"


def joined(corpus: Path) -> Path:
    output = corpus.parent / "chapters"
    join_chapters.main([str(corpus), "--parts", "dev-clean", "--output", str(output)])
    return output


def test_chapters_are_their_utterances_in_order(corpus):
    texts = read_table(joined(corpus) / "text")
    for transcripts in corpus.rglob("*.trans.txt"):
        chapter, utterances = (
            transcripts.name.removesuffix(".trans.txt"),
            read_table(transcripts),
        )
        samples = [
            soundfile.read(transcripts.parent / f"{key}.flac", dtype="int16")[0]
            for key in sorted(utterances)
        ]
        heard, rate = soundfile.read(
            corpus.parent / "chapters" / "audio" / f"{chapter}.flac", dtype="int16"
        )
        assert rate == 16000 and np.array_equal(heard, np.concatenate(samples))
        assert texts.pop(chapter) == " ".join(
            utterances[key] for key in sorted(utterances)
        )
    assert not texts


def test_what_is_joined_is_left_and_faults_are_refused(corpus):
    files = list((joined(corpus) / "audio").iterdir())
    times = [path.stat().st_mtime_ns for path in files]
    joined(corpus)
    assert [path.stat().st_mtime_ns for path in files] == times
    speech = next(corpus.rglob(f"{files[0].stem}-*.flac"))
    speech.write_bytes(speech.read_bytes()[:200])
    with pytest.raises(InputError, match=speech.name):
        joined(corpus)
    speech.unlink()
    with pytest.raises(InputError, match=speech.stem):
        joined(corpus)
    for path in corpus.rglob("*.trans.txt"):
        path.write_text(
            "".join(line for line in path.open() if not line.startswith(speech.stem))
        )
    seconds = soundfile.info(files[0]).duration
    joined(corpus)
    assert (
        soundfile.info(files[0]).duration < seconds
        and files[1].stat().st_mtime_ns == times[1]
    )
    (files[0].parent / "1-2.flac").touch()
    with pytest.raises(InputError, match="1-2: .*--output"):
        joined(corpus)

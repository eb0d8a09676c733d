"""A noisy copy of clean training speech: other samples, the same words, ids of its own."""

import numpy as np
import pytest
import soundfile
from runs import EGS

from espnet_ext.corpora.librispeech import prepare_librispeech
from espnet_ext.errors import InputError
from espnet_ext.recipe.run import load_script

script = load_script(EGS / "librispeech_sem" / "local" / "add_noisy_part.py")
RATE = 16000


@pytest.fixture
def corpus(tmp_path):
    """Two speakers with two seconds each."""
    rng = np.random.default_rng(0)
    for speaker in ("11", "12"):
        folder = tmp_path / "corpus" / "train-clean-100" / speaker / f"{speaker}0"
        folder.mkdir(parents=True)
        for number in range(2):
            tone = np.sin(np.arange(RATE) * rng.uniform(0.1, 0.3)).astype(np.float32) / 2
            soundfile.write(folder / f"{speaker}-{speaker}0-000{number}.flac", tone, RATE)
        lines = [f"{speaker}-{speaker}0-000{number} ONE TWO\n" for number in range(2)]
        (folder / f"{speaker}-{speaker}0.trans.txt").write_text("".join(lines))
    (tmp_path / "corpus" / "SPEAKERS.TXT").write_text(
        "11 | M | train-clean-100 | 1.0 | a\n12 | F | train-clean-100 | 1.0 | b\n"
    )
    return tmp_path / "corpus"


def test_both_parts_are_a_corpus(corpus, tmp_path):
    output = tmp_path / "noisy"
    script.main(["--corpus", str(corpus), "--output", str(output)])
    made = prepare_librispeech(output, parts=["train-clean-100", "train-other-500"])
    clean, noisy = (made[part]["supervisions"] for part in ("train-clean-100", "train-other-500"))
    assert [each.text for each in noisy] == [each.text for each in clean] == ["ONE TWO"] * 4
    assert not {each.id for each in noisy} & {each.id for each in clean}
    assert {each.speaker for each in noisy} == {each.speaker for each in clean}
    (first, _), (again, rate) = (
        soundfile.read(output / part / "11" / chapter / f"11-{chapter}-0000.flac")
        for part, chapter in (("train-clean-100", "110"), ("train-other-500", "9110"))
    )
    assert rate == RATE and len(again) > len(first)  # with some silence at both ends, in which there is noise
    assert np.abs(again[:800]).mean() > 0


def test_what_has_noisy_speech_is_refused(corpus, tmp_path):
    (corpus / "train-other-500").mkdir()
    with pytest.raises(InputError, match="there is nothing to add"):
        script.main(["--corpus", str(corpus), "--output", str(tmp_path / "noisy")])

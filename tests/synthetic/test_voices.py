"""Synthesis with espeak-ng, and the speakers."""

import subprocess
import sys

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.synthetic import voices
from espnet_ext.synthetic.voices import speak

TEXT = "the old captain carries three letters."
ALL = voices.FEMALE + voices.MALE


def say(variant: str) -> np.ndarray:
    return synthesise(f"en-us+{variant}")


def synthesise(voice: str, rate: int = 170, pitch: int = 50) -> np.ndarray:
    return speak(TEXT, voice, rate, pitch, pitch_range=50, seed=1).samples


def test_an_utterance_does_not_depend_on_the_one_before() -> None:
    """With any voice, also those with random noise in them."""
    first = [say(variant) for variant in ALL]
    second = [say(variant) for variant in reversed(ALL)][::-1]
    for variant, one, other in zip(ALL, first, second, strict=True):
        assert np.array_equal(one, other), variant
        assert 1.5 < len(one) / 22050 < 4.5, variant
        assert 0.05 < np.abs(one).max() < 0.999, variant


def test_another_process_says_the_same() -> None:
    command = (
        "import sys; from espnet_ext.synthetic.voices import speak;"
        f"said = speak({TEXT!r}, 'en-us+f2', rate=170, pitch=50, pitch_range=50, "
        "seed=1);"
        "sys.stdout.buffer.write(said.samples.tobytes())"
    )
    said = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, check=True
    ).stdout
    assert said == say("f2").tobytes()


def test_without_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    voices._find_espeak.cache_clear()
    with pytest.raises(InputError, match="pip install espeakng-loader"):
        say("m1")
    monkeypatch.undo()
    voices._find_espeak.cache_clear()
    with pytest.raises(InputError, match="no voice 'xx-yy'"):
        synthesise("xx-yy")


def test_speakers_differ_in_voice() -> None:
    speakers = voices.draw_speakers({"train": 16, "dev": 5, "test": 5}, seed=0)
    assert [len(speakers[part]) for part in speakers] == [16, 5, 5]
    everyone = [speaker for part in speakers.values() for speaker in part]
    assert (
        len({speaker.variant for speaker in everyone})
        == len({speaker.id for speaker in everyone})
        == 26
    )
    for part in speakers.values():
        assert {speaker.sex for speaker in part} == {"F", "M"}
    for speaker in everyone:
        assert speaker.variant in (voices.FEMALE if speaker.sex == "F" else voices.MALE)
    assert voices.draw_speakers({"train": 16, "dev": 5, "test": 5}, seed=0) == speakers
    assert voices.draw_speakers({"train": 16, "dev": 5, "test": 5}, seed=1) != speakers


def test_speakers_of_one_use_share_its_voices() -> None:
    counts = {
        "train-clean-100": 30,
        "train-other-500": 30,
        "dev-clean": 4,
        "test-clean": 20,
        "test-other": 20,
    }
    speakers = voices.draw_speakers(
        counts, seed=0, voices={"train": 24, "dev": 4, "test": 12}
    )
    assert {part: len(members) for part, members in speakers.items()} == counts
    everyone = [speaker for part in speakers.values() for speaker in part]
    assert len({speaker.id for speaker in everyone}) == len(everyone)
    used = {
        part: {speaker.variant for speaker in members}
        for part, members in speakers.items()
    }
    assert (
        used["train-clean-100"] == used["train-other-500"]
        and used["test-clean"] == used["test-other"]
    )
    assert {
        part: len(variants) for part, variants in used.items() if part.endswith("clean")
    } == {
        "dev-clean": 4,
        "test-clean": 12,
    }
    assert (
        not used["train-clean-100"] & used["test-clean"]
        and not used["dev-clean"] & used["test-clean"]
    )
    settings = {(speaker.variant, speaker.pitch, speaker.rate) for speaker in everyone}
    assert len(settings) > 0.95 * len(everyone)  # the same voice, spoken otherwise


def test_no_more_speakers_than_voices() -> None:
    assert len(voices.draw_speakers({"train": len(ALL)}, seed=0)["train"]) == len(ALL)
    with pytest.raises(
        InputError,
        match=(
            f"{len(ALL) + 1} speakers were asked for, but there are {len(ALL)} voices"
        ),
    ):
        voices.draw_speakers({"train": len(ALL) + 1}, seed=0)

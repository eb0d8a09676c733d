"""``local/plot_energy.py`` of the SEM recipe, as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from plot_energy import main

from espnet_ext.errors import InputError

RATE = 16000
OUTPUTS = ["energy.json", "fig1_energy.png", "fig3_masks.png"]


@pytest.fixture
def data(tmp_path) -> Path:
    """Three utterances of noise bursts, of 1, 2 and 3 s; the third begins with digital
    silence.
    """
    folder = tmp_path / "data"
    folder.mkdir()
    lines = []
    for index in (1, 2, 3):
        samples = np.random.default_rng(index).normal(size=index * RATE) * 0.1
        samples *= np.where(np.arange(samples.size) // 4000 % 2, 1.0, 0.003)
        samples[: RATE if index == 3 else 0] = 0.0
        path = tmp_path / f"u{index}.flac"
        soundfile.write(path, samples, RATE)
        lines.append(f"u{index} {path}\n")
    (folder / "wav.scp").write_text("".join(lines))
    return folder


def test_writes_figures_and_numbers(data, tmp_path, capsys):
    output = tmp_path / "new" / "out"
    main(["--data", str(data), "--output", str(output)])
    assert sorted(path.name for path in output.iterdir()) == OUTPUTS
    numbers = json.loads((output / "energy.json").read_text())["values"]
    assert numbers["utterances"] == 3
    assert numbers["bins"] == 40 * (98 + 198 + 298)
    # The first second of u3 is silent: its 98 whole frames, and those that reach into
    # speech by less than a sample.
    assert 98 * 40 <= numbers["zero_energy_bins"] <= 99 * 40
    assert numbers["example"]["utterance"] == "u3"
    printed = capsys.readouterr().out
    assert (
        f"masked at -20 dB: {numbers['bins_below']['-20']:.1%} of the bins" in printed
    )
    assert f"energy below -20 dB: {numbers['energy_below']['-20']:.2%}" in printed
    assert (
        "zero energy (eta = -inf), counted among the masked: "
        f"{numbers['zero_energy_bins']:,} bins" in printed
    )


def test_same_seed_same_numbers(data, tmp_path):
    for name in "ab":
        options = ["--max-utterances", "2", "--seed", "3", "--utterance", "u1"]
        main(["--data", str(data), "--output", str(tmp_path / name), *options])
    numbers, again = (
        json.loads((tmp_path / name / "energy.json").read_text())["values"]
        for name in "ab"
    )
    assert numbers == again
    assert numbers["utterances"] == 2
    assert numbers["example"] == {**numbers["example"], "utterance": "u1", "frames": 98}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--utterance", "u9"], "u9"),
        (["--rate", "8000"], "utterance u1: .*16000 .*8000"),
        (["--rate", "0"], "--rate 0"),
        (["--max-utterances", "0"], "0 utterances"),
        (["--data", "/nonexistent/dir"], "/nonexistent/dir: "),
    ],
)
def test_bad_arguments_are_refused(data, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        main(["--data", str(data), "--output", str(tmp_path / "out"), *arguments])
    assert not list(tmp_path.glob("out/*"))


def test_missing_audio_leaves_what_was_there(data, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    for name in OUTPUTS:
        (output / name).write_text("former")
    (tmp_path / "u2.flac").unlink()
    with pytest.raises(InputError, match="u2.flac: "):
        main(["--data", str(data), "--output", str(output)])
    assert {path.name: path.read_text() for path in output.iterdir()} == dict.fromkeys(
        OUTPUTS, "former"
    )

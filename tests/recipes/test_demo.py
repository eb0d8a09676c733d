"""The demo: its corpus is made of the recordings in the repository, and its last screen
has rates and commands.
"""

import re
import shutil

import demo
import pytest
import soundfile
from runs import EGS

ROOT = EGS.parent


@pytest.fixture
def few(tmp_path, monkeypatch):
    """Two speakers of the recordings, two utterances of each part."""
    for part in ("train-clean-100", "dev-clean", "test-clean"):
        for speaker in ("1001", "1002"):
            source = next((demo.DIGITS / part / speaker).iterdir())
            target = tmp_path / "digits" / source.relative_to(demo.DIGITS)
            target.mkdir(parents=True)
            for path in [*source.glob("*.txt"), *sorted(source.glob("*.flac"))[:2]]:
                shutil.copy(path, target)
    shutil.copy(demo.DIGITS / "SPEAKERS.TXT", tmp_path / "digits")
    monkeypatch.setattr(demo, "DIGITS", tmp_path / "digits")
    monkeypatch.setattr(demo, "SHARE", 0.5)
    return tmp_path / "corpus"


def test_the_corpus_has_quiet_and_noisy_parts_and_is_made_once(few):
    demo.make_corpus(few)
    names = {
        part.name: sorted(path.stem for path in part.rglob("*.flac"))
        for part in few.iterdir()
        if part.is_dir()
    }
    assert {part: len(ids) for part, ids in names.items() if "train" not in part} == {
        f"{kind}-{condition}": 4
        for kind in ("dev", "test")
        for condition in ("clean", "other")
    }
    assert sum(len(ids) for part, ids in names.items() if "train" in part) == 4
    quiet, noisy = (
        sorted((few / f"test-{part}").rglob("*.flac")) for part in ("clean", "other")
    )
    assert (
        soundfile.info(quiet[0]).samplerate
        == soundfile.info(noisy[0]).samplerate
        == 16000
    )
    texts = [
        next(part.rglob("*.trans.txt")).read_text().split()[1:4]
        for part in (few / "test-clean", few / "test-other")
    ]
    assert texts[0] == texts[1]
    before = noisy[0].stat().st_mtime_ns
    demo.make_corpus(few)
    assert noisy[0].stat().st_mtime_ns == before


def test_the_recordings_are_small_and_name_their_licence():
    files = [path for path in demo.DIGITS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10_000_000
    assert "CC BY-SA 4.0" in (demo.DIGITS / "README.md").read_text()
    assert "Attribution-ShareAlike 4.0" in (demo.DIGITS / "LICENSE.txt").read_text()


@pytest.mark.parametrize("interval", [[-3.0, 11.0], None])
def test_the_last_screen_has_rates_an_interval_and_commands(interval):
    values = {"value": 12.34, "ci95": [10.0, 15.0], "words": 1234}
    scores = {system: dict.fromkeys(demo.SETS, values) for system in demo.SYSTEMS}
    pair = {"difference": 4.0, "ci95": interval, "unit": "speaker", "units": 6}
    shown = demo.describe_result(scores, pair, 300.0)
    assert shown.count("12.3") >= 4 and "1234 words" in shown
    assert ("between -3.0 and 11.0" in shown and "6 speakers" in shown) == bool(
        interval
    )
    more, _ = re.findall(r"\./run\.sh .*", shown)
    assert "--expdir exp/demo --datadir data/demo" in more  # whose seed 1 is there
    assert "espnet-ext score compare" in shown
    assert len(demo.draw_rates(scores).axes[0].patches) == 4


def test_long_commands_go_to_the_log_and_lines_show_the_share(
    tmp_path, monkeypatch, capsys
):
    command = "   train: python -m espnet_ext.bin.asr_train" + 200 * " --option"
    logs = {
        "baseline": "4epoch:train:141-200batch: x",
        "sem_m80_0": "3epoch:train: 1epoch:validation",
    }
    for system, text in logs.items():
        (tmp_path / system / "seed1/log").mkdir(parents=True)
        (tmp_path / system / "seed1/log/train.log").write_text(text)
    run = tmp_path / "run.sh"
    run.write_text(
        f"#!/bin/sh\necho '== Stage 5: training'\necho '{command}'\n"
        "echo '== Stage 6: decoding'\nexit 3\n"
    )
    run.chmod(0o755)
    monkeypatch.setattr(demo, "RECIPE", tmp_path)
    monkeypatch.setattr(demo, "EXP", tmp_path)
    assert demo.run_recipe(tmp_path / "demo.log") == 3
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("%")[0].strip() for line in shown] == ["53", "90"]
    assert command in (tmp_path / "demo.log").read_text()

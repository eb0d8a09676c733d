"""The demo's progress: what it makes of the lines of run.sh, without running it."""

import re

import demo
from runs import EGS

from espnet_ext.work.yaml_files import read_yaml

RECIPE = EGS / "librispeech_sem"


def test_progress_of_a_whole_run():
    """Never backwards, half-way in between, complete at the end."""
    stages = re.findall(r"^run (\d) (\w+)", (RECIPE / "run.sh").read_text(), re.MULTILINE)
    assert [name for _, name in stages] == list(demo.SHARES)
    lines = []
    for number, name in stages:
        lines.append(f"== Stage {number}: {name}")
        if name == "data":
            lines.append("synthetic corpus: 10 s, synthetic corpus: 78/156 shards, 0:08 elapsed")
        for system in demo.SYSTEMS if name == "training" else ():
            training = f"   train {system}/seed1"
            lines += [f"{training}: 10 s, epoch {epoch}, batch 40" for epoch in (1, 5, demo.EPOCHS)]
            lines.append(f"{training}: done in 90 s")
    progress, shares = demo.Progress(), []
    for line in lines:
        progress.read(line)
        shares.append(progress.share())
    assert shares == sorted(shares) and shares[1] == demo.SHARES["data"] / 2 and shares[-1] > 0.98
    assert abs(sum(demo.SHARES.values()) - 1) < 1e-9
    assert read_yaml(RECIPE / "conf" / "mini.yaml")["train"]["max_epoch"] == demo.EPOCHS


def test_the_last_screen_names_rates_words_and_no_winner():
    values = {"value": 12.34, "ci95": [10.0, 15.0], "words": 1234}
    scores = {system: dict.fromkeys(demo.SETS, values) for system in demo.SYSTEMS}
    shown = demo.result(scores, 300.0)
    assert shown.count("12.3 [10.0, 15.0]") == 4 and "1,234 words of test-clean" in shown
    assert "does not say which system is better" in shown

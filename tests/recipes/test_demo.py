"""The demo's progress: what it makes of the lines of run.sh, without running it."""

from runs import EGS

from espnet_ext.recipe.run import load_script
from espnet_ext.work.yaml_files import read_yaml

demo = load_script(EGS / "librispeech_sem" / "local" / "demo.py")


def test_progress_of_a_whole_run():
    """Never backwards, half-way in between, complete at the end."""
    lines = ["== Stage 1: data", "synthetic corpus: 10 s, synthetic corpus: 78/156 shards, 0:08 elapsed"]
    lines += [f"== Stage {number}: x" for number in (2, 3, 4, 5, 6)]
    for name in demo.SYSTEMS:
        training = f"   train {name}/seed1"
        lines += [f"{training}: 10 s, epoch {epoch}, batch 40" for epoch in (1, 5, demo.EPOCHS)] + [
            f"{training}: done in 90 s"
        ]
    lines += [f"== Stage {number}: x" for number in (7, 8, 9)]
    progress, shares = demo.Progress(), []
    for line in lines:
        progress.read(line)
        shares.append(progress.share())
    assert shares == sorted(shares) and shares[1] == demo.SHARES["1"] / 2 and shares[-1] > 0.98
    after_training = lines.index("== Stage 7: x")
    assert abs(shares[after_training - 1] - shares[after_training]) < 0.01
    assert abs(sum(demo.SHARES.values()) - 1) < 1e-9


def test_a_training_has_the_epochs_of_mini():
    assert read_yaml(EGS / "librispeech_sem" / "conf" / "mini.yaml")["train"]["max_epoch"] == demo.EPOCHS


def test_remaining_time():
    progress = demo.Progress()
    assert progress.left(30.0) == "  0% done, about 7 min left"
    progress.read("== Stage 7: decoding")
    share = progress.share()
    assert progress.left(300.0).endswith(f"about {max(1, round(300 * (1 / share - 1) / 60))} min left")


def test_the_last_screen_names_rates_words_and_no_winner():
    values = {"value": 12.34, "ci95": [10.0, 15.0], "words": 1234}
    scores = {system: dict.fromkeys(demo.SETS, values) for system in demo.SYSTEMS}
    shown = demo.result(scores, 300.0)
    assert shown.count("12.3 [10.0, 15.0]") == 4 and "1,234 words of test-clean" in shown
    assert "does not say which system is better" in shown

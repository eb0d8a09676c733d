#!/usr/bin/env python
"""Train a baseline and Small Energy Masking (SEM) in minutes, on a synthetic corpus: ``make -C tools demo``.

Runs the stages of ``run.sh`` at scale ``demo`` with one seed, shows how far it is and how long it will take, and ends
with the error rates of both systems and a picture. Run again, it resumes or shows the result at once.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

RECIPE = Path(__file__).resolve().parents[1]
EXP, DATA = Path("exp/demo"), Path("data/demo")
COMMAND = ["./run.sh", "--scale", "demo", "--table", "1", "--rows", "baseline,0dB", "--seed", "1", "--nj", "2"]
SYSTEMS = {"baseline": "baseline", "sem_m80_0": "SEM (-80 to 0 dB)"}
SETS = ("test-clean", "test-other")
TRAINING = "6"
# Stage -> its share of the time, estimated from parts of a run on two cores.
SHARES = {"1": 0.06, "2": 0.01, "3": 0.01, "4": 0.03, "5": 0.0, TRAINING: 0.8, "7": 0.07, "8": 0.01, "9": 0.01}
EXPECTED_SECONDS = 456.0  # measured: README, "Set-up"
EPOCHS = 10  # of a system, conf/mini.yaml
PICTURE = EXP / "demo.png"


class Progress:
    """How much of the work is done, by the lines that run.sh prints."""

    def __init__(self) -> None:
        self.done, self.stage, self.within = 0.0, "1", 0.0
        self.epochs: dict[str, float] = {}

    def read(self, line: str) -> None:
        """Take note of a line: a new stage, or an epoch of a training."""
        if stage := re.match(r"== Stage (\d+)", line):
            self.done = sum(share for name, share in SHARES.items() if int(name) < int(stage[1]))
            self.stage, self.within = stage[1], 0.0
        elif shards := re.search(r"(\d+)/(\d+) shards", line):
            self.within = int(shards[1]) / int(shards[2])
        elif epoch := re.search(r"train (\S+?)/seed1: .*epoch (\d+), batch", line):
            self.epochs[epoch[1]] = float(epoch[2]) - 1.0
        elif over := re.search(r"train (\S+?)/seed1: done", line):
            self.epochs[over[1]] = EPOCHS
        if self.stage == TRAINING:
            self.within = sum(self.epochs.values()) / (EPOCHS * len(SYSTEMS))

    def share(self) -> float:
        """Between 0 and 1."""
        return min(1.0, self.done + SHARES[self.stage] * min(1.0, self.within))

    def left(self, seconds: float) -> str:
        """The remaining time in words, after so many seconds."""
        share = self.share()
        # at first by the estimate above, then by what this machine takes
        total = EXPECTED_SECONDS if share < 0.1 else seconds / share
        return f"{share:4.0%} done, about {max(1, round((total - seconds) / 60))} min left"


def lines(command: list[str]) -> Iterator[str]:
    """The output of a command, line by line; ends this program if the command fails."""
    with subprocess.Popen(command, cwd=RECIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield from process.stdout
    if process.returncode:
        sys.exit(process.returncode)


def main() -> None:
    start = time.monotonic()
    progress = Progress()
    table = False
    for line in lines(COMMAND):
        progress.read(line)
        table = table or line.startswith("== Stage 9")  # this program prints a table of its own
        if line.strip() and not table:
            print(f"{progress.left(time.monotonic() - start)} | {line.rstrip()}", flush=True)
    scores = {system: {part: score(system, part) for part in SETS} for system in SYSTEMS}
    print(result(scores, time.monotonic() - start), flush=True)
    draw(scores)
    print(f"\nPicture: {RECIPE / PICTURE}")
    print(
        "Next: ./run.sh --table 1 in egs/librispeech_sem trains each system with several seeds, as a comparison needs "
        "(an hour or two);\n      README.md there says what to expect, RESULTS.md what came out."
    )


def score(system: str, part: str) -> dict:
    """The score of a system on a test set."""
    path = RECIPE / EXP / system / "seed1" / "decode_default" / part / "score.json"
    return json.loads(path.read_text(encoding="utf-8"))


def result(scores: dict[str, dict[str, dict]], seconds: float) -> str:
    """The last screen: error rates with their intervals over speakers, and what they cannot say."""
    rows = [f"{'':20}" + "".join(f"{part:>26}" for part in SETS)]
    for system, name in SYSTEMS.items():
        cells = "".join(f"{cell(scores[system][part]):>26}" for part in SETS)
        rows.append(f"{name:20}{cells}")
    words = ", ".join(f"{scores['baseline'][part]['words']:,} words of {part}" for part in SETS)
    return "\n".join(
        [
            f"\nDone in {seconds / 60:.1f} min. Word error rate in %, with its 95% interval over speakers:\n",
            *rows,
            f"\n{words}; one training of each system. Another training may differ by more than these two do:",
            "the table shows that everything works here, and does not say which system is better.",
        ]
    )


def cell(values: dict) -> str:
    low, high = values["ci95"]
    return f"{values['value']:.1f} [{low:.1f}, {high:.1f}]"


def draw(scores: dict[str, dict[str, dict]]) -> None:
    """Draw what SEM does to an utterance of the training set, and the error rates."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from espnet_ext.frontend.power_mel import PowerMelFrontend
    from espnet_ext.kaldi.utterance_audio import read_spans
    from espnet_ext.sem.energy_statistics import mask_example

    spans = read_spans(RECIPE / DATA / "train")
    utterance = min(spans)
    example = mask_example(utterance, spans[utterance], PowerMelFrontend(), (-40.0, -20.0))
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    seconds = len(example.features) * example.hop_seconds
    for panel, (title, kept) in zip(
        axes,
        {"what the baseline is trained on": None, "what is left at -20 dB": example.kept[-20.0]}.items(),
        strict=False,
    ):
        shown = example.features if kept is None else example.features * kept
        panel.imshow(shown.T, origin="lower", aspect="auto", extent=(0, seconds, 0, shown.shape[1]))
        panel.set(title=title, xlabel="Time (s)", ylabel="Mel channel")
    width = 0.35
    for number, (system, name) in enumerate(SYSTEMS.items()):
        values = [scores[system][part] for part in SETS]
        rates = [value["value"] for value in values]
        around = [[rate - value["ci95"][0] for rate, value in zip(rates, values, strict=True)]]
        around.append([value["ci95"][1] - rate for rate, value in zip(rates, values, strict=True)])
        places = [place + number * width for place in range(len(SETS))]
        axes[2].bar(places, rates, width, yerr=around, label=name, capsize=3)
    axes[2].set(title="one training each", ylabel="Word error rate (%)")
    axes[2].set_xticks([place + width / 2 for place in range(len(SETS))], SETS)
    axes[2].legend()
    figure.savefig(RECIPE / PICTURE, dpi=120)


if __name__ == "__main__":
    main()

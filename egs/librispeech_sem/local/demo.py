#!/usr/bin/env python
"""Train a baseline and Small Energy Masking (SEM) in minutes, on a synthetic corpus: ``make -C tools demo``.

Runs the stages of ``run.sh`` at scale ``demo`` with one seed, shows how far it is and how long it will take, and ends
with the error rates of both systems and a picture of what SEM masks. Run again, it resumes or shows the result at once.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from energy_figures import draw_masks

from espnet_ext.frontend.power_mel import PowerMelFrontend
from espnet_ext.kaldi.utterance_audio import read_spans
from espnet_ext.sem.energy_statistics import mask_example
from espnet_ext.work.plot_style import save_png

RECIPE = Path(__file__).resolve().parents[1]
EXP, DATA = Path("exp/demo"), Path("data/demo")
COMMAND = ["./run.sh", "--scale", "demo", "--table", "1", "--rows", "baseline,0dB", "--seed", "1", "--nj", "2"]
SYSTEMS = {"baseline": "baseline", "sem_m80_0": "SEM (-80 to 0 dB)"}
SETS = ("test-clean", "test-other")
# Stage -> its share of the time, estimated from parts of a run on two cores.
SHARES = {"data": 0.07, "tokens": 0.01, "statistics": 0.03, "language_model": 0.0, "training": 0.8, "decoding": 0.07}
SHARES |= {"scoring": 0.01, "tables": 0.01}
EXPECTED_SECONDS = 456.0  # measured: README, "Set-up"
EPOCHS = 10  # of a system, conf/mini.yaml
PICTURE = EXP / "demo.png"


class Progress:
    """How much of the work is done, by the lines that run.sh prints."""

    def __init__(self) -> None:
        self.stage, self.within = "data", 0.0
        self.epochs: dict[str, float] = {}

    def read(self, line: str) -> None:
        """Take note of a line: a new stage, or an epoch of a training."""
        if stage := re.match(r"== Stage \d+: (\w+)", line):
            self.stage, self.within = stage[1], 0.0
        elif shards := re.search(r"(\d+)/(\d+) shards", line):
            self.within = int(shards[1]) / int(shards[2])
        elif epoch := re.search(r"train (\S+?)/seed1: .*epoch (\d+), batch", line):
            self.epochs[epoch[1]] = float(epoch[2]) - 1.0
        elif over := re.search(r"train (\S+?)/seed1: done", line):
            self.epochs[over[1]] = EPOCHS
        if self.stage == "training":
            self.within = sum(self.epochs.values()) / (EPOCHS * len(SYSTEMS))

    def share(self) -> float:
        """Return what is done, between 0 and 1."""
        names = list(SHARES)
        done = sum(SHARES[name] for name in names[: names.index(self.stage)])
        return min(1.0, done + SHARES[self.stage] * min(1.0, self.within))

    def left(self, seconds: float) -> str:
        """Return the remaining time in words, after so many seconds."""
        share = self.share()
        # at first by the estimate above, then by what this machine takes
        total = EXPECTED_SECONDS if share < 0.1 else seconds / share
        return f"{share:4.0%} done, about {max(1, round((total - seconds) / 60))} min left"


def main() -> None:
    start, progress = time.monotonic(), Progress()
    with subprocess.Popen(COMMAND, cwd=RECIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            progress.read(line)
            if line.strip() and progress.stage != "tables":  # this program prints a table of its own
                print(f"{progress.left(time.monotonic() - start)} | {line.rstrip()}", flush=True)
    if process.returncode:
        sys.exit(process.returncode)
    folders = {system: RECIPE / EXP / system / "seed1" / "decode_default" for system in SYSTEMS}
    scores = {
        system: {part: json.loads((folder / part / "score.json").read_text(encoding="utf-8")) for part in SETS}
        for system, folder in folders.items()
    }
    print(result(scores, time.monotonic() - start), flush=True)
    spans = read_spans(RECIPE / DATA / "train")
    utterance = min(spans)
    save_png(draw_masks(mask_example(utterance, spans[utterance], PowerMelFrontend())), RECIPE / PICTURE, 120)
    print(
        f"\nPicture: {RECIPE / PICTURE}\n"
        "Next: ./run.sh --table 1 in egs/librispeech_sem trains each system with several seeds, as a comparison needs "
        "(an hour or two);\n      README.md there says what to expect, RESULTS.md what came out."
    )


def result(scores: dict[str, dict[str, dict]], seconds: float) -> str:
    """Return the last screen: error rates with their intervals over speakers, and what they cannot say."""
    rows = [f"{'':20}" + "".join(f"{part:>26}" for part in SETS)]
    for system, name in SYSTEMS.items():
        rows.append(f"{name:20}" + "".join(f"{cell(scores[system][part]):>26}" for part in SETS))
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


if __name__ == "__main__":
    main()

#!/usr/bin/env python
"""Compare a baseline and Small Energy Masking (SEM) on real speech.

``make -C tools demo`` runs it. The recordings of digits in examples/digits become a
corpus in LibriSpeech's layout, in part noisy. ``run.sh`` trains both systems with one
seed, and the error rates are shown and drawn. Run again, it resumes or shows the result
at once.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from few_digits import add_pink_noise, draw_training_set, read_speech, write_utterance
from matplotlib.figure import Figure

from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.parameters import make_generator
from espnet_ext.work.plot_style import BLUE, VERMILLION, save_png

RECIPE = Path(__file__).resolve().parents[1]
DIGITS = RECIPE.parents[1] / "examples" / "digits"
DATA = RECIPE / "data" / "demo"
CORPUS = DATA / "digits"
EXP = RECIPE / "exp" / "demo"
ROWS = [
    "--scale",
    "mini_few",
    "--librispeech",
    str(CORPUS.relative_to(RECIPE)),
    "--table",
    "1",
    "--rows",
    "baseline,0dB",
]
SYSTEMS = {"baseline": "baseline", "sem_m80_0": "SEM (-80 to 0 dB)"}
NOISY = "test-other"
SETS = {"test-clean": "quiet", NOISY: "pink noise"}
# of the recordings and their noisy copies: 344 utterances, 18 minutes, as in RESULTS.md
SHARE = 0.56
SEED = 2  # of what is drawn
START = """\
What is compared: two small models that recognise spoken digits, with and without
Small Energy Masking (SEM), which hides the quietest parts of the training data. Both
learn from the same 18 minutes of real speech, half of it in noise, and are tested on
recordings that neither has heard, in quiet and in pink noise.

  1 to 4        the recordings in LibriSpeech's layout; word pieces; statistics
  5 training    both models at once, 800 updates each: most of the time
  6 to 8        decoding, error rates, table

In all 1 to 5 minutes of two cores. Ctrl-C stops it, and the same command resumes it.
The commands of ESPnet and all lines: {log}
"""
# of the stages of run.sh: how much of the time is over when each begins, in percent
BEGINS = {1: 5, 2: 10, 3: 12, 4: 15, 5: 16, 6: 90, 7: 97, 8: 99}
STAGE = re.compile(r"== Stage (\d+): ")
# the line of ESPnet's trainer after some updates: epoch, updates in it
UPDATES = re.compile(r"(\d+)epoch:train:\d+-(\d+)batch")
EPOCHS, UPDATES_PER_EPOCH = 4, 200  # as conf/mini_few.yaml has them
TABLES = 8  # the stage whose table the last screen replaces
LONGEST = 160  # characters of a line that is shown: an ESPnet command has 1,000


def main() -> None:
    start = time.monotonic()
    log = EXP / "demo.log"
    print(START.format(log=log), flush=True)
    make_corpus(CORPUS)
    if status := run_recipe(log):
        sys.exit(status)
    scores = {
        system: {
            part: json.loads(
                (EXP / system / f"seed1/decode_default/{part}/score.json").read_text()
            )
            for part in SETS
        }
        for system in SYSTEMS
    }
    save_png(draw_rates(scores), EXP / "demo.png", 120)
    print(describe_result(scores, compare_in_noise(), time.monotonic() - start))


def run_recipe(log: Path) -> int:
    """Run the recipe, and return its status.

    Its lines are shown after the share that is done; ``log`` has all of them, ESPnet's
    commands too.
    """
    folders = ["--expdir", str(EXP), "--datadir", str(DATA)]
    command = ["./run.sh", *ROWS, "--seed", "1", "--nj", "2", *folders]
    log.parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.Popen(command, cwd=RECIPE, stdout=subprocess.PIPE, text=True)
    stage = 1
    with log.open("a") as file:
        for line in run.stdout or ():
            file.write(line)
            file.flush()
            if found := STAGE.match(line):
                stage = int(found[1])
            if line.strip() and len(line) <= LONGEST and stage < TABLES:
                print(
                    f"{compute_percent_done(stage):3.0f} %  {line.rstrip()}", flush=True
                )
    return run.wait()


def compute_percent_done(stage: int) -> float:
    """Return how much of the whole is done, in percent of its time."""
    begin = BEGINS[stage]
    if stage != 5:
        return begin
    shares = list(measure_trained_shares())
    return begin + (BEGINS[6] - begin) * sum(shares) / len(shares)


def measure_trained_shares() -> Iterator[float]:
    """Return, for each system, how much of its training is done, from its log."""
    for system in SYSTEMS:
        path = EXP / system / "seed1/log/train.log"
        text = path.read_text(errors="replace") if path.is_file() else ""
        found = UPDATES.findall(text)
        if not found:
            yield 0.0
            continue
        epoch, updates = map(int, found[-1])
        yield (epoch - 1 + updates / UPDATES_PER_EPOCH) / EPOCHS


def make_corpus(folder: Path) -> None:
    """Write the recordings in LibriSpeech's layout, dev and test sets also in noise."""
    if folder.is_dir():
        return
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    draw_training_set(DIGITS, new, SHARE, SEED)
    for kind in ("dev", "test"):
        for path in sorted((DIGITS / f"{kind}-clean").rglob("*.flac")):
            write_utterance(path, new / f"{kind}-clean")
            write_utterance(
                path,
                new / f"{kind}-other",
                add_pink_noise(
                    read_speech(path, SAMPLE_RATE), make_generator(SEED, path.name)
                ),
            )
    shutil.copy(DIGITS / "SPEAKERS.TXT", new)
    new.rename(folder)


def locate_hypotheses(system: str, part: str) -> Path:
    """Return the file with the hypotheses of a test set by a system."""
    return EXP / system / "seed1/decode_default" / part / "text"


def compare_in_noise() -> dict[str, Any]:
    """Compare both systems on the noisy test set, by speakers."""
    data = RECIPE / DATA / NOISY
    systems = [System(name, (locate_hypotheses(name, NOISY),)) for name in SYSTEMS]
    utt2spk = data / "utt2spk"
    compared = compare_systems(data / "text", systems, Measure(), utt2spk=utt2spk)
    return compared.result["pairs"][0]


def describe_result(
    scores: dict[str, dict[str, dict]], pair: dict[str, Any], seconds: float
) -> str:
    """Describe on the last screen what the rates show, and what to type next."""
    lines = [
        f"\nDone in {seconds / 60:.1f} min. Word error rate in % on real speech:\n",
        f"{'':20}" + "".join(f"{SETS[part]:>12}" for part in SETS),
    ]
    for system, name in SYSTEMS.items():
        cells = (f"{score['value']:.1f}" for score in scores[system].values())
        lines.append(f"{name:20}" + "".join(f"{cell:>12}" for cell in cells))
    data = DATA.relative_to(RECIPE) / NOISY
    folders = f"--expdir {EXP.relative_to(RECIPE)} --datadir {DATA.relative_to(RECIPE)}"
    files = {
        name: locate_hypotheses(name, NOISY).relative_to(RECIPE) for name in SYSTEMS
    }
    sides = " ".join(f"--system {name}={path}" for name, path in files.items())
    return "\n".join(
        [
            *lines,
            "",
            *describe_rates(scores, pair),
            f"\nPicture: {EXP / 'demo.png'}\n\nNext, after "
            "`. tools/venv/bin/activate` and `cd egs/librispeech_sem`:",
            # in the demo's folders, so that its trainings are among the five
            f"  ./run.sh {' '.join(ROWS)} --seed 1,2,3,4,5 {folders}   "
            "# four more trainings of each: how much do they differ?",
            f"  espnet-ext score compare --ref {data}/text --utt2spk {data}/utt2spk \\",
            f"    {sides} --output {EXP.relative_to(RECIPE)}/compare   "
            "# the errors of both, side by side",
            "  ./run.sh --scale full --librispeech /data/LibriSpeech --rehearse   "
            "# what the paper's models would take",
        ]
    )


def describe_rates(
    scores: dict[str, dict[str, dict]], pair: dict[str, Any]
) -> list[str]:
    """Say what the error rates show, and what they cannot."""
    changes = []
    for part in SETS:
        before, after = (scores[system][part]["value"] for system in SYSTEMS)
        changes.append(f"in {SETS[part]} from {before:.1f} to {after:.1f} %")
    lines = [f"Small Energy Masking changed the word error rate {', '.join(changes)}."]
    if pair["ci95"]:
        low, high = pair["ci95"]
        lines.append(
            f"In noise it takes away {pair['difference']:.1f} points; with other "
            f"{pair['unit']}s, between {low:.1f} and {high:.1f} (95% interval, over "
            f"{pair['units']} {pair['unit']}s)."
        )
    words = scores["baseline"][NOISY]["words"]
    return [
        *lines,
        "Not shown: that it is more than chance, as each model was trained only once "
        "and another training",
        "would give other numbers; nor that it holds for other speech: a set has "
        f"{words} words, all digits.",
        "RESULTS.md in egs/librispeech_sem has six trainings of each, and tests the "
        "claim.",
    ]


def draw_rates(scores: dict[str, dict[str, dict]]) -> Figure:
    """Draw the error rates as bars with their intervals."""
    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    axes = figure.subplots()
    for place, (system, colour) in enumerate(
        zip(SYSTEMS, (BLUE, VERMILLION), strict=True)
    ):
        values = [
            (score["value"], *(score["ci95"] or 2 * [score["value"]]))
            for score in scores[system].values()
        ]
        ends = [
            [value - low for value, low, _ in values],
            [high - value for value, _, high in values],
        ]
        where = [number + 0.4 * (place - 0.5) for number in range(len(SETS))]
        axes.bar(
            where,
            [value for value, *_ in values],
            0.36,
            yerr=ends,
            capsize=4,
            color=colour,
            label=SYSTEMS[system],
        )
    axes.set_xticks(range(len(SETS)), list(SETS.values()))
    axes.set_ylabel("word error rate (%)")
    axes.set_title("lines: 95% interval with other speakers", fontsize=9)
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()

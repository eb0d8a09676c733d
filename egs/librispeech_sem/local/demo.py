#!/usr/bin/env python
"""Train a baseline and Small Energy Masking (SEM) on real speech, and compare them:
``make -C tools demo``.

The recordings of digits in examples/digits become a corpus in LibriSpeech's layout, in
part noisy. ``run.sh`` trains both systems with one seed, and the error rates are shown
and drawn. Run again, it resumes or shows the result at once.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from few_digits import draw_training_set, speech, write
from matplotlib.figure import Figure

from espnet_ext.scoring.formatting import format_interval
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.parameters import generator
from espnet_ext.work.plot_style import BLUE, VERMILLION, save_png

RECIPE = Path(__file__).resolve().parents[1]
DIGITS = RECIPE.parents[1] / "examples" / "digits"
CORPUS, EXP, DATA = (
    RECIPE / folder for folder in ("data/demo/digits", "exp/demo", "data/demo")
)
ROWS = [
    "--scale",
    "mini_few",
    "--librispeech",
    f"{CORPUS}",
    "--table",
    "1",
    "--rows",
    "baseline,0dB",
]
SYSTEMS = {"baseline": "baseline", "sem_m80_0": "SEM (-80 to 0 dB)"}
SETS = {"test-clean": "quiet", "test-other": "pink noise"}
# of the recordings and their noisy copies: 344 utterances, 18 minutes, as in RESULTS.md
SHARE = 0.56
SEED = 2  # of what is drawn


def main() -> None:
    start = time.monotonic()
    make_corpus(CORPUS)
    folders = ["--expdir", str(EXP), "--datadir", str(DATA)]
    done = subprocess.run(
        ["./run.sh", *ROWS, "--seed", "1", "--nj", "2", *folders],
        cwd=RECIPE,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)
    scores = {
        system: {
            part: json.loads(
                (EXP / system / f"seed1/decode_default/{part}/score.json").read_text()
            )
            for part in SETS
        }
        for system in SYSTEMS
    }
    save_png(drawn(scores), EXP / "demo.png", 120)
    print(result(scores, time.monotonic() - start))


def make_corpus(folder: Path) -> None:
    """Write the recordings in LibriSpeech's layout: dev and test sets whole, as they
    are and in noise.
    """
    if folder.is_dir():
        return
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    draw_training_set(DIGITS, new, SHARE, SEED)
    for kind in ("dev", "test"):
        for path in sorted((DIGITS / f"{kind}-clean").rglob("*.flac")):
            write(path, new / f"{kind}-clean")
            write(
                path,
                new / f"{kind}-other",
                in_pink_noise(speech(path, SAMPLE_RATE), generator(SEED, path.name)),
            )
    shutil.copy(DIGITS / "SPEAKERS.TXT", new)
    new.rename(folder)


def in_pink_noise(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise whose power falls as 1 / frequency, 5 to 15 dB below the speech: not
    the noises of the training set.
    """
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    noise = np.fft.irfft(
        spectrum / np.sqrt(np.maximum(1, np.arange(len(spectrum)))), len(samples)
    )
    noise *= samples.std() / noise.std() * 10 ** (-rng.uniform(5, 15) / 20)
    return 0.5 * (samples + noise)


def result(scores: dict[str, dict[str, dict]], seconds: float) -> str:
    """Return the last screen: error rates with their intervals, and what to type
    next.
    """
    units = {
        score["interval"]["unit"] for own in scores.values() for score in own.values()
    }
    over = " and ".join(sorted(f"{unit}s" for unit in units))
    lines = [
        f"\nDone in {seconds / 60:.1f} min. Word error rate in % on real speech, "
        f"with its 95% interval over {over}:\n"
    ]
    lines += [f"{'':20}" + "".join(f"{SETS[part]:>22}" for part in SETS)]
    for system, name in SYSTEMS.items():
        cells = [
            f"{score['value']:.1f} {format_interval(score['ci95'], digits=1)}".rstrip()
            for score in scores[system].values()
        ]
        lines.append(f"{name:20}" + "".join(f"{cell:>22}" for cell in cells))
    words = scores["baseline"]["test-other"]["words"]
    sides = " ".join(
        f"--system {system}={EXP}/{system}/seed1/decode_default/test-other/text"
        for system in SYSTEMS
    )
    return "\n".join(
        [
            *lines,
            f"\n{words} words a set, one training of each system. "
            "egs/librispeech_sem/RESULTS.md has six, tested.",
            f"Picture: {EXP / 'demo.png'}\n\nNext, in egs/librispeech_sem after "
            "`. path.sh`:",
            f"  ./run.sh {' '.join(ROWS)} --seed 2,3,4,5   # more trainings, and "
            "the test of the claim",
            f"  espnet-ext score compare --ref {DATA}/test-other/text --utt2spk "
            f"{DATA}/test-other/utt2spk \\",
            f"    {sides} --output {EXP}/compare   # the errors of both, side by side",
            "  ./run.sh --scale full --librispeech /data/LibriSpeech --rehearse   "
            "# what the paper's models would take",
        ]
    )


def drawn(scores: dict[str, dict[str, dict]]) -> Figure:
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
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()

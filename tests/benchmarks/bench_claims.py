"""How often the test for claims calls a null effect, and how often it finds one that is there, by simulation.

Words, speakers and trainings vary as they do in the results that the recipes keep: an error rate of 30%, trainings with
a standard deviation of 2, 4.5 or 6 points, speakers of 10, what a speaker does to one system rather than the other of
2, and to one training of it of 3 points; some hundred words a speaker, unevenly spread. "uneven" trainings are of two
kinds, of which one in four fails. docs/statistics.md has the table that this prints.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from espnet_ext.scoring.significance import crossed_test

LEVEL = 0.05
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Design:
    """An experiment: how many trainings and units, and how they vary (as fractions of words)."""

    seeds: int
    units: int
    training: float
    uneven: bool = False
    speaker_of_system: float = 0.02
    speaker_of_training: float = 0.03
    words: float = 100.0


def draw(design: Design, effect: float, generator: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """Errors of both systems, (seeds, units), and words, (units,); the second has ``effect`` more errors a word."""
    words = np.maximum(5, np.round(design.words * generator.lognormal(0, 0.5, design.units))).astype(np.int64)
    speakers = generator.normal(0, 0.10, design.units)
    shape = design.seeds, design.units
    errors = []
    for extra in (0.0, effect):
        rates = 0.30 + extra + speakers + _trainings(design, generator)[:, None]
        rates = rates + generator.normal(0, design.speaker_of_system, design.units)
        rates = rates + generator.normal(0, design.speaker_of_training, shape)
        errors.append(generator.binomial(words, np.clip(rates, 0.01, 0.97)))
    return errors[0], errors[1], words


def _trainings(design: Design, generator: np.random.Generator) -> NDArray[np.float64]:
    if not design.uneven:
        return generator.normal(0, design.training, design.seeds)
    failed = generator.random(design.seeds) < 0.25
    return (failed - 0.25) / np.sqrt(0.25 * 0.75) * design.training


def share_called(
    design: Design, effect: float, rounds: int, test: Callable[[Counts, Counts, Counts], float | None], seed: int = 0
) -> float:
    """The share of simulated experiments that a test calls."""
    generator = np.random.default_rng(seed)
    p_values = [test(*draw(design, effect, generator)) for _ in range(rounds)]
    return sum(p is not None and p < LEVEL for p in p_values) / rounds


def crossed(better: Counts, worse: Counts, words: Counts) -> float | None:
    """The p-value of the test that the tables use."""
    return crossed_test(better, worse, words).p_value


def over_units(better: Counts, worse: Counts, words: Counts) -> float:
    """The p-value of a bootstrap that pools seeds and draws units, which knows nothing of other trainings."""
    draws = np.random.default_rng(0).multinomial(len(words), np.full(len(words), 1 / len(words)), size=400)
    differences = draws @ (worse - better).sum(axis=0)
    fewer = min((differences <= 0).sum(), (differences >= 0).sum())
    return min(1.0, 2 * (fewer + 1) / (len(differences) + 1))


def designs(uneven: bool) -> Iterator[Design]:
    """The designs of the table."""
    for training in (0.02, 0.045, 0.06):
        for seeds in (3, 5, 10):
            for units in (5, 8, 12, 40):
                yield Design(seeds, units, training, uneven)


EFFECTS = (0.05, 0.10, 0.20)


def simulate(rounds: int) -> dict[str, Any]:
    """All numbers of docs/statistics.md: experiments of 100 that are called."""
    rows, nulls = [], {}
    for design in designs(uneven=False):
        nulls[design] = share_called(design, 0.0, rounds, crossed)
        found = [share_called(design, effect, rounds, crossed) for effect in EFFECTS]
        pooled = share_called(design, 0.0, min(rounds, 200), over_units)
        rows.append(
            {
                "sd": round(100 * design.training, 1),
                "seeds": design.seeds,
                "units": design.units,
                "pooled_null": round(100 * pooled, 1),
                "null": round(100 * nulls[design], 1),
                "found": [round(100 * share, 1) for share in found],
            }
        )
    worst = max(nulls, key=lambda design: nulls[design])
    uneven = max(share_called(design, 0.0, rounds, crossed) for design in designs(uneven=True))
    return {
        "rounds": rounds,
        "effects_in_points": [100 * effect for effect in EFFECTS],
        "designs": rows,
        "largest_null_of_uneven": round(100 * uneven, 1),
        "largest_null_again": {
            "rounds": 10 * rounds,
            "null": round(100 * share_called(worst, 0.0, 10 * rounds, crossed, seed=1), 1),
        },
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1200, help="simulated experiments for each number")
    values = simulate(parser.parse_args().rounds)
    print(tabulate([{**row, "found": " ".join(map(str, row["found"]))} for row in values["designs"]], headers="keys"))
    print({key: value for key, value in values.items() if key != "designs"})


if __name__ == "__main__":
    main()

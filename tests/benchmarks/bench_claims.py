"""How often the test for claims calls a null effect, and how often it finds one that is
there, by simulation.

Words, speakers and trainings vary as they do in the results that the recipes keep: an
error rate of 30%, trainings with a standard deviation of 2, 4.5 or 6 points, speakers
of 10, what a speaker does to one system rather than the other of 2, and to one training
of it of 3 points; some hundred words a speaker, unevenly spread. docs/statistics.md
quotes what this prints.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from espnet_ext.scoring.significance import run_crossed_test

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Design:
    """An experiment: how many trainings and units, and how they vary (as fractions of
    words).

    Attributes:
        failing: share of the trainings of the second system that fail, by 15 points.
        equal: whether its other trainings are better by so much that the means of both
            systems are equal.
        rule: whether trainings that fail are known, and left out.
    """

    seeds: int
    units: int
    training: float
    failing: float = 0.0
    equal: bool = False
    rule: bool = False
    speaker_of_system: float = 0.02
    speaker_of_training: float = 0.03
    words: float = 100.0


def draw(
    design: Design, effect: float, generator: np.random.Generator
) -> tuple[Counts, Counts, Counts]:
    """Errors of both systems, (seeds, units), and words, (units,); the second has
    ``effect`` more errors a word.
    """
    words = np.maximum(
        5, np.round(design.words * generator.lognormal(0, 0.5, design.units))
    ).astype(np.int64)
    speakers = generator.normal(0, 0.10, design.units)
    shape = design.seeds, design.units
    failed = generator.random(design.seeds) < design.failing
    loss = 0.15 * (failed - (design.failing if design.equal else 0.0))
    errors = []
    for extra in (np.zeros(design.seeds), effect + loss):
        rates = (
            0.30
            + speakers
            + (extra + generator.normal(0, design.training, design.seeds))[:, None]
        )
        rates = rates + generator.normal(0, design.speaker_of_system, design.units)
        rates = rates + generator.normal(0, design.speaker_of_training, shape)
        errors.append(generator.binomial(words, np.clip(rates, 0.01, 0.97)))
    left = ~failed if design.rule else np.ones(design.seeds, dtype=bool)
    return errors[0][left], errors[1][left], words


def p_values(
    design: Design, effect: float, rounds: int, *, fewest: bool = False, seed: int = 0
) -> NDArray[np.float64]:
    """The p-values of simulated experiments, with the sign of the difference: negative
    if the second is better.
    """
    generator, found = np.random.default_rng(seed), []
    for _ in range(rounds):
        test = run_crossed_test(*draw(design, effect, generator), fewest=fewest)
        found.append(
            np.copysign(1.0 if test.p_value is None else test.p_value, test.difference)
        )
    return np.array(found)


def share_called(
    design: Design,
    effect: float,
    rounds: int,
    level: float = 0.05,
    *,
    fewest: bool = False,
) -> float:
    """The share of simulated experiments in which a difference is significant."""
    return float(
        (np.abs(p_values(design, effect, rounds, fewest=fewest)) < level).mean()
    )


def designs() -> Iterator[Design]:
    """The designs of the table."""
    for training in (0.02, 0.045, 0.06):
        for seeds, units in ((3, 12), (5, 12), (5, 40), (10, 12), (10, 40)):
            yield Design(seeds, units, training)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=2000, help="simulated experiments for each number"
    )
    rounds = parser.parse_args().rounds
    rows = []
    for design in designs():
        row = [f"{100 * design.training:g}", design.seeds, design.units]
        for fewest in (True, False):
            null = np.abs(p_values(design, 0.0, rounds, fewest=fewest))
            row += [percent((null < 0.05).mean()), f"{100 * (null < 0.005).mean():.2f}"]
        for effect in (0.05, 0.10):
            row += [
                percent(share_called(design, effect, rounds, fewest=fewest))
                for fewest in (True, False)
            ]
        rows.append(row)
    head = (
        "sd",
        "seeds",
        "units",
        "fewest .05",
        ".005",
        "new .05",
        ".005",
        "5 fewest",
        "new",
        "10 fewest",
        "new",
    )
    print(tabulate(rows, head, disable_numparse=True))
    rows = []
    for seeds in (5, 10, 20):
        failing = Design(seeds, 40, 0.01, failing=0.1, speaker_of_system=0.0)
        row = [seeds]
        for design in (
            replace(failing, equal=True),
            failing,
            replace(failing, rule=True),
        ):
            found = p_values(design, 0.0, rounds)
            row += [
                percent((np.abs(found) < 0.05).mean()),
                percent(((np.abs(found) < 0.05) & (found < 0)).mean()),
            ]
        rows.append(row)
    head = (
        "seeds",
        "equal means",
        "for it",
        "equal but for failures",
        "for it",
        "with the rule",
        "for it",
    )
    print(tabulate(rows, head, disable_numparse=True))


if __name__ == "__main__":
    main()

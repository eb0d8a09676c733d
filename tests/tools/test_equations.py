"""Each numbered equation of the five papers is found in the code by a search for its
number, as for `P4, eq. 7`.

A range or a list would hide the numbers inside it, so the search is a plain one.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "espnet_ext"
# The plain text of P4 lacks 12 to 14, 16 and 17, which follow from the order of its
# equations. P5 numbers none.
EQUATIONS = {"P1": [1, 2], "P2": range(1, 13), "P3": range(1, 13), "P4": range(1, 19)}


def test_each_equation_and_no_other_is_named():
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")
    )
    named = {
        (paper, int(number))
        for paper, number in re.findall(r"(P\d),[\s#]+eq\.[\s#]+(\d+)", source)
    }
    assert named == {
        (paper, number) for paper, numbers in EQUATIONS.items() for number in numbers
    }

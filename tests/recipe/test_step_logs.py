"""What is shown of a step's log while it runs."""

from pathlib import Path

import pytest

from espnet_ext.recipe.step_logs import describe_failure, find_last_line


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("# espnet-ext x\n", ""),
        ("# espnet-ext x\n1 of 4 systems\n\n", "1 of 4 systems"),
        ("first\n 10%\r 20%\r", " 20%"),
        (
            "1 of 4 systems\nFailed to import Flash Attention, using ESPnet "
            "default: No module\n",
            "1 of 4 systems",
        ),
        ("3 of 40\n" + "[src/libmpg123/layer3.c] error: too large\n" * 300, "3 of 40"),
        ("3 of 40\n" + "[src/libmpg123/layer3.c] error: too large\n" * 3000, ""),
        ("10%\r" * 9000 + "20%\r", "20%"),
        ("x" * 50_000, "x" * 120),
        (
            "3 recordings\n[src/libmpg123/parse.c:wetwork():1389] warning: Big "
            "change\n# end\n",
            "3 recordings",
        ),
    ],
)
def test_the_last_line_that_tells_how_far_a_step_is(
    tmp_path: Path, log: str, shown: str
) -> None:
    (tmp_path / "step.log").write_text(log)
    assert find_last_line(tmp_path / "step.log") == shown


def test_a_long_line_at_the_end_of_a_failed_log_is_shown(tmp_path: Path) -> None:
    """PyTorch names all missing keys of a state dict in one line."""
    (tmp_path / "step.log").write_text(
        "# start\n" + 'Missing key(s) in state_dict: "encoder.0", ' * 1000 + "end\n"
    )
    assert "Missing key(s)" in describe_failure("train", tmp_path / "step.log", 1)

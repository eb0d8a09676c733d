"""Runs of the recipes at scale smoke, some of them stopped in the middle, and what they
end with.
"""

import gzip
import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from call_trace import VARIABLE
from fake_gpus import LOG, read_uses
from stage_server import environment

from espnet_ext.tables.publish import read_results
from espnet_ext.tables.result import Cell, TableResult
from espnet_ext.tables.score_table import SCORES

EGS = Path(__file__).parents[2] / "egs"
# For each recipe, few rows that go through all its stages. Without an entry here: all
# rows of the first table.
ROWS = {
    "librispeech_sem": ("--table", "1", "--rows", "baseline"),
    "asru2019_cs": ("--table", "1", "--rows", "reweight"),
    "librispeech_rescore": ("--table", "1", "--rows", "first pass,BERT MWER"),
    "libricss_stitch": (
        "--table",
        "2",
        "--rows",
        "Overlapping inference,Stitcher WCOE",
    ),
    "spotify_longctx": ("--figure", "1", "--rows", "Rev16 at 10 s"),
}
RECIPES = sorted(path.parent.name for path in EGS.glob("*/run.sh"))
# with scores: small models write little, so equal texts would hide differences
HYPOTHESES = ("text", "score", "nbest.jsonl", "transcripts.json")
STAGE = re.compile(r"^== Stage ([0-9]+):")
PATIENCE = 1800  # seconds that a whole run may take on a busy machine


def smoke_run(
    recipe: str,
    *options: str,
    folder: Path,
    datadir: Path | None = None,
    status: int | None = 0,
) -> subprocess.CompletedProcess:
    """Run a recipe's ``run.sh`` with experiments, and data where no other place is
    given, below ``folder``.

    It must end with ``status``; ``None``: with any. In one process, since more start
    slowly. None of its processes may start CUDA, though the machine has a GPU.
    """
    uses = folder / "uses_of_gpus"
    folders = [
        "--expdir",
        str(folder / "exp"),
        "--datadir",
        str(datadir or folder / "data"),
    ]
    # Set for one run, while the environment of the server is that of its start.
    trace = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
    done = subprocess.run(
        ["./run.sh", "--scale", "smoke", "--nj", "1", *folders, *options],
        cwd=EGS / recipe,
        env={**environment(), LOG: str(uses), **trace},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert not read_uses(uses), "GPUs are not hidden"
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def table_of(recipe: str, folder: Path, table: str = "1") -> TableResult:
    """Return a table or figure of the run below ``folder``."""
    return next(
        each
        for each in read_results(folder / "exp" / "results", EGS / recipe)
        if each.table.id == table
    )


def cells_of(recipe: str, folder: Path, table: str = "1") -> dict[str, dict[str, Cell]]:
    """Return the cells of a table by row and by the name of their column."""
    return {
        row.name: {column.name: cell for column, cell in row.cells.items()}
        for row in table_of(recipe, folder, table).rows
    }


def assert_nothing_is_repeated(again: subprocess.CompletedProcess) -> None:
    """Check a run whose command has run before."""
    steps = re.findall(r"^   .*: done (?:before|in).*$", again.stdout, re.M)
    assert len(steps) >= 10 and all(step.endswith("done before") for step in steps), (
        steps
    )


def stages(recipe: str) -> list[int]:
    """The numbers of a recipe's stages, as its run.sh has them."""
    lines = (EGS / recipe / "run.sh").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("run ")]


def fail_in_each_stage(
    recipe: str, folder: Path, *options: str, datadir: Path | None = None
) -> None:
    """Make a step of each stage of a finished run fail: run.sh must end with an error
    that names it.
    """
    notes = {}
    for top in {folder, datadir or folder}:
        notes |= {
            json.loads(note.read_text()).get("step"): note
            for note in top.rglob("*.done")
        }
    for number in stages(recipe):
        only = (*options, "--stage", str(number), "--stop_stage", str(number))
        done = smoke_run(recipe, *only, folder=folder, datadir=datadir)
        names = re.findall(r"^   (.*): done before$", done.stdout, re.M)
        broken = (
            notes[names[-1]].with_suffix(".log")
            if names
            else folder / "exp" / "results"
        )
        if not names and number != stages(recipe)[-1]:
            continue  # these rows ask for nothing of it
        aside = broken.with_name(broken.name + ".aside")
        broken.rename(aside)
        if names:
            note = notes[names[-1]].read_bytes()
            notes[names[-1]].unlink()
            broken.mkdir()
        else:
            broken.touch()
        failed = smoke_run(recipe, *only, folder=folder, datadir=datadir, status=1)
        assert (names[-1] if names else str(broken)) in failed.stderr, failed.stderr
        assert "Traceback" not in failed.stderr
        if names:
            broken.rmdir()
            notes[names[-1]].write_bytes(note)
        else:
            broken.unlink()
        aside.rename(broken)


@dataclass(frozen=True)
class Run:
    """A recipe's run with folders of its own below ``folder``."""

    recipe: str
    folder: Path

    def command(self, *options: str) -> list[str]:
        folders = [
            "--expdir",
            str(self.folder / "exp"),
            "--datadir",
            str(self.folder / "data"),
        ]
        return [
            "./run.sh",
            "--scale",
            "smoke",
            *ROWS.get(self.recipe, ()),
            *folders,
            *options,
        ]

    def start(self, *options: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*options),
            cwd=EGS / self.recipe,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, *options: str) -> str:
        """Run to the end and return what it printed."""
        output, status = self.attempt(*options)
        assert status == 0, output
        return output

    def attempt(self, *options: str) -> tuple[str, int]:
        process = self.start(*options)
        output, _ = process.communicate(timeout=PATIENCE)
        return output, process.returncode

    def seconds_of_stages(self) -> dict[int, float]:
        """Run to the end, and say how long each stage took."""
        process = self.start()
        began: dict[int, float] = {}
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := STAGE.match(line):
                began[int(found[1])] = time.monotonic()
        assert process.wait() == 0, "".join(lines)
        ends = [*list(began.values())[1:], time.monotonic()]
        return {
            stage: end - start
            for (stage, start), end in zip(began.items(), ends, strict=True)
        }

    def kill_in(self, stage: int, delay: float) -> None:
        """Kill a run ``delay`` seconds after a stage has started; no process that it
        started may live on.
        """
        process = self.start()
        alarm = threading.Timer(PATIENCE, process.kill)
        alarm.start()
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(f"== Stage {stage}:"):
                break
        alarm.cancel()
        assert lines and lines[-1].startswith(f"== Stage {stage}:"), "".join(lines)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        deadline = time.monotonic() + 60
        while left := self._processes():
            assert time.monotonic() < deadline, (
                f"killed in stage {stage}, but its work goes on:\n{left}"
            )
            time.sleep(0.2)

    def _processes(self) -> str:
        return subprocess.run(
            ["pgrep", "-af", str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def results(self) -> dict[str, object]:
        """Its scores, and its hypotheses with their scores."""
        scores = self.folder / "exp" / "results" / SCORES
        found: dict[str, object] = {SCORES: gzip.decompress(scores.read_bytes())}
        for path in sorted((self.folder / "exp").rglob("decode_*/**/*")):
            if path.name in HYPOTHESES and "log" not in path.parts:
                found[os.path.relpath(path, self.folder)] = path.read_text()
        return found

"""What installing costs on a fresh machine: time, size, and what was compiled.

    python tests/benchmarks/bench_install.py core --python PYTHON [--espnet 202611] [--output docs/results/install.json]
    python tests/benchmarks/bench_install.py repository --python PYTHON [--output docs/results/install.json]

`core`: an environment with ESPnet is made (that is not timed); then, in a clone of this repository's last commit,
`pip install .`, `espnet-ext check` and `examples/own_model.py`. `repository`: `make -C tools demo` in such a clone,
with its installation timed apart. Each command has an empty HOME, so that nothing is downloaded already, and no
variables of this shell. A package was compiled if it was built here and its wheel is for one platform. Needs a network,
`uv`, and 8 GB for `core`, 16 GB for `repository`. Other cases stay in the file.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet_ext.tables.kept.facts import read_facts, write_facts

ROOT = Path(__file__).resolve().parents[2]
ABOUT = (
    "Installation with an empty home: seconds of wall clock and of processor, beside other work; megabytes (10^6 "
    "bytes) of the environment; packages that were built from source, and those of them that were compiled"
)
BUILT = re.compile(r"^\s*(?:Building wheel for (\S+) \(|Built ([\w.-]+?)(?:==\S+| @ \S+)?$)", re.MULTILINE)


class Machine:
    """A home that is empty at first, a clone of the repository, and commands that see nothing else of this user."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.clone, self.home = folder / "espnet_ext", folder / "home"
        self.home.mkdir()
        self.variables = {"HOME": str(self.home), "PATH": f"{python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        subprocess.run(["git", "clone", "--quiet", ROOT, self.clone], check=True)

    def run(self, command: Sequence[str | Path], folder: Path | None = None) -> tuple[str, dict[str, float]]:
        """The output of a command, and its seconds of wall clock and processor.

        Raises:
            SystemExit: it failed.
        """
        print(f"$ {' '.join(map(str, command))}", flush=True)
        start, before = time.perf_counter(), os.times()
        done = subprocess.run(
            command, cwd=folder or self.clone, env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        after = os.times()
        processor = after.children_user + after.children_system - before.children_user - before.children_system
        print(done.stdout[-2000:], flush=True)
        if done.returncode:
            raise SystemExit(f"{command}: status {done.returncode}")
        return done.stdout, {"wall_s": time.perf_counter() - start, "processor_s": processor}


def core(machine: Machine, python: Path, espnet: str, uv: str) -> dict[str, Any]:
    """`pip install .` beside an ESPnet that is there already, and `own_model.py`."""
    venv = machine.clone.parent / "venv"
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", python, venv], check=True)
    pinned = [f"espnet=={espnet}", "torch>=2.11,<2.12"]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python", *pinned], check=True)
    before, packages = megabytes(venv), installed(venv)
    log, install = machine.run([venv / "bin" / "pip", "install", "--no-color", "."])
    after, added = megabytes(venv), sorted(installed(venv) - packages)
    check, _ = machine.run([venv / "bin" / "espnet-ext", "check"])
    output, own = machine.run([venv / "bin" / "python", "examples/own_model.py", "tones"])
    return {
        "espnet": espnet,
        "install": install,
        "before_mb": before,
        "added_mb": after - before,
        "packages": added,
        **built(log, venv),
        "check": check.strip().splitlines()[-1],
        "own_model": own,
        "heard": heard(output),
    }


def repository(machine: Machine) -> dict[str, Any]:
    """`make -C tools install`, then `make -C tools demo`."""
    venv = machine.clone / "tools" / "venv"
    _, install = machine.run(["make", "-C", "tools", "install"])
    log = (machine.clone / "tools" / ".bootstrap" / "install.log").read_text()
    output, demo = machine.run(["make", "-C", "tools", "demo"])
    found = {"install": install, "environment_mb": megabytes(venv), "packages": sorted(installed(venv))}
    rows = [line for line in output.splitlines() if line.startswith(("baseline", "SEM "))]
    return {**found, **built(log, venv), "demo": demo, "rows": rows, "clone_mb": megabytes(machine.clone)}


def built(log: str, venv: Path) -> dict[str, list[str]]:
    """The packages that pip or uv built, by their log, and those of them whose wheel is not for any platform."""
    names = sorted({(found[0] or found[1]).replace("_", "-").lower() for found in BUILT.findall(log)})
    return {"built": names, "compiled": [name for name in names if not is_pure(name, venv)]}


def is_pure(name: str, venv: Path) -> bool:
    """Whether the installed package came as a wheel for any platform."""
    for path in venv.glob("lib/python*/site-packages/*.dist-info/WHEEL"):
        if path.parent.name.partition("-")[0].replace("_", "-").replace(".", "-").lower() == name.replace(".", "-"):
            return all(line.endswith("-any") for line in path.read_text().splitlines() if line.startswith("Tag: "))
    raise SystemExit(f"{name}: was built, but is not in {venv}")


def installed(venv: Path) -> set[str]:
    """Packages with versions."""
    return {path.name.removesuffix(".dist-info") for path in venv.glob("lib/python*/site-packages/*.dist-info")}


def megabytes(folder: Path) -> float:
    """Size of all files, without links."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def heard(output: str) -> list[int]:
    """How many utterances of own_model.py were recognised without an error, and how many there were."""
    pairs = re.findall(r"said: (.*?)  heard: (.*)", output)
    return [sum(said == found for said, found in pairs), len(pairs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["core", "repository"])
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="3.12 or 3.13 (default: this one)")
    parser.add_argument("--espnet", default="202611", help="release for `core` (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--uv", default=shutil.which("uv") or str(ROOT / "tools/.bootstrap/uv/bin/uv"))
    parser.add_argument("--output", type=Path, metavar="FILE", help="file of facts")
    args = parser.parse_args()
    program = "import platform; print(platform.python_version())"
    version = subprocess.run([args.python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        machine = Machine(Path(folder), args.python)
        found = core(machine, args.python, args.espnet, args.uv) if args.case == "core" else repository(machine)
    print(found)
    if args.output:
        name = f"{args.case} {'.'.join(version.split('.')[:2])}" + (f" {args.espnet}" if args.case == "core" else "")
        cases = read_facts(args.output)["values"]["cases"] if args.output.is_file() else {}
        cases[name] = {"python": version, **found}
        command = (
            f"python tests/benchmarks/bench_install.py {args.case} --python PYTHON --output docs/results/install.json"
        )
        write_facts(args.output, ABOUT, command, {"cases": dict(sorted(cases.items()))})


if __name__ == "__main__":
    main()

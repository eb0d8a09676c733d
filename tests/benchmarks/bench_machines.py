"""What of a machine, and of how a command is started, changes the numbers: data and a training, compared bit by bit.

The data of librispeech_sem at scale smoke are made, and its baseline is trained for 36 updates, once for each factor:
threads, instruction sets (a processor that has more of them computes as one that has fewer), processes, order of files
in folders, hash seeds, locale. Run it on an idle machine, some 10 minutes of one core:
python tests/benchmarks/bench_machines.py --output docs/results/machines.json
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.work.yaml_files import read_yaml, write_yaml

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "egs" / "librispeech_sem"
STAGES = ("data", "format", "tokens", "statistics")
UPDATES = 6  # of an epoch
EPOCHS = 6
ABOUT = (
    "What changes the data of librispeech_sem at scale smoke, and a training on them, compared bit by bit with the "
    "usual; relative_difference: norm of the difference of all values after the last update, by their norm; dev_loss, "
    "cpu_seconds: the usual one and that with the factor; digest: of the final values"
)
COMMAND = "python tests/benchmarks/bench_machines.py --output docs/results/machines.json"
# As utils/path.sh sets it, but with all instructions of the processor.
USUAL = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
NUMPY_AVX2 = {
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
}
NO_AVX512 = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"
NO_FMA = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4"
SKIPPED = re.compile(r"\.(log|done|lock)$|^\.made\.json$")
# A folder lists its files in the order of its file system: here in reverse.
REVERSED = """
import os
_listdir, _scandir = os.listdir, os.scandir
os.listdir = lambda *a: sorted(_listdir(*a), reverse=True)
class _Scan:
    def __init__(self, *a):
        with _scandir(*a) as found:
            self.found = iter(sorted(found, key=lambda entry: entry.name, reverse=True))
    def __iter__(self): return self
    def __next__(self): return next(self.found)
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def close(self): pass
os.scandir = _Scan
"""


@dataclass(frozen=True)
class Factor:
    """One thing that differs from the usual.

    Attributes:
        name: what differs.
        environment: variables, besides the usual ones.
        options: of the recipe (data), or of ESPnet's training.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"\W+", "-", self.name).strip("-")


DATA = (
    Factor("the same again"),
    Factor("two processes (--nj 2)", options=("--nj=2",)),
    Factor("hash seed", {"PYTHONHASHSEED": "1"}),
    Factor("files of a folder in reverse order", {"PYTHONPATH": "reversed"}),
    Factor("locale", {"LC_ALL": "C"}),
    Factor("two threads", {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}),
    Factor("torch, oneDNN and MKL without AVX-512", AVX2),
    Factor("NumPy and OpenBLAS without AVX-512", NUMPY_AVX2),
    Factor("C library without FMA and AVX2", {"GLIBC_TUNABLES": NO_FMA}),
)
TRAINING = (
    Factor("the same again"),
    Factor("another seed", options=("--seed", "2")),
    Factor("hash seed", {"PYTHONHASHSEED": "1"}),
    Factor("torch, oneDNN and MKL without AVX-512", AVX2),
    Factor("everything without AVX-512", {**AVX2, **NUMPY_AVX2, "GLIBC_TUNABLES": NO_AVX512}),
)


def make_data(folder: Path, options: list[str]) -> None:
    """In a process of its own: the stages of the recipe before training."""
    from espnet_ext.cli.program import call

    where = [f"--expdir={folder / 'exp'}", f"--datadir={folder / 'data'}"]
    for stage in STAGES:
        call(["run", stage, f"--recipe={RECIPE}", "--scale=smoke", "--rows=baseline", *where, "--nj=1", *options])


def train(folder: Path, options: list[str]) -> None:
    """In a process of its own: train, and write digests of the initial and the final values into ``result.json``."""
    import torch
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.bin import asr_train

    build = ASRTask.build_model.__func__
    initial = []

    def build_model(cls: type, args: Any) -> torch.nn.Module:
        model = build(cls, args)
        initial.append(digest_of_values(model.state_dict()))
        return model

    ASRTask.build_model = classmethod(build_model)
    sys.argv = ["asr_train", *options]
    began = time.process_time()
    asr_train.main()
    seconds = time.process_time() - began
    state = torch.load(folder / "checkpoint.pth", weights_only=False)
    np.savez(folder / "values.npz", **{name: value.double().numpy() for name, value in state["model"].items()})
    scores = state["reporter"]["stats"][max(state["reporter"]["stats"])]["valid"]
    result = {
        "initial": initial[0],
        "final": digest_of_values(state["model"]),
        "dev_loss": scores["loss"],
        "dev_acc": scores["acc"],
        "seconds": seconds,
    }
    (folder / "result.json").write_text(json.dumps(result))


def digest_of_values(values: Mapping[str, Any]) -> str:
    """A digest of tensors or arrays and their names."""
    found = hashlib.sha256()
    for name, value in sorted(values.items()):
        found.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """A digest of each file in a folder; the folder's own path in a file does not count."""
    return {str(path.relative_to(folder)): _digest(path, folder) for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not SKIPPED.search(path.name) and not {"configs", "log"} & set(parts):
            yield path


def _digest(path: Path, folder: Path) -> str:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return digest_of_values(dict(arrays))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return hashlib.sha256(data.replace(str(folder).encode(), b"FOLDER")).hexdigest()


def run(what: str, folder: Path, factor: Factor, options: list[str]) -> None:
    """Run one of the functions above in a process with the factor's environment, unless it has been run."""
    if (folder / "done").is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | USUAL | factor.environment
    if environment.get("PYTHONPATH"):
        (folder / "reversed").mkdir()
        (folder / "reversed" / "sitecustomize.py").write_text(REVERSED)
        environment["PYTHONPATH"] = str(folder / "reversed")
    words = [sys.executable, str(Path(__file__).resolve()), "--do", what, "--folder", str(folder), "--", *options]
    with open(folder / "log", "w") as log:
        done = subprocess.run(words, env=environment, stdout=log, stderr=log, cwd=RECIPE, check=False)
    if done.returncode:
        raise SystemExit(f"{factor.name}: failed\n{(folder / 'log').read_text()[-3000:]}")
    (folder / "done").touch()


def compare_data(work: Path) -> list[dict[str, Any]]:
    """Which files of the data differ, by factor."""
    usual = usual_data(work)
    expected = {part: digests(usual / part) for part in ("data", "exp")}
    rows = []
    for factor in DATA:
        folder = work / "data" / factor.folder
        run("data", folder, factor, list(factor.options))
        found = {part: digests(folder / part) for part in ("data", "exp")}
        differ = [
            name
            for part in expected
            for name in sorted(expected[part].keys() | found[part].keys())
            if expected[part].get(name) != found[part].get(name)
        ]
        rows.append({"factor": factor.name, "equal": not differ, "differ": len(differ), "examples": differ[:5]})
        print(rows[-1], flush=True)
    return rows


def usual_data(work: Path) -> Path:
    """The folder of the data made as usual."""
    run("data", work / "data" / "usual", Factor("usual"), [])
    return work / "data" / "usual"


def compare_training(work: Path) -> list[dict[str, Any]]:
    """How much values after some updates differ, by factor."""
    usual = train_with(work, "usual", Factor("usual"))
    rows = []
    for factor in TRAINING:
        found = train_with(work, factor.folder, factor)
        rows.append(
            {
                "factor": factor.name,
                "initial_equal": found["initial"] == usual["initial"],
                "final_equal": found["final"] == usual["final"],
                "digest": found["final"][:8],
                "relative_difference": _distance(work, factor.folder),
                "dev_loss": [usual["dev_loss"], found["dev_loss"]],
                "cpu_seconds": [round(usual["seconds"], 1), round(found["seconds"], 1)],
            }
        )
        print(rows[-1], flush=True)
    return rows


def train_with(work: Path, name: str, factor: Factor, epochs: int = EPOCHS) -> dict[str, Any]:
    """Train on the usual data, in ``work/train/<name>``: digests and scores."""
    data, folder = usual_data(work), work / "train" / name
    config = read_yaml(data / "exp" / "configs" / "train.yaml")
    config["encoder_conf"]["dropout_rate"] = config["decoder_conf"]["dropout"] = 0.1  # draws random numbers
    write_yaml(work / "train.yaml", config, "section train of scale smoke, with dropout")
    stats = data / "exp" / "stats" / "train"
    options = [
        "--config", str(work / "train.yaml"), "--output_dir", str(folder), "--seed", "1", "--ngpu", "0",
        "--token_list", str(data / "data" / "tokens_bpe60" / "tokens.txt"), "--token_type", "bpe",
        "--bpemodel", str(data / "data" / "tokens_bpe60" / "bpe.model"), "--max_epoch", str(epochs),
        "--normalize_conf", f"stats_file={stats / 'train' / 'feats_stats.npz'}",
    ]  # fmt: skip
    for part, of in (("train", "train"), ("valid", "dev")):
        source = data / "data" / of
        options += [f"--{part}_data_path_and_name_and_type", f"{source / 'wav.scp'},speech,sound"]
        options += [f"--{part}_data_path_and_name_and_type", f"{source / 'text'},text,text"]
        options += [f"--{part}_shape_file", str(stats / part / "speech_shape")]
    run("train", folder, factor, [*options, *factor.options])
    return json.loads((folder / "result.json").read_text())


def _distance(work: Path, name: str) -> float:
    """Norm of the difference of all values from the usual ones, relative to the norm of these."""
    folder = work / "train"
    with np.load(folder / "usual" / "values.npz") as usual, np.load(folder / name / "values.npz") as found:
        squares = sum(((found[key] - usual[key]) ** 2).sum() for key in usual.files)
        return float(np.sqrt(squares / sum((usual[key] ** 2).sum() for key in usual.files)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the table into this file, as JSON")
    parser.add_argument("--do", choices=("data", "train"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="keep everything in this folder, and run only what is not there")
    parser.add_argument("--only", choices=("data", "training"), help="leave the rest out")
    parser.add_argument("options", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.do:
        {"data": make_data, "train": train}[args.do](args.folder, args.options)
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = args.folder or Path(temporary)
        parts = {"data": compare_data, "training": compare_training}
        values: dict[str, Any] = {
            name: compare(work) for name, compare in parts.items() if args.only is None or args.only == name
        }
    if args.output:
        write_facts(args.output, ABOUT, COMMAND, {**values, "updates": EPOCHS * UPDATES})


if __name__ == "__main__":
    main()

"""What an hour of audio to subtitles costs: ``espnet-ext transcribe``, with P5's model
of 6 layers of 768.

    python tests/benchmarks/bench_hour.py [--audio DIR] [--threads N] [--output
    hour.json]

The recordings of a folder (noise, if none is given) are joined until they fill an hour.
The model is that of egs/spotify_longctx/conf/full.yaml with random parameters: its
words mean nothing, its time and memory are those of a trained one. Windows do not
overlap (stride 1). All is counted from the start of the command to its end, with
imports and the reading of the model; the peak is that of resident memory. Runs with
other numbers of threads stay in the file.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.tables.plan import load_scale
from espnet_ext.work.provenance import write_record
from espnet_ext.work.yaml_files import write_yaml

RATE, TOKENS = 16000, 4096
WINDOW = 164.0  # seconds, one of P5's contexts
RECIPE = Path(__file__).parents[2] / "egs" / "spotify_longctx"
NOISE = np.random.default_rng(0).normal(scale=0.1, size=30 * RATE)
ABOUT = (
    "An hour of audio to SRT by `espnet-ext transcribe` with P5's model of 6 "
    "layers of 768, by the number of threads: "
    "seconds of wall clock and processor, gigabytes of resident memory"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--audio",
        type=Path,
        metavar="DIR",
        help="flac or wav files of 16 kHz, mono; none: noise",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="of torch (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="(default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="file of facts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        audio = work / "hour.flac"
        seconds = join(args.audio, audio, 60 * args.minutes)
        write_model(work / "model")
        found = transcribe(work / "model", audio, args.threads) | {"seconds": seconds}
    found["real_time_factor"] = found["wall_s"] / seconds
    print(f"{args.threads} threads: {found}")
    if args.output:
        runs = (
            json.loads(args.output.read_text())["values"]["runs"]
            if args.output.is_file()
            else {}
        )
        command = (
            "python tests/benchmarks/bench_hour.py --audio DIR --threads N --output "
            "hour.json"
        )
        runs = dict(sorted((runs | {str(args.threads): found}).items()))
        write_record(args.output, ABOUT, command, {"window_s": WINDOW, "runs": runs})


def join(folder: Path | None, target: Path, seconds: float) -> float:
    """Write the recordings of a folder, or noise, again and again until they fill
    ``seconds``; return their seconds.
    """
    written = 0
    with soundfile.SoundFile(target, "w", RATE, 1) as file:
        for samples in (
            itertools.cycle([NOISE]) if folder is None else recordings(folder)
        ):
            file.write(samples)
            written += len(samples)
            if written >= seconds * RATE:
                break
    return written / RATE


def recordings(folder: Path) -> Iterator[np.ndarray]:
    """The recordings of a folder, from the first again after the last."""
    paths = sorted([*folder.rglob("*.flac"), *folder.rglob("*.wav")])
    if not paths:
        raise SystemExit(f"{folder}: no flac or wav files in it")
    for path in itertools.cycle(paths):
        samples, rate = soundfile.read(path, dtype="float32")
        if rate != RATE or samples.ndim > 1:
            raise SystemExit(f"{path}: not {RATE} Hz, mono")
        yield samples


def write_model(folder: Path) -> None:
    """The model of conf/full.yaml with random parameters, as a training leaves it."""
    import torch
    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    torch.manual_seed(0)
    options = ASRTask.get_default_config() | load_scale(RECIPE, "full")["train"]
    options |= {
        "token_list": ["<blank>", *(f"w{index}" for index in range(1, TOKENS))],
        "token_type": "word",
    }
    options |= {
        "init": None,
        "normalize": None,
        "specaug": None,
        "decoder": None,
        "model": "espnet",
    }
    model = ASRTask.build_model(argparse.Namespace(**options))
    folder.mkdir()
    write_yaml(folder / "config.yaml", options, "a model with random parameters")
    torch.save(model.state_dict(), folder / "valid.loss.best.pth")


def transcribe(model: Path, audio: Path, threads: int) -> dict[str, Any]:
    """Run the command. Returns seconds of wall clock and processor, the peak of memory
    and the number of subtitles.
    """
    output = model.parent / "transcripts"
    command = [
        str(Path(sys.executable).with_name("espnet-ext")),
        "transcribe",
        str(audio),
        "--model",
        str(model),
    ]
    command += [
        "--window",
        f"{WINDOW:g}",
        "--window-overlap",
        "0",
        "--formats",
        "srt",
        "--output",
        str(output),
    ]
    variables = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return {
        "wall_s": wall,
        "processor_s": used.ru_utime + used.ru_stime,
        "peak_gb": used.ru_maxrss * 1024 / 1e9,
        "subtitles": (output / f"{audio.stem}.srt").read_text().count(" --> "),
    }


if __name__ == "__main__":
    main()

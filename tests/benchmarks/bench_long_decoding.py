"""What decoding by moving windows costs: processor time, and memory over the length of the recording.

    python tests/benchmarks/bench_long_decoding.py [--encoder-config YAML] [--window S] [--minutes 5 60]

Each recording is decoded in a process of its own, so that its peak of memory is its own. The encoder is that of a
training config with ``encoder`` and ``encoder_conf``, with random parameters, by default a small conformer; its input
are 80 channels of features, its output 4,096 tokens. The last column is the ratio to the shortest recording's peak.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import soundfile

CHANNELS, TOKENS, RATE = 80, 4096, 16000
CONFORMER = {
    "encoder": "conformer",
    "encoder_conf": {"output_size": 144, "num_blocks": 4, "input_layer": "conv2d8", "cnn_module_kernel": 9},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder-config", type=Path, metavar="YAML")
    parser.add_argument("--window", type=float, default=60.0, help="seconds (default: %(default)s)")
    parser.add_argument("--stride", type=float, default=0.125, help="of a window (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="windows at once (default: %(default)s)")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0, 60.0], help="(default: 5 60)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    args = parser.parse_args()
    print(f"windows of {args.window:g} s, stride {args.stride:g}, {args.batch} at once, {args.threads} threads")
    print("minutes  processor s  wall s  peak GB  ratio")
    first = None
    for minutes in args.minutes:
        with tempfile.TemporaryDirectory() as folder:
            audio = Path(folder) / "noise.flac"
            write_noise(audio, minutes)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                processor, wall, peak = pool.submit(measure, args, audio).result()
        first = first or peak
        print(f"{minutes:7.1f}  {processor:11.1f}  {wall:6.1f}  {peak:7.2f}  {peak / first:5.2f}", flush=True)


def write_noise(path: Path, minutes: float) -> None:
    rng = np.random.default_rng(0)
    with soundfile.SoundFile(path, "w", RATE, 1) as file:
        for _ in range(round(minutes * 2)):
            file.write(rng.normal(scale=0.1, size=30 * RATE))


def measure(args: argparse.Namespace, audio: Path) -> tuple[float, float, float]:
    """Decode one recording. Returns seconds of processor and wall, and the peak of memory in GB."""
    import torch
    from espnet2.tasks.asr import ASRTask

    from espnet_ext import register
    from espnet_ext.longform.decoding.greedy import GreedyDecoder
    from espnet_ext.longform.decoding.posteriors import LongModel, frame_unit
    from espnet_ext.longform.recording_audio import RecordingAudio
    from espnet_ext.longform.recording_features import RecordingFeatures
    from espnet_ext.work.yaml_files import read_yaml

    torch.set_num_threads(args.threads)
    register()
    config = read_yaml(args.encoder_config) if args.encoder_config else CONFORMER
    options = ASRTask.get_default_config() | {name: config[name] for name in ("encoder", "encoder_conf")}
    options |= {"input_size": CHANNELS, "token_list": [f"t{index}" for index in range(TOKENS)], "decoder": None}
    options |= {"model_conf": {"ctc_weight": 1.0}, "init": None, "normalize": None, "specaug": None}
    model = ASRTask.build_model(argparse.Namespace(**options)).eval()
    features = RecordingFeatures(n_mels=CHANNELS)
    unit = frame_unit(model, 1, CHANNELS, "cpu")
    decoder = GreedyDecoder()
    begin, used = time.perf_counter(), time.process_time()
    with RecordingAudio("noise", audio) as recording:
        long = LongModel(model, features, RATE, unit, options["token_list"])
        for posteriors in long.posteriors(long.source(recording), args.window, args.stride, args.batch):
            decoder.step(posteriors)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return time.process_time() - used, time.perf_counter() - begin, peak


if __name__ == "__main__":
    main()

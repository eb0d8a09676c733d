"""How much audio a worker of ESPnet's loader reads for training, by the format of the
files.

    python tests/benchmarks/bench_loading.py [--rounds 3]

Real digits (examples/digits), one after the other, become utterances of 12 to 16 s at
16 kHz, as in LibriSpeech. ESPnet's loader reads them with transcripts as characters,
and pads them, in batches of 200 s, those of P2. Seconds are the processor's, with one
process, after a round that is not counted: the files are in the system's cache.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile
import soxr
from espnet2.tasks.asr import ASRTask
from espnet2.train.collate_fn import CommonCollateFn
from espnet2.train.dataset import ESPnetDataset
from torch.utils.data import DataLoader

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
RATE, UTTERANCES, BATCH_SECONDS = 16000, 80, 200.0
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
}
FORMATS |= {"mp3": ("MP3", "MPEG_LAYER_III")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    args = parser.parse_args()
    speech = utterances()
    seconds = sum(map(len, speech)) / RATE
    with tempfile.TemporaryDirectory() as folder:
        for name, (container, codec) in FORMATS.items():
            paths = [
                Path(folder) / f"{number:03d}.{name}" for number in range(len(speech))
            ]
            for path, samples in zip(paths, speech, strict=True):
                soundfile.write(path, samples, RATE, format=container, subtype=codec)
            kilobits = sum(path.stat().st_size for path in paths) * 8 / seconds / 1000
            files = {str(number): path for number, path in enumerate(paths)}
            rates = [
                seconds / read(files, Path(folder), speech)
                for _ in range(args.rounds + 1)
            ][1:]
            spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
            print(
                f"{name:5} {kilobits:4.0f} kbit/s "
                f"{statistics.median(rates):8,.0f} s of audio per second "
                f"({spread})"
            )


def utterances() -> list[np.ndarray]:
    """Return speech of 12 to 16 s."""
    clips = [
        soundfile.read(path, dtype="float32") for path in sorted(DIGITS.rglob("*.flac"))
    ]
    whole = np.concatenate(
        [soxr.resample(samples, rate, RATE) for samples, rate in clips]
    )
    lengths = np.random.default_rng(0).integers(12 * RATE, 16 * RATE, UTTERANCES)
    return [
        np.roll(whole, -int(start))[:length]
        for start, length in zip(np.cumsum(lengths), lengths, strict=True)
    ]


def read(paths: Mapping[str, Path], folder: Path, speech: list[np.ndarray]) -> float:
    """Return the processor's seconds of one pass over the files."""
    (folder / "wav.scp").write_text(
        "".join(f"{key} {path}\n" for key, path in paths.items())
    )
    (folder / "text").write_text(
        "".join(f"{key} {'ONE TWO THREE ' * 8}\n" for key in paths)
    )
    config = ASRTask.get_default_config() | {
        "token_type": "char",
        "token_list": ["<blank>", "<unk>", *"EHNORTUW", "<s>"],
    }
    process = ASRTask.build_preprocess_fn(argparse.Namespace(**config), train=True)
    sources = [
        (str(folder / "wav.scp"), "speech", "sound"),
        (str(folder / "text"), "text", "text"),
    ]
    batches: list[list[str]] = [[]]
    for key in sorted(paths, key=lambda key: len(speech[int(key)])):
        if (len(batches[-1]) + 1) * len(speech[int(key)]) > BATCH_SECONDS * RATE:
            batches.append([])
        batches[-1].append(key)
    data = ESPnetDataset(sources, preprocess=process)
    loader = DataLoader(
        data, batch_sampler=batches, collate_fn=CommonCollateFn(int_pad_value=-1)
    )
    start = time.process_time()
    assert sum(len(keys) for keys, _ in loader) == len(paths)
    return time.process_time() - start


if __name__ == "__main__":
    main()

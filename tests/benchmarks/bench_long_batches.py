"""Batches of spotify_longctx at full scale: what loading one costs, and how many of them hold padding.

python tests/benchmarks/bench_long_batches.py [--output docs/results/long_batches.json]
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import torch

from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.alignment.word_times import read_word_times, write_word_times
from espnet_ext.longform.chunking import Chunk, Schedule, batches
from espnet_ext.longform.recording_features import RecordingFeatures, write_statistics
from espnet_ext.longform.training import ChunkDataset, Recordings
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.tables.plans.plan import load_scale
from espnet_ext.text.transcript import Word

RECIPE = Path(__file__).parents[2] / "egs" / "spotify_longctx"
sys.path.insert(0, str(RECIPE / "local"))
from count_updates import CONTEXTS, drawn_durations  # noqa: E402 -- of the recipe

PODCAST_HOURS = 58_000
LOADED_SECONDS = 300
PODCAST_SECONDS, WORD_SECONDS = 34 * 60.0, 0.34  # in the mean: 58,000 hours are 100,000 podcasts and 600 million words
LOADED_CONTEXTS = (10, LOADED_SECONDS)  # seconds
FRAME_SECONDS = 0.08  # of P5's encodings: 8 frames of 10 ms
ABOUT = (
    "Batches of an hour of audio at P5's scale: processor seconds of loading one, from audio and from kept features, "
    "and of reading its words; by context in seconds the share of batches whose sequences differ in length, and calls "
    "of attention in a layer"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the numbers as facts")
    args = parser.parse_args()
    torch.set_num_threads(1)
    values = {"loading": cost_of_loading(), "padding": padding_of_batches()}
    print(json.dumps(values, indent=1))
    if args.output:
        command = "python tests/benchmarks/bench_long_batches.py --output docs/results/long_batches.json"
        write_facts(args.output, ABOUT, command, values)


def cost_of_loading() -> dict[str, Any]:
    """A podcast (stereo at 44.1 kHz, Vorbis) becomes the chunks of batches in training, on one core.

    Noise stands for speech. By the length of the chunks: from the audio (it is decoded, resampled and turned into
    features) and from kept features, with the words in both. What is read lies in memory: a disk's time is not counted.
    The statistics need one pass over the audio before training.
    """
    conf = load_scale(RECIPE, "full")["train"]["features_conf"]
    features = RecordingFeatures(**conf)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "podcast.ogg"
        generator = np.random.default_rng(0)
        with soundfile.SoundFile(path, "w", 44100, 2) as file:
            for _ in range(LOADED_SECONDS):  # libsndfile's Vorbis encoder takes no more at a time
                file.write(generator.normal(0.0, 0.1, (44100, 2)).astype(np.float32))
        data = Path(folder) / "data"
        write_table(data / "wav.scp", {"podcast": str(path)})
        write_statistics(data, folder, conf, keep_features=True)
        starts = np.arange(0.0, PODCAST_SECONDS, WORD_SECONDS)  # those of a whole podcast are read for each chunk
        words = [Word("spoken"[: 1 + number % 6], start, start + 0.3) for number, start in enumerate(starts)]
        write_word_times(Path(folder) / "words", [("podcast", words)])
        tables = {name: read_table(Path(folder) / f"{name}.scp") for name in ("words", "statistics", "features")}
        found = {}
        for kind, kept in {"audio": {}, "kept": tables["features"]}.items():
            recordings = Recordings(
                {"podcast": str(path)},
                {"podcast": float(LOADED_SECONDS)},
                tables["words"],
                tables["statistics"],
                kept,
            )
            dataset = ChunkDataset(recordings, features, tokens_of_words)
            found[kind] = [loading(dataset, context) for context in LOADED_CONTEXTS]
        reading = [cost_of_words(tables["words"]["podcast"], 3600 / context) for context in LOADED_CONTEXTS]
    an_hour = found["audio"][-1]
    return {
        "cpu_seconds_an_hour": an_hour,
        "contexts": list(LOADED_CONTEXTS),
        "batch_core_seconds": found,
        "words_core_seconds": reading,
        "hours": PODCAST_HOURS,
        "cpu_hours_a_pass": an_hour * PODCAST_HOURS / 3600,
        "statistics_gb": PODCAST_HOURS * 2 * 2 * 80 * 4 / 1e9,  # podcasts of half an hour: two rows of 80 each
    }


def loading(dataset: ChunkDataset, context: float) -> float:
    """Processor seconds of an hour-long batch of chunks of ``context`` seconds, after one that is not counted."""
    seconds = dataset.recordings.duration["podcast"]
    chunks = [Chunk("podcast", start, min(start + context, seconds)) for start in np.arange(0.0, seconds, context)]
    dataset[chunks[0]]
    begin = time.process_time()
    for chunk in chunks:
        dataset[chunk]
    return (time.process_time() - begin) / seconds * 3600


def cost_of_words(entry: str, chunks: float) -> float:
    """Processor seconds of reading the words of a podcast for so many chunks, which is part of loading a batch."""
    times = 1000
    begin = time.process_time()
    for _ in range(times):
        read_word_times("podcast", entry)
    return (time.process_time() - begin) / times * chunks


def tokens_of_words(key: str, data: dict[str, str]) -> dict[str, np.ndarray]:
    """In place of ESPnet's preprocessor, whose word pieces an hour of text takes some milliseconds for."""
    return {"text": np.zeros(len(data["text"].split()), dtype=np.int64)}


def padding_of_batches() -> dict[str, Any]:
    """In how many batches sequences differ in length, and how often attention runs in a layer for one.

    With a mask for padding torch leaves its flash kernel; long_fastconformer attends once for each length instead.
    """
    durations = drawn_durations()
    rows = []
    for context in CONTEXTS:
        schedule = Schedule(batch_seconds=3600.0, max_seconds=context, double_every=0)
        lengths = [
            len({math.ceil((chunk.end - chunk.start) / FRAME_SECONDS) for chunk in batch})
            for batch in batches(durations, schedule, seed=0)
        ]
        rows.append(
            {
                "context": context,
                "padded": sum(number > 1 for number in lengths) / len(lengths),
                "calls": sum(lengths) / len(lengths),
            }
        )
    return {"frame_seconds": FRAME_SECONDS, "podcasts": len(durations), "batches": rows}


if __name__ == "__main__":
    main()

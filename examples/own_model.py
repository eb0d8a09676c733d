"""Your own model in ESPnet's ASR task, with modules of espnet_ext, which own_model.yaml
names.

    tools/venv/bin/python examples/own_model.py FOLDER [--config YAML] [OPTION OF
    ASR_TRAIN]...

Its words are tones, so a minute of training is enough. With your own data dirs, leave
out `make_data`.
"""

import argparse
from pathlib import Path

import numpy as np
import soundfile
from espnet2.bin.asr_inference import Speech2Text

from espnet_ext.bin import (
    asr_train,
)  # ESPnet's; the import registers the modules of espnet_ext and of third parties

CONFIG = Path(__file__).with_suffix(".yaml")
RATE = 16000
TONES = {"LOW": 300, "MID": 900, "HIGH": 2500}  # Hz


def make_data(folder: Path, utterances: int, seed: int) -> None:
    """Write wav.scp, text and token list of random words, each of 0.25 s."""
    random, wavs, texts = np.random.default_rng(seed), [], []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(utterances):
        words = random.choice(list(TONES), size=random.integers(1, 6))
        wave = np.concatenate(
            [
                np.sin(2 * np.pi * TONES[word] * np.arange(RATE // 4) / RATE)
                for word in words
            ]
        )
        soundfile.write(
            folder / f"u{number:03d}.wav",
            0.3 * wave + 0.01 * random.standard_normal(len(wave)),
            RATE,
        )
        wavs.append(f"u{number:03d} {folder / f'u{number:03d}.wav'}\n")
        texts.append(f"u{number:03d} {' '.join(words)}\n")
    (folder / "wav.scp").write_text("".join(wavs))
    (folder / "text").write_text("".join(texts))
    (folder / "tokens.txt").write_text(
        "\n".join(["<blank>", "<unk>", *TONES, "<sos/eos>"]) + "\n"
    )


def main(folder: Path, config: Path, options: list[str]) -> None:
    """Statistics, training and decoding, all by ESPnet."""
    data = ["--config", str(config), "--token_list", str(folder / "train/tokens.txt")]
    shapes = [
        "--normalize_conf",
        f"stats_file={folder / 'stats/train/feats_stats.npz'}",
    ]
    for number, (name, utterances) in enumerate({"train": 240, "valid": 20}.items()):
        make_data(folder / name, utterances, seed=number)
        data += [
            f"--{name}_data_path_and_name_and_type",
            f"{folder / name / 'wav.scp'},speech,sound",
        ]
        data += [
            f"--{name}_data_path_and_name_and_type",
            f"{folder / name / 'text'},text,text",
        ]
        shapes += [
            f"--{name}_shape_file",
            str(folder / "stats" / name / "speech_shape"),
        ]
    stats = [
        "--collect_stats",
        "true",
        "--normalize",
        "none",
        "--output_dir",
        str(folder / "stats"),
    ]
    asr_train.main([*data, *options, *stats])
    asr_train.main([*data, *shapes, "--output_dir", str(folder / "model"), *options])

    recogniser = Speech2Text(
        folder / "model/config.yaml",
        folder / "model/valid.acc.ave.pth",
        beam_size=4,
        ctc_weight=0.3,
    )
    make_data(folder / "test", utterances=5, seed=2)
    for line in (folder / "test/text").read_text().splitlines():
        utterance, reference = line.split(maxsplit=1)
        speech, _ = soundfile.read(folder / "test" / f"{utterance}.wav")
        print(f"{utterance}  said: {reference}  heard: {recogniser(speech)[0][0]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where data and model go")
    parser.add_argument("--config", type=Path, default=CONFIG)
    args, rest = parser.parse_known_args()
    main(args.folder, args.config, rest)

"""Train your own model in ESPnet's ASR task, with modules of espnet_ext.

    tools/venv/bin/python examples/own_model.py FOLDER [--config YAML] [OPTION]...

The modules are those that own_model.yaml names; options are those of `asr_train`. Words
are tones, so a minute of training is enough. With your own data dirs, leave out
`make_data`.
"""

import argparse
from pathlib import Path

import numpy as np
import soundfile
from espnet2.bin.asr_inference import Speech2Text

# ESPnet's program; the import registers the modules of espnet_ext and of third parties.
from espnet_ext.bin import asr_train

CONFIG = Path(__file__).with_suffix(".yaml")
RATE = 16000
TONES = {"LOW": 300, "MID": 900, "HIGH": 2500}  # Hz


def make_data(folder: Path, utterances: int, seed: int) -> None:
    """Write wav.scp, text and token list of random words, each of 0.25 s."""
    random = np.random.default_rng(seed)
    wavs = []
    texts = []
    time = np.arange(RATE // 4) / RATE
    tones = {word: np.sin(2 * np.pi * hertz * time) for word, hertz in TONES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(utterances):
        words = random.choice(list(TONES), size=random.integers(1, 6))
        wave = np.concatenate([tones[word] for word in words])
        # With noise, as in a recording: a pure tone leaves most mel bands empty.
        samples = 0.3 * wave + 0.01 * random.standard_normal(len(wave))
        name = f"u{number:03d}"
        path = folder / f"{name}.wav"
        soundfile.write(path, samples, RATE)
        wavs.append(f"{name} {path}\n")
        texts.append(f"{name} {' '.join(words)}\n")
    (folder / "wav.scp").write_text("".join(wavs))
    (folder / "text").write_text("".join(texts))
    # ESPnet wants the blank first, and the start and end of a sentence last.
    tokens = ["<blank>", "<unk>", *TONES, "<sos/eos>"]
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in tokens))


def main(folder: Path, config: Path, options: list[str]) -> None:
    """Collect statistics, train and decode, all by ESPnet."""
    make_data(folder / "train", utterances=240, seed=0)
    make_data(folder / "valid", utterances=20, seed=1)
    make_data(folder / "test", utterances=5, seed=2)
    data = ["--config", str(config), "--token_list", f"{folder}/train/tokens.txt"]
    shapes = []
    for name in ("train", "valid"):
        option = f"--{name}_data_path_and_name_and_type"
        data += [option, f"{folder}/{name}/wav.scp,speech,sound"]
        data += [option, f"{folder}/{name}/text,text,text"]
        shapes += [f"--{name}_shape_file", f"{folder}/stats/{name}/speech_shape"]

    # Stages 10 and 11 of ESPnet's asr.sh: statistics, by which features are normalised
    # and batches are made, and training.
    stats = ["--collect_stats", "true", "--normalize", "none"]
    asr_train.main([*data, *options, *stats, "--output_dir", f"{folder}/stats"])
    mean = ["--normalize_conf", f"stats_file={folder}/stats/train/feats_stats.npz"]
    asr_train.main([*data, *mean, *shapes, "--output_dir", f"{folder}/model", *options])

    recogniser = Speech2Text(
        folder / "model/config.yaml",
        folder / "model/valid.acc.ave.pth",
        beam_size=4,
        ctc_weight=0.3,
    )
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

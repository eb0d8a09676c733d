"""A small data dir of noise, and small ASR and language models with random parameters."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "D", "E", "<sos/eos>"]
MODEL = {
    "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
    "normalize": "utterance_mvn",
    "encoder": "transformer",
    "encoder_conf": {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "model_conf": {"ctc_weight": 0.3},
}


@pytest.fixture(scope="session")
def make_data_dir():
    """Return a function that writes noise of the given durations in seconds, with transcripts of three words."""

    def make(folder: Path, durations: dict[str, float], rate: int = 16000) -> Path:
        folder.mkdir(parents=True)
        random = np.random.default_rng(7)
        for utterance, seconds in durations.items():
            samples = random.normal(scale=random.uniform(0.02, 0.2), size=round(seconds * rate))
            soundfile.write(folder / f"{utterance}.flac", samples, rate)
        (folder / "wav.scp").write_text("".join(f"{key} {folder / key}.flac\n" for key in durations))
        texts = {key: " ".join(random.choice(["AB", "CAD", "E"], size=3)) for key in durations}
        (folder / "text").write_text("".join(f"{key} {text}\n" for key, text in texts.items()))
        return folder

    return make


@pytest.fixture(scope="session")
def token_list(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    path.write_text("".join(f"{token}\n" for token in TOKENS))
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory, token_list) -> Path:
    """A folder with config.yaml and model.pth, as ESPnet's training leaves them."""
    import yaml
    from espnet2.tasks.asr import ASRTask

    folder = tmp_path_factory.mktemp("model")
    (folder / "train.yaml").write_text(yaml.safe_dump(MODEL))
    return _save(ASRTask, folder, ["--config", folder / "train.yaml", "--token_list", token_list])


@pytest.fixture(scope="session")
def language_model(tmp_path_factory, token_list) -> Path:
    from espnet2.tasks.lm import LMTask

    folder = tmp_path_factory.mktemp("lm")
    return _save(LMTask, folder, ["--token_list", token_list, "--lm_conf", "unit=8", "--lm_conf", "nlayers=1"])


def _save(task, folder: Path, options: list) -> Path:
    import torch
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    options = [*options, "--token_type", "char", "--output_dir", folder]
    args = task.get_parser().parse_args([str(option) for option in options])
    torch.manual_seed(3)
    network = task.build_model(args)
    torch.save(network.state_dict(), folder / "model.pth")
    with (folder / "config.yaml").open("w") as file:
        yaml_no_alias_safe_dump(vars(args), file, sort_keys=False)
    return folder

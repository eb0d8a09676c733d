"""The recogniser of libricss_stitch at its real size, with LSTMs and with conformers:
read, counted, and a step.
"""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from full_size import batch, size, take_step

import espnet_ext
from espnet_ext.stitch.recogniser.mixture_plan import MixtureSettings
from espnet_ext.stitch.recogniser.search_settings import SearchOptions
from espnet_ext.tables.plan import load_scale
from espnet_ext.work.settings import check_settings
from espnet_ext.work.yaml_files import deep_merge

RECIPE = Path(__file__).parents[2] / "egs" / "libricss_stitch"
VOCABULARY = 16000
KINDS = ("lstm", "conformer")


def read(kind: str, scale: str, folder: Path, *more: str) -> Namespace:
    """The config as the recipe merges it and the task reads it."""
    from espnet_ext.stitch.recogniser.task import SAASRTask

    espnet_ext.register()
    sections = load_scale(RECIPE, scale)
    config = sections[f"sa_asr_{kind}"]
    for name in more:
        config = deep_merge(config, sections[name])
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(config))
    mels = config["frontend_conf"]["n_mels"]
    np.savez(
        folder / "stats.npz",
        count=100,
        sum=np.full(mels, 50.0),
        sum_square=np.full(mels, 30.0),
    )
    options = [
        "--config",
        str(path),
        "--normalize_conf",
        f"stats_file={folder / 'stats.npz'}",
    ]
    args = SAASRTask.get_parser().parse_args(
        [*options, "--output_dir", str(folder), "--token_type", "bpe"]
    )
    args.token_list = [
        "<blank>",
        "<unk>",
        "<sc>",
        *(f"p{number}" for number in range(VOCABULARY - 4)),
        "<sos/eos>",
    ]
    return args


def lstm(inputs: int, cells: int) -> int:
    return 4 * cells * (inputs + cells + 2)


def blstm_encoder(layers: int, cells: int) -> int:
    return 2 * lstm(80, cells) + (layers - 1) * 2 * lstm(2 * cells, cells)


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_its_size_and_takes_a_step(kind, tmp_path):
    from espnet_ext.stitch.recogniser.task import SAASRTask

    torch.manual_seed(0)
    model = SAASRTask.build_model(read(kind, "full", tmp_path))
    if kind == "lstm":
        assert size(model.encoder) == blstm_encoder(5, 1024)
        # the network of the profiles, which is not trained
        assert (
            size(model.speaker_encoder)
            == lstm(40, 256) + 2 * lstm(256, 256) + 257 * 256
        )
        assert not any(
            parameter.requires_grad for parameter in model.speaker_encoder.parameters()
        )
        # the output layer sees the state, and beside it the context vector
        hidden, context = 1024 + 2048, 256
        assert model.decoder.asr.hidden_size == hidden
        assert float(model.decoder.cosine_scale.detach()) == 1.0 and model.ctc is None
    else:
        hidden, context = 512, 256
        # 17.5 M, 12 layers of 512 with feed-forward modules of 2,048, as of ESPnet's
        # conformer; the rest is subsampling
        layers = size(model.encoder) - size(model.encoder.subsampling)
        assert layers == pytest.approx(
            12 * (4 * 512 * 512 + 2 * 2 * 512 * 2048 + 3 * 512 * 512), rel=0.02
        )
    query = VOCABULARY * 512 + lstm(context + 512, 512) + 512 * 256 + 256
    assert size(model.decoder.query) == query
    assert size(model.decoder.output) == VOCABULARY * (hidden + 1)
    assert size(model.decoder.profile) == 256 * hidden
    assert (model.gamma, model.profile_size) == (0.1, 256)
    speakers = {
        "profiles": torch.randn(2, 8, 256),
        "profiles_lengths": torch.tensor([8, 8]),
        "speakers": torch.tensor([[3, 1], [0, -1]]),
        "speakers_lengths": torch.tensor([2, 1]),
    }
    assert (
        take_step(model, batch([[5, 2, 7], [8, 9, -1]], **speakers))["loss_speaker"] > 0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_scale_is_read(kind, tmp_path):
    for scale in ("smoke", "mini", "full"):
        for training in ("sa_asr_first", "sa_asr_windows"):
            args = read(kind, scale, tmp_path, training)
            assert args.max_epoch <= (20 if scale == "full" else 4)
            assert args.model == "sa_asr" and args.inventory_size == 8


@pytest.mark.parametrize("scale", ["smoke", "mini", "full"])
def test_mixtures_and_search_of_every_scale(scale):
    sections = load_scale(RECIPE, scale)
    mixing = {
        name: check_settings(MixtureSettings, options, name)
        for name, options in sections["settings"]["mixing"].items()
        if options
    }
    assert len({settings.seed for settings in mixing.values()}) == len(mixing)
    assert {name for name, settings in mixing.items() if not settings.audio} == (
        set() if scale == "full" else {"train_simulated", "dev_simulated"}
    )
    if scale == "full":  # P4, Table 1
        sizes = {
            "train_stitch": 50083,
            "dev-short": 513,
            "dev-long": 319,
            "test-short": 496,
            "test-long": 310,
        }
        assert {name: mixing[name].count for name in sizes} == sizes
    assert check_settings(SearchOptions, sections["decode"], "decode").beam_size

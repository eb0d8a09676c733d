"""The stitchers of P4 at their real size: their parameters counted by hand, and a step
of each.
"""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
import yaml
from full_size import size, take_step, tokens

import espnet_ext
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables
from espnet_ext.work.yaml_files import deep_merge

RECIPE = Path(__file__).parents[2] / "egs" / "libricss_stitch"
TABLES = load_tables(RECIPE / "conf" / "tables.yaml")
TOKENS = 16000
STYLES = {
    "wc": "stitcher_wc",
    "wco_wce": "stitcher_wco_wce_windows50",
    "alignment": "stitcher_alignment",
}


def read(style: str, scale: str, tmp_path: Path, *overlays: str) -> Namespace:
    """The config of a style as the recipe merges it and ESPnet reads it."""
    from espnet2.tasks.mt import MTTask

    system, sections = TABLES.systems[STYLES[style]], load_scale(RECIPE, scale)
    assert system.method == style
    config = merge_system_config(sections, system)
    for overlay in overlays:
        config = deep_merge(config, sections[overlay])
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(config))
    options = [
        "--config",
        str(path),
        "--output_dir",
        str(tmp_path),
        "--token_type",
        "bpe",
        "--src_token_type",
        "bpe",
    ]
    args = MTTask.get_parser().parse_args(options)
    args.token_list = args.src_token_list = tokens(TOKENS)
    return args


def by_hand(style: str, d: int = 1024, units: int = 4096, layers: int = 6) -> int:
    """P4, section 4.1.1: 6 + 6 layers of 1,024; one matrix for embeddings and output
    but for aligned pairs.
    """
    feed_forward, attention, norm = 2 * d * units + units + d, 4 * (d * d + d), 2 * d
    encoder = layers * (attention + feed_forward + 2 * norm) + norm
    decoder = layers * (2 * attention + feed_forward + 3 * norm) + norm
    pieces = TOKENS * d // 2 if style == "alignment" else 0
    return encoder + decoder + TOKENS * d + TOKENS + pieces


@pytest.mark.parametrize("style", STYLES)
def test_the_papers_stitcher_has_its_size_and_takes_a_step(style, tmp_path):
    from espnet2.tasks.mt import MTTask

    espnet_ext.register()
    torch.manual_seed(0)
    model = MTTask.build_model(read(style, "full", tmp_path))
    assert size(model) == by_hand(style)
    pair = style == "alignment"
    assert (type(model.encoder).__name__, model.patch_size) == (
        ("AlignedPairsEncoder", 2) if pair else ("TransformerEncoder", 1)
    )
    # embeddings go into the first block as they are
    assert getattr(model.encoder, "embed", None) is None
    source = torch.randint(2, TOKENS - 1, (2, 6))
    source[1, 4:] = -1
    lengths = {
        "src_text_lengths": torch.tensor([6, 4]),
        "text_lengths": torch.tensor([3, 2]),
    }
    text = torch.tensor([[5, 6, 7], [8, 9, -1]])
    take_step(model, {"src_text": source, "text": text, **lengths})


@pytest.mark.parametrize("scale", ["full", "mini", "smoke"])
def test_styles_differ_in_what_they_must_alone(scale, tmp_path):
    wc, wco_wce, alignment = (vars(read(style, scale, tmp_path)) for style in STYLES)
    assert wc == wco_wce
    differ = {key for key in wc if wc[key] != alignment[key]}
    assert differ == {"frontend_conf", "encoder", "encoder_conf", "model_conf"} - (
        {"frontend_conf"} if scale != "full" else set()
    )
    assert alignment["encoder_conf"] == {
        key: value for key, value in wc["encoder_conf"].items() if key != "input_layer"
    }


def test_training_is_the_papers(tmp_path):
    """P4, section 4.1.1."""
    args = read("wc", "full", tmp_path)
    assert (args.optim, args.optim_conf["lr"], args.patience) == ("adam", 0.0005, 3)
    assert args.model_conf["lsm_weight"] == 0.1
    rates = [
        conf[name]
        for conf in (args.encoder_conf, args.decoder_conf)
        for name in ("dropout_rate",)
    ]
    assert rates == [0.3, 0.3] and args.frontend_conf["positional_dropout_rate"] == 0.3


@pytest.mark.parametrize("style", STYLES)
def test_a_first_training_differs_in_its_schedule_alone(style, tmp_path):
    last, first = (
        vars(read(style, "mini", tmp_path)),
        vars(read(style, "mini", tmp_path, "stitcher_first")),
    )
    differ = {key for key in last if last[key] != first[key]}
    schedule = (
        "optim_conf scheduler scheduler_conf num_iters_per_epoch max_epoch patience "
        "batch_size"
    )
    assert differ == {*schedule.split(), "log_interval", "keep_nbest_models"}

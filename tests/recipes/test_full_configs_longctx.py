"""The sizes of P5: their parameters counted against the paper's, and a step of the main
one at its real size.
"""

from pathlib import Path

import pytest
import torch
import yaml
from full_size import batch, size, take_step, tokens

import espnet_ext
from espnet_ext.tables.plan import load_scale
from espnet_ext.work.yaml_files import deep_merge

SECTIONS = load_scale(Path(__file__).parents[2] / "egs" / "spotify_longctx", "full")
TOKENS = 4096  # 4095 and the blank (P5, section 3.2)

# Millions of parameters: P5, sections 3.2 and 4.3; the first three of those below as
# published with the models.
SIZES = {
    "shallow": 50,
    "narrow_deep": 20,
    "narrow": 12,
    None: 90,
    "deep": 130,
    "wide": 315,
    "deep_double_heads": 130,
    "deep_quadruple_heads": 130,
    "double_heads": 90,
    "quadruple_heads": 90,
}


def config(name: str | None) -> dict:
    return deep_merge(SECTIONS["train"], SECTIONS["sizes"][name] if name else {})


def by_hand(conf: dict) -> int:
    """Parameters of the encoder, the CTC head and the way back from it."""
    d, units = conf["output_size"], 4 * conf["output_size"]
    feed_forward, attention = 2 * d * units, 4 * d * d
    convolution = 2 * d * (d + 1) + (9 + 1) * d + d * (d + 1)
    norms = 2 * d * 6  # four inputs, the batch renormalisation, the output
    subsampling = 256 * 10 + 2 * (256 * 10 + 256 * 257) + 256 * 10 * d
    layers = conf["num_blocks"] * (2 * feed_forward + attention + convolution + norms)
    return subsampling + layers + 2 * d + (d + 1) * TOKENS + (TOKENS + 1) * d


@pytest.mark.parametrize("name", SIZES)
def test_parameters_are_the_papers(name):
    from context_cost import make_ctc_model

    from espnet_ext.longform.long_fastconformer import LongFastConformerEncoder

    conf = config(name)["encoder_conf"]
    with torch.device("meta"):
        model = make_ctc_model(LongFastConformerEncoder(80, **conf))
    assert size(model) == by_hand(conf)
    assert size(model) == pytest.approx(
        SIZES[name] * 1e6, rel=0.055 if SIZES[name] <= 50 else 0.015
    )


def test_every_size_is_tested():
    assert set(SECTIONS["sizes"]) == {name for name in SIZES if name}


def test_the_papers_model_takes_a_step(tmp_path):
    """With all that the config says, as training on recordings reads it."""
    from espnet2.tasks.abs_task import optim_classes, scheduler_classes
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.longform.training import RecordingsASRTask, read_schedule

    espnet_ext.register()
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(config(None)))
    args = RecordingsASRTask.get_parser().parse_args(
        ["--config", str(path), "--output_dir", str(tmp_path)]
    )
    schedule, passes = read_schedule(args.chunk_conf)
    assert (
        schedule.batch_seconds,
        schedule.initial_seconds,
        schedule.double_every,
        passes,
    ) == (3600, 5, 5000, 1)
    assert (args.features_conf["n_mels"], args.input_size) == (80, 80)
    args.token_list = tokens(TOKENS)
    torch.manual_seed(0)
    model = ASRTask.build_model(args)
    optimizer = optim_classes[args.optim](model.parameters(), **args.optim_conf)
    scheduler_classes[args.scheduler](optimizer, **args.scheduler_conf)
    features = {
        "speech": torch.randn(2, 100, 80),
        "speech_lengths": torch.tensor([100, 70]),
    }
    take_step(model, batch([[5, 4000, 6], [7, 8, -1]], **features), optimizer)

"""Every full-scale training config builds its model at its real size and takes a step,
long before a cluster does.
"""

from pathlib import Path

import pytest
import torch
from full_size import batch, size, take_step, tokens

import espnet_ext
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables

RECIPE = Path(__file__).parents[2] / "egs" / "librispeech_sem"
TABLES = load_tables(RECIPE / "conf" / "tables.yaml")
SECTIONS = load_scale(RECIPE, "full")


def blstm(inputs: int, cells: int) -> int:
    """Count parameters of a BLSTM layer: 2 directions of 4 gates with 2 biases."""
    return 2 * 4 * cells * (inputs + cells + 2)


def expected_parameters(vocabulary: int) -> int:
    """P2, section 4, counted by hand: 40 channels, 6 BLSTM layers of 1024, one LSTM of
    1024; the rest is [17]'s.
    """
    encoder = blstm(40, 1024) + 5 * blstm(2048, 1024)
    embedding = vocabulary * 621
    lstm = 4 * 1024 * (621 + 2048 + 1024 + 2)
    # projections of the encoder's output, the decoder's state and the weight feedback;
    # the energy; inverse fertility
    attention = (2048 * 1024 + 1024) + 1024 * 1024 + 1024 + 1024 + 2048
    output = (1024 + 621 + 2048) * 1000 + 1000 + 500 * vocabulary + vocabulary
    ctc = 2048 * vocabulary + vocabulary
    return encoder + embedding + lstm + attention + output + ctc


@pytest.mark.parametrize("system", list(TABLES.systems))
def test_every_system_has_a_config_that_espnet_reads(system, parse):
    from espnet2.tasks.asr import normalize_choices

    espnet_ext.register()
    args = parse(merge_system_config(SECTIONS, TABLES.systems[system]))
    normalize_choices.get_class(args.normalize)(**args.normalize_conf)
    assert (
        args.encoder_conf["num_layers"] == 6
        and args.encoder_conf["hidden_size"] == 1024
    )


def test_the_papers_system_has_its_size_and_takes_a_step(parse):
    from espnet2.tasks.asr import ASRTask

    espnet_ext.register()
    args = parse(merge_system_config(SECTIONS, TABLES.systems["sem_m80_0"]))
    args.token_list = tokens(10000)
    torch.manual_seed(0)
    model = ASRTask.build_model(args)
    assert size(model) == expected_parameters(10000)
    take_step(model, batch([[5, 2000, 6, 9998], [2002, 7, 8, -1]]))

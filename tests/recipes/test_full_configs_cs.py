"""The full-scale configs of asru2019_cs: ESPnet reads each, and the model has its size
and takes a step.
"""

from pathlib import Path

import pytest
import torch
from full_size import batch, size, take_step

import espnet_ext
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables

RECIPE = Path(__file__).parents[2] / "egs" / "asru2019_cs"
TABLES = load_tables(RECIPE / "conf" / "tables.yaml")
SECTIONS = load_scale(RECIPE, "full")
VOCABULARY = 4103  # about 3.1k characters, 1.0k word pieces and ESPnet's symbols
SIZE = 512


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def attention() -> int:
    return 4 * linear(SIZE, SIZE)


def encoder() -> int:
    """P1, section 4.2, counted by hand: 12 conformer blocks of 512, on two 3x3
    convolutions of stride 2.
    """
    norm = 2 * SIZE
    feed_forward = linear(SIZE, 2048) + linear(2048, SIZE)
    relative = attention() + SIZE * SIZE + 2 * SIZE
    convolution = linear(SIZE, 2 * SIZE) + 31 * SIZE + SIZE + norm + linear(SIZE, SIZE)
    channels = ((40 - 1) // 2 - 1) // 2
    subsampling = (
        9 * SIZE + SIZE + 9 * SIZE * SIZE + SIZE + linear(channels * SIZE, SIZE)
    )
    return (
        subsampling + 12 * (2 * feed_forward + relative + convolution + 5 * norm) + norm
    )


def decoder(self_attentions: int) -> int:
    """6 blocks of 512 with feed-forward layers of 1024."""
    norm = 2 * SIZE
    feed_forward = linear(SIZE, 1024) + linear(1024, SIZE)
    blocks = 6 * ((self_attentions + 1) * attention() + feed_forward + 3 * norm)
    return VOCABULARY * SIZE + blocks + norm + linear(SIZE, VOCABULARY)


@pytest.mark.parametrize("system", list(TABLES.systems))
def test_every_system_has_a_config_that_espnet_reads(system, parse):
    espnet_ext.register()
    args = parse(merge_system_config(SECTIONS, TABLES.systems[system]))
    assert (
        args.encoder_conf["num_blocks"] == 12 and args.decoder_conf["num_blocks"] == 6
    )
    assert args.decoder == "language_transformer" and args.batch_size == 32
    mode = system.split("_")[0].replace("baseline", "none")
    assert args.decoder_conf.get("blocks") == (
        [1] if system == "separate_first_block" else None
    )
    assert args.decoder_conf["mode"] == mode


@pytest.mark.parametrize(
    "system", ["baseline_cs", "reweight_cs", "shared_cs", "separate_cs"]
)
def test_the_papers_systems_have_their_size_and_take_a_step(system, parse, tmp_path):
    from espnet2.tasks.asr import ASRTask

    espnet_ext.register()
    args = parse(merge_system_config(SECTIONS, TABLES.systems[system]))
    pieces = [f"\u2581W{number}" for number in range(1000)] + [
        f"\u2581{chr(0x4E00 + n)}" for n in range(3100)
    ]
    args.token_list = ["<blank>", "<unk>", *pieces, "<sos/eos>"]
    languages = tmp_path / "languages.txt"
    kinds = ["-", "-", *["en"] * 1000, *["zh"] * 3100, "-"]
    languages.write_text(
        "".join(
            f"{token} {kind}\n"
            for token, kind in zip(args.token_list, kinds, strict=True)
        )
    )
    args.decoder_conf["languages_file"] = str(languages)
    torch.manual_seed(0)
    model = ASRTask.build_model(args)
    ctc = linear(SIZE, VOCABULARY)
    expected = encoder() + decoder(2 if system == "separate_cs" else 1) + ctc
    assert size(model) == expected
    take_step(model, batch([[5, 2000, 6, 2001], [2002, 7, 8, -1]]))

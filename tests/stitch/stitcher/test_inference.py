"""Stitchers trained through ESPnet's MT task, and stitching with them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.stitch.stitcher import inference
from espnet_ext.stitch.stitcher.inference import (
    MODEL_FILE,
    Stitcher,
    StitcherOptions,
    merge_windows,
)
from espnet_ext.stitch.stitcher.pairs import STYLES, SYMBOLS, make_pairs
from espnet_ext.stitch.stitcher.simulated_errors import (
    SimulatedErrors,
    simulate_windows,
)
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.tokens import write_tokens
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment, join_words_by_speaker
from espnet_ext.text.writing import write_hypotheses, write_segments

WORDS = [
    "THE",
    "OLD",
    "KING",
    "SEES",
    "A",
    "SMALL",
    "HORSE",
    "NEAR",
    "MY",
    "GREEN",
    "GARDEN",
    "TODAY",
]
WINDOWING = Windowing(4.0, 0.5)
RATES = (0.6, 0.4, 0.1, 0.1, 0.1)
ERRORS = SimulatedErrors(
    rates={"alone": RATES, "overlapped": RATES}, deletion=0.35, insertion=0.15
)


def recordings(
    count: int, seed: int, errors: SimulatedErrors
) -> tuple[list[Segment], list[Segment]]:
    """Two speakers, one after the other, a word a second; and what was heard."""
    rng = np.random.default_rng(seed)
    turns = []
    heard = []
    for number in range(count):
        start = 0.0
        own = []
        for speaker in ("ann", "bob"):
            words = tuple(rng.choice(WORDS, size=rng.integers(3, 7)).tolist())
            own.append(
                Segment(f"r{number:03d}", speaker, words, start, start + len(words))
            )
            start += len(words)
        turns += own
        heard += simulate_windows(own, WINDOWING, WORDS, errors, rng)
    return turns, heard


def config(style: str) -> dict:
    """A small stitcher's."""
    pair = style == "alignment"
    blocks = {
        "attention_heads": 4,
        "linear_units": 64,
        "num_blocks": 1,
        "dropout_rate": 0.0,
    }
    width = {"output_size": 64} if pair else {"output_size": 32, "input_layer": None}
    # one of the styles with convolutions, which see padding
    sees = (
        {"positionwise_layer_type": "conv1d", "positionwise_conv_kernel_size": 3}
        if style == "wco_wce"
        else {}
    )
    return {
        "frontend": "embed",
        "frontend_conf": {"embed_dim": 32, "positional_dropout_rate": 0.0},
        "encoder": "aligned_pairs" if pair else "transformer",
        "encoder_conf": blocks | width | sees,
        "decoder": "transformer",
        "decoder_conf": blocks | {"positional_dropout_rate": 0.0},
        "model": "stitcher",
        "model_conf": {
            "report_bleu": False,
            "length_normalized_loss": True,
            "patch_size": 2 if pair else 1,
        },
        "token_type": "bpe",
        "src_token_type": "word" if pair else "bpe",
        **{
            "optim_conf": {"lr": 0.005},
            "batch_type": "unsorted",
            "batch_size": 8,
            "max_epoch": 3,
        },
        **{
            "num_iters_per_epoch": 70,
            "keep_nbest_models": 1,
            "best_model_criterion": [["valid", "acc", "max"]],
        },
    }


def write_pairs(
    folder: Path, style: str, name: str, turns: list[Segment], heard: list[Segment]
) -> Path:
    """Training pairs."""
    write_segments(folder / f"{name}.json", turns)
    write_hypotheses(folder / f"{name}.jsonl", heard)
    model = folder / "tokens" / "bpe.model"
    if not model.exists():
        write_tokens(
            [" ".join(turn.words) for turn in turns] + [" ".join(WORDS)],
            folder / "tokens",
            "bpe",
            40,
            SYMBOLS,
        )
    output = folder / f"{name}_{style}"
    make_pairs(
        folder / f"{name}.jsonl",
        folder / f"{name}.json",
        output,
        style=style,
        bpemodel=model,
    )
    return output


def merge(folder: Path, style: str, name: str, model: Path, **options) -> list[Segment]:
    output = folder / "stitched.json"
    merge_windows(
        [folder / f"{name}.jsonl"], [output], style, StitcherOptions(model, **options)
    )
    return read_segments(output)


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory, train_small):
    """Return a function that overfits a stitcher of a style to a few pairs.

    It returns the folder of both.
    """
    folder = tmp_path_factory.mktemp("overfit")
    turns, heard = recordings(4, 0, ERRORS)
    models = {}

    def get(style: str) -> tuple[Path, Path, list[Segment]]:
        if style not in models:
            pairs = write_pairs(folder, style, "few", turns, heard)
            models[style], tokens = folder / style, folder / "tokens"
            options = [
                "--bpemodel",
                tokens / "bpe.model",
                "--src_bpemodel",
                tokens / "bpe.model",
            ]
            options += [
                "--token_list",
                tokens / "tokens.txt",
                "--src_token_list",
                tokens / "tokens.txt",
            ]
            tables = {
                "command": "mt_train",
                "tables": ("src_text,src_text,text", "text,text,text"),
                "shapes": ("text",),
            }
            train_small(
                pairs, folder / style, config(style), *map(str, options), **tables
            )
            shutil.copy(pairs / "stitcher.json", folder / style)
            # the best epoch is the first without an error
            shutil.copy(folder / style / "latest.pth", folder / style / MODEL_FILE)
        return folder, models[style], turns

    return get


@pytest.mark.parametrize("style", STYLES)
def test_it_learns_a_few_pairs_by_heart(overfitted, style):
    folder, model, turns = overfitted(style)
    stitched = merge(folder, style, "few", model)
    assert join_words_by_speaker(stitched) == join_words_by_speaker(turns)


@pytest.mark.parametrize("style", STYLES)
def test_a_batch_is_stitched_as_one_by_one(overfitted, style, monkeypatch):
    folder, model, _ = overfitted(style)
    # unknown ones, on which the model is unsure
    turns, heard = recordings(6, 5, ERRORS.model_copy(update={"speaker": 0.03}))
    write_hypotheses(folder / "other.jsonl", heard)
    together = merge(folder, style, "other", model)
    assert together == merge(folder, style, "other", model)
    monkeypatch.setattr(inference, "BATCH_SIZE", 1)
    assert together == merge(folder, style, "other", model)
    assert {turn.recording for turn in together} == {turn.recording for turn in turns}


def test_silent_speakers_and_recordings_stay(overfitted):
    folder, model, turns = overfitted("wc")
    silent = [
        Segment("silent", "", (), 2.0 * index, 2.0 * index + 4, window=index)
        for index in range(2)
    ]
    mute = [Segment("mute", "ann", (), 0.0, 4.0, window=0)]
    write_hypotheses(
        folder / "silent.jsonl",
        [*read_hypotheses(folder / "few.jsonl"), *silent, *mute],
    )
    stitched = merge(folder, "wc", "silent", model)
    assert (
        Segment("silent", "", ()) in stitched and Segment("mute", "ann", ()) in stitched
    )
    assert join_words_by_speaker(stitched) == join_words_by_speaker(turns) | {
        "silent": {},
        "mute": {},
    }


def test_espnets_own_command_gives_the_same(overfitted, tmp_path, monkeypatch):
    """With one hypothesis, where the two searches have the same to choose from."""
    from espnet_ext.bin import mt_inference

    folder, model, _ = overfitted("alignment")
    options = [
        "--mt_train_config",
        str(model / "config.yaml"),
        "--mt_model_file",
        str(model / "latest.pth"),
    ]
    options += [
        "--data_path_and_name_and_type",
        f"{folder / 'few_alignment' / 'src_text'},src_text,text",
    ]
    options += [
        "--output_dir",
        str(tmp_path),
        "--ctc_weight",
        "0",
        "--beam_size",
        "1",
        "--num_workers",
        "0",
    ]
    mt_inference.main(options)
    text = read_table(tmp_path / "1best_recog" / "text")
    monkeypatch.setattr(inference, "BEAM_SIZE", 1)
    stitched = merge(folder, "alignment", "few", model)
    found = {}
    for turn in stitched:
        found[f"{turn.recording}--{turn.speaker}"] = " ".join(turn.words)
    assert found == text


def test_parts_of_a_long_recording(overfitted, monkeypatch):
    """With a stitcher that makes no errors, the merged parts are the transcript."""
    folder, model, _ = overfitted("wc")
    text = [f"W{number}" for number in range(200)]
    windows = []
    for index in range(99):
        words = tuple(text[2 * index : 2 * index + 4])
        start = 2.0 * index
        windows.append(Segment("r", "a", words, start, start + 4, window=index))
    stitcher = Stitcher(StitcherOptions(model))
    lengths = []

    def without_repetition(parts):
        texts = []
        for part in parts:
            lengths.append(len(part))
            words = {}
            for item in part:
                words |= dict.fromkeys(item.words)
            texts.append(tuple(words))
        return iter(texts)

    monkeypatch.setattr(stitcher, "_rewrite", without_repetition)
    grouped = group_by_speaker(windows)
    stitched = stitcher.stitch(grouped)(grouped["r"]["a"])
    assert [word.text for word in stitched] == text
    assert max(lengths) <= stitcher.trained_on.longest.windows and len(lengths) > 15


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.yaml", None), ("valid.acc.ave.pth", None), ("stitcher.json", None),
        ("stitcher.json", "{"),
        ("stitcher.json", '{"style": "wc"}'),
        ("stitcher.json", (
            '{"style": "x", "longest": {"windows": 1, "words": 1}, "windows": '
            'null}'
        )),
    ],
)  # fmt: skip
def test_a_folder_that_holds_no_stitcher(overfitted, tmp_path, file, content):
    folder, model, _ = overfitted("wc")
    for name in ("config.yaml", "valid.acc.ave.pth", "stitcher.json"):
        shutil.copy(model / name, tmp_path)
    (tmp_path / file).unlink()
    if content:
        (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=f"{file}: "):
        merge_windows(
            [folder / "few.jsonl"], [tmp_path / "out"], "wc", StitcherOptions(tmp_path)
        )
    assert not (tmp_path / "out").exists()


def test_windows_that_are_not_the_stitchers_are_refused(overfitted):
    """It has learnt from windows of 4 s that overlap by half."""
    long = [
        Segment("r", "a", ("A",), 16.0 * index, 16.0 * index + 16, window=index)
        for index in range(2)
    ]
    with pytest.raises(InputError, match="windows of 4 s .* 50 %"):
        Stitcher(StitcherOptions(overfitted("wc")[1])).stitch(group_by_speaker(long))


def test_a_guarded_stitcher(overfitted):
    """A limit of no edits leaves only what is the same as the time-aware merge."""
    folder, model, _ = overfitted("wc")
    guarded = merge(folder, "wc", "few", model, guard=0.0)
    merge_windows([folder / "few.jsonl"], [folder / "by_time.json"], "time_aware")
    assert guarded == read_segments(folder / "by_time.json")
    assert merge(folder, "wc", "few", model, guard=9.0) == merge(
        folder, "wc", "few", model
    )

"""How many updates a training plans, and whether they end within its warm-up."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.recipe.plans import (
    check_plan,
    count_batches,
    count_updates,
    find_warmup_fault,
)
from espnet_ext.recipe.rehearsal import Fault, list_causes
from espnet_ext.recipe.rehearsal_report import Job, list_problems
from espnet_ext.recipe.scripts import load_script
from espnet_ext.sem.curriculum import Selection, read_audio_share, write_selection
from espnet_ext.tables.plan import load_scale

EGS = Path(__file__).parents[2] / "egs"


@pytest.mark.parametrize(
    ("config", "updates"),
    [
        ({}, 40 * 7),
        ({"max_epoch": 3, "num_iters_per_epoch": 100, "accum_grad": 2}, 150),
        ({"max_epoch": 3, "num_iters_per_epoch": None}, 21),
        ({"chunk_conf": {"passes": 2}, "num_iters_per_epoch": 100}, 14),
        ({"chunk_conf": {}}, 7),
        (
            {
                "max_epoch": 10,
                "num_iters_per_epoch": 50,
                "stages": [
                    {"epochs": 2, "num_iters_per_epoch": 5},
                    {"epochs": 1, "num_iters_per_epoch": None},
                ],
            },
            2 * 5 + 7 + 7 * 50,
        ),
    ],
)
def test_updates_of_a_plan(config, updates):
    assert count_updates(config, batches=7) == updates


def test_batches_of_a_pass(tmp_path):
    shapes = tmp_path / "shapes"
    shapes.write_text("".join(f"u{n} 16000\n" for n in range(10)))
    for config, batches in (
        ({"batch_type": "sorted", "batch_size": 4}, 3),
        ({"batch_type": "numel", "batch_bins": 32000}, 5),
    ):
        assert count_batches(config, shapes) == batches
    shapes.write_text("a 10,80\nb 20,80\n")
    assert count_batches({"batch_type": "numel", "batch_bins": 800}, shapes) == 3


def test_a_training_that_ends_within_its_warmup_is_refused(tmp_path):
    """P1's config on a corpus of the size of ASCEND, which has 10.6 h."""
    config = load_scale(EGS / "asru2019_cs", "full")["train"]
    path, shapes = tmp_path / "train.yaml", tmp_path / "speech_shape"
    path.write_text(yaml.safe_dump(config))
    run = SimpleNamespace(scale="full", rehearsed=None)
    for count, refused in ((9_869, True), (16_001, False)):
        shapes.write_text("".join(f"u{n} 62000\n" for n in range(count)))
        for scale, rehearsed in (("full", None), ("smoke", None), ("full", tmp_path)):
            run.scale, run.rehearsed = scale, rehearsed
            if refused and (scale, rehearsed) == ("full", None):
                with pytest.raises(InputError, match="train mine: .*25,000"):
                    check_plan(run, "train mine", path, shapes)
            else:
                check_plan(run, "train mine", path, shapes)


def test_warmups_of_espnet(tmp_path):
    assert find_warmup_fault({"scheduler": "warmuplr"}, 25_000)
    assert not find_warmup_fault({"scheduler": "warmuplr"}, 25_001)
    assert find_warmup_fault(
        {"scheduler": "warmup_cosine", "scheduler_conf": {"warmup_steps": 5}}, 5
    )
    share = {"scheduler": "warmup_cosine", "scheduler_conf": {"warmup_steps": 0.1}}
    assert not find_warmup_fault(share, 5)
    assert not find_warmup_fault({}, 1)


def test_a_plan_that_cannot_work_is_a_problem_of_a_rehearsal(tmp_path):
    job = Job("baseline/seed1", True, None, 1.0, 55, 0.0)
    run = SimpleNamespace(systems=[], expdir=tmp_path)
    assert not list_problems([job], run)
    (problem,) = list_problems(
        [replace(job, fault="its 55 updates end within"), job], run
    )
    assert "baseline/seed1" in problem and "55" in problem


def test_one_cause_is_one_line():
    missing = "{}.pth is missing: run the earlier stages first"
    faults = [
        Fault("recogniser", "train", "no memory"),
        *(Fault("hypotheses", "", missing.format(n)) for n in range(29)),
        Fault("scoring", "", "[Errno 2] No such file or directory: 'score.json'"),
        *(Fault("scoring", f"score {n}", "bad time") for n in range(3)),
    ]
    lines = list_causes(faults)
    assert [line.partition(":")[0] for line in lines] == [
        "recogniser",
        "hypotheses",
        "scoring",
    ]
    assert "29 more" in lines[1] and "2 more" in lines[2]
    lone = [Fault("decoding", "", missing.format("a"))]
    assert list_causes(lone) == [str(lone[0])], "what is missing first is a cause"


def test_shares_of_a_rehearsal_are_those_of_the_whole_corpus(tmp_path):
    """P2's early epochs see short utterances, of which the longest have hardly any."""
    recipe = load_script(EGS / "librispeech_sem" / "recipe.py")
    whole, small = tmp_path / "whole" / "train", tmp_path / "data"
    stats = tmp_path / "stats"
    for folder in (whole, small, stats):
        folder.mkdir(parents=True)
    numbers = range(1, 101)
    texts = "".join(f"u{n:03d} {'A' * n}\n" for n in numbers)
    (whole / "text").write_text(texts)
    (whole / "utt2dur").write_text("".join(f"u{n:03d} {n / 10}\n" for n in numbers))
    lengths = "".join(f"u{n:03d} {n}\n" for n in numbers)
    (small / "whole_lengths").write_text(lengths)
    (stats / "text_shape.char").write_text(lengths)
    shapes = "".join(f"u{n:03d} {n * 1600}\n" for n in numbers)
    (stats / "speech_shape").write_text(shapes)
    for selection in (Selection(60), Selection(60, mean_chars=12)):
        output = stats / selection.name
        write_selection(whole / "text", str(stats), "char", selection, str(output))
        run = SimpleNamespace(rehearsed=whole.parent, datadir=small)
        share = recipe.compute_whole_share(run, selection)
        assert share == pytest.approx(read_audio_share(output)) and 0 < share < 1
        assert (
            recipe.compute_whole_share(SimpleNamespace(rehearsed=None), selection) == 0
        )

"""egs/librispeech_rescore/run.sh at scale smoke: from audio to the table, lists of
one's own, and mistakes.
"""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest
from runs import (
    EGS,
    assert_nothing_is_repeated,
    cells_of,
    fail_in_each_stage,
    smoke_run,
)

from espnet_ext.corpora.librispeech import LM_TEXT
from espnet_ext.rescore.training.small_models import make_language_model
from espnet_ext.synthetic.librispeech import make_librispeech
from espnet_ext.tables.plan import load_scale
from espnet_ext.text.nbest import read_nbest

run = partial(smoke_run, "librispeech_rescore")
SYSTEM = (
    "-gpt2_causal-bert_masked"  # what its models add to the name of a system's folder
)
ROWS = ("first pass", "GPT-2 CE", "BERT MWER", "RescoreGPT attention", "10-best oracle")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """On a LibriSpeech and models of one's own."""
    folder = tmp_path_factory.mktemp("smoke_rescore")
    make_librispeech(folder / "LibriSpeech", "smoke-whisper")
    sections = load_scale(EGS / "librispeech_rescore", "smoke")
    for name, kind in (("causal", "gpt2"), ("masked", "bert")):
        make_language_model(
            sections[kind], [folder / "LibriSpeech" / LM_TEXT], folder / name
        )
    run(*given(folder), "--table", "all", "--rows", ",".join(ROWS), folder=folder)
    return folder


def given(folder: Path) -> tuple[str, ...]:
    places = {"librispeech": "LibriSpeech", "gpt2": "causal", "bert": "masked"}
    return tuple(
        word
        for option, place in places.items()
        for word in (f"--{option}", str(folder / place))
    )


def test_a_second_run_repeats_nothing(smoke):
    assert_nothing_is_repeated(
        run(*given(smoke), "--rows", ",".join(ROWS), folder=smoke)
    )


@pytest.fixture(scope="module")
def here(smoke) -> dict[str, dict]:
    table = cells_of("librispeech_rescore", smoke)
    return {
        name: {column: cell.here for column, cell in cells.items()}
        for name, cells in table.items()
    }


def test_the_table_has_the_rows_that_were_asked_for(here):
    for name, cells in here.items():
        assert (
            (cells["test-clean"] is not None)
            == (cells["test-other"] is not None)
            == (name in ROWS)
        )
        assert (cells["latency"] is not None) == (
            name in ROWS and name not in ("first pass", "10-best oracle")
        )


def test_no_choice_is_better_than_the_oracle(here):
    for test_set in ("test-clean", "test-other"):
        words = {here[name][test_set].words for name in ROWS}
        errors = [here[name][test_set].errors for name in ROWS]
        assert len(words) == 1 and min(errors) == errors[-1]


def test_lists_are_whispers_and_rescored_ones_are_the_same_in_another_order(smoke):
    lists = {
        nbest.utt_id: nbest
        for nbest in read_nbest(smoke / "exp" / "lists" / "test-other.jsonl")
    }
    reference = dict(
        line.split(" ", 1)
        for line in (smoke / "data/test-other/text").read_text().splitlines()
    )
    assert lists.keys() == reference.keys()
    rescored = (
        smoke / "exp" / f"gpt2_ce{SYSTEM}" / "seed1" / "decode_default" / "test-other"
    )
    for nbest in read_nbest(rescored / "nbest.jsonl"):
        before = lists[nbest.utt_id]
        assert sorted(hyp.text for hyp in nbest.hyps) == sorted(
            hyp.text for hyp in before.hyps
        )
        assert {hyp.text: hyp.score for hyp in nbest.hyps} == {
            hyp.text: hyp.score for hyp in before.hyps
        }
        assert all("gpt2_ce" in hyp.scores for hyp in nbest.hyps)
    assert (
        json.loads((rescored / "interpolation.json").read_text())["weights"][
            "first pass"
        ]
        >= 0
    )


def test_lists_of_ones_own_take_the_place_of_whispers(smoke, tmp_path):
    """Reversed lists, called as ESPnet's recipes do: JSONL, one gzipped, and test_clean
    as ESPnet's output folder.

    The first pass is what stands first in them.
    """
    first: dict[str, str] = {}
    for path in (smoke / "exp" / "lists").glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["hyps"] = [
                {**hyp, "score": -float(n)}
                for n, hyp in enumerate(reversed(line["hyps"]))
            ]
        (tmp_path / path.name.replace("-", "_")).write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
        if path.stem == "test-clean":
            first = {line["utt_id"]: line["hyps"][0]["text"] for line in lines}
            write_espnet_output(tmp_path / "test_clean" / "logdir" / "output.1", lines)
            (tmp_path / "test_clean.jsonl").unlink()
    dev = tmp_path / "dev_other.jsonl"
    dev.with_name(f"{dev.name}.gz").write_bytes(gzip.compress(dev.read_bytes()))
    dev.unlink()
    rows = ("first pass", "RescoreGPT attention")
    options = ("--rows", ",".join(rows), "--nbest_lists", str(tmp_path), *given(smoke))
    run(*options, folder=tmp_path, datadir=smoke / "data")
    cells = cells_of("librispeech_rescore", tmp_path)
    assert all(
        cells[name][part].here.words
        for name in rows
        for part in ("test-clean", "test-other")
    )
    text = (
        tmp_path / f"exp/first_pass{SYSTEM}/seed1/decode_default/test-clean/text"
    ).read_text()
    assert text.splitlines() == [
        f"{key} {best}".strip() for key, best in sorted(first.items())
    ]


def write_espnet_output(folder: Path, lines: list[dict]) -> None:
    for rank in range(1, 1 + max(len(line["hyps"]) for line in lines)):
        own = {
            line["utt_id"]: line["hyps"][rank - 1]
            for line in lines
            if len(line["hyps"]) >= rank
        }
        (folder / f"{rank}best_recog").mkdir(parents=True)
        for name, value in (("text", "{text}"), ("score", "tensor({score})")):
            rows = [f"{key} {value.format(**hyp)}\n" for key, hyp in own.items()]
            (folder / f"{rank}best_recog" / name).write_text("".join(rows))


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage(
        "librispeech_rescore", smoke, *given(smoke), "--rows", "first pass,BERT MWER"
    )

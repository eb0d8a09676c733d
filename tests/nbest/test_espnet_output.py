"""ESPnet's output folders, written by hand as ESPnet writes them;
tests/upstream/test_decode_nbest.py has real ones.
"""

import ast
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet_output import parse_score, parse_scores, read_espnet_output
from espnet_ext.text.nbest import Hypothesis, NBest


def write(
    job: Path, ranked: dict[str, list[tuple[str, str]]], **more: dict[str, list[str]]
) -> Path:
    """Write each utterance's (text, score) as the files of its rank; ``more`` are other
    files.
    """
    for utterance, hypotheses in ranked.items():
        for rank, (text, score) in enumerate(hypotheses):
            extra = {name: values[utterance][rank] for name, values in more.items()}
            for name, value in {
                "text": text,
                "score": score,
                "token_int": "3 4",
                **extra,
            }.items():
                path = job / f"{rank + 1}best_recog" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(f"{utterance} {value}\n")
    return job


RANKED = {
    "u2": [("A B", "tensor(-0.5)"), (" A", "tensor(-1.2500, device='cuda:0')")],
    "u1": [
        ("B", "tensor(-2.)"),
        ("", "tensor(-4.0000e+09)"),
        ("C", "tensor(-1.2e+01, dtype=torch.float16)"),
    ],
    "u3": [(" ", "0.0")] * 3,
}
LISTS = [
    NBest("u1", (Hypothesis("B", -2.0), Hypothesis("", -4e9), Hypothesis("C", -12.0))),
    NBest("u2", (Hypothesis("A B", -0.5), Hypothesis("A", -1.25))),
    NBest("u3", (Hypothesis("", 0.0),) * 3),
]


def test_marks_of_owsm_are_left_out(tmp_path):
    """ESPnet's task s2t writes text with marks, and text_nospecial without."""
    marked = {
        "u": [
            ("<eng><asr> the cat", "tensor(-1.0)"),
            ("<eng><asr> a cat", "tensor(-2.0)"),
        ]
    }
    write(tmp_path, marked, text_nospecial={"u": ["the cat", "a cat"]})
    assert [hyp.text for hyp in read_espnet_output(tmp_path)[0].hyps] == [
        "the cat",
        "a cat",
    ]


@pytest.mark.parametrize(
    "place, given_folder",
    [
        (".", "."),
        ("output.1", "."),
        ("logdir/output.1", "."),
        ("logdir/output.1", "logdir"),
        ("log/output.1", "."),
    ],
)
def test_one_job_wherever_it_lies(tmp_path, place, given_folder):
    write(tmp_path / place, RANKED)
    assert read_espnet_output(tmp_path / given_folder) == LISTS


def test_many_jobs(tmp_path):
    for number, utterance in enumerate(RANKED, start=9):
        write(tmp_path / "logdir" / f"output.{number}", {utterance: RANKED[utterance]})
        (tmp_path / "logdir" / f"keys.{number}.scp").write_text(f"{utterance} x.flac\n")
    # asr.sh merges the best hypotheses beside logdir: no N-best, so it is not what is
    # read
    (tmp_path / "text").write_text("u1 B\nu2 A B\nu3 \n")
    assert read_espnet_output(tmp_path) == LISTS


def test_merged_lists_are_read_before_those_of_the_jobs(tmp_path):
    write(tmp_path, RANKED)
    write(tmp_path / "log" / "output.1", {"u1": [("STALE", "tensor(-1.)")]})
    assert read_espnet_output(tmp_path) == LISTS


@pytest.mark.parametrize("below", ["raw_hypotheses", "logdir/output.1", "output.1"])
def test_a_stray_1best_does_not_hide_the_other_ranks(tmp_path, below):
    write(tmp_path / below, RANKED)
    write(tmp_path, {"u1": [("STRAY", "tensor(-1.)")]})
    with pytest.raises(InputError) as refused:
        read_espnet_output(tmp_path)
    assert f"{tmp_path}/1best_recog" in str(refused.value)
    assert f"{tmp_path}/{below}/3best_recog" in str(refused.value)
    assert read_espnet_output(tmp_path / below) == LISTS


def test_parts_of_the_scores(tmp_path):
    parts = (
        "{'decoder': tensor(-0.2500), 'ctc': tensor(-1.0000, device='cuda:0'), "
        '"length_bonus": 3.0}'
    )
    scores = {"u2": [parts, "{}"], "u1": ["{}"] * 3, "u3": ["{}"] * 3}
    lists = read_espnet_output(write(tmp_path, RANKED, scores=scores))
    assert lists[1].hyps[0] == Hypothesis(
        "A B", -0.5, {"decoder": -0.25, "ctc": -1.0, "length_bonus": 3.0}
    )
    assert [lists[0], lists[2]] == [LISTS[0], LISTS[2]]


@given(
    st.floats(width=32), st.sampled_from([torch.float16, torch.float32, torch.float64])
)
def test_a_score_is_what_torch_prints_whatever_it_is(value, dtype):
    tensor = torch.tensor(value, dtype=dtype)
    printed = str(tensor)
    parsed = parse_score(printed)
    # torch prints four digits after the point, in scientific notation beyond 1e4 and
    # below 1e-4 or so
    assert parsed == pytest.approx(tensor.item(), rel=1e-4, abs=5.001e-5, nan_ok=True)
    assert parse_score(str(value)) == pytest.approx(value, nan_ok=True)
    assert parse_score(str(tensor.reshape(1))) == pytest.approx(parsed, nan_ok=True)
    assert parse_scores(str({"ctc": tensor, "lm": value})) == {
        "ctc": pytest.approx(parsed, nan_ok=True),
        "lm": pytest.approx(value, nan_ok=True),
    }


@given(
    st.dictionaries(
        st.text(alphabet="abc_", min_size=1),
        st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_parts_against_pythons_own_reader(parts):
    assert parse_scores(str(parts)) == ast.literal_eval(str(parts)) == parts


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *(
            (parse_score, text)
            for text in (
                "",
                "tensor()",
                "tensor(-1.0",
                "tensor([1.0, 2.0])",
                "tensor(1.0)x",
                "one",
            )
        ),
        *(
            (parse_scores, text)
            for text in (
                "",
                "tensor(-1.)",
                "{ctc: 1}",
                "{'ctc': 1",
                "{'ctc': x}",
                "{'ctc': 1} 2",
            )
        ),
        *(
            (parse_scores, text)
            for text in (
                "{'ctc': 1 'lm': 2}",
                '{"lm": "tensor(-0.3654)\'}',
                "{'lm': 1, 'lm': 2}",
            )
        ),
    ],
)
def test_what_is_no_score(parse, text):
    with pytest.raises(InputError, match="score|has lm twice"):
        parse(text)


def test_a_job_that_left_nothing_or_not_all(tmp_path):
    logdir = tmp_path / "logdir"
    write(logdir / "output.1", RANKED)
    (logdir / "output.2").mkdir()
    with pytest.raises(InputError, match="output.2: this job left no hypotheses"):
        read_espnet_output(tmp_path)
    write(logdir / "output.2", {"u4": [("A", "tensor(-1.)")]})
    assert len(read_espnet_output(tmp_path)) == 4
    write(logdir / "output.3", {"u2": RANKED["u2"]})  # of an older run with more jobs
    with pytest.raises(
        InputError, match="output.3: u2 is also in another job's output"
    ):
        read_espnet_output(tmp_path)
    shutil.rmtree(logdir / "output.3")
    (logdir / "keys.2.scp").write_text("u4 a.flac\nu5 b.flac\n")
    with pytest.raises(
        InputError,
        match="output.2: u5 of keys.2.scp has no hypotheses: the job has not finished",
    ):
        read_espnet_output(tmp_path)


def test_a_gap_in_the_ranks(tmp_path):
    write(tmp_path, RANKED)
    for name in ("text", "score"):
        path = tmp_path / "2best_recog" / name
        path.write_text(
            "".join(line for line in path.open() if not line.startswith("u1"))
        )
    with pytest.raises(InputError, match=r"u1: ranks are \[1, 3\], not 1 to 2"):
        read_espnet_output(tmp_path)


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "score",
            "u2 tensor(-1.)\nu3 0.0\n",
            "1best_recog: u1 is in only one of text and score",
        ),
        ("text", "u2 A\nu3 B\n", "1best_recog: u1 is in only one of text and score"),
        ("scores", "u2 {}\n", "1best_recog: u1 is in only one of text and scores"),
        ("scores", "u1 {}\nu2 x\nu3 {}\n", "1best_recog: u2: 'x' is not a dictionary"),
        ("score", "u1 tensor(nan)\nu2 1\nu3 2\n", ": u1: hypothesis 1: score is nan"),
        ("score", "u1 1\nu2 tensor(-inf)\nu3 2\n", ": u2: hypothesis 1: score is -inf"),
        (
            "score",
            "u1 1\nu2 tens\nu3 2\n",
            "1best_recog: u2: 'tens' is not a score as ESPnet prints it",
        ),
        ("score", "u1 1\nu2 1\nu2 1\nu3 2\n", "1best_recog/score: id u2 comes twice"),
        ("text", "", "1best_recog/text: empty file"),
    ],
)
def test_spoilt_files_are_refused_by_name(tmp_path, name, text, message):
    write(tmp_path, RANKED)
    (tmp_path / "1best_recog" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_espnet_output(tmp_path)

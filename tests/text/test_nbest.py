"""N-best lists as objects and on disk: what comes back, what is refused and by which
name.
"""

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.nbest import (
    Hypothesis,
    NBest,
    count_word_errors,
    drop_repeated_texts,
    read_nbest,
    write_nbest,
)

LISTS = [
    NBest(
        "b-1",
        (
            Hypothesis("THE CAT", -1.5, {"ctc": -0.25, "decoder": -1.25}),
            Hypothesis("", -9.0),
        ),
        "THE CAT SAT",
    ),
    NBest("a-1", (Hypothesis("去 北京", -0.1),)),
]


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new" / "nbest.jsonl"
    write_nbest(path, LISTS)
    assert read_nbest(path) == LISTS
    records = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert records[0]["hyps"][0] == {
        "text": "THE CAT",
        "score": -1.5,
        "scores": {"ctc": -0.25, "decoder": -1.25},
    }
    assert records[1] == {
        "utt_id": "a-1",
        "ref": None,
        "hyps": [{"text": "去 北京", "score": -0.1, "scores": {}}],
    }
    assert "去 北京" in path.read_text(encoding="utf-8")


def test_lists_are_gzipped_if_their_name_says_so(tmp_path):
    one, other = tmp_path / "nbest.jsonl.gz", tmp_path / "again.jsonl.gz"
    write_nbest(one, LISTS)
    write_nbest(other, LISTS)
    assert read_nbest(one) == LISTS and gzip.decompress(one.read_bytes()).startswith(
        b"{"
    )
    assert one.read_bytes() == other.read_bytes()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)
)
def test_scores_keep_every_digit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("scores") / "nbest.jsonl"
    lists = [
        NBest("u", tuple(Hypothesis("A", value, {"lm": -value}) for value in values))
    ]
    write_nbest(path, lists)
    assert read_nbest(path) == lists


def test_optional_fields_and_blanks(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text(
        '\n{"utt_id": "u", "hyps": [{"text": " A  B ", "score": -1}], "speaker": '
        '"x"}\n \n'
    )
    assert read_nbest(path) == [NBest("u", (Hypothesis("A B", -1.0),))]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "is not JSON"),
        ("[]", ": not an N-best list"),
        ('{"utt_id": 3, "hyps": []}', ": not an N-best list"),
        ('{"utt_id": "u", "hyps": {}}', ": u: hyps"),
        ('{"utt_id": "u", "ref": 1, "hyps": []}', ": u: ref"),
        ('{"utt_id": "u", "hyps": []}', ": u: no hypotheses"),
        ('{"utt_id": "u v", "hyps": [{"text": "A", "score": 0}]}', ": 'u v'"),
        ('{"utt_id": "u", "hyps": [{"text": "A"}]}', r": u: hyps\[0\]"),
        ('{"utt_id": "u", "hyps": [{"text": 1, "score": 0}]}', r": u: hyps\[0\].text"),
        ('{"utt_id": "u", "hyps": ["A"]}', r": u: hyps\[0\]"),
        (
            '{"utt_id": "u", "hyps": [{"text": "A", "score": 0, "scores": [1]}]}',
            r": u: hyps\[0\].scores",
        ),
        (
            '{"utt_id": "u", "hyps": [{"text": "A", "score": 0}, {"text": "B", '
            '"score": NaN}]}',
            ": u: hypothesis 2",
        ),
        (
            '{"utt_id": "u", "hyps": [{"text": "A", "score": true}]}',
            r": u: hyps\[0\].score",
        ),
        (
            '{"utt_id": "u", "hyps": [{"text": "A", "score": 0}], "hyps": []}',
            ": hyps comes twice",
        ),
        (
            '{"utt_id": "u", "hyps": [{"text": "A", "score": 0, "scores": {"ctc": '
            "NaN}}]}",
            ": u: hypothesis 1: ctc",
        ),
        (
            '{"utt_id": "first", "hyps": [{"text": "A", "score": 0}]}',
            ": first comes twice",
        ),
    ],
)
def test_bad_lines_are_refused_by_file_line_and_utterance(tmp_path, line, message):
    path = tmp_path / "lists.jsonl"
    path.write_text(
        '{"utt_id": "first", "hyps": [{"text": "A", "score": 0}]}\n' + line + "\n"
    )
    with pytest.raises(InputError, match=rf"lists.jsonl: line 2.*{message}") as error:
        read_nbest(path)
    assert "\n" not in str(error.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="none.jsonl: no such file"):
        read_nbest(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="empty.jsonl: empty file"):
        read_nbest(tmp_path / "empty.jsonl")


def test_nothing_half_is_written(tmp_path):
    path = tmp_path / "nbest.jsonl"
    write_nbest(path, LISTS)
    before = path.read_bytes()
    with pytest.raises(InputError, match="b-1 comes twice"):
        write_nbest(path, [*LISTS, LISTS[0]])
    with pytest.raises(InputError, match="nothing to write"):
        write_nbest(path, [])
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["nbest.jsonl"]


def test_word_errors_are_those_of_the_alignment():
    texts = ("THE CAT SAT", "THE CAT", "A CAT SAT DOWN", "", "THE CAT SAT")
    nbest = NBest("u-7", tuple(Hypothesis(text, -1.0) for text in texts), "THE CAT SAT")
    assert count_word_errors(nbest) == [0, 1, 2, 3, 0]
    assert count_word_errors(replace(nbest, ref=" ")) == [3, 2, 4, 0, 3], (
        "insertions where nothing was said"
    )
    with pytest.raises(
        InputError, match="^u-7: no reference, so errors cannot be counted"
    ):
        count_word_errors(replace(nbest, ref=None))


def test_distinct_keeps_the_best_of_each_text_and_all_else():
    nbest = NBest(
        "u",
        tuple(
            Hypothesis(text, score) for text, score in [("A", -1), ("B", -2), ("A", -3)]
        ),
        "A",
    )
    assert drop_repeated_texts(nbest) == NBest("u", nbest.hyps[:2], "A")

"""Our own lists, references that do not fit, and what is warned of."""

import gzip
import json
from dataclasses import replace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, read_text_lines
from espnet_ext.nbest.sources import (
    FORMATS,
    add_references,
    convert_lists,
    find_lists,
    find_oddities,
    has_references,
    read_lists,
    write_references,
)
from espnet_ext.scoring.score_files import evaluate
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest

LISTS = [
    NBest("a", (Hypothesis("A B", -1.5), Hypothesis("A", -2.5))),
    NBest("b", (Hypothesis("C", -0.5),)),
]


@pytest.fixture
def source(tmp_path):
    write_nbest(tmp_path / "lists.jsonl", LISTS)
    return tmp_path / "lists.jsonl"


def test_our_own_lists_and_their_references(source, tmp_path):
    write_nbest(tmp_path / "lists.jsonl.gz", LISTS)
    assert read_lists(source) == read_lists(tmp_path / "lists.jsonl.gz") == LISTS
    (tmp_path / "text").write_text("a A B\nb \n")
    assert [nbest.ref for nbest in read_lists(source, tmp_path / "text")] == ["A B", ""]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "a A\n",
            "text: utterance b of .* missing: is this another test set. It has a",
        ),
        ("x A\n", "text: utterance a and 1 more of .* missing"),
        (
            "a A\nb B\nc C\nd D\n",
            "utterance c and 1 more of .*text without N-best list: decode the "
            "whole set",
        ),
    ],
)
def test_references_of_other_utterances(source, tmp_path, text, message):
    (tmp_path / "text").write_text(text)
    with pytest.raises(InputError, match=message):
        read_lists(source, tmp_path / "text")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            gzip.compress(b"{}\n" * 1000, mtime=0)[:-12],
            "lists.jsonl.gz: cannot be read as gzip",
        ),
        (gzip.compress(b"\xff\xff", mtime=0), "lists.jsonl.gz: .*UTF-8"),
        (gzip.compress(b"", mtime=0), "lists.jsonl.gz: empty file"),
        (b"\x1f\x8b\x08\x00 and no more", "lists.jsonl.gz: cannot be read as gzip"),
    ],
)
def test_faults_of_gzipped_lists(tmp_path, data, message):
    (tmp_path / "lists.jsonl.gz").write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(read_text_lines(tmp_path / "lists.jsonl.gz"))


def test_a_missing_source(tmp_path):
    for name in ("lists.jsonl", "lists.json", "decode"):
        with pytest.raises(InputError, match=f"{name}: no such file"):
            read_lists(tmp_path / name)


def test_references_have_single_blanks(tmp_path):
    """A line break in one would end its line of a Kaldi table."""
    (tmp_path / "a.jsonl").write_text(
        '{"utt_id": "u", "ref": "A\\n B ", "hyps": [{"text": "A  B", "score": 0}]}'
    )
    assert read_lists(tmp_path / "a.jsonl") == [
        NBest("u", (Hypothesis("A B", 0.0),), "A B")
    ]


def test_a_part_of_an_espnet_decoding_is_named(tmp_path):
    (tmp_path / "2best_recog").mkdir()
    with pytest.raises(
        InputError,
        match="2best_recog: a part of an ESPnet decoding: give the decoding's folder",
    ):
        read_lists(tmp_path / "2best_recog")


def test_the_option_names_every_format():
    from espnet_ext.cli.nbest import FORMATS as CHOICES

    assert ("auto", *FORMATS) == CHOICES
    with pytest.raises(
        InputError, match="no format htk of N-best lists: choose one of espnet, "
    ):
        read_lists("lists", form="htk")


def with_texts(texts: list[str], reference: str) -> list[NBest]:
    return [NBest("u", tuple(Hypothesis(text, -1.0) for text in texts), reference)]


def test_unlike_case_is_warned_of():
    (case, oracle) = find_oddities(with_texts(["the cat sat"], "THE CAT SAT"))
    assert (
        "references are in upper case, the hypotheses in lower" in case
        and "100 %" in oracle
    )
    assert find_oddities(with_texts(["THE CAT", "the cat sat"], "THE CAT SAT")) == []
    (mixed,) = find_oddities(with_texts(["The Cat sat", "THE CAT"], "THE CAT SAT"))
    assert "hypotheses in mixed" in mixed


@pytest.mark.parametrize("texts", [["", "THE CAT SAT"], ["", ""], ["1 2 3"]])
def test_texts_without_letters_have_no_case(texts):
    assert not any(" case" in line for line in find_oddities(with_texts(texts, "THE")))


def test_marks_of_owsm_are_warned_of():
    lists = [
        NBest("u", (Hypothesis("<eng><asr><notimestamps> the cat", -1.0),)),
        *with_texts(["a"], "a"),
    ]
    (marks,) = find_oddities(lists, "dev")
    assert marks.startswith(
        "warning: dev: texts begin with marks of OWSM (<eng><asr> and the like, "
        "in 1 of 2 lists)"
    )
    assert find_oddities(with_texts(["<unk><unk> a"], "<unk><unk> a")) == []


def test_references_of_another_set_are_warned_of_and_lists_without_words_are_not():
    (oracle,) = find_oddities(with_texts(["A DOG", "TWO DOGS"], "THE CAT SAT"))
    assert "word error rate of 100 %" in oracle
    (written,) = find_oddities(with_texts(["the cat. sat,", "on"], "the cat sat"))
    assert (
        "2 of the 2 errors of the first hypotheses are only case or punctuation"
        in written
    )
    assert (
        find_oddities([NBest("u", (Hypothesis("A", -1.0),))])
        == []
        == find_oddities(with_texts(["A"], ""))
    )


def test_conversion_normalises_hypotheses_and_references_alike(tmp_path):
    write_nbest(
        tmp_path / "in.jsonl",
        [NBest("u", (Hypothesis("A b.", -1.0), Hypothesis("a B", -2.0)), "a b")],
    )
    (nbest,), _ = convert_lists(
        tmp_path / "in.jsonl",
        tmp_path / "out.jsonl",
        rules=lambda text: text.upper().strip("."),
    )
    assert nbest == NBest("u", (Hypothesis("A B", -1.0),), "A B") and read_lists(
        tmp_path / "out.jsonl"
    ) == [nbest]


def test_a_folder_of_no_known_format_is_refused_with_the_formats(tmp_path):
    """Such as Kaldi's lists after nbest-to-linear: it is not taken for SRILM's."""
    (tmp_path / "lists").mkdir()
    with pytest.raises(
        InputError,
        match=r"lists: not N-best lists in any of these formats: .*kaldi \(folder with",
    ):
        read_lists(tmp_path / "lists")
    (tmp_path / "lists/ac_cost").write_text("u1-1 103.2\n")
    with pytest.raises(InputError, match="not N-best lists in any of these formats"):
        read_lists(tmp_path / "lists")
    (tmp_path / "lists/ac_cost").unlink()
    (tmp_path / "lists/u1.nbest").write_text("-103.2 -3.2 2 THE CAT\n")
    assert read_lists(tmp_path / "lists")[0].hyps[0].text == "THE CAT"


def test_ids_of_cuts_are_named(tmp_path):
    lists = [
        NBest(f"u{number}-{number}", (Hypothesis("A", -1.0),)) for number in range(3)
    ]
    with pytest.raises(
        InputError,
        match=(
            "utterance u0-0 and 2 more of lists missing: these are Lhotse's ids of cuts"
        ),
    ):
        add_references(lists, {f"u{number}": "A" for number in range(3)})


def test_references_of_espnets_scoring(tmp_path):
    """``(speaker-utterance)`` of ref.trn, for lists, and for texts to be scored."""
    (tmp_path / "ref.trn").write_text("ONE TWO\t(1-a-1-a-7)\nSIX\t(1-b-1-b-8)\n")
    ids = [
        {"utt_id": key, "hyps": [{"text": "ONE", "score": -1}]}
        for key in ("1-a-7", "1-b-8")
    ]
    (tmp_path / "lists.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in ids)
    )
    lists = read_lists(tmp_path / "lists.jsonl", tmp_path / "ref.trn")
    assert [nbest.ref for nbest in lists] == ["ONE TWO", "SIX"]
    (tmp_path / "text").write_text("1-a-7 ONE\n1-b-8 SIX\n")
    for files in (("ref.trn", "text"), ("text", "ref.trn")):
        score, _ = evaluate(*(tmp_path / name for name in files))
        assert score.total.errors == 1


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        (["s-1", "s-2-1", "s-x-2-1"], ["1", "2-1", "x-2-1"]),
        (["a-a-1", "a-a-a-1"], ["a-1", "a-a-1"]),
    ],
)
def test_an_id_that_ends_another_is_not_taken_for_it(tmp_path, keys, ids):
    lines = [f"{name.upper()}\t({key})\n" for key, name in zip(keys, ids, strict=True)]
    (tmp_path / "ref.trn").write_text("".join(lines))
    write_nbest(tmp_path / "lists.jsonl", [NBest(name, LISTS[0].hyps) for name in ids])
    lists = read_lists(tmp_path / "lists.jsonl", tmp_path / "ref.trn")
    assert {nbest.utt_id: nbest.ref for nbest in lists} == {
        name: name.upper() for name in ids
    }
    # Two keys that end in the same id: which is whose is not guessed.
    with (tmp_path / "ref.trn").open("a") as file:
        file.write(f"A\t(t-{ids[-1]})\n")
    with pytest.raises(InputError, match="ref.trn"):
        read_lists(tmp_path / "lists.jsonl", tmp_path / "ref.trn")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("dev-clean.jsonl", "dev-clean.jsonl.gz"),
        ("dev-clean.jsonl", "dev_clean.jsonl"),
        ("dev_clean", "dev_clean.jsonl"),
    ],
)
def test_a_part_with_lists_in_two_places_is_refused_with_both(tmp_path, first, second):
    for name in (first, second):
        if "." in name:
            write_nbest(tmp_path / name, LISTS)
        else:
            (tmp_path / name).mkdir()
    with pytest.raises(InputError) as refused:
        find_lists(tmp_path, "dev-clean")
    for name in (first, second):
        assert str(tmp_path / name) in str(refused.value).replace(":", ",").split(", ")
    # A link to the same lists is no second place.
    path = tmp_path / second
    path.rmdir() if path.is_dir() else path.unlink()
    path.symlink_to(tmp_path / first)
    assert find_lists(tmp_path, "dev-clean") in (tmp_path / first, tmp_path / second)


def test_references_become_a_data_dir(tmp_path):
    lists = [
        NBest(key, (Hypothesis("b", -1.0),), ref)
        for key, ref in (("84-1-0002", "C D"), ("84-1-0001", "A"), ("9-1-0000", ""))
    ]
    write_nbest(tmp_path / "lists.jsonl", lists)
    assert has_references(tmp_path / "lists.jsonl")
    write_references(tmp_path / "lists.jsonl", tmp_path / "data")
    data = tmp_path / "data"
    assert read_table(data / "text") == {
        "84-1-0001": "A",
        "84-1-0002": "C D",
        "9-1-0000": "",
    }
    assert (data / "spk2utt").read_text() == "84 84-1-0001 84-1-0002\n9 9-1-0000\n"
    write_nbest(tmp_path / "calls.jsonl", [replace(lists[0], utt_id="call-7")])
    write_references(tmp_path / "calls.jsonl", tmp_path / "calls")
    assert (tmp_path / "calls" / "spk2utt").read_text() == "call-7 call-7\n"
    write_nbest(tmp_path / "bare.jsonl", [lists[0], replace(lists[1], ref=None)])
    with pytest.raises(InputError, match="84-1-0001"):
        write_references(tmp_path / "bare.jsonl", tmp_path / "other")
    write_nbest(tmp_path / "none.jsonl", [replace(lists[1], ref=None)])
    assert not has_references(tmp_path / "none.jsonl")
    assert not has_references(tmp_path) and not has_references(tmp_path / "absent")

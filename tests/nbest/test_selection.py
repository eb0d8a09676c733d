"""Parts of the first pass, repeated texts and depth, in lists as ESPnet has them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError, UsageError
from espnet_ext.nbest.selection import (
    Selection,
    parse_parts,
    rank_by_parts,
    select_hypotheses,
)
from espnet_ext.nbest.sources import convert_part, read_lists
from espnet_ext.text.nbest import Hypothesis, NBest, read_nbest

# Total = .6 decoder + .4 ctc + .6 lm, as in ESPnet's recipe: alone, lm prefers "A B".
HYPS = [
    ("A B", {"decoder": -2.0, "ctc": -1.0, "lm": -1.0}),
    ("A C", {"decoder": -1.0, "ctc": -1.0, "lm": -9.0}),
    ("A D", {"decoder": -1.5, "ctc": -2.0, "lm": -9.0}),
    ("A C", {"decoder": -4.0, "ctc": -1.0, "lm": -9.0}),  # in other tokens
]
PARTS = {"decoder": 0.6, "ctc": 0.4}


def write_published(folder: Path, *, without: str = "", rank: int = 0) -> Path:
    """Write two utterances; the second's hypothesis ``rank`` is ``without`` a part."""
    for number, (text, parts) in enumerate(HYPS, start=1):
        recog = folder / f"{number}best_recog"
        recog.mkdir(parents=True)
        lines = {"text": [], "score": [], "scores": []}
        for utterance in ("u1", "u2"):
            lacks = without if (utterance, number) == ("u2", rank) else ""
            own = {
                name: f"tensor({value:.4f})"
                for name, value in parts.items()
                if name != lacks
            }
            total = 0.6 * parts["decoder"] + 0.4 * parts["ctc"] + 0.6 * parts["lm"]
            lines["text"].append(f"{utterance} {text}")
            lines["score"].append(f"{utterance} tensor({total:.4f})")
            lines["scores"].append(f"{utterance} {json.dumps(own)}")
        for name, own in lines.items():
            (recog / name).write_text("\n".join(own) + "\n")
    (folder / "text").write_text("u1 A D\nu2 A D\n")
    return folder


def test_parts_texts_and_depth_in_this_order(tmp_path):
    lists = read_lists(write_published(tmp_path))
    (first, _), notes = select_hypotheses(lists, Selection(PARTS, depth=2), "dev")
    # -1.0 of "A C", then -1.6 of "A B" before -1.7 of "A D"; the other "A C" is gone.
    assert [(hyp.text, round(hyp.score, 6)) for hyp in first.hyps] == [
        ("A C", -1.0),
        ("A B", -1.6),
    ]
    assert first.hyps[0].scores == HYPS[1][1]  # parts are kept for other sums
    assert len(notes) == 3 and all(note.startswith("dev: ") for note in notes)
    assert "left out: lm" in notes[0]
    assert notes[1].startswith("dev: 2 repeated")
    assert select_hypotheses(lists, Selection(depth=9), "dev")[1] == notes[1:2]


def test_lists_that_are_not_best_first_keep_their_order_with_a_warning():
    def make(utterance: str, *scores: float) -> NBest:
        hyps = [
            Hypothesis(f"A {number}", score, {"ctc": score})
            for number, score in enumerate(scores)
        ]
        return NBest(utterance, tuple(hyps))

    lists = [
        make("falling", -1.0, -2.0, -3.0),
        make("equal", 0.0, 0.0),
        make("last", -1.0, -3.0, -2.0),
        make("rising", -3.0, -2.0),
    ]
    # Also where the fault is below the depth: it says whether places can be trusted.
    selected, notes = select_hypotheses(lists, Selection(depth=2), "dev.jsonl")
    assert selected == [replace(each, hyps=each.hyps[:2]) for each in lists]
    (warning,) = (note for note in notes if note.startswith("warning"))
    assert all(word in warning for word in ("dev.jsonl", "2 of 4", "last"))
    assert select_hypotheses(lists[:2], Selection(), "dev.jsonl")[1] == []
    # Parts give an order of their own.
    ranked, notes = select_hypotheses(lists, Selection({"ctc": 1.0}), "dev.jsonl")
    assert ranked[3].hyps[0].score == -2.0
    assert not any(note.startswith("warning") for note in notes)


@pytest.mark.parametrize("name", ["decoder", "ctc"])
def test_a_part_that_is_missing_is_named_with_its_utterance(tmp_path, name):
    lists = read_lists(write_published(tmp_path, without=name, rank=3))
    with pytest.raises(InputError, match=f"^dev: u2: hypothesis 3 .* {name};"):
        select_hypotheses(lists, Selection(PARTS), "dev")
    select_hypotheses(lists, Selection({"lm": 1.0}), "dev")


def test_too_short_an_utterance_has_no_parts():
    """ESPnet writes texts of a blank, with the score 0.0 and {}."""
    nbest = NBest("u", (Hypothesis("", 0.0), Hypothesis("", 0.0)))
    assert rank_by_parts(nbest, PARTS) == nbest


def test_equal_sums_stay_in_order():
    hyps = tuple(Hypothesis(text, 0.0, {"ctc": -1.0}) for text in ("B", "A"))
    assert rank_by_parts(NBest("u", hyps), {"ctc": 1.0}).hyps[0].text == "B"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decoder",
        "decoder=",
        "=1",
        "a=1,,b=1",
        "a=x",
        "a=1,a=2",
        "a=-1",
        "a=nan",
        "a=0",
    ],
)
def test_what_names_no_parts(text, tmp_path):
    with pytest.raises(InputError):
        parse_parts(text)
    with pytest.raises(UsageError):
        call(["nbest", "oracle", "--nbest", str(tmp_path), "--first-pass", text])


def test_the_commands_take_both(tmp_path, capsys):
    lists = write_published(tmp_path / "dev")
    options = ["--nbest", str(lists), "--ref", str(lists / "text")]
    call(["nbest", "oracle", *options])
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == [
        "3-best",
        "oracle:",
        "WER",
        "0.00",
    ]
    options += ["--first-pass", "decoder=.6,ctc=.4", "--depth", "2"]
    call(["nbest", "oracle", *options])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].split()[:4] == ["2-best", "oracle:", "WER", "50.00"]
    call(["nbest", "convert", *options, "--output", str(tmp_path / "dev.jsonl")])
    converted = read_nbest(tmp_path / "dev.jsonl")
    assert [hyp.text for hyp in converted[0].hyps] == ["A C", "A B"]


def test_a_part_of_librispeech_is_cut(tmp_path, capsys):
    lists = write_published(tmp_path / "dev")
    output = tmp_path / "dev.jsonl"
    convert_part(lists, output, lists / "text", Selection(PARTS, 2))
    assert [len(nbest.hyps) for nbest in read_nbest(output)] == [2, 2]
    assert "cut to 2" in capsys.readouterr().out


def test_a_normaliser_that_changes_words_says_so(tmp_path, capsys):
    lists = tmp_path / "tests.jsonl"
    hyps = [{"text": "grün und zwei", "score": -1.0}, {"text": "GRUN", "score": -2.0}]
    record = {"utt_id": "u1", "ref": "GRÜN UND 2", "hyps": hyps}
    lists.write_text(json.dumps(record) + "\n")
    reference = tmp_path / "text"
    reference.write_text("u1 GRÜN UND 2\n")
    output = tmp_path / "out.jsonl"
    convert_part(lists, output, reference, Selection())
    said = capsys.readouterr().out
    assert "warning" in said and str(lists) in said and "--normaliser none" in said
    convert_part(lists, output, reference, Selection(), "none")
    assert "changes more than" not in capsys.readouterr().out
    [kept] = read_nbest(output)
    assert [hyp.text for hyp in kept.hyps] == ["grün und zwei", "GRUN"]
    assert kept.ref == "GRÜN UND 2"

"""The mixed error rate against jiwer, its split against a table of edit distances."""

import json
from dataclasses import astuple

import jiwer
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espnet_ext.scoring.error_rate import (
    ErrorRate,
    align,
    bootstrap_interval,
    count_errors,
    count_pairs,
)
from espnet_ext.scoring.mixed import (
    count_filtered_errors,
    count_switches,
    score_mixed_texts,
    split_at_switches,
)
from espnet_ext.scoring.score_files import evaluate
from espnet_ext.text.mixed_text import has_han

TOKENS = st.sampled_from(["我", "你", "去", "𠀀", "go", "to", "don't", "9"])
REFERENCES = st.lists(TOKENS, min_size=1, max_size=12)
HYPOTHESES = st.lists(TOKENS, max_size=12)

REFERENCE = {
    "a1": "我想去 library 借书",
    "a2": "今天天气很好",
    "b1": "this is a meeting 吗",
    "b2": "请把 PPT 发给 manager",
}
HYPOTHESIS = {
    "a1": "我想去来 library",
    "a2": "今天 天汽很好 ok",
    "b1": "this 是 meeting 吗",
    "b2": "请把PPT 发给 manage",
}
SPEAKERS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}


def distances(reference: list[str], hypothesis: list[str]) -> np.ndarray:
    """Fewest errors of each pair of beginnings, (reference + 1, hypothesis + 1)."""
    rows = np.arange(len(reference) + 1)
    columns = np.arange(len(hypothesis) + 1)
    table = np.add.outer(rows, columns)
    for i, left in enumerate(reference):
        for j, right in enumerate(hypothesis):
            paired = table[i, j] + (left != right)
            deleted = table[i, j + 1] + 1
            inserted = table[i + 1, j] + 1
            table[i + 1, j + 1] = min(paired, deleted, inserted)
    return table


def split_by_hand(reference: list[str], hypothesis: list[str]) -> dict[bool, list[int]]:
    """By language (is it Han?): correct, substituted, deleted, inserted.

    Ties are broken as Kaldi's compute-wer does.
    """
    table = distances(reference, hypothesis)
    counts = {True: [0, 0, 0, 0], False: [0, 0, 0, 0]}
    i = len(reference)
    j = len(hypothesis)
    while i or j:
        if j and table[i, j] == table[i, j - 1] + 1:
            j -= 1
            counts[has_han(hypothesis[j])][3] += 1
        elif i and table[i, j] == table[i - 1, j] + 1:
            i -= 1
            counts[has_han(reference[i])][2] += 1
        else:
            i -= 1
            j -= 1
            wrong = int(reference[i] != hypothesis[j])
            counts[has_han(reference[i])][wrong] += 1
    return counts


def count_mixed_errors(reference, hypothesis) -> tuple[ErrorRate, ErrorRate, ErrorRate]:
    """The counts of one utterance, and those of its Mandarin and its English."""
    score = score_mixed_texts({"u": " ".join(reference)}, {"u": " ".join(hypothesis)})
    parts = {name: part.total for name, part in score.parts.items()}
    assert parts["CH"] + parts["EN"] == score.total
    assert parts["near-switch"] + parts["elsewhere"] == score.total
    return score.total, parts["CH"], parts["EN"]


@given(REFERENCES, HYPOTHESES)
@example(["我", "go"], ["go", "我"])
@example(["我"], ["go"] * 12)
@example(["go"], [])
@settings(max_examples=300)
def test_counts_equal_jiwer_and_the_split_a_table_by_hand(reference, hypothesis):
    total, han, english = count_mixed_errors(reference, hypothesis)
    peer = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
    assert total.errors == peer.substitutions + peer.deletions + peer.insertions
    expected = split_by_hand(reference, hypothesis)
    assert [*astuple(han)] == expected[True]
    assert [*astuple(english)] == expected[False]
    filtered = count_filtered_errors(reference, hypothesis)
    for name, wanted in (("CH-filtered", True), ("EN-filtered", False)):
        left = [token for token in reference if has_han(token) == wanted]
        right = [token for token in hypothesis if has_han(token) == wanted]
        assert filtered[name] == count_errors(left, right)


def test_the_two_habits_differ_where_a_word_is_heard_as_a_character():
    counts = count_mixed_errors(["我", "go"], ["我", "够"])
    assert counts == (
        ErrorRate(1, 1, 0, 0),
        ErrorRate(1, 0, 0, 0),
        ErrorRate(0, 1, 0, 0),
    )
    filtered = count_filtered_errors(["我", "go"], ["我", "够"])
    assert [*filtered.values()] == [ErrorRate(1, 0, 0, 1), ErrorRate(0, 0, 1, 0)]


def test_texts_are_scored_by_utterance_speaker_and_part():
    score = score_mixed_texts(REFERENCE, HYPOTHESIS, utt2spk=SPEAKERS)
    assert score.utterances == {
        "a1": ErrorRate(4, 0, 2, 1),
        "a2": ErrorRate(5, 1, 0, 1),
        "b1": ErrorRate(3, 1, 1, 0),
        "b2": ErrorRate(5, 1, 0, 0),
    }
    han = score.parts["CH"]
    english = score.parts["EN"]
    assert list(han.utterances.values()) == [
        ErrorRate(3, 0, 2, 1),
        ErrorRate(5, 1, 0, 0),
        ErrorRate(1, 0, 0, 0),
        ErrorRate(4, 0, 0, 0),
    ]
    # No English in the reference: only the insertion.
    assert english.utterances["a2"] == ErrorRate(0, 0, 0, 1)
    assert english.speakers == {"a": ErrorRate(1, 0, 0, 1), "b": ErrorRate(3, 2, 1, 0)}
    assert han.total + english.total == score.total
    assert score.parts["CH-filtered"].utterances["b1"] == ErrorRate(1, 0, 0, 1)
    assert score.parts["EN-filtered"].utterances["b1"] == ErrorRate(2, 0, 2, 0)
    totals = {name: part.total for name, part in score.parts.items()}
    assert score.parts["near-switch"].utterances["a1"] == ErrorRate(2, 0, 1, 1)
    assert score.parts["elsewhere"].utterances["a1"] == ErrorRate(2, 0, 1, 0)
    for name in ("near-switch", "elsewhere"):
        assert totals[f"{name}-CH"] + totals[f"{name}-EN"] == totals[name]
    assert totals["near-switch"] + totals["elsewhere"] == score.total
    low, high = bootstrap_interval([*english.utterances.values()])
    assert 0 < low <= english.total.rate <= high


TOKENS = st.sampled_from("我你去abc")


def near_by_definition(pairs: list) -> list:
    """Tokens on either side of a switch point, and insertions at one."""
    languages = [left.isascii() for left, _ in pairs if left is not None]
    switches = []
    for place in range(1, len(languages)):
        if languages[place] != languages[place - 1]:
            switches.append(place)
    found = []
    place = 0
    for pair in pairs:
        is_token = pair[0] is not None
        if place in switches or (is_token and place + 1 in switches):
            found.append(pair)
        place += is_token
    return found


@given(st.lists(TOKENS, max_size=12), st.lists(TOKENS, max_size=12))
@settings(max_examples=300)
def test_classes_equal_the_definition_and_add_up(reference, hypothesis):
    pairs = align(reference, hypothesis)
    near, rest = split_at_switches(pairs, str.isascii)
    assert near == near_by_definition(pairs)
    assert sorted(map(str, near + rest)) == sorted(map(str, pairs))
    assert count_pairs(near) + count_pairs(rest) == count_errors(reference, hypothesis)


def test_one_language_has_no_switch_point():
    pairs = [("a", "b"), (None, "我"), ("c", None)]
    assert split_at_switches(pairs, str.isascii) == ([], pairs)
    assert split_at_switches([], str.isascii) == ([], [])
    assert count_switches([["a", "b"], ["我"], []], str.isascii) == {
        "switch_points": 0,
        "utterances_with_switch": 0,
    }


def test_rules_apply_to_both_texts_and_are_recorded(tmp_path):
    """With rules, case, punctuation, full width and noise marks are no errors."""
    (tmp_path / "ref").write_text(
        "u1 <v-noise> 我想要 app。\nu2 ｄoctor 说\n", encoding="utf-8"
    )
    (tmp_path / "hyp").write_text(
        "u1 我想要APP\nu2 Doctor说 [laugh]\n", encoding="utf-8"
    )
    for rules, errors, words in (("none", 4, 7), ("mandarin_english", 0, 6)):
        files = tmp_path / "ref", tmp_path / "hyp", tmp_path / rules
        score, summary = evaluate(*files, unit="mixed", normaliser=rules)
        assert (score.total.errors, score.total.reference_length) == (errors, words)
        written = json.loads((tmp_path / rules / "score.json").read_text())
        assert written["normaliser"] == rules and summary["words"] == words

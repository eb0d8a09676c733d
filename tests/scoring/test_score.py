"""Scoring of Kaldi text tables: by utterance, speaker, kind of word and in total; what
is refused.
"""

import json
from importlib.metadata import version
from pathlib import Path

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate
from espnet_ext.scoring.normalise import find_normaliser
from espnet_ext.scoring.score import score_texts, split_units
from espnet_ext.scoring.score_files import evaluate

REFERENCE = {
    "al-1": "one two three",
    "al-2": "four",
    "bo-1": "five six",
    "bo-2": "seven eight",
}
HYPOTHESIS = {
    "al-1": "one too three",
    "al-2": "four",
    "bo-1": "",
    "bo-2": "seven eight nine ten",
}
SPEAKERS = {"al-1": "al", "al-2": "al", "bo-1": "bo", "bo-2": "bo", "cy-1": "cy"}
TEXTS = st.lists(
    st.text(alphabet="ab \t\u4f60\u597d\u0301e\u3000", max_size=15),
    min_size=1,
    max_size=6,
)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_files_are_scored_by_utterance_speaker_and_in_total(tmp_path):
    reference = write(
        tmp_path / "ref", [f"{key} {text}" for key, text in REFERENCE.items()]
    )
    # Another order, and an id with nothing behind it: an empty hypothesis.
    hypothesis = write(
        tmp_path / "hyp",
        [f"{key} {text}".strip() for key, text in reversed(HYPOTHESIS.items())],
    )
    utt2spk = write(
        tmp_path / "utt2spk", [f"{key} {speaker}" for key, speaker in SPEAKERS.items()]
    )
    score, _ = evaluate(reference, hypothesis, utt2spk=utt2spk)
    assert score.utterances == {
        "al-1": ErrorRate(2, 1, 0, 0),
        "al-2": ErrorRate(1, 0, 0, 0),
        "bo-1": ErrorRate(0, 0, 2, 0),
        "bo-2": ErrorRate(2, 0, 0, 2),
    }
    assert list(score.utterances) == list(REFERENCE)
    assert score.speakers == {"al": ErrorRate(3, 1, 0, 0), "bo": ErrorRate(2, 0, 2, 2)}
    assert score.total == ErrorRate(5, 1, 2, 2)
    assert score.sentence_error_rate == 0.75


@given(TEXTS, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_words_and_characters_equal_jiwer(texts, generator):
    references = {f"u{index}": f"x {text}" for index, text in enumerate(texts)}
    hypotheses = {
        key: " ".join(generator.sample(text.split(), k=len(text.split())))
        for key, text in references.items()
    }
    spaced = [" ".join(text.split()) for text in references.values()]
    guesses = [" ".join(text.split()) for text in hypotheses.values()]
    words = score_texts(references, hypotheses).total
    assert words.rate == pytest.approx(jiwer.wer(spaced, guesses))
    characters = score_texts(references, hypotheses, unit="char").total
    assert characters.rate == pytest.approx(jiwer.cer(spaced, guesses))
    assert characters.reference_length == sum(map(len, spaced))


def test_characters_and_mixed_tokens():
    assert split_units("今天 天气", "char") == ["今", "天", " ", "天", "气"]
    assert split_units("今天\u3000天气", "word") == ["今天", "天气"]
    mixed = score_texts(
        {"u": "我想 去library吧"}, {"u": "我 想library 吧 吧"}, unit="mixed"
    )
    assert mixed.total == ErrorRate(4, 0, 1, 1) and not mixed.parts
    score = score_texts({"u": "今天天气好"}, {"u": "今天天汽"}, unit="char")
    assert score.total == ErrorRate(3, 1, 1, 0)
    assert score_texts({"u": "e\u0301"}, {"u": "e"}, unit="char").total == ErrorRate(
        1, 0, 1, 0
    )


@pytest.mark.parametrize(
    ("reference", "options", "message"),
    [
        (
            REFERENCE,
            {"utt2spk": {"al-1": "al"}},
            "utt2spk: utterance al-2 of reference has no speaker",
        ),
        (
            REFERENCE,
            {"utt2spk": SPEAKERS | {"al-2": ""}},
            "utt2spk: utterance al-2 of reference has no speaker",
        ),
        ({}, {}, "no utterance"),
        (REFERENCE, {"unit": "phone"}, "unknown unit 'phone'"),
    ],
)
def test_what_cannot_be_scored_is_refused(reference, options, message):
    with pytest.raises(InputError, match=message):
        score_texts(reference, HYPOTHESIS if reference else {}, **options)


def test_each_kind_of_word_has_its_rate(tmp_path):
    """u1: met is saw, him is inserted, today is lost; u2: Bob is rob, left is lost."""
    pytest.importorskip("whisper_normalizer")
    files = (
        write(tmp_path / "ref", ["u1 Ann met Bob today", "u2 Bob left"]),
        write(tmp_path / "hyp", ["u1 ann saw him bob", "u2 rob"]),
    )
    kinds = write(
        tmp_path / "kinds", ["u1 drowned other clear other", "u2 drowned other"]
    )
    score, _ = evaluate(*files, tmp_path, normaliser="whisper_english", kinds=kinds)
    assert score.total.errors == 5
    rates = {
        kind: (part.total.errors, part.total.reference_length)
        for kind, part in score.parts.items()
    }
    assert rates == {"clear": (0, 1), "drowned": (1, 2), "other": (3, 3)}
    assert (
        json.loads((tmp_path / "score.json").read_text())["measures"]["drowned"][
            "value"
        ]
        == 50.0
    )
    write(kinds, ["u1 drowned other clear other", "u2 drowned"])
    with pytest.raises(
        InputError, match="kinds: utterance u2 has 1 kinds, but its reference 2 words"
    ):
        evaluate(*files, kinds=kinds)


def test_normalisers_apply_to_both_texts_and_are_named(tmp_path):
    pytest.importorskip("whisper_normalizer")
    files = (
        write(
            tmp_path / "ref", ["r1 Mr. Marlow's got 21 colours.", "r2 It isn't, is it?"]
        ),
        write(
            tmp_path / "hyp",
            ["r1 mister marlow's got twenty one colors", "r2 it is not is it"],
        ),
    )
    summaries = [
        evaluate(*files, normaliser=name)[1] for name in ("whisper_english", "none")
    ]
    name = f"whisper_english (whisper-normalizer {version('whisper-normalizer')})"
    assert [summary["normaliser"] for summary in summaries] == [name, "none"]
    assert summaries[0]["value"] == 0.0 and summaries[1]["value"] > 50
    assert (
        find_normaliser("whisper_english")[0](
            "Um, twenty-one colours -- HERE [laughs]."
        )
        == "21 colors here"
    )
    with pytest.raises(InputError, match="no normaliser 'nist'"):
        find_normaliser("nist")

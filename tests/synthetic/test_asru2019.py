"""The synthetic corpus in the layout of the ASRU 2019 code-switching corpus, and its
bilingual grammar.
"""

import dataclasses
import random
import re
from collections import Counter
from itertools import batched
from pathlib import Path

import numpy as np
import pytest

from espnet_ext.corpora.asru2019 import prepare_asru2019
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.synthetic import parameters
from espnet_ext.synthetic.asru2019 import draw_sentences, make_asru2019
from espnet_ext.synthetic.mandarin_english import (
    Fragment,
    Phrase,
    build_bilingual_grammar,
    read_homophones,
)
from espnet_ext.synthetic.voices import BRITISH, draw_speakers

TINY = parameters.BilingualSize(
    {"train": 2, "dev": 1, "test": 1},
    {"train-cs": 2, "train-zh": 5, "LibriSpeech": 4, "dev": 2, "test": 2},
    voices=4,
    later={"test": 1},
)
MIXED = ("train-cs", "dev", "test")


@pytest.fixture(scope="module")
def corpus(make_tiny) -> Path:
    """The folder of a tiny corpus. Tests leave it as it is."""
    return make_tiny(make_asru2019, parameters.ASRU2019_SIZES, TINY)


@pytest.fixture(scope="module")
def data_dirs(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, DataDir]:
    return prepare_asru2019(corpus, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def derivations() -> list[Phrase]:
    rng, bilingual = random.Random(0), build_bilingual_grammar()
    return [bilingual.derive(rng) for _ in range(4000)]


@pytest.fixture(scope="module")
def mini() -> dict[str, list[tuple[Fragment, ...]]]:
    """The sentences of the size ``mini``."""
    return draw_sentences(counts("mini"), 0, counts("mini", "later"))


def counts(size: str, which: str = "utterances") -> dict[str, int]:
    """The sentences of each part: those of all speakers that are drawn first, or those
    that are drawn ``later``.
    """
    size = parameters.ASRU2019_SIZES[size]
    groups = {
        part: part if part in ("dev", "test") else "train" for part in size.utterances
    }
    return {
        part: number * size.speakers[groups[part]]
        for part, number in getattr(size, which).items()
    }


def text(sentence: tuple[Fragment, ...]) -> str:
    return " ".join(fragment.text for fragment in sentence)


def test_fragments_keep_the_equivalence_constraint(derivations: list[Phrase]) -> None:
    """Every fragment of a mixed sentence is a piece of the same sentence in that
    language.
    """
    rng, bilingual, mixed = random.Random(1), build_bilingual_grammar(), 0
    for phrase in derivations:
        sentence = bilingual.mix(phrase, rng)
        if sentence is None:
            continue
        mixed += 1
        assert {fragment.language for fragment in sentence} == {"zh", "en"}
        assert all(
            left.language != right.language
            for left, right in zip(sentence, sentence[1:], strict=False)
        )
        for fragment in sentence:
            whole = f" {' '.join(phrase.say(fragment.language))} "
            assert f" {' '.join(fragment.words)} " in whole, (sentence, whole)
    assert mixed > 2000


def pairs_of_homophones() -> list[tuple[str, str, str]]:
    """The language in which two words sound alike, and the two words in it."""
    rows = read_homophones()
    words = [
        row["word"].upper() if row["language"] == "en" else row["zh"] for row in rows
    ]
    return [
        (row["language"], *pair)
        for row, pair in zip(rows[::2], batched(words, 2), strict=True)
    ]


def test_homophones_sound_alike() -> None:
    for language, one, other in pairs_of_homophones():
        frame, kind = (
            ("HE LIKES THE ", "en") if language == "en" else ("他喜欢这", "zh")
        )
        assert one != other and np.array_equal(
            say(frame + one, kind), say(frame + other, kind)
        ), (one, other)


def test_a_homophone_is_told_by_its_subject_in_the_same_language_across_the_other(
    mini,
) -> None:
    """What P1 is about, as a count: between subject and homophone of a mixed sentence
    is speech of the other language, the word before the homophone does not tell which
    of the two it is, and the subject does.
    """
    subject = {
        row["word"].upper() if row["language"] == "en" else row["zh"]: (
            row["subject"].upper() if row["language"] == "en" else row["subject_zh"]
        )
        for row in read_homophones()
    }
    across, before, spoken = 0, Counter(), Counter()
    for sentence in mini["train-cs"] + mini["test"]:
        words = [
            (fragment.language, word)
            for fragment in sentence
            for word in fragment.words
        ]
        for place, (language, word) in enumerate(words):
            if word in subject and (language == "en") == word.isascii():
                start = words.index(
                    (language, subject[word]), 0, place
                )  # the subject, in the same language, before it
                across += any(one != language for one, _ in words[start:place])
                spoken[word] += 1
                before[words[place - 1][1], word] += 1
    assert sum(spoken.values()) > 300 and across > 0.95 * sum(spoken.values())
    for _, one, other in pairs_of_homophones():
        assert spoken[one] > 5 and spoken[other] > 5
        after = (
            {left for left, right in before if right == word} for word in (one, other)
        )
        assert set.intersection(*after)  # the same words stand before either of them


def test_every_fragment_stands_in_monolingual_training_text(mini) -> None:
    mandarin = "|".join(text(sentence) for sentence in mini["train-zh"])
    english = "|".join(f" {text(sentence)} " for sentence in mini["LibriSpeech"])
    for part in MIXED:
        for fragment in (fragment for sentence in mini[part] for fragment in sentence):
            assert (
                fragment.text in mandarin
                if fragment.language == "zh"
                else f" {fragment.text} " in english
            )


@pytest.mark.parametrize("size", ["smoke", "mini"])
def test_evaluation_sentences_are_unseen(size: str, mini) -> None:
    later = counts(size, "later")
    sentences = mini if size == "mini" else draw_sentences(counts(size), 3, later)
    for part, number in counts(size).items():
        number += later.get(part, 0)
        assert (
            len(sentences[part])
            == len({text(sentence) for sentence in sentences[part]})
            == number
        )
    trained = {
        text(sentence)
        for part in sentences
        if part not in ("dev", "test")
        for sentence in sentences[part]
    }
    evaluation = [
        text(sentence) for part in ("dev", "test") for sentence in sentences[part]
    ]
    assert len(set(evaluation)) == len(evaluation)
    assert not trained & set(evaluation)


def test_sentences_that_are_drawn_later_change_no_others(mini) -> None:
    alone = draw_sentences(counts("mini"), seed=0)
    for part, sentences in alone.items():
        assert mini[part][: len(sentences)] == sentences
        assert (len(mini[part]) > len(sentences)) == (part in ("dev", "test"))


def test_recipe_reads_it(data_dirs: dict[str, DataDir]) -> None:
    assert list(data_dirs) == [
        "train-cs",
        "train-zh",
        "dev",
        "test",
        "train-clean-100",
        "train-clean-360",
    ]
    drawn = draw_sentences(
        {"train-zh": 10, "LibriSpeech": 8, "dev": 2, "test": 2, "train-cs": 4},
        seed=0,
        later={"test": 1},
    )
    languages = {"train-zh": "zh", "train-clean-100": "en", "train-clean-360": "en"}
    read: dict[str, list[str]] = {}
    for part, data in data_dirs.items():
        own = [data.text[key] for key in data.utterances]
        read.setdefault("LibriSpeech" if "clean" in part else part, []).extend(own)
        assert set(data.utt2lang.values()) == {languages.get(part, "cs")}
    for part, sentences in drawn.items():
        assert read[part] == [
            "".join(fragment.text for fragment in sentence) for sentence in sentences
        ]


def test_speakers_are_bilingual_and_of_training_or_one_test_set(
    corpus: Path, data_dirs: dict[str, DataDir]
) -> None:
    speakers = {
        part: {re.sub("^T....G0|^", "", speaker) for speaker in data.spk2utt}
        for part, data in data_dirs.items()
    }
    assert (
        speakers["train-cs"]
        == speakers["train-zh"]
        == speakers["train-clean-100"] | speakers["train-clean-360"]
    )
    assert not speakers["train-clean-100"] & speakers["train-clean-360"]
    assert (
        not speakers["train-cs"] & (speakers["dev"] | speakers["test"])
        and not speakers["dev"] & speakers["test"]
    )
    rows = [
        line.split("|")
        for line in (corpus / "LibriSpeech" / "SPEAKERS.TXT").read_text().splitlines()
        if line[0] != ";"
    ]
    assert {row[0].strip() for row in rows} == speakers["train-cs"]


def say(text: str, language: str, **changes) -> np.ndarray:
    (speaker,) = draw_speakers({"all": 1}, seed=0)["all"]
    return dataclasses.replace(speaker, accent=BRITISH, **changes).say(
        text, language, np.random.default_rng(0)
    )


def longest_pause(samples: np.ndarray) -> float:
    """Seconds of the longest stretch of speech that stays 40 dB below its peak."""
    loud = np.flatnonzero(np.abs(samples) > np.abs(samples).max() / 100)
    return float(np.diff(loud).max()) / 22050


def test_the_language_changes_within_a_sentence_without_a_pause_or_a_click() -> None:
    mixed = say("我的 SISTER 喜欢 THE NEW COMPUTER", "cs")
    assert longest_pause(mixed) < 0.15
    # no step between two samples is larger than in the speech of either language alone
    alone = max(
        np.abs(np.diff(say(*one))).max()
        for one in (("我的妹妹喜欢新的电脑", "zh"), ("SISTER THE NEW COMPUTER", "en"))
    )
    assert np.abs(np.diff(mixed)).max() < 1.2 * alone

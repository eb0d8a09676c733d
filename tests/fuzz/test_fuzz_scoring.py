"""Counts of errors against the definition, on inputs without limits: lists of words,
mixed text, files.
"""

import unicodedata

from damage import FUZZ, NAMES, WORDS, damaged, read_or_refuse, several
from hypothesis import given, note
from hypothesis import strategies as st

from espnet_ext.scoring.error_rate import align, count_errors, count_pairs
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score_files import evaluate
from espnet_ext.text.mixed_text import split_mixed_text

# Few different words make many ties; the others are what a table of symbols may stumble
# over.
FEW = st.sampled_from(
    ["a", "b", "c", "A", "<eps>", "*", "你", "é", "e\u0301", "\x00", "-1"]
)
SEQUENCES = st.lists(FEW | WORDS, max_size=9)
MIXED = st.text(alphabet="我你𠀀々〇abZ9'，é\u0301\u2047 \t\u3000\u2028", max_size=14)


def distance(left: list, right: list) -> int:
    """Levenshtein's, by its recursion, row by row."""
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, start=1):
        before, row[0] = row[0], number
        for place, other in enumerate(right, start=1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (one != other)),
            )
    return row[-1]


def is_han(character: str) -> bool:
    name = unicodedata.name(character, "")
    return "IDEOGRAPH-" in name or ("IDEOGRAPHIC" in name and not character.isspace())


def tokens_of(text: str) -> list[str]:
    """Han characters with the marks behind them, unknown marks, and runs of the rest:
    one character at a time.
    """
    tokens, before = [], "blank"  # what the last character was part of
    for character in text:
        if character.isspace():
            kind = "blank"
        elif is_han(character) or (
            before == "han" and unicodedata.category(character)[0] == "M"
        ):
            kind = "han"
        else:
            kind = "unknown" if character == "\u2047" else "word"
        if (kind == before == "word") or (kind == "han" and not is_han(character)):
            tokens[-1] += character
        elif kind != "blank":
            tokens.append(character)
        before = kind
    return tokens


@FUZZ
@given(several(st.tuples(SEQUENCES, SEQUENCES)))
def test_errors_of_lists_of_words(inputs):
    for reference, hypothesis in inputs:
        counts = count_errors(reference, hypothesis)
        assert counts.errors == distance(reference, hypothesis)
        assert counts.reference_length == len(reference)
        assert counts.correct + counts.substitutions + counts.insertions == len(
            hypothesis
        )
        pairs = align(reference, hypothesis)
        assert count_pairs(pairs) == counts
        assert [left for left, _ in pairs if left is not None] == reference
        assert [right for _, right in pairs if right is not None] == hypothesis


@FUZZ
@given(
    several(
        st.lists(
            st.tuples(MIXED.filter(lambda text: text.split()), MIXED),
            min_size=1,
            max_size=3,
        )
    )
)
def test_errors_of_mixed_text(inputs):
    for texts in inputs:
        reference, hypothesis = (
            {str(n): pair[side] for n, pair in enumerate(texts)} for side in (0, 1)
        )
        score = score_mixed_texts(reference, hypothesis)
        pairs = [(tokens_of(left), tokens_of(right)) for left, right in texts]
        assert pairs == [
            (split_mixed_text(left), split_mixed_text(right)) for left, right in texts
        ]
        assert score.total.errors == sum(distance(*pair) for pair in pairs)
        assert score.total.reference_length == sum(len(left) for left, _ in pairs)
        parts = {name: part.total for name, part in score.parts.items()}
        assert (
            parts["CH"] + parts["EN"]
            == score.total
            == parts["near-switch"] + parts["elsewhere"]
        )
        for name, wanted in (("CH", True), ("EN", False)):
            one_language = [
                [[t for t in side if is_han(t[0]) == wanted] for side in pair]
                for pair in pairs
            ]
            assert parts[name].reference_length == sum(
                len(left) for left, _ in one_language
            )
            assert parts[f"{name}-filtered"].errors == sum(
                distance(*pair) for pair in one_language
            )
            assert (
                parts[f"near-switch-{name}"] + parts[f"elsewhere-{name}"] == parts[name]
            )


TABLE_TEXTS = st.lists(
    FEW.filter(lambda word: word.strip()) | WORDS, min_size=1, max_size=5
).map(" ".join)
TABLES = st.dictionaries(
    st.sampled_from([f"u{n}" for n in range(4)]), TABLE_TEXTS, min_size=1, max_size=4
).map(lambda table: ("".join(f"{key} {text}\n" for key, text in table.items()), table))


@FUZZ
@given(TABLES, damaged(TABLES), NAMES)
def test_scores_of_files(scratch, reference, hypotheses, speaker):
    text, ref = reference
    (scratch / "ref").write_text(text)
    (scratch / "utt2spk").write_text("".join(f"{key} {speaker}\n" for key in ref))
    for data, hyp in hypotheses:
        note(data)
        (scratch / "hyp").write_bytes(data)
        expected = None
        if hyp is not None and hyp.keys() == ref.keys():
            expected = sum(distance(ref[key].split(), hyp[key].split()) for key in ref)
        found = read_or_refuse(
            lambda path: evaluate(scratch / "ref", path, utt2spk=scratch / "utt2spk"),
            scratch / "hyp",
        )
        if found is None:
            assert expected is None
            continue
        score, summary = found
        assert expected is None or score.total.errors == expected
        assert score.total.reference_length == sum(
            len(text.split()) for text in ref.values()
        )
        assert summary["errors"] == score.total.errors
        assert list(score.speakers.values()) == [score.total]

"""Rules that bring Mandarin and English transcripts into one form."""

import re
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.text import rules
from espnet_ext.text.mixed_text import split_mixed_text
from espnet_ext.text.rules import LIBRISPEECH, MANDARIN_ENGLISH, TextRules


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        (rules.full_width_to_half, "ＡＢｚ０９！～", "ABz09!~"),
        (
            rules.full_width_to_half,
            "我　的、。「好」",
            "我 的、。「好」",
        ),  # signs that have no half width stay
        (rules.straight_apostrophes, "it’s ‘ok’ don´t", "it's 'ok' don't"),
        (rules.drop_noise_marks, "[NOISE]好<noise>{laugh}吗【笑声】", " 好  吗 "),
        (rules.drop_noise_marks, "<laugh>ok</laugh>", " ok "),
        (
            rules.drop_noise_marks,
            "a < b, [c (d)",
            "a < b, [c (d)",
        ),  # no marks: brackets that do not close
        (rules.drop_noise_marks, f"[{'x' * 30}][{'x' * 31}]", f" [{'x' * 31}]"),
        (rules.drop_noise_marks, "[] <>", "[] <>"),
        (rules.drop_invisible, "\ufeff我\u200b们\u00ad a\x00b", "我们 a b"),
        (rules.drop_invisible, "葛\U000e0100城\ufe0f", "葛城"),
        (rules.upper_case_english, "那个 Doctor's café", "那个 DOCTOR'S CAFÉ"),
        (
            rules.drop_noise_marks,
            "好(ppl)OK (PPB)吗(ppt) (app)",
            "好 OK  吗(ppt) (app)",
        ),
        (rules.drop_accents, "CAFÉ NAÏVE Ω 한 が Ё й", "CAFE NAIVE Ω 한 が Ё й"),
        (rules.drop_punctuation, "你好，世界！(OK)", "你好 世界  OK "),
        (
            rules.drop_punctuation,
            "DON'T 'QUOTED' DOGS' 'TIS 我'A O'CLOCK",
            "DON'T  QUOTED  DOGS   TIS 我 A O'CLOCK",
        ),
        (rules.drop_punctuation, "A''B '", "A  B  "),
        (rules.drop_punctuation, "A+B=C€▁⁇", "A B C   "),
        (rules.no_blank_beside_han, "  我 的  NEW   CAR 很 贵 ", "我的NEW CAR很贵"),
        (rules.no_blank_beside_han, "A  B", "A B"),
        (
            rules.spell_titles,
            "mr. Bell, Mrs ADAMS, Dr Who, MR BELL",
            "mister Bell, missus ADAMS, doctor Who, MR BELL",
        ),
        (
            rules.spell_titles,
            "the St. was long, the first; HMRS DRS",
            "the St. was long, the first; HMRS DRS",
        ),
        (
            rules.spell_numbers,
            "12-14, 21st 2nd 1,000th",
            "twelve-fourteen, twenty-first second one thousandth",
        ),
        (rules.spell_numbers, "1100 1900", "eleven hundred nineteen hundred"),
        (rules.spell_numbers, "1099 2001", "one thousand ninety-nine two thousand one"),
        (
            rules.spell_numbers,
            "1,2,3 and 1,815",
            "one,two,three and one thousand eight hundred fifteen",
        ),
        (
            rules.spell_numbers,
            "0 00.5 1.25",
            "zero zero zero point five one point two five",
        ),
        (rules.spell_numbers, "9" * 13, " ".join(["nine"] * 13)),
        (rules.spell_numbers, "the 20's b2b ٣", "the twenties b two b ٣"),
    ],
)
def test_one_rule(rule, text: str, expected: str) -> None:
    assert rule(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("那个 doctor 很忙。", "那个DOCTOR很忙"),
        ("ｗｅｃｈａｔ　好用吗？", "WECHAT好用吗"),
        ("［ＮＯＩＳＥ］ok", "OK"),  # full-width brackets are brackets
        ("e-mail, e－mail", "E MAIL E MAIL"),
        ("don’t ＤＯＮ＇Ｔ", "DON'T DON'T"),
        ("三点15分", "三点15分"),
        (
            "\u8c48\uf900",
            "\u8c48\u8c48",
        ),  # a compatibility ideograph becomes its unified one
        ("[noise] 。", ""),
        ("IT IS LIBRISPEECH'S TEXT", "IT IS LIBRISPEECH'S TEXT"),
    ],
)
def test_all_rules(text: str, expected: str) -> None:
    assert MANDARIN_ENGLISH(text) == expected


MESSY = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("我的好 aZ9'’，。[]<>{}【】ａ［］　é▁⁇\ufeff豈"),
    ),
    max_size=40,
)


@given(MESSY)
@settings(max_examples=400)
def test_rules_leave_one_form(text: str) -> None:
    once = MANDARIN_ENGLISH(text)
    assert MANDARIN_ENGLISH(once) == once
    assert not regex.search(r"[a-z]|  |^ | $|\p{Han} | \p{Han}", once)
    for index, char in enumerate(once):
        if unicodedata.category(char)[0] in "PSC":
            assert (
                char == "'"
                and re.fullmatch("[A-Z0-9]'[A-Z0-9]", once[index - 1 : index + 2])
                or (
                    unicodedata.category(char)
                    in ("Co", "Cn")  # not assigned: nothing can be said of these
                )
            )


@given(
    st.lists(st.sampled_from(["我", "𠀀", "APP", "DON'T", "7"]), max_size=12), st.data()
)
@settings(max_examples=200)
def test_blanks_beside_han_say_nothing(tokens: list[str], data: st.DataObject) -> None:
    """Any spacing that keeps words apart has the same tokens, before and after the
    rules.
    """
    text = ""
    for left, right in zip([""] + tokens, tokens, strict=False):
        needed = left.isascii() and right.isascii()
        text += (
            data.draw(st.sampled_from([" ", "  "] if needed else ["", " ", "\u3000 "]))
            + right
        )
    assert split_mixed_text(text) == tokens
    assert split_mixed_text(MANDARIN_ENGLISH(text)) == tokens


def test_composition_is_recorded_by_name() -> None:
    both = TextRules("both", (rules.upper_case_english, rules.drop_punctuation))
    assert both("a, b") == "A  B"
    assert both.record == {
        "name": "both",
        "rules": ["upper_case_english", "drop_punctuation"],
    }
    assert (
        len(set(MANDARIN_ENGLISH.record["rules"])) == len(MANDARIN_ENGLISH.rules) == 8
    )


@pytest.mark.parametrize(
    ("written", "transcript"),
    [
        (
            " Mr. Quilter’s 1st café — it’s open at 10 o'clock.",
            "MISTER QUILTER'S FIRST CAFE IT'S OPEN AT TEN O'CLOCK",
        ),
        ("[BLANK_AUDIO]", ""),
        (
            "It was 1,234 miles; 20% said “no”.",
            "IT WAS ONE THOUSAND TWO HUNDRED THIRTY FOUR MILES TWENTY SAID NO",
        ),
        ("SHE DOESN'T SELL TWO-EGG CAKES", "SHE DOESN'T SELL TWO EGG CAKES"),
        ("ST0", "ST ZERO"),
        ("ST ZERO", "ST ZERO"),  # applied again
    ],
)
def test_librispeech(written: str, transcript: str) -> None:
    assert LIBRISPEECH(written) == transcript


@given(st.text(st.sampled_from("aB1,.' s-[]É0"), max_size=30))
@settings(max_examples=300)
def test_librispeech_has_one_form_of_a_text(text: str) -> None:
    once = LIBRISPEECH(text)
    assert LIBRISPEECH(once) == once
    assert re.fullmatch(r"(|[A-Z]+('[A-Z]+)*( [A-Z]+('[A-Z]+)*)*)", once)

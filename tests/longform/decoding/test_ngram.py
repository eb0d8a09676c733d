"""N-gram models: against the formula by hand, and as KenLM reads them."""

import itertools
import math

import pytest

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.ngram import END, START, UNKNOWN, arpa_fault, estimate, write_arpa, write_token_ngram
from espnet_ext.text.tokens import write_tokens

TEXTS = [list(text) for text in ("abab", "abc", "ba", "a")]
VOCABULARY = list("abcd")  # d stands in no text


def probability(model, history, token):
    """Katz's way through an ARPA model."""
    gram = (*history, token)[-len(model) :]
    if gram in model[len(gram) - 1]:
        return 10 ** model[len(gram) - 1][gram][0]
    weight = model[len(gram) - 2].get(gram[:-1], (0, None))[1]
    return 10 ** (weight or 0.0) * probability(model, gram[1:-1], token)


def test_by_hand():
    """a, b and c come 5, 4 and 1 times among 14 tokens with the four ends; six may be predicted."""
    model = estimate(TEXTS, 2, VOCABULARY)
    unigram = {token: 10 ** model[0][(token,)][0] for token in (*VOCABULARY, END, UNKNOWN)}
    assert unigram["a"] == pytest.approx((5 + 4 / 6) / (14 + 4))
    assert unigram["d"] == unigram[UNKNOWN] == pytest.approx((4 / 6) / (14 + 4))
    # After a: three b and two ends.
    assert probability(model, ("a",), "b") == pytest.approx((3 + 2 * unigram["b"]) / (5 + 2))
    assert probability(model, ("a",), "d") == pytest.approx(2 * unigram["d"] / (5 + 2))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_sum_to_one(order):
    model = estimate(TEXTS, order, VOCABULARY)
    for history in itertools.product((START, *VOCABULARY), repeat=order - 1):
        total = sum(probability(model, history, token) for token in (*VOCABULARY, END, UNKNOWN))
        assert total == pytest.approx(1.0)


def test_kenlm_reads_it(tmp_path):
    pytest.importorskip("flashlight.lib.text")
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    model = estimate(TEXTS, 3, VOCABULARY)
    write_arpa(tmp_path / "lm.arpa", model)
    lm = KenLM(str(tmp_path / "lm.arpa"), Dictionary(VOCABULARY))
    state, history = lm.start(False), (START,)
    for token in "abcdab":
        state, score = lm.score(state, VOCABULARY.index(token))
        assert score == pytest.approx(math.log10(probability(model, history, token)), abs=1e-5)
        history = (*history, token)
    assert lm.finish(state)[1] == pytest.approx(math.log10(probability(model, history, END)), abs=1e-5)


def test_bad_input():
    with pytest.raises(InputError, match="'e', which is not a token"):
        estimate([["a", "e"]], 2, VOCABULARY)
    with pytest.raises(InputError, match="at least 1"):
        estimate(TEXTS, 0, VOCABULARY)
    with pytest.raises(InputError, match="no text"):
        estimate([], 2, VOCABULARY)


GOOD = "\\data\\\nngram 1=2\nngram 2=1\n\n\\1-grams:\n-1\ta\t-0.5\n-1\tb\n\n\\2-grams:\n-0.3\ta b\n\n\\end\\\n"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", ""),
        (GOOD, "", "it is empty"),
        ("\\data\\", "# by a tool\n\\data\\", ""),
        ("\\data\\", "hello", "line 1 must be \\data\\, with which an ARPA file begins, not 'hello'"),
        ("ngram 2=1", "ngram 3=1", "line 3 must be `ngram 2=` and a number, or \\1-grams:, not 'ngram 3=1'"),
        ("-1\tb\n", "", "line 8 begins \\2-grams: where 1 of the 1-grams that the header promises are missing"),
        ("-1\tb\n", "-1\tb\n-1\tc\n", "line 8 is one more 1-gram than the header promises"),
        (
            "-1\tb",
            "x b",
            "line 7 must be a log-probability, tokens (of 1-grams, 1) and perhaps a back-off weight, not 'x b'",
        ),
        ("-1\tb", "1\tb", "line 7 has a log-probability above 0: '1\\tb'"),
        ("-1\tb", "-1 b", "line 7 must have a tab between the log-probability and the tokens: '-1 b'"),
        ("\\2-grams:", "\\3-grams:", "line 9 must be \\2-grams:, not '\\\\3-grams:'"),
        ("\\end\\\n", "", "it breaks off before \\end\\, after line 11"),
        ("-1\tb", "-1\t\udce9", "line 7 is not UTF-8"),
    ],
)
def test_what_is_wrong_with_an_arpa_file(old, new, fault, tmp_path):
    text = GOOD.replace(old, new) if old else GOOD
    (tmp_path / "lm.arpa").write_text(text, encoding="utf-8", errors="surrogateescape")
    assert arpa_fault(tmp_path / "lm.arpa") == fault


def test_a_written_model_has_no_fault(tmp_path):
    write_arpa(tmp_path / "lm.arpa", estimate(TEXTS, 3, VOCABULARY))
    assert arpa_fault(tmp_path / "lm.arpa") == ""


def test_a_model_over_word_pieces(tmp_path):
    """Every token of tokens.txt but ESPnet's own may be predicted; pieces that are no tokens are the unknown one."""
    texts = ["red wine", "red red wine", "white wine"]
    write_tokens(texts, tmp_path, "bpe", 20)
    tokens = (tmp_path / "tokens.txt").read_text().split()
    lost = next(token for token in tokens if token.endswith("w"))  # as with a list of another text's tokens
    (tmp_path / "tokens.txt").write_text("".join(f"{token}\n" for token in tokens if token != lost))
    (tmp_path / "text").write_text("".join(f"u{number} {text}\n" for number, text in enumerate(texts)))
    files = tmp_path / "text", tmp_path / "tokens.txt", tmp_path / "bpe.model"
    write_token_ngram(*files, 2, tmp_path / "lm.arpa")
    lines = (tmp_path / "lm.arpa").read_text().split("\n")
    unigrams = {line.split("\t")[1] for line in lines[lines.index("\\1-grams:") + 1 : lines.index("\\2-grams:") - 1]}
    assert unigrams == {START, END, UNKNOWN, *tokens} - {lost, "<blank>", "<sos/eos>"}
    assert any(UNKNOWN in line for line in lines[lines.index("\\2-grams:") :])
    (tmp_path / "bpe.model").unlink()
    with pytest.raises(InputError, match=r"bpe.model: no such file: run the token stage first"):
        write_token_ngram(*files, 2, tmp_path / "other.arpa")

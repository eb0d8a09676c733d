"""Word times: what is refused, the ctm file with its table, and the text of a chunk."""

import pytest

from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.errors import InputError
from espnet_ext.longform.word_times import TimedWord, cut_text, read_word_times, word_faults, write_word_times

WORDS = [TimedWord("The", 0.1, 0.3), TimedWord("cat", 0.3, 0.9), TimedWord("sat.", 1.4, 2.0)]


@pytest.mark.parametrize(
    "words, fault",
    [
        (WORDS, None),
        ([TimedWord("a", 0.0, 0.5), TimedWord("b", 0.4, 0.9)], None),  # rounding to 0.1 s
        ([TimedWord("a", 0.0, 0.5), TimedWord("b", 0.3, 0.9)], "overlaps"),
        ([TimedWord("a", 1.0, 1.1), TimedWord("b", 0.9, 1.4)], "decreasing"),
        ([TimedWord("a", 1.0, 0.5)], "ends before it begins"),
        ([TimedWord("a", float("nan"), 0.5)], "has an impossible time"),
        ([TimedWord("a", -1.0, 0.5)], "has an impossible time"),
        ([TimedWord("a", 8.0, 9.0)], "beyond the recording's end"),
    ],
)
def test_faults_name_the_word(words, fault):
    found = word_faults(words, seconds=5.0)
    assert (found is None) if fault is None else (fault in found and "word " in found)


def test_written_and_read(tmp_path):
    recordings = {"r2": WORDS, "r1": [TimedWord("naïve", 12.3, 12.7)], "r3": WORDS[:1]}
    write_word_times(tmp_path / "words", recordings.items())
    table = read_table(tmp_path / "words.scp", require_sorted=False)
    for name, words in recordings.items():
        found = read_word_times(name, table[name])
        assert [word.text for word in found] == [word.text for word in words]
        assert [word.end for word in found] == pytest.approx([word.end for word in words])


def test_a_table_that_does_not_fit(tmp_path):
    (tmp_path / "words.ctm").write_text("r1 1 nonsense\n")
    for entry in (f"{tmp_path}/words.ctm:0", f"{tmp_path}/none.ctm:0", f"{tmp_path}/words.ctm:x"):
        with pytest.raises(InputError, match="word times of r1 cannot be read"):
            read_word_times("r1", entry)


def test_words_that_straddle_a_cut_are_in_no_chunk():
    cuts = [0.0, 0.5, 1.4, 2.0]
    texts = [cut_text(WORDS, start, end) for start, end in zip(cuts, cuts[1:], strict=False)]
    assert texts == ["The", "", "sat."]
    assert cut_text(WORDS, 0.0, 2.0) == "The cat sat."

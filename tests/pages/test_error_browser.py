"""Records of the error browser, and the chunks that they come in."""

import json

from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.pages import error_browser
from espnet_ext.pages.error_browser import FIELDS, chunks, record, write_chunks
from espnet_ext.scoring.alignment_file import Aligned
from espnet_ext.scoring.error_rate import align, count_pairs

TOKENS = st.lists(st.sampled_from(["go", "home", "我", "想", "***", "é"]), max_size=7)


def unpack(values):
    """What the page's script makes of a record: the aligned pairs."""
    each = dict(zip(FIELDS, values, strict=True))
    said, heard = iter(each["reference"].split(" ")), iter(each["hypothesis"].split(" "))
    pairs = []
    for mark in each["marks"]:
        left = None if mark == "I" else next(said)
        pairs.append((left, left if mark == "C" else None if mark == "D" else next(heard)))
    return each, pairs


@given(TOKENS, TOKENS)
def test_the_page_gets_the_alignment_back(reference, hypothesis):
    pairs = tuple(align(reference, hypothesis))
    counts = count_pairs(pairs)
    each, found = unpack(record(Aligned("u", None, counts, pairs), {}, True, {}))
    assert tuple(found) == pairs
    assert (each["sub"], each["del"], each["ins"]) == (counts.substitutions, counts.deletions, counts.insertions)
    # Switch points by the definition: neighbours in the reference of which just one is Han.
    switches = sum((a in "我想") != (b in "我想") for a, b in zip(reference, reference[1:], strict=False))
    assert len(each["switches"]) == switches
    assert each["near"] <= counts.errors if switches else each["near"] == 0


def test_speakers_audio_and_text_without_switches():
    block = Aligned("r", "ann", count_pairs([("我", "go")]), (("我", "go"),))
    each, _ = unpack(record(block, {"r": "somebody"}, False, {"r": 4}))
    assert (each["speaker"], each["audio"], each["switches"], each["near"]) == ("ann", 4, [], 0)


def test_what_was_too_long_to_align_has_no_text():
    each, pairs = unpack(record(Aligned("r", "ann", None, ()), {}, True, {}))
    assert pairs == [] and each["words"] == 0


def test_chunks_are_whole_and_small(monkeypatch):
    monkeypatch.setattr(error_browser, "CHUNK", 3)
    monkeypatch.setattr(error_browser, "CHUNK_CHARACTERS", 40)
    records = [["a"], ["b"], ["c"], ["d"], ["e" * 50], ["f" * 30], ["g" * 30]]
    parts = list(chunks(records))
    assert [len(part) for part in parts] == [3, 1, 1, 1, 1]
    assert [json.loads(text) for part in parts for text in part] == records


def test_scripts(tmp_path):
    text = 'a "quote"</script> \u2028 我'
    (name,) = write_chunks(tmp_path, 7, [[text, None]])
    script = (tmp_path / name).read_text(encoding="utf-8")
    call = "takeUtterances(7,0,"
    assert script.startswith(call) and "\u2028" not in script
    assert json.loads(script.removeprefix(call).removesuffix(");\n")) == [[text, None]]

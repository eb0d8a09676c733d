"""Readers of N-best lists, CTM and the other files between stages: what was written is read, all else is refused."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from damage import FUZZ, NAMES, SECONDS, TEXTS, WORDS, damaged, read_or_refuse, several
from hypothesis import given, note
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.alignment.word_times import RecordingWords, read_word_times, word_faults, write_word_times
from espnet_ext.longform.recording_audio import read_regions, write_regions
from espnet_ext.multitalker.hypotheses import group_by_speaker, read_grouped
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.nbest.espnet_output import parse_score, parse_scores, read_espnet_output
from espnet_ext.nbest.readers import read_mlm_scoring
from espnet_ext.nbest.lists import Hypothesis, NBest, read_nbest, write_nbest
from espnet_ext.scoring.alignment_file import Aligned, alignment_blocks, read_alignment
from espnet_ext.scoring.error_rate import align, count_pairs
from espnet_ext.scoring.score import score_texts
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.token_languages import read_languages
from espnet_ext.text.tokens import read_prior
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import write_hypotheses, write_segments

SCORES = st.integers(-10_000_000, 10_000_000).map(lambda number: number / 10_000)
HYPOTHESES = st.builds(
    Hypothesis, TEXTS | st.just(""), SCORES, st.dictionaries(st.sampled_from(["ctc", "decoder"]), SCORES, max_size=2)
)
WINDOWING = Windowing(16.0, 0.5)


@st.composite
def nbests(draw) -> list[NBest]:
    ids = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    lists = st.lists(HYPOTHESES, min_size=1, max_size=3).map(tuple)
    return [NBest(key, draw(lists), draw(st.none() | TEXTS)) for key in ids]


def as_jsonl(lists: list[NBest]) -> tuple[str, list[NBest]]:
    rows = [
        {
            "utt_id": nbest.utt_id,
            "ref": nbest.ref,
            "hyps": [vars(hyp) | {"scores": dict(hyp.scores)} for hyp in nbest.hyps],
        }
        for nbest in lists
    ]
    return "".join(json.dumps(row, ensure_ascii=bool(len(rows) % 2)) + "\n" for row in rows), lists


def as_mlm_scoring(lists: list[NBest]) -> tuple[str, list[NBest]]:
    ranked = {
        nbest.utt_id: {"ref": nbest.ref} | {f"hyp_{n}": vars(hyp) for n, hyp in enumerate(nbest.hyps, start=1)}
        for nbest in lists
    }
    return json.dumps(ranked), sorted(lists, key=lambda nbest: nbest.utt_id)


def write_again(lists: list[NBest], folder: Path) -> None:
    write_nbest(folder / "again", lists)
    assert read_nbest(folder / "again") == lists


@st.composite
def windows(draw) -> list[Segment]:
    """Hypotheses whose times a CTM can hold, in the order in which they are written."""
    keys = st.tuples(NAMES, st.integers(0, 3), NAMES)
    found = []
    for recording, window, speaker in sorted(draw(st.lists(keys, min_size=1, max_size=3, unique=True))):
        start, end = WINDOWING.span(window)
        words = tuple(draw(st.lists(WORDS, min_size=1, max_size=3)))
        times = tuple((start + place, start + place + 0.5) for place in range(len(words)))
        found.append(Segment(recording, speaker, words, start, end, times, window=window))
    return found


def as_window_jsonl(items: list[Segment]) -> tuple[str, list[Segment]]:
    return "".join(json.dumps(vars(item)) + "\n" for item in items), items


def as_ctm(items: list[Segment]) -> tuple[str, None]:
    return "".join(
        f"{item.recording} 1 1.0 0.5 {word} NA lex {item.speaker}\n" for item in items for word in item.words
    ), None


def as_rttm(items: list[Segment]) -> tuple[str, None]:
    lines = [f"LEXEME {item.recording} 1 1 0.5 {word} lex {item.speaker} NA\n" for item in items for word in item.words]
    return "".join(lines), None


def as_whisper(items: list[Segment]) -> tuple[str, None]:
    parts = [
        {"speaker": item.speaker, "words": [{"word": word, "start": 1.0, "end": 2.0} for word in item.words]}
        for item in items
    ]
    return json.dumps({"segments": parts, "language": "en"}), None


def write_windows(items: list[Segment], folder: Path) -> None:
    in_order = sorted(items, key=lambda item: (item.recording, item.window, item.speaker))
    write_hypotheses(folder / "again", items)
    assert read_hypotheses(folder / "again") == in_order
    small = [item for item in items if item.window < 100]  # it fills in each window up to the last
    assert sum(len(w.words) for s in group_by_speaker(small).values() for ws in s.values() for w in ws) == sum(
        len(item.words) for item in small
    )


def as_turns(turns: list[Segment]) -> tuple[str, list[Segment]]:
    turns = sorted(turns, key=lambda turn: (turn.recording, turn.start))
    rows = [
        {
            "session_id": t.recording,
            "speaker": t.speaker,
            "start_time": t.start,
            "end_time": t.end,
            "words": " ".join(t.words),
        }
        for t in turns
    ]
    return json.dumps(rows), turns


def write_turns_again(turns: list[Segment], folder: Path) -> None:
    write_segments(folder / "again", turns)
    assert sorted(map(str, read_segments(folder / "again"))) == sorted(map(str, turns))


TURNS = st.builds(
    lambda recording, speaker, words, start: Segment(recording, speaker, tuple(words), start, start + 1.5),
    *(NAMES, NAMES, st.lists(WORDS, max_size=3), SECONDS),
)
TABLES = st.dictionaries(NAMES, TEXTS | st.just(""), min_size=1, max_size=4)
REGIONS = st.dictionaries(
    NAMES, st.lists(SECONDS.map(lambda start: (start, start + 2)), min_size=1, max_size=2), max_size=3
)


def lines_of(table: dict) -> str:
    return "".join(f"{key} {value}".rstrip(" ") + "\n" for key, value in table.items())


def as_alignment(texts: dict[str, tuple[str, str]]) -> tuple[str, list[Aligned]]:
    said, heard = ({key: pair[side] for key, pair in texts.items()} for side in (0, 1))
    pairs = {key: tuple(align(said[key].split(), heard[key].split())) for key in texts}
    blocks = [Aligned(key, None, count_pairs(pairs[key]), pairs[key]) for key in texts]
    return "".join(alignment_blocks(score_texts(said, heard))), blocks


@dataclass(frozen=True)
class Kind:
    """A kind of file: whole ones with what stands in them, its reader, and what must work with all that it reads."""

    files: st.SearchStrategy
    read: Callable[[Path], Any]
    use: Callable[[Any, Path], None] = lambda found, folder: None


KINDS = {
    "nbest": Kind(nbests().map(as_jsonl), read_nbest, write_again),
    "mlm_scoring": Kind(nbests().map(as_mlm_scoring), read_mlm_scoring, write_again),
    "window_jsonl": Kind(windows().map(as_window_jsonl), read_hypotheses, write_windows),
    "heard.ctm": Kind(windows().map(as_ctm), read_grouped),
    "heard.rttm": Kind(windows().map(as_rttm), read_grouped),
    "heard.json": Kind(windows().map(as_whisper), read_grouped),
    "turns": Kind(st.lists(TURNS, min_size=1, max_size=3).map(as_turns), read_segments, write_turns_again),
    "table": Kind(
        TABLES.map(lambda table: (lines_of(table), table)),
        read_table,
        lambda table, folder: write_table(folder / "again", table),
    ),
    "regions": Kind(
        REGIONS.map(lambda table: ("".join(f"{k} {a} {b}\n" for k, rows in table.items() for a, b in rows), table)),
        read_regions,
        lambda regions, folder: write_regions(folder / "again", regions),
    ),
    "alignment": Kind(
        st.dictionaries(NAMES, st.tuples(TEXTS, TEXTS | st.just("")), min_size=1, max_size=3).map(as_alignment),
        lambda path: list(read_alignment(path)),
    ),
    "prior": Kind(
        st.dictionaries(WORDS, SCORES, min_size=1, max_size=4).map(lambda table: (lines_of(table), table)), read_prior
    ),
    "languages": Kind(
        st.dictionaries(WORDS, st.sampled_from(["zh", "en", "-"]), min_size=1, max_size=4).map(
            lambda table: (lines_of(table), table)
        ),
        read_languages,
    ),
}


@pytest.mark.parametrize("name", KINDS)
@FUZZ
@given(data=st.data())
def test_a_file_is_read_or_refused(scratch, name, data):
    kind = KINDS[name]
    for content, expected in data.draw(damaged(kind.files)):
        note(content)
        (scratch / name).write_bytes(content)
        found = read_or_refuse(kind.read, scratch / name, expected)
        if found:
            kind.use(found, scratch)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nbest", b"[" * 20_000),
        ("nbest", b'{"utt_id": "u", "hyps": [{"text": "\\ud800", "score": 0}]}'),
        ("nbest", b'{"utt_id": "u", "hyps": [{"text": "a", "score": 1' + b"0" * 400 + b"}]}"),
        ("mlm_scoring", b'{"u": {"hyp_' + b"9" * 5000 + b'": {"text": "a", "score": 0}}}'),
        ("window_jsonl", b'{"recording": "r", "window": 999999999, "start": 0, "end": 1, "speaker": "a", "words": []}'),
        ("window_jsonl", b"9" * 5000),
        ("heard.ctm", b"r 1 0 1 word nan"),
        ("heard.ctm", b"r 1 -1 1 word"),
        ("heard.json", b'{"segments": [{"text": "a", "start": 0, "end": 1' + b"0" * 400 + b"}]}"),
        (
            "turns",
            b'[{"session_id": "r", "speaker": "a", "words": "a", "start_time": 1' + b"0" * 400 + b', "end_time": 2}]',
        ),
        ("table", b"a\rb c\n"),
        ("regions", b"\xff"),
        ("regions", b"r -2 -1\n"),
        ("prior", b"\xff 0.0\n"),
        ("prior", b"a 0.0\na 1.0\n"),
    ],
)
def test_what_was_found_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        KINDS[name].read(tmp_path / name)


@st.composite
def timed_words(draw) -> tuple[bytes, Any]:
    """The words of two recordings, in the middle of which those of the second one begin."""
    words, place = [], 0.0
    for text, gap in draw(st.lists(st.tuples(WORDS, st.integers(0, 3)), min_size=1, max_size=4)):
        words.append(Word(text, place + gap, place + gap + 0.5))
        place = words[-1].end
    before = b"\none" + RecordingWords.of([Word("word", 0.0, 1.0)]).to_bytes() + b"\ntwo"
    return before + RecordingWords.of(words).to_bytes(), (words, len(before))


@FUZZ
@given(damaged(timed_words()), st.sampled_from(["", "-1", "1e9", "9" * 30, "x", "7"]))
def test_word_times(scratch, files, offset):
    for data, expected in files:
        note(data)
        (scratch / "words").write_bytes(data)
        check_word_times(scratch, *(expected or (None, 36)), offset)


def check_word_times(scratch: Path, words: list[Word] | None, place: int, offset: str) -> None:
    found = read_or_refuse(lambda path: list(read_word_times("two", f"{path}:{place}")), scratch / "words", words)
    read_or_refuse(lambda path: read_word_times("two", f"{path}:{offset}"), scratch / "words")
    if found and word_faults(found, seconds=1e9) is None:
        assert all(math.isfinite(word.start) and word.start <= word.end for word in found)
        write_word_times(scratch / "again", [("two", found)])
        entry = read_table(scratch / "again.scp")["two"]
        assert [word.text for word in read_word_times("two", entry)] == [word.text for word in found]


@st.composite
def espnet_output(draw):
    """The files of one decoding, and its lists."""
    ids = sorted(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)))
    hyps = st.lists(st.builds(Hypothesis, TEXTS, SCORES), min_size=1, max_size=2).map(tuple)
    lists = [NBest(key, draw(hyps)) for key in ids]
    files = {}
    for rank in range(max(len(nbest.hyps) for nbest in lists)):
        some = [(nbest.utt_id, nbest.hyps[rank]) for nbest in lists if len(nbest.hyps) > rank]
        files[f"{rank + 1}best_recog/text"] = "".join(f"{key} {hyp.text}\n" for key, hyp in some)
        files[f"{rank + 1}best_recog/score"] = "".join(f"{key} tensor({hyp.score:.4f})\n" for key, hyp in some)
    return files, lists


@FUZZ
@given(data=st.data())
def test_the_output_of_espnet(scratch, data):
    files, lists = data.draw(espnet_output())
    victim = data.draw(st.sampled_from(sorted(files)))
    folder = scratch / "decoding"
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for content, whole in data.draw(damaged(st.just((files[victim], lists)))):
        note(content)
        (folder / victim).write_bytes(content)
        found = read_or_refuse(read_espnet_output, folder, whole)
        if found:
            write_again(found, scratch)


@FUZZ
@given(several(st.text(alphabet="tensor()[]{}'\":,-+.0123456789e naif_", max_size=24)))
def test_printed_scores(texts):
    for text in texts:
        found = read_or_refuse(parse_score, text)
        assert found is None or isinstance(found, float)
        parts = read_or_refuse(parse_scores, text)
        assert parts is None or all(isinstance(value, float) for value in parts.values())

"""Parsers of the corpora's transcripts: what stands in them is read, all else is refused."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from damage import FUZZ, SECONDS, TEXTS, WORDS, damaged, read_or_refuse
from hypothesis import given, note
from hypothesis import strategies as st

from espnet_ext.codeswitch.mixed_text import mixed_tokens
from espnet_ext.corpora import asru2019, earnings22, libricss, long_recordings, rev16, spotify, tedlium
from espnet_ext.corpora.checks import Faults
from espnet_ext.corpora.code_switching import scan_audio_folder
from espnet_ext.corpora.librispeech import scan_librispeech
from espnet_ext.errors import InputError
from espnet_ext.text.words import Segment, Word

CHAPTER = "7-70"
PLAIN = st.text(alphabet="aBé中9'", min_size=1, max_size=5)


@dataclass(frozen=True)
class Kind:
    """A kind of transcript: whole ones with what stands in them, the file's place, and its reader by that place."""

    files: st.SearchStrategy
    place: str
    read: Callable[[Path], Any]


@st.composite
def trans_txt(draw):
    texts = draw(st.lists(TEXTS, min_size=3, max_size=3))
    return "".join(f"{CHAPTER}-{n} {text}\n" for n, text in enumerate(texts)), dict(enumerate(texts))


def read_trans_txt(path: Path) -> dict[int, str]:
    """The three utterances have audio, so that only the text decides."""
    for number in range(3):
        (path.parent / f"{CHAPTER}-{number}.flac").touch()
    faults = Faults(path.parents[3], path.parents[3] / "faults")
    found = scan_librispeech(path.parents[3], ["dev-clean"], faults)["dev-clean"]
    faults.settle({"dev-clean": len(found)})
    assert all(text.text.strip() for text in found.values())
    return {int(key.removeprefix(f"{CHAPTER}-")): item.text for key, item in found.items()}


@st.composite
def audio_list(draw):
    texts = draw(st.lists(TEXTS, min_size=2, max_size=2))
    return "".join(f"u{n}\t{text}\n" for n, text in enumerate(texts)), {f"u{n}": text for n, text in enumerate(texts)}


def read_audio_list(path: Path) -> dict[str, str]:
    for number in range(2):
        (path.parent / f"u{number}.wav").touch()
    faults = Faults(path.parent, path.parent / "faults")
    data = scan_audio_folder(path.parent, "dev", faults)
    faults.settle({"dev": len(data.wav_scp)})
    assert data.text.keys() == data.wav_scp.keys() == data.utt2spk.keys()
    return data.text


@st.composite
def mandarin(draw):
    """A text of which the rules leave Han characters, capital letters and apostrophes between them."""
    words = draw(
        st.lists(st.text(alphabet="我你好", min_size=1, max_size=3) | st.sampled_from(["go", "DON'T"]), min_size=1)
    )
    return f"a-1 {' '.join(words)}。\n", [token.upper() for word in words for token in mixed_tokens(word)]


def read_mandarin(path: Path) -> list[str]:
    (path.parent / "wav.scp").write_text("a-1 /nowhere/a-1.wav\n")
    (path.parent / "utt2spk").write_text("a-1 a\n")
    data = asru2019.scan_asru2019({"dev": path.parent}, Faults(path.parent, path.parent / "faults"), path.parent)["dev"]
    assert data.utt2lang.keys() == data.text.keys()
    return mixed_tokens(data.text["a-1"])


@st.composite
def nlp(draw):
    """Rev's format: fields in any order, with marks before and behind the token."""
    fields = draw(st.permutations(["token", "punctuation", "prepunctuation", "ts"]))
    rows = draw(st.lists(st.tuples(PLAIN, st.sampled_from(["", ",", "."]), st.sampled_from(["", '"'])), max_size=4))
    values = [{"token": word, "punctuation": behind, "prepunctuation": ahead, "ts": ""} for word, behind, ahead in rows]
    lines = ["|".join(row[field] for field in fields) for row in values]
    text = " ".join(f"{ahead}{word}{behind}" for word, behind, ahead in rows)
    return "\n".join(["|".join(fields), *lines, ""]), text


@st.composite
def stm(draw):
    starts = sorted(draw(st.lists(SECONDS, min_size=1, max_size=3, unique=True)))
    words = st.lists(PLAIN | st.just("'re"), min_size=1, max_size=3).filter(lambda some: not some[0].startswith("'"))
    texts = [" ".join(draw(words)) for _ in starts]
    lines = [f"t 1 s {start} {start + 0.005} <o,f0> {text}\n" for start, text in zip(starts, texts, strict=True)]
    ignored = draw(st.booleans())
    if ignored:
        lines.append(f"t 1 inter {starts[-1] + 1} {starts[-1] + 2} <o> ignore_time_segment_in_scoring\n")
    regions = [(starts[-1] + 1, starts[-1] + 2)] if ignored else []
    return "".join(draw(st.permutations(lines))), (" ".join(texts).replace(" '", "'"), regions)


@st.composite
def spotify_json(draw):
    """Results with words; the last one repeats them with speakers."""
    groups = draw(st.lists(st.lists(st.tuples(WORDS, SECONDS), min_size=1, max_size=3), min_size=1, max_size=3))
    results = [
        {"alternatives": [{"words": [{"word": w, "startTime": f"{s}s", "endTime": f"{s + 0.5}s"} for w, s in group]}]}
        for group in groups
    ]
    every = [word | {"speakerTag": 1} for result in results for word in result["alternatives"][0]["words"]]
    if draw(st.booleans()):
        results.append({"alternatives": [{"words": every}]})
    words = [Word(w, s, s + 0.5) for group in groups for w, s in group]
    return json.dumps({"results": results}), words


@st.composite
def meeting_info(draw):
    rows = draw(st.lists(st.tuples(SECONDS, st.integers(1, 9), st.lists(PLAIN, min_size=1, max_size=3)), max_size=3))
    head = "start_time\tend_time\tspeaker\tutterance_id\ttranscription\n"
    lines = [f"{start}\t{start + 1}\t{who}\t{who}-5-0\t{' '.join(words)}\n" for start, who, words in rows]
    turns = [Segment("session", str(who), tuple(words), start, start + 1) for start, who, words in rows]
    return head + "".join(lines), turns


@st.composite
def enrolment(draw):
    speakers = draw(st.dictionaries(st.integers(1, 9).map(str), st.lists(PLAIN, min_size=2, max_size=3), min_size=1))
    record = {"dataid": "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1", "unused_uttid": speakers}
    return json.dumps(record) + "\n", {"OV10_session0": {name: tuple(ids[:2]) for name, ids in speakers.items()}}


def column(name: str, separator: str, values: st.SearchStrategy) -> st.SearchStrategy:
    """A table with a column of that name among others, and the values in it."""
    return st.lists(values, min_size=1, max_size=3, unique=True).map(
        lambda cells: (
            "".join(f"{a}{separator}{b}\n" for a, b in [("show", name), *(("x", cell) for cell in cells)]),
            cells,
        )
    )


KINDS = {
    "librispeech": Kind(trans_txt(), "dev-clean/7/70/7-70.trans.txt", read_trans_txt),
    "audio_folder": Kind(audio_list(), "text", read_audio_list),
    "asru2019": Kind(mandarin(), "text", read_mandarin),
    "nlp": Kind(nlp(), "a.nlp", long_recordings.nlp_text),
    "stm": Kind(stm(), "t.stm", lambda path: tedlium.read_stm(path)[:2]),
    "earnings22": Kind(column("File ID", ",", st.integers(1, 99).map(str)), "metadata.csv", earnings22._calls),
    "rev16": Kind(
        column("File number", ",", st.sampled_from(sorted(rev16.EPISODES))).map(
            lambda made: (made[0], sorted(made[1]))
        ),
        "podcasts.csv",
        rev16._episodes,
    ),
    "spotify": Kind(spotify_json(), "e.json", spotify.read_transcript),
    "spotify_metadata": Kind(
        column("episode_filename_prefix", "\t", PLAIN).map(lambda made: (made[0], set(made[1]))),
        "metadata.tsv",
        spotify.read_metadata,
    ),
    "libricss": Kind(meeting_info(), "session/transcription/meeting_info.txt", libricss.read_meeting_info),
    "libricss_enrolment": Kind(
        enrolment(), "list.jsonl", lambda path: libricss.read_enrolment(path, ["OV10_session0"])
    ),
}


@pytest.mark.parametrize("name", KINDS)
@FUZZ
@given(data=st.data())
def test_a_transcript_is_read_or_refused(scratch, name, data):
    kind = KINDS[name]
    path = scratch / name / kind.place
    path.parent.mkdir(parents=True, exist_ok=True)
    for content, expected in data.draw(damaged(kind.files)):
        note(content)
        path.write_bytes(content)
        read_or_refuse(kind.read, path, expected)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stm", b"\xfft 1 s 0 1 <o> a\n"),
        ("stm", b"t 1 s nan 1 <o> a\n"),
        ("earnings22", b"show,File ID\n\xff,1\n"),
        ("rev16", b"\xff"),
        ("spotify_metadata", b"\xffshow\tepisode_filename_prefix\n"),
        ("spotify", b"[" * 20_000),
        ("libricss", b"start_time\tend_time\tspeaker\tutterance_id\ttranscription\n0\tinf\t1\t1-5-0\tA\n"),
        ("libricss_enrolment", b'{"dataid": 3, "unused_uttid": {}}\n'),
        ("libricss_enrolment", b'{"dataid": "over\\nlap", "unused_uttid": {}}\n'),
        (
            "libricss_enrolment",
            b'{"dataid": "overlap_ratio_10.0_sil1.2.3_1.0_session0_actual10.1", "unused_uttid": {}}\n',
        ),
        (
            "libricss_enrolment",
            b'{"dataid": "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1", "unused_uttid": {"1": "ab"}}',
        ),
    ],
)
def test_what_was_found_is_refused(tmp_path, name, content):
    path = tmp_path / KINDS[name].place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(InputError):
        KINDS[name].read(path)


def test_rows_without_a_cell_are_left_out(tmp_path):
    (tmp_path / "metadata.csv").write_text("show,File ID\nx,3\n9\nx, 4 \n")
    assert earnings22._calls(tmp_path / "metadata.csv") == ["3", "4"]

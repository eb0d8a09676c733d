"""Readers of files from elsewhere: what stands in a file is read, all else is refused
by a message of one line.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from damage import FUZZ, WORDS, damaged, read_or_refuse, several
from hypothesis import given, note
from hypothesis import strategies as st

from espnet_ext.codeswitch.token_languages import read_languages
from espnet_ext.corpora import (
    asru2019,
    libricss,
    long_recordings,
    rev16,
    spotify,
    tedlium,
)
from espnet_ext.corpora.checks import Faults
from espnet_ext.corpora.code_switching import scan_audio_folder
from espnet_ext.corpora.librispeech import scan_librispeech
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.nbest.espnet_output import parse_score, parse_scores
from espnet_ext.scoring.alignment_file import format_alignment_blocks, read_alignment
from espnet_ext.scoring.score import score_texts
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.nbest import NBest, read_nbest, write_nbest
from espnet_ext.text.tokens import read_prior
from espnet_ext.text.transcripts import read_segments, read_transcripts
from espnet_ext.text.window_hypotheses import group_by_speaker, read_grouped
from espnet_ext.text.word_times import (
    find_word_fault,
    read_regions,
    read_word_times,
    write_regions,
    write_word_times,
)
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import write_hypotheses, write_segments

WORD = "$"  # stands in a sample for any word


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        sample: a whole file.
        read: its reader.
        use: what must work with all that is read.
        place: where the file stands, for readers of folders.
    """

    sample: str
    read: Callable[[Path], Any]
    use: Callable[[Any, Path], None] = lambda found, folder: None
    place: str = "file"


def write_lists(lists: list[NBest], folder: Path) -> None:
    write_nbest(folder / "again", lists)
    assert read_nbest(folder / "again") == lists


def write_windows(items: list[Segment], folder: Path) -> None:
    write_hypotheses(folder / "again", items)
    in_order = sorted(
        items, key=lambda item: (item.recording, item.window, item.speaker)
    )
    assert read_hypotheses(folder / "again") == in_order
    # group_by_speaker fills in each window up to the last
    small = [item for item in items if item.window < 100]
    # It refuses what only all windows of a recording show, as one at 0 s that is not 0.
    recordings = read_or_refuse(group_by_speaker, small)
    if recordings is None:
        return
    grouped = [
        window
        for speakers in recordings.values()
        for own in speakers.values()
        for window in own
    ]
    assert sum(len(window.words) for window in grouped) == sum(
        len(item.words) for item in small
    )


def write_turns(turns: list[Segment], folder: Path) -> None:
    write_segments(folder / "again", turns)
    assert sorted(map(str, read_segments(folder / "again"))) == sorted(map(str, turns))


def write_words(words: list[Word], folder: Path) -> None:
    if find_word_fault(words, seconds=1e9) is None:
        write_word_times(folder / "again", [("two", words)])
        entry = read_table(folder / "again.scp")["two"]
        assert [word.text for word in read_word_times("two", entry)] == [
            word.text for word in words
        ]


def read_librispeech(path: Path) -> dict[str, Any]:
    """The utterances have audio, so that only the text decides."""
    root = path.parents[3]
    for number in range(2):
        (path.parent / f"7-70-{number}.flac").touch()
    faults = Faults(root, root / "faults")
    found = scan_librispeech(root, ["dev-clean"], faults)["dev-clean"]
    faults.settle({"dev-clean": len(found)})
    assert all(item.text.strip() for item in found.values())
    return found


def read_audio_folder(path: Path) -> dict[str, str]:
    for number in range(2):
        (path.parent / f"u{number}.wav").touch()
    faults = Faults(path.parent, path.parent / "faults")
    data = scan_audio_folder(path.parent, "dev", faults)
    faults.settle({"dev": len(data.wav_scp)})
    assert data.text.keys() == data.wav_scp.keys() == data.utt2spk.keys()
    return data.text


def read_mandarin(path: Path) -> dict[str, str]:
    (path.parent / "wav.scp").write_text("a-1 /nowhere/a-1.wav\n")
    (path.parent / "utt2spk").write_text("a-1 a\n")
    faults = Faults(path.parent, path.parent / "faults")
    return asru2019.scan_asru2019({"dev": path.parent}, faults, path.parent)["dev"].text


HYP = {"text": "$ $", "score": -1.5}
TURN = {
    "session_id": "r",
    "speaker": "$",
    "start_time": 0.5,
    "end_time": 2.0,
    "words": "$ $",
}
WINDOW = {
    "recording": "r",
    "window": 1,
    "start": 8,
    "end": 24,
    "speaker": "ann",
    "words": ["$"],
    "times": [[8, 9]],
}
SAID = {"word": "$", "start": 1.0, "end": 2.0}
SPOTIFY = [
    {"alternatives": [{"words": [{"word": "$", "startTime": "1s", "endTime": "1.5s"}]}]}
]
ENROLMENT = {
    "dataid": "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1",
    "unused_uttid": {"1": ["1-5-0", "1-5-1"]},
}
MEETING = "start_time\tend_time\tspeaker\tutterance_id\ttranscription\n"
KINDS = {
    "nbest": Kind(
        json.dumps({"utt_id": "u", "ref": "$", "hyps": [HYP, HYP]}) + "\n",
        read_nbest,
        write_lists,
    ),
    "windows": Kind(json.dumps(WINDOW) + "\n", read_hypotheses, write_windows),
    "grouped.ctm": Kind("r 1 1.0 0.5 $ NA lex ann\n", read_grouped),
    "grouped.json": Kind(
        json.dumps({"segments": [{"speaker": "ann", "words": [SAID]}]}), read_grouped
    ),
    "seglst.json": Kind(
        json.dumps([TURN, TURN | {"words": ""}]), read_segments, write_turns
    ),
    "a.stm": Kind("r 1 ann 0.5 2.0 <o,f0> one two\nr 1 bob 3 4\n", read_transcripts),
    "a.rttm": Kind("LEXEME r 1 1 0.5 $ lex ann NA\n", read_transcripts),
    "a.srt": Kind("1\n00:00:00,000 --> 00:00:01,000\nx $\n", read_transcripts),
    "a.trn": Kind("x (u1)\n(u2)\n", read_transcripts),
    "table": Kind(
        "a $ $\nb\n",
        read_table,
        lambda table, folder: write_table(folder / "again", table),
    ),
    "regions": Kind(
        "r 0.5 2\nr 3 4.25\n",
        read_regions,
        lambda found, folder: write_regions(folder / "again", found),
    ),
    "alignment": Kind(
        "".join(format_alignment_blocks(score_texts({"u": "one two"}, {"u": "too"}))),
        lambda path: list(read_alignment(path)),
    ),
    "prior": Kind("$ -1.5\n", read_prior),
    "languages": Kind("$ zh\n", read_languages),
    "librispeech": Kind(
        "7-70-0 $\n7-70-1 $ $\n",
        read_librispeech,
        place="dev-clean/7/70/7-70.trans.txt",
    ),
    "audio_folder": Kind("u0\t$\nu1\t$ $\n", read_audio_folder, place="text"),
    "asru2019": Kind("a-1 我你 go don't。\n", read_mandarin, place="text"),
    "a.nlp": Kind(
        'token|punctuation|prepunctuation\nwell|,|\nyes|.|"\n', long_recordings.read_nlp
    ),
    "tedlium.stm": Kind(
        "t 1 s 5.0 6.0 <o> they 're\nt 1 x 7 8 <o> ignore_time_segment_in_scoring\n",
        tedlium.read_stm,
        place="t.stm",
    ),
    "earnings22.csv": Kind(
        "show,File ID\nx,3\n9\nx, 4 \n",
        lambda path: long_recordings.read_column(path, "File ID", "Earnings-22"),
    ),
    "rev16.csv": Kind(
        f"show,File number\nx,{min(rev16.EPISODES)}\n", rev16._read_episodes
    ),
    "spotify.json": Kind(json.dumps({"results": SPOTIFY}), spotify.read_transcript),
    "spotify.tsv": Kind(
        "show\tepisode_filename_prefix\nx\tabc\n", spotify.read_metadata
    ),
    "libricss": Kind(
        MEETING + "0.5\t1.5\t3\t3-5-0\tone two\n",
        libricss.read_meeting_info,
        place="session/transcription/meeting_info.txt",
    ),
    "libricss_enrolment": Kind(
        json.dumps(ENROLMENT) + "\n",
        lambda path: libricss.read_enrolment(path, ["OV10_session0"]),
    ),
}


def place_of(name: str, folder: Path) -> Path:
    place = KINDS[name].place
    path = folder / name / (name if place == "file" else place)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("name", KINDS)
@FUZZ
@given(data=st.data(), word=WORDS)
def test_a_file_is_read_or_refused(scratch, name, data, word):
    kind, path = KINDS[name], place_of(name, scratch)
    written = json.dumps(word)[1:-1] if kind.sample[0] in "[{" else word
    for content, whole in data.draw(
        damaged(st.just((kind.sample.replace(WORD, written), True)))
    ):
        note(content)
        path.write_bytes(content)
        found = read_or_refuse(kind.read, path)
        assert found or not whole, "a whole file"
        if found:
            kind.use(found, scratch)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nbest", b"[" * 20_000),
        ("nbest", b'{"utt_id": "u", "hyps": [{"text": "\\ud800", "score": 0}]}'),
        (
            "nbest",
            b'{"utt_id": "u", "hyps": [{"text": "a", "score": 1' + b"0" * 400 + b"}]}",
        ),
        (
            "windows",
            b'{"recording": "r", "window": 999999999, "start": 0, "end": 1, '
            b'"speaker": "a", "words": []}',
        ),
        ("windows", b"9" * 5000),
        ("grouped.ctm", b"r 1 0 1 word nan"),
        (
            "grouped.json",
            b'{"segments": [{"text": "a", "start": 0, "end": 1' + b"0" * 400 + b"}]}",
        ),
        (
            "seglst.json",
            b'[{"session_id": "r", "speaker": "a", "words": "a", "start_time": 1'
            + b"0" * 400
            + b"}]",
        ),
        ("table", b"a\rb c\n"),
        ("regions", b"r -2 -1\n"),
        ("prior", b"a 0.0\na 1.0\n"),
        ("tedlium.stm", b"t 1 s nan 1 <o> a\n"),
        ("rev16.csv", b"\xff"),
        ("spotify.json", b"[" * 20_000),
        (
            "libricss",
            b"start_time\tend_time\tspeaker\tutterance_id\ttranscription\n0\tinf\t1\t1-5-0\tA\n",
        ),
        ("libricss_enrolment", b'{"dataid": "over\\nlap", "unused_uttid": {}}\n'),
        (
            "libricss_enrolment",
            json.dumps(ENROLMENT | {"unused_uttid": {"1": "ab"}}).encode(),
        ),
    ],
)
def test_what_was_found_is_refused(tmp_path, name, content):
    place_of(name, tmp_path).write_bytes(content)
    with pytest.raises(InputError):
        KINDS[name].read(place_of(name, tmp_path))


@FUZZ
@given(st.data(), WORDS, st.sampled_from(["", "-1", "1e9", "9" * 30, "x", "7"]))
def test_word_times(scratch, data, text, offset):
    """The words of two recordings in one file; those of the second are read."""
    words = [Word(text, 0.0, 0.5), Word("word", 1.0, 1.5)]
    before = b'one [["a", 0.0, 1.0]]\n'
    own = (
        f"two {json.dumps([[word.text, word.start, word.end] for word in words])}\n"
    ).encode()
    for content, expected in data.draw(damaged(st.just((before + own, words)))):
        note(content)
        (scratch / "words").write_bytes(content)
        found = read_or_refuse(
            lambda at: list(read_word_times("two", at)),
            f"{scratch / 'words'}:{len(before)}",
            expected,
        )
        read_or_refuse(
            lambda path: read_word_times("two", f"{path}:{offset}"), scratch / "words"
        )
        if found:
            write_words(found, scratch)


@FUZZ
@given(several(st.text(alphabet="tensor()[]{}'\":,-+.0123456789e naif_", max_size=24)))
def test_printed_scores(texts):
    for text in texts:
        found = read_or_refuse(parse_score, text)
        assert found is None or isinstance(found, float)
        parts = read_or_refuse(parse_scores, text)
        assert parts is None or all(
            isinstance(value, float) for value in parts.values()
        )

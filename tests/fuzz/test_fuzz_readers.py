"""Readers of files from elsewhere: what stands in a file is read, all else is refused by a message of one line."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from damage import FUZZ, NAMES, WORDS, damaged, read_or_refuse, several
from hypothesis import given, note
from hypothesis import strategies as st

from espnet_ext.audio.recordings import read_regions, write_regions
from espnet_ext.corpora import asru2019, earnings22, libricss, long_recordings, rev16, spotify, tedlium
from espnet_ext.corpora.checks import Faults
from espnet_ext.corpora.code_switching import scan_audio_folder
from espnet_ext.corpora.librispeech import scan_librispeech
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.alignment.word_times import RecordingWords, read_word_times, word_faults, write_word_times
from espnet_ext.multitalker.hypotheses import group_by_speaker, read_grouped
from espnet_ext.nbest.espnet_output import parse_score, parse_scores, read_espnet_output
from espnet_ext.nbest.lists import Hypothesis, NBest, read_nbest, write_nbest
from espnet_ext.nbest.readers import read_mlm_scoring
from espnet_ext.scoring.alignment_file import alignment_blocks, read_alignment
from espnet_ext.scoring.score import score_texts
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.mixed_text import mixed_tokens
from espnet_ext.text.token_languages import read_languages
from espnet_ext.text.tokens import read_prior
from espnet_ext.text.transcripts import read_segments, read_transcripts
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import write_hypotheses, write_segments

Words = Sequence[str]  # three of any characters but white space, which stand somewhere in a file


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        write: the text of a whole file, with some words in it.
        read: its reader.
        holds: what is read from a whole file, or None where that is tested elsewhere.
        use: what must work with all that is read.
        place: where the file stands, for readers of folders.
    """

    write: Callable[[Words], str]
    read: Callable[[Path], Any]
    holds: Callable[[Words], Any] = lambda words: None
    use: Callable[[Any, Path], None] = lambda found, folder: None
    place: str = "file"


def lists_of(words: Words) -> list[NBest]:
    a, b, c = words
    return [NBest("u", (Hypothesis(f"{a} {b}", -1.5), Hypothesis("", -2.0)), c)]


def as_jsonl(words: Words) -> str:
    rows = [{"utt_id": each.utt_id, "ref": each.ref, "hyps": [*map(vars, each.hyps)]} for each in lists_of(words)]
    return "".join(json.dumps(row, default=dict) + "\n" for row in rows)


def as_mlm_scoring(words: Words) -> str:
    ranked = {
        each.utt_id: {"ref": each.ref} | {f"hyp_{n}": vars(hyp) for n, hyp in enumerate(each.hyps, start=1)}
        for each in lists_of(words)
    }
    return json.dumps(ranked, default=dict)


def write_lists(lists: list[NBest], folder: Path) -> None:
    write_nbest(folder / "again", lists)
    assert read_nbest(folder / "again") == lists


def windows_of(words: Words) -> list[Segment]:
    times = ((8.0, 8.5), (9.0, 9.5))
    return [
        Segment("r", "ann", tuple(words[:2]), 8.0, 24.0, times, window=1),
        Segment("r", words[2], (), 16.0, 32.0, window=2),
    ]


def as_windows(words: Words) -> str:
    return "".join(json.dumps(vars(item)) + "\n" for item in windows_of(words))


def write_windows(items: list[Segment], folder: Path) -> None:
    write_hypotheses(folder / "again", items)
    assert read_hypotheses(folder / "again") == sorted(
        items, key=lambda item: (item.recording, item.window, item.speaker)
    )
    small = [item for item in items if item.window < 100]  # it fills in each window up to the last
    grouped = [window for speakers in group_by_speaker(small).values() for own in speakers.values() for window in own]
    assert sum(len(window.words) for window in grouped) == sum(len(item.words) for item in small)


def turns_of(words: Words) -> list[Segment]:
    return [Segment("r", "ann", tuple(words[:2]), 0.5, 2.0), Segment("s", words[2], (), 1.0, 2.5)]


def as_seglst(words: Words) -> str:
    return json.dumps(
        [
            {"session_id": t.recording, "speaker": t.speaker, "start_time": t.start, "end_time": t.end, "words": t.text}
            for t in turns_of(words)
        ]
    )


def write_turns(turns: list[Segment], folder: Path) -> None:
    write_segments(folder / "again", turns)
    assert sorted(map(str, read_segments(folder / "again"))) == sorted(map(str, turns))


def whisper_json(words: Words) -> str:
    timed = [{"word": word, "start": 1.0, "end": 2.0} for word in words]
    return json.dumps({"segments": [{"speaker": "ann", "words": timed}], "language": "en"})


def spotify_json(words: Words) -> str:
    timed = [{"word": word, "startTime": f"{n}s", "endTime": f"{n + 0.5}s"} for n, word in enumerate(words)]
    again = [word | {"speakerTag": 1} for word in timed]  # Spotify's last result repeats all words
    return json.dumps({"results": [{"alternatives": [{"words": each}]} for each in (timed[:2], timed[2:], again)]})


def read_librispeech(path: Path) -> dict[str, str]:
    """The utterances have audio, so that only the text decides."""
    root = path.parents[3]
    for number in range(2):
        (path.parent / f"7-70-{number}.flac").touch()
    faults = Faults(root, root / "faults")
    found = scan_librispeech(root, ["dev-clean"], faults)["dev-clean"]
    faults.settle({"dev-clean": len(found)})
    assert all(item.text.strip() for item in found.values())
    return {key: item.text for key, item in found.items()}


def read_audio_folder(path: Path) -> dict[str, str]:
    for number in range(2):
        (path.parent / f"u{number}.wav").touch()
    faults = Faults(path.parent, path.parent / "faults")
    data = scan_audio_folder(path.parent, "dev", faults)
    faults.settle({"dev": len(data.wav_scp)})
    assert data.text.keys() == data.wav_scp.keys() == data.utt2spk.keys()
    return data.text


def read_mandarin(path: Path) -> list[str]:
    (path.parent / "wav.scp").write_text("a-1 /nowhere/a-1.wav\n")
    (path.parent / "utt2spk").write_text("a-1 a\n")
    faults = Faults(path.parent, path.parent / "faults")
    return mixed_tokens(asru2019.scan_asru2019({"dev": path.parent}, faults, path.parent)["dev"].text["a-1"])


ENROLMENT = (
    '{"dataid": "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1", "unused_uttid": {"1": ["1-5-0", "1-5-1"]}}\n'
)
KINDS = {
    "nbest": Kind(as_jsonl, read_nbest, lists_of, write_lists),
    "mlm_scoring": Kind(as_mlm_scoring, read_mlm_scoring, lists_of, write_lists),
    "windows": Kind(as_windows, read_hypotheses, windows_of, write_windows),
    "grouped.ctm": Kind(lambda words: f"r 1 1.0 0.5 {words[0]} NA lex ann\n", read_grouped),
    "grouped.json": Kind(whisper_json, read_grouped),
    "seglst.json": Kind(as_seglst, read_segments, turns_of, write_turns),
    "a.stm": Kind(lambda words: f"r 1 ann 0.5 2.0 <o,f0> {words[0]} x\nr 1 bob 3 4\n", read_transcripts),
    "a.ctm": Kind(lambda words: f"r 1 1.0 0.5 {words[0]} 0.9\n", read_transcripts),
    "a.rttm": Kind(lambda words: f"LEXEME r 1 1 0.5 {words[0]} lex ann NA\n", read_transcripts),
    "a.srt": Kind(lambda words: f"1\n00:00:00,000 --> 00:00:01,000\n{' '.join(words)}\n", read_transcripts),
    "a.trn": Kind(lambda words: f"{words[0]} (u1)\n(u2)\n", read_transcripts),
    "table": Kind(
        lambda words: f"a {' '.join(words)}\nb\n",
        read_table,
        lambda words: {"a": " ".join(words), "b": ""},
        lambda table, folder: write_table(folder / "again", table),
    ),
    "regions": Kind(
        lambda words: "r 0.5 2.0\nr 3 4.25\n",
        read_regions,
        lambda words: {"r": [(0.5, 2.0), (3.0, 4.25)]},
        lambda regions, folder: write_regions(folder / "again", regions),
    ),
    "alignment": Kind(
        lambda words: "".join(alignment_blocks(score_texts({"u": " ".join(words)}, {"u": f"{words[1]} x"}))),
        lambda path: list(read_alignment(path)),
    ),
    "prior": Kind(lambda words: f"{words[0]} -1.5\n", read_prior, lambda words: {words[0]: -1.5}),
    "languages": Kind(lambda words: f"{words[0]} zh\n", read_languages, lambda words: {words[0]: "zh"}),
    "librispeech": Kind(
        lambda words: f"7-70-0 {words[0]}\n7-70-1 {words[1]} {words[2]}\n",
        read_librispeech,
        lambda words: {"7-70-0": words[0], "7-70-1": f"{words[1]} {words[2]}"},
        place="dev-clean/7/70/7-70.trans.txt",
    ),
    "audio_folder": Kind(
        lambda words: f"u0\t{words[0]}\nu1\t{words[1]} {words[2]}\n",
        read_audio_folder,
        lambda words: {"u0": words[0], "u1": f"{words[1]} {words[2]}"},
        place="audio/text",
    ),
    "asru2019": Kind(
        lambda words: "a-1 我你 go don't。\n",
        read_mandarin,
        lambda words: ["我", "你", "GO", "DON'T"],
        place="asru/text",
    ),
    "a.nlp": Kind(
        lambda words: 'token|punctuation|prepunctuation\nwell|,|\nyes|.|"\n',
        long_recordings.nlp_text,
        lambda words: 'well, "yes.',
    ),
    "tedlium.stm": Kind(
        lambda words: (
            "t 1 s 5.0 6.0 <o,f0> they 're\nt 1 s 1 2 <o> one\nt 1 inter 7 8 <o> ignore_time_segment_in_scoring\n"
        ),
        lambda path: tedlium.read_stm(path)[:2],
        lambda words: ("one they're", [(7.0, 8.0)]),
        place="t.stm",
    ),
    "earnings22.csv": Kind(lambda words: "show,File ID\nx,3\n9\nx, 4 \n", earnings22._calls, lambda words: ["3", "4"]),
    "rev16.csv": Kind(lambda words: "show,File number\nx,1\nx,2\n", rev16._episodes),
    "spotify.json": Kind(
        spotify_json, spotify.read_transcript, lambda words: [Word(w, float(n), n + 0.5) for n, w in enumerate(words)]
    ),
    "spotify.tsv": Kind(
        lambda words: "show\tepisode_filename_prefix\nx\tabc\n", spotify.read_metadata, lambda words: {"abc"}
    ),
    "libricss": Kind(
        lambda words: "start_time\tend_time\tspeaker\tutterance_id\ttranscription\n0.5\t1.5\t3\t3-5-0\tone two\n",
        libricss.read_meeting_info,
        lambda words: [Segment("session", "3", ("one", "two"), 0.5, 1.5)],
        place="session/transcription/meeting_info.txt",
    ),
    "libricss_enrolment": Kind(
        lambda words: ENROLMENT,
        lambda path: libricss.read_enrolment(path, ["OV10_session0"]),
        lambda words: {"OV10_session0": {"1": ("1-5-0", "1-5-1")}},
    ),
}


def place_of(name: str, folder: Path) -> Path:
    place = KINDS[name].place
    path = folder / name / (name if place == "file" else place)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("name", KINDS)
@FUZZ
@given(data=st.data())
def test_a_file_is_read_or_refused(scratch, name, data):
    kind, path = KINDS[name], place_of(name, scratch)
    words = data.draw(st.lists(WORDS, min_size=3, max_size=3))
    for content, expected in data.draw(damaged(st.just((kind.write(words), kind.holds(words))))):
        note(content)
        path.write_bytes(content)
        found = read_or_refuse(kind.read, path, expected)
        if found:
            kind.use(found, scratch)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nbest", b"[" * 20_000),
        ("nbest", b'{"utt_id": "u", "hyps": [{"text": "\\ud800", "score": 0}]}'),
        ("nbest", b'{"utt_id": "u", "hyps": [{"text": "a", "score": 1' + b"0" * 400 + b"}]}"),
        ("mlm_scoring", b'{"u": {"hyp_' + b"9" * 5000 + b'": {"text": "a", "score": 0}}}'),
        ("windows", b'{"recording": "r", "window": 999999999, "start": 0, "end": 1, "speaker": "a", "words": []}'),
        ("windows", b"9" * 5000),
        ("a.ctm", b"r 1 0 1 word nan"),
        ("grouped.json", b'{"segments": [{"text": "a", "start": 0, "end": 1' + b"0" * 400 + b"}]}"),
        ("seglst.json", b'[{"session_id": "r", "speaker": "a", "words": "a", "start_time": 1' + b"0" * 400 + b"}]"),
        ("table", b"a\rb c\n"),
        ("regions", b"r -2 -1\n"),
        ("prior", b"a 0.0\na 1.0\n"),
        ("tedlium.stm", b"t 1 s nan 1 <o> a\n"),
        ("rev16.csv", b"\xff"),
        ("spotify.json", b"[" * 20_000),
        ("libricss", b"start_time\tend_time\tspeaker\tutterance_id\ttranscription\n0\tinf\t1\t1-5-0\tA\n"),
        ("libricss_enrolment", b'{"dataid": "over\\nlap", "unused_uttid": {}}\n'),
        ("libricss_enrolment", ENROLMENT.replace('["1-5-0", "1-5-1"]', '"ab"').encode()),
    ],
)
def test_what_was_found_is_refused(tmp_path, name, content):
    place_of(name, tmp_path).write_bytes(content)
    with pytest.raises(InputError):
        KINDS[name].read(place_of(name, tmp_path))


@FUZZ
@given(st.data(), st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(["", "-1", "1e9", "9" * 30, "x", "7"]))
def test_word_times(scratch, data, texts, offset):
    """The words of two recordings in one file; those of the second are read."""
    words = [Word(text, float(place), place + 0.5) for place, text in enumerate(texts)]
    before = b"\none" + RecordingWords.of([Word("word", 0.0, 1.0)]).to_bytes() + b"\ntwo"
    whole = before + RecordingWords.of(words).to_bytes()
    for content, expected in data.draw(damaged(st.just((whole, words)))):
        note(content)
        (scratch / "words").write_bytes(content)
        found = read_or_refuse(
            lambda path: list(read_word_times("two", f"{path}:{len(before)}")), scratch / "words", expected
        )
        read_or_refuse(lambda path: read_word_times("two", f"{path}:{offset}"), scratch / "words")
        if found and word_faults(found, seconds=1e9) is None:
            assert all(math.isfinite(word.start) and word.start <= word.end for word in found)
            write_word_times(scratch / "again", [("two", found)])
            entry = read_table(scratch / "again.scp")["two"]
            assert [word.text for word in read_word_times("two", entry)] == [word.text for word in found]


@FUZZ
@given(st.data(), st.lists(NAMES, min_size=2, max_size=3, unique=True))
def test_the_output_of_espnet(scratch, data, ids):
    lists = [
        NBest(key, (Hypothesis("a b", -1.5), Hypothesis("a", -2.25))[: n + 1]) for n, key in enumerate(sorted(ids))
    ]
    lists = [NBest(each.utt_id, each.hyps[:2]) for each in lists]
    folder = scratch / "decoding"
    shutil.rmtree(folder, ignore_errors=True)
    for rank in range(2):
        some = [(each.utt_id, each.hyps[rank]) for each in lists if len(each.hyps) > rank]
        (folder / f"{rank + 1}best_recog").mkdir(parents=True)
        for name, lines in (
            ("text", [hyp.text for _, hyp in some]),
            ("score", [f"tensor({h.score})" for _, h in some]),
        ):
            text = "".join(f"{key} {line}\n" for (key, _), line in zip(some, lines, strict=True))
            (folder / f"{rank + 1}best_recog" / name).write_text(text)
    victim = (
        folder
        / data.draw(st.sampled_from(["1best_recog", "2best_recog"]))
        / data.draw(st.sampled_from(["text", "score"]))
    )
    for content, whole in data.draw(damaged(st.just((victim.read_bytes(), lists)))):
        note(content)
        victim.write_bytes(content)
        found = read_or_refuse(read_espnet_output, folder, whole)
        if found:
            write_lists(found, scratch)


@FUZZ
@given(several(st.text(alphabet="tensor()[]{}'\":,-+.0123456789e naif_", max_size=24)))
def test_printed_scores(texts):
    for text in texts:
        found = read_or_refuse(parse_score, text)
        assert found is None or isinstance(found, float)
        parts = read_or_refuse(parse_scores, text)
        assert parts is None or all(isinstance(value, float) for value in parts.values())

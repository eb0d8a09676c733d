"""``espnet-ext stitch`` on hypotheses of any recogniser."""

import json
import os
import re

import pytest
from text_windows import windows

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, write_data_dir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import join_words_by_speaker
from espnet_ext.text.writing import write_hypotheses


def joined(tmp_path, name: str, *options: str) -> dict:
    call(
        [
            "stitch",
            "join",
            str(tmp_path / name),
            "--output",
            str(tmp_path / "out.json"),
            *options,
        ]
    )
    return join_words_by_speaker(read_segments(tmp_path / "out.json"))


def test_a_ctm_of_one_speaker(tmp_path):
    (tmp_path / "segments").write_text("w0 long 0 16\nw1 long 8 24\n")
    (tmp_path / "hyp.ctm").write_text(
        "w0 1 1.0 0.5 A\nw0 1 9.0 0.5 B\nw1 A 1.0 0.5 B\nw1 A 12.0 0.5 C\n"
    )
    options = ["--segments", str(tmp_path / "segments"), "--method", "overlapping"]
    assert joined(tmp_path, "hyp.ctm", *options) == {
        "long": {"speaker": ("A", "B", "C")}
    }


def test_joining_needs_no_model(tmp_path, capsys):
    """Whisper's output in windows that overlap by a quarter."""

    def window(start: float, *words: tuple[str, float]) -> dict:
        heard = [{"word": f" {word}", "start": at, "end": at + 1} for word, at in words]
        return {"start": start, "end": start + 16, "segments": [{"words": heard}]}

    windows = [
        window(0, ("So", 1), ("far,", 13)),
        window(12, ("far", 13), ("away.", 14)),
    ]
    (tmp_path / "long.json").write_text(json.dumps(windows))
    call(
        [
            "stitch",
            "join",
            str(tmp_path / "long.json"),
            "--output",
            str(tmp_path / "out.ctm"),
        ]
    )
    lines = [
        "long 1 1.000 1.000 So 1.000",
        "long 1 13.000 1.000 far, 1.000",
    ]
    assert (tmp_path / "out.ctm").read_text().splitlines() == [
        *lines,
        "long 1 14.000 1.000 away. 1.000",
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "[00:00:01.000 --> 00:00:02.000] So",
        "[00:00:13.000 --> 00:00:15.000] far, away.",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stitcher", "{folder}/nowhere"], "{folder}/nowhere: no such folder"),
        (["--stitcher", "{folder}", "--method", "block"], "leave out --method"),
        (["--output", "out.doc"], "out.doc: end it in .json, .ctm, .txt"),
        # neither of the two methods of P4 can merge windows that overlap by a quarter;
        # all name the one that can
        (["--method", "block"], "--method time_aware"),
        (["--method", "overlapping"], "--method time_aware"),
        (["--method", "no"], "--method time_aware"),
    ],
)
def test_mistakes(tmp_path, options, message):
    write_hypotheses(tmp_path / "hyp.jsonl", windows("A B", "B C", overlap=0.25))
    with pytest.raises(InputError, match=re.escape(message.format(folder=tmp_path))):
        call(
            [
                "stitch",
                "join",
                str(tmp_path / "hyp.jsonl"),
                *(word.format(folder=tmp_path) for word in options),
            ]
        )
    assert joined(tmp_path, "hyp.jsonl") == {"r": {"a": ("A", "B", "C")}}


def test_windows_of_a_data_dir(tmp_path, capsys):
    write_data_dir(
        DataDir(wav_scp={"r": "r.wav"}, utt2spk={"r": "r"}, utt2dur={"r": "30"}),
        tmp_path / "data",
    )
    options = [
        "--data",
        str(tmp_path / "data"),
        "--output",
        str(tmp_path / "windows"),
        "--window-overlap",
    ]
    call(["stitch", "windows", *options, "0.25"])
    assert read_table(tmp_path / "windows" / "segments") == {
        "r-w00000": "r 0 16",
        "r-w00001": "r 12 28",
        "r-w00002": "r 24 30",
    }
    assert "3 windows of 1 recordings" in capsys.readouterr().out


def test_a_time_with_one_end_keeps_it_and_an_inverted_one_is_named(tmp_path, capsys):
    """Transformers' last chunk has no end; one inverted chunk ends nothing."""
    chunks = [
        {"text": " a b", "timestamp": [0.0, 2.0]},
        {"text": " x", "timestamp": [2.4, 2.1]},
        {"text": " c d", "timestamp": [2.5, None]},
    ]
    words = [
        {"word": "so", "start": 3.0},
        {"word": "we", "start": 3.5, "end": 3.75},
        {"word": "go", "end": 4.5},
    ]
    (tmp_path / "talk.json").write_text(json.dumps({"chunks": chunks}))
    (tmp_path / "words.json").write_text(
        json.dumps({"segments": [{"start": 3.0, "end": 5.0, "words": words}]})
    )
    output = tmp_path / "out.ctm"
    call(["stitch", "join", str(tmp_path / "talk.json"), "--output", str(output)])
    times = {
        line.split()[4]: float(line.split()[2])
        for line in output.read_text().splitlines()
    }
    assert [times[word] for word in "abxcd"] == [0.0, 1.0, 2.0, 2.5, 2.5]
    assert "talk: `x`: from 2.4 to 2.1 s" in capsys.readouterr().err
    call(["stitch", "join", str(tmp_path / "words.json"), "--output", str(output)])
    lines = [line.split() for line in output.read_text().splitlines()]
    assert [(word[4], float(word[2]), float(word[3])) for word in lines] == [
        ("so", 3.0, 0.5),
        ("we", 3.5, 0.25),
        ("go", 3.75, 0.75),
    ]


def test_names_with_blanks_are_read_again(tmp_path, capsys):
    turns = [
        {
            "session_id": "m",
            "speaker": name,
            "start_time": at,
            "end_time": at + 1.0,
            "words": words,
        }
        for name, at, words in (("ann lee", 0.0, "one <unk> two"), ("bob", 2.0, "six"))
    ]
    (tmp_path / "m.json").write_text(json.dumps(turns))
    for ending in ("ctm", "srt", "vtt", "json"):
        output = tmp_path / f"out.{ending}"
        call(["stitch", "join", str(tmp_path / "m.json"), "--output", str(output)])
        found = read_segments(output)
        name = "ann_lee" if ending == "ctm" else "ann lee"
        assert {turn.speaker for turn in found} == {name, "bob"}
        assert [word for turn in found for word in turn.words] == [
            "one",
            "<unk>",
            "two",
            "six",
        ]
        assert capsys.readouterr().err.count("ann_lee") == (ending == "ctm")


def test_windows_from_a_pipe_in_a_format_that_is_named(tmp_path):
    (tmp_path / "m").write_text("m 1 1 1 one\n")
    reading = os.open(tmp_path / "m", os.O_RDONLY)
    pipe, end = os.pipe()
    os.write(end, os.read(reading, 100))
    os.close(end)
    output = tmp_path / "out.ctm"
    given = [f"/dev/fd/{pipe}", "--format", "ctm", "--output", str(output)]
    call(["stitch", "join", *given])
    assert output.read_text() == "m 1 1.000 1.000 one 1.000\n"


def test_a_word_said_twice_within_a_second_stays_twice(tmp_path):
    windows = [
        {
            "start": start,
            "end": start + 10.0,
            "segments": [
                {"words": [{"word": w, "start": a, "end": b} for w, a, b in words]}
            ],
        }
        for start, words in (
            (63.0, [("so", 71.28, 71.68), ("no", 71.98, 72.21)]),
            (72.0, [("no", 72.51, 73.07), ("we", 73.07, 73.36)]),
        )
    ]
    (tmp_path / "talk.json").write_text(json.dumps(windows))
    assert joined(tmp_path, "talk.json") == {
        "talk": {"speaker": ("so", "no", "no", "we")}
    }

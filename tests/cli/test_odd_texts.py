"""Odd transcripts through every command that reads them: a score that is right, or one
line that names the file.
"""

import bz2
import json
import lzma
import re

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.kaldi import tables

REF = "u1 the cat sat\nu2 a dog\n"
HYP = "u1 the cat\nu2 a dog\n"  # one of five words is lost
TURN = {
    "session_id": "m",
    "speaker": "ann",
    "start_time": 0,
    "end_time": 2,
    "words": "the cat sat",
}
SEGMENTS = [
    {"id": 1, "start": 0.0, "end": 2.0, "text": " the cat sat", "tokens": [1, 2]}
]
CPP = {
    "systeminfo": "x",
    "result": {"language": "en"},
    "transcription": [{"offsets": {"from": 0, "to": 2000}, "text": " the cat sat"}],
}
NEMO = {
    "audio_filepath": "a/u1.wav",
    "duration": 1,
    "text": "the cat sat",
    "pred_text": "the cat",
}
STM = "m 1 ann 0.0 2.0 the cat sat\n"
CTM = "m 1 0.1 0.2 the\nm 1 0.5 0.2 cat\n"
GAPS = "m 1 gap 0 10 <o,,unknown> {}\nm 1 ann 10 12 <o,f0,female> the cat sat\n"
GAP_WORDS = "m 1 3.0 0.2 hello\nm 1 10.1 0.2 the\nm 1 10.5 0.2 cat\nm 1 11.1 0.2 sat\n"
NFC, NFD = "Jos\u00e9", "Jose\u0301"


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


# What a name says: file of references and its content, file of hypotheses and its
# content, errors and words.
SCORED = {
    "kaldi": ("ref", REF, "hyp", HYP, 1, 5),
    "kaldi in another order": ("ref", REF, "hyp", "u2 a dog\nu1 the cat\n", 1, 5),
    "kaldi with tabs": ("ref", REF.replace("u1 ", "u1\t"), "hyp", HYP, 1, 5),
    "kaldi with carriage returns": ("ref", REF.replace("\n", "\r\n"), "hyp", HYP, 1, 5),
    "kaldi without a last line feed": ("ref", REF.strip(), "hyp", HYP.strip(), 1, 5),
    "empty hypothesis": ("ref", REF, "hyp", "u1\nu2 a dog\n", 3, 5),
    "empty reference": (
        "ref",
        "u1 a b\nu2\nu3 c d\n",
        "hyp",
        "u1 a b\nu2 uh\nu3 c d\n",
        1,
        4,
    ),
    ("empty reference, empty hypothesis"): (
        "ref",
        "u1 a\nu2\n",
        "hyp",
        "u1 a\nu2\n",
        0,
        1,
    ),
    "ideographic space is no word": (
        "ref",
        "u1 \u3000\nu2 the cat\n",
        "hyp",
        "u1 the\nu2 the cat\n",
        1,
        2,
    ),
    "non-breaking space separates": (
        "ref",
        "u1 the\u00a0cat\n",
        "hyp",
        "u1 the cat\n",
        0,
        2,
    ),
    "numerals like STM": (
        "ref",
        ("u1 1 2 3 4 5 6\nu2 9 9 1 1 7 7\n"),
        "hyp",
        "u1 1 2 3 4 5 6\nu2 9 9 1\n",
        3,
        12,
    ),
    "numerals like CTM": (
        "ref",
        "u1 1 2 3 4\nu2 9 9 1 1\n",
        "hyp",
        "u1 1 2 3 4\nu2 9 9 1\n",
        1,
        8,
    ),
    "a decimal number like CTM": (
        "ref",
        "u1 a 2.5 3 b\nu2 c 4 5 d\n",
        "hyp",
        "u1 a 2.5 3 b\nu2 c 4 5\n",
        1,
        8,
    ),
    "noise marks and brackets": (
        "ref",
        "u1 [noise] (laughs) <unk>\n",
        "hyp",
        "u1 [noise] <unk>\n",
        1,
        3,
    ),
    "a word like an arrow": ("ref", "u1 a --> b\n", "hyp", "u1 a b\n", 1, 3),
    "ids with brackets": ("ref", "u(1) a b\n", "hyp", "u(1) a\n", 1, 2),
    ("composed accents in ids on both sides"): (
        "ref",
        f"{NFC} a b\n",
        "hyp",
        f"{NFC} a\n",
        1,
        2,
    ),
    "trn": (
        "ref.trn",
        ("the cat sat (u1)\na dog (u2)\n"),
        "hyp.trn",
        "the cat (u1)\na dog (u2)\n",
        1,
        5,
    ),
    "trn by its content": ("ref", "the cat sat (u1)\na dog (u2)\n", "hyp", HYP, 1, 5),
    "trn in another order": (
        "r.trn",
        "A B C (u1)\nD E F (u2)\n",
        "h.trn",
        "A B C (u2)\nD E F (u1)\n",
        6,
        6,
    ),
    "trn with a slash": (
        "r.trn",
        "yes and / or no (u1)\n",
        "h.trn",
        "yes and or no (u1)\n",
        1,
        5,
    ),
    ("trn with brackets in the words"): (
        "r.trn",
        "the (um) cat (u1)\n",
        "h.trn",
        "the cat (u1)\n",
        1,
        3,
    ),
    "trn with an empty utterance": (
        "r.trn",
        "a b (u1)\n (u2)\n",
        "h.trn",
        "a (u1)\n(u2)\n",
        1,
        2,
    ),
    "stm against ctm": ("r.stm", STM, "h.ctm", CTM, 1, 3),
    "stm and ctm by their content": (
        "r",
        STM + STM.replace(" 0.0 2.0 ", " 2.0 3.0 "),
        "h",
        CTM,
        4,
        6,
    ),
    "stm: no label in the middle": (
        "r.stm",
        "m 1 a 0 2 the <unk> cat\n",
        "h.stm",
        "m 1 a 0 2 the big cat\n",
        1,
        3,
    ),
    "stm: a label": (
        "r.stm",
        ("m 1 a 0 2 <o,f0,male> the cat\n"),
        "h.stm",
        "m 1 a 0 2 the cat\n",
        0,
        2,
    ),
    "stm: ignored, capitals": (
        "r.stm",
        GAPS.format("IGNORE_TIME_SEGMENT_IN_SCORING"),
        "h.ctm",
        GAP_WORDS,
        0,
        3,
    ),
    "stm: ignored, small": (
        "r.stm",
        GAPS.format("ignore_time_segment_in_scoring"),
        "h.ctm",
        GAP_WORDS,
        0,
        3,
    ),
    "stm: ignored, mixed": (
        "r.stm",
        GAPS.format("Ignore_Time_Segment_In_Scoring"),
        "h.ctm",
        GAP_WORDS,
        0,
        3,
    ),
    ("stm: nobody speaks in one recording"): (
        "r.stm",
        STM + "n 1 ann 0 2\n",
        "h.stm",
        STM + "n 1 ann 0 2 uh\n",
        1,
        3,
    ),
    "stm: comments and empty lines": (
        "r.stm",
        f";; x\n\n{STM}",
        "h.ctm",
        f";; x\n{CTM}",
        1,
        3,
    ),
    "ctm without a recording": (
        "r.stm",
        STM + STM.replace("m ", "n ", 1),
        "h.ctm",
        CTM,
        4,
        6,
    ),
    "rttm": (
        "r.stm",
        STM,
        "h.rttm",
        ("LEXEME m 1 0.1 0.2 the lex ann 0.9\nLEXEME m 1 0.5 0.2 cat lex ann 0.9\n"),
        1,
        3,
    ),
    "seglst": (
        "r.json",
        json.dumps([TURN]),
        "h.json",
        json.dumps([TURN | {"words": "the cat"}]),
        1,
        3,
    ),
    "seglst, all wrong": (
        "r.json",
        json.dumps([TURN]),
        "h.json",
        json.dumps([TURN | {"words": "X X X "}]),
        3,
        3,
    ),
    "seglst without a suffix": (
        "r",
        json.dumps([TURN], indent=1),
        "h",
        json.dumps([TURN | {"words": "a"}]),
        3,
        3,
    ),
    "whisper": (
        "m.stm",
        STM,
        "m.json",
        json.dumps({"text": "x", "segments": SEGMENTS}),
        0,
        3,
    ),
    "faster-whisper's segments": ("m.stm", STM, "m.json", json.dumps(SEGMENTS), 0, 3),
    "whisper.cpp": ("m.stm", STM, "m.json", json.dumps(CPP), 0, 3),
    "transformers": (
        "m.stm",
        STM,
        "m.json",
        json.dumps({"chunks": [{"timestamp": [0, 2], "text": " the cat"}]}),
        1,
        3,
    ),
    "nemo": (
        "n.json",
        lines(NEMO, NEMO | {"audio_filepath": "u2.wav"}),
        "n.json",
        None,
        2,
        6,
    ),
    "nemo of one line": ("n.json", lines(NEMO), "n.json", None, 1, 3),
    "nemo without a suffix": ("n", lines(NEMO), "n", None, 1, 3),
    "nemo against kaldi": ("ref", "u1 the cat sat\n", "n.json", lines(NEMO), 1, 3),
    "srt": (
        "m.stm",
        STM,
        "m.srt",
        ("1\n00:00:00,000 --> 00:00:02,000\nthe <i>cat</i>\n"),
        1,
        3,
    ),
    "srt without empty lines or spaces": (
        "m.stm",
        STM,
        "m.srt",
        "1\n00:00:00,000-->00:00:01,000\nthe\n2\n00:00:01,000-->00:00:02,000\ncat\n",
        1,
        3,
    ),
    "vtt with a line of spaces": (
        "m.stm",
        STM,
        "m.vtt",
        ("WEBVTT\n\n00:00.000 --> 00:02.000\n \nthe cat\n"),
        1,
        3,
    ),
    "vtt": (
        "m.stm",
        STM,
        "m.vtt",
        ("WEBVTT\n\n00:00.000 --> 00:02.000\nthe cat &amp;\n"),
        1,
        3,
    ),
    "kaldi with a byte-order mark": ("ref", REF, "hyp", "\ufeff" + HYP, 1, 5),
    "UTF-16 with a mark": (
        "ref",
        REF.encode("utf-16"),
        "hyp",
        HYP.encode("utf-16"),
        1,
        5,
    ),
    "srt in UTF-16": (
        "m.stm",
        STM,
        "m.srt",
        ("1\r\n00:00:00,000 --> 00:00:02,000\r\nthe cat\r\n").encode("utf-16"),
        1,
        3,
    ),
    "json in UTF-16": ("m.stm", STM, "m.json", json.dumps(CPP).encode("utf-16"), 0, 3),
    "json with a byte-order mark": (
        "m.stm",
        STM,
        "m.json",
        "\ufeff" + json.dumps(CPP),
        0,
        3,
    ),
}

# What is no transcript, or no pair of them: files as above, and the file and place that
# the line names.
REFUSED = {
    "espnet1's data.json": (
        "ref",
        REF,
        "data.json",
        ('{"utts": {"u1": {"output": []}}}'),
        "data.json.*ESPnet1",
    ),
    "espnet1's without a suffix": (
        "ref",
        REF,
        "hyp",
        ('{"utts": {"u1": {"output": []}}}'),
        "hyp.*ESPnet1",
    ),
    "json of something else": ("ref", REF, "hyp.json", '{"u1": "the cat"}', "hyp.json"),
    ("json of something else, no suffix"): (
        "ref",
        REF,
        "hyp",
        '{"u1": "the cat"}',
        "hyp",
    ),
    "json that breaks off": (
        "ref",
        REF,
        "hyp",
        '{"segments": [{"text": "the',
        "hyp.*not JSON",
    ),
    ("json over several lines that breaks off"): (
        "ref",
        REF,
        "hyp",
        '{\n"segments": [\n',
        "hyp.*not JSON",
    ),
    "a list of texts": (
        "ref",
        REF,
        "hyp.json",
        '["the cat", "a dog"]',
        "hyp.json: entry 1",
    ),
    "nested too deeply": ("ref", REF, "hyp.json", "[" * 100_000, "hyp.json.*nested"),
    "whisper's table": (
        "ref",
        REF,
        "hyp.tsv",
        ("start\tend\ttext\n0\t2000\tthe cat\n"),
        "hyp.tsv.*header",
    ),
    "common voice's table": (
        "ref",
        REF,
        "hyp.tsv",
        "client_id\tpath\tsentence\na\tb\tc\n",
        "hyp.tsv.*header",
    ),
    "a csv with a header": (
        "ref",
        REF,
        "hyp.csv",
        "path,duration,text\na.wav,1,the\n",
        "hyp.csv.*header",
    ),
    "xml": ("ref", REF, "hyp", '<?xml version="1.0"?>\n<Trans>\n', "hyp.*XML"),
    "a TextGrid": ("ref", REF, "hyp", 'File type = "ooTextFile"\n', "hyp.*TextGrid"),
    "UTF-16 without a mark": (
        "ref",
        REF,
        "hyp",
        HYP.encode("utf-16-le")[:-1] + b"\xff",
        "hyp",
    ),
    "bzip2": ("ref", REF, "hyp", bz2.compress(HYP.encode()), "hyp.*bzip2"),
    "xz": ("ref", REF, "hyp.json", lzma.compress(HYP.encode()), "hyp.*xz"),
    "zstd": ("ref", REF, "hyp.srt", b"\x28\xb5\x2f\xfd" + bytes(40), "hyp.*zstd"),
    "Latin-1": (
        "ref",
        REF,
        "hyp",
        "u1 caf\u00e9\nu2 a\n".encode("latin-1"),
        "hyp: line 1 is not UTF-8",
    ),
    "an empty file": ("ref", REF, "hyp", "", "hyp: empty"),
    "blank lines only": ("ref", REF, "hyp", "\n\n", "hyp: empty"),
    "an id twice": ("ref", REF, "hyp", HYP + "u1 x\n", "hyp: id u1 comes twice"),
    "an empty file of references": ("ref", "", "hyp", HYP, "ref: empty"),
    "an id twice in the references": (
        "ref",
        REF + "u1 x\n",
        "hyp",
        HYP,
        "ref: id u1 comes twice",
    ),
    "two ids that are missing": (
        "ref",
        REF + "u3 c\n",
        "hyp",
        "u2 a dog\n",
        "hyp: utterance u1 .* missing",
    ),
    "an id that is missing": (
        "ref",
        REF,
        "hyp",
        "u1 a\n",
        "hyp: utterance u2 .* missing",
    ),
    "an id too many": (
        "ref",
        REF,
        "hyp",
        HYP + "u3 x\n",
        "hyp: utterance u3 is not in",
    ),
    "ids of other accents": ("ref", f"{NFC} a\n", "hyp", f"{NFD} a\n", "hyp.*NFC"),
    "no references at all": ("ref", "u1\nu2\n", "hyp", HYP, "ref.*nothing"),
    "alternatives": (
        "r.trn",
        "{ uh / um } yes (u1)\n",
        "h.trn",
        "uh yes (u1)\n",
        ("r.trn: line 1 has alternatives"),
    ),
    "alternatives in a ctm": (
        "r.stm",
        STM,
        "h.ctm",
        CTM + "m 1 * * <ALT_BEGIN>\n",
        ("h.ctm: line 3 has alternatives"),
    ),
    "stm backwards": ("r.stm", "m 1 a 3 2 x\n", "h.ctm", CTM, "r.stm: line 1"),
    "ctm with text as a time": ("r.stm", STM, "h.ctm", "m 1 x 1 a\n", "h.ctm: line 1"),
    "windows that overlap": (
        "r.stm",
        STM,
        "h.jsonl",
        ('{"recording": "m", "window": 0}\n'),
        "h.jsonl.*join",
    ),
    "nemo, not recognised": (
        "ref",
        "u1 a\n",
        "n.json",
        lines(NEMO | {"pred_text": None}),
        "n.json: line 1",
    ),
    "nemo twice": ("ref", "u1 a\n", "n.json", lines(NEMO, NEMO), "n.json: line 2"),
    "lists": ("ref", REF, "h.jsonl", lines({"utt_id": "u1", "hyps": []}), "h.jsonl"),
    "a folder": ("ref", REF, ".", None, "folder"),
}


def written(folder, names_and_contents):
    for name, content in zip(
        names_and_contents[::2], names_and_contents[1::2], strict=True
    ):
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(data)
    return [str(folder / name) for name in names_and_contents[::2]]


@pytest.mark.parametrize("case", SCORED)
def test_scored_alike_by_all_commands(tmp_path, capsys, case):
    *files, errors, words = SCORED[case]
    ref, hyp = written(tmp_path, files)
    expected = f"{100 * errors / words:.2f} %"
    for command in ("wer", "mer"):
        call(
            [
                "score",
                command,
                "--ref",
                ref,
                "--hyp",
                hyp,
                "--output",
                str(tmp_path / "out"),
            ]
        )
        score = json.loads((tmp_path / "out" / "score.json").read_text())
        assert (score["errors"], score["words"]) == (errors, words), command
        assert expected in capsys.readouterr().out
    call(
        [
            "score",
            "compare",
            "--ref",
            ref,
            "--system",
            f"a={hyp}",
            "--system",
            f"b={hyp}",
        ]
    )
    assert expected.removesuffix(" %") in capsys.readouterr().out
    if files[0].endswith((".stm", ".json")) and "nemo" not in case:
        call(["score", "sa", "--ref", ref, "--hyp", hyp])
        assert f"cpWER {expected}" in capsys.readouterr().out


@pytest.mark.parametrize("case", REFUSED)
def test_refused_alike_by_all_commands(tmp_path, case):
    *files, message = REFUSED[case]
    ref, hyp = written(tmp_path, files)
    for arguments in (
        ["wer", "--ref", ref, "--hyp", hyp],
        ["mer", "--ref", ref, "--hyp", hyp],
        ["compare", "--ref", ref, "--system", f"a={hyp}", "--system", f"b={hyp}"],
    ):
        with pytest.raises(InputError, match=message) as raised:
            call(["score", *arguments])
        assert "\n" not in str(raised.value)


LISTS = lines(
    {
        "utt_id": "u1",
        "hyps": [
            {"text": "the cat", "score": -1},
            {"text": "the cat sat", "score": -2},
        ],
    },
    {"utt_id": "u2", "hyps": [{"text": "a dog", "score": -1}]},
)


@pytest.mark.parametrize(
    ("name", "ref", "errors"),
    [
        ("ref", REF, "20.00 %"),
        ("ref.trn", "the cat sat (u1)\na dog (u2)\n", "20.00 %"),
        (
            "ref.json",
            lines(NEMO, NEMO | {"audio_filepath": "u2.wav", "text": "a dog"}),
            "20.00 %",
        ),
        ("ref", "u1 \u3000\nu2 a dog\n", "100.00 %"),
        ("ref", f"u1 a\n{NFC} b\n", "u2"),
        ("ref", '{"utts": {}}', "ESPnet1"),
    ],
)
def test_references_of_lists(tmp_path, capsys, name, ref, errors):
    ref, lists = written(tmp_path, (name, ref, "lists.jsonl", LISTS))
    arguments = ["--nbest", lists, "--ref", ref]
    if errors.endswith("%"):
        call(["nbest", "oracle", *arguments])
        assert f"1-best: WER {errors}" in capsys.readouterr().out
        call(["nbest", "convert", *arguments, "--output", str(tmp_path / "out.jsonl")])
        call(["nbest", "oracle", "--nbest", str(tmp_path / "out.jsonl")])
        assert f"1-best: WER {errors}" in capsys.readouterr().out
    else:
        with pytest.raises(InputError, match=errors):
            call(["nbest", "oracle", *arguments])


def test_a_line_without_an_end(tmp_path, monkeypatch):
    """A gzipped list of some megabytes may hold a line of gigabytes, which would fill
    the memory.
    """
    monkeypatch.setattr(tables, "LONGEST_LINE", 1000)
    (tmp_path / "text").write_text("u1 a\nu2 " + "a" * 2000 + "\n")
    with pytest.raises(
        InputError, match=re.escape(f"{tmp_path / 'text'}: line 2 is longer")
    ):
        tables.read_table(tmp_path / "text")

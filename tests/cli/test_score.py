"""``espnet-ext score``, as a user calls it."""

import json
import os

import pytest

from espnet_ext.cli import main
from espnet_ext.cli.program import call
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_segments

KEYS = [f"s{index // 10}-{index:02d}" for index in range(40)]  # of 4 speakers


def write(folder, **texts: list[str]) -> dict[str, str]:
    """Write files of texts, which the utterances have in turn, and utt2spk; their
    paths.
    """
    for name, given in texts.items():
        lines = [
            f"{key} {given[number % len(given)]}\n" for number, key in enumerate(KEYS)
        ]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    (folder / "utt2spk").write_text("".join(f"{key} {key[:2]}\n" for key in KEYS))
    return {name: str(folder / name) for name in (*texts, "utt2spk")}


@pytest.fixture
def files(tmp_path):
    return write(
        tmp_path,
        ref=["one two three four"],
        worse=["one too tree four"],
        better=["one two three for"],
    )


def test_one_system(files, tmp_path, capsys):
    output = tmp_path / "out"
    texts = [
        "--ref",
        files["ref"],
        "--hyp",
        files["worse"],
        "--utt2spk",
        files["utt2spk"],
    ]
    call(["score", "wer", *texts, "--output", str(output)])
    printed = capsys.readouterr().out
    assert "WER 50.00 %  (95% interval 50.00 to 50.00 over 4 speakers)" in printed
    assert (
        "80 errors in 160 words: 80 substitutions, 0 deletions, 0 insertions" in printed
    )
    assert "100.00 % of 40 utterances have an error" in printed
    assert len(printed.splitlines()) <= 6
    assert (output / "per_speaker.tsv").is_file()


def test_characters(files, tmp_path):
    call(
        [
            "score",
            "wer",
            "--ref",
            files["ref"],
            "--hyp",
            files["better"],
            "--unit",
            "char",
            "--output",
            str(tmp_path),
        ]
    )
    score = json.loads((tmp_path / "score.json").read_text())
    assert (score["unit"], score["words"], score["deletions"]) == ("char", 40 * 18, 40)


def test_errors_of_writing_are_named(files, tmp_path, capsys):
    written = write(tmp_path, written=["One, two three four."])["written"]
    call(["score", "wer", "--ref", files["ref"], "--hyp", written])
    assert (
        "80 of the 80 errors are only case or punctuation: --normaliser lower"
        in capsys.readouterr().err
    )
    call(["score", "wer", "--ref", files["ref"], "--hyp", files["worse"]])
    assert "punctuation" not in capsys.readouterr().err


def test_mixed_error_rate(tmp_path, capsys):
    """Every second utterance has an English word as a character."""
    files = write(
        tmp_path,
        ref=["我想去 library 借书"],
        hyp=["我想去 赖 借书", "我 想去library 借书"],
    )
    output = tmp_path / "out"
    words = [
        "--ref",
        files["ref"],
        "--hyp",
        files["hyp"],
        "--utt2spk",
        files["utt2spk"],
    ]
    call(["score", "mer", *words, "--output", str(output)])
    printed = capsys.readouterr().out
    assert (
        "MER 8.33 %" in printed
        and "20 errors in 240 tokens: 20 substitutions" in printed
    )
    assert "80 switch points in 40 utterances; near: within 1 of one" in printed
    assert (output / "measures.txt").read_text() in printed
    score = json.loads((output / "score.json").read_text())
    assert (
        score["value"],
        score["switch_points"],
        score["measures"]["EN"]["value"],
    ) == (8.3333, 80, 50.0)


def test_letters_of_a_third_script_are_named(tmp_path, capsys):
    (tmp_path / "ref").write_text("u1 我 go カラ\n", encoding="utf-8")
    call(
        ["score", "mer", "--ref", str(tmp_path / "ref"), "--hyp", str(tmp_path / "ref")]
    )
    assert "count as English: カラ" in capsys.readouterr().err


def test_systems_compared(files, tmp_path, capsys):
    output = tmp_path / "out"
    systems = [
        "--system",
        f"old={files['worse']}",
        "--system",
        f"new={files['better']}",
    ]
    call(
        [
            "score",
            "compare",
            "--ref",
            files["ref"],
            *systems,
            "--utt2spk",
            files["utt2spk"],
            "--output",
            str(output),
        ]
    )
    printed = capsys.readouterr().out
    assert (
        "WER on 40 utterances, 160 tokens; the unit of the test is the speaker (4)"
        in printed
    )
    line = next(line for line in printed.splitlines() if line.startswith("old - new"))
    assert line.split()[3:] == [
        "+25.00",
        "[+25.00,",
        "+25.00]",
        "1",
        "0.12",
        "0.12",
        "open",
    ]
    assert (
        "With so few speakers an exact sign-flip test must agree; p is at least 0.12."
        in printed
    )
    assert sorted(path.name for path in output.iterdir()) == [
        f"compare.{end}" for end in ("html", "json")
    ]
    result = json.loads((output / "compare.json").read_text())
    assert [system["value"] for system in result["systems"]] == [50.0, 25.0]


def test_bad_input_gives_one_line_status_one_and_leaves_old_results(
    files, tmp_path, capsys
):
    output = tmp_path / "out"
    call(
        [
            "score",
            "wer",
            "--ref",
            files["ref"],
            "--hyp",
            files["better"],
            "--output",
            str(output),
        ]
    )
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    short = tmp_path / "short"
    short.write_text("s0-00 one two three four\n")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "score",
                "wer",
                "--ref",
                files["ref"],
                "--hyp",
                str(short),
                "--output",
                str(output),
            ]
        )
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert (
        out == ""
        and err.startswith(f"error: {short}: utterance s0-01 of ")
        and err.count("\n") == 1
    )
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before


def test_speaker_attributed_transcripts(tmp_path, capsys):
    reference = [
        Segment("m1", "a", ("one", "two"), 0.0, 1.0),
        Segment("m2", "b", ("three",), 0.0, 1.0),
    ]
    write_segments(tmp_path / "ref.json", reference)
    write_segments(
        tmp_path / "hyp.json",
        [Segment("m1", "b", ("one", "two")), Segment("m2", "b", ("three",))],
    )
    (tmp_path / "conditions").write_text("m1 0S\nm2 40\n")
    files = ["--ref", str(tmp_path / "ref.json"), "--hyp", str(tmp_path / "hyp.json")]
    call(
        [
            "score",
            "sa",
            *files,
            "--groups",
            str(tmp_path / "conditions"),
            "--output",
            str(tmp_path / "out"),
        ]
    )
    printed, noted = capsys.readouterr()
    assert "SA-WER 133.33 %" in printed and not noted
    assert (
        "4 errors in 3 words of 2 recordings: 0 substitutions, 2 deletions, 2 "
        "insertions" in printed
    )
    assert "cpWER 0.00 %" in printed
    assert (
        "speaker counting error 0.00 %: 0 missed and 0 too many of 2; 1 were not "
        "in the reference" in printed
    )
    measures = json.loads((tmp_path / "out" / "score.json").read_text())["measures"]
    assert {name: measure["value"] for name, measure in measures.items()} == {
        "0S": 200.0,
        "40": 0.0,
    }
    write_segments(
        tmp_path / "hyp.json",
        [Segment(m, "channel1", ("one", "two")) for m in ("m1", "m2")],
    )
    call(["score", "sa", *files])
    assert "cpWER" in capsys.readouterr().err


def test_speakers_in_stm_and_ctm(tmp_path, capsys):
    (tmp_path / "ref.stm").write_text("m1 1 a 0 1 One two\nm2 1 b 0 1 three\n")
    (tmp_path / "hyp.ctm").write_text("m1 a 0.1 0.3 ONE\nm1 a 0.5 0.3 TWO\n")
    files = ["--ref", str(tmp_path / "ref.stm"), "--hyp", str(tmp_path / "hyp.ctm")]
    call(
        [
            "score",
            "sa",
            *files,
            "--normaliser",
            "lower",
            "--collar",
            "2",
            "--output",
            str(tmp_path / "out"),
        ]
    )
    printed, noted = capsys.readouterr()
    assert (
        "SA-WER 33.33 %" in printed
        and "tcpWER 33.33 % (collar 2 s)" in printed
        and "collar" not in noted
    )
    call(["score", "sa", *files, "--collar", "5000"])
    assert (
        "--collar is in seconds: words up to 5000 s apart may match"
        in capsys.readouterr().err
    )
    summary = json.loads((tmp_path / "out" / "score.json").read_text())
    assert summary["tcpwer"] == {
        "value": 33.3333,
        "errors": 1,
        "words": 3,
        "collar": 2.0,
    }
    assert summary["normaliser"] == "lower"
    (tmp_path / "silence.json").write_text("[]")
    call(
        [
            "score",
            "sa",
            "--ref",
            str(tmp_path / "ref.stm"),
            "--hyp",
            str(tmp_path / "silence.json"),
        ]
    )
    assert "SA-WER 100.00 %" in capsys.readouterr().out


CALL = "c A ann 0 2 one two\nc B bob 0.5 2 three four\n"
CALL_WORDS = "c A 0.1 0.2 one\nc A 1.5 0.2 two\nc B 0.6 0.2 three\nc B 1.0 0.2 four\n"


@pytest.mark.parametrize("command", ["wer", "mer"])
def test_channels_of_a_call_are_kept_apart(tmp_path, capsys, command):
    (tmp_path / "c.stm").write_text(CALL)
    (tmp_path / "c.ctm").write_text(CALL_WORDS)
    files = ["--ref", str(tmp_path / "c.stm"), "--hyp", str(tmp_path / "c.ctm")]
    call(["score", command, *files])
    assert " 0.00 %" in capsys.readouterr().out
    (tmp_path / "utt2spk").write_text("c ann\n")
    call(["score", command, *files, "--utt2spk", str(tmp_path / "utt2spk")])
    assert "over 1 speaker" in capsys.readouterr().out


def test_a_silent_channel_is_counted_and_named(tmp_path, capsys):
    (tmp_path / "c.stm").write_text(CALL)
    for name, text in (
        ("c.ctm", CALL_WORDS[: CALL_WORDS.index("c B")]),
        ("h.stm", "c A x 0 2 one two\n"),
    ):
        (tmp_path / name).write_text(text)
        files = ["--ref", str(tmp_path / "c.stm"), "--hyp", str(tmp_path / name)]
        call(["score", "wer", *files])
        printed = capsys.readouterr()
        assert "WER 50.00 %" in printed.out and f"{name}: has no word" in printed.err


@pytest.mark.parametrize("command", ["wer", "mer", "sa"])
def test_what_the_loader_knows_all_commands_say(tmp_path, capsys, command):
    (tmp_path / "r.stm").write_text(
        "m 1 a 0 4 One Two Three\nm 1 b 1 3 Four\nn 1 a 0 1 Five\n"
    )
    (tmp_path / "h.ctm").write_text("m a 0.1 0.2 one\nm a 0.2 0.2 two\n")
    files = ["--ref", str(tmp_path / "r.stm"), "--hyp", str(tmp_path / "h.ctm")]
    call(["score", command, *files])
    said = capsys.readouterr().err
    assert "h.ctm: has no word of 1 recordings (n)" in said
    assert "case or punctuation" in said
    assert ("overlapped" in said) == (command != "sa")


def test_recordings_in_which_nobody_speaks_on_either_side(tmp_path, capsys):
    """Ids and speakers may be numbers, as MeetEval reads them."""
    for name in ("r.json", "h.json"):
        turns = [
            {"session_id": 1, "speaker": 7, "words": "one two"},
            {"session_id": 2, "speaker": "", "words": ""},
        ]
        (tmp_path / name).write_text(json.dumps(turns))
    files = ["--ref", str(tmp_path / "r.json"), "--hyp", str(tmp_path / "h.json")]
    call(["score", "sa", *files])
    printed = capsys.readouterr().out
    assert "SA-WER 0.00 %" in printed and "in 1 recordings nothing is said" in printed


def test_pipes_are_read_once(tmp_path, capsys):
    (tmp_path / "ref").write_text("u1 one two\nu2 three\n")
    ends = []
    for text in (b"u1 one\nu2 three\n", b"one (u1)\nthree (u2)\n"):
        pipe, end = os.pipe()
        os.write(end, text)
        os.close(end)
        ends.append(f"/dev/fd/{pipe}")
    call(["score", "wer", "--ref", str(tmp_path / "ref"), "--hyp", ends[0]])
    assert "WER 33.33 %" in capsys.readouterr().out
    given = ["--system", f"a={ends[1]}", "--system", f"b={tmp_path / 'ref'}"]
    call(["score", "compare", "--ref", str(tmp_path / "ref"), *given])
    assert "33.33" in capsys.readouterr().out

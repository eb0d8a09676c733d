"""``espnet-ext stitch`` on hypotheses of any recogniser."""

import json

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, write_data_dir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis, write_jsonl
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.text.turns import Turn, read_turns, write_turns


def hypotheses(*texts: str, overlap: float = 0.5) -> list[WindowHypothesis]:
    windowing = Windowing(16.0, overlap)
    return [
        WindowHypothesis("r", index, "a", tuple(text.split()), *windowing.span(index))
        for index, text in enumerate(texts)
    ]


def run(tmp_path, command: str, *options: str, name: str = "hyp.jsonl") -> None:
    call(["stitch", command, "--hypotheses", str(tmp_path / name), "--output", str(tmp_path / "out"), *options])


def test_merging(tmp_path, capsys):
    write_jsonl(tmp_path / "hyp.jsonl", hypotheses("A B C D X", "C D E F G"))
    run(tmp_path, "merge", "--method", "overlapping")
    assert read_turns(tmp_path / "out") == [Turn("r", "a", tuple("ABCDEFG"))]
    assert "1 recordings, 7 words" in capsys.readouterr().out


def test_a_ctm_of_one_speaker(tmp_path):
    (tmp_path / "segments").write_text("w0 long 0 16\nw1 long 8 24\n")
    (tmp_path / "hyp.ctm").write_text("w0 1 1.0 0.5 A\nw0 1 9.0 0.5 B\nw1 A 1.0 0.5 B\nw1 A 12.0 0.5 C\n")
    segments = ["--segments", str(tmp_path / "segments"), "--speaker", "me"]
    run(tmp_path, "merge", "--method", "overlapping", *segments, name="hyp.ctm")
    assert read_turns(tmp_path / "out") == [Turn("long", "me", ("A", "B", "C"))]


def test_joining_needs_no_command_and_no_model(tmp_path, capsys):
    """Whisper's output in windows that overlap by a quarter."""

    def window(start: float, *words: tuple[str, float]) -> dict:
        heard = [{"word": f" {word}", "start": at, "end": at + 1} for word, at in words]
        return {"start": start, "end": start + 16, "segments": [{"words": heard}]}

    windows = [window(0, ("So", 1), ("far,", 13)), window(12, ("far", 13), ("away.", 14))]
    (tmp_path / "long.json").write_text(json.dumps(windows))
    call(["stitch", str(tmp_path / "long.json"), "--output", str(tmp_path / "out.ctm")])
    lines = ["long 1 1.000 1.000 So 1.000 lex speaker", "long 1 13.000 1.000 far, 1.000 lex speaker"]
    assert (tmp_path / "out.ctm").read_text().splitlines() == [*lines, "long 1 14.000 1.000 away. 1.000 lex speaker"]
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "[00:00:01.000 --> 00:00:02.000] speaker: So",
        "[00:00:13.000 --> 00:00:15.000] speaker: far, away.",
    ]
    with pytest.raises(InputError, match=r"out.doc: end it in .json, .ctm, .txt"):
        call(["stitch", "join", str(tmp_path / "long.json"), "--output", "out.doc"])


def test_options_of_a_stitcher_that_is_not_there(tmp_path):
    (tmp_path / "long.json").write_text('{"segments": [{"start": 0, "end": 2, "text": "A B"}]}')
    long = str(tmp_path / "long.json")
    with pytest.raises(InputError, match="--guard limits what a stitcher may change: give its folder with --stitcher"):
        call(["stitch", long, "--guard", "0.3"])
    with pytest.raises(InputError, match=f"{tmp_path}/nowhere: no such folder: give that of a trained stitcher"):
        call(["stitch", long, "--stitcher", str(tmp_path / "nowhere")])
    write_jsonl(tmp_path / "hyp.jsonl", hypotheses("A B"))
    with pytest.raises(InputError, match="--guard limits"):
        run(tmp_path, "merge", "--method", "time_aware", "--guard", "0.3")


def test_advice_for_windows_that_overlap_by_a_quarter_ends(tmp_path):
    """Neither of the two methods of P4 can merge them; both name the one that can."""
    heard = [
        WindowHypothesis("r", 0, "a", ("A", "B"), 0.0, 16.0, ((1, 2), (13, 14))),
        WindowHypothesis("r", 1, "a", ("B", "C"), 12.0, 28.0, ((13, 14), (25, 26))),
    ]
    write_jsonl(tmp_path / "hyp.jsonl", heard)
    for method in ("block", "overlapping", "no"):
        with pytest.raises(InputError, match="--method time_aware"):
            run(tmp_path, "merge", "--method", method)
    run(tmp_path, "merge", "--method", "time_aware")
    assert read_turns(tmp_path / "out")[0].words == ("A", "B", "C")


def test_ids_that_join_to_the_same_id_are_refused(tmp_path):
    heard = [WindowHypothesis(*names, ("A",), 0.0, 16.0) for names in (("r--a", 0, "b"), ("r", 0, "a--b"))]
    write_jsonl(tmp_path / "hyp.jsonl", heard)
    with pytest.raises(InputError, match="have the same id r--a--b: rename a recording or a speaker"):
        run(tmp_path, "text", "--style", "wc")


def test_text_of_a_stitcher(tmp_path):
    write_jsonl(tmp_path / "hyp.jsonl", hypotheses("A B", "B C"))
    write_turns(tmp_path / "ref.json", [Turn("r", "a", ("A", "B", "C"), 0.0, 9.0)])
    run(tmp_path, "text", "--style", "alignment", "--references", str(tmp_path / "ref.json"))
    out = tmp_path / "out"
    assert read_table(out / "src_text") == {"r--a": "A <gap> B B <gap> C"}
    assert read_table(out / "text") == {"r--a": "A B C"}


def test_several_sets_at_once(tmp_path):
    for name, words in (("one", "A B"), ("two", "C")):
        write_jsonl(tmp_path / f"{name}.jsonl", hypotheses(words))
    words = ["stitch", "merge", "--method", "block"]
    for name in ("one", "two"):
        words += ["--hypotheses", str(tmp_path / f"{name}.jsonl"), "--output", str(tmp_path / f"{name}.json")]
    call(words)
    assert [read_turns(tmp_path / f"{name}.json")[0].words for name in ("one", "two")] == [("A", "B"), ("C",)]
    with pytest.raises(InputError, match="2 --hypotheses and 1 --output: give each its own"):
        call(words[:-2])


def test_windows_of_a_data_dir(tmp_path):
    write_data_dir(DataDir(wav_scp={"r": "r.wav"}, utt2spk={"r": "r"}, utt2dur={"r": "30"}), tmp_path / "data")
    options = ["--data", str(tmp_path / "data"), "--output", str(tmp_path / "windows"), "--window-overlap"]
    call(["stitch", "windows", *options, "0.25"])
    assert read_table(tmp_path / "windows" / "segments") == {
        "r-w00000": "r 0 16", "r-w00001": "r 12 28", "r-w00002": "r 24 30",
    }  # fmt: skip
    with pytest.raises(InputError, match="windows cannot overlap by 75 %"):
        call(["stitch", "windows", *options, "0.75"])


def test_simulated_hypotheses(tmp_path, capsys):
    write_turns(tmp_path / "ref.json", [Turn("r", "a", ("A", "B", "C"), 0.0, 20.0)])
    words = ["stitch", "simulate", "--references", str(tmp_path / "ref.json"), "--output"]
    for name, seed in (("one", "1"), ("same", "1"), ("other", "2")):
        call([*words, str(tmp_path / f"{name}.jsonl"), "--seed", seed, "--window", "8"])
    assert "hypotheses with simulated errors, written to" in capsys.readouterr().out
    made = [(tmp_path / f"{name}.jsonl").read_text() for name in ("one", "same", "other")]
    assert made[0] == made[1] and len(made[0].splitlines()) == 4


def test_a_stitcher_only_for_its_methods(tmp_path):
    write_jsonl(tmp_path / "hyp.jsonl", hypotheses("A B", "B C"))
    with pytest.raises(InputError, match="--method wc needs the folder of a trained stitcher: give --stitcher"):
        run(tmp_path, "merge", "--method", "wc")
    with pytest.raises(InputError, match="--method block has no trained model: leave out --stitcher"):
        run(tmp_path, "merge", "--method", "block", "--stitcher", str(tmp_path))

"""Lists in the formats of other toolkits, written after their documentation or by what
writes them there.
"""

import gzip
import json
import math
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.sources import read_lists
from espnet_ext.text.nbest import Hypothesis, NBest

LN10 = math.log(10)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def texts(lists: list[NBest]) -> dict[str, list[str]]:
    return {nbest.utt_id: [hyp.text for hyp in nbest.hyps] for nbest in lists}


def kaldi(folder: Path) -> Path:
    """nbest-to-linear writes integers into `words`; the scripts make `words_text` of
    them with int2sym.pl.
    """
    write(
        folder / "archives.1/words_text", "sp1.0-u-1-1 the cat \nsp1.0-u-1-2 a cat \n"
    )
    write(folder / "archives.1/acwt", "sp1.0-u-1-1 1000.5\nsp1.0-u-1-2 1010\n")
    write(folder / "archives.1/lmwt.withlm", "sp1.0-u-1-1 12.25\nsp1.0-u-1-2 10\n")
    write(folder / "archives.2/words_text", "v-1 \n")
    write(folder / "archives.2/acwt", "v-1 -3e2\n")
    write(folder / "archives.2/lmwt.withlm", "v-1 0\n")
    return folder


def test_kaldi(tmp_path):
    cat, empty = read_lists(kaldi(tmp_path))
    assert texts([cat, empty]) == {"sp1.0-u-1": ["the cat", "a cat"], "v": [""]}
    assert cat.hyps[0].scores == {"acoustic": -1000.5, "lm": -12.25}
    assert [hyp.score for hyp in cat.hyps] == pytest.approx([-112.3, -111.0])
    assert read_lists(tmp_path / "archives.1", form="kaldi") == [cat]


def test_srilm(tmp_path):
    """nbest-format(5): the three formats, one file per utterance."""
    write(
        tmp_path / "u1.nbest", "-100.5 -3.25 4 <s> the cat sat </s>\n-101 -2 3 a cat\n"
    )
    packed = b"NBestList1.0\n(-7166) hello world\n(-7260)  hello\n"
    (tmp_path / "u2.gz").write_bytes(gzip.compress(packed))
    write(
        tmp_path / "u3",
        "NBestList2.0\n(-20) <s> ( st: 0.0 et: 0.3 g: 0 a: -10 ) yes ( st: 0.31 "
        "et: 0.6 g: -5 a: -30 )\n",
    )
    write(tmp_path / "u4.score", "-1 -2 1 no\n")
    write(tmp_path / ".u5.swp", "\0")
    lists = read_lists(tmp_path)
    found = {
        "u1": ["the cat sat", "a cat"],
        "u2": ["hello world", "hello"],
        "u3": ["yes"],
        "u4": ["no"],
    }
    assert texts(lists) == found
    first = lists[0].hyps[0]
    assert first.scores == pytest.approx(
        {"acoustic": -100.5 * LN10, "lm": -3.25 * LN10, "words": 4}
    )
    assert first.score == pytest.approx(-103.75 * LN10)
    # a bytelog is a logarithm to the base 1.0001, divided by 1024
    assert lists[1].hyps[0].score == pytest.approx(
        -7166 * 1024 * math.log(1.0001), rel=1e-4
    )


def nemo(folder: Path, lines: int = 6) -> Path:
    """eval_beamsearch_ngram_ctc.py writes beam_width lines per utterance of the
    manifest.
    """
    manifest = [
        {"audio_filepath": f"/data/{n}.wav", "duration": 1.0, "text": f"text {n}"}
        for n in "ba"
    ]
    write(folder / "test.json", "".join(json.dumps(line) + "\n" for line in manifest))
    beams = [f"text {n}{'!' * k}\t{-1.5 - k}\n" for n in "ba" for k in range(3)]
    return write(
        folder / "preds_out_width3_alpha1.0_beta0.0.tsv", "".join(beams[:lines])
    )


def test_nemo(tmp_path):
    lists = read_lists(nemo(tmp_path))
    assert texts(lists) == {
        "b": ["text b", "text b!", "text b!!"],
        "a": ["text a", "text a!", "text a!!"],
    }
    assert [nbest.ref for nbest in lists] == ["text b", "text a"]
    assert [hyp.score for hyp in lists[0].hyps] == [-1.5, -2.5, -3.5]
    assert read_lists(tmp_path) == lists


def test_nemo_transducers(tmp_path):
    """The width is in the name; costs rise; a list that is short is found only where
    scores say where each begins.
    """
    nemo(tmp_path).unlink()
    name = "preds_out_maes_bw3_ma2_mg2.3_ba0.5.tsv"
    path = write(tmp_path / name, "a\t-1\nb\t-2\nc\t-3\nd\t-0.5\n")
    assert texts(read_lists(tmp_path)) == {"b": ["a", "b", "c"], "a": ["d"]}
    costs = "a\t1\nb\t2\nc\t3\nd\t0.5\ne\t0.7\nf\t9\n"
    write(tmp_path / name, costs)
    lists = read_lists(path)
    assert [hyp.score for hyp in lists[1].hyps] == [-0.5, -0.7, -9.0]
    for text in (
        "a\t-1\nb\t-2\nd\t-3\ne\t-4\n",  # of 3 and 1, or 2 and 2, or 1 and 3
        "a\t-1\nb\t-3\nc\t-2\nd\t-1\ne\t-2\nf\t-3\n",  # neither falls nor rises
    ):
        write(tmp_path / name, text)
        with pytest.raises(InputError, match=name):
            read_lists(tmp_path)
    write(tmp_path / "other" / "preds_out_x.tsv", costs)
    write(tmp_path / "other" / "m.json", (tmp_path / "test.json").read_text())
    with pytest.raises(InputError, match="no width"):
        read_lists(tmp_path / "other", form="nemo")


def test_wenet(tmp_path):
    """decoder_main leaves out empty sentences: an utterance may have none."""
    path = write(
        tmp_path / "result",
        "wav BAC1\ncandidate -3.5 你好 世界\ncandidate -4.25 你 世界\nwav BAC2\n",
    )
    lists = read_lists(path)
    assert lists[0] == NBest(
        "BAC1", (Hypothesis("你好 世界", -3.5), Hypothesis("你 世界", -4.25))
    )
    assert lists[1] == NBest("BAC2", (Hypothesis("", 0.0),))


def recogs(results: list[tuple[str, list[str], list[str]]]) -> str:
    """What icefall.utils.store_transcripts prints."""
    return "".join(
        f"{cut}:\tref={ref}\n{cut}:\thyp={hyp}\n" for cut, ref, hyp in results
    )


def test_icefall(tmp_path):
    ref = ["IT'S", "SO"]
    write(
        tmp_path / "recogs-test-beam_4.txt",
        recogs([("u-1", ref, ["ITS", "SO"]), ("u-0", ["A"], [])]),
    )
    write(
        tmp_path / "recogs-test-lm_0.5.txt",
        recogs([("u-1", ref, ref), ("u-0", ["A"], [])]),
    )
    write(tmp_path / "errs-test-beam_4.txt", "not read")
    assert read_lists(tmp_path) == [
        NBest("u-0", (Hypothesis("", 0.0),), "A"),
        NBest(
            "u-1", (Hypothesis("ITS SO", 0.0), Hypothesis("IT'S SO", 0.0)), "IT'S SO"
        ),
    ]
    assert texts(read_lists(tmp_path / "recogs-test-beam_4.txt"))["u-1"] == ["ITS SO"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recogs-x.txt.gz", recogs([("u", ["A"], ["A"])])),
        ("result.gz", "wav u\ncandidate 0 A\n"),
    ],
)
def test_gzipped_lists_of_any_decoder(tmp_path, name, text):
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    assert texts(read_lists(tmp_path / name)) == {"u": ["A"]}


def test_timestamps_of_icefall_are_skipped(tmp_path):
    """What icefall.utils.store_transcripts_and_timestamps prints besides."""
    text = recogs([("u-1", ["A", "CAT"], ["A"])])
    text += "u-1:\ttimestamp_ref=[0.16, 0.52]\nu-1:\ttimestamp_hyp=[(0.2,0.24)]\n"
    (nbest,) = read_lists(
        write(tmp_path / "recogs-x.txt", text + recogs([("u-2", ["B"], ["B"])]))
    )[:1]
    assert (nbest.utt_id, nbest.ref, nbest.hyps[0].text) == ("u-1", "A CAT", "A")


def segment(seek: int, text: str, tokens: int, mean: float) -> dict:
    """The fields of faster_whisper.transcribe.Segment 1.2."""
    heard = {
        "start": 0.0,
        "end": 1.0,
        "text": text,
        "tokens": list(range(tokens)),
        "words": None,
    }
    measured = {
        "avg_logprob": mean,
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
        "temperature": 0.0,
    }
    return {"id": 1, "seek": seek, **heard, **measured}


def test_whisper(tmp_path):
    """Two segments of one window share its mean; the score is the sum over the windows'
    tokens and end tokens.
    """
    segments = [
        segment(0, " The cat", 3, -0.5),
        segment(0, " sat.", 2, -0.5),
        segment(3000, " Yes.", 4, -0.25),
    ]
    write(
        tmp_path / "u1.json",
        json.dumps(
            {"text": " The cat sat. Yes.", "segments": segments, "language": "en"}
        ),
    )
    write(
        tmp_path / "u2.json", json.dumps({"text": "", "segments": [], "language": "en"})
    )
    lists = read_lists(tmp_path)
    assert texts(lists) == {"u1": ["The cat sat. Yes."], "u2": [""]}
    assert lists[0].hyps[0].score == pytest.approx(-0.5 * 6 - 0.25 * 5)


def test_a_transcript_without_segments_is_ranked_last(tmp_path):
    """It has no score, and 0 would be the highest."""
    write(tmp_path / "tiny" / "u.json", json.dumps({"text": "", "segments": []}))
    write(tmp_path / "base" / "u.json", json.dumps([segment(0, " The cat.", 3, -0.5)]))
    assert texts(read_lists(tmp_path)) == {"u": ["The cat.", ""]}


def test_several_decodings_by_faster_whisper_are_ranked(tmp_path):
    for name, text, mean in (("large", " Cats.", -0.2), ("tiny", " Cat.", -0.1)):
        write(tmp_path / name / "u.json", json.dumps([segment(0, text, 3, mean)]))
    (nbest,) = read_lists(tmp_path)
    assert [(hyp.text, round(hyp.score, 6)) for hyp in nbest.hyps] == [
        ("Cat.", -0.4),
        ("Cats.", -0.8),
    ]
    (tmp_path / "notes.txt").write_text("what was decoded how")
    (tmp_path / "log").mkdir()
    assert read_lists(tmp_path) == [nbest]


def test_a_silent_recording_and_a_name_with_blanks(tmp_path):
    write(tmp_path / "a talk.json", "[]")
    write(tmp_path / "my talk.json", json.dumps([segment(0, " Yes.", 3, -0.1)]))
    assert texts(read_lists(tmp_path)) == {"a_talk": [""], "my_talk": ["Yes."]}
    write(tmp_path / "silent" / "a.json", "[]")
    assert texts(read_lists(tmp_path / "silent")) == {"a": [""]}


def three(ids: str) -> dict[str, str]:
    """Kaldi's tables with the same lines."""
    return {f"archives.1/{name}": ids for name in ("words_text", "acwt", "lmwt.withlm")}


NEMO = {
    "test.json": '{"audio_filepath": "/data/a.wav", "text": "a"}\n',
    "preds_out_width2_x.tsv": "a\t-1\nb\t-2\n",
}


@pytest.mark.parametrize(
    ("form", "files", "where"),
    [
        (
            "kaldi",
            {**three("u-1 1\nu-2 2\n"), "archives.1/acwt": "u-1 1\n"},
            "archives.1: u-2",
        ),
        (
            "kaldi",
            {**three("u-1 1\n"), "archives.1/acwt": "u-1 x\n"},
            "archives.1: u-1",
        ),
        (
            "kaldi",
            {**three("u-1 1\n"), "archives.1/acwt": "u-1 nan\n"},
            ": u: hypothesis 1",
        ),
        ("kaldi", three("u-1 1\nu-3 1\n"), ": u: ranks are"),
        ("kaldi", three("u 1\n"), "archives.1/words_text: u"),
        (
            "kaldi",
            {"archives.1/words_text": "u-1 a\n", "archives.1/acwt": "u-1 1\n"},
            "lmwt.withlm: no such",
        ),
        ("srilm", {"u1": "-1 -2 x a\n"}, "u1: line 1"),
        ("srilm", {"u1": "NBestList1.0\n-7166 a\n"}, "u1: line 2"),
        ("srilm", {"u1": "NBestList9.9\n(1) a\n"}, "u1: NBestList9.9"),
        ("srilm", {"u1": ""}, "u1: empty"),
        (
            "srilm",
            {"u1": "-1 -2 1 a\n", "u1.nbest": "-1 -2 1 a\n"},
            ": u1 has two files",
        ),
        (
            "nemo",
            {**NEMO, "preds_out_width2_x.tsv": "a\t-1\nb\t-2\nc\t-3\n"},
            "preds_out_width2_x.tsv: 3 lines are not 2",
        ),
        (
            "nemo",
            {**NEMO, "preds_out_width2_x.tsv": "a -1\nb -2\n"},
            "preds_out_width2_x.tsv: line 1",
        ),
        (
            "nemo",
            {**NEMO, "test.json": '{"audio_filepath": "/data/a.wav", "text": 5}\n'},
            "test.json: line 1",
        ),
        ("nemo", {**NEMO, "other.json": "{}"}, ": 2 files"),
        ("wenet", {"": "wav a\nI1122 log\n"}, ": line 2"),
        ("wenet", {"": "wav a\ncandidate -1 x\nwav a \n"}, ": line 3"),
        ("wenet", {"": "wav a\ncandidate much x\n"}, ": line 2"),
        ("icefall", {"recogs-x.txt": "u:\tref=['A']\n"}, ": u has no"),
        ("icefall", {"recogs-x.txt": "u: ref=['A']\n"}, "recogs-x.txt: line 1"),
        (
            "icefall",
            {"recogs-x.txt": "u:\tref=[__import__('os')]\n"},
            "recogs-x.txt: line 1",
        ),
        (
            "icefall",
            {"recogs-x.txt": "u:\tref=['A']\nu:\tref=['A']\n"},
            "recogs-x.txt: line 2: u",
        ),
        (
            "icefall",
            {
                "recogs-1.txt": recogs([("u", ["A"], ["A"])]),
                "recogs-2.txt": recogs([("u", ["B"], ["A"])]),
            },
            "recogs-2.txt: line 1: u",
        ),
        (
            "icefall",
            {
                "recogs-1.txt": recogs([("u", [], []), ("v", [], [])]),
                "recogs-2.txt": recogs([("u", [], [])]),
            },
            "recogs-2.txt: lacks v",
        ),
        (
            "whisper",
            {"u.json": json.dumps([segment(0, "a", 3, math.nan)])},
            ": u: hypothesis 1",
        ),
        (
            "whisper",
            {"u.json": json.dumps({"segments": [{"text": "a", "seek": 0}]})},
            "u.json: segment 1",
        ),
        (
            "whisper",
            {"1/u.json": "[]", "2/u.json": "[]", "2/v.json": "[]"},
            "2: v is not in all",
        ),
        (
            "whisper",
            {"my talk.json": "[]", "my_talk.json": "[]"},
            "my_talk.json: another file",
        ),
        ("whisper", {"u.json": "{"}, "u.json: not JSON"),
        (
            "whisper",
            {"u.json": '[{"text": "a", "text": "b"}]'},
            "u.json: text comes twice",
        ),
    ],
)
def test_what_is_refused_with_file_and_place(tmp_path, form, files, where):
    for name, text in files.items():
        write(tmp_path / "lists" / name if name else tmp_path / "lists", text)
    with pytest.raises(InputError) as caught:
        read_lists(tmp_path / "lists", form=form)
    assert (
        where in str(caught.value)
        and str(tmp_path) in str(caught.value)
        and "\n" not in str(caught.value)
    )

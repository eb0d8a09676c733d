"""Lists in the formats of other toolkits, written after their documentation or by what writes them there."""

import gzip
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.nbest.sources import read_lists

LN10 = math.log(10)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def texts(lists: list[NBest]) -> dict[str, list[str]]:
    return {nbest.utt_id: [hyp.text for hyp in nbest.hyps] for nbest in lists}


def kaldi(folder: Path) -> Path:
    """nbest-to-linear writes integers into `words`; the scripts make `words_text` of them with int2sym.pl."""
    write(folder / "archives.1/words_text", "sp1.0-u-1-1 the cat \nsp1.0-u-1-2 a cat \n")
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


def test_costs_of_kaldi_without_the_language_model_do_not_pass_for_those_with_it(tmp_path):
    """steps/rnnlmrescore.sh takes the old model out of lmwt.nolm."""
    (kaldi(tmp_path) / "archives.1" / "lmwt.withlm").rename(tmp_path / "archives.1" / "lmwt.nolm")
    with pytest.raises(InputError, match="archives.1/lmwt.withlm: no such file"):
        read_lists(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("acwt", "sp1.0-u-1-1 1\n", "sp1.0-u-1-2 is in only one of words_text and acwt"),
        ("acwt", "sp1.0-u-1-1 1\nsp1.0-u-1-2 x\n", "'x' is not a score"),
        ("words_text", "sp1.0-u-1-1 a\nsp1.0-u-1-3 b\n", "only one of words_text"),
        ("acwt", "sp1.0-u-1-1 1\nsp1.0-u-1-2 nan\n", "score is nan"),
    ],
)
def test_faults_of_kaldi(tmp_path, file, text, message):
    write(kaldi(tmp_path) / "archives.1" / file, text)
    with pytest.raises(InputError, match=message):
        read_lists(tmp_path)


def test_ranks_of_kaldi(tmp_path):
    for name in ("words_text", "acwt", "lmwt.withlm"):
        write(tmp_path / "archives.1" / name, "u-1 1\nu-3 1\n")
    with pytest.raises(InputError, match=r"u: its ranks are \[1, 3\], not 1 to 2"):
        read_lists(tmp_path)
    for name in ("words_text", "acwt", "lmwt.withlm"):
        write(tmp_path / "archives.1" / name, "utterance 1\n")
    with pytest.raises(InputError, match="utterance is not an id such as utt1-1"):
        read_lists(tmp_path)


def test_srilm(tmp_path):
    """nbest-format(5): the three formats, one file per utterance."""
    write(tmp_path / "u1.nbest", "-100.5 -3.25 4 <s> the cat sat </s>\n-101 -2 3 a cat\n")
    packed = b"NBestList1.0\n(-7166) hello world\n(-7260)  hello\n"
    (tmp_path / "u2.gz").write_bytes(gzip.compress(packed))
    write(
        tmp_path / "u3",
        "NBestList2.0\n(-2000) <s> ( st: 0.00 et: 0.30 g: 0 a: -10 ) yes ( st: 0.31 et: 0.60 g: -5 a: -300 )\n",
    )
    write(tmp_path / "u4.score", "-1 -2 1 no\n")
    write(tmp_path / ".u5.swp", "\0")
    lists = read_lists(tmp_path)
    found = {"u1": ["the cat sat", "a cat"], "u2": ["hello world", "hello"], "u3": ["yes"], "u4": ["no"]}
    assert texts(lists) == found
    first = lists[0].hyps[0]
    assert first.scores == pytest.approx({"acoustic": -100.5 * LN10, "lm": -3.25 * LN10, "words": 4})
    assert first.score == pytest.approx(-103.75 * LN10)
    # a bytelog is a logarithm to the base 1.0001, divided by 1024
    assert lists[1].hyps[0].score == pytest.approx(-7166 * 1024 * math.log(1.0001), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1 -2 x a\n", "line 1 is not `acoustic-score lm-score number-of-words"),
        ("NBestList1.0\n-7166 a\n", "line 2 is not `.score. word"),
        ("NBestList9.9\n(1) a\n", "NBestList9.9: only NBestList1.0, NBestList2.0"),
        ("", "empty file"),
    ],
)
def test_faults_of_srilm(tmp_path, text, message):
    write(tmp_path / "u1", text)
    with pytest.raises(InputError, match=message):
        read_lists(tmp_path, form="srilm")


def test_two_files_of_an_utterance_are_refused(tmp_path):
    for name in ("u1", "u1.nbest"):
        write(tmp_path / name, "-1 -2 1 a\n")
    with pytest.raises(InputError, match="u1 has two files, u1.nbest and another one"):
        read_lists(tmp_path, form="srilm")


def nemo(folder: Path, lines: int = 6) -> Path:
    """eval_beamsearch_ngram_ctc.py writes beam_width lines per utterance of the manifest."""
    manifest = [{"audio_filepath": f"/data/{n}.wav", "duration": 1.0, "text": f"text {n}"} for n in "ba"]
    write(folder / "test.json", "".join(json.dumps(line) + "\n" for line in manifest))
    beams = [f"text {n}{'!' * k}\t{-1.5 - k}\n" for n in "ba" for k in range(3)]
    return write(folder / "preds_out_width3_alpha1.0_beta0.0.tsv", "".join(beams[:lines]))


def test_nemo(tmp_path):
    lists = read_lists(nemo(tmp_path))
    assert texts(lists) == {"b": ["text b", "text b!", "text b!!"], "a": ["text a", "text a!", "text a!!"]}
    assert [nbest.ref for nbest in lists] == ["text b", "text a"]
    assert [hyp.score for hyp in lists[0].hyps] == [-1.5, -2.5, -3.5]
    assert read_lists(tmp_path) == lists


def test_faults_of_nemo(tmp_path):
    message = "5 lines are not 3 for each of the 2 utterances .* fewer than 3 hypotheses.*: decode with a smaller beam_"
    with pytest.raises(InputError, match=message):
        read_lists(nemo(tmp_path, 5))
    beams = nemo(tmp_path, 5).rename(tmp_path / "beams.tsv")
    with pytest.raises(InputError, match="5 lines are no multiple of the 2 utterances"):
        read_lists(beams, form="nemo")
    beams.unlink()
    beams = nemo(tmp_path)
    beams.write_text(beams.read_text().replace("\t", " "))
    with pytest.raises(InputError, match="line 1 is not text and score"):
        read_lists(beams)
    write(tmp_path / "test.json", '{"audio_filepath": "/data/a.wav", "text": 5}\n')
    with pytest.raises(InputError, match="line 1: text is 5, and must be a string"):
        read_lists(beams)
    write(tmp_path / "other.json", "{}")
    with pytest.raises(InputError, match=r"2 files \*.json, but one is needed"):
        read_lists(beams)


def test_wenet(tmp_path):
    """decoder_main leaves out empty sentences: an utterance may have none."""
    path = write(tmp_path / "result", "wav BAC1\ncandidate -3.5 你好 世界\ncandidate -4.25 你 世界\nwav BAC2\n")
    lists = read_lists(path)
    assert lists[0] == NBest("BAC1", (Hypothesis("你好 世界", -3.5), Hypothesis("你 世界", -4.25)))
    assert lists[1] == NBest("BAC2", (Hypothesis("", 0.0),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wav a\nI1122 log\n", "line 2 is not a new"),
        ("wav a\ncandidate -1 x\nwav a\n", "line 3 is not a new"),
        ("wav a\ncandidate -1 x\nwav a \n", "line 3 is not a new"),
        ("wav a\ncandidate much x\n", "line 2: 'much' is not a score"),
    ],
)
def test_faults_of_wenet(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_lists(write(tmp_path / "result", text))


def recogs(results: list[tuple[str, list[str], list[str]]]) -> str:
    """What icefall.utils.store_transcripts prints."""
    return "".join(f"{cut}:\tref={ref}\n{cut}:\thyp={hyp}\n" for cut, ref, hyp in results)


def test_icefall(tmp_path):
    ref = ["IT'S", "SO"]
    write(tmp_path / "recogs-test-beam_4.txt", recogs([("u-1", ref, ["ITS", "SO"]), ("u-0", ["A"], [])]))
    write(tmp_path / "recogs-test-lm_0.5.txt", recogs([("u-1", ref, ref), ("u-0", ["A"], [])]))
    write(tmp_path / "errs-test-beam_4.txt", "not read")
    assert read_lists(tmp_path) == [
        NBest("u-0", (Hypothesis("", 0.0),), "A"),
        NBest("u-1", (Hypothesis("ITS SO", 0.0), Hypothesis("IT'S SO", 0.0)), "IT'S SO"),
    ]
    assert texts(read_lists(tmp_path / "recogs-test-beam_4.txt"))["u-1"] == ["ITS SO"]


def test_decodings_of_icefall_with_other_references_are_refused(tmp_path):
    write(tmp_path / "recogs-x-1.txt", recogs([("u", ["A"], ["A"])]))
    write(tmp_path / "recogs-x-2.txt", recogs([("u", ["B"], ["A"])]))
    with pytest.raises(InputError, match="line 1: u has another reference than before"):
        read_lists(tmp_path)


def test_a_decoding_of_icefall_that_lacks_a_cut_is_refused(tmp_path):
    write(tmp_path / "recogs-x-1.txt", recogs([("u", ["A"], ["A"]), ("v", ["B"], ["B"])]))
    write(tmp_path / "recogs-x-2.txt", recogs([("u", ["A"], ["AN"])]))
    with pytest.raises(InputError, match="recogs-x-2.txt: lacks v, which another decoding has"):
        read_lists(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recogs-x.txt.gz", recogs([("u", ["A"], ["A"])])),
        ("result.gz", "wav u\ncandidate 0 A\n"),
        ("am.json.gz", '{"u": {"ref": "A", "hyp_1": {"score": 0, "text": "A"}}}'),
    ],
)
def test_gzipped_lists_of_any_decoder(tmp_path, name, text):
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    assert texts(read_lists(tmp_path / name)) == {"u": ["A"]}


def test_timestamps_of_icefall_are_skipped(tmp_path):
    """What icefall.utils.store_transcripts_and_timestamps prints besides."""
    text = recogs([("u-1", ["A", "CAT"], ["A"])])
    text += "u-1:\ttimestamp_ref=[0.16, 0.52]\nu-1:\ttimestamp_hyp=[(0.2,0.24)]\n"
    (nbest,) = read_lists(write(tmp_path / "recogs-x.txt", text + recogs([("u-2", ["B"], ["B"])])))[:1]
    assert (nbest.utt_id, nbest.ref, nbest.hyps[0].text) == ("u-1", "A CAT", "A")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u:\tref=['A']\n", "u has no reference or no hypothesis"),
        ("u: ref=['A']\n", "line 1 is not `CUT:<TAB>ref="),
        ("u:\tref=[__import__('os')]\n", "line 1 is not `CUT"),
        ("u:\tref=['A']\nu:\tref=['A']\nu:\thyp=['A']\n", "line 2: u comes twice in this decoding"),
    ],
)
def test_faults_of_icefall(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_lists(write(tmp_path / "recogs-x.txt", text))


@dataclass
class Segment:
    """The fields of faster_whisper.transcribe.Segment 1.2."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: None
    temperature: float


def segment(seek: int, text: str, tokens: int, mean: float) -> dict:
    return asdict(Segment(1, seek, 0.0, 1.0, text, list(range(tokens)), mean, 1.0, 0.0, None, 0.0))


def test_whisper(tmp_path):
    """Two segments of one window share its mean; the score is the sum over the windows' tokens and end tokens."""
    segments = [segment(0, " The cat", 3, -0.5), segment(0, " sat.", 2, -0.5), segment(3000, " Yes.", 4, -0.25)]
    write(tmp_path / "u1.json", json.dumps({"text": " The cat sat. Yes.", "segments": segments, "language": "en"}))
    write(tmp_path / "u2.json", json.dumps({"text": "", "segments": [], "language": "en"}))
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
    assert [(hyp.text, round(hyp.score, 6)) for hyp in nbest.hyps] == [("Cat.", -0.4), ("Cats.", -0.8)]
    (tmp_path / "notes.txt").write_text("what was decoded how")
    (tmp_path / "log").mkdir()
    assert read_lists(tmp_path) == [nbest]
    write(tmp_path / "tiny" / "v.json", json.dumps([segment(0, "a", 3, -1.0)]))
    with pytest.raises(InputError, match="v is not in all of the decodings"):
        read_lists(tmp_path)


def test_a_silent_recording_and_a_name_with_blanks(tmp_path):
    write(tmp_path / "a talk.json", "[]")
    write(tmp_path / "my talk.json", json.dumps([segment(0, " Yes.", 3, -0.1)]))
    assert texts(read_lists(tmp_path)) == {"a_talk": [""], "my_talk": ["Yes."]}
    write(tmp_path / "my_talk.json", "[]")
    with pytest.raises(InputError, match="my talk.json: another file has this name but for blanks: rename one"):
        read_lists(tmp_path)
    write(tmp_path / "silent" / "a.json", "[]")
    assert texts(read_lists(tmp_path / "silent")) == {"a": [""]}


def test_faults_of_whisper(tmp_path):
    with pytest.raises(InputError, match="none: no such file or folder: give what whisper"):
        read_lists(tmp_path / "none", form="whisper")
    write(tmp_path / "u.json", json.dumps([segment(0, "a", 3, math.nan)]))
    with pytest.raises(InputError, match=f"{tmp_path}: u: hypothesis 1: score is nan"):
        read_lists(tmp_path)
    write(tmp_path / "u.json", json.dumps({"segments": [{"text": "a", "seek": 0}]}))
    with pytest.raises(InputError, match="u.json: segment 1 lacks seek, tokens or avg_logprob"):
        read_lists(tmp_path)

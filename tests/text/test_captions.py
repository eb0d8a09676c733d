"""Captions of many makers, and captions that we write: every word once, each under the
right name.
"""

import random

import pytest

from espnet_ext.errors import InputError
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_transcript

T1, T2, T3, T4 = (f"00:00:0{n},000 --> 00:00:0{n + 1},000" for n in range(1, 5))


def vtt(text: str) -> str:
    return "WEBVTT\n\n" + text.replace(",000", ".000")


def srt(*cues: str) -> str:
    times = (T1, T2, T3, T4)
    return "\n".join(
        f"{number}\n{times[number - 1]}\n{text}\n"
        for number, text in enumerate(cues, 1)
    )


ROLLING = vtt(
    f"{T1} align:start position:0%\n \nhello<00:00:01.400><c> there</c>\n\n"
    f"00:00:02.000 --> 00:00:02.010\nhello there\n \n\n"
    f"00:00:02.010 --> 00:00:03.000\nhello there\nfine<00:00:02.500><c> day</c>\n\n"
    f"00:00:03.000 --> 00:00:03.010\nfine day\n \n"
)
# What a name says: file name, its content, and (speaker, words) of what is said.
READ = {
    "rolling": ("a.vtt", ROLLING, [("", "hello there"), ("", "fine day")]),
    "rolling, as SRT": (
        "a.srt",
        srt("one two", "one two\nthree", "three\nfour five", "four five"),
        [("", "one two"), ("", "three"), ("", "four five")],
    ),
    "three lines that roll up": (
        "a.srt",
        srt("a b\nc", "c\nd e", "c\nd e\nf", "d e\nf\ng"),
        [("", "a b c"), ("", "d e"), ("", "f"), ("", "g")],
    ),
    "words that grow": (
        "a.srt",
        srt("so", "so we", "so we go", "and back"),
        [("", "so"), ("", "we"), ("", "go"), ("", "and back")],
    ),
    "people who repeat themselves": (
        "a.srt",
        srt("no", "no", "no way", "yes"),
        [("", "no"), ("", "no"), ("", "no way"), ("", "yes")],
    ),
    "two cues that grow are no rolling captions": (
        "a.srt",
        srt("no", "no way"),
        [("", "no"), ("", "no way")],
    ),
    "a highlight that moves": (
        "a.srt",
        srt("<u>so</u> we go", "so <u>we</u> go", "so we <u>go</u>"),
        [("", "so we go")],
    ),
    "a highlight with gaps, said twice": (
        "a.vtt",
        vtt(
            f"{T1}\n<font color=red>no</font> no\n\n{T2}\nno no\n\n"
            f"{T3}\nno <font color=red>no</font>\n\n"
            f"{T4}\n<font color=red>no</font> no\n"
        ),
        [("", "no no"), ("", "no no")],
    ),
    "italics are no highlight": (
        "a.srt",
        srt("<i>no</i>", "no"),
        [("", "no"), ("", "no")],
    ),
    "words in angle brackets": (
        "a.srt",
        srt(
            "the <unk> cat", "a < b and c > d", "<v-noise> {x} <noise>", "AT&T &amp; x"
        ),
        [
            ("", "the <unk> cat"),
            ("", "a < b and c > d"),
            ("", "<v-noise> {x} <noise>"),
            ("", "AT&T & x"),
        ],
    ),
    "markup": (
        "a.srt",
        srt("{\\an8}<i>the</i> <font color='#ff'>cat</font><br>sat <c.red>down</c>"),
        [("", "the cat sat down")],
    ),
    "names with blanks": (
        "a.srt",
        srt("Ann Lee: hello", "Bob: bye", "Ann Lee: so: yes"),
        [("Ann Lee", "hello"), ("Bob", "bye"), ("Ann Lee", "so: yes")],
    ),
    "one cue with a name of two words": (
        "a.srt",
        srt("Ann Lee: hello"),
        [("Ann Lee", "hello")],
    ),
    "one cue with a word and a colon": (
        "a.srt",
        srt("So: what now"),
        [("", "So: what now")],
    ),
    "sentences with colons": (
        "a.srt",
        srt("what I mean: yes", "but one thing: no"),
        [("", "what I mean: yes"), ("", "but one thing: no")],
    ),
    "names in brackets": (
        "a.srt",
        srt("[SPEAKER_00]: hello", "[SPEAKER_01]: bye\n[SPEAKER_00]: see you", "oh"),
        [
            ("SPEAKER_00", "hello"),
            ("SPEAKER_01", "bye"),
            ("SPEAKER_00", "see you"),
            ("", "oh"),
        ],
    ),
    "sounds in brackets": ("a.srt", srt("[music] hello"), [("", "[music] hello")]),
    "two names in a cue": (
        "a.srt",
        srt("Ann: hi\nBob: hello", "Bob: bye"),
        [("Ann", "hi"), ("Bob", "hello"), ("Bob", "bye")],
    ),
    "two voices in a cue": (
        "a.vtt",
        vtt(
            f"{T1}\n<v Ann Lee>hello</v> <v.loud Bob>bye</v>\n\n"
            f"{T2}\n<v Bob>so\nyes\n"
        ),
        [("Ann Lee", "hello"), ("Bob", "bye"), ("Bob", "so yes")],
    ),
    "voices that repeat each other": (
        "a.vtt",
        vtt(f"{T1}\n<v Ann>no\n\n{T2}\n<v Bob>no way\n\n{T3}\n<v Ann>no way out\n"),
        [("Ann", "no"), ("Bob", "no way"), ("Ann", "no way out")],
    ),
    "no milliseconds, another arrow, other digits": (
        "a.srt",
        "1\n00:00:01 --> 00:00:02\none\n\n2\n00:00:02,5 -> 00:00:03,75\ntwo\n\n"
        "3\n0:04 --> 0:05.25\nthree\n",
        [("", "one"), ("", "two"), ("", "three")],
    ),
    "names in brackets, close or without a colon": (
        "a.srt",
        srt("[SPEAKER_00]:hello", "[SPEAKER_01] bye"),
        [("SPEAKER_00", "hello"), ("SPEAKER_01", "bye")],
    ),
    "an empty line after each": (
        "a.srt",
        srt("one", "two").replace("\n", "\n\n"),
        [("", "one"), ("", "two")],
    ),
    "line ends written twice": (
        "b.srt",
        srt("one", "two").replace("\n", "\r\r\n"),
        [("", "one"), ("", "two")],
    ),
    "letters between angle brackets": (
        "a.srt",
        srt("if a<b and c>d", "i<b and b>c", "x <y z> w"),
        [("", "if a<b and c>d"), ("", "i<b and b>c"), ("", "x <y z> w")],
    ),
    "vertical tabs": ("a.srt", srt("one\x0b\x0btwo"), [("", "one two")]),
    "an empty line within": (
        "a.srt",
        srt("one\n\ntwo", "six"),
        [("", "one two"), ("", "six")],
    ),
    "numerals": (
        "a.srt",
        srt("call\n42", "7", "9\n\n10"),
        [("", "call 42"), ("", "7"), ("", "9 10")],
    ),
    "an unnumbered cue after a numeral": (
        "a.vtt",
        vtt(f"{T1}\ncall\n42\n{T2}\nsix\n"),
        [("", "call 42"), ("", "six")],
    ),
    "unnumbered throughout": (
        "a.srt",
        f"{T1}\ncall\n42\n\n{T2}\n43\n{T3}\nsix\n",
        [("", "call 42"), ("", "43"), ("", "six")],
    ),
    "numbers without empty lines": (
        "a.srt",
        f"1\n{T1}\none\n3\n{T2}\ntwo\n4\n{T3}\nsix\n",
        [("", "one"), ("", "two"), ("", "six")],
    ),
    "identifiers and notes": (
        "a.vtt",
        vtt(f"NOTE x\ny\n\nintro\n{T1}\none\n\nSTYLE\n::cue {{}}\n\nb-2\n{T2}\nsix\n"),
        [("", "one"), ("", "six")],
    ),
    "backwards and negative": (
        "a.srt",
        "1\n00:00:03,000 --> 00:00:01,000\none\n\n"
        "2\n00:00:-3,000 --> 00:00:05,000\ntwo\n",
        [("", "one"), ("", "two")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_said(tmp_path, case):
    name, text, expected = READ[case]
    (tmp_path / name).write_text(text)
    found = read_segments(tmp_path / name)
    assert [(turn.speaker, turn.text) for turn in found] == expected
    if name == "a.srt":
        (tmp_path / "b").write_text(text)
        again = read_segments(tmp_path / "b")
        assert [turn.text for turn in again] == [turn.text for turn in found]


def test_times_that_are_none_are_named(tmp_path, capsys):
    (tmp_path / "a.srt").write_text(READ["backwards and negative"][1])
    found = read_segments(tmp_path / "a.srt")
    assert not any(turn.has_span for turn in found)
    (line,) = capsys.readouterr().err.splitlines()
    assert "a.srt: line 2" in line


def test_a_line_of_no_cue_is_named(tmp_path, capsys):
    (tmp_path / "a.vtt").write_text(vtt(f"{T1}\none\n\ntwo\n\n{T2}\nsix\n"))
    read_segments(tmp_path / "a.vtt")
    assert "a.vtt: line 6" in capsys.readouterr().err


def test_names_that_are_taken_are_named(tmp_path, capsys):
    (tmp_path / "a.srt").write_text(srt("So: what now", "So: what then"))
    assert [turn.speaker for turn in read_segments(tmp_path / "a.srt")] == ["So", "So"]
    (line,) = capsys.readouterr().err.splitlines()
    assert "a.srt" in line and "So:" in line


@pytest.mark.parametrize(
    "times",
    [
        "00:00:01,000 --> later",
        "00:00:01:12 --> 00:00:02:00",
        "00: 00: 01,500 --> 00: 00: 02,500",
        "00:00:02,000 → 00:00:03,000",
        "00:00:02,000 ==> 00:00:03,000",
        "\u221200:00:02,000 --> 00:00:03,000",
        "4 --> 5",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_times_of_another_kind_are_refused(tmp_path, times, first):
    cues = [f"1\n{times}\none\n", f"2\n{T2}\ntwo\n"]
    (tmp_path / "a.srt").write_text("\n".join(cues if first else cues[::-1]))
    with pytest.raises(InputError, match=rf"a\.srt: line {2 if first else 6}"):
        read_segments(tmp_path / "a.srt")


ODD_WORDS = (
    "<unk> & &amp; &lt {\\an8} --> -> 1 42 00:00:01,000 00:00:02.000 NAME: Ann Lee: "
    "[x]: [SPEAKER_00]: <i> </i> <v Bob> <c> <00:00:01.000> WEBVTT NOTE ;; (u1) @ a;x "
    "{ } / <b x> NA <NA> &#58; <br> [ ]: é 去 \x00z <s> 1:00 < > lex <ALT_BEGIN> - no "
    "no IGNORE_TIME_SEGMENT_IN_SCORING"
)
HOSTILE = [*ODD_WORDS.split(), "no\u00a0break", "a\x0bb", "\u2028x"]


@pytest.mark.parametrize("kind", ["srt", "vtt", "json", "seglst", "ctm"])
def test_hostile_words_survive_what_we_write(tmp_path, kind):
    """Two thousand transcripts of odd words, 400 a format, are read as written."""
    rng = random.Random(kind)
    path = tmp_path / f"r.{'json' if kind == 'seglst' else kind}"
    for _ in range(400):
        names = rng.choice((("",), ("ann", "bob"), ("ann lee", "b]o:b"), ("", "x y")))
        lines, time = [], 0.0
        for _ in range(rng.randint(1, 5)):
            words = tuple(rng.choices(HOSTILE, k=rng.randint(1, 12)))
            if lines and rng.random() < 0.3:  # people begin again
                words = lines[-1].words + words
            end = time + rng.choice((0.3, 2.0, 5.5))
            lines.append(Segment("r", rng.choice(names), words, time, end))
            time = end + rng.choice((0.0, 0.0, 0.1, 1.0))
        write_transcript(path, {"r": lines}, kind)
        found = read_segments(path)
        if kind == "ctm":
            heard = " ".join(turn.text for turn in found)
            assert heard == " ".join(" ".join(line.text.split()) for line in lines)
            continue
        nobody = "speaker" if kind == "seglst" else ""
        assert [(turn.speaker, turn.words) for turn in found] == [
            (line.speaker or nobody, tuple(line.text.split())) for line in lines
        ]

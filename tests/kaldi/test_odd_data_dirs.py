"""Odd data dirs: ``data validate`` names what is wrong, ``data fix`` mends it."""

import re

import numpy as np
import pytest
import soundfile

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError

UTTERANCES = ("a-1", "a-2", "b-1", "b-2")
GOOD = {
    "wav.scp": "".join(f"{key} {{audio}}/{key}.wav\n" for key in UTTERANCES),
    "text": "".join(f"{key} one two\n" for key in UTTERANCES),
    "utt2spk": "".join(f"{key} {key[0]}\n" for key in UTTERANCES),
    "spk2utt": "a a-1 a-2\nb b-1 b-2\n",
}
CUT = {
    "wav.scp": "r1 {audio}/a-1.wav\nr2 {audio}/a-2.wav\n",
    "segments": "a-1 r1 0 0.04\na-2 r1 0.04 0.08\nb-1 r2 0 0.05\nb-2 r2 0.05 -1\n",
}


def without(name, key):
    return {
        name: "".join(
            line + "\n" for line in GOOD[name].splitlines() if line.split()[0] != key
        )
    }


def _change(name, old, new):
    """Return a faultless table with a place changed."""
    return {name: GOOD[name].replace(old, new)}


def _cut(old, new):
    """Return the tables of a data dir of segments, of which a place is changed."""
    return CUT | {"segments": CUT["segments"].replace(old, new)}


# What is changed, what validate says, and how many utterances fix leaves; 0: fix
# refuses too.
FOLDERS = {
    "nothing": ({}, "no faults found", 4),
    "no transcript": (without("text", "a-2"), "text: no transcript for a-2", 3),
    "no audio": (without("wav.scp", "b-1"), "wav.scp: no audio for b-1", 3),
    "no speaker": (without("utt2spk", "b-1"), "utt2spk: no line for b-1", 3),
    "no spk2utt": ({"spk2utt": None}, "spk2utt: no such file", 4),
    "spk2utt of others": (
        {"spk2utt": "a a-1\nb b-1 b-2\n"},
        ("spk2utt: does not match utt2spk for a"),
        4,
    ),
    "an empty transcript": (
        _change("text", "a-1 one two", "a-1"),
        "empty transcript of a-1",
        3,
    ),
    "blanks as transcript": (
        _change("text", "a-1 one two", "a-1   \t "),
        "empty transcript of a-1",
        3,
    ),
    "ideographic space": (
        _change("text", "a-1 one two", "a-1 \u3000"),
        "empty transcript of a-1",
        3,
    ),
    "an empty path": (
        _change("wav.scp", "a-1 {audio}/a-1.wav", "a-1"),
        "empty entry for a-1",
        3,
    ),
    "no name": (_change("utt2spk", "a-1 a", "a-1"), "utt2spk: empty entry for a-1", 3),
    "two speakers": (
        _change("utt2spk", "a-1 a", "a-1 a b"),
        "more than one word for a-1",
        3,
    ),
    "not sorted": (
        {"text": "".join(reversed(GOOD["text"].splitlines(keepends=True)))},
        "text: not sorted",
        4,
    ),
    "sorted as a locale does": (
        {"utt2spk": "A-1 A\n" + GOOD["utt2spk"]},
        "no audio for A-1",
        4,
    ),
    "the same line twice": (
        {"text": GOOD["text"] + "b-2 one two\n"},
        "more than one line for b-2",
        4,
    ),
    "two lines for one id": (
        {"text": GOOD["text"] + "b-2 three\n"},
        ("text: more than one line for b-2"),
        3,
    ),
    "two files for one id": (
        {"wav.scp": GOOD["wav.scp"] + "b-2 {audio}/a-1.wav\n"},
        "more than one line for b-2",
        3,
    ),
    "an empty line": ({"text": GOOD["text"] + "\n"}, "text: no id in line 5", 4),
    "a line without an id": (
        {"text": GOOD["text"] + " three\n"},
        "text: no id in line 5",
        4,
    ),
    "carriage returns": (_change("text", "\n", "\r\n"), "text: carriage returns", 4),
    "a byte-order mark": ({"text": "\ufeff" + GOOD["text"]}, "byte-order mark", 0),
    "Latin-1": (
        {"text": GOOD["text"].replace("one", "caf\xe9").encode("latin-1")},
        "line 1 is not UTF-8",
        0,
    ),
    "an empty file": ({"text": ""}, "text: empty file", 0),
    "no wav.scp": ({"wav.scp": None}, "wav.scp: no such file", 0),
    "a file in its place": ({"text": "a folder"}, "text", 0),
    "nothing fits": ({"text": "x one\n"}, "no transcript for a-1", 0),
    "durations with gaps": ({"utt2dur": "a-1 0.1\n"}, "utt2dur: missing", 4),
    "a duration that is none": (
        {"utt2dur": "".join(f"{key} nan\n" for key in UTTERANCES)},
        "utt2dur: missing",
        4,
    ),
    "languages with gaps": (
        {"utt2lang": "a-1 en\na-2 en\nb-1 en\n"},
        "utt2lang: no line for b-2",
        3,
    ),
    "features with gaps": (
        {"feats.scp": ("a-1 f.ark:1\na-2 f.ark:2\nb-1 f.ark:3\n")},
        "no line for b-2",
        3,
    ),
    "segments": (CUT, "no faults found", 4),
    "a segment back": (_cut("0 0.04", "0.04 0.01"), "the end is not after", 3),
    "a segment before": (_cut("0 0.04", "-1 0.04"), "start is negative", 3),
    "a segment that is cut": (
        CUT | {"reco2dur": "r1 0.05\nr2 9\n"},
        "where they are cut: a-2",
        4,
    ),
    "a segment beyond": (
        CUT | {"reco2dur": "r1 0.03\nr2 9\n"},
        ("goes beyond the end of its recording, of a-2"),
        3,
    ),
    "a segment of text": (_cut("0 0.04", "x"), "in seconds: a-1", 3),
    "a segment of NaN": (_cut("0 0.04", "0 nan"), "in seconds: a-1", 3),
    "a segment of nothing": (_cut("a-1 r1", "a-1 r9"), "of a-1", 3),
    "an unused recording": (
        CUT | {"wav.scp": CUT["wav.scp"] + "r3 {audio}/b-1.wav\n"},
        "uses r3",
        4,
    ),
    "an archive": (
        _change("wav.scp", "b-2.wav", "b-2.wav:44"),
        "archives stand for b-2",
        4,
    ),
    "another prefix": (
        {
            "utt2spk": GOOD["utt2spk"].replace("b-2 b", "b-2 c"),
            "spk2utt": "a a-1 a-2\nb b-1\nc b-2\n",
        },
        "not a prefix of b-2",
        4,
    ),
    "a missing file": (
        _change("wav.scp", "b-2.wav", "b-9.wav"),
        "no audio file of b-2",
        None,
    ),
    "a file that is empty": (
        _change("wav.scp", "b-2.wav", "empty.wav"),
        "zero-length audio",
        None,
    ),
    "a broken link": (
        _change("wav.scp", "b-2.wav", "link.wav"),
        "no audio file of b-2",
        None,
    ),
    "a folder as audio": (_change("wav.scp", "b-2.wav", ""), "b-2", None),
    "a command": (
        _change("wav.scp", "{audio}/b-2.wav", "touch {audio}/ran |"),
        "stand for b-2",
        4,
    ),
}


@pytest.fixture
def make(tmp_path):
    audio = tmp_path / "audio"
    audio.mkdir()
    for key in UTTERANCES:
        soundfile.write(audio / f"{key}.wav", np.full(1600, 0.1), 16000)
    (audio / "empty.wav").touch()
    (audio / "link.wav").symlink_to(audio / "gone.wav")

    def write(changes):
        folder = tmp_path / "data"
        folder.mkdir()
        for name, content in {**GOOD, **changes}.items():
            if content == "a folder":
                (folder / name).mkdir()
            elif isinstance(content, bytes):
                (folder / name).write_bytes(content)
            elif content is not None:
                (folder / name).write_bytes(
                    content.replace("{audio}", str(audio)).encode()
                )
        return folder

    return write


def faults(folder, capsys) -> tuple[bool, str]:
    """Whether validate is content, and what it prints."""
    try:
        status = call(["data", "validate", str(folder), "--audio"])
    except InputError as error:
        return False, str(error)
    printed = capsys.readouterr()
    return not status, printed.out + printed.err


@pytest.mark.parametrize("case", FOLDERS)
def test_what_validate_names_is_mended_by_fix(make, capsys, case):
    changes, message, left = FOLDERS[case]
    folder = make(changes)
    fits, printed = faults(folder, capsys)
    assert re.search(message, printed), printed
    before = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
    }
    if left == 0:
        assert not fits
        with pytest.raises(InputError):
            call(["data", "fix", str(folder)])
        assert {
            path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
        } == before
        return
    call(["data", "fix", str(folder)])
    said = capsys.readouterr().out
    fits, after = faults(folder, capsys)
    if left is None:  # a disk that is not mounted must not empty a data dir
        assert not fits and "data fix" not in printed
        return
    assert fits, after
    assert len((folder / "utt2spk").read_text().splitlines()) == left
    assert f"dropped {4 - left}" in said or left == 4
    assert ("lines that differ for b-2" in said) == ("for one id" in case)
    assert not (folder.parent / "audio" / "ran").exists()

"""Audio files to text on disk: formats, the page, which files, reruns, refusals."""

import base64
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from espnet_ext.audio.recordings import open_recording
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError, escape_controls
from espnet_ext.text.words import Segment, Word
from espnet_ext.transcription import engines
from espnet_ext.transcription.notes import NOTES, compute_key, list_unfinished
from espnet_ext.transcription.recordings import (
    ENDINGS,
    KINDS,
    Recording,
    find_recordings,
)
from espnet_ext.transcription.request import Request, find_enrolment
from espnet_ext.transcription.run import fit_times, transcribe_files

LINES = [
    Segment.from_words((Word("<so>", 0.1, 0.4, 0.9), Word("hello", 0.5, 0.9, 0.3))),
    Segment.from_words((Word("there", 2.0, 2.4, 1.0),), "Ada & Bo"),
]


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {NOTES}


def named(*files: Path) -> list[Recording]:
    return [Recording(path, path.stem) for path in files]


def faults_of(engine, *files: Path, into: Path, **options) -> list[str]:
    """Transcribe files to text; why some of them fail."""
    found = []
    options["failed"] = lambda path, reason: found.append(reason)
    assert transcribe_files(engine, named(*files), into, ["txt"], **options) == len(
        found
    )
    return found


def test_all_formats_and_the_page(audio, tmp_path):
    assert (
        transcribe_files(
            lambda path: iter(LINES), named(audio), tmp_path / "out", KINDS
        )
        == 0
    )
    text = {
        kind: (tmp_path / "out" / f"my talk.{ENDINGS.get(kind, kind)}").read_text()
        for kind in KINDS
    }
    assert text["txt"] == "<so> hello\nAda & Bo: there\n"
    assert json.loads(text["json"])["segments"][1]["speaker"] == "Ada & Bo"
    assert (
        len(text["ctm"].splitlines()) == 3
        and "00:00:02,000 --> 00:00:03,000\n[Ada & Bo]: there" in text["srt"]
    )
    assert re.findall(
        'class="(spoken.*?)".*? data-start="(.*?)" data-end="(.*?)".*?>(.*?)<',
        text["html"],
    ) == [
        ("spoken", "0.100", "0.400", "&lt;so&gt;"),
        ("spoken unsure", "0.500", "0.900", "hello"),
        ("spoken", "2.000", "2.400", "there"),
    ]
    addresses = re.findall('(?:src|href)="(.*?)"', text["html"])
    assert all(address.startswith(("data:", "#")) for address in addresses), (
        "nothing from a network or a file"
    )
    kind, _, data = addresses[-1].partition(",")
    assert kind == "data:audio/mpeg;base64" and "Ada &amp; Bo" in text["html"]
    heard, rate = soundfile.read(io.BytesIO(base64.b64decode(data)))
    assert rate == 16000 and abs(len(heard) / rate - 3.0) < 0.2
    assert not re.search(r"https?://|\$", text["html"])


def test_words_follow_each_other_within_the_audio(audio, tmp_path):
    """Of three seconds; two speakers may talk at once."""
    heard = [
        Segment.from_words(
            (Word("a", 0.0, 1.0), Word("b", 0.5, 0.8), Word("c", 0.9, 2.0))
        ),
        Segment.from_words((Word("d", 1.5, 9.0), Word("e", 9.5, 15.0))),
        Segment.from_words((Word("f", 1.0, 2.0),), "other"),
    ]
    transcribe_files(lambda path: iter(heard), named(audio), tmp_path, ["ctm"])
    rows = [line.split() for line in (tmp_path / "my talk.ctm").open()]
    spans = {row[4]: (float(row[2]), float(row[2]) + float(row[3])) for row in rows}
    assert spans.pop("f") == (1.0, 2.0)
    edges = [edge for word in "abcde" for edge in spans[word]]
    assert edges == pytest.approx(sorted(edges), abs=0.011) and max(edges) <= 3.011


def test_a_word_is_not_as_long_as_the_pause_beside_it():
    words = Word("first", 0.0, 15.0), Word("then", 15.0, 30.0), Word("ends", 30.0, 31.0)
    line = fit_times(Segment.from_words(words), 0.0, 60.0)
    assert line.times == ((12.0, 15.0), (15.0, 18.0), (30.0, 31.0))
    assert (line.start, line.end) == (12.0, 31.0)


def test_a_file_that_fails_is_named_and_the_others_go_on(audio, tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF")
    shown = []
    show = lambda path, line, share: shown.append((path, round(share, 2)))  # noqa: E731
    (line,) = faults_of(
        lambda path: iter(LINES), broken, audio, into=tmp_path / "out", show=show
    )
    assert line.startswith(f"{broken}: ") and (tmp_path / "out/my talk.txt").is_file()
    assert shown == [(audio, 0.3), (audio, 0.8)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("out of memory\nat 0x1"),
        MemoryError(),
        OSError(28, "No space left"),
    ],
)
def test_what_a_library_raises_for_a_file_ends_that_file_alone(error, audio, tmp_path):
    other = shutil.copy(audio, tmp_path / "other.flac")

    def engine(path):
        if path == audio:
            raise error
        yield from LINES

    (line,) = faults_of(engine, audio, other, into=tmp_path / "out")
    assert (
        line.startswith(f"{audio}: ")
        and "\n" not in line
        and len(line) > len(f"{audio}: ")
    )
    assert files_in(tmp_path / "out") == {"other.txt"}


def test_lines_of_a_file_that_fails_late_are_kept(audio, tmp_path):
    """And removed once the file is done."""
    out = tmp_path / "out"
    breaks = [True]

    def engine(path):
        yield LINES[0]
        assert (
            out / "my talk.txt.part"
        ).read_text() == "[00:00:00.100 --> 00:00:00.900] <so> hello\n"
        if breaks:
            raise RuntimeError("out of memory")
        yield LINES[1]

    for faults in (
        [f"{audio}: out of memory (the lines until then: {out / 'my talk.txt.part'})"],
        [],
    ):
        assert faults_of(engine, audio, into=out) == faults
        assert files_in(out) == {"my talk.txt.part" if breaks else "my talk.txt"}
        breaks.clear()


def test_a_file_is_converted_once(audio, tmp_path, monkeypatch):
    talk = tmp_path / "a talk.m4a"
    heard = []
    converted = []
    talk.write_bytes(b"\0\0\0\x18ftypM4A ")

    def convert(path, target, track):
        converted.append(path)
        shutil.copy(audio, target)

    monkeypatch.setattr("espnet_ext.audio.recordings.decode_to_wav", convert)

    def engine(path):
        with open_recording(path, 16000) as recording:
            heard.append((recording.name, recording.length))
        assert (
            path.stat().st_mtime_ns == talk.stat().st_mtime_ns
        )  # what is kept of an earlier run goes by it
        yield from LINES

    assert transcribe_files(engine, named(talk), tmp_path / "out", KINDS) == 0
    assert heard == [("a_talk", 48000)] and converted == [talk]
    assert "<title>a talk.m4a" in (tmp_path / "out" / "a talk.html").read_text()


@pytest.fixture
def again(audio, tmp_path):
    """Transcribes as the command does, and keeps what it is told.

    That is what is heard, what fails and why, and how those are that are done.
    """
    heard = []
    faults = []
    done = []

    def engine(path):
        heard.append(path)
        yield from LINES

    def failed(path, reason):
        faults.append(reason)

    def note_done(path, state):
        done.append(state)

    def run(kinds=("txt",), of=audio, key="", overwrite=False):
        left = named(of)
        before = len(faults)
        if not overwrite:
            left, _ = list_unfinished(left, tmp_path, kinds, key, note_done, failed)
        transcribe_files(engine, left, tmp_path, kinds, key=key, failed=failed)
        return len(faults) - before

    run.heard = heard
    run.faults = faults
    run.done = done
    return run


def test_what_is_there_stays_as_it_is(again, audio, tmp_path):
    """A transcript by hand, and one that was corrected."""
    text = tmp_path / "my talk.txt"
    text.write_text("by hand")
    assert again() == 1 and text.read_text() == "by hand" and not again.heard
    assert again.faults[0].startswith(f"{audio}: {text} ")
    assert (
        again(("srt",)) == 0
        and again(overwrite=True) == 0
        and text.read_text().startswith("<so> hello")
    )
    assert again(("srt", "txt")) == 0 and len(again.heard) == 2
    assert len(again.done) == 1
    assert again(key="other options") == 0 and len(again.heard) == 3
    text.touch()
    assert (
        again(key="other options") == 0 and len(again.done) == 2
    )  # its content is the same
    text.write_text("corrected")
    assert again(key="other options") == 0 and again.done[2].startswith(
        f"{text} was changed"
    )
    assert again() == 1 and text.read_text() == "corrected" and len(again.heard) == 3
    (tmp_path / "my talk.json").mkdir()
    assert again(("json",)) == 1 and "my talk.json is a folder" in again.faults[-1]


def test_lines_of_a_killed_run_stay_until_another_hears_more(again, audio, tmp_path):
    killed = tmp_path / "my talk.txt.part"
    other = tmp_path / "other" / "my talk.wav"
    killed.write_text("heard")
    other.parent.mkdir()
    other.touch()
    assert (
        again(of=other) == 1
        and killed.read_text() == "heard"
        and "until then" not in again.faults[0]
    )
    assert again() == 0 and not killed.exists()


@pytest.mark.parametrize("where", ["run.write_transcript_page", "notes.Note.add"])
def test_a_run_that_was_killed_before_its_last_note_is_finished(
    again, where, tmp_path, monkeypatch
):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"espnet_ext.transcription.{where}", killed)
        with pytest.raises(KeyboardInterrupt):
            again(("txt", "html"))
    assert (tmp_path / "my talk.txt").exists()
    assert again(("txt", "html")) == 0 and len(again.heard) == 2 and not again.done
    assert not (tmp_path / "my talk.txt.part").exists()


def test_the_transcript_of_another_recording_is_not_replaced(again, audio, tmp_path):
    other = tmp_path / "tuesday" / audio.name
    other.parent.mkdir()
    shutil.copy(audio, other)
    text = tmp_path / "my talk.txt"
    assert (
        again() == 0
        and again(of=other) == 1
        and f"{text} is that of {audio}" in again.faults[0]
    )
    assert again(of=other, overwrite=True) == 0


def test_transcripts_are_made_again_when_something_changes_that_they_depend_on(
    again, audio, model, tmp_path
):
    shutil.copytree(model, tmp_path / "own")
    own = tmp_path / "own"
    link = tmp_path / "own" / "5epoch.pth"
    key = compute_key(own, Request())
    assert (
        key
        == compute_key(own, Request(work=tmp_path))
        == compute_key(Path(os.path.relpath(own)), Request())
    )
    link.symlink_to("nothing")
    (own / "train.log").touch()
    assert key == compute_key(own, Request()), (
        "other files in the folder of a training do not matter"
    )
    others = [compute_key(None, Request()), compute_key(own, Request(window=2.0))]
    with (own / "config.yaml").open("a") as file:
        file.write("# changed\n")
    others.append(compute_key(own, Request()))
    os.utime(own / "model.pth", (1, 1))
    assert len({key, *others, compute_key(own, Request())}) == 5
    again()
    os.utime(audio, (1, 1))
    assert again() == 0 and len(again.heard) == 2 and not again.done


def test_names_of_files(audio, tmp_path):
    """A file named twice, a name as long as can be, one transcript of two files."""
    failed = []
    found, _ = find_recordings(
        [audio, tmp_path, audio], lambda path, reason: failed.append(reason)
    )
    assert found == named(audio) and not failed
    long = tmp_path / f"{82 * '講'}.wav"
    twins = [tmp_path / "x.wav", tmp_path / "x.seglst.wav"]
    for path in (long, *twins, tmp_path / "._my talk.flac"):
        path.write_bytes(b"RIFF")
    kept, faults = find_recordings(
        [tmp_path], lambda path, reason: failed.append(reason), ["json", "seglst"]
    )
    assert kept == named(audio) and faults == 3 and len(failed) == 3
    link = tmp_path / "talk.flac"
    link.symlink_to(audio)
    assert find_recordings([audio, link], lambda path, reason: None)[0] == named(
        audio, link
    )
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    bad = [tmp_path / "loop.wav", tmp_path / f"{'x' * 300}.wav"]
    assert find_recordings([audio, *bad], lambda path, reason: None) == (
        named(audio),
        2,
    )
    assert sum(reason.startswith(f"{long}: ") for reason in failed) == 1
    assert find_recordings(twins, lambda path, reason: None, ["txt"])[0] == named(
        *twins
    )


def test_of_a_folder_all_recordings_below_it(audio, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        engines, "choose_engine", lambda model, request: lambda path: iter(LINES)
    )
    for day in ("monday", "tuesday/late"):
        (tmp_path / "talks" / day).mkdir(parents=True)
        shutil.copy(audio, tmp_path / "talks" / day / "01.flac")
    (tmp_path / "talks" / "notes.txt").touch()
    out = tmp_path / "out"
    call(
        [
            "transcribe",
            str(tmp_path / "talks"),
            str(audio),
            "--output",
            str(out),
            "--formats",
            "txt,ctm",
        ]
    )
    assert "3 of 3 files ->" in capsys.readouterr().err
    found = {path.relative_to(out).as_posix() for path in out.rglob("*.txt")}
    assert found == {"monday/01.txt", "tuesday/late/01.txt", "my talk.txt"}
    assert (out / "tuesday/late/01.ctm").read_text().startswith("tuesday_late_01 ")
    (tmp_path / "none").mkdir()
    (tmp_path / "talks" / "link").symlink_to(
        tmp_path / "none", target_is_directory=True
    )
    with pytest.raises(
        InputError, match="none: no audio file in this folder .*: name another$"
    ):
        find_recordings([tmp_path / "none"], lambda path, reason: None)


def test_what_links_lead_to_is_done_once(audio, tmp_path):
    """A link to a folder beside it, and one to a file; one to elsewhere is followed."""
    talks = tmp_path / "talks"
    for folder in (talks / "b monday", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        shutil.copy(audio, folder / "01.flac")
    for name, target in (("a link", "b monday"), ("c link", tmp_path / "elsewhere")):
        (talks / name).symlink_to(target, target_is_directory=True)
    (talks / "b monday" / "00.flac").symlink_to("01.flac")
    found, faults = find_recordings([talks], lambda path, reason: None)
    assert [each.name for each in found] == ["b monday/01", "c link/01"]
    assert not faults


def test_a_name_with_a_mark_of_direction_is_printed_escaped(
    audio, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(
        engines, "choose_engine", lambda model, request: lambda path: iter(LINES)
    )
    path = shutil.copy(audio, tmp_path / "a\u202egpj.flac")
    call(["transcribe", str(path), "--output", str(tmp_path / "out")])
    told = "".join(capsys.readouterr())
    assert "\\u202e" in told and "\u202e" not in told
    assert (tmp_path / "out" / "a\u202egpj.srt").is_file()


def test_each_channel_of_a_call_is_a_speaker(audio, tmp_path):
    """Lines are in the order of their starts.

    Channels that are the same, or one alone, are refused.
    """
    samples, rate = soundfile.read(audio)
    call_ = tmp_path / "call.wav"
    mono = audio
    same = tmp_path / "same.wav"
    soundfile.write(call_, np.stack((samples, samples[::-1]), axis=1), rate)
    soundfile.write(same, np.stack((samples, samples), axis=1), rate)

    def engine(path):
        with open_recording(path, rate) as channel:
            first = channel.read(0, 1)[0]
        number = int(abs(first - samples[0]) > 1e-4)
        yield Segment.from_words((Word("ab"[number], 0.5 - number / 10, 0.9),))

    faults = faults_of(engine, mono, call_, same, into=tmp_path, separate=True)
    assert (tmp_path / "call.txt").read_text() == "channel2: b\nchannel1: a\n"
    assert [line.split(": ")[0] for line in faults] == [str(mono), str(same)]


def test_a_folder_that_cannot_be_read_and_a_pipe_are_named(
    audio, tmp_path, monkeypatch
):
    closed = tmp_path / "talks" / "closed"
    talks = tmp_path / "talks"
    closed.mkdir(parents=True)
    shutil.copy(audio, talks / "a.flac")
    os.mkfifo(talks / "pipe.wav")
    scan = os.scandir

    def scandir(path):
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    failed = []
    found, _ = find_recordings([talks], lambda path, reason: failed.append(reason))
    assert found == [Recording(talks / "a.flac", "a")]
    assert sorted(reason.split(": ")[0] for reason in failed) == [
        str(closed),
        str(talks / "pipe.wav"),
    ]


def test_enrolment_without_what_macos_leaves(tmp_path):
    for name in ("ann/1.m4a", "ann/._1.m4a", ".hidden/1.wav", "bob/1.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_enrolment(tmp_path) == {
        "ann": [tmp_path / "ann/1.m4a"],
        "bob": [tmp_path / "bob/1.wav"],
    }


def test_silence_is_said_and_an_empty_file_is_named(audio, tmp_path):
    (tmp_path / "empty.m4a").touch()
    silent = []
    faults = faults_of(
        lambda path: iter(()),
        audio,
        tmp_path / "empty.m4a",
        into=tmp_path,
        silent=silent.append,
    )
    assert silent == [audio] and (tmp_path / "my talk.txt").read_text() == ""
    assert faults == [f"{tmp_path / 'empty.m4a'}: is empty (0 bytes)"]


@pytest.mark.parametrize(
    "bad", [["nothere.wav"], [b"sp\xe9ech.flac"], ["a/twin.flac", "b/twin.flac"]]
)
def test_files_that_cannot_be_transcribed_are_named_before_a_model_is_loaded(
    bad, audio, tmp_path, monkeypatch, capsys
):
    loaded = []
    monkeypatch.setattr(
        engines,
        "choose_engine",
        lambda model, request: loaded.append(1) or (lambda path: iter(LINES)),
    )
    files = [
        os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(name)))
        for name in bad
    ]
    for path in files:
        if "nothere" not in path:
            Path(path).parent.mkdir(exist_ok=True)
            shutil.copy(audio, path)
    options = ["--output", str(tmp_path / "out"), "--formats", "txt"]
    with pytest.raises(InputError, match=escape_controls(files[0]).replace("\\", ".")):
        call(["transcribe", *files, *options])
    assert not loaded and not list((tmp_path / "out").glob("[!.]*"))
    with pytest.raises(InputError, match=f"{len(bad)} of {len(bad) + 1} files"):
        call(["transcribe", *files, str(audio), *options])
    told = capsys.readouterr().err
    assert loaded and all(
        told.index(f"error: {escape_controls(path)}: ") < told.index("loading Whisper")
        for path in files
    )
    assert files_in(tmp_path / "out") == {"my talk.txt"}


@pytest.mark.parametrize(
    "words, place",
    [
        ("AUDIO --formats doc", "--formats: .*'doc'"),
        ("AUDIO --formats=", "--formats"),
        ("AUDIO --model no/such/thing", "no/such/thing"),
        ("AUDIO --model mod\udce9l", r"'--model': mod\\xe9l"),
        ("AUDIO --window 0", "--window .* 0"),
        ("AUDIO --window 20", "--window is for .* this is Whisper"),
        ("AUDIO --window-overlap 50", "50"),
        ("AUDIO --enrolment nobody", "nobody: "),
        ("AUDIO --enrolment FOLDER", "people: "),
        ("AUDIO --language de", "--language de"),
        ("AUDIO --stitcher s", "--stitcher .* this is Whisper"),
        ("AUDIO --channels separate --enrolment PEOPLE", "--enrolment .* Whisper"),
        ("AUDIO --output AUDIO", "--output .*my talk.flac"),
        ("AUDIO --output /proc/out", "--output /proc/out"),
        (
            "AUDIO --model MODEL --window 1 --work there",
            ("--work .* this is a recogniser"),
        ),
        pytest.param(
            "AUDIO --model MODEL --ngpu 1",
            "--ngpu 1",
            marks=pytest.mark.skipif(
                torch.cuda.is_available(), reason="there is a GPU"
            ),
        ),
    ],
)
def test_what_is_refused_before_any_work(
    words, place, audio, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people").mkdir()
    (tmp_path / "voices" / "ann").mkdir(parents=True)
    (tmp_path / "voices" / "ann" / "1.wav").touch()
    names = {"AUDIO": str(audio), "MODEL": str(model), "FOLDER": "people"}
    names["PEOPLE"] = "voices"
    with pytest.raises(InputError, match=place):
        call(["transcribe", *(names.get(word, word) for word in words.split())])

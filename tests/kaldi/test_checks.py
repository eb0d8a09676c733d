import dataclasses

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import (
    check_audio,
    check_files,
    fix,
    fix_data_dir,
    raise_problems,
    scan_data_dir,
    validate,
    validate_data_dir,
    validate_scan,
    warn,
)
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir

SOUND = DataDir(
    wav_scp={"r1": "r1.wav", "r2": "r2.wav"},
    utt2spk={"a-1": "a", "a-2": "a", "b-1": "b"},
    text={"a-1": "ONE", "a-2": "TWO", "b-1": "三"},
    segments={"a-1": "r1 0 1.5", "a-2": "r1 1 2", "b-1": "r2 0 -1"},
    utt2lang={"a-1": "en", "a-2": "en", "b-1": "zh"},
    reco2dur={"r1": "2.005", "r2": "9"},
)


def changed(field: str, **entries: str | None) -> DataDir:
    """SOUND with entries of one table changed, added, or (None) removed; _ stands for the dash in the id."""
    table = dict(getattr(SOUND, field)) | {key.replace("_", "-"): value for key, value in entries.items()}
    return dataclasses.replace(SOUND, **{field: {key: value for key, value in table.items() if value is not None}})


def problems_of(path, **options):
    return validate_scan(*scan_data_dir(path), **options)


def messages(problems):
    return [str(problem) for problem in problems]


# Each is one fault, so exactly one message must come, and it must name the utterance; `fix` must repair it by dropping
# that utterance and no other.
FAULTS = [
    (changed("text", a_2=None), "text: no transcript for a-2"),
    (changed("text", a_2=""), "text: empty transcript of a-2"),
    (changed("text", a_2="\u3000"), "text: empty transcript of a-2"),
    (changed("utt2spk", a_2=None), "utt2spk: no line for a-2"),
    (changed("utt2spk", a_2=""), "utt2spk: empty entry for a-2"),
    (changed("utt2spk", a_2="a b"), "utt2spk: more than one word for a-2"),
    (changed("utt2lang", a_2=None), "utt2lang: no line for a-2"),
    (changed("segments", a_2="r3 0 1"), "segments: the recording is not in wav.scp, of a-2"),
    (changed("segments", a_2="r1 1 1"), "segments: the end is not after the start, or the start is negative, of a-2"),
    (changed("segments", a_2="r1 2 1"), "segments: the end is not after the start, or the start is negative, of a-2"),
    (changed("segments", a_2="r1 -1 1"), "segments: the end is not after the start, or the start is negative, of a-2"),
    (changed("segments", a_2="r1 one 2"), "segments: not `recording start end` with times in seconds: a-2"),
    (changed("segments", a_2="r1 0 nan"), "segments: not `recording start end` with times in seconds: a-2"),
    (changed("segments", a_2="r1 1 2.1"), "segments: the segment goes beyond the end of its recording, of a-2"),
    (changed("segments", a_2="r1 3 -1"), "segments: the segment goes beyond the end of its recording, of a-2"),
]


@pytest.mark.parametrize(("data", "message"), FAULTS)
def test_faults_are_named_by_file_and_utterance_and_fixed(data, message):
    assert validate(SOUND) == warn(SOUND) == []
    (found,) = messages(validate(data))
    assert found.startswith(message + ": ")
    fixed = fix(data)
    assert fixed.data.utterances == ["a-1", "b-1"]
    assert [problem.ids for problem in fixed.dropped] == [("a-2",)]
    assert validate(fixed.data) == []


def test_audio_and_text_that_lack_each_other():
    data = changed("text", z_1="EXTRA")
    assert [text.split(": ")[0:2] for text in messages(validate(data))] == [
        ["segments", "no audio for z-1"],
        ["utt2spk", "no line for z-1"],
        ["utt2lang", "no line for z-1"],
    ]
    assert fix(data).data == SOUND
    no_text = dataclasses.replace(SOUND, text=None)
    assert messages(validate(no_text)) == ["text: no such file: add it, or check with --no-text"]
    assert validate(no_text, require_text=False) == []
    with pytest.raises(InputError, match=r"^data/x/segments: no audio for z-1: .* \(and 2 more kinds of fault"):
        raise_problems("data/x", validate(data))


def test_durations_that_are_none():
    data = dataclasses.replace(SOUND, utt2dur={"a-1": "1", "a-2": "nan", "x": "1"})
    (problem,) = validate(data)
    assert (problem.file, problem.ids) == ("utt2dur", ("a-2", "b-1", "x"))
    fixed = fix(data)
    assert fixed.data == SOUND
    assert fixed.dropped_files == ("utt2dur",)


def test_warnings():
    data = dataclasses.replace(
        SOUND,
        utt2spk={"a-1": "a", "a-2": "x", "b-1": "b"},
        wav_scp={"r1": "sox r1.wav - |", "r2": "r2.ark:17", "r9": "r9.wav"},
    )
    assert [(item.file, item.ids) for item in warn(data)] == [
        ("utt2spk", ("a-2",)),
        ("wav.scp", ("r9",)),
        ("wav.scp", ("r1",)),
        ("wav.scp", ("r2",)),
    ]
    assert fix(data).data.wav_scp == {"r1": "sox r1.wav - |", "r2": "r2.ark:17"}


def test_a_repair_that_would_leave_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no utterance is complete \(text: empty transcript of a-1"):
        fix(dataclasses.replace(SOUND, text=dict.fromkeys(SOUND.text, "")))


# --- on disk ---


@pytest.fixture
def path(audio_dir, tmp_path):
    write_data_dir(audio_dir, tmp_path / "train")
    assert validate_data_dir(tmp_path / "train")
    return tmp_path / "train"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", "b-1 X\na-1 X\na-2 X\nb-2 X\n", "text: not sorted; out of order: a-1:"),
        ("text", "a-1 X\na-2 X\na-2 X\nb-1 X\nb-2 X\n", "text: more than one line for a-2:"),
        ("text", "a-1 X\na-2 X\n\nb-1 X\nb-2 X\n", "text: no id in line 3:"),
        ("spk2utt", "a a-1 a-2\nb b-1\n", "spk2utt: does not match utt2spk for b:"),
        ("spk2utt", None, "spk2utt: no such file:"),
    ],
)
def test_faults_of_form(path, name, content, message):
    (path / name).unlink() if content is None else (path / name).write_text(content)
    (found,) = messages(problems_of(path))
    assert found.startswith(message)
    assert fix_data_dir(path).dropped == ()
    assert problems_of(path) == []


@pytest.mark.parametrize("name", ["wav.scp", "utt2spk", "text"])
@pytest.mark.parametrize("content", [None, b"", b"a-1 \xff\n"])
def test_files_that_cannot_be_read(path, name, content):
    (path / name).unlink() if content is None else (path / name).write_bytes(content)
    if (name, content) == ("text", None):
        assert messages(problems_of(path))[0].startswith("text: no such file")
        return
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for function in (problems_of, fix_data_dir):
        with pytest.raises(InputError, match=f"{name}: "):
            function(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_repair_keeps_a_backup_and_drops_what_nobody_can_know(path, capsys):
    (path / "text").write_text("b-2 Y\na-2 SAME\na-1 ONE\na-1 OTHER\na-2 SAME\n")
    (path / "utt2dur").write_text("a-1 1\n")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    capsys.readouterr()
    fixed = fix_data_dir(path)
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: kept 2 utterances, dropped 2",
        "  dropped 2: text: no transcript for a-1, b-1",
        "  removed utt2dur: it had gaps, or values that are not positive numbers",
        "  text: lines that differ for a-1: nobody can know which is right",
        f"  the files as they were: {path}/.backup",
    ]
    assert [(problem.file, problem.what, problem.ids) for problem in fixed.dropped] == [
        ("text", "no transcript for", ("a-1", "b-1"))
    ]
    assert fixed.dropped_files == ("utt2dur",)
    assert (path / "text").read_text() == "a-2 SAME\nb-2 Y\n"
    assert not (path / "utt2dur").exists()
    assert {file.name: file.read_bytes() for file in (path / ".backup").iterdir()} == before
    assert problems_of(path) == []


DAMAGE = st.tuples(
    st.sampled_from(["cut", "double", "swap", "blank", "clear", "junk", "clash"]), st.integers(0, 9), st.integers(0, 99)
)


def damage(path, kind, file, line):
    files = sorted(item for item in path.iterdir() if item.is_file())
    target = files[file % len(files)]
    lines = target.read_text().splitlines()
    if not lines:
        return
    at = line % len(lines)
    key = lines[at].split(" ")[0]
    change = {
        "cut": lines[:at] + lines[at + 1 :],
        "double": [*lines, lines[at]],
        "swap": [*lines[at:], *lines[:at]],
        "blank": [*lines[:at], "", *lines[at:]],
        "clear": [*lines[:at], key, *lines[at + 1 :]],
        "junk": [*lines[:at], f"{key} junk 0 \u3000", *lines[at + 1 :]],
        "clash": [*lines, f"{key} another"],
    }[kind]
    target.write_text("".join(f"{line}\n" for line in change))


def contents(path):
    return {item.name: item.read_bytes() for item in path.iterdir() if item.is_file()}


@given(st.data(), st.lists(DAMAGE, min_size=1, max_size=6))
@settings(max_examples=60)
def test_any_damaged_dir_is_sound_after_the_repair_which_is_idempotent(tmp_path_factory, data_dirs, data, damages):
    whole = data.draw(data_dirs)
    path = tmp_path_factory.mktemp("damaged") / "train"
    write_data_dir(whole, path)
    for kind, file, line in damages:
        damage(path, kind, file, line)
    before = contents(path)
    try:
        fixed = fix_data_dir(path)
    except InputError as error:
        assert "no utterance is complete" in str(error) or "empty file" in str(error)
        assert contents(path) == before
        return
    assert problems_of(path, files=False) == []
    assert read_data_dir(path) == fixed.data
    assert set(fixed.data.utt2spk) <= set(whole.utt2spk)
    after = contents(path)
    again = fix_data_dir(path)
    assert (again.data, again.dropped, again.dropped_files) == (fixed.data, (), ())
    assert contents(path) == after


def test_validation_prints_warnings_and_faults(path, capsys):
    assert validate_data_dir(path, audio=True, rate=16000)
    assert capsys.readouterr() == (f"{path}: 4 utterances, 2 speakers: no faults found\n", "")
    assert not validate_data_dir(path, audio=True, rate=8000)
    assert "wav.scp: sampling rate 16000 Hz, not 8000 Hz, of a-1, a-2" in capsys.readouterr().err
    (path / "utt2spk").write_text("a-1 x\na-2 x\nb-1 x\nb-2 x\n")
    (path / "spk2utt").write_text("x a-1 a-2 b-1 b-2\n")
    assert validate_data_dir(path)
    assert capsys.readouterr().err.startswith(f"warning: {path}/utt2spk: the speaker is not a prefix of a-1, a-2")
    assert validate_data_dir(path, speaker_order=False)
    assert capsys.readouterr().err == ""


# --- audio ---


def test_missing_and_empty_files(audio_dir, tmp_path):
    (tmp_path / "wav" / "a-1.flac").unlink()
    (tmp_path / "wav" / "b-2.flac").write_bytes(b"")
    found = messages(check_files(audio_dir))
    assert [text.split(" (")[0] for text in found] == [
        "wav.scp: no audio file of a-1",
        "wav.scp: zero-length audio file of b-2",
    ]
    command = dataclasses.replace(audio_dir, wav_scp=dict.fromkeys(audio_dir.wav_scp, "touch ran |"))
    assert check_files(command) == check_audio(command) == []


def noise():
    return np.random.default_rng(1).uniform(-0.5, 0.5, 8000)


def with_nan():
    samples = noise()
    samples[7000] = np.nan
    return samples


@pytest.mark.parametrize(
    ("samples", "rate", "message"),
    [
        (with_nan(), 16000, "NaN or infinite samples in the audio of"),
        (noise(), 8000, "sampling rate 8000 Hz, not 16000 Hz, of"),
    ],
)
def test_bad_audio_is_named(audio_dir, tmp_path, samples, rate, message):
    assert check_audio(audio_dir, rate=16000) == []
    soundfile.write(tmp_path / "bad.wav", samples, rate, subtype="FLOAT")
    data = dataclasses.replace(audio_dir, wav_scp={**audio_dir.wav_scp, "a-2": str(tmp_path / "bad.wav")})
    for expected in (16000, None):
        (problem,) = check_audio(data, rate=expected)
        assert (problem.file, problem.what, problem.ids) == ("wav.scp", message, ("a-2",))


def test_a_header_written_to_a_pipe_promises_nothing(audio_dir, tmp_path):
    soundfile.write(tmp_path / "pipe.wav", noise(), 16000)
    content = bytearray((tmp_path / "pipe.wav").read_bytes())
    at = content.index(b"data") + 4
    content[at : at + 4] = b"\xff\xff\xff\xff"
    (tmp_path / "pipe.wav").write_bytes(content)
    data = dataclasses.replace(audio_dir, wav_scp={**audio_dir.wav_scp, "a-2": str(tmp_path / "pipe.wav")})
    assert check_audio(data) == []


def test_segments_beyond_the_true_end(audio_dir):
    segments = {"a-1": "a-1 0 0.5", "a-2": "a-2 0 0.61", "b-1": "b-1 0 0.75", "b-2": "b-2 0.8 -1"}
    (problem,) = check_audio(dataclasses.replace(audio_dir, segments=segments))
    assert (problem.file, problem.ids) == ("segments", ("b-1", "b-2"))

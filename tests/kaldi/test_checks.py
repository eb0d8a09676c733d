import dataclasses

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import (
    check_audio,
    fix_data_dir,
    scan_data_dir,
    validate_data_dir,
    validate_scan,
)
from espnet_ext.kaldi.data_dir import read_data_dir, write_data_dir


def problems_of(path, **options):
    return validate_scan(*scan_data_dir(path), **options)


def messages(problems):
    return [str(problem) for problem in problems]


@pytest.fixture
def path(audio_dir, tmp_path):
    write_data_dir(audio_dir, tmp_path / "train")
    assert validate_data_dir(tmp_path / "train")
    return tmp_path / "train"


def test_repair_keeps_a_backup_and_drops_what_nobody_can_know(path, capsys):
    (path / "text").write_text("b-2 Y\na-2 SAME\na-1 ONE\na-1 OTHER\na-2 SAME\n")
    (path / "utt2dur").write_text("a-1 1\n")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    capsys.readouterr()
    fix_data_dir(path)
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: kept 2 utterances, dropped 2",
        "  dropped 2: text: no transcript for a-1, b-1",
        "  removed utt2dur: it had gaps, or values that are not positive numbers",
        "  text: lines that differ for a-1: nobody can know which is right",
        f"  the files as they were: {path}/.backup",
    ]
    assert (path / "text").read_text() == "a-2 SAME\nb-2 Y\n"
    assert not (path / "utt2dur").exists()
    assert {
        file.name: file.read_bytes() for file in (path / ".backup").iterdir()
    } == before
    assert problems_of(path) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("text", "a-1 no\u00a0break\n"),
        ("text", "a-1 line\u2028break\n"),
        ("text", "a-1 next\x85line\n"),
        ("text", "a-1 ideographic\u3000space\n"),
        ("text", "a-1 nul\x00\n"),
        ("text", "a-1 tab\x0bbed\n"),
        ("text", "a-1 <s> marks\n"),
        ("text", "a-1 a </s>\n"),
        ("text", "a-1 #0\n"),
        ("text", "a-1 windows\r\n"),
        ("utt2spk", "a-1 a\r\n"),
        ("utt2dur", "a-1 1_0\n"),
        ("utt2dur", "a-1 \u0661\n"),
        ("segments", "a-1 a-1 1_0 2_0\n"),
        ("segments", "a-1 a-1 \u0661 \u0662\n"),
    ],
)
def test_what_kaldi_refuses_is_a_fault(path, capsys, name, line):
    lines = []
    if (path / name).exists():
        lines = (path / name).read_text().splitlines(keepends=True)
    (path / name).write_bytes((line + "".join(lines[1:])).encode())
    assert not validate_data_dir(path, files=False)
    found = [each for each in capsys.readouterr().err.splitlines() if "a-1" in each]
    assert any(f"{path}/{name}: " in each for each in found)


def test_words_that_look_alike_are_no_faults(path):
    rest = (path / "text").read_text().split("\n", 1)[1]
    (path / "text").write_text("a-1 <unk> s# #01 <sos> \u00e9\u0301 \u4f60\n" + rest)
    assert validate_data_dir(path, files=False)
    (path / "text").write_text("a-1 bell\x07\n" + rest)
    assert not validate_data_dir(path, files=False)
    assert validate_data_dir(path, files=False, non_print=True)
    (path / "text").write_text(("a-1 one\n" + rest).rstrip("\n"))
    assert not validate_data_dir(path, files=False)


DAMAGE = st.tuples(
    st.sampled_from(["cut", "double", "swap", "blank", "clear", "junk", "clash"]),
    st.integers(0, 9),
    st.integers(0, 99),
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
def test_any_damaged_dir_is_sound_after_the_repair_which_is_idempotent(
    tmp_path_factory, data_dirs, data, damages
):
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
    assert read_data_dir(path) == fixed
    assert set(fixed.utt2spk) <= set(whole.utt2spk)
    after = contents(path)
    assert fix_data_dir(path) == fixed and contents(path) == after


def test_validation_prints_warnings_and_faults(path, capsys):
    assert validate_data_dir(path, audio=True, rate=16000)
    assert capsys.readouterr() == (
        f"{path}: 4 utterances, 2 speakers: no faults found\n",
        "",
    )
    assert not validate_data_dir(path, audio=True, rate=8000)
    assert (
        "wav.scp: sampling rate 16000 Hz, not 8000 Hz, of a-1, a-2"
        in capsys.readouterr().err
    )
    (path / "utt2spk").write_text("a-1 x\na-2 x\nb-1 x\nb-2 x\n")
    (path / "spk2utt").write_text("x a-1 a-2 b-1 b-2\n")
    assert validate_data_dir(path)
    assert capsys.readouterr().err.startswith(
        f"warning: {path}/utt2spk: the speaker is not a prefix of a-1, a-2"
    )
    assert validate_data_dir(path, speaker_order=False)
    assert capsys.readouterr().err == ""


# --- audio ---


def noise():
    return np.random.default_rng(1).uniform(-0.5, 0.5, 8000)


def test_bad_audio_is_named(audio_dir, tmp_path):
    assert check_audio(audio_dir, rate=16000) == []
    soundfile.write(
        tmp_path / "bad.wav", np.append(noise(), np.nan), 16000, subtype="FLOAT"
    )
    data = dataclasses.replace(
        audio_dir, wav_scp={**audio_dir.wav_scp, "a-2": str(tmp_path / "bad.wav")}
    )
    (problem,) = check_audio(data)
    assert (problem.file, problem.what, problem.ids) == (
        "wav.scp",
        "NaN or infinite samples in the audio of",
        ("a-2",),
    )


def test_a_header_written_to_a_pipe_promises_nothing(audio_dir, tmp_path):
    soundfile.write(tmp_path / "pipe.wav", noise(), 16000)
    content = bytearray((tmp_path / "pipe.wav").read_bytes())
    at = content.index(b"data") + 4
    content[at : at + 4] = b"\xff\xff\xff\xff"
    (tmp_path / "pipe.wav").write_bytes(content)
    data = dataclasses.replace(
        audio_dir, wav_scp={**audio_dir.wav_scp, "a-2": str(tmp_path / "pipe.wav")}
    )
    assert check_audio(data) == []


def test_segments_beyond_the_true_end(audio_dir):
    segments = {
        "a-1": "a-1 0 0.5",
        "a-2": "a-2 0 0.9",
        "b-1": "b-1 0 1.75",
        "b-2": "b-2 0.8 -1",
    }
    warnings = []
    (problem,) = check_audio(
        dataclasses.replace(audio_dir, segments=segments), warnings=warnings
    )
    assert (problem.file, problem.ids) == ("segments", ("b-1", "b-2"))
    assert [(warning.file, warning.ids) for warning in warnings] == [
        ("segments", ("a-2",))
    ]

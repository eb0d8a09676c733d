"""Several sets by one command: their lines, and that only those are made again of which something has changed."""

import numpy as np
import pytest
import soundfile

from espnet_ext.bin import mixtures, speaker_profiles
from espnet_ext.bin.several_sets import make_once, split_sets
from espnet_ext.data.data_dir import DataDir, write_tables
from espnet_ext.data.manifests import from_data_dir, write_manifests
from espnet_ext.errors import InputError
from espnet_ext.multitalker import profiles


@pytest.fixture
def data(tmp_path):
    """A data dir and manifests of four tones of each of three speakers."""
    names = [f"{speaker}-{number}" for speaker in "abc" for number in range(4)]
    for name in names:
        tone = 0.3 * np.sin(np.arange(16000) * (ord(name[0]) - 90) / 100)
        soundfile.write(tmp_path / f"{name}.flac", tone, 16000)
    data = DataDir(
        wav_scp={name: str(tmp_path / f"{name}.flac") for name in names},
        utt2spk={name: name[0] for name in names},
        text=dict.fromkeys(names, "TWO WORDS"),
    )
    write_manifests(*from_data_dir(data), tmp_path / "manifests")
    write_tables(data, tmp_path / "data")
    return tmp_path


def files_of(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_lines_follow_what_is_common(tmp_path):
    file = tmp_path / "sets"
    file.write_text("--output a\\ b --count 3\n\n--output 'c d'\n")
    assert split_sets(["--nj", "2", "--sets", str(file)]) == [
        ["--nj", "2", "--output", "a b", "--count", "3"],
        ["--nj", "2", "--output", "c d"],
    ]
    assert split_sets(["--output", "a"]) == [["--output", "a"]]


@pytest.mark.parametrize(("text", "message"), [("\n", "it lists no set"), ("--output 'a", "No closing quotation")])
def test_a_file_without_sets_is_refused(text, message, tmp_path):
    file = tmp_path / "sets"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        split_sets(["--sets", str(file)])
    with pytest.raises(InputError, match="nowhere: .*give a file"):
        split_sets(["--sets", str(tmp_path / "nowhere")])


def test_made_once_of_the_same(tmp_path):
    calls = []
    file = tmp_path / "in"
    file.write_text("one")

    def make() -> None:
        calls.append(1)
        (tmp_path / "text").write_text("x")

    def once(**settings) -> bool:
        return make_once(tmp_path, settings, [file, tmp_path / "absent"], "text", make)

    assert [once(a=1), once(a=1), once(a=2), once(a=2)] == [True, False, True, False]
    file.write_text("two")
    assert [once(a=2), once(a=2)] == [True, False]
    (tmp_path / "text").unlink()
    assert [once(a=2), len(calls)] == [True, 4]


def test_a_failure_leaves_no_note(tmp_path):
    def fail() -> None:
        raise InputError("broken")

    make_once(tmp_path, {}, [], "text", lambda: (tmp_path / "text").write_text("old"))
    with pytest.raises(InputError):
        make_once(tmp_path, {"a": 1}, [], "text", fail)
    assert make_once(tmp_path, {}, [], "text", lambda: (tmp_path / "text").write_text("new"))


def test_mixtures_of_several_sets_are_those_made_one_by_one(data, capsys):
    common = [
        *("--recordings", str(data / "manifests" / "recordings.jsonl.gz")),
        *("--supervisions", str(data / "manifests" / "supervisions.jsonl.gz")),
        *("--speakers", "3", "--overlap", "0.2", "--nj", "1"),
    ]
    lines = {
        "x": ["--name", "dev short", "--utterances", "2-3", "--count", "2"],
        "y": ["--name", "train", "--utterances", "1-1", "--no-audio"],
    }
    file = data / "sets"
    file.write_text(
        "".join(
            f"{' '.join(words)} --output {data / name}\n".replace("dev short", "'dev short'")
            for name, words in lines.items()
        )
    )
    mixtures.main([*common, "--sets", str(file)])
    made = {name: files_of(data / name) for name in lines}
    for name, words in lines.items():
        mixtures.main([*common, *words, "--output", str(data / "alone" / name)])
        alone = files_of(data / "alone" / name)
        assert alone.keys() == made[name].keys()
        for table in ("text", "text_speakers", "references.json"):
            assert alone[table] == made[name][table]
    assert "dev short" in capsys.readouterr().out
    # one more seed in the second set: the first is left alone
    before = {name: (data / name / "text").stat().st_mtime_ns for name in lines}
    file.write_text(file.read_text().replace("--no-audio", "--no-audio --seed 5"))
    mixtures.main([*common, "--sets", str(file)])
    after = {name: (data / name / "text").stat().st_mtime_ns for name in lines}
    assert after["x"] == before["x"] and after["y"] > before["y"]
    output = capsys.readouterr().out
    assert f"made before: {data / 'x'}" in output and f"written to {data / 'y'}" in output


def test_profiles_of_several_sets_load_the_model_once(data, monkeypatch, capsys):
    loaded = []

    def load():
        loaded.append(1)
        return lambda samples: np.abs(np.fft.rfft(samples, 16))

    speaker_profiles._embedding.cache_clear()
    monkeypatch.setattr(profiles, "resemblyzer", load)
    file = data / "sets"
    lines = {"p": "--utterances 1", "q": "--utterances 3"}
    file.write_text("".join(f"--output {data / name} {words}\n" for name, words in lines.items()))
    speaker_profiles.main(["--data", str(data / "data"), "--sets", str(file)])
    counts = {
        name: {len(line.split()) - 1 for line in (data / name / "enrolment").read_text().splitlines()} for name in lines
    }
    assert counts == {"p": {1}, "q": {3}} and len(loaded) == 1
    (data / "q" / "enrolment").unlink()
    capsys.readouterr()
    speaker_profiles.main(["--data", str(data / "data"), "--sets", str(file)])
    assert f"made before: {data / 'p'}" in capsys.readouterr().out and (data / "q" / "enrolment").is_file()
    speaker_profiles._embedding.cache_clear()

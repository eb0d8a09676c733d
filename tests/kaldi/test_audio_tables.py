"""The audio of a data dir for work over shards."""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi import audio_tables


def test_audio_files_by_utterance(tmp_path):
    def table(text: str) -> dict[str, str]:
        (tmp_path / "wav.scp").write_text(text)
        return audio_tables.read_audio_table(tmp_path)

    (tmp_path / "a.wav").write_bytes(b"x")
    (tmp_path / "empty.wav").touch()
    audio = tmp_path / "a.wav"
    assert list(table(f"b {audio}\na {audio}\n")) == ["a", "b"]
    with pytest.raises(InputError, match="wav.scp: b: .*empty.wav is empty"):
        table(f"a {audio}\nb {tmp_path / 'empty.wav'}\n")
    with pytest.raises(InputError, match="a comes twice"):
        table(f"a {audio}\na {audio}\n")
    with pytest.raises(InputError, match="nowhere"):
        audio_tables.read_audio_table(tmp_path / "nowhere")


def test_durations(tmp_path):
    assert audio_tables.read_durations(tmp_path, {"a": "a.wav"}) == {"a": 1.0}
    (tmp_path / "utt2dur").write_text("a 2.5\nb long\n")
    assert audio_tables.read_durations(tmp_path, {"a": "a.wav"}) == {"a": 2.5}
    with pytest.raises(
        InputError, match="utt2dur: b: 'long' is no duration in seconds"
    ):
        audio_tables.read_durations(tmp_path, {"b": "b.wav"})
    with pytest.raises(InputError, match="utt2dur: c: None is no duration"):
        audio_tables.read_durations(tmp_path, {"c": "c.wav"})

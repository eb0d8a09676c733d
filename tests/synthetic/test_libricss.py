"""The mini LibriCSS, and LibriCSS's preparation on it."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.corpora import libricss
from espnet_ext.corpora.libricss import (
    CONDITIONS,
    MEETING_INFO,
    name_recording,
    prepare_libricss,
    read_enrolment,
    read_meeting_info,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import validate
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.synthetic import parameters
from espnet_ext.synthetic.libricss import make_libricss
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, group_by_recording, measure_overlap_ratio


@pytest.fixture(scope="module")
def corpus(make_tiny) -> Path:
    """The smallest size with eight speakers. Tests leave it as it is."""
    parts = {
        "train-clean-100": (1, 1, 1),
        "dev-clean": (1, 1, 1),
        "test-clean": (8, 1, 4),
    }
    size = parameters.make_librispeech_size(parts, lm_sentences=400)
    tiny = parameters.LibriCssSize(size, sessions=1, utterances=2, group=4)
    return make_tiny(make_libricss, parameters.LIBRICSS_SIZES, tiny)


@pytest.fixture(scope="module")
def spoken(corpus, tmp_path_factory):
    """Recording -> its utterances."""
    return prepare_libricss(corpus / "LibriCSS", tmp_path_factory.mktemp("out"))


def sessions(corpus: Path) -> list[Path]:
    return sorted((corpus / "LibriCSS" / "for_release").glob("*/*"))


def test_layout(corpus):
    assert [session.parent.name for session in sessions(corpus)] == sorted(CONDITIONS)
    listed = corpus / "LibriCSS" / "for_release" / "all_res.json"
    segments = json.loads(listed.read_text())
    assert segments.keys() == {session.name for session in sessions(corpus)}
    for session in sessions(corpus):
        info = soundfile.info(session / "record" / "raw_recording.wav")
        assert (info.samplerate, info.channels) == (16000, 7)
        turns = read_meeting_info(session / "transcription" / MEETING_INFO)
        assert len(turns) == 16
        assert len({turn.speaker for turn in turns}) == 8
        assert max(turn.end for turn in turns) < info.duration
        overlap = 100 * measure_overlap_ratio(turn.span for turn in turns)
        assert session.name.endswith(f"_actual{overlap:.1f}")
        wanted = float(session.name.split("_")[2])
        assert overlap == pytest.approx(wanted, abs=3)


def test_speakers_are_persons_and_not_tracks(corpus, spoken):
    # The column in the third place of an STM names tracks: fewer than there are people,
    # and no LibriSpeech ids.
    tracks = set()
    for path in (corpus / "LibriCSS" / "scoring" / "references").glob("*/*.stm"):
        for line in path.read_text().splitlines():
            tracks.add(line.split()[2])
    assert tracks <= {"A", "B", "C", "D"}
    assert len(tracks) > 1
    people = {path.name for path in (corpus / "LibriSpeech" / "test-clean").iterdir()}
    assert len(people) == 8
    for turns in spoken.values():
        assert {turn.speaker for turn in turns} == people


def test_segments_between_silences(corpus, spoken, tmp_path):
    listed = corpus / "LibriCSS" / "speaker_enrollment" / "libricss_speaker_info.jsonl"
    prepare_libricss(corpus / "LibriCSS", tmp_path, enrolment_list=listed)
    assert [path.name for path in tmp_path.iterdir()] == ["segments"]
    folder = tmp_path / "segments"
    data = read_data_dir(folder / "data")
    assert validate(data, require_text=False) == []
    inventory = read_table(folder / "inventory")
    enrolment = read_table(folder / "enrolment")
    assert inventory.keys() == data.wav_scp.keys()
    for entries in map(str.split, inventory.values()):
        assert len(entries) == 8
        for entry in entries:
            _, _, profile = entry.partition("=")
            assert len(enrolment[profile].split()) == 2
    groups = read_table(folder / "groups")
    recordings = read_table(folder / "segment_recording")
    assert set(groups.values()) == {"0S", "0L", "10", "20", "30", "40"}
    turns = group_by_recording(read_segments(folder / "references.json"))
    assert turns.keys() == data.wav_scp.keys()
    assert count_words(turns) == count_words(spoken)
    for name, own in turns.items():
        assert min(turn.start for turn in own) == 0
        seconds = float(data.utt2dur[name])
        assert max(turn.end for turn in own) == pytest.approx(seconds, abs=1e-3)
        condition = recordings[name].split("_")[0]
        assert groups[name] == CONDITIONS[condition]
        if groups[name].startswith("0"):
            assert len(own) == 1
    # The samples are those of the first channel, from the segment's first word on.
    first = min(data.wav_scp)
    recording = recordings[first]
    sources = {name_recording(path.name): path for path in sessions(corpus)}
    source = sources[recording] / "record" / "raw_recording.wav"
    samples, _ = soundfile.read(data.wav_scp[first], dtype="int16")
    whole, _ = soundfile.read(source, dtype="int16")
    begin = round(min(turn.start for turn in spoken[recording]) * 16000)
    np.testing.assert_array_equal(samples, whole[begin : begin + len(samples), 0])


def count_words(recordings: dict[str, list[Segment]]) -> int:
    turns = itertools.chain.from_iterable(recordings.values())
    return sum(len(turn.words) for turn in turns)


def test_enrolment(corpus, spoken, monkeypatch):
    path = corpus / "LibriCSS" / "speaker_enrollment" / "libricss_speaker_info.jsonl"
    enrolment = read_enrolment(path, spoken)
    played = {}
    for session in sessions(corpus):
        info = session / "transcription" / MEETING_INFO
        _, *lines = info.read_text().splitlines()
        played[name_recording(session.name)] = {line.split("\t")[3] for line in lines}
    for recording, speakers in enrolment.items():
        assert len(speakers) == 8
        for speaker, utterances in speakers.items():
            assert len(utterances) == 2
            assert all(key.startswith(f"{speaker}-") for key in utterances)
            assert not played[recording] & set(utterances), (
                "what is played in a session enrols nobody"
            )
    monkeypatch.setattr(libricss, "ENROLMENT_UTTERANCES", 3)
    with pytest.raises(
        InputError, match="2 unused utterances of speaker .*, but 3 are needed"
    ):
        read_enrolment(path, spoken)
    with pytest.raises(InputError, match="session OV10_session9 is not in it"):
        read_enrolment(path, ["OV10_session9"])
    with pytest.raises(InputError, match="no readable enrolment list"):
        read_enrolment(path.with_name("x"), [])


def test_faults(corpus, tmp_path):
    with pytest.raises(InputError, match="no folder 0S, 0L"):
        prepare_libricss(tmp_path, tmp_path / "out")
    shutil.copytree(corpus / "LibriCSS" / "for_release", tmp_path / "for_release")
    session = sorted((tmp_path / "for_release").glob("OV20/*"))[0]
    info = session / "transcription" / MEETING_INFO
    lines = info.read_text().splitlines()
    info.write_text("\n".join([*lines[:3], "oops", *lines[3:]]) + "\n")
    with pytest.raises(
        InputError, match="line 4 of .*meeting_info.txt is not start_time end_time"
    ):
        prepare_libricss(tmp_path, tmp_path / "out")
    speaker = lines[1].split("\t")[2]
    others = [line for line in lines if f"\t{speaker}\t" not in line]
    info.write_text("\n".join(others) + "\n")
    with pytest.raises(InputError, match="7 speakers instead of 8"):
        prepare_libricss(tmp_path, tmp_path / "out")
    info.write_text("\n".join(lines) + "\n")
    soundfile.write(session / "record" / "raw_recording.wav", np.zeros((100, 1)), 16000)
    with pytest.raises(InputError, match="1 channels at 16000 Hz"):
        prepare_libricss(tmp_path, tmp_path / "out")


def test_utterances_are_those_of_lhotse_s_recipe(corpus, spoken):
    from lhotse.recipes.libricss import prepare_libricss as lhotse_recipe

    release = corpus / "LibriCSS" / "for_release"
    theirs = []
    for item in lhotse_recipe(release, type="sdm")["supervisions"]:
        times = (item.start, item.end)
        theirs.append((item.recording_id, *times, item.speaker, item.text.strip()))
    ours = []
    for turn in itertools.chain.from_iterable(spoken.values()):
        ours.append((turn.recording, *turn.span, turn.speaker, turn.text))
    assert sorted(theirs) == sorted(ours)


def test_faulty_sessions_can_be_left_out(corpus, spoken, tmp_path):
    shutil.copytree(corpus / "LibriCSS" / "for_release", tmp_path / "for_release")
    session = sorted((tmp_path / "for_release").glob("OV20/*"))[0]
    another = session.name.replace("session0", "session7")
    shutil.copytree(session, session.with_name(another))
    (session / "transcription" / MEETING_INFO).unlink()
    with pytest.raises(
        InputError, match="50.0% of OV20 is faulty, and --skip-faulty allows 49%"
    ):
        prepare_libricss(tmp_path, tmp_path / "out", skip_faulty=0.49)
    left = prepare_libricss(tmp_path, tmp_path / "out", skip_faulty=0.5)
    assert left.keys() == {*spoken, "OV20_session7"} - {"OV20_session0"}
    faults = (tmp_path / "out" / "libricss_faults.txt").read_text()
    assert "# left out: 1 of 2 in OV20" in faults

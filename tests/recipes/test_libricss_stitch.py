"""egs/libricss_stitch/run.sh at scale smoke: from audio to the tables, and mistakes."""

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from runs import (
    assert_nothing_is_repeated,
    cells_of,
    fail_in_each_stage,
    smoke_run,
    table_of,
)

from espnet_ext.kaldi.tables import read_table
from espnet_ext.stitch.recogniser.profiles import read_profiles
from espnet_ext.synthetic.libricss import make_libricss
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.words import join_words_by_speaker

run = partial(smoke_run, "libricss_stitch")
ROWS = (
    "No segmentation",
    "Block-wise inference",
    "Overlapping inference",
    "Stitcher WCOE",
)
TABLES = ("--table", "all", "--rows", ",".join((*ROWS, "50 %", "train")))
MIXTURES = ("dev-short", "dev-long", "test-short", "test-long")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> tuple[Path, str]:
    """All tables, on LibriSpeech and LibriCSS that are given."""
    folder = tmp_path_factory.mktemp("smoke_stitch")
    make_libricss(folder / "data" / "corpus", "smoke")
    result = run(*TABLES, *given(folder), folder=folder)
    return folder, result.stdout


def given(folder: Path) -> tuple[str, ...]:
    """The options for the corpora: of LibriCSS the folder ``for_release``, above which
    the enrolment list is found.
    """
    corpus = folder / "data" / "corpus"
    return (
        "--librispeech",
        str(corpus / "LibriSpeech"),
        "--libricss",
        str(corpus / "LibriCSS" / "for_release"),
    )


def test_a_second_run_repeats_nothing(smoke):
    assert_nothing_is_repeated(run(*TABLES, *given(smoke[0]), folder=smoke[0]))


def table(folder: Path, number: int) -> dict[str, dict]:
    found = cells_of("libricss_stitch", folder, str(number))
    return {
        name: {column: cell.here for column, cell in cells.items()}
        for name, cells in found.items()
    }


def test_the_tables_have_the_rows_that_were_asked_for(smoke):
    folder, _ = smoke
    for name, cells in table(folder, 2).items():
        assert all(
            (cells[test_set] is not None) == (name in ROWS) for test_set in MIXTURES
        )
    libricss = table(folder, 4)
    for name, cells in libricss.items():
        assert all((cell is not None) == (name in ROWS) for cell in cells.values())
        if name not in ROWS:
            continue
        conditions = [cell for name, cell in cells.items() if name != "libricss"]
        assert len(conditions) == 6
        assert sum(cell.words for cell in conditions) == cells["libricss"].words
        assert sum(cell.errors for cell in conditions) == cells["libricss"].errors
    meta = table_of("libricss_stitch", folder, "4").meta
    assert (meta.units["libricss"], meta.units["test-short"]) == (
        "session",
        "recording",
    )
    assert (
        table(folder, 3)["50 %"]["test-long"].words
        == table(folder, 2)["Stitcher WCOE"]["test-long"].words
    )


def test_every_word_of_the_reference_is_counted_once(smoke):
    folder, _ = smoke
    for name, cells in table(folder, 2).items():
        for test_set in MIXTURES if name in ROWS else ():
            references = read_segments(folder / "data" / test_set / "references.json")
            assert cells[test_set].words == sum(len(turn.words) for turn in references)


def test_block_wise_transcripts_are_the_windows_joined(smoke):
    folder, _ = smoke
    heard = group_by_speaker(
        read_hypotheses(
            folder / "exp" / "heard" / "windows0" / "test-long" / "hypotheses.jsonl"
        )
    )
    written = read_segments(
        folder
        / "exp"
        / "block"
        / "seed1"
        / "decode_default"
        / "test-long"
        / "transcripts.json"
    )
    joined = {
        recording: {
            speaker: tuple(word for item in windows for word in item.words)
            for speaker, windows in speakers.items()
            if any(item.words for item in windows)
        }
        for recording, speakers in heard.items()
    }
    assert join_words_by_speaker(written) == joined


def test_table_1_and_the_inventories(smoke):
    folder, output = smoke
    counts = table(folder, 1)
    assert list(counts) == ["train", "dev short", "dev long", "test short", "test long"]
    assert [cells["samples"].value for cells in counts.values()] == [4, 2, 2, 2, 2]
    assert "Table 1. Simulated mixtures" in output and "50083.00" in output
    profiles = read_table(folder / "data" / "profiles" / "test" / "profiles.scp")
    enrolled = {
        key
        for row in read_table(folder / "data/profiles/test/enrolment").values()
        for key in row.split()
    }
    for test_set in MIXTURES:
        spoken = read_table(folder / "data" / test_set / "text_speakers")
        for mixture, names in read_table(
            folder / "data" / test_set / "inventory"
        ).items():
            assert set(spoken[mixture].split()) < set(names.split()) <= profiles.keys()
        mixed = read_table(folder / "data" / test_set / "mixed_utterances").values()
        assert not enrolled & {key for row in mixed for key in row.split()}


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage("libricss_stitch", smoke[0], *TABLES, *given(smoke[0]))


def test_table_1_alone_trains_nothing(smoke, tmp_path):
    folder, _ = smoke
    options = ("--table", "1", "--stage", "2")
    result = run(*options, *given(folder), folder=tmp_path, datadir=folder / "data")
    assert result.stdout.count("nothing to do: ") == 6
    assert table(tmp_path, 1) == table(folder, 1)
    assert not (tmp_path / "exp" / "recogniser").exists()


def test_profiles_by_a_speaker_model_of_espnet(tmp_path, smoke, espnet_speaker_model):
    """Stages 1 to 5: the recogniser takes profiles of as many dimensions as the model
    gives.
    """
    folder, _ = smoke
    corpus = (
        "--librispeech",
        str(folder / "data" / "corpus" / "LibriSpeech"),
        "--rows",
        "Block-wise inference",
    )
    options = (*corpus, "--table", "2", "--speaker_model", str(espnet_speaker_model))
    result = run(*options, folder=tmp_path, status=1)
    assert "--recogniser conformer" in result.stderr
    result = run(
        *options, "--recogniser", "conformer", "--stop_stage", "5", folder=tmp_path
    )
    (profiles,) = (tmp_path / "data").glob("profiles-*")
    assert {
        rows.shape
        for rows in read_profiles([profiles / "test" / "profiles.scp"]).values()
    } == {(2, 6)}
    assert not (tmp_path / "data" / "profiles").exists()
    assert (
        "profile_size: 6\n"
        in (tmp_path / "exp" / "recogniser" / "windows" / "config.yaml").read_text()
    )


def test_table_4_needs_libricss(tmp_path, smoke):
    corpus = smoke[0] / "data" / "corpus"
    options = (
        "--librispeech",
        str(corpus / "LibriSpeech"),
        "--table",
        "4",
        "--stop_stage",
        "1",
    )
    for more, message in (
        ((), "--libricss DIR"),
        (
            ("--libricss", str(corpus / "LibriCSS"), "--pairs_within", "near"),
            "--pairs_within",
        ),
        (("--libricss", "/nowhere"), "--libricss /nowhere: "),
        (
            ("--libricss", str(corpus / "LibriCSS"), "--enrolment_list", "/nowhere"),
            "/nowhere: ",
        ),
    ):
        result = run(*options, *more, folder=tmp_path, status=1)
        assert message in result.stderr


def test_whisper_on_speakers_in_turns(tmp_path):
    rows = (
        "No segmentation",
        "Time-aware overlapping inference",
        "Stitcher WCOE guarded",
    )
    result = run(
        "--recogniser",
        "whisper",
        "--table",
        "2",
        "--rows",
        ",".join(rows),
        folder=tmp_path,
    )
    assert result.stdout.count("nothing to do: ") == 3
    cells = table(tmp_path, 2)
    assert all(
        cells[name][test_set] is not None for name in rows for test_set in MIXTURES
    )
    for test_set in MIXTURES:
        turns = read_segments(tmp_path / "data" / test_set / "references.json")
        spans = sorted(
            turn.span for turn in turns if turn.recording == turns[0].recording
        )
        # nobody talks at once
        assert all(one[1] <= other[0] + 1e-3 for one, other in pairwise(spans))
        heard = group_by_speaker(
            read_hypotheses(
                tmp_path / "exp" / "heard" / "windows50" / test_set / "hypotheses.jsonl"
            )
        )
        spoken = {(turn.recording, turn.speaker) for turn in turns}
        assert {
            (name, who) for name, speakers in heard.items() for who in speakers
        } <= spoken

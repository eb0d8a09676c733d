"""egs/spotify_longctx: models in the place of trainings must be what their names say;
GPUs of a training.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest
import soundfile
from runs import EGS

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, write_data_dir
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.start import prepare_run
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables
from espnet_ext.work import gpus
from espnet_ext.work.yaml_files import deep_merge, write_yaml

RECIPE = EGS / "spotify_longctx"
corpora = load_script(RECIPE / "local" / "corpora.py")
check_model = load_script(RECIPE / "local" / "published_models.py").check_model
PAPER = {
    "num_blocks": 6,
    "attention_heads": 6,
    "output_size": 768,
    "positions": "rotary",
    "rotary_base": 1500000.0,
}
IMPORTED = {"encoder_conf": PAPER, "chunk_conf": {"max_seconds": 10.24}}


@pytest.mark.parametrize(
    ("system", "changes", "fault"),
    [
        ("base_10", {}, None),
        ("base_41", {"chunk_conf": {"max_seconds": 40.96}}, None),
        ("base_3600", {"chunk_conf": {"max_seconds": 3600}}, None),
        (
            "no_positions_10",
            {"encoder_conf": {"positions": "none", "rotary_base": 10000.0}},
            None,
        ),
        (
            "double_heads_10",
            {"encoder_conf": {"attention_heads": 12}},
            None,
        ),  # published with 6 layers
        (
            "deep_double_heads_10",
            {"encoder_conf": {"attention_heads": 12, "num_blocks": 9}},
            None,
        ),
        ("base_20", {}, "base_20 .*20 s.* 10.24"),
        ("base_10", {"chunk_conf": {"max_seconds": None}}, "base_10 .*None"),
        ("deep_10", {}, "deep_10 .*num_blocks 9.* 6"),
        ("narrow_10", {}, "narrow_10 .*attention_heads 8.* 6"),
        ("no_positions_10", {}, "positions none.* rotary"),
        (
            "rotary_small_base_10",
            {},
            "rotary_base 10000.0.* 1500000.0",
        ),
        (
            "base_10",
            {"encoder_conf": {"output_size": 256}},
            "output_size 768.* 256",
        ),
    ],
)
def test_models_must_be_what_their_names_say(system, changes, fault, tmp_path):
    systems = load_tables(RECIPE / "conf" / "tables.yaml", "full").systems
    full = merge_system_config(load_scale(RECIPE, "full"), systems[system])
    write_yaml(tmp_path / "config.yaml", deep_merge(IMPORTED, changes), "imported")
    message = rf"{fault}.*config\.yaml"
    with pytest.raises(InputError, match=message) if fault else nullcontext():
        check_model(tmp_path / "config.yaml", system, full)


def test_figure_rooms_needs_its_data_dirs(monkeypatch):
    monkeypatch.chdir(RECIPE)
    with pytest.raises(InputError, match="--data"):
        prepare_run(RECIPE, {"scale": "mini_rooms", "figure": "rooms"})


def test_a_run_checks_its_models(tmp_path, monkeypatch):
    monkeypatch.chdir(RECIPE)
    model = tmp_path / "base_10" / "seed1"
    write_yaml(model / "config.yaml", IMPORTED, "imported")
    (model / "model.pth").touch()
    options = {"scale": "smoke", "published": str(tmp_path), "rows": "Rev16 at 10 s"}
    with pytest.raises(InputError, match="base_10 .*num_blocks 2.* 6"):
        prepare_run(RECIPE, options)
    (model / "config.yaml").unlink()
    with pytest.raises(InputError, match=f"{model}/config.yaml: "):
        prepare_run(RECIPE, options)


def run_of(monkeypatch: pytest.MonkeyPatch, folder: Path, **options: str) -> Run:
    monkeypatch.chdir(RECIPE)  # prepare_run() changes the folder, too
    return prepare_run(
        RECIPE,
        {"expdir": str(folder / "exp"), "datadir": str(folder / "data"), **options},
    )


@pytest.mark.parametrize(("ngpu", "used"), [("0", 0), ("1", 1), ("2", 2), ("4", 2)])
def test_a_training_takes_no_more_gpus_than_a_batch_has_sequences(
    ngpu, used, tmp_path, monkeypatch, capsys
):
    """At smoke a batch has two sequences of 10 s. No run is refused: decoding takes
    all.
    """
    monkeypatch.setattr(gpus, "_ask_new_process", lambda visible: 4)
    run = run_of(monkeypatch, tmp_path, scale="smoke", ngpu=ngpu, rows="Rev16 at 10 s")
    assert run.ngpu == int(ngpu)
    (system,) = run.systems
    (step,) = load_script(RECIPE / "recipe.py").train_system(run, system, 1, 1)
    assert step.free["ngpu"] == used
    assert (step.free["more"] == ("--multiprocessing_distributed", "true")) is (
        used > 1
    )
    assert (
        "on 2 of 4 GPUs, since a batch has so many sequences of 10 s"
        in capsys.readouterr().out
    ) is (ngpu == "4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "none.ctm"}, "--words .*none.ctm: "),
        (
            {"words": "conf"},
            "--words .*conf: ",
        ),
        ({"text": "none.txt", "aligner": "model"}, "--text .*none.txt: "),
        ({"text": "conf", "aligner": "model"}, "/model: "),
        ({"text": "conf", "aligner": "conf"}, "/conf: "),
        (
            {"text": "conf"},
            "--audio .*--words .*--text .*--aligner ",
        ),
        ({"audio": "", "words": "run.sh"}, "--audio"),
        ({"audio": "", "held_out": "2"}, "--held_out"),
        (
            {"words": "run.sh", "held_out": "0"},
            "--held_out .*'0'",
        ),
        (
            {"words": "run.sh", "held_out": "few"},
            "--held_out .*'few'",
        ),
        (
            {"words": "run.sh", "passes": "0"},
            "--passes .*'0'",
        ),
        (
            {"audio": "", "published": "conf", "passes": "2"},
            "--passes",
        ),
    ],
)
def test_words_and_models_of_ones_own_audio_are_checked_first(
    options, message, tmp_path, monkeypatch
):
    with pytest.raises(InputError, match=message):
        run_of(
            monkeypatch, tmp_path, scale="smoke", **{"audio": str(tmp_path), **options}
        )


def test_only_lists_of_ones_own_test_corpora_must_be_complete(tmp_path, monkeypatch):
    run = run_of(monkeypatch, tmp_path, scale="smoke", rev16=str(tmp_path))
    assert corpora.list_test_options(run, "rev16") == {}
    assert corpora.list_test_options(run, "earnings22") == {"complete": False}
    assert corpora.list_test_options(run, "tedlium") == {"parts": ["test"]}


def test_recordings_that_are_too_few_to_hold_some_out_are_refused_before_any_work(
    tmp_path, monkeypatch
):
    (tmp_path / "audio" / "below").mkdir(parents=True)
    for name in ("one.wav", "below/two.FLAC", "below/two.txt"):
        (tmp_path / "audio" / name).touch()
    own = {
        "scale": "mini",
        "audio": str(tmp_path / "audio"),
        "words": str(RECIPE / "run.sh"),
        "rows": "Rev16 at 10 s",
    }
    with pytest.raises(InputError, match="audio: .*--held_out, at most 1$"):
        corpora.data(run_of(monkeypatch, tmp_path, **own))
    assert not (tmp_path / "data").exists()
    corpora.check_number(run_of(monkeypatch, tmp_path, **own, held_out="1"))
    (tmp_path / "audio" / "one.wav").unlink()
    with pytest.raises(InputError, match="audio: "):
        corpora.check_number(run_of(monkeypatch, tmp_path, **own, held_out="1"))


def test_recordings_that_were_left_out_may_be_too_many_to_hold_some_out(tmp_path):
    """As many recordings on the disk say nothing of those that are sound."""
    data = DataDir(
        wav_scp={"a": "a.wav", "b": "b.wav"},
        utt2spk={"a": "a", "b": "b"},
        text={"a": "x", "b": "x"},
    )
    write_data_dir(data, tmp_path / "podcasts")
    with pytest.raises(InputError, match="podcasts: "):
        corpora.hold_out(
            str(tmp_path / "podcasts"),
            str(tmp_path / "dev"),
            str(tmp_path / "train"),
            2,
        )
    assert not (tmp_path / "dev").exists()


TALKS = {f"talk{number}": 692.0 for number in range(2351)}  # TED-LIUM 3: 452 h


@pytest.mark.parametrize(
    ("rows", "options", "fault"),
    [
        (
            "Earnings-22 at 10 s",
            {},
            "base_10: ",
        ),
        (
            "Earnings-22 at 328 s",
            {"passes": "2"},
            "base_328: ",
        ),
        (
            "Earnings-22 at 1311 s",
            {"passes": "20", "schedule": "shares"},
            "base_1311: ",
        ),
        (
            "Earnings-22 at 10 s,Earnings-22 at 655 s",
            {"passes": "20", "schedule": "shares"},
            None,
        ),
    ],
)
def test_plans_for_a_public_corpus(rows, options, fault, tmp_path, monkeypatch):
    """README.md: TED-LIUM 3 with --passes 20 --schedule shares."""
    given = {
        "scale": "full",
        "rows": rows,
        **dict.fromkeys(("spotify", "earnings22"), str(tmp_path)),
        **options,
    }
    run = run_of(monkeypatch, tmp_path, **given)
    with pytest.raises(InputError, match=fault) if fault else nullcontext():
        corpora.check_plans(run, TALKS)
    if not fault:
        assert (
            corpora.merge_training_config(run, run.systems[0])["chunk_conf"]["passes"]
            == 20
        )


def test_plans_are_checked_before_alignment(tmp_path, monkeypatch):
    for number in range(5):
        soundfile.write(tmp_path / f"r{number}.wav", [0.1] * 16000 * 2, 16000)
    (tmp_path / "text").mkdir()
    given = {
        "scale": "smoke",
        "rows": "Rev16 at 10 s",
        "audio": str(tmp_path),
        "text": str(tmp_path / "text"),
    }
    monkeypatch.setattr(corpora, "find_model", lambda path: None)
    run = run_of(monkeypatch, tmp_path, **given, aligner=str(tmp_path))
    with pytest.raises(InputError, match="base_10: .* 10 s: .* 2 s"):
        run.recipe.stages["data"](run)
    assert not (tmp_path / "data").exists()

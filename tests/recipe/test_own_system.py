"""``--asr_config``: the user's own system in the tables of each recipe."""

import shutil
from pathlib import Path

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.recipe.own_system import try_config
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.start import prepare_run
from espnet_ext.tables.plan import merge_system_config
from espnet_ext.work.yaml_files import deep_merge

EGS = Path(__file__).parents[2] / "egs"
OPTIONS = [
    ("librispeech_sem", "asr_config", {"table": "1"}, "optim_conf"),
    ("asru2019_cs", "asr_config", {"table": "1"}, "decoder_conf"),
    ("spotify_longctx", "asr_config", {"figure": "1"}, "optim_conf"),
    ("librispeech_rescore", "rescorer_config", {"table": "1"}, "epochs"),
    ("libricss_stitch", "stitcher_config", {"table": "2"}, "optim_conf"),
]


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Return a function that prepares a run with a config of the user's own, called
    ``mine``.
    """

    def prepare_it(recipe: str, option: str, config: dict, **options: str):
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(config))
        return prepare_run(
            EGS / recipe,
            {"scale": "smoke", option: str(path), "expdir": "exp", **options},
            {},
        )

    return prepare_it


@pytest.mark.parametrize(
    ("recipe", "option", "table", "key"), OPTIONS, ids=[each[0] for each in OPTIONS]
)
def test_one_system_is_run_with_its_config_on_the_recipes_data(
    prepared, capsys, recipe, option, table, key
):
    plain = prepare_run(EGS / recipe, {"scale": "smoke", **table}, {})
    like = next(system for system in plain.systems if system.kind == "train")
    changed = {key: {"lr": 0.5}} if key.endswith("_conf") else {key: 7}
    run = prepared(recipe, option, {"base": like.name, **changed}, **table)
    (system,) = run.systems
    same = like.model_dump(include={"data", "method", "windows"})
    assert system.name == "mine" and system.model_dump(include=set(same)) == same
    below = merge_system_config(run.sections, like)
    assert merge_system_config(run.sections, system) == deep_merge(below, changed)
    assert run.list_seeds(system) == [1]
    if option == "asr_config":
        assert (
            run.locate_stats(merge_system_config(run.sections, system)).name == "stats"
        )
    (chosen,) = run.selected
    names = [row.name for row in chosen.rows]
    rows = [
        row for row in plain.tables.tables[chosen.id].rows if row.system == like.name
    ]
    curves = [f"{row.curve} by mine" for row in rows if table.get("figure")]
    assert (
        names == (curves or ["mine"])
        and {row.system for row in chosen.rows} == {"mine"}
        and run.decodings["mine"]
    )
    before, after = (
        [row.name for row in each.tables.tables[chosen.id].rows]
        for each in (plain, run)
    )
    assert after == before + names
    run.expdir.mkdir(exist_ok=True)
    run.recipe.stages["tables"](run)
    assert all(name in capsys.readouterr().out for name in names[:1])
    whole = prepared(recipe, option, {"base": like.name, **below}, **table)
    assert merge_system_config(whole.sections, whole.systems[0]) == below


def test_a_whole_config_as_a_training_has_left_it(prepared):
    left = {
        "encoder": "conformer",
        "encoder_conf": {"num_blocks": 2},
        "frontend": "default",
        "token_list": ["a"],
    }
    left |= {
        "output_dir": "elsewhere",
        "train_shape_file": ["x"],
        "normalize_conf": {"stats_file": "y", "a": 1},
    }
    run = prepared(
        "librispeech_sem", "asr_config", left, name="conformer-2", rows="baseline"
    )
    assert [system.name for system in run.systems] == ["baseline", "conformer-2"]
    assert run.options["rows"] == "baseline,conformer-2"
    config = merge_system_config(run.sections, run.systems[1])
    taken = ("encoder", "encoder_conf", "frontend")
    assert config == {
        **{key: left[key] for key in taken},
        "normalize_conf": {"a": 1},
    } | {"normalize": "global_mvn"}
    stats = run.locate_stats(config)
    assert stats.name.startswith("stats_")
    features = yaml.safe_load(run.write_features_config(config).read_text())
    assert "frontend" not in features and "frontend_conf" not in features
    assert run.locate_stats({**config, "encoder": "rnn"}) == stats
    assert run.locate_stats(run.sections["train"]) == run.expdir / "stats"


def test_a_recogniser_below_all_systems(prepared):
    plain = prepare_run(EGS / "libricss_stitch", {"scale": "smoke"}, {})
    run = prepared(
        "libricss_stitch",
        "asr_config",
        {"base": "lstm", "optim_conf": {"lr": 0.5}},
        table="2",
    )
    (system,) = run.systems
    assert (system.name, system.kind, system.method) == ("mine", "merge", "block")
    module = load_script(EGS / "libricss_stitch" / "recipe.py")
    assert module.locate_recogniser(run, "") == run.expdir / "recogniser_mine"
    config = yaml.safe_load(module.write_recogniser_config(run).read_text())
    assert config == deep_merge(
        plain.sections["sa_asr_lstm"], {"optim_conf": {"lr": 0.5}}
    )
    assert run.locate_stats(config) == run.locate_stats(plain.sections["sa_asr_lstm"])


@pytest.mark.parametrize(
    ("recipe", "features", "options"),
    [
        (
            "librispeech_sem",
            {"frontend": "default", "frontend_conf": {"n_mels": 40}},
            {"table": "1", "rows": "baseline", "pretrain": "false"},
        ),
        (
            "asru2019_cs",
            {"frontend_conf": {"hop_length": 200}},
            {"table": "1", "rows": "reweight", "encoder": "joint"},
        ),
        (
            "spotify_longctx",
            {"features_conf": {"hop_length": 200}},
            {"figure": "1", "rows": "Rev16 at 10 s"},
        ),
    ],
)
def test_other_features_beside_it_change_nothing_of_a_system(
    prepared, recipe, features, options
):
    module = load_script(EGS / recipe / "recipe.py")
    plain = prepare_run(
        EGS / recipe, {"scale": "smoke", "expdir": "exp", **options}, {}
    )
    (alone,) = plain.systems
    run = prepared(recipe, "asr_config", {"base": alone.name, **features}, **options)
    same, own = run.systems
    steps = [
        next(iter(module.train_system(of, system, 1, 1)))
        for of, system in ((plain, alone), (run, same), (run, own))
    ]
    words = [" ".join(step.arguments["options"]) for step in steps]
    places = [
        words[0].replace(str(plain.expdir), "E"),
        words[1].replace(str(run.expdir), "E"),
    ]
    assert same == alone and places[0] == places[1] and "/stats/" in words[1]
    assert "/stats/" not in words[2] and "/stats_" in words[2]


def keep(run) -> None:
    """Leave a run's own system as its first stage does."""
    run.own.store(run.expdir / f"{run.own.name}{run.system_tag}")


def test_own_systems_of_earlier_runs_stay_in_their_tables(prepared):
    for name, rate in (("one", 0.5), ("two", 0.25)):
        changes = {"base": "baseline", "optim_conf": {"lr": rate}}
        first = prepared("librispeech_sem", "asr_config", changes, name=name)
        keep(first)

    def later(**options: str):
        given = {"scale": "smoke", "expdir": str(first.expdir), **options}
        return prepare_run(EGS / "librispeech_sem", given, {})

    def rows(run, table: str = "1") -> list[str]:
        return [row.name for row in run.tables.tables[table].rows]

    recipe_rows = rows(later(expdir=str(first.expdir / "none")))
    run = later()
    assert rows(run) == [*recipe_rows, "one", "two"] and "one" not in rows(run, "2")
    assert [row.name for row in run.selected[0].rows] == recipe_rows
    run = later(rows="baseline")
    assert run.options["rows"] == "baseline,one,two"
    assert [system.name for system in run.systems] == ["baseline"]
    run = later(rows="baseline,two")
    assert [system.name for system in run.systems] == ["baseline", "two"]
    config = merge_system_config(run.sections, run.systems[1])
    assert config["optim_conf"]["lr"] == 0.25
    third = prepared("librispeech_sem", "asr_config", {"base": "baseline"}, name="3")
    assert [system.name for system in third.systems] == ["3"]
    assert rows(third)[-3:] == ["one", "two", "3"]
    again = prepared("librispeech_sem", "asr_config", {}, name="one", table="2")
    assert again.own.given.tables == ("2", "1")
    shutil.rmtree(first.expdir / "one")
    assert rows(later()) == [*recipe_rows, "two"]


def test_a_row_of_an_earlier_model_below_needs_its_config(prepared):
    config = {"base": "lstm", "optim_conf": {"lr": 0.5}}
    run = prepared("libricss_stitch", "asr_config", config, table="2")
    keep(run)
    options = {"scale": "smoke", "expdir": str(run.expdir), "table": "2"}
    assert prepare_run(EGS / "libricss_stitch", options, {}).own is None
    with pytest.raises(InputError, match="--rows mine"):
        prepare_run(EGS / "libricss_stitch", {**options, "rows": "mine"}, {})


@pytest.mark.parametrize(
    ("recipe", "option", "config", "place"),
    [
        (
            "librispeech_sem",
            "asr_config",
            {"base": "baseline", "encoder_conf": {"hidden_sise": 16}},
            "encoder_conf: ",
        ),
        ("asru2019_cs", "asr_config", {"encoder": "conformerr"}, "encoder "),
        (
            "spotify_longctx",
            "asr_config",
            {"base": "base_10", "optim_conf": {"rate": 1}},
            "optim_conf: ",
        ),
        (
            "libricss_stitch",
            "asr_config",
            {"base": "lstm", "speaker_encodr": "d_vectors"},
            "speaker_encodr",
        ),
        (
            "libricss_stitch",
            "stitcher_config",
            {"base": "stitcher_wco_wce_windows50", "decoder_conf": {"blocks": 3}},
            "decoder_conf: ",
        ),
    ],
)
def test_espnet_refuses_a_mistake_before_the_first_stage(
    prepared, recipe, option, config, place
):
    of_recipe = {
        "libricss_stitch": {"table": "2"},
        "asru2019_cs": {"encoder": "joint"},
    }
    options = of_recipe.get(recipe, {})
    run = prepared(recipe, option, config, **options)
    with pytest.raises(InputError) as caught:
        try_config(run.own, run.recipe.trained[option])
    said = str(caught.value)
    assert f"--{option}" in said and "mine.yaml" in said and place in said
    assert "\n" not in said and "config.yaml" not in said


def test_whole_configs_of_espnet_are_accepted(prepared):
    """As ESPnet's recipes have them, without what asr.sh appends."""
    whole = {
        "encoder": "transformer",
        "encoder_conf": {"output_size": 8, "attention_heads": 2, "num_blocks": 1},
        "decoder": "transformer",
        "decoder_conf": {"attention_heads": 2, "num_blocks": 1},
        "optim": "adam",
    }
    normalised = {
        "librispeech_sem": "global_mvn",
        "asru2019_cs": "global_mvn",
        "spotify_longctx": "none",
    }
    for recipe, normalize in normalised.items():
        options = {"encoder": "joint"} if recipe == "asru2019_cs" else {}
        run = prepared(recipe, "asr_config", whole, **options)
        assert run.own.config["normalize"] == normalize
    try_config(run.own, run.recipe.trained["asr_config"])


def test_an_own_rescorer_trains_a_pretrained_model_at_the_papers_rate(prepared):
    stages = load_script(EGS / "librispeech_rescore" / "recipe.py")
    for given, rate in (({}, 1e-5), ({"lr": 3e-4}, 3e-4)):
        run = prepared(
            "librispeech_rescore",
            "rescorer_config",
            {"base": "gpt2_mwer", "batch_size": 2, **given},
            gpt2=str(EGS.parent / "examples/phrases/lm"),
            table="1",
        )
        config = stages.make_training_config(run, run.systems[0])
        assert (config["lr"], config["batch_size"]) == (rate, 2)


@pytest.mark.parametrize(
    ("recipe", "option", "config", "options", "place"),
    [
        ("librispeech_rescore", "rescorer_config", {"base": "x"}, {}, "base: "),
        (
            "librispeech_rescore",
            "rescorer_config",
            {"lm": "llama", "batch_size": 2},
            {},
            "mine.yaml: lm: ",
        ),
        (
            "librispeech_rescore",
            "rescorer_config",
            {"lm": "gpt2", "batch": 2},
            {},
            "mine.yaml: ",
        ),
        (
            "spotify_longctx",
            "asr_config",
            {"base": "base_10", "chunk_conf": {"seconds": 3}},
            {},
            "chunk_conf: ",
        ),
        (
            "spotify_longctx",
            "asr_config",
            {"features_conf": None},
            {},
            "features_conf: ",
        ),
    ],
)
def test_mistakes_that_the_recipe_itself_refuses(
    prepared, recipe, option, config, options, place
):
    with pytest.raises(InputError) as caught:
        prepared(recipe, option, config, **options)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "config", "options", "place"),
    [
        ("librispeech_sem", {"base": "none"}, {}, "mine.yaml: base: no system 'none'"),
        (
            "librispeech_sem",
            {"base": "baseline"},
            {"name": "baseline"},
            "--name baseline: ",
        ),
        ("librispeech_sem", {"base": "baseline"}, {"name": "a/b"}, "--name 'a/b': "),
        ("librispeech_sem", {"base": "baseline"}, {"name": "0dB"}, "--name 0dB: "),
        (
            "librispeech_sem",
            {"base": "baseline"},
            {"name": "r=0.1"},
            "--name 'r=0.1': ",
        ),
        (
            "librispeech_sem",
            {"base": "baseline"},
            {"name": "lm_0.36"},
            "--name lm_0.36: ",
        ),
        ("librispeech_sem", {"base": "baseline"}, {"name": "stats"}, "--name stats: "),
        ("librispeech_sem", {}, {"asr_config": "none.yaml"}, "none.yaml: no such file"),
        (
            "asru2019_cs",
            {"base": "baseline_cs", "encoder": "branchformer"},
            {"encoder": "shared"},
            "--encoder joint",
        ),
        (
            "libricss_stitch",
            {"base": "none"},
            {"table": "2"},
            "mine.yaml: base: no 'none'",
        ),
        ("libricss_stitch", {}, {"stitcher_config": "mine.yaml"}, "are two systems"),
        (
            "libricss_stitch",
            {},
            {"table": "1"},
            "table 1 has no system that is trained",
        ),
    ],
)
def test_what_is_refused(prepared, recipe, config, options, place):
    with pytest.raises(InputError) as caught:
        prepared(recipe, "asr_config", config, **options)
    assert place in str(caught.value)

"""Rooms and noise in the training of the speaker-attributed recogniser: what becomes of
the recipe's options.
"""

from pathlib import Path

import yaml

from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.start import load_recipe, prepare_run

RECIPE = Path(__file__).parents[2] / "egs" / "libricss_stitch"


def test_tables_of_rooms_and_noises_reach_the_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("rirs.scp", "noises.scp"):
        (tmp_path / name).write_text("one one.wav\n")
    folders = {
        "expdir": str(tmp_path / "exp"),
        "datadir": str(tmp_path / "data"),
        "scale": "smoke",
    }
    tables = {
        "rir_scp": str(tmp_path / "rirs.scp"),
        "noise_scp": str(tmp_path / "noises.scp"),
    }
    script = load_script(RECIPE / "recipe.py", "far_field_recipe")
    run = prepare_run(RECIPE, folders | tables)
    config = yaml.safe_load(script.write_recogniser_config(run).read_text())
    assert {name: config[name] for name in tables} == tables and config[
        "noise_db_range"
    ] == "5_20"
    assert not script.computes_d_vectors_once(run), "they differ each time"
    monkeypatch.chdir(tmp_path)
    plain = prepare_run(RECIPE, folders)
    assert "rir_scp" not in yaml.safe_load(
        script.write_recogniser_config(plain).read_text()
    )
    assert script.computes_d_vectors_once(plain)
    variant = load_recipe(RECIPE).variant
    assert variant({"speaker_model": "m.pth", **tables}) == "speaker_model-far_field"

"""Kept pictures are those that their data give, now and with the code as it is."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import attention_figures
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import read_facts, write_facts
from espnet_ext.tables.kept.pictures import check_picture, digest, stamp_of
from espnet_ext.tables.kept.result_files import read_results
from espnet_ext.tables.pages.figures import draw
from espnet_ext.work.plot_style import save_png

ROOT = Path(__file__).parents[3]
PICTURES = sorted(path for path in ROOT.glob("egs/*/results/**/*.png") if not path.stem.startswith("mwer"))
DRAWN_BY: dict[str, Callable[[dict], Figure]] = {
    "attention": attention_figures.draw_values,
}


def drawn_again(picture: Path) -> Figure:
    source = picture.with_suffix(".json")
    if picture.stem in DRAWN_BY:
        return DRAWN_BY[picture.stem](read_facts(source)["values"])
    return draw(read_results(source))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: f"{path.parts[-4]}-{path.stem}")
def test_the_code_draws_what_is_kept(picture: Path):
    """Pixels may differ a little between releases of matplotlib; a line that moves, or another text, differs more."""
    check_picture(picture)
    kept = imread(picture)[..., :3]
    figure = drawn_again(picture)
    drawn = io.BytesIO()
    save = {"format": "png", "dpi": round(kept.shape[1] / figure.get_figwidth())}
    figure.savefig(drawn, **save)
    drawn.seek(0)
    again = imread(drawn)[..., :3]
    assert again.shape == kept.shape
    assert np.abs(again - kept).mean() < 2e-3


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    values = {"points": [1.0, 2.5]}
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot(values["points"])
    write_facts(tmp_path / "a.json", "Points", "draw", values)
    save_png(figure, tmp_path / "a.png", 50, data=values)
    return tmp_path / "a.png"


def test_other_data_are_refused(picture: Path):
    check_picture(picture)
    assert stamp_of(picture) == digest({"points": [1.0, 2.5]})
    source = picture.with_suffix(".json")
    facts = json.loads(source.read_text())
    facts["values"]["points"][1] = 2.6
    source.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="a.png: not drawn from a.json as it is now"):
        check_picture(picture)
    source.unlink()
    with pytest.raises(InputError, match="a.png: its data are not kept: put a.json beside it"):
        check_picture(picture)


def test_pictures_without_a_stamp_and_damaged_ones(picture: Path):
    whole = picture.read_bytes()
    plain = picture.with_name("plain.png")
    figure = Figure(figsize=(1, 1))
    save_png(figure, plain, 50)
    assert stamp_of(plain) is None
    shutil.copy(picture.with_suffix(".json"), plain.with_suffix(".json"))
    with pytest.raises(InputError, match="plain.png: not drawn from plain.json"):
        check_picture(plain)
    plain.write_bytes(whole[:30])
    with pytest.raises(InputError, match="plain.png: cut off"):
        stamp_of(plain)
    plain.write_bytes(b"GIF89a")
    with pytest.raises(InputError, match="plain.png: not a PNG"):
        stamp_of(plain)

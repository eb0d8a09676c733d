"""What tables need, and the configs of systems and decodings at a scale."""

from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.plan import (
    list_needed_sets,
    list_needed_systems,
    load_scale,
    merge_decode_config,
    merge_system_config,
    select,
)
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.schema import System

FULL = """
settings: {vocab_size: 1000, mixing: {seed: 1, count: 7}}
train:
  encoder: old
  encoder_conf: {size: 4, depth: 2}
  optim_conf: {lr: 1, eps: 2}
sizes:
  deep: {encoder_conf: {depth: 9}}
decode: {lm_weight: 0.0, beam_size: 10}
"""
MINI = """
settings: {vocab_size: 10, mixing: {count: null}}
train: {encoder_conf: {size: 2}, optim_conf: {lr: 3}, specaug: null}
sizes: {deep: {encoder_conf: {depth: 3}}}
decode: {beam_size: 2}
"""


@pytest.fixture
def recipe(toy: Path) -> Path:
    (toy.parent / "full.yaml").write_text(FULL)
    (toy.parent / "mini.yaml").write_text(MINI)
    return toy.parent.parent


def test_selection(toy: Path):
    tables = load_tables(toy)
    both = select(tables, None)
    assert [system.name for system in list_needed_systems(tables, both)] == [
        "new",
        "base",
    ]
    assert list(list_needed_sets(tables, both)) == [
        ("new", "default"),
        ("base", "default"),
        ("new", "lm"),
    ]
    assert all(
        sets == ["clean", "other"] for sets in list_needed_sets(tables, both).values()
    )
    (only,) = select(tables, ["1"], ["base row"])
    assert [row.name for row in only.rows] == ["base row"]
    assert [table.id for table in select(tables, None, ["lm", "-1dB"])] == ["1", "2"]
    assert [table.id for table in select(tables, ["1", "2"], ["lm"])] == ["2"]


def test_unknown_names_are_refused_with_those_there_are(toy: Path, recipe: Path):
    tables = load_tables(toy)
    with pytest.raises(InputError, match=r"no table '7'; known are 1, 2$"):
        select(tables, ["1", "7"])
    with pytest.raises(
        InputError, match=r"no row 'lm' in table 1; known are -1dB, base row$"
    ):
        select(tables, ["1"], ["lm"])
    with pytest.raises(
        InputError, match=r"conf: no scale 'huge'; known are full, mini$"
    ):
        load_scale(recipe, "huge")
    sections = load_scale(recipe, "full")
    with pytest.raises(InputError, match=r"no decoding 'x'; known are default, lm$"):
        merge_decode_config(sections, tables, "x")
    with pytest.raises(
        InputError,
        match=r"system 'new': unknown section 'tune'; known are settings, train",
    ):
        merge_system_config(
            sections, System(name="new", kind="train", config="tune", data=["a"])
        )
    with pytest.raises(
        InputError, match=r"system 'new': unknown size 'wide'; known are deep$"
    ):
        merge_system_config(
            sections,
            System(name="new", kind="train", config="train", size="wide", data=["a"]),
        )
    with pytest.raises(
        InputError, match=r"system 'new' has no config: it is of kind merge"
    ):
        merge_system_config(sections, System(name="new", kind="merge", method="join"))


def test_a_scale_is_laid_over_the_papers(recipe: Path):
    assert load_scale(recipe, "full")["settings"] == {
        "vocab_size": 1000,
        "mixing": {"seed": 1, "count": 7},
    }
    assert load_scale(recipe, "mini")["settings"] == {
        "vocab_size": 10,
        "mixing": {"seed": 1, "count": None},
    }
    assert load_scale(recipe, "mini")["sizes"] == {
        "deep": {"encoder_conf": {"depth": 3}}
    }


def test_system_config_is_the_section_then_the_size_then_the_overrides(
    toy: Path, recipe: Path
):
    tables = load_tables(toy)
    mini, full = load_scale(recipe, "mini"), load_scale(recipe, "full")
    assert merge_system_config(mini, tables.systems["base"]) == {
        "encoder": "old",
        "encoder_conf": {"size": 2, "depth": 2},
        "optim_conf": {"lr": 3, "eps": 2},
        "specaug": None,
    }
    # The system names another encoder, so the options of the old one go; its own win
    # over the scale's.
    assert merge_system_config(mini, tables.systems["new"])["encoder_conf"] == {
        "size": 8
    }
    assert merge_system_config(full, tables.systems["base"])["optim_conf"] == {
        "lr": 1,
        "eps": 2,
    }
    deep = tables.systems["base"].model_copy(
        update={"overrides": {"encoder_conf": {"size": 5}}, "size": "deep"}
    )
    assert merge_system_config(mini, deep)["encoder_conf"] == {"size": 5, "depth": 3}
    assert merge_system_config(full, deep)["encoder_conf"] == {"size": 5, "depth": 9}


def test_decode_config(toy: Path, recipe: Path):
    tables = load_tables(toy)
    assert merge_decode_config(load_scale(recipe, "mini"), tables, "default") == {
        "lm_weight": 0.0,
        "beam_size": 2,
    }
    assert merge_decode_config(load_scale(recipe, "mini"), tables, "lm") == {
        "lm_weight": 0.5,
        "beam_size": 2,
    }
    assert merge_decode_config(load_scale(recipe, "full"), tables, "lm") == {
        "lm_weight": 0.5,
        "beam_size": 10,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "tain: {}",
            r"mini\.yaml: unknown section 'tain': full.*; known are settings, train",
        ),
        (
            "settings: {vocab: 1}",
            r"mini\.yaml: settings: unknown setting 'vocab': full.*; "
            "known are vocab_size",
        ),
        (
            "sizes: {wide: {}}",
            r"mini\.yaml: sizes: unknown size 'wide': full.*; known are deep$",
        ),
        ("train: 3", r"mini\.yaml: train: a section must be a mapping"),
        ("train: [", r"mini\.yaml: line 2"),
    ],
)
def test_what_the_papers_scale_lacks_is_refused(
    recipe: Path, content: str, message: str
):
    (recipe / "conf" / "mini.yaml").write_text(content + "\n")
    with pytest.raises(InputError, match=message):
        load_scale(recipe, "mini")

import os
import time
from pathlib import Path

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.work.yaml_files import deep_merge, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        # X_conf follows X: kept where X stays or was not named, dropped where X
        # changes.
        (
            {"x": "p", "x_conf": {"b": 1}},
            {"x": "p", "x_conf": {"c": 2}},
            {"x": "p", "x_conf": {"b": 1, "c": 2}},
        ),
        ({"x_conf": {"b": 1}}, {"x": "p"}, {"x_conf": {"b": 1}, "x": "p"}),
        ({"x": "p", "x_conf": {"b": 1}}, {"x": "q"}, {"x": "q"}),
        ({"x": "p", "x_conf": {"b": 1}}, {"x": None}, {"x": None}),
    ],
)
def test_merge_rules(base: dict, over: dict, merged: dict):
    assert deep_merge(base, over) == merged


def test_an_unchanged_file_is_left_alone(tmp_path: Path):
    path = tmp_path / "new" / "config.yaml"
    assert write_yaml(path, {"b": 1, "a": {"text": "Ä"}}, "comment")
    assert path.read_text(encoding="utf-8").startswith("# comment\nb: 1\na:\n")
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == {
        "b": 1,
        "a": {"text": "Ä"},
    }
    os.utime(path, (1, 1))
    assert not write_yaml(path, {"b": 1, "a": {"text": "Ä"}}, "comment")
    assert path.stat().st_mtime == 1
    assert write_yaml(path, {"b": 2}, "comment")
    assert read_yaml(path) == {"b": 2}
    assert [entry.name for entry in path.parent.iterdir()] == ["config.yaml"]


def test_reading(tmp_path: Path):
    path = tmp_path / "x.yaml"
    path.write_text("")
    assert read_yaml(path) == {}
    path.write_text("base: &base {a: 1}\nother:\n  <<: *base\n  b: 2\n")
    assert read_yaml(path)["other"] == {"a": 1, "b": 2}
    path.write_text("a: &a [1, 2]\nb: [*a, *a]\n")
    assert read_yaml(path)["b"] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b: 1, b: 2}\n", "x.yaml: line 1, column 11: the key 'b' stands twice"),
        ("day: 2020-13-45\n", "not readable as YAML: month must be"),
        ("a: &a [1, *a]\n", "holds itself"),
        ("a: &a {b: *a}\n", "holds itself"),
        ("a: " + "[" * 2000 + "]" * 2000, "x.yaml"),
        (
            "".join(
                f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 10)}]\n"
                for n in range(12)
            ),
            "anchors",
        ),
        ("? [a, b]\n: 1\n", "x.yaml"),
        ("? {a: 1}\n: 1\n", "x.yaml"),
        ("a: !!python/name:os.system\n", "x.yaml"),
        ("a: !mine 1\n", "x.yaml"),
        ("a: \x07\n", "x.yaml"),
    ],
)
def test_yaml_that_is_refused_at_once(tmp_path, text, message):
    (tmp_path / "x.yaml").write_text(text)
    began = time.process_time()
    with pytest.raises(InputError, match=message) as raised:
        read_yaml(tmp_path / "x.yaml")
    assert "\n" not in str(raised.value) and time.process_time() - began < 5

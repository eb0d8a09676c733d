"""``local/dev_search.py`` of librispeech_sem: which searches it tries, and what it keeps of them."""

import re
import shlex
from types import SimpleNamespace

import pytest
import yaml
from runs import EGS

from espnet_ext.errors import InputError
from espnet_ext.recipe.run import load_script
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.work.yaml_files import read_yaml

RECIPE = EGS / "librispeech_sem"
script = load_script(RECIPE / "local" / "dev_search.py")
OWN = {"beam_size": 2, "normalize_length": True, "penalty": 0.0, "nbest": 1}
FIELDS = ("model_config", "model_file", "data", "output", "config")


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    """Two dev sets, and a search that drops the last word if scores are not per token."""

    def decode_all(jobs, nj):
        for job in jobs:
            lines = (job.data / "text").read_text().splitlines()
            search = yaml.safe_load(job.config.read_text())
            kept = lines if search["normalize_length"] else [line.rsplit(" ", 1)[0] for line in lines]
            job.output.mkdir(parents=True, exist_ok=True)
            (job.output / "text").write_text("".join(f"{line}\n" for line in kept))

    decode = SimpleNamespace(
        decode_all=decode_all, Decoding=lambda *a: SimpleNamespace(**dict(zip(FIELDS, a, strict=True)))
    )
    monkeypatch.setitem(script.sys.modules, "espnet_ext.upstream.decode", decode)
    for part, text in (("dev-clean", "u1 a b c d\n"), ("dev-other", "u1 a b\nu2 c d\n")):
        (tmp_path / "data" / part).mkdir(parents=True)
        (tmp_path / "data" / part / "text").write_text(text)
    (tmp_path / "decode.yaml").write_text(yaml.safe_dump(OWN))
    places = ["--exp", tmp_path, "--data", tmp_path / "data", "--config", tmp_path / "decode.yaml"]
    return [*map(str, places), "--training", "baseline/seed1", "--output", str(tmp_path / "search.json")]


def test_rates_of_each_search(arguments, tmp_path):
    script.main([*arguments, "--search", "{normalize_length: false, penalty: 0.5}", "--search", "beam_size: 8"])
    rows = read_facts(tmp_path / "search.json")["values"]["rows"]
    assert rows == [
        {"normalize_length": True, "penalty": 0.0, "beam_size": 2, "dev-clean": 0.0, "dev-other": 0.0},
        {"normalize_length": False, "penalty": 0.5, "beam_size": 2, "dev-clean": 25.0, "dev-other": 50.0},
        {"normalize_length": True, "penalty": 0.0, "beam_size": 8, "dev-clean": 0.0, "dev-other": 0.0},
    ]


@pytest.mark.parametrize("change", ["8", "beam: 8"])
def test_what_is_no_option_of_the_search_is_refused(arguments, change):
    with pytest.raises(InputError, match="beam_size, nbest, normalize_length, penalty"):
        script.main([*arguments, "--search", change])


def test_the_command_for_full_in_the_readme_has_options_and_searches_that_are_there():
    text = re.sub(r"\s*\\\n\s*", " ", (RECIPE / "README.md").read_text(encoding="utf-8"))
    (line,) = re.findall(r"^local/dev_search\.py (--exp exp/full .*)$", text, re.MULTILINE)
    args = script.parse_arguments(shlex.split(line))
    full = read_yaml(RECIPE / "conf/full.yaml")
    assert f"best{full['settings']['average'].removeprefix('best:')}" == args.average
    found = script.searches(full["decode"], args.search)
    assert [(each["normalize_length"], each["penalty"]) for each in found] == [(True, 0.0), (False, 0.0), (False, 0.5)]

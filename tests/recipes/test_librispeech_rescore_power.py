"""``local/power_of_claims.py`` of the rescoring recipe: Holm's correction over the claims that are still open."""

import json
import shutil
from pathlib import Path

import power_of_claims
import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.power import smallest_difference
from espnet_ext.tables.kept.facts import read_facts

KEPT = Path(__file__).parents[2] / "egs" / "librispeech_rescore" / "results"


def claim(verdict: str, p_corrected: float | None) -> dict:
    return {"verdict": verdict, "p_corrected": p_corrected}


def test_claims_that_are_tested_and_not_decided_are_counted():
    claims = [claim("holds", 0.01), claim("undecided", 0.3), claim("undecided", 1.0), claim("undecided", None)]
    assert power_of_claims.open_claims({"table": "1", "claims": [*claims, claim("not run", None)]}) == 2
    with pytest.raises(InputError, match="table 1: no claim has been tested and is undecided"):
        power_of_claims.open_claims({"table": "1", "claims": claims[:1]})


def test_differences_are_those_of_one_of_several_claims():
    """A standard deviation of 0.3 points alone and as one of eleven, five seeds."""
    rows = [{"speakers": 10, "utterances": 1500, "seeds": {"5": smallest_difference(0.3, 5)}}]
    compared = {"gpt2_mwer": {"initial": "gpt2_initial", "test-clean": {"smallest": rows}}}
    (found,) = power_of_claims.corrected(compared, 11)["gpt2_mwer"]["test-clean"]
    assert found["seeds"] == {"5": pytest.approx(smallest_difference(0.3, 5, claims=11), abs=1e-4)}
    assert (found["speakers"], found["utterances"]) == (10, 1500)


def test_what_is_kept_is_what_the_script_writes(tmp_path):
    shutil.copytree(KEPT, tmp_path / "results")
    output = tmp_path / "results" / "power.json"
    power_of_claims.main(
        ["--course", "mwer:mini-synthetic", "mwer_bert:mini-synthetic", "--results", str(output.parent)]
        + ["--output", str(output)]
    )
    facts = read_facts(output)
    assert facts["values"] == read_facts(KEPT / "power.json")["values"] and str(tmp_path) not in json.dumps(facts)
    clean, other = (
        facts["values"]["mwer_bert"]["compared"]["bert_mwer"][part][0]["seeds"]["5"]
        for part in ("test-clean", "test-other")
    )
    assert facts["values"]["mwer_bert"]["claims"] == 7
    assert (round(clean, 2), round(other, 2)) == (1.32, 1.12)

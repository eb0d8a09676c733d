"""``local/mwer_course.py`` of the rescoring recipe: counts by hand on a run of two seeds."""

import json
from math import sqrt

import mwer_course
import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.power import smallest_difference
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.pictures import check_picture


def written(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


@pytest.fixture
def run(tmp_path):
    for part, words, first, oracle in (
        ("dev-clean", 100, 20, 10),
        ("dev-other", 300, 100, 50),
        ("test-clean", 10, 3, 1),
        ("test-other", 10, 4, 2),
    ):
        rows = [{"n": 1, "errors": first, "value": 0.0}, {"n": 10, "errors": oracle, "value": 0.0}]
        written(tmp_path / "lists" / f"oracle_{part}.json", {"lists": 5, "words": words, "oracle": rows})
    for seed, best, errors, rates in (
        (1, 20, (2.0, 1.5, 1.25), (25.0, 24.0, 21.0)),
        (2, 0, (2.0, 2.5, 2.5), (27.0, 28, 29)),
    ):
        history = [
            {"step": step, "dev_mwer": error, "dev_wer": rate, "dev_effective": 1.5}
            for step, error, rate in zip((0, 10, 20), errors, rates, strict=True)
        ]
        report = {
            "key": {"scorer": "GPT-2", "lr": 0.1, "posterior_scale": 0.5, "first_pass_weight": 2.0},
            "best_step": best,
            "history": history,
        }
        written(tmp_path / "gpt2_mwer" / f"seed{seed}" / "training.json", report)
        for system, rate in (("gpt2_mwer", 10 - seed), ("gpt2_initial", 11)):
            for part in ("test-clean", "test-other"):
                folder = tmp_path / system / f"seed{seed}" / "decode_default" / part
                written(folder / "score.json", {"value": rate})
                lines = [
                    f"{speaker}-{index}\t50\t40\t{errors}\t1\t0\t{speaker}\n"
                    for speaker, pair in (("a", (3, 3)), ("b", (rate, rate if part == "test-other" else 11)))
                    for index, errors in enumerate(pair)
                ]
                (folder / "per_utterance.tsv").write_text(
                    "id\twords\tcorrect\tsub\tdel\tins\tspeaker\n" + "".join(lines)
                )
    return tmp_path


def test_course_room_and_what_seeds_can_show(run):
    output = run / "mwer.json"
    pilot = run / "gpt2_mwer" / "seed1"
    options = ["--exp", run, "--systems", "gpt2_mwer:gpt2_initial", "--pilot", pilot, "--output", output]
    mwer_course.main([str(option) for option in options])
    facts = read_facts(output)
    assert facts["command"].endswith(f"--pilot exp/{run.name}/gpt2_mwer/seed1")
    values = facts["values"]
    check_picture(output.with_suffix(".png"))
    assert str(run) not in output.read_text()
    system = values["systems"]["gpt2_mwer"]
    assert (system["first_pass"], system["oracle"]) == (pytest.approx(30.0), pytest.approx(15.0))
    assert (system["wer_before"], system["wer_after"]) == (26.0, 24.0)
    assert system["closed_before"] == pytest.approx(4 / 15) and system["closed_after"] == pytest.approx(6 / 15)
    assert (system["fell"], system["errors_before"], system["errors_after"]) == (1, 2.0, 1.625)
    assert values["compared"]["gpt2_mwer"]["test-clean"]["differences"] == [-2.0, -3.0]
    assert values["compared"]["gpt2_mwer"]["test-other"]["sd"] == pytest.approx(sqrt(0.5))
    # speaker a: 0 and 0, b: -4 and -6 points by seed: means -2 and -3 of seeds, 0 and -5 of speakers, and four rests of
    # half a point; of the means' variances, 0.5 and 12.5, half a rest is due to the rest
    found = values["compared"]["gpt2_mwer"]["test-other"]
    assert found["variance"] == pytest.approx({"seed": 0.0, "speaker": 12.0, "words": 0.0, "rest": 1.0})
    sizes = {(row["speakers"], row["utterances"]): row["seeds"]["8"] for row in found["smallest"]}
    assert list(sizes) == [(2, 4), (4, 4), (4, 8), (6, 12)]
    for speakers, utterances in sizes:
        error = sqrt(12.0 / speakers + 1.0 / (8 * utterances / 2))
        assert sizes[speakers, utterances] == pytest.approx(smallest_difference(error * sqrt(8 / 2), 8))
    # on test-clean all of speaker b's errors are in one of two utterances: means -2.5 and 0 of its words, residuals
    # -1.25 and 1.25, 2 * 2 * 1.25^2 / 100^2 words; halved, since speaker a has none, and less half a rest
    found = values["compared"]["gpt2_mwer"]["test-clean"]
    assert found["variance"] == pytest.approx({"seed": 0.0, "speaker": 3.0, "words": 3.0, "rest": 0.25})
    assert values["pilot"] == [
        {
            "scorer": "GPT-2",
            "lr": 0.1,
            "updates": 20,
            "best_step": 20,
            "errors_before": 2.0,
            "errors_after": 1.25,
            "wer_before": 25.0,
            "wer_after": 21.0,
        }
        | {"posterior_scale": 0.5, "effective": 1.5, "lambda": 2.0}
    ]


def test_a_run_without_trainings_is_refused(run):
    with pytest.raises(InputError, match="bert_mwer: no training has ended"):
        mwer_course.main(["--exp", str(run), "--systems", "bert_mwer:bert_initial", "--output", str(run / "x.json")])

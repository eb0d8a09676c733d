"""``homophones.py``, ``pilot_power.py`` and ``trainings.py`` in ``local/`` of the code-switching recipe."""

import shlex
from statistics import stdev

import homophones
import pilot_power
import pytest
import torch
import trainings

from espnet_ext.errors import InputError
from espnet_ext.scoring.alignment_file import format_alignment
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.kept_scores import write_scores


def scored(folder, name, pairs):
    out = folder / "decode_default" / name
    out.mkdir(parents=True)
    (out / "alignment.txt").write_text(
        "".join(
            f"id: (u{number})\nScores: (#C #S #D #I) {sum(a == b for a, b in each)} "
            f"{sum(a != b for a, b in each)} 0 0\n{format_alignment(each)}\n"
            for number, each in enumerate(pairs)
        )
    )
    rows = [
        f"u{number}\t{speaker}\t{len(each)}\t{len(each) - wrong}\t{wrong}\t0\t0\n"
        for number, (each, speaker) in enumerate(zip(pairs, "aba", strict=True))
        for wrong in [sum(a != b for a, b in each)]
    ]
    (out / "per_utterance.tsv").write_text("id\tspeaker\twords\tcorrect\tsub\tdel\tins\n" + "".join(rows))


@pytest.fixture
def systems(tmp_path):
    """Two seeds that read: actor LIKES song; NURSE 喜欢 FLOWER (separated); hunter has a pigeon (not separated)."""
    one = [("演", "演"), ("员", "员"), ("LIKES", "LIKES"), ("歌", "鸽")]
    two = [("NURSE", "NURSE"), ("喜", "喜"), ("FLOWER", "FLOWER")]
    three = [("猎", "猎"), ("人", "人"), ("鸽", "歌")]
    scored(tmp_path / "base" / "seed1", "test", [one, two, three])
    scored(tmp_path / "base" / "seed2", "test", [[*one[:3], ("歌", "歌")], [*two[:2], ("FLOWER", "A")], three])
    return [str(tmp_path / "base" / f"seed{seed}") for seed in (1, 2)]


def test_homophones_are_counted_by_language_and_outcome(systems, tmp_path):
    output = tmp_path / "homophones.json"
    homophones.main(["--systems", *systems, "--output", str(output)])
    values = read_facts(output)["values"]
    assert values["references"] == {
        "zh": {"homophones": 2, "separated": 1},
        "en": {"homophones": 1, "separated": 1},
    }
    base = values["systems"]["base"]
    assert base["zh"]["other_of_the_pair"] == {"mean": 75.0, "by_seed": {"1": 100.0, "2": 50.0}}
    assert base["zh"]["right"]["mean"] == 25.0 and base["zh"]["something_else"]["mean"] == 0.0
    assert base["en"]["right"]["by_seed"] == {"1": 100.0, "2": 0.0} and base["en"]["something_else"]["mean"] == 50.0
    assert base["both"]["homophones"] == 3 and base["both"]["right"]["mean"] == pytest.approx(100 / 3)


def test_homophones_that_are_not_right_are_tested_over_seeds_and_speakers(systems, tmp_path):
    better = tmp_path / "better" / "seed1"
    scored(better, "test", [[("歌", "歌")], [("FLOWER", "FLOWER")], [("鸽", "歌")]])
    output = tmp_path / "homophones.json"
    homophones.main(["--systems", *systems, str(better), "--output", str(output)])
    found = read_facts(output)["values"]["systems"]["better"]["both"]
    assert found["lower_by"] == pytest.approx(1 / 3) and found["seeds"] == 1 and found["speakers"] == 2


def kept(path, errors: dict[str, list[list[int]]]):
    """A ``scores.json.gz`` of systems, by seed the errors of u1 to u4, which two speakers say with 100 words each."""
    sets = [
        {
            "test_set": name,
            "measure": "All",
            "utterances": ["a-u1", "a-u2", "b-u1", "b-u2"],
            "words": [100] * 4,
            "speakers": list("aabb"),
        }
        for name in ("dev", "test")
    ]
    scores = [
        {
            "system": system,
            "decoding": "default",
            "test_set": each["test_set"],
            "measure": "All",
            "seed": seed,
            "unit": "MER",
            "normaliser": "none",
            "value": sum(counts) / 4,
            "total_errors": sum(counts),
            "total_words": 400,
            "errors": counts,
        }
        for each in sets
        for system, seeds in errors.items()
        for seed, counts in enumerate(seeds, start=1)
    ]
    write_scores(path, {"version": 1, "sets": sets, "scores": scores, "quantities": []})
    return ["--scores", str(path), "--output", str(path.parent / "facts.json")]


BASE = [[10, 9, 20, 1], [12, 7, 22, 5], [11, 0, 26, 7]]
SEPARATE = [[8, 3, 18, 4], [9, 9, 20, 9]]


def test_the_spread_of_a_pilot_becomes_what_seeds_can_see(tmp_path):
    options = kept(tmp_path / "scores.json.gz", {"baseline_cs": BASE})
    pilot_power.main([*options, "--pilot", "baseline_cs", "--seeds", "5", "10", "--utterances", "dev=1"])
    values = read_facts(tmp_path / "facts.json")["values"]
    assert values["system"] == "baseline_cs" and values["seeds"] == ["1", "2", "3"] and values["claims"] > 10
    for name, rates in {"dev": [15.0, 17.0, 18.5], "test": [10.0, 11.5, 11.0]}.items():
        assert values[name]["rates"] == rates and values[name]["sd"] == pytest.approx(stdev(rates))
        five, ten = (values[name]["smallest"][seeds] for seeds in ("5", "10"))
        assert 0 < ten["one_claim"] < ten["all_claims"] < five["all_claims"] and five["one_claim"] < five["all_claims"]


def test_pairs_of_trainings_say_what_seeds_and_longer_test_sets_can_see(tmp_path):
    options = [*kept(tmp_path / "scores.json.gz", {"baseline_cs": BASE, "separate_cs": SEPARATE}), "--longer", "4"]
    options += ["--pilot", "baseline_cs", "--against", "separate_cs"]
    pilot_power.main([*options, "--trainings", "1", "2", "--utterances", "dev=1", "test=2"])
    values = read_facts(tmp_path / "facts.json")["values"]
    assert values["dev"]["paired"]["utterances"] == 2 and values["dev"]["paired"]["speakers"] == 2
    assert values["dev"]["paired"]["by_seed"] == pytest.approx([2.0, 2.5])
    assert values["test"]["paired"]["by_seed"] == pytest.approx([1.75, -0.25]), "both utterances of each speaker"
    smallest = values["dev"]["paired"]["smallest"]
    assert smallest["4"]["5"]["one_claim"] < smallest["1"]["5"]["one_claim"]
    with pytest.raises(InputError, match=r"separate_cs has seeds \[1, 2\]: name those with --trainings"):
        pilot_power.main(options)


def test_a_pilot_that_was_not_scored_is_named(tmp_path, capsys):
    options = kept(tmp_path / "scores.json.gz", {"baseline_cs": BASE, "separate_cs": SEPARATE[:1]})
    with pytest.raises(InputError, match="1 trainings of separate_cs on dev: a spread needs at least two"):
        pilot_power.main([*options, "--pilot", "separate_cs"])
    with pytest.raises(InputError, match="no scores of baseline_cs on dev with seed 4"):
        pilot_power.main([*options, "--pilot", "baseline_cs", "--trainings", "1", "4"])
    with pytest.raises(SystemExit):
        pilot_power.main([*options, "--pilot", "baseline_cs", "--utterances", "dev=none"])
    assert "write one of dev, test, = and a number" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["power", "design"])
def test_the_kept_pilot_is_what_the_kept_scores_give(name, tmp_path, monkeypatch):
    """By its own command, which reads scores that were kept with the tables."""
    monkeypatch.chdir(pilot_power.RECIPE)
    facts = read_facts(f"results/{name}.json")
    command = shlex.split(facts["command"])
    command[command.index("--output") + 1] = str(tmp_path / "facts.json")
    pilot_power.main(command[1:])
    assert read_facts(tmp_path / "facts.json")["values"] == facts["values"]


def test_the_course_of_trainings_is_read_from_checkpoints(tmp_path):
    def checkpoint(folder, losses):
        folder.mkdir(parents=True)
        stats = {
            epoch: {"train": {"total_count": 10 * epoch}, "valid": {"loss_att": loss, "loss_ctc": 2 * loss}}
            for epoch, loss in enumerate(losses, start=1)
        }
        torch.save({"model": {}, "reporter": {"stats": stats, "epoch": len(losses)}}, folder / "checkpoint.pth")
        return str(folder)

    encoder = checkpoint(tmp_path / "encoder", [4.0, 1.0, 2.0])
    systems = [checkpoint(tmp_path / "base" / "seed1", [3.0, 2.0]), checkpoint(tmp_path / "base" / "seed2", [5.0, 4.0])]
    output = tmp_path / "trainings.json"
    trainings.main(["--encoder", encoder, "--systems", *systems, "--output", str(output)])
    values = read_facts(output)["values"]
    assert values["encoder"] == {"epochs": 3, "updates": 30, "best_epoch": 2, "dev": [8.0, 2.0, 4.0]}
    assert values["systems"]["base"]["last"] == 3.0 and values["systems"]["base"]["before_last"] == 4.0
    assert values["systems"]["base"]["by_seed"]["2"]["updates"] == 20
    with pytest.raises(InputError, match="train the model first"):
        trainings.main(["--systems", str(tmp_path), "--output", str(output)])

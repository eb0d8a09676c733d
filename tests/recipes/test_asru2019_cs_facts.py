"""``homophones.py``, ``pilot_power.py`` and ``trainings.py`` in ``local/`` of the code-switching recipe."""

import json
from statistics import stdev

import homophones
import pilot_power
import pytest
import torch
import trainings

from espnet_ext.errors import InputError
from espnet_ext.results.kept.facts import read_facts
from espnet_ext.scoring.score_files import format_alignment


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


def test_the_spread_of_a_pilot_becomes_what_seeds_can_see(tmp_path):
    rates = {"dev": [10.0, 10.5, 11.5], "test": [9.0, 9.1, 9.3]}
    for seed in range(3):
        for name, values in rates.items():
            folder = tmp_path / "baseline_cs" / f"seed{seed}" / "decode_default" / name
            folder.mkdir(parents=True)
            (folder / "score.json").write_text(json.dumps({"value": values[seed]}))
    output = tmp_path / "power.json"
    pilots = [str(tmp_path / "baseline_cs" / f"seed{seed}") for seed in range(3)]
    pilot_power.main(["--pilot", *pilots, "--seeds", "5", "10", "--output", str(output)])
    values = read_facts(output)["values"]
    assert values["system"] == "baseline_cs" and values["seeds"] == ["0", "1", "2"] and values["claims"] > 10
    for name, each in rates.items():
        assert values[name]["sd"] == pytest.approx(stdev(each))
        five, ten = (values[name]["smallest"][seeds] for seeds in ("5", "10"))
        assert 0 < ten["one_claim"] < ten["all_claims"] < five["all_claims"] and five["one_claim"] < five["all_claims"]


def test_pairs_of_trainings_say_what_seeds_and_longer_test_sets_can_see(tmp_path):
    """Two speakers of 100 and 200 words: differences in points by seed and speaker, from the files of scoring."""
    errors = {"baseline_cs": ((10, 20), (12, 22)), "separate_cs": ((8, 18), (9, 20))}
    for system, seeds in errors.items():
        for seed, counts in enumerate(seeds, start=1):
            for name in ("dev", "test"):
                folder = tmp_path / system / f"seed{seed}" / "decode_default" / name
                folder.mkdir(parents=True)
                (folder / "score.json").write_text(json.dumps({"value": sum(counts) / 3 + seed}))
                lines = [
                    f"{speaker}1\t{words}\t0\t{count - 1}\t1\t0\t{speaker}"
                    for speaker, words, count in zip("ab", (100, 200), counts, strict=True)
                ]
                head = "id\twords\tcorrect\tsub\tdel\tins\tspeaker\n"
                (folder / "per_utterance.tsv").write_text(head + "\n".join(lines) + "\n")
    output = tmp_path / "design.json"
    pilots, others = ([str(tmp_path / system / f"seed{seed}") for seed in (1, 2)] for system in errors)
    pilot_power.main(["--pilot", *pilots, "--against", *others, "--longer", "4", "--output", str(output)])
    paired = read_facts(output)["values"]["test"]["paired"]
    assert paired["utterances"] == 2 and paired["speakers"] == 2
    assert paired["by_seed"] == pytest.approx([1.5, 2.0])
    assert paired["smallest"]["4"]["5"]["one_claim"] < paired["smallest"]["1"]["5"]["one_claim"]
    with pytest.raises(InputError, match="the same seeds"):
        pilot_power.main(["--pilot", *pilots, "--against", others[1], others[0], "--output", str(output)])


def test_a_pilot_that_was_not_scored_is_named(tmp_path):
    pilots = [str(tmp_path / name) for name in ("seed1", "seed2")]
    with pytest.raises(InputError, match="seed1/decode_default/dev/score.json"):
        pilot_power.main(["--pilot", *pilots, "--output", str(tmp_path / "power.json")])


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
    with pytest.raises(InputError, match="train the system first"):
        trainings.main(["--systems", str(tmp_path), "--output", str(output)])

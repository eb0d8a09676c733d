"""``local/hold_out_speakers.py`` of the rescoring recipe, on lists written here."""

import shutil
from dataclasses import replace
from pathlib import Path

import hold_out_speakers
import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest.sources import read_lists
from espnet_ext.nbest.speakers import find_speakers
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest


def make_lists(speakers: list[str]) -> list[NBest]:
    lists = []
    for speaker in speakers:
        for number in range(3):
            hyps = [Hypothesis(text, -1.5, {"decoder": -1.5}) for text in ("A B", "A")]
            lists.append(NBest(f"{speaker}-7-{number:04}", hyps, ref="A B"))
    return lists


def write_lists(folder: Path, part: str, speakers: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    write_nbest(folder / f"{part}.jsonl", make_lists(speakers))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "lists"
    write_lists(folder, "dev-clean", ["11", "12", "13", "14"])
    write_lists(folder, "dev-other", ["21", "22", "23", "24"])
    write_lists(folder, "test-clean", ["31"])
    write_lists(folder, "test-other", ["41"])
    return folder


def divide(monkeypatch: pytest.MonkeyPatch, corpus: Path, *options: str) -> Path:
    output = corpus.with_name("held")
    words = ["hold_out_speakers.py", str(corpus), str(output), *options]
    monkeypatch.setattr("sys.argv", words)
    hold_out_speakers.main()
    return output


def name_speakers(lists: list[NBest]) -> set[str]:
    return {each.utt_id.split("-")[0] for each in lists}


def test_no_speaker_is_on_both_sides_and_no_list_is_lost(corpus, monkeypatch):
    output = divide(monkeypatch, corpus, "--share", "0.5")
    train = read_lists(output / "train.jsonl")
    together = list(train)
    for part in ("dev-clean", "dev-other"):
        held_out = read_lists(output / f"{part}.jsonl")
        assert len(name_speakers(held_out)) == 2
        assert not name_speakers(held_out) & name_speakers(train)
        together += held_out
    known = [
        each
        for part in ("dev-clean", "dev-other")
        for each in read_lists(corpus / f"{part}.jsonl")
    ]
    assert sorted(together, key=lambda each: each.utt_id) == known
    for part in ("test-clean", "test-other"):
        linked = read_lists(output / f"{part}.jsonl")
        assert linked == read_lists(corpus / f"{part}.jsonl")


def test_another_seed_holds_out_others(corpus, monkeypatch):
    found = set()
    for seed in range(6):
        output = divide(monkeypatch, corpus, "--seed", str(seed), "--tests")
        found.add(frozenset(name_speakers(read_lists(output / "dev-clean.jsonl"))))
        assert not list(output.glob("test*"))
        for path in output.iterdir():
            path.unlink()
        output.rmdir()
    assert len(found) > 1


@pytest.mark.parametrize(
    ("part", "speakers", "options", "named"),
    [
        ("dev-clean", ["11"], (), "dev-clean"),
        ("dev-clean", ["anna", "bert"], (), "dev-clean"),
        ("dev-clean", ["11", "12"], ("--share", "1.5"), "--share"),
        ("dev-clean", ["11", "12"], ("--tests", "test-far"), "test-far"),
    ],
)
def test_what_cannot_be_divided_is_named(
    corpus, monkeypatch, part, speakers, options, named
):
    write_lists(corpus, part, speakers)
    with pytest.raises(InputError, match=named):
        divide(monkeypatch, corpus, *options)
    assert not corpus.with_name("held").exists()


def write_second_set(corpus: Path, speakers: list[str]) -> None:
    """Write a dev-other of other utterances, by speakers who may be in dev-clean."""
    lists = [replace(each, utt_id=f"{each.utt_id}9") for each in make_lists(speakers)]
    write_nbest(corpus / "dev-other.jsonl", lists)


def test_who_is_held_out_of_one_set_is_held_out_of_all(corpus, monkeypatch, capsys):
    shared = {"11", "12", "13", "14", "15", "16"}
    write_lists(corpus, "dev-clean", sorted(shared))
    write_second_set(corpus, sorted(shared | {"21"}))
    # With this seed 14 is drawn for dev-clean alone, and 15 for dev-other alone.
    output = divide(monkeypatch, corpus, "--share", "0.3", "--seed", "3")
    held_out = {"12", "14", "15"}
    for part in ("dev-clean", "dev-other"):
        assert name_speakers(read_lists(output / f"{part}.jsonl")) == held_out
    train = name_speakers(read_lists(output / "train.jsonl"))
    assert train == shared - held_out | {"21"}
    said = [line for line in capsys.readouterr().out.splitlines() if "held out" in line]
    for part in ("dev-clean", "dev-other"):
        words = " ".join(line for line in said if line.startswith(f"{part}:"))
        assert all(speaker in words for speaker in held_out)


def test_sets_that_share_all_speakers_may_leave_none_to_train_on(corpus, monkeypatch):
    write_lists(corpus, "dev-clean", ["11", "12"])
    write_second_set(corpus, ["10", "11", "12"])
    refused = 0
    for seed in range(4):
        options = ("--share", "0.9", "--seed", str(seed), "--tests")
        try:
            output = divide(monkeypatch, corpus, *options)
        except InputError:
            refused += 1
            assert not corpus.with_name("held").exists()
        else:
            assert read_lists(output / "train.jsonl")
            shutil.rmtree(output)
    assert 0 < refused < 4


def test_speakers_who_are_not_in_ids_stay_known(corpus, monkeypatch):
    people = ["anna-x", "bert-x", "carl-x", "dora-x"]
    write_lists(corpus, "dev-clean", people[:2])
    write_lists(corpus, "dev-other", people[2:])
    write_lists(corpus, "test-clean", people)
    table = {each.utt_id: each.utt_id[:4] for each in make_lists(people)}
    write_table(corpus / "utt2spk", table)
    output = divide(monkeypatch, corpus)
    for part in ("train", "dev-clean", "dev-other", "test-clean"):
        lists = output / f"{part}.jsonl"
        utterances = [each.utt_id for each in read_lists(lists)]
        assert find_speakers(utterances, lists) == {
            utterance: table[utterance] for utterance in utterances
        }


def test_ids_of_librispeech_need_no_table(corpus, monkeypatch):
    assert not (divide(monkeypatch, corpus) / "utt2spk").exists()


def test_an_utterance_of_two_sets_is_named_with_both(corpus, monkeypatch):
    write_lists(corpus, "dev-other", ["21", "11"])
    with pytest.raises(InputError) as refused:
        divide(monkeypatch, corpus)
    for named in ("dev-clean.jsonl", "dev-other.jsonl", "11-7-0000"):
        assert named in str(refused.value)
    assert "train.jsonl" not in str(refused.value)
    assert not corpus.with_name("held").exists()


@pytest.mark.parametrize("tests", [["dev-clean"], ["test-clean", "test-clean"]])
def test_what_is_written_anyway_is_no_test_set(corpus, monkeypatch, tests):
    with pytest.raises(InputError, match="--tests"):
        divide(monkeypatch, corpus, "--tests", *tests)
    assert not corpus.with_name("held").exists()

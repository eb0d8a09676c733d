"""``local/hold_out_speakers.py`` of the rescoring recipe, on lists written here."""

from pathlib import Path

import hold_out_speakers
import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.sources import read_lists
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest


def write_lists(folder: Path, part: str, speakers: list[str]) -> None:
    lists = []
    for speaker in speakers:
        for number in range(3):
            hyps = [Hypothesis(text, -1.5, {"decoder": -1.5}) for text in ("A B", "A")]
            lists.append(NBest(f"{speaker}-7-{number:04}", hyps, ref="A B"))
    folder.mkdir(exist_ok=True)
    write_nbest(folder / f"{part}.jsonl", lists)


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

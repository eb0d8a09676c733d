"""Lists as they are published with ESPnet's models: ``raw_hypotheses``, references with
speakers before the ids, ``utt2spk``.
"""

import json
import re
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.nbest.sources import has_references, read_lists, write_references
from espnet_ext.nbest.speakers import find_speakers
from espnet_ext.text.nbest import read_nbest

REFERENCES = {"84-1-0000": "ONE TWO", "84-2-0000": "THREE", "9-3-0000": "FOUR"}


def write_published(folder: Path) -> Path:
    """Write two hypotheses of each utterance; each second one is right."""
    for rank in (1, 2):
        recog = folder / "raw_hypotheses" / f"{rank}best_recog"
        recog.mkdir(parents=True)
        texts = {
            key: text if rank == 2 else f"{text} MORE"
            for key, text in REFERENCES.items()
        }
        scores = json.dumps({"decoder": f"tensor(-{rank}.5)", "lm": "tensor(-0.25)"})
        for name, values in (
            ("text", texts),
            ("score", dict.fromkeys(texts, f"tensor(-{rank}.7500)")),
            ("scores", dict.fromkeys(texts, scores)),
            ("token", dict.fromkeys(texts, "▁A")),
            ("token_int", dict.fromkeys(texts, "3")),
        ):
            lines = [f"{key} {value}\n" for key, value in values.items()]
            (recog / name).write_text("".join(lines), encoding="utf-8")
    speakers = {key: key.rpartition("-")[0] for key in REFERENCES}
    (folder / "references").mkdir()
    for name in ("ref_wer.trn", "ref_cer.trn"):
        lines = [f"{REFERENCES[key]}\t({who}-{key})\n" for key, who in speakers.items()]
        (folder / "references" / name).write_text("".join(lines))
    lines = [f"{key} {who}\n" for key, who in speakers.items()]
    (folder / "utt2spk").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("inside", [".", "raw_hypotheses"])
def test_the_folder_has_lists_and_references(tmp_path, inside):
    lists = read_lists(write_published(tmp_path / "test_other") / inside)
    assert {nbest.utt_id: nbest.ref for nbest in lists} == REFERENCES
    assert lists[0].hyps[0].scores == {"decoder": -1.5, "lm": -0.25}


def test_every_command_takes_them(tmp_path, capsys):
    folder = write_published(tmp_path / "test_other")
    trn = str(folder / "references" / "ref_wer.trn")
    for options in ([], ["--ref", trn]):
        call(["nbest", "oracle", "--nbest", str(folder), *options])
        printed = capsys.readouterr().out
        assert re.findall(r"WER (\S+)", printed) == ["75.00", "0.00"]
        output = tmp_path / "out.jsonl"
        call(
            ["nbest", "convert", "--nbest", str(folder), "--output", str(output)]
            + options
        )
        assert [nbest.ref for nbest in read_nbest(output)] == [*REFERENCES.values()]


def test_references_of_more_utterances_are_named(tmp_path):
    folder = write_published(tmp_path)
    with (folder / "references" / "ref_wer.trn").open("a") as file:
        file.write("FIVE\t(9-3-9-3-0001)\n")
    with pytest.raises(InputError, match=r"9-3-9-3-0001 of .*ref_wer\.trn"):
        read_lists(folder)


def test_a_recipe_needs_no_speech_beside_them(tmp_path):
    folder = write_published(tmp_path / "test_other")
    assert has_references(folder)
    write_references(folder, tmp_path / "data")
    assert read_table(tmp_path / "data" / "text") == REFERENCES
    assert (tmp_path / "data" / "spk2utt").read_text().splitlines() == [
        "84 84-1-0000 84-2-0000",
        "9 9-3-0000",
    ]
    (folder / "references" / "ref_wer.trn").unlink()
    assert not has_references(folder)


def test_speakers_of_librispeech_are_readers_and_not_chapters(tmp_path):
    folder = write_published(tmp_path)
    readers = dict(zip(REFERENCES, ("84", "84", "9"), strict=True))
    assert find_speakers([*REFERENCES], folder) == readers
    assert find_speakers([*REFERENCES]) == readers
    # but a table that is named is what is used
    chapters = read_table(folder / "utt2spk")
    named = find_speakers([*REFERENCES], utt2spk=folder / "utt2spk")
    assert named == chapters
    # as is one beside the lists that has other names
    others = dict(zip(REFERENCES, ("ann", "bob", "bob"), strict=True))
    lines = [f"{key} {who}\n" for key, who in others.items()]
    (folder / "utt2spk").write_text("".join(lines))
    assert find_speakers([*REFERENCES], folder) == others


def test_speakers_beside_lists_or_references(tmp_path):
    (tmp_path / "utt2spk").write_text("a-1 ann\na-2 ann\nb-1 bob\n")
    lists = tmp_path / "lists.jsonl"
    assert find_speakers(["a-1", "b-1"], lists) == {"a-1": "ann", "b-1": "bob"}
    data = tmp_path / "data" / "text"
    assert find_speakers(["a-1"], None, data) == {}
    assert find_speakers(["a-1", "c-1"], lists) == {}  # a table of other utterances
    with pytest.raises(InputError, match="utt2spk: c-1"):
        find_speakers(["a-1", "c-1"], utt2spk=tmp_path / "utt2spk")

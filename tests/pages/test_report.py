"""The results page: tables as they are, verdicts, the errors with audio; what is
refused and what is left alone.
"""

import html
import json
import re
from pathlib import Path

import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan
from espnet_ext.pages.clips import write_clips
from espnet_ext.pages.report import CLIPS, ROWS, read_aligned, write_report
from espnet_ext.scoring.error_rate import count_pairs


class Page:
    """The cells of the tables of a page, the addresses in it, and the data of its
    script.
    """

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
        cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        self.rows = [
            [html.unescape(re.sub("<.*?>", "", cell)).strip() for cell in row]
            for row in cells
        ]
        self.addresses = re.findall(r'(?:src|href)="(.*?)"', text)
        self.data = json.loads(
            re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
        )


def test_a_recipe(toy_recipe, tmp_path):
    recipe = toy_recipe(count=ROWS + 20)
    assert write_report([recipe], tmp_path / "report") == []
    page = Page(tmp_path / "report" / "toy.html")
    cells = {row[0]: row for row in page.rows}
    score = json.loads(
        (recipe / "exp/mini/new/seed1/decode_default/clean/score.json").read_text()
    )
    assert cells["new <b>"][1] == "15.00" and cells["new <b>"][2].startswith(
        f"{score['value']:.2f} ["
    )
    assert " ± " in cells["base"][2], "of two seeds"
    assert cells["new is better"][5].startswith("open"), "a verdict needs three seeds"
    for address in page.addresses:
        assert (
            address.startswith(("data:", "#"))
            or (tmp_path / "report" / address).is_file()
        ), address
    (data,) = page.data
    assert data["systems"] == [
        {"name": "base", "files": ["1", "2"]},
        {"name": "new", "files": ["1"]},
    ]
    assert (data["name"], data["total"], len(data["rows"])) == (
        "clean",
        ROWS + 20,
        ROWS,
    )
    heard = [row[5] for row in data["rows"]]
    assert len(list(filter(None, heard))) == CLIPS and None not in heard[:CLIPS], (
        "audio of the worst"
    )
    info = soundfile.info(tmp_path / "report" / heard[0])
    assert info.format == "MP3" and info.duration == pytest.approx(0.5, abs=0.1)
    index = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert 'href="toy.html"' in index and "1 claim: 1 open" in index


def test_rows_and_counts_are_those_of_scoring(toy_recipe):
    run = toy_recipe() / "exp" / "mini"
    files = sorted(run.glob("*/seed*/*/clean/alignment.txt"))
    rows, systems = read_aligned(files, {"spk0-u00000": "ann"})
    assert [row.label for row in rows][:2] == ["spk0-u00000", "spk1-u00001"] and rows[
        0
    ].speaker == "ann"
    for system, seeds in systems.items():
        for seed, aligned in seeds.items():
            score = json.loads(
                (
                    run / system / f"seed{seed}" / "decode_default/clean/score.json"
                ).read_text()
            )
            errors = sum(count_pairs(pairs).errors for pairs in aligned.values())
            assert errors == score["errors"]
            assert all(
                [a for a, _ in aligned[row.key] if a] == list(row.tokens)
                for row in rows
            )


def test_a_run_or_the_folder_of_runs_will_do_and_an_older_report_gives_way(
    toy_recipe, tmp_path
):
    exp = toy_recipe() / "exp"
    for folder in (exp, exp / "mini"):
        write_report([folder], tmp_path / "report")
        assert Page(tmp_path / "report" / "toy.html").data[0]["name"] == "clean"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_missing_audio_is_named_and_the_page_is_written(toy_recipe, tmp_path):
    recipe = toy_recipe()
    table = recipe / "data/mini/clean/wav.scp"
    lines = table.read_text().splitlines()
    table.write_text(
        "\n".join([lines[0].split()[0] + " /nowhere.wav", *lines[1:]]) + "\n"
    )
    (note,) = write_report([recipe], tmp_path / "report")
    assert (
        note.startswith("No audio of 1 utterances of clean; spk0-u00000: ")
        and "nowhere.wav" in note
    )
    table.unlink()
    (note,) = write_report([recipe], tmp_path / "report")
    assert note == f"No audio of clean: {table.parent} has no wav.scp"


@pytest.mark.parametrize(
    ("folder", "output", "message"),
    [
        ("nowhere", "report", "nowhere: "),
        ("egs", "report", "egs: "),
        ("egs/toy", "egs/toy", "toy: "),
        (
            "egs/toy",
            "egs/toy/conf/tables.yaml",
            "tables.yaml: ",
        ),
        ("egs/empty", "report", "empty.*: "),
    ],
)
def test_refused(toy_recipe, tmp_path, folder, output, message):
    recipe = toy_recipe()
    (tmp_path / "egs/empty/conf").mkdir(parents=True)
    (tmp_path / "egs/empty/conf/tables.yaml").write_text(
        (recipe / "conf/tables.yaml").read_text()
    )
    with pytest.raises(InputError, match=message):
        write_report([tmp_path / folder], tmp_path / output)
    assert (recipe / "conf/tables.yaml").is_file() and not (
        tmp_path / "report"
    ).exists()


def test_clips_are_cut_and_what_cannot_be_read_is_told(tmp_path):
    soundfile.write(tmp_path / "a.wav", [[0.1, 0.5]] * 16000, 16000)
    soundfile.write(tmp_path / "odd.wav", [0.1] * 800, 7000)
    spans = {
        "part": AudioSpan(str(tmp_path / "a.wav"), 0.25, 0.75),
        "odd": AudioSpan(str(tmp_path / "odd.wav")),
        "late": AudioSpan(str(tmp_path / "a.wav"), 2.0, 3.0),
        "whole": AudioSpan(str(tmp_path / "a.wav")),
    }
    names, failed = write_clips([*spans, "other"], spans, tmp_path / "clips")
    assert names == {"part": "0.mp3", "whole": "1.mp3"} and failed.keys() == {
        "odd",
        "late",
        "other",
    }
    lengths = [
        soundfile.info(tmp_path / "clips" / name).duration for name in names.values()
    ]
    assert lengths == pytest.approx([0.5, 1.0], abs=0.1)
    samples, _ = soundfile.read(tmp_path / "clips/1.mp3", always_2d=True)
    assert samples.shape[1] == 1 and abs(samples).mean() == pytest.approx(
        0.1, abs=0.02
    ), "the first channel"

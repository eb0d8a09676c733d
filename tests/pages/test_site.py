"""The site as a whole: what stands on it, and what is refused."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.pages.error_browser import Limits
from espnet_ext.pages.runs import find_recipes
from espnet_ext.pages.site import write_site
from espnet_ext.tables.publish import keep_results, read_results


class Page(HTMLParser):
    """What a page refers to, its ids and its text. Complains of a tag that is not closed."""

    VOID = {"meta", "link", "img", "br", "input"}

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.images: list[dict] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[key] for key in ("href", "src") if values.get(key)]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "img":
            self.images.append(values)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def build(toy_recipe, tmp_path):
    """Return a function that makes the toy's report and returns its folder."""

    def build(audio=5, utterances=100, **options):
        limits = Limits(utterances, audio)
        write_site(find_recipes([toy_recipe(**options)]), tmp_path / "report", limits, lambda line: None)
        return tmp_path / "report"

    return build


def catalogue(site: Path) -> dict:
    page = (site / "toy-errors.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="catalogue">(.*?)</script>', page, re.DOTALL)[1])


def test_every_link_leads_somewhere_on_the_disk(build):
    site = build()
    pages = {path.name: Page(path) for path in site.glob("*.html")}
    assert set(pages) == {"index.html", "toy.html", "toy-errors.html"}
    for page in pages.values():
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            assert not re.match(r"[a-z]+:(?!,$)|//|/", link), link  # nothing of the network, nothing of this machine
            path, _, fragment = link.partition("#")
            if path and path != "data:,":
                assert (site / path).is_file(), link
            if fragment and not path:
                assert fragment in page.ids, link
    names = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert {"assets/report.css", "assets/errors.js", "assets/theme.js", "figures/toy/0-energy.png"} <= names
    assert {f"audio/toy/{number}.mp3" for number in range(5)} <= names and "audio/toy/5.mp3" not in names


def test_a_recipes_page(build):
    site = build()
    page = Page(site / "toy.html")
    recipe = site.parent / "egs/toy"
    (cell,) = read_results(recipe / "exp/mini/results", recipe)[0].rows[1].cells.values()
    for text in (
        "A. Author & B. Author. On <toys>, 2020. (P0)", "synthetic, scale mini", "Table 1. New against base", "new <b>",
        f"{cell.here.value:.2f}", f"[{cell.here.interval[0]:.2f}, {cell.here.interval[1]:.2f}]",
        "new is better", "Not run: Table 2.",
        "Claims of the paper (1)", "corrected p", "1 seed", "7 speakers",
        "Fig. 1: energy", "mini: Loss", "training, seed 2", "./run.sh",
    ):  # fmt: skip
        assert text in page.text, text
    (image,) = page.images
    assert image["alt"] == "Fig. 1: energy" and image["width"] == "100" and image["height"] == "50"
    assert "toy-errors.html#0" in page.links and "toy-errors.html#2" in page.links


def test_the_catalogue_and_its_chunks(build):
    site = build(count=9, utterances=6)
    found = catalogue(site)
    labels = [each["label"].split(":")[0] for each in found["decodings"]]
    assert labels == ["base, seed 1", "base, seed 2", "new, seed 1"]
    for each in found["decodings"]:
        assert (each["total"], each["kept"], each["mixed"], each["set"]) == (9, 6, False, "clean")
        (name,) = each["chunks"]
        script = (site / found["data"] / name).read_text(encoding="utf-8")
        records = json.loads(script[script.index("[") :].removesuffix(");\n"))
        rows = [dict(zip(found["fields"], values, strict=True)) for values in records]
        errors = [row["sub"] + row["del"] + row["ins"] for row in rows]
        assert errors == sorted(errors, reverse=True) and len(rows) == 6
        assert all(row["speaker"] == row["id"].split("-")[0] for row in rows)
        assert (site / found["audio"] / f"{rows[0]['audio']}{found['suffix']}").is_file()


def test_without_audio(build):
    site = build(audio=0)
    assert not (site / "audio").exists()
    script = next((site / "data" / "toy").iterdir()).read_text(encoding="utf-8")
    assert script.count(",null]") == 12


def test_no_audio_there(build, toy_recipe):
    site = build(audio=3)
    assert "wav.scp" not in Page(site / "toy-errors.html").text
    recipe = site.parent / "egs" / "toy"
    (recipe / "data" / "mini" / "clean" / "wav.scp").unlink()
    pages = write_site(find_recipes([recipe]), site, Limits(audio=3), lambda line: None)
    assert pages[0].errors.clips == 0 and "has no wav.scp" in pages[0].errors.notes[0]
    assert "has no wav.scp" in Page(site / "toy-errors.html").text
    assert not (site / "audio").exists()  # of the report before


def test_audio_of_a_corpus_that_is_prepared_in_steps(build):
    site = build(audio=0)
    recipe = site.parent / "egs" / "toy"
    data = recipe / "data" / "mini" / "clean"
    (data / "segments").mkdir()
    for name in ("wav.scp", "utt2spk"):
        (data / name).rename(data / "segments" / name)
    pages = write_site(find_recipes([recipe]), site, Limits(audio=3), lambda line: None)
    assert pages[0].errors.clips > 0 and not pages[0].errors.notes


def test_kept_results_come_after_the_runs_and_not_twice(build):
    site = build()
    recipe = site.parent / "egs" / "toy"
    meta = keep_results(recipe / "exp" / "mini" / "results", recipe) / "meta.json"
    (page,) = write_site(find_recipes([recipe]), site, Limits(), lambda line: None)
    assert [section.kept for section in page.sections] == [False]
    older = json.loads(meta.read_text(encoding="utf-8"))
    older["runs"][0]["date"] = "2020"
    meta.write_text(json.dumps(older), encoding="utf-8")
    (page,) = write_site(find_recipes([recipe]), site, Limits(), lambda line: None)
    assert [section.kept for section in page.sections] == [False, True]
    assert "Kept in the repository" in Page(site / "toy.html").text


def test_a_score_without_alignment_is_a_note(build):
    site = build()
    recipe = site.parent / "egs" / "toy"
    for path in recipe.rglob("alignment.txt"):
        path.unlink()
    (page,) = write_site(find_recipes([recipe]), site, Limits(), lambda line: None)
    assert page.errors.decodings == () and "without alignment" in page.errors.notes[0]
    assert not (site / "toy-errors.html").exists() and "toy-errors.html" not in Page(site / "toy.html").links


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_no_report_is_not_replaced(build, toy_recipe, tmp_path, what):
    output = tmp_path / "mine"
    if what == "file":
        output.write_text("mine")
    else:
        output.mkdir()
        (output / "index.html").write_text("mine")
    with pytest.raises(InputError, match="mine: exists and is not a report"):
        write_site(find_recipes([toy_recipe()]), output, Limits(), lambda line: None)
    assert (output if what == "file" else output / "index.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("results/meta.json", "meta.json: not about scores"),
        ("new/seed1/decode_default/clean/score.json", "score.json: not a score file"),
        ("new/seed1/decode_default/clean/alignment.txt", "alignment.txt: breaks off"),
        ("new/seed1/decode_default/clean/per_utterance.tsv", "per_utterance.tsv: the header lacks"),
        ("energy/energy.png", "energy.png: not a picture"),
    ],
)
def test_a_broken_file_is_named_and_the_old_report_stays(build, name, message):
    site = build()
    before = (site / "index.html").read_bytes()
    recipe = site.parent / "egs" / "toy"
    (recipe / "exp" / "mini" / name).write_text("{broken", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        write_site(find_recipes([recipe]), site, Limits(), lambda line: None)
    assert (site / "index.html").read_bytes() == before
    assert sorted(path.name for path in site.parent.iterdir()) == ["egs", "report"]


def test_the_command(toy_recipe, tmp_path, capsys):
    recipe = toy_recipe()
    call(["report", str(recipe / "exp"), "--output", str(tmp_path / "out"), "--audio", "2"])
    printed = capsys.readouterr().out
    assert "toy: 1 table, 4 curves, 1 figure, 3 scored test sets, 2 audio clips" in printed
    assert f"written: {tmp_path / 'out' / 'index.html'}" in printed
    call(["report", str(recipe / "exp"), "--output", str(tmp_path / "out")])  # over the report that is there
    assert len(list((tmp_path / "out" / "audio" / "toy").iterdir())) == 12

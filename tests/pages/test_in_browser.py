"""The pages in a real browser: ``make -C tools test-web`` installs Debian's Chromium
and Playwright and runs it.

Pictures of the pages, at several widths, light and dark, are left in the folder
``REPORT_SCREENSHOTS``.
"""

import os
import shutil
from pathlib import Path

import pytest

from espnet_ext.pages.compare import write_comparison
from espnet_ext.pages.report import write_report
from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems

if "REPORT_SCREENSHOTS" not in os.environ:
    pytest.skip(
        "needs a browser: make -C tools test-web runs it", allow_module_level=True
    )
playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: make -C tools test-web"
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)


@pytest.fixture(scope="session")
def browser():
    with playwright.sync_playwright() as player:
        options = ["--autoplay-policy=no-user-gesture-required", "--mute-audio"]
        if os.getuid() == 0:
            options.append("--no-sandbox")  # Chromium's does not work for root
        browser = player.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens a file; whatever the console complains of, or asks
    of a network, fails the test.
    """
    contexts, complaints = [], []

    def open_page(path: Path, width: int = 1400, scheme: str = "light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and complaints.append(message.text)
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "requestfailed", lambda request: complaints.append(f"failed: {request.url}")
        )
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:"))
                or complaints.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def ids(page) -> list[str]:
    return page.locator("#utterances article .head strong").all_text_contents()


def test_from_the_index_to_an_error_and_its_sound(toy_recipe, tmp_path, open_page):
    write_report([toy_recipe(count=120)], tmp_path / "report")
    page = open_page(tmp_path / "report" / "index.html")
    page.get_by_role("link", name="toy").first.click()
    page.get_by_role("link", name="Errors to listen to").click()
    article = page.locator("#utterances article").first
    marks = article.locator(".alignment").locator(".sub, .del, .ins").count()
    assert (
        marks
        and f"base {marks}" in article.locator(".head").inner_text()
        or "new" in article.inner_text()
    )
    audio = article.locator("audio")
    audio.evaluate("audio => audio.play()")
    page.wait_for_function(
        "audio => audio.currentTime > 0.2", arg=audio.element_handle()
    )
    first = ids(page)
    page.locator(".next").first.click()
    assert page.locator("#status").inner_text().startswith("51 to") and not set(
        ids(page)
    ) & set(first)
    page.locator("#sort").select_option("id")  # which begins at the first page again
    assert page.locator("#status").inner_text().startswith("1 to 50") and ids(
        page
    ) == sorted(ids(page), key=lambda key: key.split("-")[1])
    page.locator("#kind").select_option("all")
    page.locator("#search").fill("u00042")
    page.wait_for_function(
        "document.querySelectorAll('#utterances article').length === 1"
    )
    page.locator("#search").fill("no such word")
    page.wait_for_function(
        "document.getElementById('status').textContent === 'Nothing fits'"
    )


def test_switches_of_language_and_long_rows(toy_recipe, tmp_path, open_page):
    write_report([toy_recipe(count=40, mixed=True)], tmp_path / "report")
    page = open_page(tmp_path / "report" / "toy.html")
    # Han, an English word, Han: two switches in each utterance.
    assert page.locator("#utterances article").first.locator(".switch").count() == 2
    assert page.locator(".legend .switch").is_visible()
    (tmp_path / "ref").write_text("u1" + " word" * 9000 + "\n")
    (tmp_path / "hyp").write_text("u1" + " word" * 8999 + "\n")
    systems = [System("a", (tmp_path / "ref",)), System("b", (tmp_path / "hyp",))]
    write_comparison(
        tmp_path / "out", compare_systems(tmp_path / "ref", systems, Measure())
    )
    page = open_page(tmp_path / "out" / "compare.html")
    assert page.locator("article .c:not(.label)").count() == 300
    page.get_by_role("button", name="columns").first.click()
    page.wait_for_function("document.querySelectorAll('article .c').length > 9000")


def test_systems_side_by_side(open_page, tmp_path):
    (tmp_path / "ref").write_text("u1 one two three\nu2 four\nu3 five\n")
    (tmp_path / "a").write_text("u1 one too three\nu2 four four\nu3 five\n")
    (tmp_path / "b").write_text("u1 oh one two\nu2 four\nu3 six\n")
    systems = [System(name, (tmp_path / name,)) for name in "ab"]
    write_comparison(
        tmp_path / "out", compare_systems(tmp_path / "ref", systems, Measure())
    )
    page = open_page(tmp_path / "out" / "compare.html")
    assert ids(page) == ["u1", "u2", "u3"]
    columns = page.locator("#utterances article").first.locator(".c").all()
    assert [column.locator("span").all_text_contents() for column in columns] == [
        ["reference", "a", "b"],
        ["***", "\u00a0", "oh"],
        ["one", "one", "one"],
        ["two", "too", "two"],
        ["three", "three", "***"],
    ]
    page.select_option('[data-system="0"]', "wrong")
    page.select_option('[data-system="1"]', "right")
    assert ids(page) == ["u2"]
    page.select_option('[data-system="0"]', "any")
    page.select_option('[data-system="1"]', "any")


@pytest.mark.parametrize("width", [390, 820, 1400])  # a phone, a tablet, a desk
def test_nothing_is_cut_off(toy_recipe, tmp_path, open_page, width):
    write_report([toy_recipe(count=60, mixed=True)], tmp_path / "report")
    for name in ("index", "toy"):
        for scheme in ("light", "dark"):
            page = open_page(tmp_path / "report" / f"{name}.html", width, scheme)
            assert page.evaluate(
                "document.documentElement.scrollWidth <= innerWidth"
            ), f"{name} at {width}"
            background = page.evaluate(
                "getComputedStyle(document.body).backgroundColor"
            )
            assert (background == "rgb(255, 255, 255)") == (scheme == "light")
            picture = (
                Path(os.environ["REPORT_SCREENSHOTS"]) / f"{name}-{width}-{scheme}.png"
            )
            page.screenshot(path=picture, full_page=True)

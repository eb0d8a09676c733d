"""The results page in a real browser: ``make -C tools test-web`` installs Debian's Chromium and Playwright and runs it.

Pictures of all pages, at several widths, light and dark, are left in the folder ``REPORT_SCREENSHOTS``.
"""

import os
import shutil
import time
from pathlib import Path

import pytest

from espnet_ext.pages.compare import write_comparison
from espnet_ext.pages.error_browser import Limits
from espnet_ext.pages.runs import find_recipes
from espnet_ext.pages.site import write_site
from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems

if "REPORT_SCREENSHOTS" not in os.environ:
    pytest.skip("needs a browser, and asserts timings: make -C tools test-web runs it", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make -C tools test-web")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

MANY = 10_000
WIDTHS = (390, 820, 1400)  # a phone, a tablet, a desk
MOST_SECONDS = 2.0  # to load, with many utterances
MOST_STALL = 0.5  # seconds in which the page does not answer


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
    """Return a function that opens a file; whatever the console complains of, or asks of a network, fails the test."""
    contexts, complaints = [], []

    def open_page(path: Path, width: int = 1400, scheme: str = "light", fragment: str = ""):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on("request", lambda request: _is_local(request.url) or complaints.append(request.url))
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _is_local(url: str) -> bool:
    return url.startswith(("file:", "data:"))


@pytest.fixture
def site(toy_recipe, tmp_path):
    """Return a function that writes the report of the toy recipe."""

    def site(**options) -> Path:
        write_site(find_recipes([toy_recipe(**options)]), tmp_path / "report", Limits(audio=12), lambda line: None)
        return tmp_path / "report"

    return site


def ids(page) -> list[str]:
    return page.locator("#utterances article .head strong").all_text_contents()


def test_from_the_first_page_to_an_error_and_its_sound(site, open_page):
    page = open_page(site(count=60) / "index.html")
    page.get_by_role("link", name="toy").first.click()
    page.get_by_role("rowheader", name="new <b>").get_by_role("link").click()
    article = page.locator("#utterances article").first
    article.wait_for()
    assert page.locator("#system option:checked").inner_text().startswith("new, seed 1")
    marks = article.locator(".alignment b").all_text_contents()
    assert marks and set(marks) <= set("SDI")
    assert f"{len(marks)} errors" in article.locator(".head").inner_text()
    audio = article.locator("audio")
    audio.evaluate("audio => audio.play()")
    page.wait_for_function("audio => audio.currentTime > 0.2", arg=audio.element_handle())
    assert audio.evaluate("audio => audio.duration") == pytest.approx(0.5, abs=0.2)


def test_filters_sorting_and_pages(site, open_page):
    page = open_page(site(count=120) / "toy-errors.html")
    page.locator("#utterances article").first.wait_for()
    everything = page.locator("#status").inner_text()
    assert everything.startswith("1 to 50 of 120 utterances") and len(ids(page)) == 50

    def errors() -> list[int]:
        heads = page.locator("#utterances article .head").all_inner_texts()
        return [int(head.split(" error")[0].split()[-1]) for head in heads]

    assert errors() == sorted(errors(), reverse=True)
    first = ids(page)
    page.locator("#next").click()
    assert page.locator("#status").inner_text().startswith("51 to 100") and not set(ids(page)) & set(first)
    page.locator("#previous").click()
    assert ids(page) == first
    page.locator("#next").click()
    page.locator("#sort").select_option("id")  # which begins at the first page again
    assert page.locator("#status").inner_text().startswith("1 to 50") and ids(page) == sorted(ids(page))
    page.locator("#kind").select_option("ins")
    assert all("I" in text for text in page.locator("#utterances article .head .quiet").all_inner_texts())
    page.locator("#kind").select_option("")
    page.locator("#speaker").select_option("spk3")
    assert set(key.split("-")[0] for key in ids(page)) == {"spk3"}
    page.locator("#speaker").select_option("")
    page.locator("#search").fill("u00042")
    page.wait_for_function("document.querySelectorAll('#utterances article').length === 1")
    assert ids(page)[0].endswith("-u00042")
    page.locator("#search").fill("no such word")
    page.wait_for_function("document.getElementById('status').textContent.startsWith('No utterance fits')")
    page.locator("#search").fill("")
    page.wait_for_function("document.querySelectorAll('#utterances article').length === 50")
    page.locator("#system").select_option(index=2)
    page.locator("#utterances article").first.wait_for()
    assert page.url.endswith("#2")


def test_by_keyboard_alone(site, open_page):
    page = open_page(site(count=60) / "toy-errors.html")
    page.locator("#utterances article").first.wait_for()
    focused = "document.activeElement.closest('article')?.querySelector('strong').textContent"
    order = ids(page)
    page.keyboard.press("j")
    assert page.evaluate(focused) == order[0]
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate(focused) == order[1]
    page.keyboard.press("p")
    page.wait_for_function("[...document.querySelectorAll('audio')].some(audio => !audio.paused)")
    for _ in range(49):
        page.keyboard.press("j")
    assert page.locator("#status").inner_text().startswith("51 to 60") and page.evaluate(focused) == ids(page)[0]
    page.keyboard.press("k")
    assert page.evaluate(focused) == order[-1]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("jkp")  # letters, not commands
    assert page.locator("#search").input_value() == "jkp"
    # The first thing that the tab key reaches leads past the header; everything has a visible focus.
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "set"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_switches_of_language(site, open_page):
    page = open_page(site(count=40, mixed=True) / "toy-errors.html")
    page.locator("#utterances article").first.wait_for()
    # Han, an English word, Han: two switches in each utterance.
    assert page.locator("#utterances article").first.locator(".switch").count() == 2
    before = len(ids(page))
    page.locator("#kind").select_option("near")
    assert 0 < len(ids(page)) < before
    assert page.locator(".legend .switches").is_visible()


def test_light_dark_and_by_hand(site, open_page):
    folder = site()
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(folder / "toy.html", scheme=scheme) for scheme in ("light", "dark"))
    white, black = light.evaluate(background), dark.evaluate(background)
    assert white == "rgb(255, 255, 255)" and black != white
    ink = "getComputedStyle(document.querySelector('.plots text')).fill"
    assert light.evaluate(ink) != dark.evaluate(ink)
    dark.locator("#theme").click()
    assert dark.evaluate(background) == white
    dark.locator("#theme").click()
    dark.reload()
    assert dark.locator("#theme").inner_text() == "Colours: dark" and dark.evaluate(background) == black


def test_a_row_is_copied(site, open_page):
    page = open_page(site() / "toy.html")
    button = page.locator("tbody button.copy").first
    said = button.get_attribute("data-copy")
    button.click()
    button.get_by_text("copied").wait_for()
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'pasted'}))")
    page.locator("#pasted").click()
    page.keyboard.press("Control+V")
    assert page.locator("#pasted").input_value() == said


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off(site, open_page, width):
    folder = site(count=60, mixed=True)
    pictures = Path(os.environ["REPORT_SCREENSHOTS"])
    for name in ("index", "toy", "toy-errors"):
        for scheme in ("light", "dark"):
            page = open_page(folder / f"{name}.html", width, scheme)
            if name == "toy-errors":
                page.locator("#utterances article").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} at {width}"
            picture = pictures / f"{name}-{width}-{scheme}.png"
            page.screenshot(path=picture, full_page=name != "toy-errors")
            assert picture.stat().st_size > 5000


def test_ten_thousand_utterances(site, open_page):
    folder = site(count=MANY, words=20, audio=False)
    stalls = """() => { window.stalls = []; new PerformanceObserver(list => window.stalls.push(
        ...list.getEntries().map(entry => entry.duration))).observe({type: 'longtask', buffered: true}); }"""
    seconds = []
    for _ in range(3):  # a busy machine may be slow once
        page = open_page(folder / "index.html")
        page.evaluate(stalls)
        began = time.monotonic()
        page.goto((folder / "toy-errors.html").as_uri())
        page.locator("#utterances article").first.wait_for()
        seconds.append(time.monotonic() - began)
    page.evaluate(stalls)
    page.wait_for_function("!document.getElementById('status').textContent.includes('loading')")
    assert page.locator("#status").inner_text().startswith("1 to 50 of 10,000 utterances")
    for sort in ("rate", "words", "id", "errors"):
        page.locator("#sort").select_option(sort)
    page.locator("#search").fill("cat sat")
    page.wait_for_function("!document.getElementById('status').textContent.includes('of 10,000 ')")
    page.locator("#search").fill("")
    page.wait_for_function("document.getElementById('status').textContent.includes('of 10,000 ')")
    page.locator("#next").click()
    worst = max(page.evaluate("window.stalls"), default=0.0) / 1000
    print(f"\n{MANY:,} utterances: shown after {min(seconds):.2f} s, at most {worst:.2f} s without an answer")
    assert min(seconds) < MOST_SECONDS and worst < MOST_STALL


def test_an_hour_in_one_utterance(site, open_page):
    page = open_page(site(count=3, words=9000, audio=False) / "toy-errors.html")
    page.locator("#utterances article").first.wait_for()
    columns = page.locator("#utterances article").first.locator(".c:not(.label)")
    assert columns.count() == 300
    page.get_by_role("button", name="columns").first.click()
    page.wait_for_function("document.querySelector('article').querySelectorAll('.c').length > 9000")


def test_systems_side_by_side(open_page, tmp_path):
    (tmp_path / "ref").write_text("u1 one two three\nu2 four\nu3 five\n")
    (tmp_path / "a").write_text("u1 one too three\nu2 four four\nu3 five\n")
    (tmp_path / "b").write_text("u1 oh one two\nu2 four\nu3 six\n")
    systems = [System(name, (tmp_path / name,)) for name in "ab"]
    write_comparison(tmp_path / "out", compare_systems(tmp_path / "ref", systems, Measure()))
    page = open_page(tmp_path / "out" / "compare.html")
    assert ids(page) == ["u1", "u2", "u3"]
    columns = page.locator("#utterances article").first.locator(".c").all()
    assert [column.locator("span").all_text_contents() for column in columns] == [
        ["reference", "a", "b"], ["***", "\u00a0", "oh"], ["one", "one", "one"], ["two", "too", "two"],
        ["three", "three", "***"],
    ]  # fmt: skip
    page.select_option('[data-system="0"]', "wrong")
    page.select_option('[data-system="1"]', "right")
    assert ids(page) == ["u2"]
    page.select_option('[data-system="0"]', "any")
    page.select_option('[data-system="1"]', "any")
    page.get_by_role("button", name="five", exact=True).click()
    assert ids(page) == ["u3"]

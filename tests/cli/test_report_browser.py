"""The page of `trajlog report`, opened and clicked in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.vocabulary.episode import ModelResponded
from eventlog.blobs import BlobStore
from eventlog.report import FIELDS, Page, Recorded
from tests.browser import Browser, chromium
from tests.eventlog import samples, screenshots
from tests.eventlog.samples import stored
from tests.eventlog.screenshots import HEIGHT, WIDTH

NASTY = "<script>document.title = 'taken'</script><img src='x' onerror=\"document.title = 'taken'\"> \u202e\x1b[31m"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of reports: one.html, two.html, long.html."""
    chromium()
    folder = tmp_path_factory.mktemp("reports")
    store = BlobStore(folder / "blobs")
    payloads = screenshots.episode(store.put, message=NASTY)
    one = Recorded("aa", _row("fail"), stored(("episode/aa", payloads)))
    passing = [*payloads[:10], screenshots.touched(3, "tap", 90, 20), *payloads[11:12], *payloads[14:15]]
    two = Recorded("bb", _row("pass"), stored(("episode/bb", [*passing, samples.judged("pass")])))
    steps = 1_666
    long = Recorded("cc", _row("fail"), stored(("episode/cc", samples.episode(steps=steps))))
    for name, episodes in (("one", [one]), ("two", [one, two]), ("long", [long])):
        (folder / f"{name}.html").write_text("".join(Page(episodes, store)), "utf-8")
    return folder


def _row(verdict: str) -> dict[str, object]:
    return dict.fromkeys(FIELDS) | {"task": NASTY, "goal": NASTY, "verdict": verdict, "steps": 3}


@pytest.fixture(scope="module")
def shared(pages: Path) -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    """The browser, as new; afterwards it must have asked for nothing but the page, and not complained."""
    shared.requests.clear()
    shared.complaints.clear()
    shared.resize(1200, 900)
    shared.scripts(True)
    yield shared
    shared.scripts(True)
    assert [url for url in shared.requests if not url.startswith("file://") or not url.endswith(".html")] == []
    assert shared.complaints == []
    assert "taken" not in shared.value("document.title").replace("document.title = 'taken'", "")


def is_open(browser: Browser, selector: str) -> bool:
    return bool(browser.value(f"document.querySelector({selector!r}).open"))


def test_thoughts_and_long_values_fold_and_unfold(browser: Browser, pages: Path) -> None:
    browser.open(pages / "one.html")
    assert not browser.shown("details.thought .long")
    browser.click("details.thought summary")
    assert browser.shown("details.thought .long")
    browser.click("details.thought summary")
    assert not browser.shown("details.thought .long")
    browser.click("#a5 details.full summary")
    assert "op: tap" in browser.value("document.querySelector('#a5 pre').innerText")
    assert browser.shown("#a5 pre")


def test_folding_works_without_scripts(browser: Browser, pages: Path) -> None:
    browser.scripts(False)
    browser.open(pages / "one.html")
    assert not browser.shown("#fold")
    browser.click("details.thought summary")
    assert browser.shown("details.thought .long")


def test_all_is_unfolded_and_folded_by_the_button(browser: Browser, pages: Path) -> None:
    browser.open(pages / "one.html")
    folded = "[...document.querySelectorAll('main details:not(.shot)')].filter((one) => !one.open).length"
    assert browser.value(folded) > 10
    browser.click("#fold")
    assert browser.value(folded) == 0
    browser.click("#fold")
    assert browser.value(folded) > 10


@pytest.mark.parametrize("width", [1200, 390])
def test_taps_are_drawn_on_the_picture_to_the_pixel(browser: Browser, pages: Path, width: int) -> None:
    browser.resize(width, 900)
    browser.open(pages / "one.html")
    first = "#a5 .shots figure:first-child"
    for larger in (False, True):
        if larger:
            browser.click(f"{first} summary")
        browser.scroll_to(first)
        image, dot = browser.boxes(f"{first} svg image", f"{first} circle.dot")
        left, top, shown_width, shown_height = image
        assert shown_width / shown_height == pytest.approx(WIDTH / HEIGHT, abs=0.002)
        x, y, across, down = dot
        assert x + across / 2 == pytest.approx(left + shown_width * 54 / WIDTH, abs=0.5)
        assert y + down / 2 == pytest.approx(top + shown_height * 210 / HEIGHT, abs=0.5)
    assert shown_height > 500


def test_a_swipe_goes_from_where_to_where(browser: Browser, pages: Path) -> None:
    browser.open(pages / "one.html")
    browser.scroll_to("#a8 .shots")
    (left, top, width, height), (x, y, _, length) = browser.boxes(
        "#a8 .shots figure:first-child svg use", "#a8 .shots line.way"
    )
    assert x == pytest.approx(left + width / 2, abs=0.5)
    assert y == pytest.approx(top + height * 60 / HEIGHT, abs=0.5)
    assert length == pytest.approx(height * 120 / HEIGHT, abs=0.5)


def test_a_picture_shown_twice_is_drawn_twice(browser: Browser, pages: Path) -> None:
    browser.open(pages / "one.html")
    for selector, colour in (
        ("#a5 .shots figure:nth-child(1) svg", [20, 60, 120]),
        ("#a5 .shots figure:nth-child(2) svg", [30, 30, 30]),
        ("#a8 .shots figure:nth-child(1) svg", [30, 30, 30]),
        ("#a8 .shots figure:nth-child(2) svg", [200, 200, 210]),
    ):
        browser.scroll_to(selector)
        x, y, width, _ = browser.box(selector)
        assert browser.pixel(x + width / 4, y + 20) == pytest.approx(colour, abs=3)


def test_light_and_dark_follow_the_system_and_the_switch(browser: Browser, pages: Path) -> None:
    browser.open(pages / "one.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert browser.value(paper) == "rgb(255, 255, 255)"
    browser.click("#theme-dark")
    assert browser.value(paper) == "rgb(20, 23, 28)"
    browser.click("#theme-light")
    assert browser.value(paper) == "rgb(255, 255, 255)"
    browser.dark(True)
    assert browser.value(paper) == "rgb(255, 255, 255)"
    browser.click("#theme-auto")
    assert browser.value(paper) == "rgb(20, 23, 28)"
    browser.dark(False)


@pytest.mark.parametrize("name", ["one", "two", "long"])
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_wider_than_the_window(browser: Browser, pages: Path, name: str, width: int) -> None:
    browser.resize(width, 900)
    browser.open(pages / f"{name}.html")
    assert browser.value("document.documentElement.scrollWidth") <= width


def test_an_event_can_be_linked_to(browser: Browser, pages: Path) -> None:
    browser.open(pages / "two.html", "#b6")
    assert is_open(browser, "#b6")
    assert 0 < browser.box("#b6")[1] < 900
    browser.click("#comparison a[href='#a11']")
    assert browser.value("location.hash") == "#a11"
    assert 0 < browser.box("#a11")[1] < 900


def test_the_first_divergence_stands_in_both_timelines(browser: Browser, pages: Path) -> None:
    browser.open(pages / "two.html")
    assert browser.value("[...document.querySelectorAll('.parted')].map((row) => row.id).join()") == "a11,b11"


def test_five_thousand_events_stay_usable(browser: Browser, pages: Path) -> None:
    browser.open(pages / "long.html")
    assert browser.value("document.querySelectorAll('.row').length") > 3_300
    browser.scroll_to("#a4999")
    browser.click("#a4999 summary")
    assert is_open(browser, "#a4999 details")


def test_j_and_k_go_from_step_to_step(browser: Browser, pages: Path) -> None:
    browser.open(pages / "long.html")
    for keys, step in (("jjj", 2), ("k", 1)):
        for key in keys:
            browser.press(key)
        found = browser.value(
            "[...document.querySelectorAll('.step')].find((one) => one.getBoundingClientRect().top > 20)"
            ".querySelector('h3')?.innerText"
        )
        assert found == f"step {step}"


def test_the_policy_stops_what_the_page_does_not_bring(shared: Browser, pages: Path) -> None:
    """Were markup to get in after all, it could neither run nor load anything."""
    page = (pages / "one.html").read_text()
    broken = pages / "broken.html"
    broken.write_text(
        page.replace(
            "<main>",
            "<main><script>document.title = 'run'</script><img src='https://127.0.0.1:9/x.png'>"
            "<p id='styled' style='color: red' onclick=\"document.title = 'run'\">x</p>",
        )
    )
    shared.requests.clear()
    shared.open(broken)
    shared.click("#styled")
    assert shared.value("document.title") != "run"
    assert shared.value("getComputedStyle(document.querySelector('#styled')).color") != "rgb(255, 0, 0)"
    assert len(shared.complaints) >= 3
    shared.complaints.clear()


def test_texts_that_are_long_without_a_space_wrap(browser: Browser, pages: Path, tmp_path: Path) -> None:
    long = stored(("episode/dd", [ModelResponded(step=1, content="x" * 500, thought="漢" * 400)]))
    made = tmp_path / "wide.html"
    made.write_text("".join(Page([Recorded("dd", _row("fail"), long)], BlobStore(tmp_path / "none"))), "utf-8")
    browser.resize(390, 900)
    browser.open(made)
    browser.click("#fold")
    assert browser.value("document.documentElement.scrollWidth") <= 390

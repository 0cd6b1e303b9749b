"""What a reader does with the page, in a real browser."""

from __future__ import annotations

import base64
import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness.model.waiting import wait_until
from harness.report.matrix import tables
from harness.report.renderers import RENDERERS
from harness.report.summary import SIGNS, WORST, Outcome, outcome
from tests.bench.page import LOST_EACH, large_run
from tests.browser.conftest import HARMFUL, requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

    from harness.report.matrix import Table
    from harness.saved import SavedRun

from tests.browser.conftest import Pages

pytestmark = pytest.mark.browser


def press(driver: Chrome, *keys: str) -> None:
    """Press keys where the focus is."""
    driver.switch_to.active_element.send_keys(*keys)


def one(driver: Chrome | WebElement, selector: str) -> WebElement:
    """Return the first element of a selector, when it is there."""
    soon(lambda: bool(driver.find_elements(By.CSS_SELECTOR, selector)), because=selector)
    return driver.find_element(By.CSS_SELECTOR, selector)


def soon(condition: Callable[[], bool], *, because: str) -> None:
    """Wait until something is so: a browser follows a link when it has time to."""
    wait_until(condition, within_s=15, because=because)


def shown(driver: Chrome, anchor: str) -> bool:
    """Wait until the cell of this anchor is shown, and all of it."""
    soon(
        lambda: js(driver, "document.getElementById('cell').dataset.shown") == anchor,
        because=f"{anchor} is shown",
    )
    return one(driver, "#cell h1").is_displayed()


def title(driver: Chrome) -> str:
    """Return the name of the cell that is shown, or nothing."""
    return str(js(driver, "document.querySelector('#cell h1')?.textContent ?? ''"))


def ran(run: SavedRun) -> list[Table]:
    """Return the tables of which anything was run; of the others the page lists the reasons."""
    return [table for table in tables(run) if any(row.ran for row in table.rows)]


def every(driver: Chrome, selector: str) -> list[WebElement]:
    """Return the elements of a selector that can be seen."""
    return [
        element
        for element in driver.find_elements(By.CSS_SELECTOR, selector)
        if element.is_displayed()
    ]


def js(driver: Chrome, text: str, *arguments: object) -> Any:
    """Evaluate a script's expression."""
    return driver.execute_script(f"return ({text})", *arguments)


@pytest.mark.parametrize("name", ["golden", "hostile", "lively"])
def test_the_page_asks_nobody_for_anything(browser: Chrome, pages: Pages, name: str) -> None:
    """One file is all there is: no request but for the page itself, with every cell opened."""
    browser.get(getattr(pages, name))
    anchors = js(
        browser,
        "JSON.parse(document.getElementById('index').textContent).cells.map(cell => cell[0])",
    )
    for anchor in anchors:
        js(browser, "location.hash = 'cell=' + arguments[0]", anchor)
        assert shown(browser, anchor.removeprefix("cell="))
    asked = {urlsplit(address)._replace(fragment="").geturl() for address in requests(browser)}
    assert asked <= {getattr(pages, name), "about:blank"}


@pytest.mark.parametrize("name", ["golden", "hostile"])
def test_every_cell_has_a_link_of_its_own(browser: Chrome, pages: Pages, name: str) -> None:
    """The address of a cell, opened anew, shows that cell: its id, its verdict, its reason and its
    line to run it again.
    """
    run = pages.runs[name]
    browser.get(getattr(pages, name))
    anchors = js(
        browser,
        "JSON.parse(document.getElementById('index').textContent).cells.map(cell => cell[0])",
    )
    assert len(set(anchors)) == len(run.results)
    for number in range(0, len(anchors), 7):
        browser.get("about:blank")
        browser.get(f"{getattr(pages, name)}#cell={anchors[number]}")
        result = run.results[number]
        assert shown(browser, anchors[number])
        text = one(browser, "#cell").text
        assert f"{SIGNS[outcome(result.verdict)]} {outcome(result.verdict)}" in text
        assert result.plan.id.split("/")[0] in one(browser, "#cell h1").text
        assert "lostack run --only" in text


def test_every_square_of_the_matrix_leads_to_its_worst_cell(browser: Chrome, pages: Pages) -> None:
    """A click opens the cell, Escape and the browser's way back return to the matrix."""
    browser.get(pages.hostile)
    squares = every(browser, "table.matrix td a")
    assert len(squares) == sum(
        bool(spot.results)
        for row in tables(pages.runs["hostile"])[0].rows
        for spot in row.spots.values()
    )
    for place in range(len(squares)):
        square = every(browser, "table.matrix td a")[place]
        word = square.find_element(By.CSS_SELECTOR, ".word").text
        square.click()
        soon(lambda: title(browser) != "", because="the cell is shown")
        assert one(browser, "#cell .chip").text == word
        if place % 2:
            browser.back()
        else:
            press(browser, Keys.ESCAPE)
        soon(lambda: title(browser) == "", because="the matrix is shown again")
        assert one(browser, "#overview").is_displayed()
        assert not one(browser, "#cell").is_displayed()


def test_verdicts_can_be_filtered(browser: Chrome, pages: Pages) -> None:
    """A chip shows only the cells of its verdict, in the list and in the matrix; a second one adds
    its own; pressed again, all are back. The broken ones stand first.
    """
    browser.get(pages.golden)
    run = pages.runs["golden"]
    total = len(run.results)
    counts = Counter(str(outcome(result.verdict)) for result in run.results)
    words = [row.text for row in every(browser, "#list tbody tr td:first-child")]
    assert len(words) == total
    assert words == sorted(words, key=lambda word: WORST.index(Outcome(word[2:])))
    chip = one(browser, "#chips button.broken")
    assert chip.text == f"✘ {counts['broken']} broken"
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert len(every(browser, "#list tbody tr")) == counts["broken"]
    assert {row.text for row in every(browser, "#list tbody tr td:first-child")} == {"✘ broken"}
    assert one(browser, "#matches").text == f"{counts['broken']} of {total} cells"
    assert every(browser, "table.matrix td.broken:not(.dim)")
    assert not every(browser, "table.matrix td.kept:not(.dim)")
    one(browser, "#chips button.kept").click()
    assert len(every(browser, "#list tbody tr")) == counts["broken"] + counts["kept"]
    for word in ("broken", "kept"):
        one(browser, f"#chips button.{word}").click()
    assert len(every(browser, "#list tbody tr")) == total


def test_a_search_finds_by_words(browser: Chrome, pages: Pages) -> None:
    """All words must be in the cell's id, verdict or reason; rows of the matrix without a hit go
    away.
    """
    browser.get(pages.golden)
    press(browser, "/")
    press(browser, "void damaged")
    ids = [row.text for row in every(browser, "#list tbody tr")]
    assert ids
    assert all("void-damaged" in text or "damaged" in text for text in ids)
    assert len(every(browser, "table.matrix tbody tr")) < len(pages.runs["golden"].results)
    press(browser, Keys.CONTROL, "a")
    press(browser, "nothing has these words")
    assert not every(browser, "#list tbody tr")
    assert one(browser, "#matches").text.startswith("0 of ")


def test_all_of_it_can_be_done_from_the_keyboard(browser: Chrome, pages: Pages) -> None:
    """The first link leads past what broke; Tab reaches the first square; Enter opens it; j and k
    walk; Escape returns; the focus can always be seen.
    """
    browser.get(pages.golden)
    press(browser, Keys.TAB)
    assert js(browser, "document.activeElement.textContent") == "to the matrix"
    press(browser, Keys.ENTER)
    soon(lambda: bool(js(browser, "document.activeElement.id === 'matrix'")), because="the matrix")
    for _ in range(20):
        press(browser, Keys.TAB)
        assert (
            js(
                browser,
                (
                    "document.activeElement === document.body || "
                    "getComputedStyle(document.activeElement).outlineStyle"
                ),
            )
            != "none"
        )
        if js(browser, "document.activeElement.matches('table.matrix td a')"):
            break
    assert js(browser, "document.activeElement.matches('table.matrix td a')")
    press(browser, Keys.ENTER)
    soon(lambda: title(browser) != "", because="the cell is shown")
    first = title(browser)
    press(browser, "j")
    soon(lambda: title(browser) != first, because="the next cell is shown")
    press(browser, "k")
    soon(lambda: title(browser) == first, because="the first cell is shown again")
    press(browser, Keys.ESCAPE)
    soon(lambda: title(browser) == "", because="the matrix is shown again")
    assert one(browser, "#overview").is_displayed()


def test_tables_are_tabs(browser: Chrome, pages: Pages) -> None:
    """One pipeline at a time; the arrow keys change it, as in every list of tabs."""
    browser.get(pages.golden)
    tabs = every(browser, "[role=tab]")
    assert len(tabs) == len(ran(pages.runs["golden"])) > 1
    assert [len(every(browser, ".sheet")), tabs[0].get_attribute("aria-selected")] == [1, "true"]
    tabs[0].click()
    press(browser, Keys.ARROW_RIGHT)
    assert tabs[1].get_attribute("aria-selected") == "true"
    assert every(browser, ".sheet")[0].get_attribute("id") == "sheet-1"


def test_a_timeline_can_be_stepped_through_and_zoomed(browser: Chrome, pages: Pages) -> None:
    """Every event that is drawn can be read: with the arrow keys in order of time, and
    as a table.
    """
    anchor = js_anchor(browser, pages.lively)
    browser.get(f"{pages.lively}#{anchor}")
    assert shown(browser, anchor.removeprefix("cell="))
    svg = one(browser, ".timeline svg")
    soon(lambda: bool(js(browser, LANES)), because="the lanes are drawn")
    assert js(browser, LANES) == ["source", "producer", "wire", "broker-1", "consumer", "sink"]
    assert svg.find_elements(By.CSS_SELECTOR, "path.cross")
    js(browser, "arguments[0].focus()", svg)
    told = []
    for _ in range(40):
        press(browser, Keys.ARROW_RIGHT)
        told.append(one(browser, ".timeline output").text)
    times = [float(text.split(" s")[0]) for text in told]
    assert times == sorted(times)
    assert any("(dropped)" in text or "(cut)" in text for text in told) or len(set(told)) == 40
    before = len(svg.find_elements(By.CSS_SELECTOR, "g.none, line.msg"))
    for _ in range(4):
        press(browser, "+")
    assert len(svg.find_elements(By.CSS_SELECTOR, "line.msg")) < before
    press(browser, "0")
    assert len(svg.find_elements(By.CSS_SELECTOR, "line.msg")) >= before
    one(browser, ".timeline details summary").click()
    rows = len(one(browser, ".timeline details").find_elements(By.CSS_SELECTOR, "tr"))
    assert rows > len(svg.find_elements(By.CSS_SELECTOR, "line.msg"))


LANES = """[...document.querySelectorAll('.timeline svg text:not(.soft)')]
  .map((one) => [...one.childNodes].find((node) => node.nodeType === 3).data)"""
"""Read by one script: each change of the size draws everything inside the svg anew."""


def js_anchor(browser: Chrome, page: str) -> str:
    """Return the fragment of a page's first cell."""
    browser.get(page)
    return f"cell={js(browser, 'JSON.parse(document.getElementById(`index`).textContent).cells[0][0]')}"  # noqa: E501


def test_a_duplicate_is_shown_both_ways(browser: Chrome, pages: Pages) -> None:
    """The target's two copies stand in two columns, and in the ribbon of its partition."""
    browser.get(f"{pages.lively}#{js_anchor(browser, pages.lively)}")
    path = one(browser, "details.path[open]")
    assert "recorded 2 times: 1 stored twice" in path.text
    assert [
        letter.text
        for letter in path.find_elements(
            By.CSS_SELECTOR, "tr:last-child .letter, tr:nth-last-child(2) .letter"
        )
    ]
    assert {letter.text for letter in path.find_elements(By.CSS_SELECTOR, ".letter")} == {"A", "B"}
    assert "D " in one(browser, ".ribbon:nth-of-type(2) p, .ribbon p").text


def test_a_rolled_back_checkpoint_is_drawn(browser: Chrome, pages: Pages) -> None:
    """State and offsets at three moments: what the crash undid is drawn where it went back, and
    nowhere else.
    """
    browser.get(pages.golden)
    anchors = js(
        browser,
        "JSON.parse(document.getElementById('index').textContent).cells.map(cell => cell[0])",
    )
    anchor = next(anchor for anchor in anchors if "kept-by-rolling-back" in anchor)
    js(browser, "location.hash = 'cell=' + arguments[0]", anchor)
    assert shown(browser, anchor.removeprefix("cell="))
    figure = one(browser, ".rollback svg")
    told = figure.get_attribute("aria-label")
    assert told is not None
    assert (
        "before the crash: 17 records in the state, batches 0 to 7, offsets 0: 9, 1: 8, 2: 16"
        in told
    )
    assert (
        "after the rollback: 15 records in the state, batches 0 to 6, offsets 0: 8, 1: 7, 2: 14"
        in told
    )
    assert "at the end: 24 records in the state, batches 0 to 10" in told
    assert [
        gone.get_attribute("textContent")
        for gone in browser.find_elements(By.CSS_SELECTOR, ".rollback .gone")
    ] == [
        "k1: 1 rolled back",
        "k2: 1 rolled back",
    ]


def test_seeds_of_one_square_are_at_hand(browser: Chrome, pages: Pages) -> None:
    """A square of several seeds counts them, and each has its link on the cell's page."""
    browser.get(pages.lively)
    assert one(browser, "table.matrix td small").text == "n = 3"
    one(browser, "table.matrix td a").click()
    one(browser, ".seeds a")
    assert [link.text for link in every(browser, ".seeds a")] == ["✔ 1", "✔ 2", "✔ 3"]
    every(browser, ".seeds a")[2].click()
    soon(lambda: title(browser).endswith("/s3"), because="the third seed is shown")


def test_hostile_text_is_shown_and_obeyed_nowhere(browser: Chrome, pages: Pages) -> None:
    """Records, nodes and reasons that are markup are text on the page: in the matrix, the timeline,
    the paths, the title.
    """
    browser.get(pages.hostile)
    anchors = js(
        browser,
        "JSON.parse(document.getElementById('index').textContent).cells.map(cell => cell[0])",
    )
    browser.get(f"{pages.hostile}#cell={anchors[-1]}")
    assert shown(browser, anchors[-1])
    for details in every(browser, "details:not([open]) > summary"):
        details.click()
    assert js(browser, "window.hacked === undefined")
    assert js(browser, "document.querySelectorAll('img, iframe, object').length") == 0
    assert js(browser, "document.querySelectorAll('script:not([type])').length") == 1
    text = one(browser, "#cell").text
    assert "</script><img src=x onerror=" in text
    assert "{{ 7 * 7 }}" in text
    assert HARMFUL[-1] not in text
    assert "\u202e" not in text
    for anchor in anchors:
        js(browser, "location.hash = 'cell=' + arguments[0]", anchor)
        assert shown(browser, anchor.removeprefix("cell="))
        assert js(browser, "document.querySelectorAll('img, iframe, object').length") == 0


@pytest.mark.parametrize(
    "address", ["#cell=nothing", "#cell=", "#cell=%3Cscript%3E", '#"><img src=x>']
)
def test_an_address_of_no_cell_shows_the_matrix(
    browser: Chrome, pages: Pages, address: str
) -> None:
    browser.get(pages.golden + address)
    assert one(browser, "#overview").is_displayed()
    assert unquote(browser.current_url).startswith(pages.golden)


CONTRAST = """(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const back = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const element of document.querySelectorAll(arguments[0])) {
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(back(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const key = `${element.className} in ${element.closest('td,li,header,section')?.className}`;
    found[key] = Math.min(found[key] ?? 99, ratio);
  }
  return found;
})()"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_in_dark(browser: Chrome, pages: Pages, scheme: str) -> None:
    """Every verdict's words stand out from their ground by 4.5 to 1 (WCAG AA), and the two schemes
    differ.
    """
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    browser.get(pages.hostile)
    ground = js(browser, "getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(251, 251, 249)") is (scheme == "light")
    ratios = js(
        browser,
        CONTRAST,
        ".word, .counts, td small, .key, p, dt, dd, summary, th, #chips button, .verdict, code",
    )
    assert {key: ratio for key, ratio in ratios.items() if ratio < 4.5} == {}


def test_verdicts_differ_without_colour(browser: Chrome, pages: Pages) -> None:
    """Each outcome has a sign and a word; what is permitted is hatched, and only that."""
    browser.get(pages.hostile)
    words = {word.text for word in every(browser, "td .word")}
    assert len({tuple(word.split(" ", 1)) for word in words}) == len(words)
    for left, right in itertools.combinations(sorted(words), 2):
        assert left.split(" ", 1)[1] != right.split(" ", 1)[1]
    hatched = every(browser, "td.hatched")
    assert hatched
    assert all(
        "repeating-linear-gradient" in square.value_of_css_property("background-image")
        for square in hatched
    )


def test_it_prints(browser: Chrome, pages: Pages) -> None:
    """On paper every table of the matrix is there, in dark words on white, without what only a
    screen can use.
    """
    browser.get(pages.golden)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert len(every(browser, ".sheet")) == len(ran(pages.runs["golden"]))
    assert not every(browser, "#tools, footer, button")
    assert js(browser, "getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    ratios = js(browser, CONTRAST, ".word, .counts, p, dt, dd, th, code")
    assert {key: ratio for key, ratio in ratios.items() if ratio < 4.5} == {}
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF")


def test_without_scripts_the_matrix_is_still_there(browser: Chrome, pages: Pages) -> None:
    """Who runs no scripts sees the verdict, the matrix and what is not green, and is told what is
    missing.
    """
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages.hostile)
        assert one(browser, "h1").text.startswith("✘ PARTIAL: the control ")
        assert every(browser, "table.matrix td.kept")
        assert "Scripts are off" in one(browser, "noscript").text
        assert not every(browser, "#tools")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_it_fits_every_screen(browser: Chrome, pages: Pages, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for address in (
            pages.golden,
            pages.hostile,
            f"{pages.lively}#{js_anchor(browser, pages.lively)}",
        ):
            browser.get("about:blank")
            browser.get(address)

            def there(at: str = address) -> bool:
                shown = js(browser, "Boolean(document.getElementById('cell').dataset.shown)")
                return bool(shown is ("#" in at))

            soon(there, because=address)
            assert js(browser, "document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_list_of_runs_leads_to_each_page(browser: Chrome, pages: Pages) -> None:
    """``index.html`` beside the runs links every report."""
    index = Path(unquote(urlsplit(pages.golden).path)).parents[1] / "index.html"
    browser.get(index.as_uri())
    links = [link.get_attribute("href") or "" for link in every(browser, "table.runs a")]
    assert sorted(links) == sorted([pages.golden, pages.hostile, pages.lively])
    every(browser, "table.runs a")[0].click()
    assert one(browser, "#matrix").is_displayed()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_list_of_runs_fits_every_screen(browser: Chrome, pages: Pages, width: int) -> None:
    """Each verdict, sentence and command is on it; on a narrow one a run is a block of lines, and
    says what each is.
    """
    index = Path(unquote(urlsplit(pages.golden).path)).parents[1] / "index.html"
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(index.as_uri())
        right = (
            "Math.max(...[...document.querySelectorAll('table.runs th[scope=row], table.runs "
            "td')].map(SIDE))"
        )
        assert (
            js(browser, right.replace("SIDE", "(one) => one.getBoundingClientRect().right"))
            <= width
        )
        assert js(browser, "document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_large_page_opens(browser: Chrome, tmp_path: Path) -> None:
    """Hundreds of cells and thousands of anomalies: the list shows the first of them, the rest is
    asked for.
    """
    run = large_run(tmp_path, 300, kinds=5)
    page = tmp_path / "report.html"
    page.write_text(RENDERERS["html"].render(run), encoding="utf-8")
    browser.get(page.as_uri())
    assert js(browser, "performance.getEntriesByType('navigation')[0].loadEventEnd") < 10_000
    assert len(every(browser, "#list tbody tr")) == 200
    assert one(browser, "#more").text == "100 more of 100"
    one(browser, "#more").click()
    assert len(every(browser, "#list tbody tr")) == 300
    one(browser, "table.matrix td a").click()
    one(browser, "details.path")
    assert len(every(browser, "details.path")) >= LOST_EACH

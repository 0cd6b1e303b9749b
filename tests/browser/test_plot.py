"""The plot of a cell in a real browser: its dots are the judged records, and can be told apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from harness.report.renderers import write_reports
from tests.browser.test_own_page import OUTSIDE, width
from tests.browser.test_page import every, js, js_anchor, one
from tests.report.hostile import run_of
from tests.report.test_plot import planted

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome

    from harness.saved import CellResult

pytestmark = pytest.mark.browser
DOTS = """[...document.querySelectorAll(`${arguments[0]} .dots [data-fate]`)].map((dot) =>
  [dot.dataset.fate, dot.textContent, dot.getAttribute('d')])"""
FAINT = """[...document.querySelectorAll('.dots .dot')].filter((dot) => {
  const style = getComputedStyle(dot), rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (text) => rgb(text).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ink = light(style.fill === 'none' ? style.stroke : style.fill);
  const ground = light(getComputedStyle(document.querySelector('.stories li')).backgroundColor);
  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) < 3;
}).map((dot) => dot.getAttribute('class'))"""


@dataclass(frozen=True)
class Planted:
    """A page, its cell, and the record that was lost in it."""

    page: str
    cell: CellResult
    lost: str


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Write the page of a cell in which one record is lost, and another one recorded twice."""
    folder: Path = tmp_path_factory.mktemp("reports") / "planted"
    cell, lost = planted(folder / "cells" / "planted")
    run = replace(run_of(cell), directory=folder)
    run.info.save(folder)
    write_reports(run)
    return Planted((folder / "report.html").as_uri(), cell, lost)


@pytest.mark.parametrize("where", ["#red", "#cell"])
def test_the_dots_are_the_judged_records(browser: Chrome, broken: Planted, where: str) -> None:
    """On top and on the cell's page: the planted loss and the planted duplicate have the only dots
    of their kind, the others are recorded once. Each kind has a shape of its own.
    """
    cell = broken.cell
    browser.get(
        f"{broken.page}#{js_anchor(browser, broken.page)}" if where == "#cell" else broken.page
    )
    one(browser, f"{where} .dots [data-fate]")
    dots = js(browser, DOTS, where)
    assert Counter(fate for fate, _, _ in dots) == {
        "recorded": cell.plan.offered - 2,
        "lost": 1,
        "duplicated": 1,
    }
    told = {fate: words for fate, words, _ in dots}
    assert told["lost"].startswith(f"{broken.lost}: delivered, not recorded, sent at ")
    assert told["duplicated"].startswith(f"{cell.plan.target}: recorded 2 times, sent at ")
    assert len({(fate, shape) for fate, _, shape in dots}) == len({each[2] for each in dots}) == 3
    figure = one(browser, f"{where} .dots")
    caption = figure.find_element("css selector", "figcaption").text
    assert f"{cell.plan.offered - 2} recorded once, 1 duplicated, 1 lost" in caption
    assert f"Band: fault: drop at {cell.plan.target}" in caption
    drawing = figure.find_element("css selector", "svg")
    assert drawing.get_attribute("role") == "img"
    assert js(browser, "arguments[0].firstChild.textContent", drawing) == caption
    assert figure.find_elements("css selector", "rect.fault")
    figure.find_element("css selector", "summary").click()
    rows = [row.text for row in figure.find_elements("css selector", "tr")]
    assert len(rows) == 3
    assert any(broken.lost in row and "lost" in row for row in rows)


def test_what_broke_stands_on_top_in_words(browser: Chrome, broken: Planted) -> None:
    """Above the matrix: the record, where it went, and the plot."""
    browser.get(broken.page)
    story = one(browser, "#red .stories li")
    lead = story.find_element("css selector", ".lead").text
    assert (
        lead == f"{broken.lost} was lost: a reader was given it, and the output does not have it."
    )
    assert story.location["y"] < one(browser, "#tools").location["y"]
    assert story.location["y"] < one(browser, "#matrix").location["y"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dots_stand_out_from_their_ground(browser: Chrome, broken: Planted, scheme: str) -> None:
    """By 3 to 1, as WCAG AA asks of graphics, also the signs of rows without dots."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(broken.page)
    one(browser, ".dots [data-fate]")
    assert js(browser, FAINT) == []


def test_it_fits_a_telephone(browser: Chrome, broken: Planted) -> None:
    with width(browser, 360):
        browser.get(broken.page)
        one(browser, ".dots [data-fate]")
        assert js(browser, "document.documentElement.scrollWidth") <= 360
        assert js(browser, OUTSIDE, ".stories p, .dots svg, .dots text, #proved li") == []
        assert every(browser, "#red .dots")


def test_no_dot_is_left_out_where_few_messages_are_drawn(
    browser: Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plot of the cell's page begins with its first dot, not with the first message drawn."""
    monkeypatch.setattr("harness.report.page.model.MOST_MESSAGES", 4)
    monkeypatch.setattr("harness.report.page.model.LEAST_MESSAGES", 4)
    cell, _ = planted(tmp_path / "cells" / "planted")
    run = replace(run_of(cell), directory=tmp_path)
    run.info.save(tmp_path)
    write_reports(run)
    page = (tmp_path / "report.html").as_uri()
    browser.get(f"{page}#{js_anchor(browser, page)}")
    one(browser, "#cell .dots [data-fate]")
    assert len(js(browser, DOTS, "#cell")) == cell.plan.offered

"""The page of the trend, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.report.breaks import HISTORY_FILE
from harness.report.trend import write_trend
from tests.browser.conftest import requests
from tests.browser.test_own_page import OUTSIDE, width
from tests.browser.test_page import CONTRAST, every, js, one

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser
NAMES = [
    f"declared/orders/orders/{name}/at-least-once/process"
    for name in ("ack-lost", "commit-lost", "commit-ack-lost")
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the trend of 70 runs: one cell broken since the 66th, one that was for a while, one
    never; one run has its report.
    """
    folder = tmp_path_factory.mktemp("trend")
    (folder / "r66").mkdir()
    (folder / "r66" / "report.html").write_text(
        "<!doctype html><title>r66</title>", encoding="utf-8"
    )
    lines = []
    for day in range(1, 71):
        outcomes = {
            NAMES[0]: "kept",
            NAMES[1]: "broken" if day >= 66 else "kept",
            NAMES[2]: "stuck" if 20 < day < 30 else "kept",
        }
        lost = {name: int(outcome == "broken") for name, outcome in outcomes.items()}
        figures = {
            name: {"lost": lost[name], "duplicated": 0, "seconds": 2.0 + day % 3}
            for name in outcomes
        }
        lines.append(
            json.dumps(
                {
                    "run": f"r{day}",
                    "started": f"2026-{day // 28 + 1:02d}-{day % 28 + 1:02d}T12:00:00+00:00",
                    "complete": True,
                    "commit": f"{day:040x}",
                    "seconds": 10.0 + day,
                    "cells": {name: {outcome: 1} for name, outcome in outcomes.items()},
                    "figures": figures,
                }
            )
        )
    (folder / HISTORY_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return write_trend(folder).as_uri()


def test_it_shows_what_broke_and_since_which_commit(browser: Chrome, page: str) -> None:
    """What is broken now stands first, with a way to the report of the run in which it broke."""
    browser.get(page)
    first, second = every(browser, ".stories li")
    assert first.text.splitlines()[0] == f"✘ broken {NAMES[1]}"
    assert f"since r66 ({66:040x}"[:20] in first.text
    assert "it was green in r65" in first.text
    assert second.text.startswith("◐ stuck, and green again")
    assert "green again in r30" in second.text
    first.find_element("css selector", "a").click()
    assert browser.title == "r66"


def test_each_cell_has_a_square_for_each_run(browser: Chrome, page: str) -> None:
    """The newest 60 of them, told apart without colour too; what never changed is folded away."""
    browser.get(page)
    rows = every(browser, "table.strips tbody tr")
    assert [row.find_element("css selector", "th").text for row in rows] == [NAMES[1], NAMES[2]]
    squares = rows[0].find_elements("css selector", "rect")
    assert len(squares) == 60
    assert [square.get_attribute("class") for square in squares[-6:]] == ["kept", *["broken"] * 5]
    assert js(browser, "arguments[0].querySelector('title').textContent", squares[-1]).endswith(
        "broken, 1 lost, 0 duplicated, 3.0 s"
    )
    assert [sign.text for sign in rows[0].find_elements("css selector", "svg text")] == ["✘"] * 5
    assert "1 / 0" in rows[0].text
    assert js(browser, "arguments[0].querySelector('polyline').points.length", rows[0]) == 60
    assert len(every(browser, "#seconds rect")) == 60
    one(browser, "#steady summary").click()
    assert NAMES[0] in one(browser, "#steady").text


@pytest.mark.parametrize("pixels", [360, 1280])
def test_it_fits_the_screen_and_asks_nobody(browser: Chrome, page: str, pixels: int) -> None:
    """Nothing but strips and tables scrolls sideways; names and verdicts lie on the screen; nothing
    else is loaded.
    """
    with width(browser, pixels):
        browser.get(page)
        assert js(browser, "document.documentElement.scrollWidth") <= pixels
        assert (
            js(browser, OUTSIDE, ".stories p, table.strips th, table.strips td:nth-child(2)") == []
        )
    assert set(requests(browser)) <= {page, "about:blank"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(browser: Chrome, page: str, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(page)
    ratios = js(browser, CONTRAST, ".stories p, code, th, td, .legend")
    assert ratios
    assert {key: ratio for key, ratio in ratios.items() if ratio < 4.5} == {}

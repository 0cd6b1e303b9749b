"""The page of a sweep, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.sweep.page import PAGE_FILE
from harness.sweep.telling import summary_of, write_sweep
from tests.browser.test_own_page import width
from tests.browser.test_page import js, one
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser
ON_SCREEN = """
const box = arguments[0].getBoundingClientRect();
return box.left >= 0 && box.right <= document.documentElement.clientWidth;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the page of a sweep that was run whole."""
    made = sweep(tmp_path_factory.mktemp("sweep") / "one", lambda _: RIGHT, acts=("lose",))
    made.dry_run(Quiet())
    planned = made.plan()
    made.run(planned, Quiet())
    outcomes = made.outcomes(planned)
    write_sweep(made, planned, outcomes, summary_of(made, planned, outcomes))
    return (made.directory / PAGE_FILE).as_uri()


@pytest.mark.parametrize("pixels", [360, 390, 1280])
def test_every_step_of_the_chart_can_be_seen(browser: Chrome, page: str, pixels: int) -> None:
    """The page does not scroll sideways. The chart does, in its own box, from its first step to its
    last.
    """
    with width(browser, pixels):
        browser.get(page)
        assert js(browser, "document.documentElement.scrollWidth") <= pixels
        chart = one(browser, "svg.sweep")
        scrolls = js(browser, "getComputedStyle(arguments[0].parentElement).overflowX", chart)
        assert scrolls == "auto"
        first, last = (one(chart, f"rect:{place}-of-type") for place in ("first", "last"))
        for bar in (last, first):
            browser.execute_script("arguments[0].scrollIntoView({inline: 'center'})", bar)
            assert browser.execute_script(ON_SCREEN, bar), pixels
            assert js(browser, "document.documentElement.scrollLeft") == 0

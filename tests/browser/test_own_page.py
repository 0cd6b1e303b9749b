"""The page of a pipeline of somebody's own, in a real browser, on a telephone too."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.rules import Rule
from harness.report.renderers import write_reports
from harness.saved import judge_cell
from tests.browser.test_page import CONTRAST, every, js, one, shown, soon
from tests.report.own import LAST, LIBRARY, QUERY, count_without, own_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser
BROKEN = "declared.orders.orders.commit-ack-lost.at-least-once.process.s1"
ENDED = "declared.orders.orders.commit-lost.at-least-once.process.s1"
OUTSIDE = """[...document.querySelectorAll(arguments[0])].filter((element) => element.checkVisibility()
  && (element.getBoundingClientRect().right > innerWidth || element.getBoundingClientRect().left < 0))
  .map((element) => element.textContent)"""  # noqa: E501


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the reports of a run of three cells; return the address of its page."""
    run = own_run(tmp_path_factory.mktemp("reports") / "own")
    write_reports(run)
    return (run.directory / "report.html").as_uri()


@contextmanager
def width(browser: Chrome, pixels: int) -> Iterator[None]:
    """Make the screen so wide."""
    size = {"width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("pixels", [360, 390])
def test_every_verdict_is_on_the_screen_of_a_telephone(
    browser: Chrome, page: str, pixels: int
) -> None:
    """No verdict, name or count lies beyond the edge, nothing scrolls sideways, and no id is cut
    into scraps.
    """
    with width(browser, pixels):
        browser.get(page)
        assert js(browser, "document.documentElement.scrollWidth") <= pixels
        assert (
            len(every(browser, "table.matrix .word")) == len(every(browser, "#list tbody tr")) == 3
        )
        assert js(browser, OUTSIDE, ".word, .counts, th[scope=row], #list td, #list code") == []
        heights = js(
            browser,
            (
                "[...document.querySelectorAll('#list code')].map((one) => "
                "one.getClientRects().length)"
            ),
        )
        assert heights == [1, 1, 1]  # a line each
        for cell in (BROKEN, ENDED):
            browser.get("about:blank")
            browser.get(f"{page}#cell={cell}")
            assert shown(browser, cell)
            assert js(browser, "document.documentElement.scrollWidth") <= pixels
            assert (
                js(
                    browser,
                    OUTSIDE,
                    "#cell h1, #cell .chip, .card p, .card li, .card pre, .path td",
                )
                == []
            )


def test_it_says_whose_programs_they_are(browser: Chrome, page: str) -> None:
    """Above stand the claim and the program's own client; what lostack reads the logs with is said
    to be that.
    """
    browser.get(page)
    facts = one(browser, ".facts").text.replace("\n", " ")
    assert "pipeline orders claims at-least-once" in facts
    assert f"clients producer {LIBRARY}; consumer {LIBRARY}" in facts
    assert "versions observer (kafka-python) 3.0.12" in facts


def test_there_is_one_column_and_each_point_is_explained(browser: Chrome, page: str) -> None:
    """Nobody claimed the other semantics; each failure point says what happens there, and none that
    does not apply is a row.
    """
    browser.get(page)
    assert [head.text for head in every(browser, "table.matrix thead th")] == [
        "failure point",
        "at-least-once",
    ]
    rows = every(browser, "table.matrix tbody tr")
    assert [row.text.splitlines()[0] for row in rows] == [
        "commit-ack-lost",
        "commit-lost",
        "ack-lost",
    ]
    assert (
        "The position after the record is saved, and the consumer is killed before it learns that."
        in rows[0].text
    )
    folded = one(browser, "#not-applicable")
    assert folded.text == f"{count_without()} not applicable"
    one(browser, "#not-applicable summary").click()
    assert "zombie-processor\nthe pipeline has no processor" in folded.text


def test_a_broken_promise_says_what_would_mend_it(browser: Chrome, page: str) -> None:
    """In the overview and on the page of the cell, where what is claimed says what is forbidden."""
    browser.get(page)
    mend = "commit the position only when the result is recorded, and nowhere else"
    assert mend in one(browser, "#red .broken").text
    one(browser, "#red .broken a").click()
    assert shown(browser, BROKEN)
    assert one(browser, "#cell h1").text == "commit-ack-lost"
    text = one(browser, "#cell").text
    assert mend in text
    assert "lost forbidden, duplicated permitted" in text
    assert "predicted" not in text
    assert "recipe" not in text


def test_a_program_that_failed_has_its_last_words(browser: Chrome, page: str) -> None:
    """What it printed last stands on the page of the cell, as text; a cell in which nobody failed
    has none.
    """
    browser.get(f"{page}#cell={ENDED}")
    assert shown(browser, ENDED)
    card = next(
        card for card in every(browser, "#cell .card") if card.text.startswith("LAST WORDS")
    )
    assert "The consumer ended by an error; it last said:" in card.text
    assert LAST in card.text
    assert js(browser, "window.hacked === undefined")
    browser.get("about:blank")
    browser.get(f"{page}#cell={BROKEN}")
    assert shown(browser, BROKEN)
    assert not any(card.text.startswith("LAST WORDS") for card in every(browser, "#cell .card"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_day_and_by_night(browser: Chrome, page: str, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(page)
    ratios = js(browser, CONTRAST, "th p, #untried summary, .stories p, .word, .counts, figcaption")
    assert ratios
    assert {key: ratio for key, ratio in ratios.items() if ratio < 4.5} == {}


def test_what_was_seen_leads_to_a_cell_and_what_never_was_is_named(
    browser: Chrome, page: str
) -> None:
    """A goal that was reached is a link to the first cell that did; the others unfold, each with
    what it means.
    """
    browser.get(page)
    goal = next(link for link in every(browser, ".goals a") if link.text.startswith("loss"))
    assert goal.text == "loss 1"
    never = every(browser, "#coverage details")[0]
    never.find_element("css selector", "summary").click()
    assert "pause\na process was paused (SIGSTOP), and resumed" in never.text
    assert "loss" not in [term.text for term in every(browser, "#coverage dt")]
    goal.click()
    assert shown(browser, BROKEN)


def test_the_headline_says_what_broke_and_what_was_seen_stands_below(
    browser: Chrome, page: str
) -> None:
    """Record, failure point and how; on the cell's page what was seen, and apart from it, marked as
    such, what usually does this.
    """
    browser.get(page)
    assert "commit-ack-lost: " in one(browser, "h1").text
    assert "lost (delivered, not recorded)" in one(browser, "h1").text
    assert "not green" not in one(browser, "header").text
    one(browser, "#red .broken a").click()
    assert shown(browser, BROKEN)
    card = next(each for each in every(browser, "#cell .card") if "WHAT WAS SEEN" in each.text)
    assert "the consumer was given it at 2.0 s and 2.0 s" in card.text
    usually = card.find_element("css selector", ".usually").text
    assert usually.startswith("what usually does this (no line of the history shows")


def test_a_verdict_says_what_it_rests_on(browser: Chrome, page: str) -> None:
    """What was found in the output, when it was asked for, and the rule that was applied: in the
    overview and on the page of the cell. A cell of which nobody has said it has none.
    """
    browser.get(page)
    one(browser, "#red .broken details.rests summary").click()
    for place in ("#red .broken details.rests dl", "#cell dl.rests"):
        if place.startswith("#cell"):
            one(browser, "#red .broken a").click()
            assert shown(browser, BROKEN)
        told = one(browser, place)
        words = [each.text.lower() for each in told.find_elements("css selector", "dt")]
        assert words == ["found", "asked", "concluded"]
        found, asked, concluded = (each.text for each in told.find_elements("css selector", "dd"))
        assert found == f"47 rows by {QUERY}: 47 results"
        assert re.fullmatch(
            r"\d\.\d s after the last that was seen of a record \(k\d-48 delivered\).*", asked
        )
        assert concluded == Rule.LOST
    browser.get("about:blank")
    browser.get(f"{page}#cell={ENDED}")
    assert shown(browser, ENDED)
    assert not every(browser, "#cell dl.rests")


def test_logs_and_history_are_a_click_away(browser: Chrome, page: str) -> None:
    browser.get(f"{page}#cell={ENDED}")
    assert shown(browser, ENDED)
    links = js(browser, "[...document.querySelectorAll('.card dd a')].map((one) => one.href)")
    assert [link.rpartition("/")[2] for link in links] == [
        "consumer.log",
        "all.jsonl",
        "runner.jsonl",
    ]
    assert all(Path(link.removeprefix("file://")).is_file() for link in links)


@pytest.mark.parametrize("pixels", [360, 390, 1280])
def test_rest_is_a_marked_break_and_the_target_is_bold(
    browser: Chrome, tmp_path: Path, pixels: int
) -> None:
    """The stretches between are drawn short, with a mark and their length in the axis; to scale,
    they are not. No label of the axis lies on another one.
    """
    run = own_run(tmp_path / "own")
    history = run.results[1].directory / "history" / "all.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    begun = next(n for n, line in enumerate(lines) if line["event"] == "drain")
    for line in lines[begun + 1 :]:  # it rests for half a minute
        line["t"] += 30_000_000_000
    history.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    write_reports(replace(run, results=(judge_cell(run.results[1].directory),)))
    with width(browser, pixels):
        browser.get(f"{(run.directory / 'report.html').as_uri()}#cell={BROKEN}")
        assert shown(browser, BROKEN)
        # measured by one script: each change of the size draws everything inside the svg anew
        soon(lambda: bool(js(browser, GAPS)), because="the gap is drawn")
        gaps: list[float] = js(browser, GAPS)
        assert len(gaps) == 1
        assert "30 s" in js(browser, GAP_LABELS)
        svg = one(browser, ".timeline svg")
        assert 0 < gaps[0] < svg.size["width"] / 8
        assert js(browser, "document.querySelectorAll('.timeline line.msg.target').length")
        assert "bold: the target" in one(browser, ".timeline .bar").text
        assert js(browser, OVERLAPS) == []
        every(browser, ".timeline .bar input")[1].click()
        assert js(browser, GAPS) == []


GAPS = """[...document.querySelectorAll('.timeline rect.gap')]
  .map((one) => one.getBoundingClientRect().width)"""
GAP_LABELS = """[...document.querySelectorAll('.timeline text.gap-label')]
  .map((one) => one.textContent)"""
OVERLAPS = """(() => { const boxes = [...document.querySelectorAll('.timeline svg text')].map(
  (one) => [one.textContent, one.getBoundingClientRect()]);
return boxes.flatMap(([a, one], n) => boxes.slice(n + 1).filter(([, two]) =>
  one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 3
  && two.top < one.bottom - 3).map(([b]) => `${a} on ${b}`)); })()"""

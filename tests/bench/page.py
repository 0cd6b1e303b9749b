"""The page under load: 5,000 cells with 100,000 lost records; seconds to render it and to open it
in Chromium, and bytes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.model.states import State
from harness.report.renderers import RENDERERS
from tests.browser.chromium import chromium, programs
from tests.report.hostile import run_of
from tests.report.lively import lively

if TYPE_CHECKING:
    from harness.saved import CellResult, SavedRun

CELLS = 5000
LOST_EACH = 20
ROUNDS = 3


def large_run(directory: Path, cells: int = CELLS, kinds: int = 100) -> SavedRun:
    """Return a run of many cells, over some scenarios and seeds, each with a real-sized history and
    20 lost records.
    """
    one_each = [
        _losing(lively(directory / str(kind), seed=kind, scenario=f"scenario-{kind}"))
        for kind in range(kinds)
    ]
    return run_of(*(_again(one_each[number % kinds], number // kinds) for number in range(cells)))


def _losing(found: CellResult) -> CellResult:
    """Pretend in the account that most records were lost; the histories need not agree, for only
    the page is measured.
    """
    account = found.judgement.account
    lost = {"state": State.LOST, "last_hop": "acked, not stored", "recordings": 0}
    rows: Any = (*({**row, **lost} for row in account.rows[:LOST_EACH]), *account.rows[LOST_EACH:])
    counts = account.counts | {"lost": LOST_EACH}
    return replace(
        found,
        judgement=replace(found.judgement, account=replace(account, rows=rows, counts=counts)),
    )


def _again(found: CellResult, seed: int) -> CellResult:
    plan = replace(found.plan, seed=seed, id=found.plan.id.rsplit("/", 1)[0] + f"/s{seed}")
    return replace(found, judgement=replace(found.judgement, plan=plan))


def measure(cells: int = CELLS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Render the page and its anomalies once, open the page several times; medians of seconds, and
    bytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = large_run(Path(folder), cells)
        figures: dict[str, Any] = {"cells": cells, "anomalies": cells * LOST_EACH}
        for form in ("html", "anomalies"):
            since = time.monotonic()
            text = RENDERERS[form].render(run)
            figures[f"{form}, s"] = round(time.monotonic() - since, 2)
            figures[f"{form}, bytes"] = len(text.encode())
            (Path(folder) / RENDERERS[form].file).write_text(text, encoding="utf-8")
        if programs().missing:
            return figures | {"not opened": programs().missing}
        return figures | _opened((Path(folder) / "report.html").as_uri(), rounds)


def _opened(address: str, rounds: int) -> dict[str, Any]:
    opened, unfolded = [], []
    for _ in range(rounds):
        with chromium() as driver:  # a new one each time: nothing is in a cache
            driver.get(address)
            opened.append(
                float(
                    driver.execute_script(
                        "return performance.getEntriesByType('navigation')[0].loadEventEnd"
                    )
                )
            )
            unfolded.append(float(driver.execute_async_script(_UNFOLD)))
    return {
        "opened, s": round(statistics.median(opened) / 1000, 3),
        "a cell unfolded, s": round(statistics.median(unfolded) / 1000, 3),
    }


_UNFOLD = """
const done = arguments[0], since = performance.now();
addEventListener('hashchange', () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - since))));
document.querySelector('table.matrix td a').click();
"""  # noqa: E501

if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:<22} {value}")  # noqa: T201 - what a benchmark is for

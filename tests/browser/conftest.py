"""Pages to open, and one browser for all tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.latest import mark
from harness.report.renderers import write_reports
from tests.browser.chromium import chromium
from tests.report.hostile import NASTY, hostile_run, run_of
from tests.report.lively import golden, lively

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

    from harness.saved import CellResult, SavedRun

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"
HARMFUL = '</script><img src=x onerror="window.hacked=1">\u202e\x1b[31m\'"&{{ 7 * 7 }}\u2028'


@dataclass(frozen=True)
class Pages:
    """Addresses of pages, each beside the files of its run; and the runs."""

    golden: str
    hostile: str
    lively: str
    runs: dict[str, SavedRun]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Write the reports of three runs: every golden history, one that means harm, one as a real
    system leaves it.
    """
    reports = tmp_path_factory.mktemp("reports")
    mark(reports)
    harm = lively(reports / "harm" / "cells" / "x", name=lambda text: f"{text}{HARMFUL}")
    runs = {
        "golden": run_of(*(_golden(path.parent) for path in sorted(GOLDEN.glob("*/cell.json")))),
        "hostile": replace(hostile_run(), results=(*hostile_run().results, harm)),
        "lively": run_of(
            *(lively(reports / "lively" / "cells" / f"s{seed}", seed=seed) for seed in (1, 2, 3))
        ),
    }
    for name, run in runs.items():
        directory = reports / name
        directory.mkdir(exist_ok=True)
        runs[name] = replace(run, directory=directory, info=replace(run.info, command=NASTY))
        runs[name].info.save(directory)
        write_reports(runs[name])
    golden, hostile, lively_one = (
        (reports / name / "report.html").as_uri() for name in ("golden", "hostile", "lively")
    )
    return Pages(golden, hostile, lively_one, runs)


def _golden(directory: Path) -> CellResult:
    """Judge a golden cell under a name of its own."""
    found = golden(directory.name)
    plan = found.plan
    named = replace(
        plan, scenario=directory.name, id=plan.id.replace(plan.scenario, directory.name)
    )
    return replace(found, judgement=replace(found.judgement, plan=named))


@pytest.fixture(scope="session")
def started() -> Iterator[Chrome]:
    """One Chromium for the session."""
    with chromium() as driver:
        yield driver


@pytest.fixture
def browser(started: Chrome) -> Iterator[Chrome]:
    """A Chromium with an empty page and empty logs, which must stay free of errors."""
    started.get("about:blank")
    started.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    for kind in ("browser", "performance"):
        started.get_log(kind)  # type: ignore[no-untyped-call]
    yield started
    assert errors(started) == []


def errors(driver: Chrome) -> list[str]:
    """Return what the console complains about."""
    return [
        entry["message"]
        for entry in driver.get_log("browser")  # type: ignore[no-untyped-call]
        if entry["level"] in ("SEVERE", "WARNING")
    ]


def requests(driver: Chrome) -> list[str]:
    """Return the addresses that were asked for."""
    messages: list[dict[str, Any]] = [
        json.loads(entry["message"])["message"]
        for entry in driver.get_log("performance")  # type: ignore[no-untyped-call]
    ]
    return [
        one["params"]["request"]["url"]
        for one in messages
        if one["method"] == "Network.requestWillBeSent"
    ]

"""Where the time goes: ``pytest --times FILE`` writes a table of minutes and processor time, by
folder, file and test.

Processor time is that of the whole machine, so that brokers and JVMs count which outlive a test:
run it with nothing beside it. Under pytest-xdist several tests run at once: there it is that of the
worker, and of what it has started and buried.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_TESTS = 40
_SPENT = pytest.StashKey[dict[str, tuple[float, float]]]()
_BEGAN = pytest.StashKey[tuple[float, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("tiers").addoption(
        "--times", type=Path, metavar="FILE", help="write there where the time went"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin."""
    config.stash[_SPENT] = {}
    config.stash[_BEGAN] = _now()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count what it took to find the tests."""
    _count(session.config, "(finding the tests)", session.config.stash[_BEGAN])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count a test, with the fixtures that were made or ended for it."""
    before = _now()
    done = yield
    _count(item.config, item.nodeid, before)
    return done


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of pytest-xdist tell its controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["spent"] = session.config.stash[_SPENT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker tells."""
    node.config.stash[_SPENT].update(
        {test: tuple(spent) for test, spent in node.workeroutput.get("spent", {}).items()}
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the table."""
    file: Path | None = config.getoption("--times")
    if file is not None and not hasattr(config, "workeroutput"):
        file.parent.mkdir(parents=True, exist_ok=True)
        spent = config.stash[_SPENT]
        file.write_text(table(spent), encoding="utf-8")


def table(spent: Mapping[str, tuple[float, float]]) -> str:
    """Return seconds and processor seconds by folder and file, and of the dearest tests, as
    Markdown.

    >>> times = {"tests/a/test_b.py::test_c": (2.0, 3.0), "tests/a/test_b.py::test_d": (1.0, 0.5)}
    >>> print(table(times).splitlines()[2])
    | tests/a | 2 | 3.0 | 3.5 |
    """
    lines: list[str] = []
    ways: Mapping[str, Callable[[str], str]] = {
        "folder": lambda file: file.rpartition("/")[0] or file,
        "file": lambda file: file,
    }
    for title, of in ways.items():
        sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for test, (seconds, cpu) in spent.items():
            for at, more in enumerate((1, seconds, cpu)):
                sums[of(test.partition("::")[0])][at] += more
        lines += [
            "",
            f"| {title} | tests | seconds | processor seconds |",
            "| --- | --- | --- | --- |",
        ]
        ordered = sorted(sums.items(), key=lambda row: -row[1][2])
        lines += [
            f"| {name} | {count:.0f} | {seconds:.1f} | {cpu:.1f} |"
            for name, (count, seconds, cpu) in ordered
        ]
    dearest = sorted(spent.items(), key=lambda row: -row[1][1])[:MOST_TESTS]
    lines += ["", "| test | seconds | processor seconds |", "| --- | --- | --- |"]
    lines += [f"| {test} | {seconds:.1f} | {cpu:.1f} |" for test, (seconds, cpu) in dearest]
    return "\n".join(lines[1:]) + "\n"


def _count(config: pytest.Config, what: str, since: tuple[float, float]) -> None:
    seconds, cpu = _now()
    config.stash[_SPENT][what] = (seconds - since[0], cpu - since[1])


def _now() -> tuple[float, float]:
    """Return seconds, and the processor seconds that the machine has spent."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return time.monotonic(), sum(os.times()[:4])
    cpu = psutil.cpu_times()
    return time.monotonic(), cpu.user + cpu.nice + cpu.system

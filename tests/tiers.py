"""Which tests are run when: three tiers, and a slice of the last one with each commit.

- ``fast`` needs no broker, no Spark, no server, no browser and no container: ``make test-fast``.
- ``core`` is what must hold of every commit on real systems: ``make test`` runs it beside the fast
  ones, and begins with it.
- ``rest`` is everything else (cells of day and night, containers, the other mistakes, long tests):
  ``make test-all`` runs all.

A test's tier follows from what it needs. ``@pytest.mark.rest`` moves one from ``core`` to ``rest``;
a container's is there anyway. A **slice** is a twentieth of ``rest``, cut along *units*: the cells
of a scenario and seed, a test with its parameters, or a whole module where
``@pytest.mark.rest(together=True)`` says that its tests share what is dear. ``together="flink"``:
the tests of the module that share it have this word, and are a unit.
"""

from __future__ import annotations

import hashlib
import importlib
import subprocess
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.cell import Cell

ROOT = Path(__file__).parents[1]
SLICES = 20
SEEDS = 10
REST = "rest"
QUICK = ("-p", "no:hypothesispytest")
"""For sessions of pytest within tests: that plugin alone takes two seconds to import."""
_REAL = frozenset({"kafka", "spark", "postgres", "browser", "server", "rabbitmq"})
SHARING = frozenset({"tests/audit", "tests/browser"})
"""Folders whose tests share a Spark, or a browser and the pages in it: both are dear to start."""
_CELL = "lostack_cell"


class Tier(StrEnum):
    """When a test is run."""

    FAST = "fast"
    CORE = "core"
    REST = REST


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("tiers")
    group.addoption(
        "--tier", action="append", choices=[*Tier], help="only tests of this tier (may be repeated)"
    )
    group.addoption(
        "--slice",
        type=int,
        choices=range(SLICES),
        metavar="N",
        help=f"only slice N of {SLICES} of the tier rest",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that are meant."""
    tiers, number = config.getoption("--tier"), config.getoption("--slice")
    if number is not None:
        tiers = [Tier.REST]
    if tiers is None:
        return
    kept = {
        item: tier
        for item in items
        if (tier := tier_of(item)) in tiers and number in {None, slice_of(unit_of(item))}
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    real = {item.path for item, tier in kept.items() if tier is not Tier.FAST}
    # real systems wait more than they work, and take the longest: what is fast fills the gaps
    items[:] = sorted(kept, key=lambda item: item.path not in real)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` a worker has a file; of a folder whose tests share a Spark or a
    browser, all of it.
    """
    if config.getoption("dist", "no") != "loadfile":
        return None
    scheduler = importlib.import_module("xdist.scheduler").LoadFileScheduling(config, log)
    scheduler._split_scope = scope_of
    return scheduler


def scope_of(nodeid: str) -> str:
    """Return the name of what one worker has.

    >>> scope_of("tests/wire/test_rules.py::test_one"), scope_of("tests/audit/test_topic.py::test")
    ('tests/wire/test_rules.py', 'tests/audit')
    """
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in SHARING else file


def tier_of(item: pytest.Item) -> Tier:
    """Return the tier of a test."""
    cell = _cell_of(item)
    if cell is not None:
        return Tier.CORE if cell.scenario.suite is Suite.CORE and cell.seed == 1 else Tier.REST
    names = {mark.name for mark in item.iter_markers()}
    if names & {REST, "docker"}:
        return Tier.REST
    return Tier.CORE if names & _REAL else Tier.FAST


def unit_of(item: pytest.Item) -> str:
    """Return the name of what a test is run together with."""
    cell = _cell_of(item)
    if cell is not None:  # its semantics may share a death
        return f"{cell.scenario.pipeline}/{cell.scenario.id}"
    mark = item.get_closest_marker(REST)
    together = mark.kwargs.get("together", False) if mark else False
    if not together:
        return item.nodeid
    module = item.nodeid.partition("::")[0]
    return module if together is True else f"{module}[{together}]"


def slice_of(unit: str) -> int:
    """Return the slice of a unit: by its name alone, so that it stays where it is when others come.

    >>> slice_of("plain/none")
    11
    """
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:4], "big") % SLICES


def _cell_of(item: pytest.Item) -> Cell | None:
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get(_CELL)


# --- what a commit is tested with -----------------------------------------------------------------


def position(commit: str = "HEAD") -> int:
    """Return a commit's place in its history: 1 for the first. It follows from the commit's id, as
    everything below does.

    Ids themselves would be drawn with repetition: some seventy commits to meet all slices, instead
    of twenty. In a clone without history, where the place is not known, it is drawn from the id all
    the same.
    """
    if _git("rev-parse", "--is-shallow-repository") == "true":
        return int(_git("rev-parse", commit)[:8], 16)
    return int(_git("rev-list", "--count", commit))


def due(place: int) -> tuple[int, int]:
    """Return slice and seed that are due at a commit's place: twenty commits have all slices, the
    next twenty the next seed.

    >>> due(37), due(38), due(57)
    ((17, 2), (18, 2), (17, 3))
    """
    return place % SLICES, place // SLICES % SEEDS + 1


def chosen(names: Sequence[str], place: int, count: int = 2) -> list[str]:
    """Return the engines that are fetched for a commit: in turn.

    >>> chosen(["a", "b", "c"], 1), chosen(["a", "b", "c"], 2), chosen([], 5)
    (['c', 'a'], ['b', 'c'], [])
    """
    return [names[(place * count + n) % len(names)] for n in range(min(count, len(names)))]


def owners(place: int) -> list[str]:
    """Return a line for each commit that may own what a slice found: those since that slice was
    last due, newest first.
    """
    return _git("log", "--format=%h %s", f"-{min(SLICES, place)}").splitlines()


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say how a slice is run again, and, where it is red, whose it may be."""
    number = config.getoption("--slice")
    if number is None:
        return
    [seed] = config.getoption("--lostack-seed") or [1]
    terminalreporter.write_line(
        f"slice {number} of {SLICES}, seed {seed}; again: make slice SLICE={number} SEED={seed}"
    )
    if exitstatus:
        terminalreporter.section("who may own this")
        terminalreporter.write_line(
            f"Slice {number} was due {SLICES} commits ago; where that commit was tested, one of "
            "these owns what is red:"
        )
        for line in owners(position()):
            terminalreporter.write_line(f"  {line}")

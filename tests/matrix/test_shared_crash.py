"""Cells that share one death: it waits for all of them, comes once, and who comes too late proves
nothing.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.model.cell import Cell, expand
from harness.model.failures import CellFailure
from harness.model.semantics import Semantic
from harness.model.waiting import WaitCancelledError, WaitTimeoutError, cancellable
from harness.systems.kafka import shared_crash as volleys
from harness.systems.kafka.shared_crash import SharedCrash
from scenarios.plain import BROKER_CRASH_BEFORE_ACK, BROKER_CRASH_BEFORE_APPEND
from tests.matrix.troubled import named, run_troubled
from tests.memory.system import MemoryDeployed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

WITHIN_S = 10.0


class Counted:
    """Something to do that says how often it was done."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = 0
        self._error = error

    def __call__(self) -> str:
        """Do it."""
        self.done += 1
        if self._error:
            raise self._error
        return f"exit {self.done}"


@pytest.fixture
def at_once() -> Iterator[Callable[..., Future[str]]]:
    """Return what calls a function in a thread."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_the_broker_dies_when_all_are_held_and_once(at_once: Callable[..., Future[str]]) -> None:
    """Nothing happens before the last cell has come; then all are told of the same death."""
    volley, kill = SharedCrash("abc"), Counted()
    early = [at_once(volley.die, cell, kill) for cell in "ab"]
    with pytest.raises(TimeoutError):
        early[0].result(0.2)
    assert kill.done == 0
    assert volley.die("c", kill) == "exit 1"
    assert [each.result(WITHIN_S) for each in early] == ["exit 1", "exit 1"]
    assert kill.done == 1


def test_records_flow_when_all_are_prepared(at_once: Callable[..., Future[None]]) -> None:
    """Who is prepared first waits, and who leaves is not waited for; with nobody to share, none
    waits.
    """
    volley = SharedCrash("abc")
    early = at_once(volley.begin, "a")
    with pytest.raises(TimeoutError):
        early.result(0.2)
    volley.leave("b")
    volley.begin("c")
    early.result(WITHIN_S)
    SharedCrash(()).begin("a")


def test_who_is_never_prepared_keeps_the_others_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They go on after a limited time, and still await it at the death."""
    monkeypatch.setattr(volleys, "BEGIN_S", 0.1)
    volley = SharedCrash("ab")
    volley.begin("a")
    volley.begin("b")


def test_every_step_waits_for_all(at_once: Callable[..., Future[str]]) -> None:
    """The broker comes back when what each cell had held is disposed of."""
    volley, kill, restart = SharedCrash("ab"), Counted(), Counted()
    other = at_once(volley.die, "b", kill)
    volley.die("a", kill)
    other.result(WITHIN_S)
    back = at_once(volley.come_back, "a", restart)
    with pytest.raises(TimeoutError):
        back.result(0.2)
    volley.come_back("b", restart)
    assert (back.result(WITHIN_S), restart.done) == ("exit 1", 1)


def test_who_leaves_is_not_waited_for(at_once: Callable[..., Future[str]]) -> None:
    volley, kill = SharedCrash("ab"), Counted()
    held = at_once(volley.die, "a", kill)
    volley.leave("b")
    assert held.result(WITHIN_S) == "exit 1"


def test_who_comes_too_late_is_told_and_proves_nothing() -> None:
    """Those who are held wait a bounded time; whose broker died before its fault fired, is void."""
    volley, kill = SharedCrash("ab", 0.1), Counted()
    assert volley.die("a", kill) == "exit 1"
    with pytest.raises(CellFailure, match="the broker's death did not wait for this cell"):
        volley.die("b", kill)
    assert kill.done == 1


class Watched:
    """A lock that calls a function each time before it is given back."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._lock, self._before = threading.Lock(), before

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._before()
        self._lock.release()


def test_nobody_comes_between_the_last_wait_and_the_death() -> None:
    """It would die with the others, and the broker would return while it still works on the files:
    whom the death leaves behind is settled when the broker is dead.
    """
    volley, kill, seen = SharedCrash("ab", 0.1), Counted(), list[tuple[bool, int]]()
    volley._lock = Watched(lambda: seen.append(("b" in volley._awaited, kill.done)))  # type: ignore[assignment]
    volley.die("a", kill)
    assert set(seen) == {(True, 0), (False, 1)}


def test_each_step_tells_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volleys, "RETURN_S", 7.0)
    volley, kill = SharedCrash("a", 0.1), Counted()
    volley.die("a", kill)
    volley.come_back("a", kill)
    for step, limit in ((volley.die, "0.1 s"), (volley.come_back, "7 s")):
        with pytest.raises(CellFailure, match=f"which did not come within {limit}"):
            step("b", kill)


def test_the_return_waits_for_all_that_were_held_and_for_nobody_else(
    at_once: Callable[..., Future[str]],
) -> None:
    """Whom the death left behind never comes to the return; who was held may still change the dead
    broker's files.
    """
    volley, kill, restart = SharedCrash("abc", 1.0), Counted(), Counted()
    held = at_once(volley.die, "a", kill)
    assert (volley.die("b", kill), held.result(WITHIN_S)) == ("exit 1", "exit 1")
    back = at_once(volley.come_back, "a", restart)
    with pytest.raises(TimeoutError):
        back.result(0.4)
    assert restart.done == 0
    assert volley.come_back("b", restart) == back.result(WITHIN_S) == "exit 1"


def test_a_broker_does_not_come_back_to_files_that_somebody_still_changes(
    at_once: Callable[..., Future[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is never done keeps it away: void for all, rather than a count of what
    nobody can know.
    """
    monkeypatch.setattr(volleys, "RETURN_S", 0.1)
    volley, kill, restart = SharedCrash("ab"), Counted(), Counted()
    other = at_once(volley.die, "b", kill)
    volley.die("a", kill)
    other.result(WITHIN_S)
    with pytest.raises(WaitTimeoutError, match="all cells to await the broker's return"):
        volley.come_back("a", restart)
    assert restart.done == 0


def test_what_goes_wrong_goes_wrong_for_all(at_once: Callable[..., Future[str]]) -> None:
    """A broker that does not come back comes back for nobody, and is not started once more by the
    next.
    """
    volley, restart = SharedCrash("ab"), Counted(OSError("no port"))
    other = at_once(volley.come_back, "b", restart)
    with pytest.raises(OSError, match="no port"):
        volley.come_back("a", restart)
    with pytest.raises(OSError, match="no port"):
        other.result(WITHIN_S)
    assert restart.done == 1


def test_the_wait_can_be_cancelled(at_once: Callable[..., Future[str]]) -> None:
    volley, stop = SharedCrash("ab"), threading.Event()

    def held() -> str:
        with cancellable(stop):
            return volley.die("a", Counted())

    waiting = at_once(held)
    stop.set()
    with pytest.raises(WaitCancelledError):
        waiting.result(WITHIN_S)


def test_a_broker_that_nobody_shares_waits_for_nobody() -> None:
    assert SharedCrash(()).die("a", Counted()) == "exit 1"


# --- which cells run at once ----------------------------------------------------------------------


def together(
    cells: Sequence[Cell], reports: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> list[tuple[str, ...]]:
    """Run cells; return which were announced together, in order."""
    groups: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        MemoryDeployed, "together", lambda _, group: groups.append(tuple(each.id for each in group))
    )
    monkeypatch.setattr("harness.matrix.lanes.OWN_LANES", 1)
    assert run_troubled(tuple(cells), reports, jobs=jobs).whole
    return groups


def test_cells_of_one_seed_share_the_death_that_their_scenarios_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither another seed does, nor a scenario that names another death, as one must that takes
    the files of all; and cells of a scenario that names none run alone.
    """
    other = replace(BROKER_CRASH_BEFORE_ACK, id="all-is-lost", together="everything")
    scenarios = (BROKER_CRASH_BEFORE_ACK, BROKER_CRASH_BEFORE_APPEND, other)
    cells = [*expand(scenarios, semantics=Semantic, seeds=[1, 2], system="memory", client="none")]
    alone = named(2, replace(BROKER_CRASH_BEFORE_ACK, together=""))
    groups = together([*cells, *alone], tmp_path, monkeypatch, jobs=3)
    assert [len(group) for group in groups] == [6, 3, 6, 3, 1, 1]
    assert all(
        len({(cell.rpartition("/")[2], "all-is-lost" in cell) for cell in group}) == 1
        for group in groups
    )
    assert sorted(cell for group in groups for cell in group) == sorted(
        cell.id for cell in (*cells, *alone)
    )


@pytest.mark.parametrize(
    ("jobs", "sizes"), [(1, [1] * 12), (2, [4, 4, 4]), (3, [6, 6]), (10, [6, 6]), (12, [12])]
)
def test_how_many_share_a_death_follows_from_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, sizes: list[int]
) -> None:
    """Up to eight, or as many as run at once; they are dealt out evenly. ``--jobs 1`` gives every
    cell a death of its own.
    """
    scenarios = [replace(BROKER_CRASH_BEFORE_ACK, id=name) for name in "abcd"]
    cells = [*expand(scenarios, semantics=Semantic, seeds=[1], system="memory", client="none")]
    groups = together(cells, tmp_path, monkeypatch, jobs=jobs)
    assert [len(group) for group in groups] == sizes


def test_all_of_a_volley_are_over_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []
    beside: set[frozenset[str]] = set()

    def watch(step: str, scenario: str) -> None:
        if step == "prepare":
            running.append(scenario)
            beside.add(frozenset(running))
        if step == "close":
            running.remove(scenario)

    monkeypatch.setattr("harness.matrix.lanes.OWN_LANES", 1)
    scenarios = [replace(BROKER_CRASH_BEFORE_ACK, id=name, together=name) for name in ("a", "b")]
    cells = tuple(expand(scenarios, semantics=Semantic, seeds=[1], system="memory", client="none"))
    assert run_troubled(cells, tmp_path, watch, jobs=3).whole
    assert beside == {frozenset("a"), frozenset("b")}

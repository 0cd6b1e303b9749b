"""The drain: which condition it says that it waits for, whom it asks, and when it is over."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.waiting import WaitTimeoutError
from harness.run import drain
from harness.run.drain import SINK, Check, Checks, Idle, QuietSink, StageEndedError
from harness.run.parts import Drained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

QUIET = "the sink is not quiet"


class UnansweredError(Exception):
    """What somebody raises who cannot be asked."""


class Cell:
    """What a drain asks, and what was asked: the sink's sizes are given one by one, the last for
    ever.
    """

    def __init__(self, sizes: Iterable[int] = (7,), **troubles: Callable[[], str | None]) -> None:
        self.asked: list[str] = []
        self.troubles = troubles
        *first, last = sizes
        self._sizes = itertools.chain(first, itertools.repeat(last))

    def checks(self, *costly: str) -> Checks:
        """Return its conditions, in their order."""
        made = [Check(name, partial(self._ask, name), name in costly) for name in self.troubles]
        return Checks(made, (UnansweredError,))

    def size(self) -> int:
        """Return how large the sink is."""
        return next(self._sizes)

    def _ask(self, name: str) -> str | None:
        self.asked.append(name)
        return self.troubles[name]()


def raises(error: Exception) -> Callable[[], str | None]:
    """Return what raises it."""

    def ask() -> str | None:
        raise error

    return ask


def no_trouble() -> str | None:
    """Say that a condition holds."""
    return None


def one_by_one(*troubles: str | None) -> Callable[[], str | None]:
    """Return what says these one after the other, and then the last for ever."""
    rest = itertools.chain(troubles, itertools.repeat(troubles[-1]))
    return lambda: next(rest)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "WITHIN_S", 0.3)
    monkeypatch.setattr(drain, "QUIET_S", 0.02)


def test_the_first_condition_that_does_not_hold_is_remembered() -> None:
    """By its stage, with what it says; those behind it are not asked."""
    cell = Cell(source=no_trouble, topic=lambda: "open", position=lambda: "behind")
    checks = cell.checks()
    assert not checks.hold()
    assert (checks.stage, checks.because, cell.asked) == ("topic", "open", ["source", "topic"])
    cell.troubles["topic"] = no_trouble
    assert not checks.hold()
    assert (checks.stage, checks.because) == ("position", "behind")
    cell.troubles["source"] = lambda: "more to come"
    assert not checks.hold()
    assert (checks.stage, checks.because) == ("source", "more to come")


def test_all_hold_or_none_was_asked_for() -> None:
    cell = Cell(source=no_trouble, topic=no_trouble)
    checks = cell.checks()
    assert checks.stage == "source", "before it was asked anything"
    assert checks.hold()
    assert cell.asked == ["source", "topic"]
    assert Checks(()).hold()


@pytest.mark.parametrize(
    "error",
    [UnansweredError("gone"), WaitTimeoutError("an answer", 2)],
    ids=["as the system says", "not in time"],
)
def test_who_cannot_be_asked_is_told(error: Exception) -> None:
    """Nothing is known then, so nothing holds: it is that condition, and why nobody knows."""
    cell = Cell(source=no_trouble, topic=raises(error), position=no_trouble)
    checks = cell.checks()
    assert not checks.hold()
    assert (checks.stage, checks.because) == ("topic", f"the observer was not answered: {error}")
    assert cell.asked == ["source", "topic"]


def test_what_nobody_expects_is_no_answer() -> None:
    """An error of the instrument ends the run of the cell; it is never taken for a condition that
    does not hold yet.
    """
    with pytest.raises(ZeroDivisionError):
        Cell(topic=raises(ZeroDivisionError())).checks().hold()
    with pytest.raises(UnansweredError):
        Checks([Check("topic", raises(UnansweredError()))]).hold()


def test_nobody_who_is_costly_is_asked_while_results_move() -> None:
    """What costs nothing is, and comes first; where that does not hold, it is what is said."""
    cell = Cell(source=no_trouble, topic=no_trouble, database=no_trouble)
    checks = cell.checks("topic")
    assert not checks.hold(moving=True)
    assert (checks.stage, checks.because, cell.asked) == (SINK, QUIET, ["source"])
    assert checks.hold()
    cell.troubles["source"] = lambda: "more to come"
    assert not checks.hold(moving=True)
    assert (checks.stage, checks.because) == ("source", "more to come")
    cheap = Cell(source=no_trouble)
    assert cheap.checks().hold(moving=True)


def test_a_drain_is_over_when_all_hold_and_the_sink_is_quiet() -> None:
    cell = Cell(
        source=one_by_one("more to come", "more to come", None), topic=one_by_one("open", None)
    )
    assert QuietSink(cell.checks("topic"), cell.size).wait() == Drained()
    assert cell.asked.count("topic") == 2


def test_while_results_arrive_no_broker_is_asked() -> None:
    """Only when a look finds the sink as the look before left it."""
    cell = Cell([1, 2, 3, 3, 3], topic=no_trouble)
    assert QuietSink(cell.checks("topic"), cell.size).wait() == Drained()
    assert cell.asked == ["topic"]


def test_a_sink_that_never_rests_is_what_is_waited_for() -> None:
    """It grows at every second look: each time that all conditions have held."""
    cell = Cell(itertools.chain.from_iterable((n, n) for n in range(1, 500)), topic=no_trouble)
    assert QuietSink(cell.checks("topic"), cell.size).wait() == Drained(QUIET, SINK)
    grows = Cell(range(1, 500), topic=no_trouble)
    assert QuietSink(grows.checks("topic"), grows.size).wait() == Drained(QUIET, SINK)
    assert grows.asked == []


def test_what_comes_into_a_sink_that_was_quiet_is_waited_for() -> None:
    """A change right behind the last condition that held: it is looked at all of them again."""
    cell = Cell([1, 1, 1, 2, 2], topic=no_trouble)
    assert QuietSink(cell.checks("topic"), cell.size).wait() == Drained()
    assert len(cell.asked) > 1


def test_a_drain_that_does_not_end_says_what_it_waits_for() -> None:
    """The condition that did not hold when time was up."""
    cell = Cell(source=no_trouble, position=one_by_one("far behind", "behind"))
    assert QuietSink(cell.checks(), cell.size).wait() == Drained("behind", "position")


@pytest.mark.parametrize(
    ("stage", "told"),
    [("", "consumer"), ("topic", "topic")],
    ids=["where it was asked", "elsewhere"],
)
def test_a_dead_stage_ends_it(stage: str, told: str) -> None:
    """At once: no drain can complete any more; and what is behind it is not asked."""
    cell = Cell(
        source=no_trouble,
        consumer=raises(StageEndedError("the consumer ended with signal 9", stage)),
        topic=no_trouble,
    )
    assert QuietSink(cell.checks(), cell.size).wait() == Drained(
        "the consumer ended with signal 9", told
    )
    assert cell.asked == ["source", "consumer"]


@pytest.mark.usefixtures("still_soon")
def test_a_cell_that_must_stand_still_is_not_waited_for() -> None:
    """Where it does, nobody waits for the deadline: what does not hold then is said."""
    cell = Cell(position=lambda: "behind")
    still = Idle(lambda: 0, lambda: True, idle_s=0.02)
    assert QuietSink(cell.checks(), cell.size, still).wait() == Drained("behind", "position")
    assert len(cell.asked) < 20, "long before its time was up"


@pytest.fixture
def still_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a drain all the time, and look often."""
    monkeypatch.setattr(drain, "WITHIN_S", 60)
    monkeypatch.setattr(drain, "GLANCE_S", 0.01)


@pytest.mark.usefixtures("still_soon")
def test_one_that_comes_to_rest_all_the_same_is_at_rest() -> None:
    cell = Cell(position=one_by_one("behind", None))
    still = Idle(lambda: len(cell.asked), lambda: True, idle_s=30)
    assert QuietSink(cell.checks(), cell.size, still).wait() == Drained()


class Clock:
    """A time that is set."""

    now = 100.0

    def monotonic(self) -> float:
        """Return it."""
        return self.now


class Still:
    """Something that moves, or does not, while its clock is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr(drain, "time", self.clock)
        self.progress: Any = 0
        self.exhausted = True
        self.looks = 0
        self.idle = Idle(self._look, lambda: self.exhausted, idle_s=2)

    def at(self, now: float) -> bool:
        """Whether it counts as still at a time."""
        self.clock.now = 100 + now
        return self.idle.over()

    def _look(self) -> Any:
        self.looks += 1
        return self.progress


def test_still_is_what_has_not_moved_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the look that has seen it move last, or the source not exhausted."""
    still = Still(monkeypatch)
    assert [still.at(now) for now in (0, 1, 2, 2.5)] == [False, False, False, True]
    still.progress = 1
    assert [still.at(now) for now in (3, 5, 5.5)] == [False, False, True]
    still.exhausted = False
    assert not still.at(9)
    still.exhausted = True
    assert [still.at(now) for now in (10, 11.5)] == [False, True]
    assert still.idle.still_s == 2.5


def test_nobody_looks_twice_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs more than the asking; one that has not looked says nothing."""
    still = Still(monkeypatch)
    assert not still.at(0)
    assert not still.at(0.05)
    assert still.looks == 1
    assert not still.at(0.2)
    assert still.looks == 2
    assert still.at(3)
    assert not still.at(3.01)


def test_what_a_complete_drain_says_besides() -> None:
    right, behind = Cell(position=no_trouble), Cell(position=lambda: "behind")
    assert QuietSink(right.checks(), right.size, more=lambda: {"tail": True}).wait() == Drained(
        more={"tail": True}
    )
    assert (
        QuietSink(
            behind.checks(),
            behind.size,
            Idle(lambda: 0, lambda: True, 0),
            more=lambda: {"tail": True},
        )
        .wait()
        .more
        == {}
    )

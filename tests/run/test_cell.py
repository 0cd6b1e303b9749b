"""The steps of a cell: which part is asked for what, in which order, and what is freed where
something fails.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import BrokerSettings
from harness.controls import NotFiredError, OnWire, injectable
from harness.model.failures import CellFailure
from harness.model.scenario import Deployment, Role
from harness.protocols.kafka.steps import Api
from harness.run.cell import CellRun
from harness.run.parts import Drained, Opened, Parts, ReadersStart
from harness.wire.rules import Direction
from tests.judge.scenes import CELL, Kept

if TYPE_CHECKING:
    from collections.abc import Sequence

TRIGGER = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
PREPARED = ["open 1", "open 2"]


class BrokenError(Exception):
    """What fails on purpose."""


class Played:
    """Plays every part of a cell, and its fault: writes down what is asked of it. ``fails``: what
    fails when it is asked.

    Not all of it is asked for by the run itself: what a fault does with its controls, for instance.
    """

    def __init__(self, *fails: str) -> None:
        self.done: list[str] = []
        self._fails = fails

    def does(self, what: str) -> None:
        """Write it down; raise BrokenError where it is to fail."""
        self.done.append(what)
        if what in self._fails:
            raise BrokenError(what)

    id = "played"

    def evidence(self) -> Any:
        """Return what no fault has."""
        return CELL.scenario.fault.evidence()

    def arm(self, controls: Any) -> None:
        """Arm the fault."""
        assert controls is self
        self.does("arm")

    def inject(self, controls: Any) -> None:
        """Let the fault do its work."""
        assert controls is self
        self.does("inject")
        if "no trigger" in self._fails:
            raise NotFiredError(TRIGGER)
        if "nothing came" in self._fails:
            raise NotFiredError("waited 20 s for the cleaner")
        self.does("injected")

    def disarm(self) -> None:
        """Take back what has not fired."""
        self.does("disarm")

    def start(self) -> None:
        """Start the reading side."""
        self.does("read")

    def stand_by(self) -> None:
        """Get the reading side ready."""
        self.does("stand by")

    def feed(self) -> Any:
        """Return what plays the feed."""
        return Feeding(self)

    def part(self, name: str) -> Opened:
        """Return a part of the ground."""
        return Opened(lambda: self.does(f"open {name}"), lambda: self.does(f"close {name}"))


class Feeding:
    """Plays the feed."""

    def __init__(self, played: Played) -> None:
        self._played = played

    def start(self) -> None:
        """Let records flow."""
        self._played.does("feed")

    def await_filled(self) -> None:
        """Wait for the topic."""
        self._played.does("filled")


class Draining:
    """Plays the drain."""

    def __init__(self, played: Played, end: Drained) -> None:
        self._played = played
        self._end = end

    def wait(self) -> Drained:
        """Wait until everything is at rest."""
        self._played.does("drain")
        return self._end


def run_of(
    played: Played, *, end: Drained | None = None, ground: Sequence[str] = ("1", "2"), **parts: Any
) -> CellRun:
    """Return the run of a cell that is made of these parts."""
    plays: Any = played
    history: Any = Kept()
    made = Parts(
        ground=[played.part(name) for name in ground],
        feed=played.feed(),
        stages=plays,
        controls=plays,
        drain=lambda: Draining(played, end or Drained()),
        authorities=(lambda: played.does("position"), lambda: played.does("log")),
        freed=(lambda: played.does("free 1"), lambda: played.does("free 2")),
        **parts,
    )
    return CellRun(replace(CELL, scenario=replace(CELL.scenario, fault=plays)), history, made)


def steps(played: Played, **parts: Any) -> list[list[str]]:
    """Return what each step of a run asks for, in its order."""
    run, found = run_of(played, **parts), []
    for step in (run.prepare, run.load, run.inject, run.drain, run.observe, run.close):
        before = len(played.done)
        step()
        found.append(played.done[before:])
    return found


INJECT = ["inject", "injected", "free 1", "free 2"]
END = [["disarm", "drain"], ["position", "log"], ["close 2", "close 1"]]


@pytest.mark.parametrize(
    ("when", "armed_before_load", "prepare", "load", "inject"),
    [
        (ReadersStart.BEFORE_LOAD, True, [*PREPARED, "read", "arm"], ["feed"], INJECT),
        (
            ReadersStart.FILLED,
            True,
            [*PREPARED, "arm"],
            ["feed", "stand by", "filled", "read"],
            INJECT,
        ),
        (
            ReadersStart.FILLED,
            False,
            PREPARED,
            ["feed", "stand by", "filled", "arm", "read"],
            INJECT,
        ),
        (ReadersStart.AFTER_FAULT, True, [*PREPARED, "arm"], ["feed"], [*INJECT, "read"]),
        (ReadersStart.NEVER, True, [*PREPARED, "arm"], ["feed"], INJECT),
    ],
    ids=[
        "before the load",
        "filled, armed before",
        "filled, armed then",
        "after the fault",
        "never",
    ],
)
def test_the_reading_side_starts_when_it_should(
    when: ReadersStart,
    armed_before_load: bool,
    prepare: list[str],
    load: list[str],
    inject: list[str],
) -> None:
    """And the fault is armed before anybody could pass its place: a reader that comes later finds
    it armed.
    """
    assert steps(Played(), when=when, armed_before_load=armed_before_load) == [
        prepare,
        load,
        inject,
        *END,
    ]


def test_every_way_to_start_is_tried() -> None:
    [mark] = [
        each
        for each in vars(test_the_reading_side_starts_when_it_should)["pytestmark"]
        if each.name == "parametrize"
    ]
    assert {case[0] for case in mark.args[1]} == {*ReadersStart}


@pytest.mark.parametrize("fails", ["no trigger", "nothing came"])
def test_the_history_says_what_a_fault_waited_for_in_vain(fails: str) -> None:
    """Where somebody said so. A trigger that does not fire is no news of its own."""
    run = run_of(Played(fails))
    for step in (run.prepare, run.load, run.inject):
        step()
    history: Any = run._history
    said = [("given-up", "waited 20 s for the cleaner")] if fails == "nothing came" else []
    assert history.of("fault", "phase", "because") == said


def test_the_step_ends_where_a_fault_has_not_fired() -> None:
    """Whoever waits for its end is let go; the run goes on to its drain and authorities, and the
    judge says that it is void.
    """
    assert steps(Played("no trigger"), when=ReadersStart.AFTER_FAULT)[2:] == [
        ["inject", "free 1", "free 2", "read"],
        *END,
    ]


@pytest.mark.parametrize("fails", ["inject", "injected"])
def test_who_waits_for_the_end_of_a_fault_is_let_go_where_it_fails(fails: str) -> None:
    """And the failure is told; nobody is started behind it."""
    played = Played(fails)
    with pytest.raises(BrokenError, match=fails):
        run_of(played, when=ReadersStart.AFTER_FAULT).inject()
    assert played.done == [*INJECT[: INJECT.index(fails) + 1], "free 1", "free 2"]


def test_one_that_cannot_be_let_go_keeps_no_other_waiting() -> None:
    played = Played("injected", "free 1")
    with pytest.raises(BrokenError, match="free 1") as told:
        run_of(played).inject()
    assert played.done == INJECT
    assert isinstance(told.value.__context__, BrokenError)
    assert str(told.value.__context__) == "injected"


def test_what_is_opened_first_is_closed_last_and_only_once() -> None:
    played = Played()
    run = run_of(played, ground="123")
    run.prepare()
    run.close()
    assert played.done[-3:] == ["close 3", "close 2", "close 1"]
    told = list(played.done)
    run.close()
    assert played.done == told


@pytest.mark.parametrize("fails", ["open 1", "open 2", "open 3"])
def test_whatever_opens_in_vain_everything_is_closed(fails: str) -> None:
    """What was taken when the parts were made is freed, too: a port, a place among those that share
    a death.
    """
    played = Played(fails)
    run = run_of(played, ground="123")
    with pytest.raises(BrokenError, match=fails):
        run.prepare()
    assert played.done[-1] == fails
    played.done.clear()
    run.close()
    assert played.done == ["close 3", "close 2", "close 1"]


def test_a_cell_that_never_began_is_closed() -> None:
    played = Played()
    run_of(played).close()
    assert played.done == ["close 2", "close 1"]


def test_what_cannot_be_closed_keeps_nothing_else_open() -> None:
    """It is raised behind the others, and not once more: what could be freed is free."""
    played = Played("close 2", "close 3")
    run = run_of(played, ground="1234")
    run.prepare()
    played.done.clear()
    with pytest.raises(BrokenError, match="close"):
        run.close()
    assert played.done == ["close 4", "close 3", "close 2", "close 1"]
    run.close()
    assert len(played.done) == 4


def test_an_authority_that_fails_ends_the_step() -> None:
    """What comes behind it may rest on it: the log is read last."""
    played = Played("position")
    with pytest.raises(BrokenError, match="position"):
        run_of(played).observe()
    assert played.done == ["position"]


@pytest.mark.parametrize(
    ("end", "last"),
    [
        (Drained(), {"phase": "completed"}),
        (
            Drained("a position", "position"),
            {"phase": "failed", "stage": "position", "because": "a position"},
        ),
        (
            Drained(more={"rested": 2}),
            {"phase": "completed", "rested": 2},
        ),
    ],
    ids=["at rest", "not at rest", "with more to say"],
)
def test_the_drain_is_written_down(end: Drained, last: dict[str, Any]) -> None:
    """That it began, before anything else is done; how it ended, and where it stood if
    it did not.
    """
    played = Played()
    run = run_of(played, end=end)
    history: Any = run._history
    run.drain()
    begun = {"event": "drain", "phase": "begun"}
    assert history.lines == [begun, {"event": "drain", **last}]
    failing = run_of(Played("disarm"))
    with pytest.raises(BrokenError, match="disarm"):
        failing.drain()
    kept: Any = failing._history
    assert kept.lines == [begun]


def test_a_part_that_is_made_by_a_call_may_have_no_end() -> None:
    done: list[str] = []
    part = Opened(lambda: done.append("made"))
    part.open()
    part.close()
    assert done == ["made"]


def test_a_fault_without_verbs_is_told_before_anything_starts() -> None:
    armed = SimpleNamespace(id="kill", evidence=lambda: (), arm=lambda _: None)
    with pytest.raises(TypeError, match=r"it has no inject$"):
        injectable(armed)
    injected = SimpleNamespace(id="kill", evidence=lambda: (), inject=lambda _: None)
    with pytest.raises(TypeError, match=r"it has no arm$"):
        injectable(injected)
    with pytest.raises(
        TypeError, match=r"^Draining is no fault: it has no id and no evidence and no arm and"
    ):
        injectable(Draining(Played(), Drained()))  # type: ignore[arg-type]  # as above
    injectable(SimpleNamespace(**vars(armed) | vars(injected)))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"sync": "never", "other": "1"}, None),
        ({}, "the broker was started without the scenario's sync: "),
        ({"sync": "always"}, "the broker was started without the scenario's sync: "),
    ],
)
def test_a_broker_without_the_scenarios_settings_ends_the_cell(
    told: dict[str, str], said: str | None
) -> None:
    """A system that does not pass them on would be judged by settings that its broker never had."""
    played: Any = Played()
    played.ability = {BrokerSettings: SimpleNamespace(told=told)}.__getitem__
    run = run_of(played)
    run.cell = replace(
        run.cell,
        scenario=replace(
            run.cell.scenario, broker_settings={"sync": "never"}, deployment=Deployment.OWN
        ),
    )
    if said is None:
        run.prepare()
        return
    with pytest.raises(CellFailure, match=said):
        run.prepare()
    assert "arm" not in played.done

"""When a fault that has not fired counts as one that will not: nothing moves, and nobody has
anything still to do.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kafka.errors import KafkaTimeoutError

from harness.controls import Fired, InProgram, NotFiredError
from harness.judge.verdict import Kind
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError
from harness.run import controls, drain
from harness.run.controls import FIRE_S, IDLE_S, UNSETTLED_S, Watching, WireControls
from harness.run.scene import CellScene
from harness.systems.kafka.parts import UNANSWERED
from tests.judge.runs import first, judged, run, without
from tests.judge.scenes import CELL, Kept

if TYPE_CHECKING:
    from collections.abc import Callable

TRIGGER = InProgram(Role.CONSUMER, "before-commit")
STEP_S = 0.25


@pytest.mark.parametrize("said", [True, False])
def test_a_void_verdict_says_what_never_came(said: bool) -> None:
    """If the fault was given up for that; what the fault did until then is judged as ever."""
    story = run()
    without(story, lambda row: row["event"] == "fault" and row["phase"] == "healed")
    if said:
        line = story.tell("fault", "runner", phase="given-up", because="waited 20 s for a cleaner")
        line["t"] = first(story, "fault", phase="applied")["t"] + 1
    verdict = judged(story).verdict
    assert verdict.kind is Kind.VOID
    assert verdict.reason == "the fault was never healed" + "; waited 20 s for a cleaner" * said


class Clock:
    """A time that goes on only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return it."""
        return self.now

    def wait_until(
        self,
        question: Callable[[], Any],
        *,
        within_s: float,
        because: str,
        advance: Callable[[], object],
    ) -> Any:
        """Wait as :func:`harness.model.waiting.wait_until` does."""
        began, last = self.now, advance()
        while not (found := question()):
            if (now := advance()) != last:
                began, last = self.now, now
            if self.now - began > within_s:
                raise WaitTimeoutError(because, within_s)
            self.now += STEP_S
        return found


def wait(
    monkeypatch: pytest.MonkeyPatch,
    *,
    settled: Callable[[float], bool] = lambda _: True,
    exhausted: Callable[[float], bool] = lambda _: True,
    moves: Callable[[float], bool] = lambda _: False,
    advances: Callable[[float], object] = lambda _: 0,
    fires: float = float("inf"),
) -> tuple[Fired | None, float]:
    """Return what fired, and how long was waited, in a cell that is so at each second."""
    clock = Clock()
    monkeypatch.setattr(drain, "time", clock)
    monkeypatch.setattr(controls, "wait_until", clock.wait_until)
    fired = Fired("k1-1", "consumer-1", None)
    watching = Watching(
        lambda: clock.now if moves(clock.now) else 0,
        lambda: settled(clock.now),
        lambda: exhausted(clock.now),
        UNANSWERED,
        advance=lambda: advances(clock.now),
    )
    nodes: Any = SimpleNamespace(standing=lambda _: fired if clock.now >= fires else None)
    nothing: Any = None
    history: Any = Kept()
    cell = WireControls(CellScene(CELL, Path(), history), nothing, nodes, watching)
    with suppress(NotFiredError):
        return cell.await_fired(TRIGGER), clock.now
    return None, clock.now


def test_still_and_settled_is_over_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody has done everything: what was armed will not be reached."""
    found, waited = wait(monkeypatch)
    assert found is None
    assert IDLE_S < waited <= IDLE_S + 2 * STEP_S


def test_a_starved_program_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing moves for ten seconds, but records are still to come: then the fault fires."""
    found, waited = wait(monkeypatch, settled=lambda _: False, fires=10)
    assert found is not None
    assert waited == 10


def test_one_that_never_goes_on_is_waited_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where nobody can tell, because no broker answers."""

    def nobody_knows(_: float) -> bool:
        raise KafkaTimeoutError

    for settled in (lambda _: False, nobody_knows):
        found, waited = wait(monkeypatch, settled=settled)
        assert found is None
        assert UNSETTLED_S < waited <= UNSETTLED_S + 2 * STEP_S


def test_what_moves_is_not_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it while the source has more; the clock begins when both are over."""
    moving: dict[str, Any] = {"moves": lambda now: now < 20}
    more: dict[str, Any] = {"exhausted": lambda now: now >= 20}
    for changes in (moving, more):
        found, waited = wait(monkeypatch, **changes)
        assert found is None
        assert 20 < waited <= 20 + IDLE_S + 2 * STEP_S


def test_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found, waited = wait(monkeypatch, moves=lambda _: True)
    assert found is None
    assert FIRE_S < waited <= FIRE_S + STEP_S


def test_a_slow_load_that_gets_on_has_no_end_before_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target comes after four minutes, behind batches of ten seconds; and where it does not
    come, the load is over once.
    """
    found, waited = wait(
        monkeypatch, moves=lambda _: True, advances=lambda now: now // 10, fires=240
    )
    assert (found is not None, waited) == (True, 240)
    found, waited = wait(monkeypatch, moves=lambda _: True, advances=lambda now: min(now // 10, 24))
    assert found is None
    assert 240 + FIRE_S < waited <= 240 + FIRE_S + 2 * STEP_S

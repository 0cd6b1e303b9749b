"""What the drain of a declared pipeline says in the end, and what it teaches; without a broker, and
with a clock of its own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.waiting import WaitTimeoutError
from harness.run.parts import Drained
from harness.systems.declared.drain import drain as draining
from harness.systems.declared.drain.conditions import DrainConditions
from harness.systems.declared.drain.drain import PatientDrain
from harness.systems.declared.learnt import silence
from harness.systems.declared.learnt.silence import QuietReason
from harness.systems.declared.programs.errors import StageError
from tests.pipelines.scenes import conditions_of
from tests.pipelines.test_drain import CELLS, ORDERS, PATIENCE_S, QUIET_S, Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.pipelines.scenes import Scenes

DEADLINE_S = ORDERS.drain_s + 1 / ORDERS.pace


class Drains(Pipe):
    """A pipeline that is drained to the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cell: str = "request-lost") -> None:
        super().__init__(monkeypatch, cell)
        monkeypatch.setattr(silence, "_again", lambda _: False)
        monkeypatch.setattr(draining, "wait_until", self.wait_until)
        self.came = 0
        self.got_on = 0
        self.unsent: str | None = None
        self.waited = 0.0

    def wait_until(
        self,
        question: Callable[[], Any],
        *,
        within_s: float,
        because: str,
        poll_s: float,
        advance: Callable[[], object],
    ) -> Any:
        """Wait as :func:`harness.model.waiting.wait_until` does."""
        began, last = self.clock.now, advance()
        while not (found := question()):
            if (now := advance()) != last:
                began, last = self.clock.now, now
            if self.clock.now - began > within_s:
                raise WaitTimeoutError(because, within_s)
            self.clock.now += poll_s
        return found

    def offered_so_far(self) -> int:
        """How many records were offered."""
        return self.came

    def advanced(self) -> int:
        """How far the load has come."""
        return self.got_on

    def check_anything_sent(self, when: str) -> None:
        """Raise where the producer has sent nothing."""
        if self.unsent is not None:
            raise StageError(f"{self.unsent} {when}")

    def drained(self) -> Drained:
        """Return what its drain says."""
        began = self.clock.now
        conditions: Any = self
        try:
            return PatientDrain(conditions, loaded_at=int(began * 1e9)).wait()
        finally:
            self.waited = self.clock.now - began


def test_what_is_at_rest_is_complete_and_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it rested, and why that was enough; a cell that was patient spares the next of its
    pair the patience.
    """
    pipe = Drains(monkeypatch)
    end = pipe.drained()
    assert (end.because, end.stage) == (None, None)
    assert {name: end.more[name] for name in ("why", "missing", "tail")} == {
        "why": "patience",
        "missing": 1,
        "tail": False,
    }
    assert pipe.waited == pytest.approx(PATIENCE_S, abs=0.3)
    assert pipe.silences.rest(CELLS["ack-lost"], settled=False).why is QuietReason.LEARNT
    assert not pipe.silences.leaves_tails(CELLS["ack-lost"])


def test_a_tail_is_told_and_known_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose last records are behind no position without a fault, leaves them there with one."""
    pipe = Drains(monkeypatch, "none")
    pipe.rows.append("b")
    pipe.transport.tail = True
    assert pipe.drained().more["tail"] is True
    assert pipe.silences.leaves_tails(CELLS["ack-lost"])


def test_how_long_the_first_step_takes_is_told_without_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the load on; with a fault something else may have been waited for."""
    for cell, still_s in (("none", 24.0), ("request-lost", 8.0)):
        pipe = Drains(monkeypatch, cell)
        pipe.rows.append("b")
        began = pipe.clock.now
        pipe.seen.append(int((began + 12) * 1e9))
        pipe.clock.now += 12
        conditions: Any = pipe
        PatientDrain(conditions, loaded_at=int(began * 1e9)).wait()
        assert pipe.silences.still(CELLS["ack-lost"], 8.0) == still_s


def test_what_is_not_at_rest_in_time_is_said_with_its_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The condition that did not hold; nothing is learnt of such a cell."""
    pipe = Drains(monkeypatch)
    pipe.trouble = "partition 0 is behind"
    assert pipe.drained() == Drained("partition 0 is behind", "position")
    assert pipe.waited == pytest.approx(DEADLINE_S, abs=0.3)
    assert pipe.silences.rest(CELLS["ack-lost"], settled=False).why is QuietReason.PATIENCE


def test_to_offer_the_records_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Drains(monkeypatch)
    pipe.rows.append("b")
    pipe.trouble = "some records have not been offered yet"

    def offer() -> None:
        pipe.came = int(pipe.clock.now // 10)
        if pipe.clock.now > 1000 + 3 * DEADLINE_S:
            pipe.trouble = None

    pipe.attribute = offer
    assert pipe.drained().because is None
    assert pipe.waited > 3 * DEADLINE_S


def test_a_slow_program_that_gets_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record every minute: each begins the time limit anew. Without a change for ``drain_s`` it
    would be over long before.
    """
    pipe = Drains(monkeypatch)
    pipe.trouble = "partition 0 is behind"

    def works() -> None:
        pipe.got_on = int(pipe.clock.now - 1000) // 60
        if pipe.got_on == 48:
            pipe.trouble = None
            pipe.rows = ["a", "b"]

    pipe.attribute = works
    assert pipe.drained().because is None
    assert pipe.waited == pytest.approx(48 * 60 + QUIET_S, abs=0.5)


def test_one_that_stands_still_is_stuck_a_time_limit_after_its_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However much it moves: it brings the same record again and again, and its output changes all
    the time.
    """
    pipe = Drains(monkeypatch)
    pipe.trouble = "partition 0 is behind"

    def repeats() -> None:
        pipe.got_on = min(int(pipe.clock.now - 1000) // 60, 3)
        pipe.noise += 1
        pipe.happens()

    pipe.attribute = repeats
    assert pipe.drained() == Drained("partition 0 is behind", "position")
    assert pipe.waited == pytest.approx(3 * 60 + DEADLINE_S, abs=0.5)


def test_who_was_silent_for_long_without_a_fault_may_be_so_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice as long as it was: no batch of it is shorter because of a fault."""
    pipe = Drains(monkeypatch)
    pipe.silences.learn(CELLS["none"], 80.0, rested=1.0, patiently=False)
    pipe.trouble = "partition 0 is behind"
    assert pipe.drained().because == "partition 0 is behind"
    assert pipe.waited == pytest.approx(2 * 80, abs=0.5)


def test_an_output_that_is_never_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fault it is a failed drain; without one the pipeline is wrong, for nothing has
    happened that it could come from.
    """
    said = (
        f"changes although no record arrives; .*; quiet_s asks for {QUIET_S:g} s without a "
        f"change, and there were none in {ORDERS.drain_s:g} s"
    )
    for cell in ("request-lost", "none"):
        pipe = Drains(monkeypatch, cell)
        monkeypatch.setattr(Drains, "size", lambda self: self.clock.now)
        if cell == "none":
            with pytest.raises(StageError, match=f"{said}.*, without any fault$"):
                pipe.drained()
            return
        end = pipe.drained()
        assert end.stage == "output"
        assert end == Drained(end.because, "output")
        with pytest.raises(StageError, match=said):
            raise StageError(end.because or "")


def test_what_never_stops_is_complete_where_nothing_is_known_to_be_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is still for less time than it is bounded by: that is all there is to know."""
    pipe = Drains(monkeypatch)
    pipe.attribute = pipe.happens
    end = pipe.drained()
    assert end.because is None
    assert end.more["rested"] < end.more["rest"]
    assert pipe.waited == pytest.approx(DEADLINE_S, abs=0.3)


@pytest.mark.parametrize(("where", "stage"), [("", "stage"), ("consumer", "consumer")])
def test_what_is_in_vain_is_over_at_once(
    monkeypatch: pytest.MonkeyPatch, where: str, stage: str
) -> None:
    """Nobody waits for the deadline; where it is about a stage of the pipeline, that is named."""
    pipe = Drains(monkeypatch)

    def fails() -> str | None:
        raise StageError("the consumer ended with status 3", where)

    pipe.stage_trouble = fails
    assert pipe.drained() == Drained("the consumer ended with status 3", stage, {"at_once": True})
    assert pipe.waited == 0


@pytest.mark.parametrize(
    ("trouble", "when"), [(None, "before it ended"), ("behind", f"in {ORDERS.drain_s:g} s")]
)
def test_who_has_sent_nothing_has_another_reason(
    monkeypatch: pytest.MonkeyPatch, trouble: str | None, when: str
) -> None:
    """No verdict on a pipeline through which nothing has come, whether it rests or not."""
    pipe = Drains(monkeypatch)
    pipe.trouble, pipe.unsent = trouble, "nothing sent"
    with pytest.raises(StageError, match=f"^nothing sent {when}$"):
        pipe.drained()


def test_a_producer_that_has_not_sent_one_record_is_told_so(scenes: Scenes) -> None:
    """Where there is a producer; what somebody else has put into the topic is not asked for."""
    producer: Any = SimpleNamespace(
        error=lambda what: StageError(f"the producer {what}", "producer")
    )
    asked = {
        "event": "frame",
        "conn": 1,
        "corr": 1,
        "role": "producer",
        "api": "Produce",
        "dir": "request",
    }
    with pytest.raises(StageError, match=r"^the producer has sent nothing to orders in 5 s$"):
        conditions_of(scenes("orders"), producer=producer).check_anything_sent("in 5 s")
    conditions_of(scenes("orders", asked), producer=producer).check_anything_sent("in 5 s")
    conditions_of(scenes("orders")).check_anything_sent("in 5 s")


def test_behind_a_fault_all_stages_are_started_again_that_can_be() -> None:
    """One that cannot keeps no other from it, nor the fault from going on: the drain
    tells of it.
    """
    begun: list[str] = []

    def fails() -> None:
        raise StageError("the processor ended with status 3, started 6 times", "processor")

    stages = {
        "processor": SimpleNamespace(supervise=fails),
        "consumer": SimpleNamespace(supervise=lambda: begun.append("consumer")),
    }
    conditions: Any = SimpleNamespace(stages=stages, transport=SimpleNamespace(unanswered=()))
    DrainConditions.supervise(conditions)
    assert begun == ["consumer"]

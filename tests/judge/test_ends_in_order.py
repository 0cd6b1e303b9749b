"""The faults ``terminate``, ``end-input`` and ``withheld``: the order of their steps is what they
are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import EndInput, Terminate, Withheld
from harness.model.scenario import Evidence, Role
from harness.proofs.cut_short import CutShort
from harness.proofs.input import InputEnded
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.events import a_history
from tests.judge.recording import Recording, steps

if TYPE_CHECKING:
    from harness.controls import Fired
    from harness.model.history import History

SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
GIVEN = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)


def test_what_the_wire_held_goes_on_when_its_process_has_been_told() -> None:
    """It has its records in hand when it is told, and all the time that it is given to end; then it
    is started again.
    """
    assert steps(Terminate(SENDS), SENDS) == [
        "fired",
        "tell_to_end",
        "applied",
        "resolve Produce release",
        "await_end",
        "restart",
        "healed",
    ]


def test_the_input_ends_while_its_reader_stands_still() -> None:
    """So all that is left, and the end, is there when it goes on; and its request is lost, so that
    it has something in hand.
    """
    assert steps(EndInput(SENDS), SENDS) == [
        "fired",
        "pause",
        "applied",
        "Input.end",
        "resolve Produce discard",
        "resume",
        "healed",
    ]


def test_where_nothing_was_hit_nobody_is_told() -> None:
    assert steps(Terminate(SENDS)) == steps(EndInput(SENDS)) == []


def test_the_history_must_show_what_was_done() -> None:
    assert Terminate(SENDS).evidence() == Evidence("rule", told=(Role.PRODUCER,))
    assert EndInput(SENDS).evidence() == Evidence(
        "rule", paused=(Role.PRODUCER,), proofs=(InputEnded(),)
    )


COMMITS = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST, since=GIVEN)


def test_an_end_in_order_is_cut_short_at_its_next_durable_step() -> None:
    assert steps(Terminate(GIVEN, COMMITS), GIVEN, COMMITS)[2:] == [
        "applied",
        "resolve Fetch release",
        "kill",
        "resolve OffsetCommit discard",
        "await_end",
        "restart",
        "healed",
    ]


def test_who_has_ended_before_that_step_is_not_killed() -> None:
    """It is started again, as after any end in order. Nothing waits for that step any more: its
    successor comes to it, too, and would be held there.
    """
    told = steps(Terminate(GIVEN, COMMITS), GIVEN)
    assert told.index("disarm") < told.index("restart")
    assert [each for each in told if each != "disarm"] == steps(Terminate(GIVEN), GIVEN)


def test_the_step_is_one_of_the_same_process() -> None:
    """Counted from when it was told to end: else it might be killed before."""
    with pytest.raises(ValueError, match="counted since at"):
        Terminate(GIVEN, replace(COMMITS, since=None))
    with pytest.raises(ValueError, match="a frame of the consumer"):
        Terminate(GIVEN, replace(COMMITS, role=Role.PRODUCER))


ARMED = {"event": "rule", "t": 1, "rule": "dies", "phase": "armed"}
TOLD = {"event": "node", "t": 5, "role": "consumer", "node": "consumer", "phase": "told"}
HIT = {"event": "rule", "t": 7, "rule": "dies", "phase": "hit"}
KILLED = {**TOLD, "t": 9, "phase": "exited", "signal": 9, "asked": True}
ENDED = {**KILLED, "signal": None, "status": 0}


@dataclass
class _Course:
    """What a proof reads of a run."""

    history: History


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ((ARMED, TOLD, HIT, KILLED), None),
        ((ARMED, TOLD, ENDED), None),
        ((TOLD, ENDED), "nothing was to kill the consumer while it ended"),
        ((TOLD, {**ARMED, "t": 6}, ENDED), "nothing was to kill the consumer while it ended"),
        ((ARMED, TOLD), "nobody saw it end"),
        ((ARMED, TOLD, HIT, ENDED), "was not killed at the step"),
        ((ARMED, TOLD, {**KILLED, "t": 6}, HIT), "was not killed at the step"),
    ],
)
def test_a_rule_that_was_not_armed_in_time_proves_nothing(
    lines: tuple[dict[str, Any], ...], trouble: str | None
) -> None:
    """Then it is chance that the process was not killed: the cell is void."""
    found = CutShort("consumer").trouble(cast("Any", _Course(a_history(lines))))
    assert found is None if trouble is None else trouble in str(found)


SENDS_ON = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.REQUEST)
SAVED = OnWire(Role.PROCESSOR, Api.OFFSET_COMMIT, Direction.RESPONSE, since=SENDS_ON)


def test_a_request_is_withheld_until_its_sender_has_saved_something_else() -> None:
    assert steps(Withheld(SENDS_ON, SAVED), SENDS_ON, SAVED) == [
        "fired",
        "kill",
        "applied",
        "resolve Produce discard",
        "resolve OffsetCommit discard",
        "restart",
        "healed",
    ]
    assert steps(Withheld(SENDS_ON, SAVED)) == []


def test_who_waits_for_the_answer_is_given_it() -> None:
    """And then killed at the same step: a step that never comes is no fault."""

    class Late(Recording):
        """The sender saves only when the request has gone on."""

        def await_fired(self, trigger: Any, unless: Any = None) -> Fired:
            """Let it wait."""
            if trigger == SAVED and "resolve Produce release" not in self.done:
                assert unless is not None
                raise NotFiredError(trigger)
            return super().await_fired(trigger, unless)

    fault = Withheld(SENDS_ON, SAVED, patience_s=0)
    controls = Late(fault)
    fault.arm(controls)
    fault.inject(controls)
    released = controls.done.index("resolve Produce release")
    assert controls.done[released + 1 :] == [
        "kill",
        "applied",
        "resolve OffsetCommit discard",
        "restart",
        "healed",
    ]
    assert steps(fault, SENDS_ON) == ["fired", "resolve Produce release"]


def test_only_a_request_can_be_withheld_from_the_broker() -> None:
    with pytest.raises(ValueError, match="only a request"):
        Withheld(SAVED, replace(SAVED, since=SAVED))
    with pytest.raises(ValueError, match="a frame of the processor"):
        Withheld(SENDS_ON, replace(SAVED, since=SAVED))
    with pytest.raises(ValueError, match="a frame of the processor"):
        Withheld(SENDS_ON, replace(SAVED, role=Role.CONSUMER, since=None))


def test_a_position_behind_the_target_need_not_be_counted() -> None:
    """It names the record: it is no earlier one, whenever it is saved. Where it comes before the
    request, the sender must still come to that.
    """
    saved = replace(SAVED, since=None)
    assert "resolve OffsetCommit discard" in steps(Withheld(SENDS_ON, saved), SENDS_ON, saved)
    for dies, frozen in ((saved, False), (SAVED, True)):
        fault = Withheld(SENDS_ON, dies)
        controls = Recording(fault)
        fault.arm(controls)
        armed = dict(controls.armed)
        assert [getattr(armed[at], "freeze", None) is not None for at in (SENDS_ON, dies)] == [
            False,
            frozen,
        ]

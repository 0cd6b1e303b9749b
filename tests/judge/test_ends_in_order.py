"""The faults ``terminate`` and ``end-input``: nobody is killed, and the order of their steps is
what they are.
"""

from __future__ import annotations

from harness.controls import OnWire
from harness.faults import EndInput, Terminate
from harness.model.scenario import Evidence, Role
from harness.proofs.input import InputEnded
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import steps

SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)


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
    """Neither to end, nor that there is no more."""
    assert steps(Terminate(SENDS)) == steps(EndInput(SENDS)) == []


def test_the_history_must_show_what_was_done() -> None:
    """Who was told, and that the input ended."""
    assert Terminate(SENDS).evidence() == Evidence("rule", told=(Role.PRODUCER,))
    assert EndInput(SENDS).evidence() == Evidence(
        "rule", paused=(Role.PRODUCER,), proofs=(InputEnded(),)
    )

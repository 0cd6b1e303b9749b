"""What the fault that loses an answer at a restart does, step by step, and what comes of it where
it does not get there.
"""

from __future__ import annotations

from harness.controls import OnWire
from harness.faults import Unanswered
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import steps

AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
LOST = OnWire(Role.CONSUMER, Api.OFFSET_FETCH, Direction.RESPONSE, since=AT)
FAULT = Unanswered(AT, Api.OFFSET_FETCH)


def test_the_answer_is_waited_for_before_the_fault_has_healed() -> None:
    """The loss is armed while the process is dead: its first answer cannot slip through."""
    assert steps(FAULT, AT, LOST) == [
        "fired",
        "kill",
        "applied",
        "resolve Fetch discard",
        "arm answer",
        "restart",
        "healed",
    ]


def test_one_that_never_asks_is_never_healed() -> None:
    """And so the judge voids the cell; nor is anybody killed where the first rule was not hit."""
    assert steps(FAULT, AT)[-1] == "restart"
    assert steps(FAULT) == []


def test_the_judge_is_told_who_dies_and_that_there_are_two_rules() -> None:
    evidence = FAULT.evidence()
    assert (evidence.trigger, evidence.killed, evidence.at_target, evidence.approached) == (
        "rule",
        (Role.CONSUMER,),
        True,
        True,
    )

"""Refuse: the broker is told first, then it gets the message; its own answer is the proof."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.controls import OnWire
from harness.faults import Refuse
from harness.model import events as kinds
from harness.model.scenario import Role
from harness.proofs.refusal import Refused
from harness.protocols.acts import Act
from harness.wire.rules import Action, Direction
from tests.events import a_history
from tests.judge.recording import played

SEND = OnWire(Role.PRODUCER, Act.SEND, Direction.REQUEST)


def test_the_broker_is_told_before_it_gets_the_message() -> None:
    """Else it might refuse the next one."""
    controls = played(Refuse(SEND))
    assert [rule.action for _, rule in controls.armed] == [Action.HOLD]  # type: ignore[union-attr]  # on the wire
    told = ["Refusal.refuse_next", "applied", f"resolve {SEND.api.label} release", "healed"]
    assert controls.done[1:] == ["armed", "fired", *told]


def test_only_what_is_on_its_way_to_a_broker_can_be_refused() -> None:
    """An answer cannot."""
    with pytest.raises(ValueError, match="at must be a request"):
        Refuse(OnWire(Role.PRODUCER, Act.SENT, Direction.RESPONSE))


def answer(record: str = "k-1", error: Any = 0, *, reached: bool = True) -> dict[str, Any]:
    """What a broker said of a message."""
    return {"event": kinds.PRODUCE_ANSWER, "record": record, "error": error, "reached": reached}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([answer(), answer(error="rejected"), answer()], None),
        ([answer()], "the broker refused k-1 0 times, not once"),
        ([answer("k-2", "rejected")], "the broker refused k-1 0 times, not once"),
        ([answer(error="rejected", reached=False)], "the broker refused k-1 0 times, not once"),
        (
            [answer(error="rejected"), answer(error="rejected")],
            "the broker refused k-1 2 times, not once",
        ),
    ],
)
def test_the_answer_proves_the_refusal(answers: list[dict[str, Any]], said: str | None) -> None:
    course: Any = SimpleNamespace(
        history=a_history(tuple(answers)), plan=SimpleNamespace(target="k-1")
    )
    assert Refused().trouble(course) == said

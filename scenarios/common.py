"""The failure points that engines have in common: what is done at each, in the words of an engine's
frames. An engine says what it predicts there, and where its point is another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import InProgram, OnWire
from harness.faults import Damaged, Drop, Forget, Kill, NoFault
from harness.model.harms import Damage
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Deployment, Predicted, Role, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic

PRODUCER, BROKER, CONSUMER = (Role.PRODUCER,), (Role.BROKER,), (Role.CONSUMER,)


@dataclass(frozen=True)
class Frames:
    """An engine's frames on a record's way, and the pipeline that they are of."""

    pipeline: Pipeline
    send: OnWire
    receipt: OnWire
    message: OnWire
    ack: OnWire
    """The acknowledgement, or the commit of the position."""
    ack_receipt: OnWire | None = None
    """``None``: nobody answers an acknowledgement."""

    def scenario(
        self,
        name: str,
        because: str,
        expect: Mapping[Semantic, Expectation],
        **exceptions: Any,
    ) -> Scenario:
        """Return the scenario of a common point, which its name begins with. ``exceptions``: fields
        that are otherwise here than with other engines.
        """
        point = name.partition("+")[0]
        of_broker: dict[str, Any] = {}
        if point.startswith("broker-"):
            of_broker = {"deployment": Deployment.OWN}
        elif point == "power-loss":
            of_broker = {"deployment": Deployment.TRACED, "consumer_starts_after_fault": True}
        elif point in AT_REST:
            of_broker = {"deployment": Deployment.OWN, "consumer_starts_after_fault": True}
        fields = {
            "fault": POINTS[point](self),
            "pipeline": self.pipeline,
            **of_broker,
            **exceptions,
        }
        return Scenario(id=name, because=because, expect=expect, **fields)


def _answer(frames: Frames) -> OnWire:
    if frames.ack_receipt is None:
        raise ValueError("nobody answers an acknowledgement there")
    return frames.ack_receipt


def _next(frames: Frames) -> OnWire:
    """Return the send behind the target's: everything up to the target is acknowledged."""
    return replace(frames.send, offset=1)


AT_REST: Final = ("restarted", *Damage)
"""What becomes of a broker's files while it is down: nothing, or a damage."""
BEHIND: Final = 4
"""So many acknowledged records stand behind the damaged one."""
ALL_ANSWERED: Final = Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True)
"""A control of ``power-loss``: nothing was flushed, and all that was answered is gone."""
POINTS: Final[Mapping[str, Callable[[Frames], Fault]]] = {
    "none": lambda _: NoFault(),
    "producer-crash-before-send": lambda _: Kill(InProgram(Role.PRODUCER, "before-send"), PRODUCER),
    "producer-crash-before-ack": lambda frames: Kill(frames.receipt, PRODUCER),
    "request-lost": lambda frames: Drop(frames.send),
    "ack-lost": lambda frames: Drop(frames.receipt),
    "broker-crash-before-append": lambda frames: Kill(frames.send, BROKER),
    "broker-crash-before-ack": lambda frames: Kill(frames.receipt, BROKER),
    "broker-crash-before-position": lambda frames: Kill(frames.ack, (*BROKER, *CONSUMER)),
    "power-loss": lambda frames: Kill(_next(frames), BROKER, forget=Forget.UNFLUSHED),
    "restarted": lambda frames: Kill(_next(frames), BROKER),
    Damage.BIT: lambda frames: Damaged(_next(frames), Damage.BIT, BEHIND),
    Damage.TAIL: lambda frames: Damaged(_next(frames), Damage.TAIL, BEHIND),
    "delivery-lost": lambda frames: Drop(frames.message),
    "commit-lost": lambda frames: Kill(frames.ack, CONSUMER),
    "commit-ack-lost": lambda frames: Kill(_answer(frames), CONSUMER),
    "consumer-crash-before-processing": lambda _: Kill(
        InProgram(Role.CONSUMER, "before-processing"), CONSUMER
    ),
    "consumer-crash-before-recording": lambda _: Kill(
        InProgram(Role.CONSUMER, "before-recording"), CONSUMER
    ),
    "consumer-crash-before-commit": lambda _: Kill(
        InProgram(Role.CONSUMER, "before-commit"), CONSUMER
    ),
}
"""What is done at each point."""

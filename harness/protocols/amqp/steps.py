"""The steps of AMQP 1.0: its performatives, by their own names."""

from __future__ import annotations

from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import PLAIN, Step
from harness.wire.rules import Direction


class Performative(TabledStep):
    """The performative of a frame. Each may come from either side. A topic is an address of any
    kind.
    """

    HEADER = "header"
    SASL = "sasl"
    OPEN = "open"
    BEGIN = "begin"
    ATTACH = "attach"
    FLOW = "flow"
    TRANSFER = "transfer"
    DISPOSITION = "disposition"
    DETACH = "detach"
    END = "end"
    CLOSE = "close"
    DECLARE = "declare"
    """A transfer to the coordinator that asks for a transaction."""
    DISCHARGE = "discharge"
    """A transfer to the coordinator that ends a transaction."""
    DISCHARGED = "discharged"
    """The disposition that answers a transaction's end. It answers its messages, too, and is about
    their records.
    """

    def step(self, direction: Direction) -> Step:
        """Return the line of the table for frames of this direction."""
        return STEPS.get((str(self), direction), PLAIN)


DESCRIPTORS: Final = {
    0x10: Performative.OPEN,
    0x11: Performative.BEGIN,
    0x12: Performative.ATTACH,
    0x13: Performative.FLOW,
    0x14: Performative.TRANSFER,
    0x15: Performative.DISPOSITION,
    0x16: Performative.DETACH,
    0x17: Performative.END,
    0x18: Performative.CLOSE,
}
_ANY: Final = frozenset({"record", "topic", "transactional_id"})
_SELECTS: Final = {
    Performative.TRANSFER: _ANY,
    Performative.DISPOSITION: _ANY,
    Performative.DISCHARGE: _ANY,
    Performative.DISCHARGED: _ANY,
}
_DURABLE: Final = frozenset(
    {Performative.TRANSFER, Performative.DISPOSITION, Performative.DISCHARGE}
)
_ONE_WAY: Final = {
    Performative.DECLARE: Direction.REQUEST,
    Performative.DISCHARGE: Direction.REQUEST,
    Performative.DISCHARGED: Direction.RESPONSE,
}


def _step(performative: Performative, way: Direction) -> Step:
    """Return the facts of a step. A frame of a link cannot be dropped alone: frames are numbered,
    and a gap is noticed.
    """
    return Step(
        selects=_SELECTS.get(performative, frozenset()),
        durable=way is Direction.REQUEST and performative in _DURABLE,
    )


STEPS: Final = {
    (str(each), way): _step(each, way)
    for each in Performative
    for way in Direction
    if _ONE_WAY.get(each, way) is way
}
ACTS: Final = {
    Act.SEND: Performative.TRANSFER,
    Act.SENT: Performative.DISPOSITION,
    Act.GIVE: Performative.TRANSFER,
    Act.ACK: Performative.DISPOSITION,
    Act.COMMIT: Performative.DISCHARGE,
    Act.COMMITTED: Performative.DISCHARGED,
}
"""AMQP's steps for the acts. An acknowledgement settles the message and is not answered."""

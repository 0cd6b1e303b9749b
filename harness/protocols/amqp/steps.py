"""The steps of AMQP 1.0: its performatives, by their own names."""

from __future__ import annotations

from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction


class Performative(TabledStep):
    """The performative of a frame. Each may come from either side. A topic is an address of any
    kind.
    """

    HEADER = "header"
    SASL = "sasl"
    OPEN = "open", 0x10
    BEGIN = "begin", 0x11
    ATTACH = "attach", 0x12
    FLOW = "flow", 0x13
    TRANSFER = "transfer", 0x14
    DISPOSITION = "disposition", 0x15
    DETACH = "detach", 0x16
    END = "end", 0x17
    CLOSE = "close", 0x18
    DECLARE = "declare"
    """A transfer to the coordinator that asks for a transaction."""
    DISCHARGE = "discharge"
    """A transfer to the coordinator that ends a transaction."""
    DISCHARGED = "discharged"
    """The disposition that answers a transaction's end. It answers its messages, too, and is about
    their records.
    """


DESCRIPTORS: Final = Performative.numbered()
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


STEPS: Final = Performative.tabled(
    {
        (str(each), way): _step(each, way)
        for each in Performative
        for way in Direction
        if _ONE_WAY.get(each, way) is way
    }
)
ACTS: Final = {
    Act.SEND: Performative.TRANSFER,
    Act.SENT: Performative.DISPOSITION,
    Act.GIVE: Performative.TRANSFER,
    Act.ACK: Performative.DISPOSITION,
    Act.COMMIT: Performative.DISCHARGE,
    Act.COMMITTED: Performative.DISCHARGED,
}
"""AMQP's steps for the acts. An acknowledgement settles the message and is not answered."""

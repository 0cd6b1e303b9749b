"""The steps of the NATS protocol, and of JetStream, which is requests and answers over it."""

from __future__ import annotations

from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

DURABLE: Final = "workers"
"""The name of the consumer of lostack's own stages."""
NO_RESPONDERS: Final = "no-responders"
"""The refusal of a message that nobody listens to: there is no such stream, or no JetStream."""


class Op(TabledStep):
    """What a line of the protocol does. Lines are not numbered, so one can be dropped."""

    CONNECT = "CONNECT"
    SUB = "SUB"
    UNSUB = "UNSUB"
    PUBLISH = "PUB"
    ACK = "ACK"
    NAK = "NAK"
    TERM = "TERM"
    PROGRESS = "WPI"
    PULL = "NEXT"
    API = "API"
    RESPOND = "RESPOND"
    """A message to an inbox: an answer among programs."""
    INFO = "INFO"
    OK = "+OK"
    ERR = "-ERR"
    PUBACK = "PubAck"
    ACKED = "ACKED"
    """The answer to an acknowledgement that asks for one (a *double ack*)."""
    DELIVERY = "MSG"
    STATUS = "STATUS"
    """The end of a pull: nothing is there, or its time is over."""
    ANSWER = "ANSWER"
    MESSAGE = "CORE-MSG"
    """A message that no stream delivers."""


_TO_CLIENT: Final = frozenset(
    {
        Op.INFO,
        Op.OK,
        Op.ERR,
        Op.PUBACK,
        Op.ACKED,
        Op.DELIVERY,
        Op.STATUS,
        Op.ANSWER,
        Op.MESSAGE,
    }
)
_ABOUT: Final = frozenset(
    {
        Op.PUBLISH,
        Op.PUBACK,
        Op.DELIVERY,
        Op.ACK,
        Op.NAK,
        Op.TERM,
        Op.PROGRESS,
        Op.ACKED,
        Op.MESSAGE,
    }
)
_DURABLE: Final = frozenset({Op.PUBLISH, Op.ACK, Op.NAK, Op.TERM, Op.API})
STEPS: Final = Op.tabled(
    {
        (str(op), Direction.RESPONSE if op in _TO_CLIENT else Direction.REQUEST): Step(
            selects=frozenset({"record", "topic"}) if op in _ABOUT else frozenset(),
            waits=op is Op.PULL,
            removable=op not in {Op.CONNECT, Op.INFO},
            durable=op in _DURABLE,
            errors={NO_RESPONDERS: False} if op is Op.PUBLISH else {},
        )
        for op in Op
    }
)
ACTS: Final = {
    Act.SEND: Op.PUBLISH,
    Act.SENT: Op.PUBACK,
    Act.GIVE: Op.DELIVERY,
    Act.ACK: Op.ACK,
    Act.ACKED: Op.ACKED,
}

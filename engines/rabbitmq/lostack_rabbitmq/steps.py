"""The methods of AMQP 0-9-1, and what a rule can do with each."""

from __future__ import annotations

from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction


class Op(TabledStep):
    """What a method does. The frames of a message's content are of its method, too."""

    HEADER = "protocol-header"
    START = "connection.start"
    START_OK = "connection.start-ok"
    TUNE = "connection.tune"
    TUNE_OK = "connection.tune-ok"
    CHANNEL_OPEN = "channel.open"
    CHANNEL_CLOSE = "channel.close"
    CONNECTION_CLOSE = "connection.close"
    DECLARE = "queue.declare"
    DECLARE_OK = "queue.declare-ok"
    QOS = "basic.qos"
    CONSUME = "basic.consume"
    CONSUME_OK = "basic.consume-ok"
    CANCEL = "basic.cancel"
    PUBLISH = "basic.publish"
    RETURN = "basic.return"
    DELIVER = "basic.deliver"
    GET = "basic.get"
    GET_OK = "basic.get-ok"
    GET_EMPTY = "basic.get-empty"
    ACK = "basic.ack"
    """A consumer's acknowledgement; of a server: the confirm of a publish."""
    REJECT = "basic.reject"
    RECOVER = "basic.recover"
    NACK = "basic.nack"
    CONFIRM_SELECT = "confirm.select"
    TX_SELECT = "tx.select"
    OTHER = "method"


METHODS: Final = {
    (10, 10): Op.START,
    (10, 11): Op.START_OK,
    (10, 30): Op.TUNE,
    (10, 31): Op.TUNE_OK,
    (10, 50): Op.CONNECTION_CLOSE,
    (20, 10): Op.CHANNEL_OPEN,
    (20, 40): Op.CHANNEL_CLOSE,
    (50, 10): Op.DECLARE,
    (50, 11): Op.DECLARE_OK,
    (60, 10): Op.QOS,
    (60, 20): Op.CONSUME,
    (60, 21): Op.CONSUME_OK,
    (60, 30): Op.CANCEL,
    (60, 40): Op.PUBLISH,
    (60, 50): Op.RETURN,
    (60, 60): Op.DELIVER,
    (60, 70): Op.GET,
    (60, 71): Op.GET_OK,
    (60, 72): Op.GET_EMPTY,
    (60, 80): Op.ACK,
    (60, 90): Op.REJECT,
    (60, 100): Op.RECOVER,
    (60, 110): Op.RECOVER,
    (60, 120): Op.NACK,
    (85, 10): Op.CONFIRM_SELECT,
    (90, 10): Op.TX_SELECT,
}
"""By the numbers of class and method; any other is :attr:`Op.OTHER`."""
CONTENT: Final = frozenset({Op.PUBLISH, Op.RETURN, Op.DELIVER, Op.GET_OK})
"""The methods that a message follows."""
GIVES: Final = frozenset({Op.DELIVER, Op.GET_OK})
_ABOUT: Final = frozenset({"record", "topic"})
_TO_SERVER: Final = frozenset({Op.PUBLISH, Op.ACK, Op.NACK, Op.REJECT})
_TO_CLIENT: Final = frozenset({Op.RETURN, Op.ACK, Op.NACK}) | GIVES
_ANSWERS: Final = {Op.START, Op.TUNE, Op.DECLARE_OK, Op.CONSUME_OK, Op.GET_EMPTY, Op.RETURN} | GIVES
_ONE_WAY: Final = {
    Direction.REQUEST: _ANSWERS,
    Direction.RESPONSE: {
        *(Op.HEADER, Op.START_OK, Op.TUNE_OK, Op.CHANNEL_OPEN, Op.DECLARE, Op.QOS, Op.CONSUME),
        *(Op.PUBLISH, Op.GET, Op.REJECT, Op.RECOVER, Op.CONFIRM_SELECT, Op.TX_SELECT),
    },
}
"""What never goes in this direction."""


def _step(op: Op, way: Direction) -> Step:
    """Return the facts of a step. Publishes are numbered, and so are their confirms: none can be
    dropped alone. An acknowledgement names its delivery, and can.
    """
    asks = way is Direction.REQUEST
    return Step(
        selects=_ABOUT if op in (_TO_SERVER if asks else _TO_CLIENT) else frozenset(),
        waits=asks and op is Op.CONSUME,
        removable=asks and op in _TO_SERVER - {Op.PUBLISH},
        durable=asks and op in {*_TO_SERVER, Op.DECLARE},
    )


STEPS: Final = Op.tabled(
    {(str(op), way): _step(op, way) for op in Op for way in Direction if op not in _ONE_WAY[way]}
)
ACTS: Final = {Act.SEND: Op.PUBLISH, Act.SENT: Op.ACK, Act.GIVE: Op.DELIVER, Act.ACK: Op.ACK}

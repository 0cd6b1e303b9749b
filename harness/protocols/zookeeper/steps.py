"""The steps of ZooKeeper's protocol: a client's requests, by the names in ZooKeeper's
documentation.
"""

from __future__ import annotations

from typing import Final

from harness.protocols.stepping import TabledStep
from harness.wire.protocol import PLAIN, Step
from harness.wire.rules import Direction


class Op(TabledStep):
    """The operation of a request. The answer has the same name."""

    CONNECT = "connect"
    CREATE = "create", 1
    DELETE = "delete", 2
    EXISTS = "exists", 3
    GET_DATA = "getData", 4
    SET_DATA = "setData", 5
    GET_ACL = "getACL", 6
    SET_ACL = "setACL", 7
    GET_CHILDREN = "getChildren", 8
    SYNC = "sync", 9
    GET_CHILDREN2 = "getChildren2", 12
    CHECK = "check", 13
    MULTI = "multi", 14
    CREATE2 = "create2", 15
    RECONFIG = "reconfig", 16
    CHECK_WATCHES = "checkWatches", 17
    REMOVE_WATCHES = "removeWatches", 18
    CREATE_CONTAINER = "createContainer", 19
    DELETE_CONTAINER = "deleteContainer", 20
    CREATE_TTL = "createTTL", 21
    MULTI_READ = "multiRead", 22
    AUTH = "auth", 100
    SET_WATCHES = "setWatches", 101
    SASL = "sasl", 102
    SET_WATCHES2 = "setWatches2", 105
    ADD_WATCH = "addWatch", 106
    GET_EPHEMERALS = "getEphemerals", 103
    GET_ALL_CHILDREN_NUMBER = "getAllChildrenNumber", 104
    WHO_AM_I = "whoAmI", 107
    CLOSE = "closeSession", -11
    EVENT = "event"
    """The event of a watch, which the server sends without a request."""


OPCODES: Final = Op.numbered()

CREATES: Final = frozenset({Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})
WITH_DATA: Final = CREATES | {Op.SET_DATA}
"""A path, and behind it the data of its node."""
WITHOUT_PATH: Final = frozenset(
    {
        Op.CONNECT,
        Op.MULTI,
        Op.MULTI_READ,
        Op.AUTH,
        Op.SET_WATCHES,
        Op.SET_WATCHES2,
        Op.SASL,
        Op.WHO_AM_I,
        Op.RECONFIG,
        Op.CLOSE,
        Op.EVENT,
    }
)
_DURABLE: Final = WITH_DATA | {Op.DELETE, Op.SET_ACL, Op.MULTI, Op.DELETE_CONTAINER, Op.RECONFIG}
_ABOUT: Final = {
    **{op: frozenset({"topic"}) for op in Op if op not in WITHOUT_PATH},
    **{op: frozenset({"record", "topic"}) for op in (*WITH_DATA, Op.MULTI)},
}


def _step(op: Op, way: Direction) -> Step:
    """An answer is about what its question was. A client that misses an answer takes the next one
    for out of order.
    """
    return Step(
        selects=_ABOUT.get(op, frozenset()), durable=way is Direction.REQUEST and op in _DURABLE
    )


STEPS: Final = Op.tabled(
    {
        **{(str(op), way): _step(op, way) for op in Op if op is not Op.EVENT for way in Direction},
        (str(Op.EVENT), Direction.RESPONSE): PLAIN,
    }
)

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
    CREATE = "create"
    DELETE = "delete"
    EXISTS = "exists"
    GET_DATA = "getData"
    SET_DATA = "setData"
    GET_ACL = "getACL"
    SET_ACL = "setACL"
    GET_CHILDREN = "getChildren"
    SYNC = "sync"
    GET_CHILDREN2 = "getChildren2"
    CHECK = "check"
    MULTI = "multi"
    CREATE2 = "create2"
    RECONFIG = "reconfig"
    CHECK_WATCHES = "checkWatches"
    REMOVE_WATCHES = "removeWatches"
    CREATE_CONTAINER = "createContainer"
    DELETE_CONTAINER = "deleteContainer"
    CREATE_TTL = "createTTL"
    MULTI_READ = "multiRead"
    AUTH = "auth"
    SET_WATCHES = "setWatches"
    SASL = "sasl"
    SET_WATCHES2 = "setWatches2"
    ADD_WATCH = "addWatch"
    GET_EPHEMERALS = "getEphemerals"
    GET_ALL_CHILDREN_NUMBER = "getAllChildrenNumber"
    WHO_AM_I = "whoAmI"
    CLOSE = "closeSession"
    EVENT = "event"
    """The event of a watch, which the server sends without a request."""

    def step(self, direction: Direction) -> Step:
        """Return the line of the table for frames of this direction."""
        return STEPS.get((str(self), direction), PLAIN)


OPCODES: Final = {
    1: Op.CREATE,
    2: Op.DELETE,
    3: Op.EXISTS,
    4: Op.GET_DATA,
    5: Op.SET_DATA,
    6: Op.GET_ACL,
    7: Op.SET_ACL,
    8: Op.GET_CHILDREN,
    9: Op.SYNC,
    12: Op.GET_CHILDREN2,
    13: Op.CHECK,
    14: Op.MULTI,
    15: Op.CREATE2,
    16: Op.RECONFIG,
    17: Op.CHECK_WATCHES,
    18: Op.REMOVE_WATCHES,
    19: Op.CREATE_CONTAINER,
    20: Op.DELETE_CONTAINER,
    21: Op.CREATE_TTL,
    22: Op.MULTI_READ,
    100: Op.AUTH,
    101: Op.SET_WATCHES,
    102: Op.SASL,
    103: Op.GET_EPHEMERALS,
    104: Op.GET_ALL_CHILDREN_NUMBER,
    105: Op.SET_WATCHES2,
    106: Op.ADD_WATCH,
    107: Op.WHO_AM_I,
    -11: Op.CLOSE,
}
NUMBERS: Final = {op: number for number, op in OPCODES.items()}

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


STEPS: Final = {
    **{(str(op), way): _step(op, way) for op in Op if op is not Op.EVENT for way in Direction},
    (str(Op.EVENT), Direction.RESPONSE): PLAIN,
}

"""Frames of ZooKeeper, made field by field as its Jute definitions say."""

from __future__ import annotations

import struct

from harness.protocols.zookeeper.steps import Op


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def buffer(data: bytes) -> bytes:
    """Bytes behind their length."""
    return struct.pack(">i", len(data)) + data


def hello(timeout_ms: int = 6000) -> bytes:
    """Make what a client says first, with the byte that says whether it only reads."""
    return _framed(struct.pack(">iqiq", 0, 0, timeout_ms, 0) + buffer(bytes(16)) + b"\0")


def welcome(timeout_ms: int = 6000) -> bytes:
    """Make the answer to that."""
    return _framed(struct.pack(">iiq", 0, timeout_ms, 77) + buffer(bytes(16)) + b"\0")


def ping() -> bytes:
    """Make a client's sign of life."""
    return _framed(struct.pack(">ii", -2, 11))


def pong() -> bytes:
    """Make the answer to that."""
    return _framed(struct.pack(">iqi", -2, 5, 0))


def request(xid: int, op: Op, path: str, rest: bytes = b"\0") -> bytes:
    """Make a request that begins with a path."""
    return _framed(struct.pack(">ii", xid, op.number) + buffer(path.encode()) + rest)


def set_data(xid: int, path: str, data: bytes) -> bytes:
    """Make a request for a node to have data, whatever its version."""
    return request(xid, Op.SET_DATA, path, set_body(data))


def set_body(data: bytes) -> bytes:
    """Make what stands behind the path of a ``setData``."""
    return buffer(data) + struct.pack(">i", -1)


def create_body(data: bytes) -> bytes:
    """Make what stands behind the path of a ``create``: the data, one entry of who may do what, and
    flags.
    """
    return (
        buffer(data)
        + struct.pack(">ii", 1, 31)
        + buffer(b"world")
        + buffer(b"anyone")
        + struct.pack(">i", 0)
    )


def several(xid: int, *parts: tuple[Op, str, bytes]) -> bytes:
    """Make a ``multi`` of operations: what it is, its path, what stands behind that."""
    made = b"".join(
        struct.pack(">i?i", op.number, False, -1) + buffer(path.encode()) + rest
        for op, path, rest in parts
    )
    return _framed(
        struct.pack(">ii", xid, Op.MULTI.number) + made + struct.pack(">i?i", -1, True, -1)
    )


def answer(xid: int, body: bytes = b"", error: int = 0) -> bytes:
    """Make an answer."""
    return _framed(struct.pack(">iqi", xid, 9, error) + body)


def stat() -> bytes:
    """Make what is said of a node."""
    return bytes(68)


def event(path: str) -> bytes:
    """Make what a watch tells of a node whose data has changed."""
    return answer(-1, struct.pack(">ii", 3, 3) + buffer(path.encode()))


def all_refused(xid: int, *errors: int) -> bytes:
    """Make the answer to a ``multi`` that was refused: an error for each of its parts."""
    parts = b"".join(struct.pack(">i?ii", -1, False, error, error) for error in errors)
    return answer(xid, parts + struct.pack(">i?i", -1, True, -1))

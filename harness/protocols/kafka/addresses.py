"""Find the addresses of brokers in answers, and put others in their place. Pure: bytes in, bytes
out.

A layout says where the answers of one API and version have addresses. Everything else is copied
byte for byte, also tagged fields that nobody here knows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.protocols.kafka.frames import LENGTH_BYTES, MIN_RESPONSE_BYTES, varint
from harness.protocols.kafka.steps import Api, step_of
from harness.wire.protocol import UnableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Address, Data

Field: TypeAlias = "int | str | Fields"
"""A number of bytes, or one of the words below, or a tuple: an array of structs with these
fields."""
Fields: TypeAlias = "tuple[Field, ...]"
TEXT, BYTES, NODE, ROLE, TAGS, REST = "text", "bytes", "node", "role", "tags", "rest"
"""``NODE``: id, host and port of a broker. ``ROLE``: whether brokers or controllers follow.
``TAGS``: the tagged fields of a struct in a struct. ``REST``: all that follows, which has no
address."""


class Plain(tuple["Field", ...]):
    """An array of structs without a broker, in an answer that is flexible: it is passed over."""

    __slots__ = ()


DESCRIBE_CLUSTER: Final = step_of(60)
_CONTROLLERS: Final = 2
_UUID: Final = 16
MORE: Final = 0x80
"""In a byte of a varint: there is another one."""
_NODE_ENDPOINTS: Final = 0
"""The tag under which Produce and Fetch name leaders (KIP-951)."""
_NOBODY: Final = -1
_PRODUCED: Final[Fields] = (4 + 2 + 8 + 8 + 8, (4, TEXT), TEXT)
_FETCHED: Final[Fields] = (4 + 2 + 8 + 8 + 8, (8 + 8,), 4, BYTES)
_LEADER: Final[Fields] = (4 + 4, TAGS)
_SHARED: Final[Fields] = (4 + 2, TEXT, 2, TEXT, *_LEADER, BYTES, (8 + 8 + 2,))
_ACKNOWLEDGED: Final[Fields] = (4 + 2, TEXT, *_LEADER)
_KNOWN: Final[Mapping[str, tuple[int, int, int, int]]] = {
    Api.METADATA: (0, 13, 9, 0),
    Api.FIND_COORDINATOR: (0, 6, 3, 0),
    DESCRIBE_CLUSTER: (0, 2, 0, 0),
    Api.PRODUCE: (0, 13, 9, 10),
    Api.FETCH: (0, 18, 12, 16),
    Api.SHARE_FETCH: (1, 2, 0, 0),
    Api.SHARE_ACKNOWLEDGE: (1, 2, 0, 0),
}
"""First and last version whose answer is known here, the first that is flexible (compact lengths
and tagged fields), and the first that names brokers."""


def may_name(step: str, version: int) -> bool:
    """Say whether an answer may name brokers: one of an unknown version may."""
    known = _KNOWN.get(step)
    return known is not None and not known[0] <= version < known[3]


def _fields(step: str, version: int) -> Fields:  # noqa: PLR0911 - a table
    """Return the fields of an answer of a known version."""

    def since(first: int, *fields: Field) -> Fields:
        return fields if version >= first else ()

    match step:
        case Api.METADATA:
            return (*since(3, 4), (NODE, *since(1, TEXT)), REST)
        case Api.FIND_COORDINATOR:
            if version >= 4:  # noqa: PLR2004 - several keys at once (KIP-699)
                return (4, (TEXT, NODE, 2, TEXT))
            return (*since(1, 4), 2, *since(1, TEXT), NODE, REST)
        case Api.PRODUCE:
            topic = _UUID if version >= 13 else TEXT  # noqa: PLR2004 - topics by id (KIP-516)
            return (Plain((topic, _PRODUCED)), 4)
        case Api.FETCH:
            return (4 + 2 + 4, Plain((_UUID, _FETCHED)))
        case Api.SHARE_FETCH:
            return (4 + 2, TEXT, 4, Plain((_UUID, _SHARED)), (NODE, TEXT))
        case Api.SHARE_ACKNOWLEDGE:
            return (4 + 2, TEXT, *since(2, 4), Plain((_UUID, _ACKNOWLEDGED)), (NODE, TEXT))
    return (4 + 2, TEXT, *since(1, ROLE), TEXT, 4, (NODE, TEXT, *since(2, 1)), REST)


def _behind(data: Data, at: int, fields: Fields) -> int:
    """Return where an array of structs ends that has no broker, in a flexible answer.

    Nearly every length and number is one byte.
    """
    count = data[at]
    at += 1
    if count >= MORE:
        count, at = varint(data, at - 1)
    for _ in range(count - 1):
        for field in fields:
            if field.__class__ is int:
                at += field
            elif field.__class__ is tuple:
                at = _behind(data, at, field)
            elif field == TAGS:
                at = _behind_tags(data, at) if data[at] else at + 1
            else:
                size = data[at]
                at += 1
                if size >= MORE:
                    size, at = varint(data, at - 1)
                at += size - 1 if size else 0
        at = _behind_tags(data, at) if data[at] else at + 1
    return at


def _behind_tags(data: Data, at: int) -> int:
    count, at = varint(data, at)
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at


class _Walk:
    """Walks over an answer. ``own``: the addresses that take the place of others, by broker."""

    def __init__(self, data: Data, *, flexible: bool, own: Mapping[int, Address]) -> None:
        self._data = data
        self._flexible = flexible
        self._own = own
        self._done = 0
        self._out: list[Data] = []
        self.at = 0
        self.found: dict[int, Address] = {}

    def struct(self, fields: Fields, tag: int = -1) -> None:
        """Walk over a struct. ``tag``: the tagged field that has brokers, if it has one."""
        for field in fields:
            if isinstance(field, int):
                self.at += field
            elif isinstance(field, Plain):
                self.at = _behind(self._data, self.at, field)
            elif isinstance(field, tuple):
                for _ in range(self._length(wide=True)):
                    self.struct(field)
            elif field == REST:
                self._check()
                self.at = len(self._data)
                return
            else:
                self._field(field)
        if self._flexible:
            self.tags(tag)

    def _field(self, field: str) -> None:
        if field == TAGS:
            self.tags()
        elif field == NODE:
            self._node()
        elif field == ROLE:
            if self._data[self.at] == _CONTROLLERS:
                raise UnableError("it names controllers, which the wire does not stand before")
            self.at += 1
        else:
            size = self._length(wide=field == BYTES)  # it moves ``at`` itself
            self.at += size

    def _length(self, *, wide: bool) -> int:
        """Return the length of an array, text or bytes; of null it is 0."""
        if self._flexible:
            count = self._data[self.at]
            if count < MORE:  # nearly always
                self.at += 1
            else:
                count, self.at = varint(self._data, self.at)
            return count - 1 if count else 0
        width = 4 if wide else 2
        count = self._number(width)
        return max(count, 0)

    def _number(self, width: int) -> int:
        begin, self.at = self.at, self.at + width
        self._check()
        return int.from_bytes(self._data[begin : self.at], "big", signed=True)

    def _check(self) -> None:
        if self.at > len(self._data):
            raise IndexError

    def _node(self) -> None:
        node = self._number(4)
        begin = self.at
        size = self._length(wide=False)
        text = self.at
        self.at += size
        host = str(bytes(self._data[text : self.at]), "utf-8")
        port = self._number(4)
        if node <= _NOBODY or not host:  # an error stands beside it
            return
        if not 0 < port < 1 << 16:
            raise IndexError
        self.found[node] = host, port
        if node in self._own:
            host, port = self._own[node]
            name = host.encode()
            size_of = _uvarint(len(name) + 1) if self._flexible else len(name).to_bytes(2, "big")
            self._put(begin, size_of + name + port.to_bytes(4, "big"))

    def tags(self, nodes: int = -1) -> None:
        """Walk over tagged fields. ``nodes``: the one that has brokers."""
        if not self._data[self.at]:  # nearly always
            self.at += 1
            return
        count, self.at = varint(self._data, self.at)
        for _ in range(count):
            tag, self.at = varint(self._data, self.at)
            begin = self.at
            size, self.at = varint(self._data, self.at)
            inside, self.at = self.at, self.at + size
            self._check()
            if tag == nodes:
                inner = _Walk(self._data[inside : self.at], flexible=True, own=self._own)
                for _ in range(inner._length(wide=True)):
                    inner.struct((NODE, TEXT))
                self.found |= inner.found
                new = inner.result()
                self._put(begin, _uvarint(len(new)) + new)

    def _put(self, begin: int, instead: bytes) -> None:
        """Put other bytes in the place of those from ``begin`` to here."""
        self._out += (self._data[self._done : begin], instead)
        self._done = self.at

    def result(self) -> bytes:
        """Return the bytes with the other addresses."""
        return b"".join((*self._out, self._data[self._done :]))


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@functools.cache
def _layout(step: str, version: int) -> tuple[bool, Fields, int]:
    """Return whether an answer is flexible, its fields, and the tagged field that has brokers.

    Raises:
        UnableError: the version is not known.
    """
    first, last, flexible_since, _ = _KNOWN[step]
    if not first <= version <= last:
        raise _unable(step, version, f"only versions {first} to {last} are known")
    nodes = _NODE_ENDPOINTS if step in (Api.PRODUCE, Api.FETCH) else -1
    return version >= flexible_since, _fields(step, version), nodes


def _unable(step: str, version: int, because: str) -> UnableError:
    what = "the brokers that its answer may name are not found, because"
    return UnableError(f"{step} version {version}: {what} {because}")


def _walk(step: str, version: int, frame: Data, own: Mapping[int, Address]) -> _Walk:
    """Walk over a whole answer, its length included.

    Raises:
        UnableError: the addresses in it cannot be found; one line.
    """
    flexible, fields, nodes = _layout(step, version)
    walk = _Walk(frame, flexible=flexible, own=own)
    try:
        walk.at = LENGTH_BYTES + MIN_RESPONSE_BYTES
        if flexible:
            walk.tags()
        walk.struct(fields, nodes)
    except (IndexError, UnicodeDecodeError) as error:
        raise _unable(step, version, "it is not laid out as such an answer is") from error
    except UnableError as error:
        raise UnableError(f"{step} version {version}: {error}") from error
    if walk.at != len(frame):
        raise _unable(step, version, f"{len(frame) - walk.at} bytes are left over")
    return walk


def brokers_in(step: str, version: int, frame: Data) -> dict[int, Address]:
    """Return the brokers that an answer names, by id. ``frame``: all of it, its length included.

    Raises:
        UnableError: the addresses in it cannot be found; one line.
    """
    return _walk(step, version, frame, {}).found


def with_addresses(step: str, version: int, frame: Data, own: Mapping[int, Address]) -> bytes:
    """Return an answer with other addresses, by the ids of the brokers.

    Raises:
        UnableError: the addresses in it cannot be found; one line.
    """
    new = _walk(step, version, frame, own).result()
    return (len(new) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "big") + new[LENGTH_BYTES:]

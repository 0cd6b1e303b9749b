"""The PostgreSQL protocol, as far as the wire reads it: messages, which statement commits, and which records it commits.

Pure: bytes in, values out. A message is one byte that names its kind, an int32 length that counts itself, and a body; what
a client sends first has no kind. See "Frontend/Backend Protocol" in PostgreSQL's documentation.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.wire.frames import MAX_FRAME_BYTES, NotAFrameError

if TYPE_CHECKING:
    from harness.wire.cell import Frame

HEAD_BYTES: Final = 5
"""Kind and length."""
START_BYTES: Final = 8
"""Length and code of what comes first."""
STARTUP: Final = 3 << 16
CANCEL: Final = 80877102
ENCRYPTION: Final = (80877103, 80877104)
"""Requests for TLS and for GSSAPI encryption; they are answered by one byte, and ``N`` means no."""
READ: Final = frozenset(b"QPBEC")
"""Query, Parse, Bind, Execute and Close: what says which statements are run, and on what."""
TEXT_OF_BYTES: Final = rb"\\x((?:[0-9a-f]{2})+)"


@dataclass(slots=True)
class Dialogue:
    """What has been said on one connection, as far as it says what a COMMIT commits."""

    started: bool = False
    asked_for_encryption: bool = False
    records: set[str] = field(default_factory=set)
    """Written since the transaction began."""
    ends: deque[Frame | None] = field(default_factory=deque)
    """Ends of transactions that were asked for and are not answered yet: commits, and (null) rollbacks."""
    asked: int = 0
    _statements: dict[bytes, bytes] = field(default_factory=dict)
    _portals: dict[bytes, bytes] = field(default_factory=dict)

    def hear(self, kind: int, body: bytes, key: str) -> str:
        """Take in a message that runs or prepares a statement; return ``commit``, ``rollback`` or nothing.

        Records are recognised by their payloads (``key``: the cell's), in statements and in values, binary or as text.
        """
        match chr(kind):
            case "Q":
                return self._run(body[:-1], body, key)
            case "P":
                name, statement, *_ = body.split(b"\0", 2)
                self._statements[name] = statement
            case "B":
                portal, name, *_ = body.split(b"\0", 2)
                self._portals[portal] = self._statements.get(name, b"")
                self.records |= records_in(body, key)
            case "E":
                return self._run(self._portals.get(body.partition(b"\0")[0], b""), b"", key)
            case "C":
                of = self._statements if body[:1] == b"S" else self._portals
                of.pop(body[1:].partition(b"\0")[0], None)
        return ""

    def _run(self, text: bytes, body: bytes, key: str) -> str:
        word = ends(text)
        if not word:
            if _words(text)[:1] in ([b"BEGIN"], [b"START"]):
                self.records.clear()
            self.records |= records_in(body, key) if body else set()
        return word

    def forget(self) -> frozenset[str]:
        """Return the records of the transaction that ends here; the next one has none yet."""
        found = frozenset(self.records)
        self.records.clear()
        return found


def start(head: bytes) -> tuple[int, int]:
    """Return size and code of what a client sends first. Raises :class:`NotAFrameError`."""
    size, code = int.from_bytes(head[:4], "big", signed=True), int.from_bytes(head[4:8], "big")
    if not START_BYTES <= size <= MAX_FRAME_BYTES or code not in (STARTUP, CANCEL, *ENCRYPTION):
        raise NotAFrameError(f"a first message of {size} bytes with code {code}")
    return size, code


def parameters(startup: bytes) -> dict[str, str]:
    """Return what a startup message says of its sender.

    >>> parameters(bytes([0, 0, 0, 20, 0, 3, 0, 0]) + b"user" + bytes(1) + b"me" + bytes(2))
    {'user': 'me'}
    """
    words = startup[START_BYTES:].decode("utf-8", "replace").split("\0")
    return {name: value for name, value in zip(words[::2], words[1::2], strict=False) if name}  # an empty name ends the list


def message(head: bytes) -> tuple[int, int]:
    """Return kind and size (the whole of it) of a message. Raises :class:`NotAFrameError`.

    >>> message(b"Z" + bytes([0, 0, 0, 5]))
    (90, 6)
    """
    kind, length = head[0], int.from_bytes(head[1:5], "big", signed=True)
    if not (chr(kind).isascii() and chr(kind).isalnum()) or not 4 <= length <= MAX_FRAME_BYTES:  # noqa: PLR2004 - its own bytes
        raise NotAFrameError(f"a message {kind} of {length} bytes")
    return kind, length + 1


def ends(text: bytes) -> str:
    """Return ``commit`` or ``rollback`` where a text of statements ends a transaction, else nothing.

    >>> ends(b"COMMIT"), ends(b"insert into t values (1); commit"), ends(b"rollback to s"), ends(b"COMMIT PREPARED 'x'")
    ('commit', 'commit', '', '')
    """
    for each in text.split(b";"):
        match _words(each):
            case [b"COMMIT" | b"END", *rest] if rest[:1] != [b"PREPARED"]:
                return "commit"
            case [b"ROLLBACK" | b"ABORT", *rest] if b"TO" not in rest and rest[:1] != [b"PREPARED"]:
                return "rollback"
    return ""


def outcome(body: bytes) -> str:
    """Return how a transaction ended, by the tag of a CommandComplete; nothing where it ended none.

    >>> outcome(b"COMMIT" + bytes(1)), outcome(b"ROLLBACK" + bytes(1)), outcome(b"INSERT 0 1" + bytes(1))
    ('committed', 'rolled back', '')
    """
    return {b"COMMIT\0": "committed", b"ROLLBACK\0": "rolled back"}.get(body, "")


def records_in(data: bytes, key: str) -> set[str]:
    r"""Return the ids of the records of a cell whose payloads are in ``data``, as bytes or in PostgreSQL's text form of bytes.

    >>> payload = b"lostack c0ffee k1-7 7 0123abcd\n"
    >>> records_in(b"..." + payload, "c0ffee"), records_in(b"'\\x" + payload.hex().encode() + b"'", "c0ffee")
    ({'k1-7'}, {'k1-7'})
    """
    pattern = rb"lostack %s (\S+) \d+ [0-9a-f]{8}\n" % re.escape(key.encode())
    texts = [data, *(bytes.fromhex(found.decode()) for found in re.findall(TEXT_OF_BYTES, data))]
    return {found.decode("ascii", "replace") for text in texts for found in re.findall(pattern, text)}


def _words(text: bytes) -> list[bytes]:
    return text.upper().split()[:4]

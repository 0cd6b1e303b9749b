"""What the files of a node say of the logs of its quorum queues: write-ahead logs, which all queues
share, and each queue's segments. Every message that a queue was ever given is in it, at an index.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.model.places import Removal, Waiting
from harness.model.record import ATTEMPT_HEADER
from lostack_rabbitmq import frames
from lostack_rabbitmq.terms import NotATermError, term

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WAL, SEGMENT = b"RAWA\x01", b"RASG"
_REFERS: Final = 1 << 22
_HEAD: Final = struct.Struct(">IIQQ")
"""Of an entry of a write-ahead log: checksum, size, index, term."""
_INDEX: Final = {1: struct.Struct(">QQIII"), 2: struct.Struct(">QQQII")}
"""By a segment's version, an entry of its index: index, term, offset, size, checksum."""
_BEGINS: Final = 8
"""How many bytes stand before a segment's index."""


DIED: Final = "x-first-death-queue"
"""The header of a dead letter that names the queue which it was first in."""
WHY: Final = {
    "rejected": Removal.REJECT,
    "delivery_limit": Removal.LIMIT,
    "maxlen": Removal.LIMIT,
    "expired": Removal.EXPIRY,
    "purge": Removal.PURGE,
}
"""By the node's word for it, why a message was dropped or moved."""


class StrangeFileError(OSError):
    """A file of the node is not as RabbitMQ 3.10 writes it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a queue's log that gives it a message. ``again``: the channel has sent it twice
    by itself, and the queue has it once.
    """

    index: int
    body: bytes
    headers: Mapping[str, Any]
    again: bool

    @property
    def attempt(self) -> str | None:
        """The attempt by which lostack's own client has sent it."""
        found = self.headers.get(ATTEMPT_HEADER)
        return found if isinstance(found, str) else None


@dataclass
class Log:
    """What is known of a queue's log, of files that may have gone since.

    When an empty queue starts again, its node forgets the log: what was read before is kept.
    """

    queue: str = ""
    """The name of the queue; empty: it is not known."""
    raw: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """By index: the term, and the entry."""
    _first: dict[int, int] = field(default_factory=dict)

    def add(self, index: int, of_term: int, data: bytes) -> None:
        """Add an entry. Of two at one index, the one of the later term counts."""
        known = self.raw.get(index)
        if known is None or known[0] <= of_term:
            self.raw[index] = of_term, data

    def entries(self) -> list[Entry]:
        """Return the entries with messages, in order.

        Raises:
            StrangeFileError: an entry cannot be read.
        """
        found: list[Entry] = []
        at = self._first
        sent: set[tuple[bytes, int]] = set()
        for index, (_, data) in sorted(self.raw.items()):
            try:
                command = _command(term(data))
            except NotATermError as error:
                raise StrangeFileError(f"entry {index} of a queue's log: {error}") from error
            if command is None:
                continue
            if command[0] == "requeue":
                at[index] = at.get(command[3], command[3])
                continue
            name = (command[1], command[2])
            again = isinstance(command[2], int) and name in sent
            sent.add(name)
            body, headers = _message(command[3])
            at[index] = index
            found.append(Entry(index, body, headers, again))
        return found

    def first(self, index: int) -> int:
        """Return the index at which a message was first, by one of its indexes, behind
        :meth:`entries`: one that is given back may be written again.
        """
        return self._first.get(index, index)


def _command(said: Any) -> tuple[Any, ...] | None:
    """Return the command of an entry that has a message; ``None``: it has none."""
    command = said[2] if isinstance(said, tuple) and said[0] == "$usr" else None
    there = isinstance(command, tuple) and command[0] in ("enqueue", "requeue")
    return command if there else None


def _message(message: Any) -> tuple[bytes, Mapping[str, Any]]:
    """Return the body and the headers of a ``#basic_message{}``."""
    try:
        _, _, _, (_, _, said, raw, _, parts), *_ = message
        headers = frames.properties(raw) if isinstance(raw, bytes) else _headers(said)
        return b"".join(reversed(parts)), headers
    except (TypeError, ValueError) as error:
        raise StrangeFileError(f"a message in a queue's log: {error}") from error


def _headers(said: Any) -> dict[str, Any]:
    """Return the headers of a ``#'P_basic'{}``: those of a message that the broker has made."""
    table = said[3] if isinstance(said[3], list) else []
    return {
        name.decode(): value.decode() if isinstance(value, bytes) else value
        for name, _, value in table
    }


def packed(log: Log) -> bytes:
    """Return the entries of a log for the node: index, term and size of each before it."""
    return b"".join(
        struct.pack(">QQI", index, of_term, len(data)) + data
        for index, (of_term, data) in sorted(log.raw.items())
    )


def dead_in(logs: Mapping[str, Log], queue: str) -> dict[tuple[bytes, str | None], list[str]]:
    """Return the places of the dead letters of a queue, in order, by their content and attempt."""
    found: dict[tuple[bytes, str | None], list[str]] = {}
    for name, log in logs.items():
        for each in log.entries() if log.queue != queue else ():
            if each.headers.get(DIED) == queue:
                found.setdefault((each.body, each.attempt), []).append(f"{name}:{each.index}")
    return found


def why_of(log: Log, dropped: Iterable[tuple[str, int]]) -> Mapping[int, Removal]:
    """Return why messages of a log were dropped, by their first indexes. ``dropped``: the node's
    word for it, and an index.
    """
    log.entries()
    return {log.first(index): WHY[reason] for reason, index in dropped}


def fates_in(
    log: Log,
    dead: Mapping[tuple[bytes, str | None], list[str]],
    dropped: Mapping[int, Removal] | None,
    holds: Iterable[int],
) -> Iterator[tuple[Entry, Mapping[str, Any]]]:
    """Yield the entries of a log with messages, and what became of each: ``waiting``, ``removed``,
    or ``moved`` and ``why``. ``dead``: where the dead letters of its queue are; those that are told
    are taken out. ``dropped``: why the queue has dropped messages; ``None``: the node has begun the
    queue anew, and nothing is left. ``holds``: the indexes of those that it has.
    """
    entries = log.entries()
    waits = set() if dropped is None else {log.first(index) for index in holds}
    gone = Removal.PURGE if dropped is None else Removal.ACK
    for each in entries:
        why = (dropped or {}).get(each.index)
        if each.again:
            yield each, {"removed": Removal.DUPLICATE}
        elif each.index in waits:
            yield each, {"waiting": Waiting.READY}
        elif why and (aside := dead.get((each.body, each.attempt))):
            yield each, {"moved": aside.pop(0), "why": why}
        else:
            yield each, {"removed": why or gone}


def queue_in(config: bytes) -> str:
    """Return the name of the queue whose log a file ``config`` is of; empty: it says none."""
    found = re.search(r"'%2F_([^']+)'", config.decode("utf-8", "replace"))
    return found[1] if found else ""


def in_wal(file: str, data: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield queue, index, term and content of each entry of a write-ahead log. What is cut off was
    never whole.

    Raises:
        StrangeFileError: the bytes are none.
    """
    if data and not data.startswith(WAL[: len(data)]):
        raise StrangeFileError(f"{file} is no write-ahead log of RabbitMQ 3.10")
    at, names = len(WAL), dict[int, str]()
    while at + 3 <= len(data):
        mark = int.from_bytes(data[at : at + 3], "big")
        at += 3
        writer = mark & (_REFERS - 1)
        if not mark & _REFERS:
            size = int.from_bytes(data[at : at + 2], "big")
            names[writer] = data[at + 2 : at + 2 + size].decode("utf-8", "replace")
            at += 2 + size
        if at + _HEAD.size > len(data):
            return
        checksum, size, index, of_term = _HEAD.unpack_from(data, at)
        if not (checksum or size or index):
            return  # what the node has reserved, and not written
        whole = data[at + 8 : at + _HEAD.size + size]
        if len(whole) < 16 + size:
            return
        if checksum and zlib.adler32(whole) != checksum:
            return  # as the node itself takes it: the last entry, not whole
        yield names[writer], index, of_term, whole[16:]
        at += _HEAD.size + size


def in_segment(file: str, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield index, term and content of each entry of a segment.

    Raises:
        StrangeFileError: the bytes are none.
    """
    if not data:
        return
    version, most = struct.unpack_from(">HH", data, 4) if len(data) >= _BEGINS else (0, 0)
    if not data.startswith(SEGMENT) or version not in _INDEX:
        raise StrangeFileError(f"{file} is no segment of RabbitMQ 3.10")
    form = _INDEX[version]
    for number in range(most):
        start = _BEGINS + number * form.size
        if start + form.size > len(data):
            return
        index, of_term, offset, size, checksum = form.unpack_from(data, start)
        if not index:
            return
        content = data[offset : offset + size]
        if len(content) == size and (not checksum or zlib.crc32(content) == checksum):
            yield index, of_term, content

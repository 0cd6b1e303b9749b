"""Read a topic's ledgers: every copy that the topic held, and which copies the subscription has
acknowledged. Without I/O.

Retention lets a topic keep acknowledged messages. An entry is one message or a batch. The cursor of
a subscription says that everything up to a position is acknowledged, and also some ranges after it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.model.places import Removal, Waiting
from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER
from harness.protocols.pulsar.payload import NotReadError, Single, batched
from harness.run.queue_broker import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Said = TypeVar("Said")

Position = tuple[int, int]
"""Ledger and entry."""
_RANGE: Final = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")
_PROPERTIES: Final = "x-pulsar-property"
"""The header with all properties, as one JSON object."""
_BATCH: Final = "x-pulsar-num-batch-message"
_PART, _PARTS, _WHOLE = "x-pulsar-chunk-id", "x-pulsar-num-chunks-from-msg", "x-pulsar-uuid"
"""The headers of a chunk: its number, the number of chunks, and the id of the whole message."""
_MARKER: Final = "x-pulsar-marker-type"
_BROKERS_OWN: Final = frozenset({"pulsar.dedup", "__compaction"})
_ABORTED, _OPEN = "x-pulsar-txn-aborted", "x-pulsar-txn-uncommitted"


class StrangeLedgerError(OSError):
    """Ledgers contradict how a topic is written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, as the broker reports it."""

    at: Position
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_message(self) -> bool:
        """Whether a program sent it: a broker also writes markers for the end of a transaction."""
        return _MARKER not in self.headers

    def says(self, name: str) -> bool:
        """Say whether the header of this name is true."""
        return self.headers.get(name, "false") == "true"

    @property
    def is_part(self) -> bool:
        """Whether the entry is one chunk of a chunked message."""
        return _PARTS in self.headers

    @property
    def is_final(self) -> bool:
        """Whether its headers will not change: it is in no transaction, or its transaction has
        ended.
        """
        return not self.says(_OPEN)


def position(text: str) -> Position:
    """Parse a position, ``ledger:entry``.

    >>> position("3:-1")
    (3, -1)
    """
    ledger, _, entry = text.partition(":")
    return int(ledger), int(entry)


def entries_of(internal: Mapping[str, Any]) -> Iterator[Position]:
    """Yield the positions of all entries of a topic, from its ``internalStats``."""
    ledgers = internal["ledgers"]
    last = ledgers[-1]["ledgerId"] if ledgers else None
    for each in ledgers:
        count = each["entries"]
        if each["ledgerId"] == last and not count:  # for the open ledger the count stands elsewhere
            ledger, entry = position(internal["lastConfirmedEntry"])
            count = entry + 1 if ledger == last else 0
        yield from ((each["ledgerId"], entry) for entry in range(count))


@dataclass(frozen=True, slots=True)
class Done:
    """What a subscription has acknowledged: all up to ``upto``, and ranges after it, without the
    first position of each range.
    """

    upto: Position
    ranges: tuple[tuple[Position, Position], ...]

    @classmethod
    def of(cls, cursor: Mapping[str, object]) -> Done:
        """Parse a cursor of ``internalStats``.

        >>> Done.of({"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3:4]]"})
        Done(upto=(3, 1), ranges=(((3, 2), (3, 4)),))
        """
        numbers = (
            tuple(map(int, found))
            for found in _RANGE.findall(str(cursor["individuallyDeletedMessages"]))
        )
        return cls(
            position(str(cursor["markDeletePosition"])),
            tuple(((a, b), (c, d)) for a, b, c, d in numbers),
        )

    def __contains__(self, at: Position) -> bool:
        return at <= self.upto or any(first < at <= last for first, last in self.ranges)


def readers_of(subscriptions: Mapping[str, Said]) -> tuple[str, ...]:
    """Return the names of a topic's subscriptions, without the broker's own."""
    return tuple(sorted(name for name in subscriptions if name not in _BROKERS_OWN))


def only_subscription(subscriptions: Mapping[str, Said]) -> Said | None:
    """Return the statistics of a topic's only subscription; ``None`` if it has none. The broker's
    own ones do not count.

    Raises:
        StrangeLedgerError: the topic has several subscriptions, for which "acknowledged" has no
            single meaning.
    """
    found = readers_of(subscriptions)
    if len(found) > 1:
        raise StrangeLedgerError(
            f"lostack can count for one subscription, and the topic has several: {', '.join(found)}"
        )
    return subscriptions[found[0]] if found else None


def joined(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    """Yield each message as its chunks. A chunked message comes at its last chunk, joined as
    consumers join chunks.

    A first chunk starts the message again, a repeated chunk is skipped, and after a gap the other
    chunks are dropped.
    """
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        if not entry.is_part:
            yield (entry,)
            continue
        name, number = entry.headers[_WHOLE], int(entry.headers[_PART])
        if number == 0:
            parts[name] = []
        there = len(parts.get(name, ()))
        if number > there:
            parts.pop(name, None)
        elif name in parts and number == there:
            parts[name].append(entry)
            if number + 1 == int(entry.headers[_PARTS]):
                yield tuple(parts.pop(name))


def messages(entries: Iterable[Entry], done: Done | None) -> tuple[Message, ...]:
    """Return every copy that a topic has held. ``done``: what its subscription has acknowledged;
    ``None``: no subscription.

    A broker counts chunks, so a message stands for its waiting chunks. Waiting chunks of no whole
    message come last.

    Raises:
        StrangeLedgerError: a batch, or a message's properties, cannot be decoded.
    """
    found, there = [], [each for each in entries if each.is_message]
    loose = {
        each.at: each for each in there if each.is_part and (done is None or each.at not in done)
    }
    for parts in joined(there):
        entry = replace(parts[-1], body=b"".join(part.body for part in parts))
        visible = not entry.says(_ABORTED) and not entry.says(_OPEN)
        gone = done is not None and entry.at in done
        if visible:
            waiting, removed = (None, Removal.ACK) if gone else (Waiting.READY, None)
        else:
            waiting, removed = Waiting.OPEN if entry.says(_OPEN) else None, None
        its = [] if gone else [part for part in parts if loose.pop(part.at, None)]
        for number, single in enumerate(_singles(entry)):
            name = f"{entry.at[0]}:{entry.at[1]}:{number}"
            attempt, origin = (
                dict(single.properties).get(each) for each in (ATTEMPT_HEADER, ORIGIN_HEADER)
            )
            found.append(
                Message(
                    name,
                    name,
                    single.value,
                    _text(attempt),
                    waiting,
                    visible=visible,
                    removed=removed,
                    origin=_text(origin),
                    parts=len(parts),
                    counts=len(its) or 1,
                )
            )
    return (*found, *(_loose(each) for each in loose.values()))


def _loose(part: Entry) -> Message:
    name = f"{part.at[0]}:{part.at[1]}:0"
    visible = not part.says(_ABORTED) and not part.says(_OPEN)
    waiting = Waiting.READY if visible else Waiting.OPEN if part.says(_OPEN) else None
    return Message(name, name, part.body, waiting=waiting, visible=visible, whole=False)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _singles(entry: Entry) -> Iterable[Single]:
    if _BATCH in entry.headers:
        try:
            return batched(entry.body, int(entry.headers[_BATCH]))
        except NotReadError as error:
            raise StrangeLedgerError(f"the batch at {entry.at}: {error}") from error
    try:
        own: dict[str, str] = json.loads(entry.headers.get(_PROPERTIES, "{}"))
    except ValueError as error:
        raise StrangeLedgerError(f"the properties at {entry.at}: {error}") from error
    return (Single(entry.body, tuple((name, value.encode()) for name, value in own.items())),)

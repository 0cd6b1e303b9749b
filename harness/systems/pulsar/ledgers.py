"""What a topic's ledgers say of it: every copy that was there, and what a subscription has done with. Pure.

A topic keeps what is acknowledged, since it is told to (retention). An entry is one message, or a batch; how far a subscription
is, says its cursor: everything up to a position is done with, and ranges behind it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from harness.model.places import Removal, Waiting
from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER
from harness.protocols.pulsar.payload import NotReadError, Single, batched
from harness.run.queues import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Position = tuple[int, int]
"""Ledger and entry."""
_RANGE: Final = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")
_PROPERTIES: Final = "x-pulsar-property"
"""All of them, as one JSON object."""
_BATCH: Final = "x-pulsar-num-batch-message"
_PART, _PARTS, _WHOLE = "x-pulsar-chunk-id", "x-pulsar-num-chunks-from-msg", "x-pulsar-uuid"
"""Of a message that is one of several which are one: which it is, of how many, of what."""
_MARKER: Final = "x-pulsar-marker-type"
_BROKERS_OWN: Final = frozenset({"pulsar.dedup", "__compaction"})
_ABORTED, _OPEN = "x-pulsar-txn-aborted", "x-pulsar-txn-uncommitted"


class StrangeLedgerError(OSError):
    """Ledgers that say what cannot be."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, as the broker tells it."""

    at: Position
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_message(self) -> bool:
        """Whether it is one of a program, and none by which a broker marks the end of a transaction."""
        return _MARKER not in self.headers

    def says(self, name: str) -> bool:
        """Say whether something is so, by its header."""
        return self.headers.get(name, "false") == "true"

    @property
    def is_final(self) -> bool:
        """Whether nothing that is said of it will change: it is in no transaction, or in one that has ended."""
        return not self.says(_OPEN)


def position(text: str) -> Position:
    """Read a position.

    >>> position("3:-1")
    (3, -1)
    """
    ledger, _, entry = text.partition(":")
    return int(ledger), int(entry)


def entries_of(internal: Mapping[str, Any]) -> Iterator[Position]:
    """Yield where a topic has entries, by its ``internalStats``."""
    ledgers = internal["ledgers"]
    last = ledgers[-1]["ledgerId"] if ledgers else None
    for each in ledgers:
        count = each["entries"]
        if each["ledgerId"] == last and not count:  # the one that is written says so elsewhere
            ledger, entry = position(internal["lastConfirmedEntry"])
            count = entry + 1 if ledger == last else 0
        yield from ((each["ledgerId"], entry) for entry in range(count))


@dataclass(frozen=True, slots=True)
class Done:
    """What a subscription has done with: all up to a position, and ranges behind it, each behind its first position."""

    upto: Position
    ranges: tuple[tuple[Position, Position], ...]

    @classmethod
    def of(cls, cursor: Mapping[str, Any]) -> Done:
        """Read a cursor.

        >>> Done.of({"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3:4]]"})
        Done(upto=(3, 1), ranges=(((3, 2), (3, 4)),))
        """
        numbers = (tuple(map(int, found)) for found in _RANGE.findall(cursor["individuallyDeletedMessages"]))
        return cls(position(cursor["markDeletePosition"]), tuple(((a, b), (c, d)) for a, b, c, d in numbers))

    def __contains__(self, at: Position) -> bool:
        return at <= self.upto or any(first < at <= last for first, last in self.ranges)


def only(subscriptions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return what is said of the one subscription of a topic, ``None`` where it has none. The broker's own are no subscriptions.

    Raises:
        StrangeLedgerError: there are several, and a message that the one is done with the other may wait for.
    """
    found = {name: said for name, said in subscriptions.items() if name not in _BROKERS_OWN}
    if len(found) > 1:
        raise StrangeLedgerError(f"several subscriptions: {', '.join(sorted(found))}; one is what can be counted")
    return next(iter(found.values()), None)


def joined(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield what stands for itself, and at its last part what comes in several, as consumers put them together.

    The first part begins anew, one that was there is passed over, and behind a gap nothing becomes of the rest.
    """
    parts: dict[str, list[bytes]] = {}
    for entry in entries:
        if _PARTS not in entry.headers:
            yield entry
            continue
        name, number = entry.headers[_WHOLE], int(entry.headers[_PART])
        if number == 0:
            parts[name] = []
        there = len(parts.get(name, ()))
        if number > there:
            parts.pop(name, None)
        elif name in parts and number == there:
            parts[name].append(entry.body)
            if number + 1 == int(entry.headers[_PARTS]):
                yield replace(entry, body=b"".join(parts.pop(name)))


def messages(entries: Iterable[Entry], done: Done | None) -> tuple[Message, ...]:
    """Return every copy that a topic has had. ``done``: of its one subscription; ``None``: nobody has subscribed.

    Raises:
        StrangeLedgerError: the broker says of a message what cannot be.
    """
    found = []
    for entry in joined(each for each in entries if each.is_message):
        visible = not entry.says(_ABORTED) and not entry.says(_OPEN)
        gone = done is not None and entry.at in done
        if visible:
            waiting, removed = (None, Removal.ACK) if gone else (Waiting.READY, None)
        else:
            waiting, removed = Waiting.OPEN if entry.says(_OPEN) else None, None
        for number, single in enumerate(_singles(entry)):
            name = f"{entry.at[0]}:{entry.at[1]}:{number}"
            attempt, origin = (dict(single.properties).get(each) for each in (ATTEMPT_HEADER, ORIGIN_HEADER))
            found.append(
                Message(name, name, single.value, _text(attempt), waiting, visible=visible, removed=removed, origin=_text(origin))
            )
    return tuple(found)


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

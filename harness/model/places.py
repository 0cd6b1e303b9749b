"""Where copies are: the place of a copy, what a stored copy waits for, and why a broker removes a
copy.

A *place* is the broker's own name for one copy, as a text. Only the broker's observer interprets
it. In a log it is partition, leader epoch and offset; in a queue the broker's message number, or
the message's position in the journal. It is never a message id that a program has made: if the
program sends the record again, the second copy has the same message id, but another place.

When the system is at rest, its observer decides what each copy *waits* for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypedDict

NOWHERE: Final = -1
"""Stands for a missing offset or epoch."""


class Waiting(StrEnum):
    """What a copy waits for."""

    READY = "ready"
    """The copy waits to be given to a consumer."""
    IN_FLIGHT = "in-flight"
    """The copy waits for the acknowledgement of the consumer that has it."""
    SCHEDULED = "scheduled"
    """The copy waits for the time at which it is to be delivered."""
    OPEN = "open"
    """The copy waits for the end of the transaction in which it was sent."""
    PREPARED = "prepared"
    """The copy waits for the second phase (commit or rollback) of a prepared transaction."""


MOVABLE: Final = frozenset({Waiting.READY, Waiting.IN_FLIGHT, Waiting.SCHEDULED})
"""A consumer may still be given a copy that waits for one of these."""
UNDECIDED: Final = frozenset({Waiting.OPEN, Waiting.PREPARED})
"""Whether a copy that waits for one of these becomes visible depends on a transaction."""


class Removal(StrEnum):
    """Why a broker has taken a copy away."""

    ACK = "ack"
    """The copy was acknowledged. That alone does not mean that a consumer was given it."""
    EXPIRY = "expiry"
    DEAD_LETTER = "dead-letter"
    RETENTION = "retention"
    COMPACTION = "compaction"
    REJECT = "reject"
    LIMIT = "limit"
    """The copy was delivered too often, or its queue was full."""
    DUPLICATE = "duplicate"
    """The broker had another copy of the record."""
    PURGE = "purge"
    DELETED = "deleted"
    """Its topic was deleted."""


def in_log(
    partition: int | None, epoch: int | None, offset: int | None, topic: str | None = None
) -> str | None:
    """Return the place of a copy in a log; ``None`` without a partition or an offset. ``topic``: of
    several with such places.

    >>> in_log(2, 0, 17), in_log(2, 0, 17, "orders")
    ('2:0:17', 'orders/2:0:17')
    >>> in_log(-1, 0, -1)
    """
    if partition is None or offset is None or min(partition, offset) < 0:
        return None
    at = f"{topic}/{partition}" if topic else f"{partition}"
    return f"{at}:{NOWHERE if epoch is None else epoch}:{offset}"


class InLog(TypedDict):
    """Where a copy is in a log, as fields of a history line."""

    place: str | None
    partition: int
    epoch: int
    offset: int


def log_fields(partition: int, epoch: int, offset: int, topic: str | None = None) -> InLog:
    """Return the fields that give a copy's position in a log, for a history line about it.
    ``topic``: of several with such positions.

    >>> log_fields(2, 0, 17)
    {'place': '2:0:17', 'partition': 2, 'epoch': 0, 'offset': 17}
    """
    return {
        "place": in_log(partition, epoch, offset, topic),
        "partition": partition,
        "epoch": epoch,
        "offset": offset,
    }


def of_log(event: object) -> bool:
    """Say whether an event is about a position in a log. Events about a queue or a source name no
    partition.
    """
    return getattr(event, "partition", None) is not None


def waits_in_log(
    *, visible: bool, offset: int, stable: int | None, saved: int | None
) -> Waiting | None:
    """Return what a copy in a log waits for; ``None``: nothing.

    ``visible``: a reader of committed records sees the copy. ``stable``: the last stable offset of
    its log, ``None`` if unknown. ``saved``: the position saved by the log's reader, -1 if the
    reader has saved none; ``None`` if the log has no reader.

    >>> waits_in_log(visible=True, offset=7, stable=9, saved=7)
    <Waiting.READY: 'ready'>
    >>> waits_in_log(visible=False, offset=7, stable=7, saved=9)
    <Waiting.OPEN: 'open'>
    >>> waits_in_log(visible=True, offset=7, stable=9, saved=8)
    """
    if not visible:
        return Waiting.OPEN if stable is not None and offset >= stable else None
    return Waiting.READY if saved is not None and offset >= saved else None

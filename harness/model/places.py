"""Where copies are: the place of a copy, what a copy that stays waits for, and why one is taken away.

A *place* is the broker's own name for one copy, as a text: nobody but the broker's observer looks into it. In a log it is
partition, leader epoch and offset; in a queue the broker's message number, or where the message stands in the journal. It is
never a message id that a program has made: a record that is sent again has that again, and is a second copy.

What a copy *waits* for, the observer of its system decides, when the system is at rest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    Event = dict[str, Any]

NOWHERE: Final = -1
"""An offset that is none."""
LOG_NUMBERS: Final = dict.fromkeys(("partition", "epoch", "offset", "stable", "start", "end", "last_data"), int)
"""The fields of lines about a log that say where. No rule of counting reads them, and who does may rely on what they are."""


class Waiting(StrEnum):
    """What a copy waits for."""

    READY = "ready"
    """To be given to a consumer."""
    IN_FLIGHT = "in-flight"
    """For the acknowledgement of a consumer that has it."""
    SCHEDULED = "scheduled"
    """For its time."""
    OPEN = "open"
    """For the end of the transaction that it was sent in."""
    PREPARED = "prepared"
    """For the second phase of such a transaction."""


MOVABLE: Final = frozenset({Waiting.READY, Waiting.IN_FLIGHT, Waiting.SCHEDULED})
"""What a consumer may yet be given."""
UNDECIDED: Final = frozenset({Waiting.OPEN, Waiting.PREPARED})
"""What hangs on a transaction."""


class Removal(StrEnum):
    """Why a broker has taken a copy away."""

    ACK = "ack"
    """It was acknowledged. That alone does not mean that a consumer was given it."""
    EXPIRY = "expiry"
    DEAD_LETTER = "dead-letter"
    RETENTION = "retention"
    COMPACTION = "compaction"
    REJECT = "reject"
    LIMIT = "limit"
    """It was delivered too often, or its queue was full."""
    DUPLICATE = "duplicate"
    """The broker had another copy of it."""
    PURGE = "purge"


def in_log(partition: int | None, epoch: int | None, offset: int | None) -> str | None:
    """Return the place of a copy in a log; ``None`` where it has none.

    >>> in_log(2, 0, 17)
    '2:0:17'
    >>> in_log(-1, 0, -1)
    """
    if partition is None or offset is None or min(partition, offset) < 0:
        return None
    return f"{partition}:{NOWHERE if epoch is None else epoch}:{offset}"


def log_fields(partition: int, epoch: int, offset: int) -> dict[str, Any]:
    """Return the fields of a line about a copy in a log that say where it stands.

    >>> log_fields(2, 0, 17)
    {'place': '2:0:17', 'partition': 2, 'epoch': 0, 'offset': 17}
    """
    return {"place": in_log(partition, epoch, offset), "partition": partition, "epoch": epoch, "offset": offset}


def of_log(event: Event) -> bool:
    """Say whether an event is about somewhere in a log: one about a queue, or a source, names no partition."""
    return event.get("partition") is not None


def waits_in_log(*, visible: bool, offset: int, stable: int | None, saved: int | None) -> Waiting | None:
    """Return what a copy in a log waits for.

    ``visible``: a reader of committed records sees it. ``stable``: the last stable offset of its log, ``None`` where unknown.
    ``saved``: the position saved by the log's reader, ``None`` where nobody reads it; without any position it is -1.

    >>> waits_in_log(visible=True, offset=7, stable=9, saved=7)
    <Waiting.READY: 'ready'>
    >>> waits_in_log(visible=False, offset=7, stable=7, saved=9)
    <Waiting.OPEN: 'open'>
    >>> waits_in_log(visible=True, offset=7, stable=9, saved=8)
    """
    if not visible:
        return Waiting.OPEN if stable is not None and offset >= stable else None
    return Waiting.READY if saved is not None and offset >= saved else None


def placed(events: Iterable[Event]) -> list[Event]:
    """Return events as they are written today, whatever wrote them.

    Earlier histories say ``deleted`` where today's say ``removed``, and name no places: they are all of logs, of which a copy's
    place follows from its offset, and what it waits for from the last stable offset and the saved position. Of Classic's queues
    they say ``queue://`` where the wire read AMQP, and the broker does not.
    """
    events = [e | {"topic": e["topic"][len(_QUEUE) :]} if str(e.get("topic")).startswith(_QUEUE) else e for e in events]
    if all("place" in event for event in events if event["event"] in _PLACED):
        return events
    stable, saved = {}, {}
    for event in sorted(events, key=lambda each: int(each["t"])):
        if event["event"] == "log":
            stable[_log_of(event)] = event.get("stable")
        elif event["event"] == "position":
            saved[event.get("partition")] = event.get("offset")

    def now(event: Event) -> Event:
        if event["event"] not in _PLACED or "place" in event:
            return event
        place = in_log(event.get("partition"), event.get("epoch"), event.get("offset"))
        if event["event"] == "deleted":
            return event | {"event": "removed", "why": str(Removal.RETENTION), "place": place}
        if event["event"] != "stored":
            return event | {"place": place}
        read = saved.get(event.get("partition"), NOWHERE) if event.get("hop") == "topic" else None
        waiting = waits_in_log(
            visible=bool(event.get("visible")), offset=event.get("offset", NOWHERE), stable=stable.get(_log_of(event)), saved=read
        )
        return event | {"place": place, "waiting": None if waiting is None else str(waiting)}

    return [now(event) for event in events]


_QUEUE: Final = "queue://"
_PLACED: Final = frozenset({"stored", "deleted", "recorded", "absorbed"})


def _log_of(event: Event) -> tuple[Any, Any, Any]:
    return event.get("hop"), event.get("topic"), event.get("partition")

"""How readers moved: offsets with different records, positions that went back, and how long the
pipeline stood still.

No promise forbids any of this by itself. A reader that goes back may deliver a record twice, and
one that skips may lose one; the account counts those. This module shows how they came about.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.places import Removal
from harness.model.states import Hop
from harness.model.struck import first_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.history import History


@dataclass(frozen=True, slots=True)
class Movement:
    """How readers moved in one cell.

    ``inconsistent_offsets``: offsets at which readers, or the logs of replicas, had more than one
    record. ``backward_polls``: deliveries at a lower offset than an earlier one of the same reader,
    since it was assigned the partition. ``skipped``: visible records of the log that a reader was
    not given although it was given earlier and later ones. ``moved_again_s``: seconds from the
    fault, or from the first death that it caused, until a record was delivered that was sent after
    that; null if no such record was delivered. ``held_back_s``: how many seconds, at least, an open
    transaction kept readers from the records behind it; null if none did.
    """

    inconsistent_offsets: int = 0
    backward_polls: int = 0
    skipped: int = 0
    moved_again_s: float | None = None
    held_back_s: float | None = None
    stored_again: int = 0
    stored_again_recorded_once: int = 0

    def row(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


def counted(copies: Iterable[kinds.Stored]) -> Counter[str]:
    """Return how many of these copies are of each record."""
    return Counter(copy.record for copy in copies if copy.record is not None)


def movement_of(history: History, recordings: Mapping[str, int] | None = None) -> Movement:
    """Return how readers moved in a history. ``recordings``: how often the output has each record.

    Control records and records of aborted transactions are not visible: going past them skips
    nothing.
    """
    backward = skipped = 0
    visible = _visible(history)
    for offsets in _reads(history):
        given = set(offsets)
        backward += sum(_goes_back(offsets))
        highest, lowest = max(offsets), min(offsets)
        skipped += sum(
            lowest <= offset <= highest for offset in visible.get(offsets.partition, set()) - given
        )
    held = max((float(event.seconds) for event in history.of(kinds.HeldBack)), default=None)
    again = _stored_again(history, recordings or {})
    return Movement(
        _inconsistent(history),
        backward,
        skipped,
        _moved_again(history),
        held,
        len(again),
        sum((recordings or {})[record] == 1 for record in again),
    )


def _stored_again(history: History, recordings: Mapping[str, int]) -> list[str]:
    """Return the offered records of which there is more than one visible copy on their way."""
    copies, _ = copies_between(history)
    times = counted(copy for copy in copies if copy.visible)
    return [record for record, count in times.items() if count > 1 and record in recordings]


class _Read(list[int]):
    """The offsets that one reader was given of one partition, in order, since it was
    assigned that.
    """

    partition: int


def _reads(history: History) -> Iterator[_Read]:
    """Every stretch of reading."""
    under_way: dict[tuple[str, int], _Read] = {}
    for event in history.of(kinds.Delivered, kinds.Ready):
        if isinstance(
            event, kinds.Ready
        ):  # assigned anew: where it goes on is decided by the saved position
            for key in [key for key in under_way if key[0] == event.by]:
                yield under_way.pop(key)
            continue
        if event.partition is None or event.offset is None:
            continue  # a queue has no order to go back in
        key = (event.by, event.partition)
        read = under_way.setdefault(key, _Read())
        read.partition = event.partition
        read.append(event.offset)
    yield from under_way.values()


def _goes_back(offsets: list[int]) -> Iterator[bool]:
    highest = -1
    for offset in offsets:
        yield offset < highest
        highest = max(highest, offset)


def _visible(history: History) -> dict[int, set[int]]:
    """The offsets of visible records per partition of the topic, at the end."""
    found: dict[int, set[int]] = {}
    for event in history.of(kinds.Stored):
        if event.hop == Hop.TOPIC and event.visible and event.partition is not None:
            found.setdefault(event.partition, set()).add(event.offset or 0)
    return found


def _inconsistent(history: History) -> int:
    """Offsets at which more than one record was seen: by readers, in the log at the end, or in the
    logs of replicas.
    """
    seen: dict[tuple[str | None, int, int | None], set[str]] = {}
    topic = next((e.topic for e in history.of(kinds.Stored) if e.hop == Hop.TOPIC), None)
    for event in history.of(kinds.Stored, kinds.Delivered, kinds.Replica):
        if event.record is not None and event.partition is not None:
            log = topic if isinstance(event, kinds.Delivered) else event.topic
            seen.setdefault((log, event.partition, event.offset), set()).add(event.record)
    return sum(len(records) > 1 for records in seen.values())


def _moved_again(history: History) -> float | None:
    """Seconds from the fault until something was delivered that was sent after it: source and sink,
    and all between, move.
    """
    fired = first_at(history, FaultPhase.FIRED)
    if fired is None:
        return None
    healed = first_at(history, FaultPhase.HEALED) or fired
    deaths = (e.t for e in history.of(kinds.Node) if e.signal == SIGKILL and fired < e.t < healed)
    since = min(deaths, default=fired)
    first: dict[str | None, int] = {}
    for sent in history.of(kinds.Sent):
        first.setdefault(sent.record, sent.t)
    for event in history.of(kinds.Delivered):
        if event.t > since and first.get(event.record, since) > since:
            return float(round((event.t - since) / 1e9, 3))
    return None


def copies_between(history: History) -> tuple[list[kinds.Stored], set[str]]:
    """Return the copies between producer and consumer, by their first place, and the records of
    which the broker had two.

    What the broker rejected as a duplicate is no copy.
    """
    copies = [e for e in history.of(kinds.Stored) if e.hop == Hop.TOPIC and e.record is not None]
    twice = [e for e in history.of(kinds.Removed) if e.why == Removal.DUPLICATE]
    places = {e.place for e in copies}
    later = {e.to for e in history.of(kinds.Moved) if e.place in places} | {e.place for e in twice}
    return [e for e in copies if e.place not in later], {
        e.record for e in twice if e.record is not None
    }

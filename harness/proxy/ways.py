"""What a proxy has seen of each record, from the wire's lines. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.identity import RecordSelector, whole_value
from harness.wire.rules import is_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.history import Event

NS = 1_000_000_000


@dataclass(slots=True)
class RecordPassage:
    """What was seen of one record. ``record``: key, headers and value, as JSON.

    ``sent``: how often it went to a broker. ``dropped``: how often a fault kept it from one.
    ``acknowledged``: how often its producer got the answer that it is stored. ``fetched``: how
    often a consumer got it. ``steps``: the same as text, in order.
    """

    record: str
    topic: str | None = None
    sent: int = 0
    dropped: int = 0
    acknowledged: int = 0
    fetched: int = 0
    steps: list[str] = field(default_factory=list)

    def is_of(self, named: object) -> bool:
        """Say whether this is the record that a test calls so: by fields of its value, else by its
        key, its value, or one field of its value.
        """
        if isinstance(named, dict):
            return RecordSelector(fields=named).fits(self.record)
        whole = json.loads(self.record)
        if isinstance(named, bytes | bytearray | memoryview):
            data = bytes(named)
            text = data.decode("utf-8", "backslashreplace")
        else:
            text = str(named)
            data = text.encode("utf-8", "surrogatepass")
        if text == whole["key"] or whole_value(data) == whole["value"]:
            return True
        try:
            value = json.loads(whole["value"] or "null")
        except ValueError:
            return False
        return isinstance(value, dict) and any(
            str(each) == text for each in value.values() if isinstance(each, str | int)
        )

    def told(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "record": json.loads(self.record),
            "topic": self.topic,
            "sent": self.sent,
            "dropped": self.dropped,
            "acknowledged": self.acknowledged,
            "fetched": self.fetched,
            "steps": self.steps,
        }


class _RecordPassages:
    """The way of each record, in the order in which they were first seen. In another topic an equal
    record is another one.
    """

    def __init__(self) -> None:
        self.all: list[RecordPassage] = []
        self._known: dict[tuple[str | None, str], RecordPassage] = {}
        """By topic and record; under no topic the newest of all."""
        self._asked: dict[tuple[str, str], RecordPassage] = {}

    def of(
        self, event: kinds.Sent | kinds.Unsent | kinds.ProduceAnswer | kinds.Fetched
    ) -> RecordPassage:
        """Return the way of an event's record. An answer is about the topic of its request."""
        if isinstance(event, kinds.ProduceAnswer):
            way = self._asked.get((event.request, event.record)) or self._way(event.record, None)
        else:
            way = self._way(event.record, event.topic)
        if isinstance(event, kinds.Sent | kinds.Unsent):
            self._asked[event.request, event.record] = way
        return way

    def _way(self, record: str, topic: str | None) -> RecordPassage:
        way, newest = self._known.get((topic, record)), self._known.get((None, record))
        if way is None and newest is not None and newest.topic is None:
            way, newest.topic = newest, topic
        if way is None:
            way = RecordPassage(record, topic)
            self.all.append(way)
        self._known[topic, record] = self._known[None, record] = way
        return way


class _ProgramConnections:
    """Tells by which connections the programs that are asked about speak."""

    def __init__(self, role: str | None, client: str | None) -> None:
        self._role, self._client = role, client
        self._theirs: set[int] = set()

    def of(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what they did."""
        for event in events:
            if isinstance(event, kinds.Conn):
                self._learn(event)
            elif self._did(event):
                yield event

    def _learn(self, conn: kinds.Conn) -> None:
        if conn.phase is ConnPhase.OPEN and (
            self._role in (None, conn.role)
            and (self._client is None or is_prefix(self._client, conn.client or ""))
        ):
            self._theirs.add(conn.conn)

    def _did(self, event: Event) -> bool:
        if self._role is None and self._client is None:
            return True
        if isinstance(event, kinds.Fetched):
            return event.conn in self._theirs
        request = getattr(event, "request", None)
        return request is not None and int(request.partition(":")[0]) in self._theirs


def ways(
    events: Iterable[Event],
    topic: str | None = None,
    *,
    role: str | None = None,
    client: str | None = None,
) -> list[RecordPassage]:
    """Return the way of every record, in the order in which records were first seen. ``topic``:
    only of records in this one; ``role``, ``client``: only what these programs did.
    """
    found = _RecordPassages()
    at: defaultdict[tuple[str | None, int], list[tuple[int, RecordPassage]]] = defaultdict(list)
    begin: int | None = None
    for event in _ProgramConnections(role, client).of(events):
        begin = event.t if begin is None else begin
        when = f"{(event.t - begin) / NS:.3f} s"
        match event:
            case kinds.Sent() | kinds.Unsent():
                way = found.of(event)
                where = f"{event.topic}/{event.partition}"
                if isinstance(event, kinds.Sent):
                    way.sent += 1
                    way.steps.append(f"{when}: sent to {where}")
                else:
                    way.dropped += 1
                    way.steps.append(
                        f"{when}: sent to {where}, and kept from the broker by a fault"
                    )
            case kinds.ProduceAnswer():
                way = found.of(event)
                way.acknowledged += bool(event.error == 0 and event.reached)
                what = (
                    f"stored at offset {event.offset}"
                    if event.error == 0
                    else f"refused by error {event.error}"
                )
                lost = "" if event.reached else ", and the answer was lost"
                way.steps.append(f"{when}: {what}{lost}")
            case kinds.Fetched():
                way = found.of(event)
                way.fetched += bool(event.reached)
                partition, offset = event.at or (-1, -1)
                at[event.topic, partition].append((offset, way))
                lost = "" if event.reached else ", and the answer was lost"
                way.steps.append(
                    f"{when}: fetched from {event.topic}/{partition} at offset {offset}{lost}"
                )
            case kinds.Committed():
                lost = "" if event.reached else ", and the request was lost"
                for offset, way in at[event.topic, event.partition]:
                    if offset == event.offset - 1:
                        way.steps.append(
                            f"{when}: position {event.offset} saved by {event.group}{lost}"
                        )
    return [way for way in found.all if topic is None or way.topic == topic]

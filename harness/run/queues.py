"""The queue of a cell, and what its history says of each message of it.

A broker of queues forgets acknowledged messages, so there is no log to read at the end. Its system
reads the broker's journal at rest: that tells what the broker stored. The broker itself counts the
messages that wait. The judge compares the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase, Outcome
from harness.model.places import Removal, Waiting
from harness.model.record import decode, decode_id
from harness.model.states import Hop
from harness.run.queue_broker import BROKER, Count, Creates, Message, QueueBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import HistoryWriter
    from harness.run.scene import CellScene
    from harness.run.stages import Reading


@dataclass
class Queue:
    """The queue of a cell and its dead letters; also the part of its ground that opens the cell on
    the wire.
    """

    scene: CellScene
    broker: QueueBroker
    _opened: bool = False
    _places: dict[str, str] = field(default_factory=dict)
    _told: dict[str | None, list[str]] = field(default_factory=dict)
    """Of a broker that names no copies: by record, the places of its copies that no result has."""

    @property
    def name(self) -> str:
        """The queue's name, as clients write it."""
        return self.broker.queue(f"{self.scene.cell.key}.in")

    def open(self) -> None:
        """Let the wire record the cell's frames."""
        cell = self.scene.cell
        own = () if cell.scenario.deployment.shared else self.broker.own_routes()
        self.broker.wire.open_cell(
            cell.id,
            cell.key,
            self.scene.history_folder / "wire.jsonl",
            routes=[route.name for route in own],
        )
        self._opened = True
        if isinstance(self.broker, Creates):
            self.broker.create(self.name, cell.pipeline)

    def close(self) -> None:
        """Let the wire stop recording for the cell."""
        if self._opened:
            self.broker.wire.close_cell(self.scene.cell.id)

    def trouble(self) -> str | None:
        """Say which messages wait in the queue, by the broker's own count or its journal, or return
        ``None``.
        """
        return what_waits(self.broker, self.name)

    def place_of(self, name: str, record: str | None) -> str | None:
        """Return the place of the copy that a client knows by this name; the name itself, if the
        journal does not know it.

        Some brokers tell their clients no name of a copy. Then each further result of a record is
        of a further copy, as long as the journal has one: what was stored twice is no second
        delivery.
        """
        called = self.broker.called(name)
        if called is None:
            return self._next_place(record)
        if called not in self._places:
            known = self.broker.messages(self.name)
            self._places = {
                each.name: each.place for each in known if each.removed is not Removal.DUPLICATE
            }
        return self._places.get(called, called)

    def _next_place(self, record: str | None) -> str | None:
        if not self._told:
            for each in self.broker.messages(self.name):
                if each.visible and each.removed is not Removal.DUPLICATE:
                    self._told.setdefault(decode_id(each.value), []).append(each.place)
        places = self._told.get(record, [])
        return places.pop(0) if len(places) > 1 else next(iter(places), None)

    def observe(self) -> None:
        """Write every copy that the queue and its dead letters have had, and how many the broker
        counts.
        """
        aside = self.broker.dead_letters(self.name)
        for hop, queue in ((Hop.TOPIC, self.name), (Hop.ASIDE, aside)):
            count = self.broker.count(queue)
            has = self._with_consumers() if hop is Hop.TOPIC else Counter()
            messages = self.broker.messages(queue)
            for message in messages:
                if message.whole:
                    self._tell(hop, queue, message, has)
            tell_loose(self.scene.history, hop, queue, messages)
            tell_count(self.scene.history, hop, queue, count)
        self._told.clear()  # a second observation names the results again

    def _with_consumers(self) -> Counter[str]:
        """Count the messages of each record that a consumer was given and has not refused, on
        connections that are open.
        """
        gone = closed_connections(self.scene)
        refused = Counter(
            e.record
            for e in self.scene.so_far.of(kinds.Acknowledged)
            if e.how == "nack"
            and e.outcome is None
            and e.reached
            and int(str(e.request).partition(":")[0]) not in gone
        )
        return Counter(e.record for e in on_open_connections(self.scene)) - refused

    def _tell(self, hop: Hop, queue: str, message: Message, has: Counter[str]) -> None:
        payload = decode(message.value)
        ours_ = payload is not None and payload.cell_key == self.scene.cell.key
        record, waiting = payload.record if payload and ours_ else None, message.waiting
        if waiting is Waiting.READY and record is not None and has[record]:
            has[record] -= 1
            waiting = Waiting.IN_FLIGHT
        tell_message(
            self.scene.history,
            hop,
            queue,
            message,
            record=record,
            waiting=waiting,
            intact=bool(payload and ours_ and payload.intact),
        )


def what_waits(broker: QueueBroker, queue: str) -> str | None:
    """Say which messages wait in a queue, by the broker's own count or its journal, or return
    ``None``.

    Raises:
        OSError: the broker does not answer.
    """
    count = broker.count(queue)
    if count != Count():
        return (
            f"{count.ready} messages are ready, {count.in_flight} in flight, {count.scheduled} "
            "scheduled"
        )
    waits = [message for message in broker.messages(queue) if message.waiting is not None]
    return (
        (
            f"in the journal {len(waits)} messages wait, the first at {waits[0].place} "
            f"({waits[0].waiting})"
        )
        if waits
        else None
    )


def tell_message(
    history: HistoryWriter,
    hop: Hop,
    queue: str,
    message: Message,
    *,
    record: str | None,
    waiting: Waiting | None,
    intact: bool,
    key: str | None = None,
    foreign: bool = False,
    text: str | None = None,
) -> None:
    """Write the history lines of one message of a queue: its record, what it waits for, and what
    became of it.
    """
    history.write(
        kinds.Stored(
            hop=hop,
            queue=queue,
            place=message.place,
            waiting=waiting,
            record=record,
            visible=message.visible,
            attempt=message.attempt,
            key=key,
            intact=intact,
            foreign=foreign,
            text=text,
            parts=message.parts,
            counts=message.counts,
        )
    )
    if message.removed is not None:
        history.write(kinds.Removed(place=message.place, record=record, why=message.removed))
    if message.moved is not None:
        history.write(
            kinds.Moved(place=message.place, to=message.moved, record=record, why=message.why)
        )


def tell_loose(history: HistoryWriter, hop: Hop, queue: str, messages: Iterable[Message]) -> None:
    """Write the history lines of waiting parts of incomplete messages, which the broker counts as
    messages.
    """
    for message in messages:
        if not message.whole:
            tell_message(
                history,
                hop,
                queue,
                message,
                record=None,
                waiting=message.waiting,
                intact=False,
                foreign=True,
            )


def tell_count(history: HistoryWriter, hop: Hop, queue: str, count: Count) -> None:
    """Write how many messages a broker counts in a queue."""
    history.write(
        kinds.Counted(
            hop=hop,
            queue=queue,
            ready=count.ready,
            in_flight=count.in_flight,
            scheduled=count.scheduled,
        )
    )


@dataclass
class Readers:
    """The reading processes, and the messages on their way to them: the broker does not know about
    those.
    """

    scene: CellScene
    reading: Reading

    def trouble(self) -> str | None:
        """Say which message has arrived at a living reader that has not reported it, or return
        ``None``.

        A library may return a message that its program has not seen, and get it again. If the
        program has reported the record once, and acknowledged it since it last arrived, then
        nothing is on its way.

        Raises:
            StageEndedError: a reader that should live has ended.
        """
        if trouble := self.reading.trouble():
            return trouble
        told = Counter(str(e.record) for e in self.scene.so_far.of(kinds.Delivered))
        came = [e for e in on_open_connections(self.scene) if e.reached]
        last = {e.record: e.t for e in came}
        acknowledged = self.scene.so_far.of(kinds.Acknowledged)
        taken = [e for e in acknowledged if e.outcome == Outcome.TAKEN]
        done = {e.record for e in taken if told[e.record] and e.t > last.get(e.record, e.t)}
        late = Counter(e.record for e in came if e.record not in done) - told
        return (
            f"{next(iter(late))} has arrived at its reader, which has not reported it"
            if late
            else None
        )


def on_open_connections(scene: CellScene) -> Iterable[kinds.Fetched]:
    """Yield the ``fetched`` events of messages that the broker has sent on connections which are
    still open.
    """
    gone = closed_connections(scene)
    return (e for e in scene.so_far.of(kinds.Fetched) if e.conn not in gone)


def closed_connections(scene: CellScene) -> set[int]:
    """Return the numbers of the connections that the wire has seen closed."""
    return {e.conn for e in scene.so_far.of(kinds.Conn) if e.phase == ConnPhase.CLOSE}


__all__ = ["BROKER", "Count", "Message", "Queue", "QueueBroker", "Readers"]

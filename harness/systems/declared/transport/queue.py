"""A queue between the stages: acknowledged messages are gone from it, and its broker's journal says
what it held.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from harness.model.places import Waiting
from harness.model.states import Hop
from harness.run.drain import Check
from harness.run.queue_broker import UNANSWERED
from harness.run.queues import (
    on_open_connections,
    tell_count,
    tell_loose,
    tell_message,
    what_waits,
)
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.results.dead_letters import dead_queue
from harness.systems.declared.results.ends import SourceAndOutput
from harness.systems.declared.results.matcher import ROW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.run.queue_broker import Count, Message, QueueBroker
    from harness.systems.declared.results.matcher import RecordMatcher, Result
    from harness.systems.declared.scene import Scene

UNACKNOWLEDGED_S = 15.0
"""How long (seconds) an idle consumer may leave messages unacknowledged that it has worked on, in a
run without a fault.
"""


class Queue:
    """A queue between stages. Implements
    :class:`harness.systems.declared.transport.interface.Transport`.
    """

    unanswered: tuple[type[Exception], ...] = UNANSWERED

    def __init__(self, scene: Scene, matcher: RecordMatcher) -> None:
        self._scene = scene
        self._matcher = matcher
        self._ends = SourceAndOutput(scene, matcher)

    @property
    def tail(self) -> bool:
        """Always false: the drain waits for every message in the queue."""
        return False

    @property
    def _broker(self) -> QueueBroker:
        return self._scene.queues

    @property
    def _name(self) -> str:
        return self._broker.queue(self._scene.pipeline.topic)

    def begin(self) -> None:
        """Note what earlier cells of this broker have left: it is not this cell's."""
        self._scene.leftovers.note(self._broker, self._name, dead_queue(self._scene))

    def checks(self) -> Sequence[Check]:
        """Return the check that the queue is empty."""
        return (Check("queue", self.trouble, costly=True),)

    def settled(self) -> bool:
        """Say whether no message waits in the queue."""
        return what_waits(self._broker, self._name) is None

    def trouble(self) -> str | None:
        """Say what waits in the queue, or return ``None``.

        Raises:
            StageError: in a run without a fault the consumer does not acknowledge what it has
                worked on.
        """
        waits, count = what_waits(self._broker, self._name), self._broker.count(self._name)
        if self._scene.faultless and count.in_flight and not count.ready and self._keeps_quiet():
            raise StageError(
                f"the consumer did not acknowledge {count.in_flight} messages in "
                f"{UNACKNOWLEDGED_S:g} s: after a restart the broker would deliver them all "
                "again; let the consumer acknowledge each message when its work is done",
                "queue",
            )
        return waits

    def _keeps_quiet(self) -> bool:
        """Whether the consumer is idle, and has not acknowledged a record that is in the output. A
        slow one still works.
        """
        seen = self._scene.records_seen
        if time.monotonic() - seen.last / 1e9 <= UNACKNOWLEDGED_S:
            return False
        try:
            return bool({*self._matcher.ids()} & self._scene.known.keys() - seen.acknowledged())
        except OutputError:
            return False

    def refused(self) -> str | None:
        """Return ``None``: a refused client gets an ERROR, and its connection ends."""
        return None

    def members(self) -> int:
        """Return 0: a queue has no groups."""
        return 0

    def observe(self) -> None:
        """Ask every authority: first what waits, then the output, and the broker's journal last."""
        scene, broker, name = self._scene, self._broker, self._name
        aside = dead_queue(scene)
        queues = {Hop.TOPIC: name, Hop.ASIDE: aside}
        ours = scene.leftovers
        counts = {hop: ours.count(broker, queue) for hop, queue in queues.items()}
        asked_at = time.monotonic_ns()
        rows = self._matcher.rows()
        self._ends.observe_read(asked_at, self._matcher.seen)
        found = self._matcher.results_in(rows) if self._matcher.totals is None else []
        self._matcher.check_ids(ROW, found)
        held = {hop: ours.messages(broker, queue) for hop, queue in queues.items()}
        self._ends.observe_source()
        origins = self._observe_queue(Hop.TOPIC, name, held[Hop.TOPIC], counts[Hop.TOPIC])
        self._observe_queue(Hop.ASIDE, aside, held[Hop.ASIDE], counts[Hop.ASIDE])
        self._ends.observe_invariants()
        if self._matcher.totals is not None:
            self._ends.observe_totals(self._matcher.totals, rows, stored=bool(held[Hop.TOPIC]))
            return
        if scene.faultless:
            self.check_kept(found, origins)
            self._ends.learn(found, stored=bool(held[Hop.TOPIC]))
        self._ends.observe_results(found, origins, nowhere={"place": None})

    def check_kept(
        self, found: Sequence[Result], origins: Mapping[str | None, Sequence[object]]
    ) -> None:
        """Raise StageError if the output has a record that the broker's journal never held."""
        missing = [
            result.record
            for result in found
            if result.record in self._scene.known and result.record not in origins
        ]
        if missing:
            raise StageError(
                f"{len(missing)} records are in the output but were never in the broker's "
                f"journal, such as {missing[0]}: the producer sends non-persistent messages, "
                "which are lost when the broker dies; let it send persistent ones (over STOMP, "
                "the header persistent:true)"
            )

    def _observe_queue(
        self, hop: Hop, queue: str, messages: Sequence[Message], count: Count
    ) -> dict[str | None, list[dict[str, Any]]]:
        """Write every copy that a queue has held; return the places of the visible copies, by
        record.
        """
        scene, whole = self._scene, [message for message in messages if message.whole]
        results = [self._matcher.in_message(message.value) for message in whole]
        self._matcher.check_ids(f"message of {queue}", results)
        if hop is Hop.TOPIC and scene.faultless:
            seen = zip(results, whole, strict=True)
            self._matcher.check_input(
                [result.record for result, message in seen if message.visible]
            )
        has = (
            Counter(e.record for e in on_open_connections(scene))
            if hop is Hop.TOPIC
            else Counter[str]()
        )
        origins: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for result, message in zip(results, whole, strict=True):
            if message.visible:
                origins[result.record].append({"place": message.place})
            self._tell(hop, queue, message, result, has)
        tell_loose(scene.history, hop, queue, messages)
        tell_count(scene.history, hop, queue, count)
        return origins

    def _tell(
        self, hop: Hop, queue: str, message: Message, result: Result, has: Counter[str]
    ) -> None:
        record, waiting = result.record, message.waiting
        if waiting is Waiting.READY and record is not None and has[record]:
            has[record] -= 1
            waiting = Waiting.IN_FLIGHT
        known = self._scene.known
        tell_message(
            self._scene.history,
            hop,
            queue,
            message,
            record=record,
            key=known[record].key if record in known else None,
            waiting=waiting,
            intact=record is not None,
            foreign=record is None and self._scene.pipeline.id is None,
            text=self._ends.shown(result),
        )

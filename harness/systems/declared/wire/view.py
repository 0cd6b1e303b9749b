"""Summarise what the wire saw of a cell, line by line: there may be many lines, and the summary is
read often.

The lines come from a :class:`~harness.model.tail.SoFar`, in the order in which the wire wrote them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.pipelines.dialects import KAFKA
from harness.protocols.kafka.codec import is_unresolved
from harness.systems.declared.wire.firsts import FirstSteps
from harness.systems.declared.wire.sends import Sends
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.pipelines.dialects import Dialect

INTERNAL = "__"
"""The prefix of Kafka's internal topics."""


class WireView:
    """What the wire has seen of records, topics, groups and answers so far. Safe to use from
    several threads.
    """

    def __init__(
        self, so_far: SoFar, dialect: Dialect = KAFKA, known: Collection[str] = frozenset()
    ) -> None:
        """``known``: the ids of the load's records. Only these count as :meth:`firsts`."""
        self._so_far = so_far
        self._sending, self._answering = dialect.sends, dialect.answers
        self._reads = dialect.reads[0].label, dialect.reads[1]
        self._ends = None if dialect.ends is None else (dialect.ends[0].label, dialect.ends[1])
        self._lock = threading.Lock()
        self._firsts = FirstSteps(known)
        self._sends = Sends()
        self._read = 0
        self._moments: list[int] = []
        self._role_of: dict[int, str] = {}
        self._topics: set[str] = set()
        self._given: set[str] = set()
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._positions: set[tuple[str | None, str | None, int, int]] = set()
        self._closed: set[int] = set()
        self._steps: set[tuple[str, str]] = set()
        self._asked: set[tuple[str, str | None]] = set()
        self._fetched: dict[str, int] = {}
        self._told_ends: dict[str, int] = {}
        self._reached: dict[str, dict[int, int]] = defaultdict(dict)
        self._arrived: dict[str, int] = {}

    def moments(self, since: int = 0) -> list[int]:
        """Return the times (monotonic ns) at which something about a record was seen, without the
        first ``since`` times.

        A position that was saved before does not count: clients save the same position again and
        again.
        """
        with self._lock:
            self._look()
            return self._moments[since:]

    @property
    def last(self) -> int:
        """When something about a record was last seen (monotonic ns); 0: never."""
        return max(self.moments()[-1:], default=0)

    def firsts(self) -> int:
        """Return how often a record of the load was seen to do something in a topic for the first
        time, or a stage saved a position that was ahead of all before.
        """
        with self._lock:
            self._look()
            return self._firsts.count

    def acknowledged(self) -> set[str]:
        """Return the records of which a consumer's acknowledgement reached the broker."""
        with self._lock:
            self._look()
            return self._firsts.did(kinds.ACKNOWLEDGED)

    def tried(self, since: int = 0) -> set[str]:
        """Return the records that were in a request since a time (monotonic ns), whatever happened
        to the request.
        """
        with self._lock:
            self._look()
            return {record for record, at in self._sends.tried.items() if at > since}

    def readable(self) -> set[str]:
        """Return the records that went to a broker, except those in a transaction that no client
        has asked to end.
        """
        with self._lock:
            self._look()
            return set(self._sends.readable)

    def topics(self) -> set[str]:
        """Return the topics in which records were seen, declared or not."""
        with self._lock:
            self._look()
            return set(self._topics)

    def read_topics(self) -> set[str]:
        """Return the topics with records that a stage reads."""
        with self._lock:
            self._look()
            return set(self._given)

    def stepped(self, role: str, step: str) -> bool:
        """Say whether a stage has done a step with a record; ``step`` is the kind of the history
        line.
        """
        with self._lock:
            self._look()
            return (role, step) in self._steps

    def asked(self, role: str, api: str) -> bool:
        """Say whether a stage has made a request of this API."""
        with self._lock:
            self._look()
            return (role, api) in self._asked

    def fetched(self, role: str) -> int:
        """Return when a stage last fetched or subscribed (monotonic ns); 0: never."""
        with self._lock:
            self._look()
            return self._fetched.get(role, 0)

    def told_ends(self, role: str) -> int:
        """Return when a stage was last told where the log begins or ends (monotonic
        ns); 0: never.
        """
        with self._lock:
            self._look()
            return self._told_ends.get(role, 0)

    def reached(self, topic: str) -> dict[int, int]:
        """Return the highest offset that any reader of a topic was given, for each partition with
        such an offset.
        """
        with self._lock:
            self._look()
            return dict(self._reached[topic])

    def forget(self, topic: str) -> None:
        """Forget how far a topic was read: it was deleted, and made anew."""
        with self._lock:
            self._look()
            self._reached.pop(topic, None)
            self._arrived.pop(topic, None)
            self._positions = {each for each in self._positions if each[1] != topic}

    def given(self, topic: str) -> int:
        """Return when any reader of a topic was last given a record (monotonic ns); 0: never."""
        with self._lock:
            self._look()
            return self._arrived.get(topic, 0)

    def refused(self, *errors: int) -> set[str]:
        """Return the ids of requests with records that were answered with one of these errors."""
        with self._lock:
            self._look()
            return self._sends.refused(*errors)

    def groups(self, role: str) -> set[str]:
        """Return the groups for which a stage saved positions."""
        with self._lock:
            self._look()
            return set(self._groups[role])

    def is_open(self, conn: int) -> bool:
        """Say whether a connection is open: the wire has not seen its end."""
        with self._lock:
            self._look()
            return conn not in self._closed

    def unacknowledged(self, role: str) -> int:
        """Return how many records a stage has sent without an answer: the stage may send them
        again.
        """
        with self._lock:
            self._look()
            return self._sends.unacknowledged(role)

    def unanswered(self, role: str) -> int:
        """Return how many sends of a stage wait for their answer, on connections that are open.

        For a stage that never got an answer this is 0: it may use acks=0.
        """
        with self._lock:
            self._look()
            return self._sends.unanswered(role, self._role_of)

    # --- inside -----------------------------------------------------------------------------------

    def _look(self) -> None:
        new = self._so_far.events(self._read)
        self._read += len(new)
        for event in new:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case kinds.Frame():
                self._take_frame(event)
            case kinds.Conn():
                self._take_connection(event)
            case kinds.Sent() | kinds.Unsent():
                self._take_sent(event)
            case kinds.ProduceAnswer():
                self._take_answer(event)
            case kinds.Ending():
                self._take_ending(event)
            case kinds.Fetched():
                self._take_fetched(event)
            case kinds.Committed():
                self._take_position(event)
            case kinds.Acknowledged():
                self._take_acknowledged(event)

    def _take_connection(self, event: kinds.Conn) -> None:
        if event.phase == ConnPhase.OPEN:
            self._role_of[event.conn] = event.role or ""
        elif event.phase == ConnPhase.CLOSE:
            self._sends.closed(event.conn)
            self._closed.add(event.conn)

    def _take_frame(self, event: kinds.Frame) -> None:
        conn, role, step = event.conn, event.role, (event.api, event.dir)
        if conn is None or role is None:  # the wire always names them
            return
        self._role_of.setdefault(conn, role)
        self._asked.add((role, event.api))
        if step == self._reads:
            self._fetched[role] = event.t
        elif step == self._ends:
            self._told_ends[role] = event.t
        if event.dir == Direction.REQUEST:
            if event.api in self._sending and event.answered is not False:
                self._sends.requested(conn, event.corr)
        elif event.api in self._answering:
            self._sends.answered(role, conn, event.corr)

    def _take_sent(self, event: kinds.Sent | kinds.Unsent) -> None:
        self._moments.append(event.t)
        self._see(event.topic)
        role = self._role(event.request)
        self._sends.sent(role, event)
        if isinstance(event, kinds.Sent):
            self._firsts.met(role, event.topic, event.record)
            self._firsts.note(event.event, role, event.topic, event.record)

    def _take_answer(self, event: kinds.ProduceAnswer) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        self._steps.add((role, event.event))
        topic = self._sends.acknowledged(role, event)
        if topic is not None:
            self._firsts.note(event.event, role, topic, event.record)

    def _take_ending(self, event: kinds.Ending) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        self._steps.add((role, event.event))
        if self._sends.ended(role, event):
            self._firsts.note_in_some_topic(event.event, role, event.record)

    def _take_fetched(self, event: kinds.Fetched) -> None:
        self._moments.append(event.t)
        self._see(event.topic)
        role = "" if event.conn is None else self._role_of.get(event.conn, "")
        self._steps.add((role, event.event))
        topic = event.topic
        if topic is not None:
            self._given.add(topic)
        if not event.reached:
            return
        self._firsts.met(role, topic, event.record)
        self._firsts.note(event.event, role, topic, event.record)
        if topic is None:
            return
        self._arrived[topic] = event.t
        if event.at is not None:
            partition, offset = event.at
            self._reached[topic][partition] = max(offset, self._reached[topic].get(partition, -1))

    def _take_acknowledged(self, event: kinds.Acknowledged) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        if event.reached:
            self._firsts.note_in_some_topic(event.event, role, event.record)
        self._steps.add((role, event.event))

    def _take_position(self, event: kinds.Committed) -> None:
        role = self._role(event.request)
        if event.group is not None:
            self._groups[role].add(event.group)
        self._steps.add((role, event.event))
        self._see(event.topic)
        if event.topic in self._topics:
            self._given.add(event.topic)
        position = (event.group, event.topic, event.partition, event.offset)
        self._firsts.note_position(role, *position)
        if position not in self._positions:
            self._positions.add(position)
            self._moments.append(event.t)

    def _see(self, topic: str | None) -> None:
        if topic is not None and not topic.startswith(INTERNAL) and not is_unresolved(topic):
            self._topics.add(topic)

    def _role(self, request: str | None) -> str:
        """Return the stage that has made a request; ``""`` if its connection is unknown."""
        return "" if request is None else self._role_of.get(int(request.split(":")[0]), "")

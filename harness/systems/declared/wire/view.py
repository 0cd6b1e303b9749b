"""Summarise what the wire saw of a cell, line by line: there may be many lines, and the summary is
read often.

The lines come from a :class:`~harness.model.tail.SoFar`, in the order in which the wire wrote them.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.pipelines.dialects import KAFKA
from harness.protocols.kafka.codec import is_unresolved
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.pipelines.dialects import Dialect

    _OfRecord: TypeAlias = (
        kinds.Sent | kinds.ProduceAnswer | kinds.Ending | kinds.Fetched | kinds.Acknowledged
    )

INTERNAL = "__"
"""The prefix of Kafka's internal topics."""
MOST_TOPICS = 100
"""In how many topics steps count: a program may write into new ones for ever."""


class WireView:
    """What the wire has seen of records, topics, groups and answers so far. Safe to use from
    several threads.
    """

    def __init__(
        self, so_far: SoFar, dialect: Dialect = KAFKA, known: Collection[str] = frozenset()
    ) -> None:
        """``known``: the ids of the load's records. Only these count as :meth:`firsts`."""
        self._so_far = so_far
        self._known = known
        self._sends, self._answers = dialect.sends, dialect.answers
        self._reads = dialect.reads[0].label, dialect.reads[1]
        self._ends = None if dialect.ends is None else (dialect.ends[0].label, dialect.ends[1])
        self._lock = threading.Lock()
        self._read = 0
        self._moments: list[int] = []
        self._tried: dict[str, int] = {}
        self._role_of: dict[int, str] = {}
        self._topics: set[str] = set()
        self._given: set[str] = set()
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._positions: set[tuple[str | None, str | None, int, int]] = set()
        self._topic_of: dict[tuple[str, str], str | None] = {}
        self._open: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
        self._waiting: dict[int, dict[int | None, None]] = defaultdict(dict)
        self._answered: set[str] = set()
        self._closed: set[int] = set()
        self._steps: set[tuple[str, str]] = set()
        self._readable: set[str] = set()
        self._asked: set[tuple[str, str | None]] = set()
        self._fetched: dict[str, int] = {}
        self._told_ends: dict[str, int] = {}
        self._reached: dict[str, dict[int, int]] = defaultdict(dict)
        self._arrived: dict[str, int] = {}
        self._refused: dict[int | str, set[str]] = defaultdict(set)
        self._firsts: set[tuple[str, str, str | None, str]] = set()
        self._sent: set[tuple[str, str]] = set()
        self._met: dict[tuple[str, str], dict[str | None, None]] = defaultdict(dict)
        self._furthest: dict[tuple[str | None, str | None, int], int] = {}
        self._advanced = 0
        self._moves: Counter[tuple[str, str | None]] = Counter()
        self._counted: set[str | None] = set()

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

        It grows while the load gets on, and is bounded by the load, for each topic of the first
        :data:`MOST_TOPICS`. What is done again does not count, nor do records that a program makes
        up. A stage's positions in a topic count as often as the load has records: a program that
        sends again what it reads moves them for ever.
        """
        with self._lock:
            self._look()
            most = len(self._known)
            return self._advanced + sum(min(moves, most) for moves in self._moves.values())

    def acknowledged(self) -> set[str]:
        """Return the records of which a consumer's acknowledgement reached the broker."""
        with self._lock:
            self._look()
            return {step[-1] for step in self._firsts if step[0] == kinds.ACKNOWLEDGED}

    def tried(self, since: int = 0) -> set[str]:
        """Return the records that were in a request since a time (monotonic ns), whatever happened
        to the request.
        """
        with self._lock:
            self._look()
            return {record for record, at in self._tried.items() if at > since}

    def readable(self) -> set[str]:
        """Return the records that went to a broker, except those in a transaction that no client
        has asked to end.
        """
        with self._lock:
            self._look()
            return set(self._readable)

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

    def given(self, topic: str) -> int:
        """Return when any reader of a topic was last given a record (monotonic ns); 0: never."""
        with self._lock:
            self._look()
            return self._arrived.get(topic, 0)

    def refused(self, *errors: int) -> set[str]:
        """Return the ids of requests with records that were answered with one of these errors."""
        with self._lock:
            self._look()
            return set().union(*(self._refused[error] for error in errors))

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
            return len(self._open[role])

    def unanswered(self, role: str) -> int:
        """Return how many sends of a stage wait for their answer, on connections that are open.

        For a stage that never got an answer this is 0: it may use acks=0.
        """
        with self._lock:
            self._look()
            if role not in self._answered:
                return 0
            return sum(
                len(corrs)
                for conn, corrs in self._waiting.items()
                if self._role_of.get(conn) == role
            )

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
            self._waiting.pop(event.conn, None)
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
            if event.api in self._sends and event.answered is not False:
                self._waiting[conn][event.corr] = None
            return
        if event.api not in self._answers:
            return
        self._answered.add(role)
        waiting = self._waiting[conn]
        while (
            waiting and event.corr in waiting
        ):  # answers come in order: what was asked before gets none
            del waiting[next(iter(waiting))]

    def _take_sent(self, event: kinds.Sent | kinds.Unsent) -> None:
        self._moments.append(event.t)
        self._see(event.topic)
        self._tried[event.record] = event.t
        role = self._role(event.request)
        if isinstance(event, kinds.Sent):
            self._sent.add((role, event.record))
            self._met[role, event.record][event.topic] = None
            self._first(event, role, event.topic)
            if not event.transactional:
                self._readable.add(event.record)
        self._topic_of[event.request, event.record] = event.topic
        self._open[role].add((event.topic, event.record))

    def _take_answer(self, event: kinds.ProduceAnswer) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        self._steps.add((role, event.event))
        if event.error:
            self._refused[event.error].add(event.request)
        topic = self._topic_of.pop((event.request, event.record), None)
        if topic is not None and event.error == 0 and event.reached:
            self._open[role].discard((topic, event.record))
            self._first(event, role, topic)

    def _take_ending(self, event: kinds.Ending) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        self._steps.add((role, event.event))
        ends = self._open[role]
        if event.outcome is None:
            if (role, event.record) in self._sent:  # else a consumer has read it in the transaction
                ends.add(("", event.record))
            if event.reached:
                self._readable.add(event.record)
        elif event.reached:
            ends.discard(("", event.record))
            self._first_in_some_topic(event, role)

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
        self._met[role, event.record][topic] = None
        self._first(event, role, topic)
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
            self._first_in_some_topic(event, role)
        self._steps.add((role, event.event))

    def _take_position(self, event: kinds.Committed) -> None:
        role = self._role(event.request)
        if event.group is not None:
            self._groups[role].add(event.group)
        self._steps.add((role, event.event))
        self._see(event.topic)
        if event.topic in self._topics:
            self._given.add(event.topic)
        log = event.group, event.topic, event.partition
        if event.offset > self._furthest.get(log, 0):
            self._furthest[log] = event.offset
            self._moves[role, event.topic] += self._counts(event.topic)
        position = (*log, event.offset)
        if position not in self._positions:
            self._positions.add(position)
            self._moments.append(event.t)

    def _first(self, event: _OfRecord, role: str, topic: str | None) -> bool:
        first = event.event, role, topic, event.record
        if first in self._firsts:
            return False
        self._firsts.add(first)
        self._advanced += event.record in self._known and self._counts(topic)
        return True

    def _counts(self, topic: str | None) -> bool:
        if len(self._counted) < MOST_TOPICS:
            self._counted.add(topic)
        return topic in self._counted

    def _first_in_some_topic(self, event: kinds.Ending | kinds.Acknowledged, role: str) -> None:
        """Count a step that names no topic, at most once for each topic in which the stage sent the
        record or was given it.
        """
        for topic in self._met.get((role, event.record), ("",)):
            if self._first(event, role, topic):
                break

    def _see(self, topic: str | None) -> None:
        if topic is not None and not topic.startswith(INTERNAL) and not is_unresolved(topic):
            self._topics.add(topic)

    def _role(self, request: str | None) -> str:
        """Return the stage that has made a request; nothing if nobody knows its connection."""
        return "" if request is None else self._role_of.get(int(request.split(":")[0]), "")

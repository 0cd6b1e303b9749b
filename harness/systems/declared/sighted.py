"""What the wire's lines of a cell come to, kept up to date line by line: there may be many, and it is asked often.

The lines are those of a :class:`~harness.model.tail.SoFar`, which are the wire's in the order in which it has written them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import of_log
from harness.pipelines.dialects import KAFKA
from harness.protocols.kafka.codec import is_unresolved
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.pipelines.dialects import Dialect

INTERNAL = "__"
"""How the names of Kafka's own topics begin."""


class Sighted:
    """What was seen of records, topics, groups and answers so far. Safe to use from several threads."""

    def __init__(self, so_far: SoFar, dialect: Dialect = KAFKA) -> None:
        self._so_far = so_far
        self._sends, self._answers = dialect.sends, dialect.answers
        self._reads = dialect.reads[0].label, dialect.reads[1]
        self._lock = threading.Lock()
        self._read = 0
        self._moments: list[int] = []
        self._tried: dict[str, int] = {}
        self._role_of: dict[int, str] = {}
        self._topics: set[str] = set()
        self._given: set[str] = set()
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._positions: set[tuple[object, ...]] = set()
        self._topic_of: dict[tuple[str, str], str] = {}
        self._open: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._waiting: dict[int, dict[int, None]] = defaultdict(dict)
        self._answered: set[str] = set()
        self._closed: set[int] = set()
        self._steps: set[tuple[str, str]] = set()
        self._readable: set[str] = set()
        self._asked: set[tuple[str, str]] = set()
        self._fetched: dict[str, int] = {}
        self._reached: dict[str, dict[int, int]] = defaultdict(dict)
        self._arrived: dict[str, int] = {}
        self._refused: dict[int, set[str]] = defaultdict(set)

    def moments(self, since: int = 0) -> list[int]:
        """Return when something about a record was seen (monotonic ns), in order, but for the first ``since`` times.

        A position that was saved before says nothing new: clients save it again and again.
        """
        with self._lock:
            self._look()
            return self._moments[since:]

    @property
    def last(self) -> int:
        """When something about a record was seen last; 0: never."""
        return max(self.moments()[-1:], default=0)

    def tried(self, since: int = 0) -> set[str]:
        """Return the records that were in a request since a time, whatever became of it."""
        with self._lock:
            self._look()
            return {record for record, at in self._tried.items() if at > since}

    def readable(self) -> set[str]:
        """Return the records that have gone to a broker, but for those whose transaction nobody has asked to end yet."""
        with self._lock:
            self._look()
            return set(self._readable)

    def topics(self) -> set[str]:
        """Return the topics that records were seen in, declared or not."""
        with self._lock:
            self._look()
            return set(self._topics)

    def read_topics(self) -> set[str]:
        """Return those of them that a stage reads."""
        with self._lock:
            self._look()
            return set(self._given)

    def stepped(self, role: str, step: str) -> bool:
        """Say whether a stage was seen to do something with a record: ``step`` is the kind of line that says so."""
        with self._lock:
            self._look()
            return (role, step) in self._steps

    def asked(self, role: str, api: str) -> bool:
        """Say whether a stage was seen to make such a request."""
        with self._lock:
            self._look()
            return (role, api) in self._asked

    def fetched(self, role: str) -> int:
        """Return when a stage was seen to read last (monotonic ns): it fetched, or subscribed; 0: never."""
        with self._lock:
            self._look()
            return self._fetched.get(role, 0)

    def reached(self, topic: str) -> dict[int, int]:
        """Return the highest offset that any reader of a topic was given, of each partition where one was given anything."""
        with self._lock:
            self._look()
            return dict(self._reached[topic])

    def given(self, topic: str) -> int:
        """Return when any reader of a topic was given a record last (monotonic ns); 0: never."""
        with self._lock:
            self._look()
            return self._arrived.get(topic, 0)

    def refused(self, *errors: int) -> set[str]:
        """Return the requests with records that were answered by one of these errors."""
        with self._lock:
            self._look()
            return set().union(*(self._refused[error] for error in errors))

    def groups(self, role: str) -> set[str]:
        """Return the groups that a stage was seen to save positions of."""
        with self._lock:
            self._look()
            return set(self._groups[role])

    def is_open(self, conn: int) -> bool:
        """Say whether a connection was not seen to end."""
        with self._lock:
            self._look()
            return conn not in self._closed

    def unacknowledged(self, role: str) -> int:
        """Return how many records a stage has sent without an answer: it, or its successor, may send them again."""
        with self._lock:
            self._look()
            return len(self._open[role])

    def unanswered(self, role: str) -> int:
        """Return how many sends of a stage wait for their answer, on connections that are open.

        Of a stage that was never answered nobody knows that it asks to be (acks=0).
        """
        with self._lock:
            self._look()
            if role not in self._answered:
                return 0
            return sum(len(corrs) for conn, corrs in self._waiting.items() if self._role_of.get(conn) == role)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        new = self._so_far.events(self._read)
        self._read += len(new)
        for event in new:
            self._take(event)

    def _take(self, event: Event) -> None:
        take = {
            kinds.CONN: self._take_connection, kinds.FRAME: self._take_frame, kinds.SENT: self._take_sent,
            kinds.UNSENT: self._take_sent, kinds.PRODUCE_ANSWER: self._take_answer, kinds.ENDING: self._take_ending,
            kinds.FETCHED: self._take_fetched, kinds.COMMITTED: self._take_position,
            kinds.ACKNOWLEDGED: self._take_acknowledged,
        }.get(event["event"])  # fmt: skip
        if take is not None:
            take(event)

    def _take_connection(self, event: Event) -> None:
        if event["phase"] == "open":
            self._role_of[event["conn"]] = event["role"]
        elif event["phase"] == "close":
            self._waiting.pop(event["conn"], None)
            self._closed.add(event["conn"])

    def _take_frame(self, event: Event) -> None:
        conn = event["conn"]
        self._role_of.setdefault(conn, event["role"])
        self._asked.add((event["role"], event["api"]))
        if (event["api"], event["dir"]) == self._reads:
            self._fetched[event["role"]] = event["t"]
        if event["dir"] == Direction.REQUEST:
            if event["api"] in self._sends:
                self._waiting[conn][event["corr"]] = None
            return
        if event["api"] not in self._answers:
            return
        self._answered.add(event["role"])
        waiting = self._waiting[conn]
        while waiting and event["corr"] in waiting:  # answers come in order: what was asked before gets none
            del waiting[next(iter(waiting))]

    def _take_sent(self, event: Event) -> None:
        self._about(event)
        self._tried[event["record"]] = event["t"]
        if event["event"] == kinds.SENT and not event.get("transactional"):
            self._readable.add(event["record"])
        self._topic_of[event["request"], event["record"]] = event["topic"]
        self._open[self._role(event)].add((event["topic"], event["record"]))

    def _take_answer(self, event: Event) -> None:
        self._about(event)
        self._steps.add((self._role(event), event["event"]))
        if event["error"]:
            self._refused[event["error"]].add(event["request"])
        topic = self._topic_of.pop((event["request"], event["record"]), None)
        if topic is not None and event["error"] == 0 and event["reached"]:
            self._open[self._role(event)].discard((topic, event["record"]))

    def _take_ending(self, event: Event) -> None:
        self._about(event)
        self._steps.add((self._role(event), event["event"]))
        ends = self._open[self._role(event)]
        if event["outcome"] is None:
            ends.add(("", event["record"]))
            if event["reached"]:
                self._readable.add(event["record"])
        elif event["reached"]:
            ends.discard(("", event["record"]))

    def _take_fetched(self, event: Event) -> None:
        self._about(event)
        self._steps.add((self._role_of.get(event["conn"], ""), event["event"]))
        topic = event["topic"]
        self._given.add(topic)
        if event["reached"]:
            self._arrived[topic] = event["t"]
        if event["reached"] and of_log(event):
            partition = event["partition"]
            self._reached[topic][partition] = max(event["offset"], self._reached[topic].get(partition, -1))

    def _take_acknowledged(self, event: Event) -> None:
        self._about(event)
        self._steps.add((self._role(event), event["event"]))

    def _take_position(self, event: Event) -> None:
        self._groups[self._role(event)].add(event["group"])
        self._steps.add((self._role(event), event["event"]))
        position = (event["group"], event["topic"], event["partition"], event["offset"])
        self._see(event["topic"])
        if event["topic"] in self._topics:
            self._given.add(event["topic"])
        if position not in self._positions:
            self._positions.add(position)
            self._moments.append(event["t"])

    def _about(self, event: Event) -> None:
        self._moments.append(event["t"])
        if "topic" in event:
            self._see(event["topic"])

    def _see(self, topic: str) -> None:
        if not topic.startswith(INTERNAL) and not is_unresolved(topic):
            self._topics.add(topic)

    def _role(self, event: Event) -> str:
        return self._role_of.get(int(event["request"].split(":")[0]), "")

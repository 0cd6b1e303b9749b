"""What the wire has seen of records: sent, answered, delivered, acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.pipelines.dialects import KAFKA
from harness.systems.declared.wire.firsts import FirstSteps
from harness.systems.declared.wire.seen import SeenOnWire
from harness.systems.declared.wire.sends import Sends
from harness.systems.declared.wire.topics import HIDDEN
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.pipelines.dialects import Dialect


class RecordsOnWire(SeenOnWire):
    """How far the load has come, and which records may be sent again."""

    def __init__(
        self,
        so_far: SoFar,
        dialect: Dialect = KAFKA,
        known: Collection[str] = frozenset(),
        *,
        totals: bool = False,
    ) -> None:
        """``known``: the ids of the load's records. Only these count as :meth:`firsts`. ``totals``:
        what is sent may be the load's without an id of it.
        """
        super().__init__(so_far)
        self._sending, self._answering = dialect.sends, dialect.answers
        self._firsts, self._totals = FirstSteps(known), totals
        self._sends = Sends()
        self._moments: list[int] = []
        self._positions: set[tuple[str | None, str | None, int, int]] = set()
        self._topics: set[str | None] = set()
        """Where records were sent, or given to a stage."""

    def moments(self, since: int = 0) -> list[int]:
        """Return the times (monotonic ns) at which something about a record was seen, without the
        first ``since`` times.

        A position that was saved before does not count: clients save the same position again and
        again.
        """
        with self._up_to_date():
            return self._moments[since:]

    @property
    def last(self) -> int:
        """When something about a record was last seen (monotonic ns); 0: never."""
        return max(self.moments()[-1:], default=0)

    def firsts(self) -> int:
        """Return how often a record of the load was seen to do something in a topic for the first
        time, or a stage saved a position that was ahead of all before.
        """
        with self._up_to_date():
            return self._firsts.count

    def acknowledged(self) -> set[str]:
        """Return the records of which a consumer's acknowledgement reached the broker."""
        with self._up_to_date():
            return self._firsts.did(kinds.ACKNOWLEDGED)

    def tried(self, since: int = 0) -> set[str]:
        """Return the records that were in a request since a time (monotonic ns), whatever happened
        to the request.
        """
        with self._up_to_date():
            return {record for record, at in self._sends.tried.items() if at > since}

    def readable(self) -> set[str]:
        """Return the records that went to a broker, except those in a transaction that no client
        has asked to end.
        """
        with self._up_to_date():
            return set(self._sends.readable)

    def refused(self, *errors: int) -> set[str]:
        """Return the ids of requests with records that were answered with one of these errors."""
        with self._up_to_date():
            return self._sends.refused(*errors)

    def unacknowledged(self, role: str) -> int:
        """Return how many records a stage has sent without an answer: the stage may send them
        again.
        """
        with self._up_to_date():
            return self._sends.unacknowledged(role)

    def unanswered(self, role: str) -> int:
        """Return how many sends of a stage wait for their answer, on connections that are open.

        For a stage that never got an answer this is 0: it may use acks=0.
        """
        with self._up_to_date():
            return self._sends.unanswered(role, self._role_of)

    def forget(self, topic: str) -> None:
        """Forget the positions in a topic: it was deleted, and made anew."""
        with self._up_to_date():
            self._positions = {each for each in self._positions if each[1] != topic}

    def _take(self, event: Event) -> None:
        match event:
            case kinds.Frame():
                self._take_frame(event)
            case kinds.Conn(phase=ConnPhase.CLOSE):
                self._sends.closed(event.conn)
            case kinds.Sent() | kinds.Unsent():
                self._take_sent(event)
            case kinds.ProduceAnswer():
                self._take_answer(event)
            case kinds.Ending() | kinds.Acknowledged():
                self._take_end(event)
            case kinds.Fetched():
                self._take_fetched(event)
            case kinds.Committed():
                self._take_position(event)

    def _take_frame(self, event: kinds.Frame) -> None:
        conn, role = event.conn, event.role
        if conn is None or role is None:  # the wire always names them
            return
        if event.dir == Direction.REQUEST:
            # what a program says to itself, as a sink of Connect's does for ever, is no load
            told = event.records or self._totals
            if event.api in self._sending and event.answered is not False and told:
                self._sends.requested(conn, event.corr)
        elif event.api in self._answering:
            self._sends.answered(role, conn, event.corr)

    def _take_sent(self, event: kinds.Sent | kinds.Unsent) -> None:
        self._moments.append(event.t)
        self._topics.add(event.topic)
        role = self._role(event.request)
        self._sends.sent(role, event)
        if isinstance(event, kinds.Sent):
            self._firsts.met(role, event.topic, event.record)
            self._firsts.note(event.event, role, event.topic, event.record)

    def _take_answer(self, event: kinds.ProduceAnswer) -> None:
        self._moments.append(event.t)
        role = self._role(event.request)
        topic = self._sends.acknowledged(role, event)
        if topic is not None:
            self._firsts.note(event.event, role, topic, event.record)

    def _take_fetched(self, event: kinds.Fetched) -> None:
        self._moments.append(event.t)
        self._topics.add(event.topic)
        if event.reached:
            role = "" if event.conn is None else self._role_of.get(event.conn, "")
            self._firsts.met(role, event.topic, event.record)
            self._firsts.note(event.event, role, event.topic, event.record)

    def _take_end(self, event: kinds.Ending | kinds.Acknowledged) -> None:
        self._moments.append(event.t)
        role, reached = self._role(event.request), event.reached
        if self._sends.ended(role, event) if isinstance(event, kinds.Ending) else reached:
            self._firsts.note_in_some_topic(event.event, role, event.record)

    def _take_position(self, event: kinds.Committed) -> None:
        if str(event.topic).startswith(HIDDEN) and event.topic not in self._topics:
            return  # a program speaks to itself there
        position = (event.group, event.topic, event.partition, event.offset)
        self._firsts.note_position(self._role(event.request), *position)
        if position not in self._positions:
            self._positions.add(position)
            self._moments.append(event.t)

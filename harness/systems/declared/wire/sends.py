"""Follows what stages send: until the broker has answered, a stage may send it again."""

from __future__ import annotations

from collections import defaultdict

from harness.model import events as kinds


class Sends:
    """The records that stages have sent, the requests that carried them, and their answers."""

    def __init__(self) -> None:
        self.tried: dict[str, int] = {}
        """When each record was last in a request (monotonic ns), whatever became of the request."""
        self.readable: set[str] = set()
        """Records that went to a broker, except those in a transaction that no client has asked to
        end.
        """
        self._sent: set[tuple[str, str]] = set()
        self._topic_of: dict[tuple[str, str], str | None] = {}
        self._open: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
        self._waiting: dict[int, dict[int | None, None]] = defaultdict(dict)
        self._answered: set[str] = set()
        self._refused: dict[int | str, set[str]] = defaultdict(set)

    def unacknowledged(self, role: str) -> int:
        """Return how many records a stage has sent without an answer."""
        return len(self._open[role])

    def unanswered(self, role: str, role_of: dict[int, str]) -> int:
        """Return how many sends of a stage wait for their answer, on connections that are open.

        For a stage that never got an answer this is 0: it may use acks=0. ``role_of``: the stage of
        each connection.
        """
        if role not in self._answered:
            return 0
        return sum(len(each) for conn, each in self._waiting.items() if role_of.get(conn) == role)

    def refused(self, *errors: int) -> set[str]:
        """Return the ids of requests with records that were answered with one of these errors."""
        return set().union(*(self._refused[error] for error in errors))

    def requested(self, conn: int, corr: int | None) -> None:
        """Note a request that is to be answered."""
        self._waiting[conn][corr] = None

    def answered(self, role: str, conn: int, corr: int | None) -> None:
        """Note the answer to a request. Answers come in order: what was asked before gets none."""
        self._answered.add(role)
        waiting = self._waiting[conn]
        while waiting and corr in waiting:
            del waiting[next(iter(waiting))]

    def closed(self, conn: int) -> None:
        """Note the end of a connection: nothing is answered on it any more."""
        self._waiting.pop(conn, None)

    def sent(self, role: str, event: kinds.Sent | kinds.Unsent) -> None:
        """Note a record in a request, whether the wire passed the request on or not."""
        self.tried[event.record] = event.t
        if isinstance(event, kinds.Sent):
            self._sent.add((role, event.record))
            if not event.transactional:
                self.readable.add(event.record)
        self._topic_of[event.request, event.record] = event.topic
        self._open[role].add((event.topic, event.record))

    def acknowledged(self, role: str, event: kinds.ProduceAnswer) -> str | None:
        """Note the answer about a record, and return the topic that took the record in, if any."""
        if event.error:
            self._refused[event.error].add(event.request)
        topic = self._topic_of.pop((event.request, event.record), None)
        if topic is None or event.error != 0 or not event.reached:
            return None
        self._open[role].discard((topic, event.record))
        return topic

    def ended(self, role: str, event: kinds.Ending) -> bool:
        """Note the end of a transaction with a record, first asked for and then answered; say
        whether the answer reached the stage.
        """
        if event.outcome is None:
            if (role, event.record) in self._sent:  # else a consumer has read it in the transaction
                self._open[role].add(("", event.record))
            if event.reached:
                self.readable.add(event.record)
            return False
        if event.reached:
            self._open[role].discard(("", event.record))
        return bool(event.reached)

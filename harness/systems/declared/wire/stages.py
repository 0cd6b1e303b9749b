"""What the wire has seen of stages: what they have asked for and done, and their groups."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model import events as kinds
from harness.pipelines.dialects import KAFKA
from harness.systems.declared.wire.seen import SeenOnWire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.pipelines.dialects import Dialect

MS: Final = 1_000_000
Place: TypeAlias = tuple[str | None, int | None]
"""A topic, or a queue, and its partition; ``None``: the line names none."""


class StagesOnWire(SeenOnWire):
    """What each stage has done so far."""

    def __init__(self, so_far: SoFar, dialect: Dialect = KAFKA) -> None:
        super().__init__(so_far)
        self._reads = dialect.reads[0].label, dialect.reads[1]
        self._ends = None if dialect.ends is None else (dialect.ends[0].label, dialect.ends[1])
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._steps: set[tuple[str, str]] = set()
        self._asked: set[tuple[str, str | None]] = set()
        self._fetched: dict[str, int] = {}
        self._told_ends: dict[str, int] = {}
        self._timeouts: dict[str, tuple[str, int]] = {}
        self._open: dict[str, int] = {}
        self._places: dict[tuple[str, str], set[Place]] = defaultdict(set)
        """Where a stage was given a record, or else sent it; by the stage and the record."""
        self._given: set[tuple[str, str]] = set()
        self._moved: dict[str, dict[Place, int]] = defaultdict(dict)
        """When a stage last did something with a record of a place (monotonic ns)."""

    def stepped(self, role: str, step: str) -> bool:
        """Say whether a stage has done a step with a record; ``step`` is the kind of the history
        line.
        """
        with self._up_to_date():
            return (role, step) in self._steps

    def asked(self, role: str, api: str) -> bool:
        """Say whether a stage has made a request of this API."""
        with self._up_to_date():
            return (role, api) in self._asked

    def fetched(self, role: str) -> int:
        """Return when a stage last fetched or subscribed (monotonic ns); 0: never."""
        with self._up_to_date():
            return self._fetched.get(role, 0)

    def told_ends(self, role: str) -> int:
        """Return when a stage was last told where the log begins or ends (monotonic
        ns); 0: never.
        """
        with self._up_to_date():
            return self._told_ends.get(role, 0)

    def moved(self, role: str, records: Iterable[str], since: int, *, several: bool) -> bool:
        """Say whether a stage has done something since a time (monotonic ns), in each partition in
        which it had these records.

        Where no partition is known, or its readers share it, anything counts that it did; but
        nothing counts of a stage with ``several`` processes: the others of them may have done it.
        """
        with self._up_to_date():
            moved = self._moved[role]
            places = {place for record in records for place in self._places[role, record]}
            shared = (role, kinds.ACKNOWLEDGED) in self._steps
            if places and not shared and all(partition is not None for _, partition in places):
                return all(moved.get(place, 0) > since for place in places)
            return not several and max(moved.values(), default=0) > since

    def groups(self, role: str) -> set[str]:
        """Return the groups for which a stage saved positions."""
        with self._up_to_date():
            return set(self._groups[role])

    def transactions_end(self, role: str) -> int:
        """Return when the last of the transactions that a stage has open reaches its time-out
        (monotonic ns); 0: none is open.
        """
        with self._up_to_date():
            ends = (
                begun + self._timeouts[name][1]
                for name, begun in self._open.items()
                if name in self._timeouts and self._timeouts[name][0] == role
            )
            return max(ends, default=0)

    def is_open(self, conn: int) -> bool:
        """Say whether a connection is open: the wire has not seen its end."""
        with self._up_to_date():
            return conn not in self._closed

    def _take(self, event: Event) -> None:
        self._take_transaction(event)
        self._take_movement(event)
        match event:
            case kinds.Frame(conn=int(), role=str() as role):
                self._take_frame(event, role)
            case kinds.Fetched():
                role = "" if event.conn is None else self._role_of.get(event.conn, "")
                self._steps.add((role, event.event))
            case kinds.ProduceAnswer() | kinds.Ending() | kinds.Acknowledged():
                self._steps.add((self._role(event.request), event.event))
            case kinds.Committed():
                role = self._role(event.request)
                self._steps.add((role, event.event))
                if event.group is not None:
                    self._groups[role].add(event.group)

    def _take_movement(self, event: Event) -> None:
        """What did not reach a stage, or was answered to it, does not show that it is there."""
        of: Place = (None, None)
        match event:
            case kinds.Fetched(conn=int() as conn):
                role, of = self._role_of.get(conn, ""), (event.topic, event.partition)
                moves = event.reached
                self._given.add((role, event.record))
                self._places[role, event.record].add(of)
            case kinds.Sent() | kinds.Unsent():
                role, of = self._role(event.request), (event.topic, event.partition)
                moves = isinstance(event, kinds.Sent)
                if (role, event.record) not in self._given:  # else it may go to another partition
                    self._places[role, event.record].add(of)
            case kinds.Committed():
                role, of = self._role(event.request), (event.topic, event.partition)
                moves = True
            case kinds.Acknowledged():
                role, moves = self._role(event.request), event.reached
            case _:
                return
        if moves:
            self._moved[role][of] = event.t

    def _take_transaction(self, event: Event) -> None:
        match event:
            case (
                kinds.Sent(transactional_id=str() as name)
                | kinds.Committed(transactional_id=str() as name)
            ):
                self._open.setdefault(name, event.t)
            case (
                kinds.InitProducer(transactional_id=str() as name)
                | kinds.EndTxn(transactional_id=str() as name)
            ) if event.reached is not False:
                self._open.pop(name, None)
                if isinstance(event, kinds.InitProducer):
                    self._timeouts[name] = self._role(event.request), event.timeout_ms * MS

    def _take_frame(self, event: kinds.Frame, role: str) -> None:
        step = (event.api, event.dir)
        self._asked.add((role, event.api))
        if step == self._reads:
            self._fetched[role] = event.t
        elif step == self._ends:
            self._told_ends[role] = event.t

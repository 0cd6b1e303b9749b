"""The lines of a history about the way of records, found once for all records of a cell."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, TypeVar, cast

from harness.judge.deaths import how_it_ended
from harness.model import events as kinds
from harness.model.events import DrainPhase, FaultPhase, NodePhase
from harness.model.states import Hop
from harness.report.reading import record_of, records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.history import Event

AGAIN: Final = "was started again"
TOOK_OVER: Final = "took the place of another"
"""Text for a standby process, or one that was started while another process of its node was alive.
"""
Move: TypeAlias = kinds.Sent | kinds.Unsent | kinds.Fetched | kinds.Delivered
"""Events that say that a program sent a record or received it."""
E = TypeVar("E", bound=kinds.Event)
M = TypeVar("M", kinds.Sent, kinds.Fetched, kinds.Delivered)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A process of a node ended, was paused, or came back. ``how`` says which of these."""

    t: int
    role: str
    node: str
    how: str

    @property
    def who(self) -> str:
        """The node's role and name."""
        return named(self.role, self.node)


@dataclass(frozen=True, slots=True)
class Saved:
    """A position that a broker said it has saved for a group. ``t``: when it said so; of a position
    in a transaction, when it said that it commits this. ``role``: who asked. Role and group are
    empty where no line tells them.
    """

    t: int
    role: str
    group: str
    partition: int
    offset: int

    @property
    def words(self) -> str:
        """Name the position.

        >>> Saved(0, "consumer", "billing", 2, 7).words
        'position 7 of partition 2 for group billing'
        """
        group = f" for group {self.group}" if self.group else ""
        return f"position {self.offset} of partition {self.partition}{group}"


class Lines:
    """An index over the lines of a history."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.zero: int = events[0].t if events else 0
        self._of: dict[type[Event], list[Event]] = defaultdict(list)
        self._about: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self._of[type(event)].append(event)
            many = records_of(event)
            for record in [record_of(event)] if many is None else many:
                self._about[str(record)].append(event)
        owned: Iterable[kinds.Owner | kinds.OfFrame] = chain(
            self.of(kinds.Owner), self.of(kinds.Rule), self.of(kinds.Frame)
        )
        self._conns = {
            str(event.conn): event.role for event in owned if event.role and event.conn is not None
        }
        self._programs = {
            f"{event.node}-{event.incarnation}": event.role for event in self.of(kinds.Node)
        }
        self._nodes: dict[str, set[str]] = defaultdict(set)
        """By role, its nodes."""
        for node in self.of(kinds.Node):
            self._nodes[node.role].add(node.node)
        # the role of a connection: its requests name it, its answers do not
        for event in self.of(kinds.Sent):
            self._conns.setdefault(event.request.partition(":")[0], self.role(event))
        drained = (event.t for event in self.of(kinds.Drain) if event.phase != DrainPhase.BEGUN)
        self.rest: int = next(drained, events[-1].t + 1 if events else 0)
        """When the drain was over. Processes that end later are ended by lostack, to clean up."""
        fired = (event.t for event in self.of(kinds.Fault) if event.phase == FaultPhase.FIRED)
        self.fired: int | None = next(fired, None)
        self.turns = [turn for turn in self._turns() if turn.t < self.rest]
        self._positions: dict[tuple[str | None, int | None], list[Saved]] = defaultdict(list)
        for log, saved in sorted(self._saved(), key=lambda found: found[1].t):
            self._positions[log].append(saved)
        self.sends = self._by_role(self.of(kinds.Sent))
        """By role, what it sent."""
        self.watched = self._by_role([e for e in self.of(kinds.Fetched) if e.reached is not False])
        """By role, what it was given, as the wire saw it."""
        self.given: dict[str, Sequence[kinds.Fetched | kinds.Delivered]] = {
            **self._by_role(self.of(kinds.Delivered)),
            **self.watched,
        }
        """By role, what it was given: as the wire saw it, or if that saw nothing, as it says."""

    def of(self, kind: type[E]) -> list[E]:
        """Return the lines of a kind."""
        return cast("list[E]", self._of.get(kind, []))

    def about(self, record: str) -> list[Event]:
        """Return the lines about a record."""
        return self._about.get(record, [])

    def at(self, t: int) -> str:
        """Say when something happened, in seconds since the cell began."""
        return f"{(t - self.zero) / 1e9:.1f} s"

    def role(self, event: Event) -> str:
        """Return the role of the program that a line is about: by its connection, else by the
        program that it names. Empty if that is unknown.
        """
        asked = ""
        match event:
            case kinds.OfFrame() | kinds.Fetched():
                asked = str(event.conn)
            case kinds.OfSend() | kinds.ProduceAnswer() | kinds.Committed() | kinds.Acknowledged():
                asked = str(event.request).partition(":")[0]
        program = (attempt_of(event) or event.by).partition(".")[0]
        return self._conns.get(asked) or self._programs.get(program, "")

    def who(self, event: Event) -> str:
        """Name the program that a line is about. Where its role has several nodes and the line does
        not tell which it is, it is one of them.
        """
        role = self.role(event)
        node = (attempt_of(event) or event.by).partition(".")[0].rpartition("-")[0]
        if node in self._nodes[role] and len(self._nodes[role]) > 1:
            return named(role, node)
        return self.one_of(role)

    def one_of(self, role: str) -> str:
        """Name a program of a role."""
        return f"{'a' if self.are_several(role) else 'the'} {role}" if role else "a program"

    def are_several(self, role: str) -> bool:
        """Say whether a role has several nodes."""
        return len(self._nodes[role]) > 1

    def past(self, copy: kinds.Stored) -> list[Saved]:
        """Return of each group the first position that was saved behind a copy in a log."""
        found: dict[str, Saved] = {}
        for saved in self._positions.get((copy.topic, copy.partition), ()):
            if copy.offset is not None and saved.offset > copy.offset:
                found.setdefault(saved.group, saved)
        return list(found.values())

    def restarts(self, role: str) -> list[int]:
        """Return when programs of a role were started again, or took the place of others."""
        again = (turn for turn in self.turns if turn.how in (AGAIN, TOOK_OVER))
        return [turn.t for turn in again if turn.role == role]

    def _by_role(self, events: Iterable[M]) -> dict[str, list[M]]:
        """Return the lines by role; nothing if the role of one is unknown: it may be any."""
        found: dict[str, list[M]] = defaultdict(list)
        for event in events:
            found[self.role(event)].append(event)
        return {} if "" in found else found

    def _turns(self) -> Iterator[NodeChange]:
        ended = set()
        for event in self.of(kinds.Node):
            how = ""
            match event.phase:
                case NodePhase.STARTED if event.node in ended or event.incarnation > 1:
                    how = TOOK_OVER if event.stood_by or event.node not in ended else AGAIN
                    ended.discard(event.node)
                case NodePhase.EXITED:
                    ended.add(event.node)
                    if event.status != 0 or event.asked:
                        how = how_it_ended(event)  # status 0: the program had done all its work
                case NodePhase.PAUSED:
                    how = "was paused"
                case NodePhase.RESUMED:
                    how = "went on"
            if how:
                yield NodeChange(event.t, event.role, event.node, how)

    def _saved(self) -> Iterator[tuple[tuple[str | None, int | None], Saved]]:
        """Yield the positions that brokers said they have saved. If a request was refused, or no
        answer was seen, it is not known whether its position was saved.
        """
        granted = {_position(e): e.t for e in self.of(kinds.CommitAnswer) if e.error == 0}
        ends = self._ends()
        for event in self.of(kinds.Committed):
            t = None if event.reached is False else granted.get(_position(event))
            name = event.transactional_id
            if t is not None and name is not None:
                t = next((end for asked, end in ends.get(name, ()) if asked > event.t), None)
            if t is not None:
                at = event.partition, event.offset
                yield (
                    (event.topic, event.partition),
                    Saved(t, self.role(event), event.group or "", *at),
                )

    def _ends(self) -> dict[str, list[tuple[int, int | None]]]:
        """Return by transactional id when an end of its open transaction was asked for, and when a
        broker said that it commits it; ``None``: it was aborted. A new producer aborts it, too.
        """
        granted = {e.request: e.t for e in self.of(kinds.EndTxnAnswer) if e.error == 0}
        found: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for end in self.of(kinds.EndTxn):
            said = granted.get(end.request)
            if said is not None:
                found[end.transactional_id].append((end.t, said if end.commit else None))
        for start in self.of(kinds.InitProducer):
            if start.reached is not False:
                found[str(start.transactional_id)].append((start.t, None))
        return {name: sorted(ends, key=lambda end: end[0]) for name, ends in found.items()}


def named(role: str, node: str) -> str:
    """Return the words for a node of a role.

    >>> named("leader", "broker-2"), named("controller", "controller-4"), named("driver", "driver")
    ('the leader broker-2', 'controller-4', 'the driver')
    """
    if node.startswith(f"{role}-"):
        return node
    return f"the {role}{'' if node == role else f' {node}'}"


def in_topic(event: Event) -> TypeGuard[kinds.Stored]:
    """Whether a line is about a copy in a log between producer and consumer."""
    return isinstance(event, kinds.Stored) and event.hop == Hop.TOPIC and event.offset is not None


def attempt_of(event: Event) -> str | None:
    """Return the attempt that a line names."""
    match event:
        case kinds.OfSend() | kinds.Acked() | kinds.OfAttempt() | kinds.Stored() | kinds.Recorded():
            return event.attempt
    return None


def _position(event: kinds.Committed | kinds.CommitAnswer) -> tuple[object, ...]:
    """Name a position in a commit request. The line of its answer has the same name."""
    return event.request, event.topic, event.partition

"""The lines of a history that tell of a record's way, found once for all records of a cell."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.judge.deaths import how_it_ended
from harness.model import events as kinds
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.history import Event

AGAIN: Final = "was started again"
TOOK_OVER: Final = "took the place of another"
"""Of a process that had stood by, or that was started while another of its node lived."""


@dataclass(frozen=True, slots=True)
class Turn:
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
        self.zero: int = events[0]["t"] if events else 0
        self._of: dict[str, list[Event]] = defaultdict(list)
        self._about: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self._of[event["event"]].append(event)
            many = event.get("records")
            for record in many if isinstance(many, list) else [event.get("record")]:
                self._about[str(record)].append(event)
        self._conns = {
            str(event["conn"]): str(event["role"])
            for kind in (kinds.OWNER, kinds.RULE, kinds.FRAME)
            for event in self.of(kind)
            if event.get("role") and event.get("conn") is not None
        }
        self._programs = {
            f"{event.get('node')}-{event.get('incarnation')}": str(event.get("role"))
            for event in self.of(kinds.NODE)
        }
        self._nodes: dict[str, set[str]] = defaultdict(set)
        """By role, its nodes."""
        for event in self.of(kinds.NODE):
            self._nodes[str(event.get("role"))].add(str(event.get("node")))
        for event in self.of(kinds.SENT):  # what a connection's requests name, its answers do not
            self._conns.setdefault(str(event.get("request")).partition(":")[0], self.role(event))
        drained = (event["t"] for event in self.of(kinds.DRAIN) if event.get("phase") != "begun")
        self.rest: int = next(drained, events[-1]["t"] + 1 if events else 0)
        """When the drain was over. Processes that end later are ended by lostack, to clean up."""
        fired = (event["t"] for event in self.of(kinds.FAULT) if event.get("phase") == "fired")
        self.fired: int | None = next(fired, None)
        self.turns = [turn for turn in self._turns() if turn.t < self.rest]
        self._positions: dict[tuple[Any, Any], list[Saved]] = defaultdict(list)
        for log, saved in sorted(self._saved(), key=lambda found: found[1].t):
            self._positions[log].append(saved)
        self.sends = self._by_role(self.of(kinds.SENT))
        """By role, what it sent."""
        self.watched = self._by_role(self.arrived(self.of(kinds.FETCHED)))
        """By role, what it was given, as the wire saw it."""
        self.given = self._by_role(self.of(kinds.DELIVERED)) | self.watched
        """By role, what it was given: as the wire saw it, or if that saw nothing, as it says."""

    def of(self, kind: str) -> list[Event]:
        """Return the lines of a kind."""
        return self._of.get(kind, [])

    def about(self, record: str) -> list[Event]:
        """Return the lines about a record."""
        return self._about.get(record, [])

    @staticmethod
    def arrived(events: Iterable[Event]) -> list[Event]:
        """Return these lines but for those of frames that never arrived."""
        return [event for event in events if event.get("reached") is not False]

    def at(self, t: int) -> str:
        """Say when something happened, in seconds since the cell began."""
        return f"{(t - self.zero) / 1e9:.1f} s"

    def role(self, event: Event) -> str:
        """Return the role of the program that a line is about: by its connection, else by the
        program that it names. Empty if that is unknown.
        """
        conn, program = event.get("conn"), str(event.get("attempt") or event.get("by"))
        asked = str(event.get("request") if conn is None else conn).partition(":")[0]
        return self._conns.get(asked) or self._programs.get(program.partition(".")[0], "")

    def who(self, event: Event) -> str:
        """Name the program that a line is about. Where its role has several nodes and the line does
        not tell which it is, it is one of them.
        """
        role = self.role(event)
        node = str(event.get("attempt") or event.get("by")).partition(".")[0].rpartition("-")[0]
        if node in self._nodes[role] and len(self._nodes[role]) > 1:
            return named(role, node)
        return self.one_of(role)

    def one_of(self, role: str) -> str:
        """Name a program of a role."""
        return f"{'a' if self.are_several(role) else 'the'} {role}" if role else "a program"

    def are_several(self, role: str) -> bool:
        """Say whether a role has several nodes."""
        return len(self._nodes[role]) > 1

    def past(self, copy: Event) -> list[Saved]:
        """Return of each group the first position that was saved behind a copy in a log."""
        found: dict[str, Saved] = {}
        for saved in self._positions.get((copy.get("topic"), copy.get("partition")), ()):
            if saved.offset > copy["offset"]:
                found.setdefault(saved.group, saved)
        return list(found.values())

    def restarts(self, role: str) -> list[int]:
        """Return when programs of a role were started again, or took the place of others."""
        again = (turn for turn in self.turns if turn.how in (AGAIN, TOOK_OVER))
        return [turn.t for turn in again if turn.role == role]

    def _by_role(self, events: Iterable[Event]) -> dict[str, list[Event]]:
        """Return the lines by role; nothing if the role of one is unknown: it may be any."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            found[self.role(event)].append(event)
        return {} if "" in found else found

    def _turns(self) -> Iterator[Turn]:
        ended = set()
        for event in self.of(kinds.NODE):
            phase, node, how = event.get("phase"), str(event.get("node")), ""
            if phase == "started" and (node in ended or (event.get("incarnation") or 0) > 1):
                how = TOOK_OVER if event.get("stood_by") or node not in ended else AGAIN
                ended.discard(node)
            elif phase == "exited":
                ended.add(node)
                if event.get("status") != 0 or event.get("asked"):
                    how = how_it_ended(event)  # who has done all its work ends with status 0
            elif phase in ("paused", "resumed"):
                how = "was paused" if phase == "paused" else "went on"
            if how:
                yield Turn(event["t"], str(event.get("role")), node, how)

    def _saved(self) -> Iterator[tuple[tuple[Any, Any], Saved]]:
        """Yield the positions that brokers said they have saved. If a request was refused, or no
        answer was seen, it is not known whether its position was saved.
        """
        answers = self.of(kinds.COMMIT_ANSWER)
        granted = {_position(e): e["t"] for e in answers if e.get("error") == 0}
        ends = self._ends()
        for event in self.arrived(self.of(kinds.COMMITTED)):
            t: int | None = granted.get(_position(event))
            name = event.get("transactional_id")
            if t is not None and name is not None:
                t = next((end for asked, end in ends.get(name, ()) if asked > event["t"]), None)
            if t is not None:
                log = event.get("topic"), event.get("partition")
                at = int(event.get("partition") or 0), int(event.get("offset") or 0)
                yield log, Saved(t, self.role(event), str(event.get("group") or ""), *at)

    def _ends(self) -> dict[str, list[tuple[int, int | None]]]:
        """Return by transactional id when an end of its open transaction was asked for, and when a
        broker said that it commits it; ``None``: it was aborted. A new producer aborts it, too.
        """
        answers = self.of(kinds.END_TXN_ANSWER)
        granted = {e.get("request"): e["t"] for e in answers if e.get("error") == 0}
        found: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for event in (*self.of(kinds.END_TXN), *self.of(kinds.INIT_PRODUCER)):
            said = granted.get(event.get("request"))
            began = event["event"] == kinds.INIT_PRODUCER and event.get("reached") is not False
            if said is not None or began:
                committed = said if event.get("commit") else None
                found[str(event.get("transactional_id"))].append((event["t"], committed))
        return {name: sorted(ends, key=lambda end: end[0]) for name, ends in found.items()}


def named(role: str, node: str) -> str:
    """Return the words for a node of a role.

    >>> named("leader", "broker-2"), named("controller", "controller-4"), named("driver", "driver")
    ('the leader broker-2', 'controller-4', 'the driver')
    """
    if node.startswith(f"{role}-"):
        return node
    return f"the {role}{'' if node == role else f' {node}'}"


def in_topic(event: Event) -> bool:
    """Say whether a line tells of a copy in a log between producer and consumer."""
    here = event["event"] == kinds.STORED and event.get("hop") == Hop.TOPIC
    return here and event.get("offset") is not None


def _position(event: Event) -> tuple[object, ...]:
    """Name a position in a commit request. The line of its answer has the same name."""
    return event.get("request"), event.get("topic"), event.get("partition")

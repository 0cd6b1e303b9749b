"""What the wire keeps of one cell: its history, its rules, and the bookkeeping of its protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import RulePhase
from harness.model.history import Line
from harness.wire.messages import WireError
from harness.wire.protocol import Insight
from harness.wire.rules import Action, ArmedRule, Direction, Header
from harness.wire.traffic import Meter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.events import Event
    from harness.model.history import HistoryWriter
    from harness.model.identity import Identity
    from harness.wire.protocol import Frame, Protocol, Session, Step
    from harness.wire.rules import Rule

NOTHING = Insight()


@dataclass(slots=True, eq=False)
class FrameInFlight:
    """One frame on its way over one connection. ``payload`` is the whole of it, or None where it is
    only streamed.
    """

    frame: Frame
    session: Session
    known: Step
    """What is known of its step."""
    conn: int
    role: str
    node: str
    client: str
    process: str
    """The name of the client's process."""
    direction: Direction
    cell: WireCell | None = None
    ledger: object = None
    """The cell's ledger for the protocol; None if the frame belongs to no cell."""
    payload: bytes | None = None
    insight: Insight = NOTHING

    @property
    def header(self) -> Header:
        """The frame's header, by which rules select first."""
        return Header(self.role, self.client, self.frame.step, self.direction, self.node)

    def fields(self) -> dict[str, object]:
        """Return the fields of its history line."""
        return {
            "conn": self.conn,
            "role": self.role,
            "node": self.node,
            "client": self.client,
            "dir": self.direction,
            "api": self.frame.step,
            "size": self.frame.size,
            **({} if self.frame.last else {"unfinished": True}),
            **(
                {"answered": False}
                if self.direction is Direction.REQUEST and self.frame.id is None
                else {}
            ),
            **self.frame.facts,
        }


class WireCell:
    """One cell. Each line that the wire writes to the cell's history goes through here."""

    def __init__(
        self,
        cell_id: str,
        key: str,
        *,
        routes: frozenset[str],
        writer: HistoryWriter,
        identity: Identity | None = None,
        reads: bool = True,
    ) -> None:
        self.id = cell_id
        self.key = key
        self.routes = routes
        self._identity = identity
        self.reads = reads
        """Whether more than the headers of frames is read: what they carry, and what
        is answered.
        """
        self._ledgers: dict[str, object] = {}
        self.rules: dict[str, ArmedRule] = {}
        self._fired: dict[str, FrameInFlight] = {}
        """Rule to the frame at which it has fired first."""
        self.detours: dict[str, tuple[str, int]] = {}
        """Route name to the host and port through which this cell reaches the broker instead."""
        self._meters: dict[str, Meter] = {}
        self.frames = 0
        self.open = True
        self._writer = writer
        self._blind: set[tuple[str, object, str]] = set()

    def ledger(self, protocol: Protocol) -> object:
        """Return the cell's bookkeeping for a protocol."""
        if protocol.name not in self._ledgers:
            self._ledgers[protocol.name] = protocol.ledger(self.key, self._identity)
        return self._ledgers[protocol.name]

    def write(self, event: Event | Line) -> None:
        """Append one line to the cell's history, unless the cell is closed."""
        self.write_all((event,))

    def write_all(self, lines: Iterable[Event | Line]) -> None:
        """Append lines of one moment."""
        if self.open:
            self._writer.write_all(lines)

    def close(self) -> None:
        """Write no more."""
        for rule in tuple(self.rules):
            self.disarm(rule)
        self.open = False
        self._writer.close()

    # -- rules -------------------------------------------------------------------------------------

    def arm(self, rule: Rule) -> None:
        """Arm a rule.

        Raises:
            WireError: the cell has a rule of that id already, none that it counts from, or does not
                read what it needs.
        """
        if rule.id in self.rules:
            raise WireError(f"cell {self.id} has a rule {rule.id} already")
        if rule.since is not None and rule.since not in self.rules:
            raise WireError(f"cell {self.id} has no rule {rule.since} for {rule.id} to count from")
        if not self.reads and (rule.content or rule.granted):
            raise WireError(
                f"cell {self.id} reads headers alone: {rule.id} would have to look into frames"
            )
        self._fired.pop(rule.id, None)
        self.rules[rule.id] = ArmedRule(rule, self.key)
        self.write(Line(kinds.RULE, {"rule": rule.id, "phase": RulePhase.ARMED, **_spelled(rule)}))

    def disarm(self, rule_id: str) -> ArmedRule:
        """Take a rule away and return it.

        Raises:
            WireError: the cell has no such rule.
        """
        armed = self.rule(rule_id)
        del self.rules[rule_id]
        self.write(
            kinds.Rule(
                rule=rule_id,
                phase=RulePhase.DISARMED,
                seen=armed.seen,
                matched=armed.matched,
                fired=armed.fired,
            )
        )
        return armed

    def rule(self, rule_id: str) -> ArmedRule:
        """Return a rule.

        Raises:
            WireError: the cell has no such rule.
        """
        try:
            return self.rules[rule_id]
        except KeyError:
            raise WireError(f"cell {self.id} has no rule {rule_id}") from None

    def candidates(self, header: Header) -> list[ArmedRule]:
        """Return the rules that may act on a frame with this header."""
        return [armed for armed in self.rules.values() if armed.fits(header)]

    def judge(self, carried: FrameInFlight, candidates: list[ArmedRule]) -> ArmedRule | None:
        """Count the frame for every rule and return the first rule that must act. A frame that
        cannot be read is noted. A rule that counts since another one begins to count behind the
        frame at which the other one fires.
        """
        chosen: ArmedRule | None = None
        fired: list[ArmedRule] = []
        insight, selects = carried.insight, carried.known.selects
        for armed in candidates:
            if carried.frame.size < (armed.rule.least or 0) or not self._counts(
                armed.rule, carried
            ):
                continue
            armed.seen += 1
            if insight.because and armed.rule.content and armed.rule.content <= selects:
                self.blind(carried, insight.because)
            elif insight.forgotten and "record" in armed.rule.content:
                self.blind(carried, insight.forgotten)
            refused = bool(insight.error)
            if not armed.takes(insight.subject) or (refused and armed.rule.granted):
                continue
            armed.matched += 1
            marks = armed.rule.action is Action.MARK
            if armed.due and (marks or chosen is None):
                armed.fired += 1
                fired.append(armed)
                chosen = chosen if marks else armed
        for armed in fired:
            self._fired.setdefault(armed.rule.id, carried)
            if armed is not chosen:
                self.hit(armed.rule, carried, None)
        return chosen

    def torn(
        self, carried: FrameInFlight, candidates: Sequence[ArmedRule], half: bytes
    ) -> frozenset[str]:
        """Return the record for which a request must stop half-way, before the rest of it is read.
        Empty: there is none, as far as its first half shows.
        """
        return frozenset(
            str(armed.rule.record)
            for armed in candidates
            if armed.tears(half) and self._counts(armed.rule, carried)
        )

    def _counts(self, rule: Rule, carried: FrameInFlight) -> bool:
        """Whether the rule that this one counts from has fired. If both rules are of one role, it
        must have fired in the same process.
        """
        if rule.since is None:
            return True
        mark = self._fired.get(rule.since)
        return mark is not None and (mark.role != carried.role or mark.process == carried.process)

    # -- traffic -----------------------------------------------------------------------------------

    def meter(self, role: str) -> Meter:
        """Return the traffic counter of a role."""
        return self._meters.setdefault(role, Meter())

    # -- history -----------------------------------------------------------------------------------

    def blind(self, carried: FrameInFlight, because: str) -> None:
        """Write that a frame had to be read and could not be, once per API, version and reason. It
        voids the cell.
        """
        what = (carried.frame.step, carried.frame.facts.get("version"), because)
        if what not in self._blind:
            self._blind.add(what)
            self.write(Line(kinds.UNDECODABLE, {"because": because, **carried.fields()}))

    def seen(self, carried: FrameInFlight) -> None:
        """Write the frame's header line."""
        self.frames += 1
        error, records = carried.insight.error, carried.insight.subject.records
        extra = {} if error is None else {"error": error}
        about = {"records": sorted(records)} if records else {}
        self.write(Line(kinds.FRAME, {**carried.fields(), **about, **extra}))

    def hit(self, rule: Rule, carried: FrameInFlight, held: str | None) -> None:
        """Write that a rule fired. A frame that is ``held`` must be held before that: other
        processes act on this line.
        """
        self.phase(rule, RulePhase.HIT, carried, action=rule.action, held=held)

    def phase(self, rule: Rule, phase: RulePhase, carried: FrameInFlight, **more: object) -> None:
        """Write the result of a rule at a frame."""
        records = sorted(carried.insight.subject.records)
        about: dict[str, object] = {"records": records} if records else {}
        if rule.record is not None:
            about["record"] = rule.record
        if carried.insight.error is not None:
            about["error"] = carried.insight.error
        fields = {"rule": rule.id, "phase": phase, **carried.fields(), **about, **more}
        self.write(Line(kinds.RULE, fields))

    def settle(self, carried: FrameInFlight, *, reached: bool) -> None:
        """Write the frame's content to the history. ``reached``: it arrived at its destination."""
        self.write_all(carried.session.settled(carried.frame, carried.ledger, reached=reached))


def _spelled(rule: Rule) -> dict[str, object]:
    """Return the selectors that a rule sets. A rule without a limit says so."""

    def pairs() -> Iterator[tuple[str, object]]:
        for name, value in rule.to_json().items():
            if name != "id" and (value is not None or name == "limit"):
                yield name, value

    return dict(pairs())

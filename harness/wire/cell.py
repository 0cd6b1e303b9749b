"""A cell on the wire: its history, its rules, its bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.core import events as kinds
from harness.wire.messages import WireError
from harness.wire.rules import ArmedRule, Direction, Header, Rule
from harness.wire.tracker import Insight, Tracker
from harness.wire.traffic import Meter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.core.history import HistoryWriter
    from harness.core.identity import Identity
    from harness.wire.codec import Content


@dataclass(slots=True)
class Frame:
    """One frame on its way. ``payload`` is the whole of it without its length, or None where it is only streamed."""

    conn: int
    role: str
    node: str
    client: str
    direction: Direction
    api: int
    api_name: str
    version: int
    corr: int
    size: int
    payload: bytes | None = None
    content: Content | None = None
    insight: Insight = field(default_factory=Insight)
    cell: WireCell | None = None
    unanswered: bool = False
    """A Produce request with acks=0."""

    @property
    def header(self) -> Header:
        """What rules look at first."""
        return Header(self.role, self.client, self.api, self.direction)

    @property
    def request(self) -> str:
        """The request's (or the answered request's) name in the history."""
        return f"{self.conn}:{self.corr}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of its history line."""
        return {
            "conn": self.conn,
            "role": self.role,
            "node": self.node,
            "client": self.client,
            "dir": self.direction,
            "api": self.api_name,
            "version": self.version,
            "corr": self.corr,
            "size": self.size,
        }


class WireCell:
    """One cell. All its history lines of the wire go through here."""

    def __init__(
        self,
        cell_id: str,
        key: str,
        *,
        routes: frozenset[str],
        writer: HistoryWriter,
        names: Mapping[str, str],
        identity: Identity | None = None,
    ) -> None:
        self.id = cell_id
        self.key = key
        self.routes = routes
        self.tracker = Tracker(names, identity)
        self.rules: dict[str, ArmedRule] = {}
        self.detours: dict[str, tuple[str, int]] = {}
        """Route name to the host and port through which this cell reaches the broker instead."""
        self._meters: dict[str, Meter] = {}
        self.frames = 0
        self.open = True
        self._writer = writer
        self._blind: set[tuple[str, int, str]] = set()

    def write(self, kind: str, **fields: object) -> None:
        """Append one line to the cell's history; nothing after the cell was closed."""
        if self.open:
            self._writer.write(kind, **fields)

    def close(self) -> None:
        """Write no more."""
        for rule in tuple(self.rules):
            self.disarm(rule)
        self.open = False
        self._writer.close()

    # -- rules ----------------------------------------------------------------------------------------------------

    def arm(self, rule: Rule) -> None:
        """Put a rule to work; raises :class:`WireError` where its id is taken."""
        if rule.id in self.rules:
            raise WireError(f"cell {self.id} has a rule {rule.id} already")
        self.rules[rule.id] = ArmedRule(rule, self.key)
        self.write(kinds.RULE, rule=rule.id, phase="armed", **_spelled(rule))

    def disarm(self, rule_id: str) -> ArmedRule:
        """Take a rule away and return it; raises :class:`WireError` where there is none."""
        armed = self.rule(rule_id)
        del self.rules[rule_id]
        self.write(kinds.RULE, rule=rule_id, phase="disarmed", seen=armed.seen, matched=armed.matched, fired=armed.fired)
        return armed

    def rule(self, rule_id: str) -> ArmedRule:
        """Return a rule; raises :class:`WireError` where there is none."""
        try:
            return self.rules[rule_id]
        except KeyError:
            raise WireError(f"cell {self.id} has no rule {rule_id}") from None

    def candidates(self, header: Header) -> list[ArmedRule]:
        """Return the rules that may act on a frame with this header."""
        return [armed for armed in self.rules.values() if armed.fits(header)]

    def judge(self, frame: Frame, candidates: list[ArmedRule]) -> ArmedRule | None:
        """Count the frame for every rule and return the first that is due. A rule that could not look says so."""
        chosen: ArmedRule | None = None
        for armed in candidates:
            armed.seen += 1
            if armed.rule.needs_content and armed.rule.readable(frame.api, frame.direction) and frame.insight.because:
                self.blind(frame, frame.insight.because)
            refused = bool(frame.insight.error)
            if not armed.takes(frame.insight.subject) or (refused and armed.rule.granted):
                continue
            armed.matched += 1
            if chosen is None and armed.due:
                armed.fired += 1
                chosen = armed
        return chosen

    # -- traffic --------------------------------------------------------------------------------------------------

    def meter(self, role: str) -> Meter:
        """Return what counts the traffic of a role."""
        return self._meters.setdefault(role, Meter())

    # -- history --------------------------------------------------------------------------------------------------

    def blind(self, frame: Frame, because: str) -> None:
        """Write that a frame had to be read and could not be, once per API, version and reason. It voids the cell."""
        what = (frame.api_name, frame.version, because)
        if what not in self._blind:
            self._blind.add(what)
            self.write(kinds.UNDECODABLE, because=because, **frame.fields())

    def seen(self, frame: Frame) -> None:
        """Write the frame's header line."""
        self.frames += 1
        error = frame.insight.error
        extra = {} if error is None else {"error": error}
        self.write(kinds.FRAME, **frame.fields(), **extra)

    def hit(self, rule: Rule, frame: Frame, held: str | None) -> None:
        """Write that a rule fired. Who controls the wire learns it by this line: what is ``held`` must be so before."""
        self.phase(rule, "hit", frame, action=rule.action, held=held)

    def phase(self, rule: Rule, phase: str, frame: Frame, **more: object) -> None:
        """Write what became of a rule at a frame."""
        records = sorted(frame.insight.subject.records)
        about: dict[str, Any] = {"records": records} if records else {}
        if rule.record is not None:
            about["record"] = rule.record
        self.write(kinds.RULE, rule=rule.id, phase=phase, **frame.fields(), **about, **more)

    def settle(self, frame: Frame, *, reached: bool) -> None:
        """Write what the frame carried, now that its fate is known."""
        for kind, fields in self.tracker.settle(frame.insight, reached=reached):
            self.write(kind, **fields)


def _spelled(rule: Rule) -> dict[str, Any]:
    """Return the rule's own selectors, without what is unset; no limit is one."""

    def pairs() -> Iterator[tuple[str, Any]]:
        for name, value in rule.to_json().items():
            if name != "id" and (value is not None or name == "limit"):
                yield name, rule.api.label if name == "api" and rule.api is not None else value

    return dict(pairs())

"""Proof that a peer was silent for longer than the client waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import ConnPhase, Direction, NodePhase, RulePhase
from harness.model.scenario import Role
from harness.model.sign import Sign
from harness.proofs.second import BEHIND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.judge.proof import ProofContext
    from harness.model.history import History

RULE: Final = "silence"
"""The id of the rule behind which a connection is silent."""
SILENCE_S: Final = 75.0
"""How long a silence lasts at most, in seconds: longer than the 60 s that librdkafka waits."""
OUTWAITED: Final = Sign(
    "outwaited",
    "its peer was silent for longer than the client waits: the client closed the connection, or "
    "asked again over another one",
)


def hit_of(rules: Iterable[kinds.Rule]) -> kinds.Rule | None:
    """Return the line that says at which frame the silence began; ``None``: it did not."""
    return next(
        (e for e in rules if e.phase == RulePhase.HIT and e.rule.removeprefix(BEHIND) == RULE), None
    )


def leaving(conns: Iterable[kinds.Conn], hit: kinds.Rule) -> kinds.Conn | None:
    """Return the line by which the client, or its end, has closed the silent connection."""
    return next(
        (
            e
            for e in conns
            if e.conn == hit.conn
            and e.t > hit.t
            and (
                e.phase == ConnPhase.LEFT or (e.phase == ConnPhase.CLOSE and e.ended_by == "client")
            )
        ),
        None,
    )


def first_repeated_request(
    frames: Iterable[kinds.Frame], owners: Iterable[kinds.Owner], hit: kinds.Rule
) -> kinds.Frame | None:
    """Return the first request by which the client asked the same again over another connection."""
    pids = {e.conn: e.pid for e in owners}
    mine, records = pids.get(hit.conn), set(hit.records or ())
    return next(
        (
            e
            for e in frames
            if e.t > hit.t
            and e.dir == Direction.REQUEST
            and (e.role, e.client, e.api) == (hit.role, hit.client, hit.api)
            and e.conn != hit.conn
            and pids.get(e.conn, mine) == (mine or pids.get(e.conn))
            and (not records or not records.isdisjoint(e.records or ()))
        ),
        None,
    )


@dataclass(frozen=True, slots=True)
class FellSilent:
    """The connection was silent until its client had given it up: it left, or asked again."""

    name: ClassVar[str] = "fell-silent"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the client waited for longer than the silence lasted."""
        history = course.history
        hit = hit_of(history.of(kinds.Rule))
        if hit is None:
            return "no connection fell silent"
        if _given_up(history, hit):
            return None
        return (
            f"the {hit.role} still waited after {SILENCE_S:g} s of silence behind its {hit.api} "
            f"{hit.dir}: give its client a request time-out below that (request.timeout.ms, "
            "socket.timeout.ms, request_timeout_ms), or leave this point out"
        )


@dataclass(frozen=True, slots=True)
class HalfWay:
    """The silence began in the middle of a request: half of it was on, and the rest came when its
    client had given it up. It was that of the record: half of a request is told by text alone.
    """

    name: ClassVar[str] = "half-way"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the request was not torn, or was never whole."""
        rules = [e for e in course.history.of(kinds.Rule) if e.rule.removeprefix(BEHIND) == RULE]
        torn = next((e for e in rules if e.phase == RulePhase.HELD and e.passed), None)
        if torn is None:
            return "no request stopped half-way"
        request, records = f"{torn.conn}:{torn.corr}", torn.records or ()
        for sent in course.history.of(kinds.Sent):
            if sent.request == request and sent.record in records:
                return None
        return (
            f"the rest of the {torn.role}'s {torn.api} request never went on, or the record is "
            "named in another one's text"
        )


@dataclass(frozen=True, slots=True)
class ReachedFrozen:
    """The broker had the request while it stood still: that went on to it behind its stop, before
    the client gave it up, and had no answer until then.
    """

    name: ClassVar[str] = "reached-frozen"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the request did not reach the broker then, or that the broker did not stand
        still.
        """
        history = course.history
        hit = hit_of(history.of(kinds.Rule))
        if hit is None:
            return "no request was on its way to the broker"
        stopped = [
            e.t
            for e in history.of(kinds.Node)
            if e.role == Role.BROKER and e.phase == NodePhase.PAUSED and e.t > hit.t
        ]
        request, given_up = f"{hit.conn}:{hit.corr}", _given_up_at(history, hit)
        came = [e.t for e in history.of(kinds.Sent) if e.request == request]
        came += [e.t for e in history.of(kinds.Committed) if e.request == request and e.reached]
        if not stopped or not any(stopped[0] < at < (given_up or at + 1) for at in came):
            return f"the {hit.api} request did not reach the broker while it stood still"
        for answer in history.of(kinds.Frame):
            mine = (answer.conn, answer.corr, answer.dir)
            if mine == (hit.conn, hit.corr, Direction.RESPONSE) and (
                given_up is None or answer.t < given_up
            ):
                return f"the broker answered the {hit.api} request: it did not stand still"
        return None


def _given_up(history: History, hit: kinds.Rule) -> bool:
    return _given_up_at(history, hit) is not None


def _given_up_at(history: History, hit: kinds.Rule) -> int | None:
    """Return when the client gave the request up (monotonic ns); ``None``: it did not."""
    again = first_repeated_request(history.of(kinds.Frame), history.of(kinds.Owner), hit)
    gone = leaving(history.of(kinds.Conn), hit)
    return min((e.t for e in (again, gone) if e is not None), default=None)


def silence_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records at which a peer was silent for longer than the client waits."""
    rules = list(history.of(kinds.Rule))
    hit = hit_of(rules)
    if hit is None or not _given_up(history, hit):
        return {}
    marked = {record for e in rules if e.phase == RulePhase.HIT for record in (*(e.records or ()),)}
    return {OUTWAITED: marked}

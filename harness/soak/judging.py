"""The verdict on one fault of a stream, from its history and from the records lost and duplicated
in its window.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill
from harness.judge.health import how_ended
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    ENDED_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    RESUMED_PAST,
    TAKEN_AGAIN,
)
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase, RulePhase
from harness.model.prediction import Zero
from harness.model.scenario import Predicted, Role
from harness.model.semantics import PROMISES, Anomaly
from harness.model.struck import RULE, first_at, hits_of
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.model.history import History
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign
    from harness.soak.drawing import DrawnFault

Hit: TypeAlias = kinds.Rule | kinds.Failpoint
"""What hits a fault's trigger."""


@dataclass(frozen=True, slots=True)
class Window:
    """Everything known about a fault: its history, and the counts of its window."""

    drawn: DrawnFault
    semantic: Semantic
    history: History
    unheard: bool
    """Whether the partition's producer got no answer to something that it had sent, and did not
    send it again.
    """
    lost: int
    duplicated: int
    absorbed: int
    phantom: int
    unit: int
    """How many records a producer takes from the source at once."""


def judge(seen: Window) -> tuple[Kind, str]:
    """Return the verdict on a fault, and the sentence that explains it."""
    forbidden = _forbidden(seen)
    objection = next(_objections(seen), None)
    if forbidden is not None:
        return (
            Kind.BROKEN,
            forbidden
            if objection is None
            else f"though not by this fault ({objection}): {forbidden}",
        )
    if objection is not None:
        return Kind.VOID, objection
    expected = seen.drawn.scenario.expectation(seen.semantic)
    if not isinstance(expected, Predicted):
        raise TypeError(f"{seen.drawn.scenario.id} predicts nothing, so it cannot be drawn")
    for name, prediction, count in (
        ("lost", expected.lost, seen.lost),
        ("duplicated", expected.duplicated, seen.duplicated),
    ):
        if prediction.must_show() and not count:
            return (
                Kind.VOID,
                f"the fault fired without effect: {name} predicted {prediction.text()}, saw none",
            )
        if isinstance(prediction, Zero) and count > _beside(seen, count):
            return Kind.VOID, f"the prediction is contradicted: {name}: predicted 0, saw {count}"
    if expected.sign is not None and (missing := _missing_sign(seen, expected.sign)) is not None:
        return Kind.VOID, f"nothing shows that the protection worked: {missing}"
    told = [
        f"{count} {name}"
        for name, count in (("lost", seen.lost), ("duplicated", seen.duplicated))
        if count
    ]
    told += [f"{seen.absorbed} absorbed"] if seen.absorbed else []
    told += [f"protected ({expected.sign})"] if expected.sign else []
    return Kind.KEPT, ", ".join(told) or "nothing lost or duplicated"


def _beside(seen: Window, count: int) -> int:
    """Return how many of so many may be struck beside what was aimed at, where it is permitted that
    they are.

    Where the broker dies, all that others had under way. Where the producer dies, the rest of its
    unit: that goes in several requests, and one that dies at the answer to the first has not sent
    the last.
    """
    victims = _victims(seen.drawn.fault)
    if Role.BROKER in victims:
        return count
    return seen.unit - 1 if Role.PRODUCER in victims else 0


def _forbidden(seen: Window) -> str | None:
    counts = {
        Anomaly.LOST: seen.lost,
        Anomaly.DUPLICATED: seen.duplicated,
        Anomaly.PHANTOM: seen.phantom,
    }
    found = [
        f"{count} {anomaly}"
        for anomaly, count in counts.items()
        if count and anomaly in PROMISES[seen.semantic]
    ]
    return f"{' and '.join(found)}, which {seen.semantic} forbids" if found else None


def _objections(seen: Window) -> Iterator[str]:
    """Yield why the window proves nothing about its fault."""
    history, fault = seen.history, seen.drawn.fault
    if history.damage:
        yield f"the history is damaged: {history.damage[0]}"
    hits = _hits(seen)
    if not hits:
        yield "the fault did not fire"
        return
    hit, at = hits[0], fault.at
    node = f"{at.role}-{seen.drawn.partition}"
    if isinstance(hit, kinds.Rule):
        if len(hits) > 1:
            yield f"the rule fired {len(hits)} times"
        meant = isinstance(at, OnWire) and (at.role, node, at.api, at.direction)
        if (hit.role, _node_of(hit), hit.api, hit.dir) != meant:
            yield f"the rule hit another frame: {hit.api} {hit.dir} of {hit.client}"
    killed = [e for e in history.of(kinds.Node) if e.phase == NodePhase.EXITED and not e.asked]
    yield from _deaths(fault, node, hit, killed)
    if first_at(history, FaultPhase.HEALED) is None:
        yield "the fault was not healed"
    if isinstance(at, OnWire):
        yield from _became(fault, history)


def _hits(seen: Window) -> list[Hit]:
    if isinstance(seen.drawn.fault.at, InProgram):
        return [e for e in seen.history.of(kinds.Failpoint) if e.action == "kill"]
    return [*hits_of(seen.history)]


def _node_of(line: kinds.OfFrame) -> str:
    """Return the node's name in the id of the client whose frame it is."""
    return str(line.client).split(".")[1]


def _victims(fault: Kill | Drop) -> tuple[Role, ...]:
    return fault.victims if isinstance(fault, Kill) else ()


def _deaths(fault: Kill | Drop, node: str, hit: Hit, killed: Sequence[kinds.Node]) -> Iterator[str]:
    """Yield what is wrong with the deaths: each victim must die once, by SIGKILL, after the hit,
    and no other program may.
    """
    partition = node.rpartition("-")[2]
    names = {
        str(role): (f"{role}-{partition}" if role is not Role.BROKER else "broker-1")
        for role in _victims(fault)
    }
    for role, name in names.items():
        of = [e for e in killed if e.node == name]
        if not of:
            yield f"the fault had to kill {name}, and did not"
        elif of[0].signal != signal.SIGKILL:
            yield f"{name} did not die by SIGKILL: {how_ended(of[0])}"
        elif of[0].t < hit.t:
            yield f"{name} was dead before the fault fired"
        elif (
            isinstance(hit, kinds.Failpoint)
            and role == node.rpartition("-")[0]
            and hit.pid != of[0].pid
        ):
            yield f"process {hit.pid} hit the failpoint, but process {of[0].pid} died"
    others = [e for e in killed if e.node not in names.values() and e.status != 0]
    if others:
        yield f"{others[0].node} died, although the fault does not kill it"


def _became(fault: Kill | Drop, history: History) -> Iterator[str]:
    """Say that the frame at which the fault struck was not lost as the fault requires."""
    phases = {e.phase for e in history.of(kinds.Rule) if e.rule == RULE}
    wanted = (
        {RulePhase.DROPPED, RulePhase.CUT} if isinstance(fault, Drop) else {RulePhase.DISCARDED}
    )
    if missing := wanted - phases:
        yield f"the frame was not {min(missing)}"


def _missing_sign(seen: Window, sign: Sign) -> str | None:
    """Say which sign of protection is missing, or return ``None`` if it was seen.

    If a frame with records was discarded and none of its records is missing, the client sent them
    again. If an answer was discarded and no record is there twice, then a transaction was aborted,
    or the broker absorbed the second copy, or the client did not send again: its producer got no
    answer, or died and resumed past the records.
    """
    partition, history = seen.drawn.partition, seen.history
    at = seen.drawn.fault.at
    is_request = isinstance(at, OnWire) and at.direction is Direction.REQUEST
    arrived_all_the_same = is_request and not seen.lost
    resumed = [e for e in history.of(kinds.Resumed) if e.partition == partition]
    source = next((e for e in resumed if e.where == "source"), None)
    taken_again = source is not None and _behind(source.position, source.taken)
    reader = next((e for e in resumed if e.where != "source"), None)
    again = _sent_again(seen)
    shown = {
        TAKEN_AGAIN: taken_again,
        ABORTED: taken_again,
        ABSORBED: seen.absorbed > 0,
        NOT_RESENT: (seen.unheard or (source is not None and not taken_again))
        and not seen.duplicated,
        ENDED_AGAIN: again or arrived_all_the_same,
        REPEATED_REQUEST: again or arrived_all_the_same,
        RESUMED_PAST: (source is not None or reader is not None)
        and not seen.duplicated
        and not seen.absorbed,
        DELIVERED_AGAIN: (reader is not None and _behind(reader.position, reader.delivered))
        or _fetched_again(seen),
    }
    return None if shown.get(sign) else f"no {sign}"


def _behind(position: int, before: int | None) -> bool:
    """Whether a program resumed before what it had done before."""
    return before is not None and position < before


def _sent_again(seen: Window) -> bool:
    """Whether the client's next request of this kind was the same one over another connection.

    A producer has one request in flight, and asks for the end of a transaction before it begins the
    next one.
    """
    hit = next(iter(_hits(seen)), None)
    if not isinstance(hit, kinds.Rule) or hit.corr is None:
        return False
    frames = [
        e for e in seen.history.of(kinds.Frame) if e.dir == Direction.REQUEST and e.role == hit.role
    ]
    mine = [e for e in frames if _node_of(e) == _node_of(hit)]
    asked = [e.size for e in mine if (e.conn, e.corr) == (hit.conn, hit.corr)]
    later = [e for e in mine if e.t > hit.t and e.api in {Api.PRODUCE, Api.END_TXN}]
    if not asked or not later or later[0].conn == hit.conn:
        return False
    return (later[0].api, later[0].size) == (hit.api, asked[0])


def _fetched_again(seen: Window) -> bool:
    """Whether a dropped answer to a Fetch had records, and none of these is missing."""
    hit = next(iter(_hits(seen)), None)
    return (
        isinstance(seen.drawn.fault, Drop)
        and isinstance(hit, kinds.Rule)
        and not seen.lost
        and (hit.size or 0) > LEAST_FETCH
    )


LEAST_FETCH: Final = 500
"""Size from which an answer to a Fetch certainly has records, in bytes: an empty answer has some
hundred bytes.
"""

"""What the wire saw of a pipeline's stages in its dry run, and how many records its cells need."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.rhythm import UNSEEN
from harness.model.scenario import Role
from harness.pipelines.at_services import service_traffic
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import InputKind
from harness.pipelines.moments import TOLD, moments_in
from harness.pipelines.overtaking import rhythms_in
from harness.pipelines.shares import Share
from harness.pipelines.traffic import STEPS, Owner, StageTraffic
from harness.pipelines.writes import UNWATCHED, Written
from harness.proofs.moved import is_incremental
from harness.report.summary import counted
from harness.systems.declared.wire.topics import HIDDEN
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.history import History
    from harness.pipelines.declaration import Pipeline
    from harness.saved import CellResult

PLUMBING = frozenset({"ApiVersions", "Metadata", "CONNECT", "STOMP"})
UNITS = 3
"""How many requests' worth of records a check offers, so that there is load before and after the
fault.
"""
MOST, MOST_S = 2000, 20.0
"""The most records, and the most seconds they may take, that a check offers if the declaration does
not ask for more.
"""


def awake_s(result: CellResult, quiet_s: float) -> float:
    """Return how many seconds a run without a fault took, with only so many at rest: it may have
    waited for what comes late.
    """
    try:
        drains = [*read_history(result.directory / HISTORY).of(kinds.Drain)]
    except HistoryError:
        drains = []
    rested_s = max((each.rested or 0.0 for each in drains), default=0.0)
    return result.seconds - max(0.0, rested_s - quiet_s)


def seen_in(result: CellResult) -> dict[str, StageTraffic]:
    """Return what the wire saw of each stage, by role; nothing if the history cannot be read."""
    try:
        history = read_history(result.directory / HISTORY)
    except HistoryError:
        return {}
    aside = _saved_aside(history)
    frames = [
        event
        for event in history.of(kinds.Frame)
        if event.api not in STEPS and f"{event.conn}:{event.corr}" not in aside
    ]
    requests = [event for event in frames if event.dir == Direction.REQUEST]
    roles = {str(e.conn): str(e.role) for e in requests}
    about = [e for e in history.of(kinds.Sent, kinds.Committed) if e.request not in aside]
    times = [e.t for e in history.of(kinds.Sent, kinds.Fetched, kinds.Committed)]
    moments = moments_in(history.of(*TOLD), frames)
    shares, rhythms = shares_in(history, roles), rhythms_in(history, roles)
    said = service_traffic(history, result.plan.target)
    elsewhere = {e.role: e.servers for e in history.of(kinds.Elsewhere)}
    incremental = {
        roles.get(str(e.conn)) for e in history.of(kinds.GroupMember) if is_incremental(e)
    }
    written = {
        e.role: Written(e.made, e.records, e.because, e.files, e.unrepeated)
        for e in history.of(kinds.Writes)
    }

    def traffic(role: str) -> StageTraffic:
        asked = [e for e in requests if e.role == role]
        answers = (e for e in frames if e.role == role and e.dir == Direction.RESPONSE)
        owners = [e for e in history.of(kinds.Owner) if e.role == role]
        return StageTraffic(
            clients=tuple(sorted({str(e.client) for e in asked})),
            connections=len({e.conn for e in asked}),
            requests=Counter(str(e.api) for e in asked),
            answers=Counter(str(e.api) for e in answers),
            processes=tuple(_processes(owners, requests)),
            written=written.get(role, UNWATCHED),
            unit=unit_of(e for e in about if roles.get(str(e.request).split(":")[0]) == role),
            seconds=(max(times) - min(times)) / 1e9 if times else 0.0,
            moments=moments.get(role, {}),
            share=shares.get(role, Share()),
            rhythm=rhythms.get(role, UNSEEN),
            said=said.get(role, {}),
            elsewhere=elsewhere.get(role, ()),
            incremental=role in incremental,
        )

    return {role: traffic(role) for role in sorted({str(e.role) for e in requests})}


def _saved_aside(history: History) -> set[str | None]:
    """Return the requests that saved positions only in topics in which a program speaks to itself,
    as a sink of Connect does.
    """
    loaded = {event.topic for event in history.of(kinds.Sent, kinds.Unsent, kinds.Fetched)}
    hidden = defaultdict[str | None, set[bool]](set)
    for event in history.of(kinds.Committed):
        hidden[event.request].add(str(event.topic).startswith(HIDDEN) and event.topic not in loaded)
    return {request for request, each in hidden.items() if each == {True}}


def shares_in(history: History, roles: Mapping[str, str]) -> dict[str, Share]:
    """Return which records each stage was given, and which it sent. ``roles``: by connection."""
    positions = {e.record: e.position for e in history.of(kinds.Offered)}
    given, sent = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    logs = defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
    for event in history.of(kinds.Fetched, kinds.Sent):
        if event.record not in positions:
            continue
        if isinstance(event, kinds.Sent):
            sent[roles.get(str(event.request).split(":")[0], "")].add(positions[event.record])
        elif event.reached:
            role = roles.get(str(event.conn), "")
            given[role].add(positions[event.record])
            if event.at is not None:
                logs[role][f"{event.topic}/{event.at[0]}"].add(positions[event.record])
    return {
        role: Share(
            frozenset(given[role]),
            frozenset(sent[role]),
            len(positions),
            {log: frozenset(found) for log, found in logs[role].items()},
        )
        for role in {*given, *sent}
    }


def unit_of(events: Iterable[kinds.Sent | kinds.Committed]) -> int:
    """Return the most records that one request sent, or that one request saved a
    position behind.
    """
    units: Counter[str | None] = Counter()
    saved: dict[tuple[str | None, str | None, int], int] = {}
    for event in events:
        if isinstance(event, kinds.Sent):
            units[event.request] += 1
        else:  # a position
            at = (event.group, event.topic, event.partition)
            units[event.request] += max(0, event.offset - saved.get(at, 0))
            saved[at] = max(event.offset, saved.get(at, 0))
    return max(units.values(), default=0)


def enough(pipeline: Pipeline, seen: Mapping[str, StageTraffic]) -> tuple[int, str | None]:
    """Return how many records the cells have, and why that may be too few, or ``None``.

    If lostack offers the records, they come in waves. A producer that has all records from the
    start needs more of them, because the wire can hold its requests but not split them.
    """
    need = UNITS * max((one.unit for one in seen.values()), default=0)
    if pipeline.input.kind not in {InputKind.FILE, InputKind.OWN}:
        return pipeline.records, None
    few = _whole_partitions(pipeline, seen)
    if need <= pipeline.records:
        return pipeline.records, few
    took_s = max(one.seconds for one in seen.values()) * need / pipeline.records
    role = max(seen, key=lambda each: seen[each].unit)
    because = (
        f"one request of the {role} takes {seen[role].unit} records of {pipeline.records}, so "
        f"{need} are needed"
    )
    if pipeline.input.kind is InputKind.OWN:
        return (
            pipeline.records,
            f"{because}: let the producer make {need} records, and set records = {need}",
        )
    if need > MOST or took_s > MOST_S:
        return (
            pipeline.records,
            (
                f"{because}, which is more than {MOST} or takes longer than {MOST_S:g} s: set "
                f"records = {need}"
            ),
        )
    return need, few


def _whole_partitions(pipeline: Pipeline, seen: Mapping[str, StageTraffic]) -> str | None:
    """Say that one request may hold all records of a partition, or return ``None``. More records
    then give no more requests.
    """
    producer = next(
        (str(stage.known) for stage in pipeline.stages if stage.role is Role.PRODUCER), ""
    )
    count = (
        seen[producer].requests.get(pipeline.dialect.label(Moment.SEND), 0)
        if producer in seen
        else 0
    )
    if not pipeline.dialect.logs or not 0 < count <= pipeline.partitions:
        return None
    return (
        f"the producer sent all {counted(pipeline.records, 'record')} in "
        f"{counted(count, 'request')}: let its client make smaller batches (batch.size, "
        'batch.num.messages), or let it read standard input (kind = "stdin"), which is paced'
    )


def _processes(owners: Sequence[kinds.Owner], requests: Sequence[kinds.Frame]) -> Iterator[Owner]:
    for pid, command in {e.pid: e.command for e in owners}.items():
        conns = {e.conn for e in owners if e.pid == pid}
        asked = Counter(str(e.api) for e in requests if e.conn in conns)
        yield Owner(pid, command, len(conns), asked)

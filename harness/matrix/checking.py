"""Checks a declared pipeline: a dry run, the plan made from it, and the runs with faults."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.faults import NoFault
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.matrix.selection import not_run
from harness.model import events as kinds
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.keep import Keep
from harness.model.rhythm import UNSEEN, Rhythm
from harness.model.scenario import NotApplicable, Role
from harness.pipelines.at_services import AT_SERVICE, STEPS, Said, said_in, unseen
from harness.pipelines.cells import NO_FAULT, aim, cells_of, failure_points, left_over
from harness.pipelines.declaration import InputKind
from harness.pipelines.dialects import Moment
from harness.pipelines.moments import TOLD, moments_in
from harness.pipelines.overtaking import rhythms_in
from harness.pipelines.pairs import Paired, Pairs
from harness.pipelines.refusing import DeclarationError, nearest
from harness.pipelines.shares import Share
from harness.pipelines.silences import is_long, left_out, priced
from harness.pipelines.writes import AT_WRITE, UNWATCHED, Written
from harness.report.summary import counted
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.model.history import History
    from harness.model.scenario import Scenario
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.declaration import Pipeline
    from harness.saved import CellResult, SavedRun
    from harness.systems.declared.system import DeclaredSystem

DRY_RUNS = "dry-runs"
REHEARSAL = "rehearsal"
"""The name of the runs without a fault beside the dry run; a number follows it."""
_PLUMBING = frozenset({"ApiVersions", "Metadata", "CONNECT", "STOMP"})
UNITS = 3
"""How many requests' worth of records a check offers, so that there is load before and after the
fault.
"""
MOST, MOST_S = 2000, 20.0
"""The most records, and the most seconds they may take, that a check offers if the declaration does
not ask for more.
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the wire saw of one stage in the dry run: client ids, number of connections, number of
    requests of each kind.

    ``answers``: number of answers of each kind. ``processes``: the processes that owned the
    connections that were open when lostack asked the kernel. ``written``: the durable writes that
    the tracer saw.
    """

    clients: tuple[str, ...]
    connections: int
    requests: Mapping[str, int]
    answers: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[Owner, ...] = ()
    written: Written = UNWATCHED
    unit: int = 0
    """The most records that one request sent, or that one request saved a position behind."""
    seconds: float = 0.0
    """Seconds from the wire's first line about a record to its last."""
    moments: Mapping[Moment, str] = field(default_factory=dict)
    """The moments of a record that were seen, each with the step of the protocol."""
    share: Share = field(default_factory=Share)
    rhythm: Rhythm = UNSEEN
    said: Mapping[str, Said] = field(default_factory=dict)
    """What it said to each service."""
    elsewhere: tuple[str, ...] = ()
    """The servers that it spoke to past the wire."""

    @property
    def steps(self) -> frozenset[str]:
        """The steps that the wire saw on its connections: requests and answers."""
        return frozenset({*self.requests, *self.answers})

    def reading(self, pipeline: Pipeline) -> int:
        """Return how many processes of the stage read records."""
        return sum(pipeline.dialect.reads[0].label in owner.requests for owner in self.processes)


@dataclass(frozen=True, slots=True)
class Owner:
    """One process of a stage, the number of its connections, and the requests on them."""

    pid: int
    command: str
    connections: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A dry run, and whether cells can run side by side.

    ``jobs``: how many cells may run at once; ``because``: why only one may, or empty.
    """

    dry: CellResult
    jobs: int
    because: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one pipeline. ``jobs``: how many of its cells run at once, each on a broker of
    its own.
    """

    pipeline: Pipeline
    system: DeclaredSystem
    reports: Path
    command: str
    seed: int = 1
    jobs: int = 1
    keep: Keep = Keep.BROKEN
    long: bool = False
    """Whether points that wait long for a client's time-out are run without being named."""
    pairs: Pairs = Pairs.NONE
    """Which pairs of faults are run without being named."""

    def dry_run(self, progress: Progress, *, brief: bool = False) -> CellResult:
        """Run the pipeline without a fault. ``brief``: do not wait for late records, because
        another such run will.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            Exception: whatever :func:`harness.matrix.runner.run` raises.
        """
        return self._dry_runs(1, progress, brief=brief)[0]

    def rehearsed(self, progress: Progress, *, brief: bool = False) -> Rehearsed:
        """Run the pipeline without a fault, ``jobs`` times side by side; if one fails, run it
        alone, and all cells one at a time.

        ``brief``: do not wait for late records, because another run without a fault will.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            Exception: whatever :func:`harness.matrix.runner.run` raises.
        """
        because = self.system.why_alone(self.pipeline) or ""
        if self.jobs > 1 and not because:
            dry, *others = self._dry_runs(self.jobs, progress, brief=brief)
            failed = [result for result in (dry, *others) if result.verdict.kind is not Kind.KEPT]
            if not failed:
                return Rehearsed(dry, self.jobs)
            because = (
                f"one of {self.jobs} runs without a fault side by side was {failed[0].verdict.kind}"
            )
            progress.say(f"{because} ({failed[0].verdict.reason}); it runs again alone")
        return Rehearsed(self.dry_run(progress, brief=brief), 1, because)

    def _dry_runs(self, count: int, progress: Progress, *, brief: bool) -> Sequence[CellResult]:
        """Run the pipeline without a fault ``count`` times side by side; the tracer watches the
        first run's durable writes.
        """
        [without] = [
            scenario for scenario in failure_points(self.pipeline) if scenario.id == NO_FAULT
        ]
        first = replace(without, fault=NoFault(watched=True))
        others = [replace(without, id=f"{REHEARSAL}-{number}") for number in range(2, count + 1)]
        cells = cells_of(self.pipeline, (first, *others), seed=self.seed)
        cells = tuple(replace(cell, brief=brief or cell.scenario is not first) for cell in cells)
        saved = self._run(cells, (), self.reports / DRY_RUNS, progress, jobs=count)
        if saved.info.interrupted or len(saved.results) < count:
            raise KeyboardInterrupt
        by_name = {result.plan.scenario: result for result in saved.results}
        return [by_name[cell.scenario.id] for cell in cells]

    def plan(
        self, seen: Mapping[str, Seen], only: Sequence[str] = ()
    ) -> tuple[tuple[DeclaredCell, ...], tuple[DeclaredCell, ...]]:
        """Return the cells to run and those that do not apply.

        Raises:
            DeclarationError: a name is unknown, or records cannot be told apart.
        """
        points = self._points(seen, only)
        names = [point.id for point in points]
        for name in only:
            if name not in names:
                raise DeclarationError(f"there is no failure point {name}; {nearest(name, names)}")
        asked = [
            point
            for point in points
            if point.id in only
            or (
                not only
                and not left_over(self.pipeline, point)
                and (self.long or not is_long(point))
            )
        ]
        cells = cells_of(
            self.pipeline, asked, seed=self.seed, records=enough(self.pipeline, seen)[0]
        )
        shares = {role: one.share for role, one in seen.items()}
        cells = tuple(aim(cell, shares) for cell in cells)
        for cell in cells:
            cell.load()
        rest = tuple(cell for cell in cells if isinstance(cell.expectation, NotApplicable))
        return tuple(cell for cell in cells if cell not in rest), rest

    def left_out(self, seen: Mapping[str, Seen], only: Sequence[str] = ()) -> Iterator[str]:
        """Yield a line about the points that apply and are not run, because they wait long for a
        client's time-out.
        """
        if not self.long and not only:
            claims = self.pipeline.claims
            yield from left_out(
                [
                    point
                    for point in self._points(seen, ())
                    if is_long(point) and not isinstance(point.expect[claims], NotApplicable)
                ]
            )

    def _points(self, seen: Mapping[str, Seen], only: Sequence[str]) -> tuple[Scenario, ...]:
        """Return all failure points. ``only``: names that are asked for."""
        fetching = (
            {role: one.reading(self.pipeline) for role, one in seen.items()} if seen else None
        )
        written = {role: one.written for role, one in seen.items()} if seen else None
        return failure_points(
            self.pipeline,
            {role: one.steps for role, one in seen.items()},
            fetching,
            written,
            moments={role: one.moments for role, one in seen.items()} if seen else None,
            said={role: one.said for role, one in seen.items()} if seen else None,
            sending=[role for role in self._reading() if self._may_send(role, seen, only)],
            rhythms={role: one.rhythm for role, one in seen.items()} if seen else None,
            elsewhere={role: one.elsewhere for role, one in seen.items()},
            attached=self.system.attached,
            paired=self._paired(seen, only),
        )

    def _paired(self, seen: Mapping[str, Seen], only: Sequence[str]) -> Paired:
        """Return the pairs of faults that are asked for: who names points may name any."""
        units = {role: one.unit for role, one in seen.items()} if seen else None
        return Paired(Pairs.ALL if only else self.pairs, units)

    def _reading(self) -> list[str]:
        return [str(stage.known) for stage in self.pipeline.stages if stage.reads]

    def _may_send(self, role: str, seen: Mapping[str, Seen], only: Sequence[str]) -> bool:
        """Whether a reading stage has the points of a sending one: it sent records in the dry run,
        or that is not known yet, or one of its points is asked for by name.
        """
        if role in seen and seen[role].share.sent:
            return True
        return not seen or any(name.startswith(f"{role}-") for name in only)

    def faults(
        self,
        cells: Sequence[DeclaredCell],
        rest: Sequence[DeclaredCell],
        progress: Progress,
        untried: Sequence[str] = (),
    ) -> SavedRun:
        """Run the cells with faults. ``untried``: sentences about the stages that none of these
        cells kills.
        """
        return self._run(cells, rest, self.reports, progress, untried, jobs=self.jobs)

    def _run(
        self,
        cells: Sequence[DeclaredCell],
        rest: Sequence[DeclaredCell],
        reports: Path,
        progress: Progress,
        untried: Sequence[str] = (),
        *,
        jobs: int,
    ) -> SavedRun:
        plan = RunPlan(
            systems=(self.system,),
            cells=tuple(cells),
            not_applicable=tuple(not_run(cell) for cell in rest),
            reports=reports,
            jobs=jobs,
            command=self.command,
            seeds=(self.seed,),
            records=max((cell.records for cell in cells), default=self.pipeline.records),
            untried=tuple(untried),
            again=lambda: self.system.silences.too_short(cells),
            keep=self.keep,
        )
        return run(plan, progress)


def at_once(jobs: int, because: str) -> str:
    """Say how many cells run at once, and why if only one does."""
    if jobs > 1:
        return f"{jobs} cells at once, each on a broker of its own"
    return f"one cell at a time{because and f': {because}'}"


def seen_in(result: CellResult) -> dict[str, Seen]:
    """Return what the wire saw of each stage, by role; nothing if the history cannot be read."""
    try:
        history = read_history(result.directory / HISTORY)
    except HistoryError:
        return {}
    both = [event for event in history.of(kinds.Frame) if event.api not in STEPS]
    frames = [event for event in both if event.dir == Direction.REQUEST]
    of = {str(e.conn): str(e.role) for e in frames}
    about = list(history.of(kinds.Sent, kinds.Committed))
    moments = [e.t for e in history.of(kinds.Sent, kinds.Fetched, kinds.Committed)]
    seconds = (max(moments) - min(moments)) / 1e9 if moments else 0.0
    of_records = moments_in(history.of(*TOLD), both)
    shares, rhythms = shares_in(history, of), rhythms_in(history, of)
    said = said_in(history, result.plan.target)
    elsewhere = {e.role: e.servers for e in history.of(kinds.Elsewhere)}
    owners = list(history.of(kinds.Owner))
    written = {
        e.role: Written(e.made, e.records, e.because, e.files) for e in history.of(kinds.Writes)
    }
    return {
        role: Seen(
            tuple(sorted({str(e.client) for e in frames if e.role == role})),
            len({e.conn for e in frames if e.role == role}),
            _counted(str(e.api) for e in frames if e.role == role),
            _counted(str(e.api) for e in both if e.role == role and e.dir == Direction.RESPONSE),
            tuple(_processes([e for e in owners if e.role == role], frames)),
            written.get(role, UNWATCHED),
            unit_of([e for e in about if of.get(str(e.request).split(":")[0]) == role]),
            seconds,
            of_records.get(role, {}),
            shares.get(role, Share()),
            rhythms.get(role, UNSEEN),
            said.get(role, {}),
            elsewhere.get(role, ()),
        )
        for role in sorted({str(e.role) for e in frames})
    }


def shares_in(history: History, roles: Mapping[str, str]) -> dict[str, Share]:
    """Return which records each stage was given, and which it sent. ``roles``: by connection."""
    positions = {e.record: e.position for e in history.of(kinds.Offered)}
    given, sent = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for event in history.of(kinds.Fetched, kinds.Sent):
        if event.record not in positions:
            continue
        if isinstance(event, kinds.Sent):
            sent[roles.get(str(event.request).split(":")[0], "")].add(positions[event.record])
        elif event.reached:
            given[roles.get(str(event.conn), "")].add(positions[event.record])
    return {
        role: Share(frozenset(given[role]), frozenset(sent[role]), len(positions))
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


def enough(pipeline: Pipeline, seen: Mapping[str, Seen]) -> tuple[int, str | None]:
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


def _whole_partitions(pipeline: Pipeline, seen: Mapping[str, Seen]) -> str | None:
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


def _processes(owners: Sequence[kinds.Owner], frames: Sequence[kinds.Frame]) -> Iterator[Owner]:
    for pid, command in {e.pid: e.command for e in owners}.items():
        conns = {e.conn for e in owners if e.pid == pid}
        yield Owner(
            pid, command, len(conns), _counted(str(e.api) for e in frames if e.conn in conns)
        )


def _counted(names: Iterator[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def untried(
    pipeline: Pipeline, scenarios: Sequence[Scenario], seen: Mapping[str, Seen] | None = None
) -> tuple[str, ...]:
    """Return a sentence for each stage that no scenario kills: its behaviour in a crash is
    untested.

    Also for a reader that keeps its own position, if no scenario kills it at a durable write, or at
    what it says to a service. Then a crash between result and position is untested, and that is
    where such programs fail. And for a stage that speaks to servers past the wire.
    """
    found = [unseen(role, one.elsewhere) for role, one in (seen or {}).items() if one.elsewhere]
    for stage in pipeline.stages:
        kills = [
            scenario for scenario in scenarios if stage.known in scenario.fault.evidence().killed
        ]
        reasons = [
            each.because
            for each in (s.expect[pipeline.claims] for s in kills)
            if isinstance(each, NotApplicable)
        ]
        if len(reasons) == len(kills):
            why = f" ({reasons[0]})" if reasons else ""
            found.append(f"The {stage.known} is not tried: no failure point kills it{why}.")
            continue
        between = [s for s in kills if s.failure_point in (AT_WRITE, AT_SERVICE)]
        at_writes = [s.expect[pipeline.claims] for s in between if s.failure_point == AT_WRITE]
        if (
            stage.position == "elsewhere"
            and at_writes
            and all(isinstance(s.expect[pipeline.claims], NotApplicable) for s in between)
        ):
            why = next(each.because for each in at_writes if isinstance(each, NotApplicable))
            found.append(
                f"A crash of the {stage.known} between its result and its position is not tried: "
                f"{why}."
            )
    return tuple(found)


def explanation(
    pipeline: Pipeline, seen: Mapping[str, Seen], scenarios: Sequence[Scenario]
) -> Iterator[str]:
    """Yield the plan as lines: the requests of the stages in the dry run, the faults to come, and
    those that do not apply.
    """
    records, short = enough(pipeline, seen)
    load = f"{counted(records, 'record')} from {pipeline.input.kind} to {pipeline.output.kind}"
    yield f"{pipeline.name} claims {pipeline.claims}: {load}"
    for role, one in seen.items():
        yield (
            f"  {role}: {counted(one.connections, 'connection')} as {', '.join(one.clients)}; "
            f"requests: {_asked(one.requests)}"
        )
        for owner in one.processes if len(one.processes) > 1 else ():
            held = counted(owner.connections, "connection")
            yield (
                f"    process {owner.pid} ({without_folders(owner.command)}): {held}; "
                f"{_asked(owner.requests)}"
            )
        if told := _share(one.share):
            yield f"    {told}"
        yield from _behind_the_record(one)
    if short:
        yield (
            "  a fault may strike many records at once; a cell in which no other record moves "
            f"after it is void: {short}"
        )
    yield "failure points; each fault strikes at one record, of the middle third if not said else:"
    for scenario in scenarios:
        expectation = scenario.expect[pipeline.claims]
        if not isinstance(expectation, NotApplicable):
            price = f" ({priced(scenario)})" if is_long(scenario) else ""
            yield f"  {scenario.id}{price}: {scenario.because}"
    for scenario in scenarios:
        expectation = scenario.expect[pipeline.claims]
        if isinstance(expectation, NotApplicable):
            yield f"  not {scenario.id}: {expectation.because}"


def _behind_the_record(one: Seen) -> Iterator[str]:
    """Say what a stage has written and said to services since it was given the target."""
    if one.written.made:
        yield f"    durable writes behind the record: {_asked(one.written.counts)}"
    for service, said in one.said.items():
        yield f"    said to the {service} behind the record: {_asked(said.counts)}"


def _share(share: Share) -> str:
    """Say of a stage that handled only some records which of them; nothing of other stages."""
    parts = [
        f"{done} {len(some)} of {share.offered} records; a fault strikes at one of these"
        for done, some in (
            ("it was given", share.some(sent=False)),
            ("it sent", share.some(sent=True)),
        )
        if some is not None
    ]
    return "; ".join(parts)


def without_folders(command: str) -> str:
    """Return a command without the folders in it.

    >>> without_folders("/shop/.venv/bin/python -u book.py /shop/reports/1/work/shop.db")
    'python -u book.py shop.db'
    """
    return re.sub(r"\S*/(?=\S)", "", command)


def _asked(requests: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{name} {count}" for name, count in requests.items() if name not in _PLUMBING)
        or "none"
    )

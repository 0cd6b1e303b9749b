"""The failure point at which a commit overtakes the work: what of a reading stage can be held, and
how long its commits may take, as the dry run shows it.
"""

from __future__ import annotations

import glob
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.controls import InHand, OnWire
from harness.faults import CommitOvertakesWork, MarkOvertakesAcknowledgement, PartedFromWork
from harness.model import events as kinds
from harness.model.events import DrainPhase
from harness.model.rhythm import SESSION_S, TWICE, Rhythm
from harness.model.scenario import Role
from harness.model.writes import CALLS, FirstWrites, are_one_each, is_within
from harness.pipelines.braces import fill
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.protocols.kafka.steps import Api
from harness.protocols.tcp.steps import Exchange
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.history import History
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.stages import Stage
    from harness.pipelines.traffic import DryRun, StageTraffic

OVERTAKES: Final = "commit-overtakes-work"
BECAUSE: Final = (
    "The {role} has only this record in hand, and its result is held on its way out, while the "
    "rest of the program runs on. If its position passes the record meanwhile, the {role} is "
    "killed; if not, the result goes on."
)
MARK_OVERTAKES: Final = "mark-overtakes-acknowledgement"
MARK_BECAUSE: Final = (
    "The producer's request with the record is held. If the producer has saved anything, such as "
    "the mark that the record is sent, it is killed and the request never arrives; if not, the "
    "request goes on."
)
RESTED: Final = 1_000_000_000
"""For so long (nanoseconds) nothing is recorded at the end of a run, so no stage has work then."""
SAVES: Final = (
    Moment.POSITION_ANSWER,
    Moment.SESSION_COMMIT,
    Moment.ACKNOWLEDGEMENT,
)
"""The moments at which a reader's position is stored, those first that are stored last."""


@dataclass(frozen=True, slots=True)
class Overtaking:
    """The point of one stage. Its fault's id is the name of the failure point. ``reason``: why it
    does not apply; ``None``: it does.
    """

    name: str
    fault: CommitOvertakesWork | MarkOvertakesAcknowledgement | PartedFromWork
    because: str
    reason: str | None = None
    point: str = ""
    """The name of the failure point, if it is not its fault's."""
    waits_s: float = 0.0


def overtaking_points(pipeline: Pipeline, seen: DryRun) -> Iterator[Overtaking]:
    """Yield the point of the producer and of each reading stage."""
    yield from _marks(pipeline, seen)
    reading = [stage for stage in pipeline.stages if stage.reads]
    for stage in reading:
        role = stage.known
        name = OVERTAKES if len(reading) == 1 else f"{role}-{OVERTAKES}"
        at = OnWire(role, *pipeline.dialect.steps[Moment.DELIVERY])
        because = BECAUSE.format(role=role)
        if not seen:
            yield Overtaking(name, CommitOvertakesWork(at), because)
            continue
        found = seen.get(role)
        work = (
            f"the dry run did not see the {role}"
            if found is None
            else held_work(pipeline, stage, at, found)
        )
        if isinstance(work, str):
            yield Overtaking(name, CommitOvertakesWork(at), because, work)
        else:
            yield Overtaking(name, CommitOvertakesWork(at, work), because)


def _marks(pipeline: Pipeline, seen: DryRun) -> Iterator[Overtaking]:
    """Yield the producer's point."""
    stage = pipeline.stage(Role.PRODUCER)
    if stage is None:
        return
    role, dialect = stage.known, pipeline.dialect
    found = (seen or {}).get(role)
    moment, sends = Moment.SEND, found.moments.get(Moment.SEND) if found else None
    if found and Moment.COMMIT in dialect.steps:
        ends, _ = dialect.at(Moment.COMMIT, found.moments.get(Moment.COMMIT))
        if Moment.COMMIT in found.moments or (dialect.logs and ends.label in found.steps):
            moment = Moment.COMMIT
    at = OnWire(role, *dialect.at(moment, found.moments.get(moment) if found else None))
    yield Overtaking(
        MARK_OVERTAKES,
        MarkOvertakesAcknowledgement(
            at,
            OnWire(role, *dialect.at(Moment.SEND, sends)),
            unseen=found.elsewhere if found else (),
        ),
        MARK_BECAUSE,
        _why_no_mark(pipeline, stage, seen),
    )


def _why_no_mark(pipeline: Pipeline, stage: Stage, seen: DryRun) -> str | None:
    """Say why nobody can see a mark of the producer; ``None``: one can be seen."""
    if pipeline.input.kind is InputKind.STDIN:
        return (
            "the producer reads standard input: lostack itself marks what it was given, and no "
            "mark is the producer's"
        )
    if stage.image:
        return "the producer is a container: lostack does not trace processes in containers"
    readers = [each for each in pipeline.stages if each.reads and not each.image]
    found = [(seen or {}).get(each.known) for each in readers]
    untraced = [each.written.because for each in found if each is not None]
    return untraced[0] if untraced and all(untraced) else None


def held_work(pipeline: Pipeline, stage: Stage, at: OnWire, found: StageTraffic) -> InHand | str:
    """Return what of the stage is held; or why nothing can be."""
    role, dialect = stage.known, pipeline.dialect
    saves = _saves(role, dialect, found)
    if saves is None:
        return (
            f"the {role} saves its position in the transaction of its results: neither can be first"
            if Api.TXN_OFFSET_COMMIT.label in found.steps
            else f"the dry run saw no position of the {role} that its broker stores"
        )
    if found.rhythm.is_long:
        return (
            f"the {role} saves its position every {found.rhythm.commits_s:.0f} s; this point waits "
            "for twice as long only where that is 10 s or less"
        )
    sends = OnWire(role, *dialect.at(Moment.SEND, found.moments.get(Moment.SEND)))
    sent = Moment.SEND in found.moments or (dialect.logs and sends.api.label in found.steps)
    only_sends = stage.role is Role.PROCESSOR and sent
    writes = None if only_sends else _writes(pipeline, stage, found)
    in_output = isinstance(writes, FirstWrites) and bool(writes.within)
    services = _services(role, found)
    incessant = (*(name for name, held in services.items() if held is None),)
    talks = bool(sent and any(step == sends.api.label for step, _ in found.rhythm.incessant))
    # where its results are known to go, they are held there
    if (incessant or talks) and not (in_output or (only_sends and not talks)):
        servers = [*(f"the {name}" for name in incessant), *(["its broker"] if talks else [])]
        return (
            f"the {role} speaks to {' and '.join(servers)} all the time, also with no record in "
            "hand: nobody can tell which of that is work"
        )
    held = tuple(each for each in services.values() if each is not None)
    if sent and not talks:
        held = (sends, *held)
    if isinstance(writes, str) and not held:
        return writes
    return InHand(
        at,
        saves,
        writes if isinstance(writes, FirstWrites) else None,
        held,
        round(found.rhythm.within_s, 2),
        round(found.rhythm.quiet_s, 2),
        # its results are in no file of its output: they may be there
        () if only_sends or in_output else found.elsewhere,
    )


def _services(role: Role, found: StageTraffic) -> dict[str, OnWire | None]:
    """Return what the stage says to each service when it has work; ``None``: nobody can tell, for
    it says the same all the time.
    """
    told = found.rhythm.incessant
    return {
        name: OnWire(role, step, Direction.REQUEST, node=name, least=told.get((step.label, name)))
        if (step.label, name) not in told
        or (step is Exchange.TURN and told[step.label, name] is not None)
        else None
        for name, each in found.said.items()
        if (step := each.step) is not None
    }


def _saves(role: Role, dialect: Dialect, found: StageTraffic) -> OnWire | None:
    """Return the step at which the stage's position is stored; ``None``: the dry run saw none."""
    for moment in SAVES:
        if moment not in dialect.steps:
            continue
        step, way = dialect.at(moment, found.moments.get(moment))
        if moment in found.moments or (dialect.logs and step.label in found.steps):
            return OnWire(role, step, way)
    return None


def _writes(pipeline: Pipeline, stage: Stage, found: StageTraffic) -> FirstWrites | str:
    """Return the durable writes at which its work is held: those into the output, if it is a file
    that the stage writes; else all. Or why there are none.
    """
    role, written, output = stage.known, found.written, pipeline.output
    if written.because is not None:
        return written.because
    calls = any(call in CALLS for call in written.made)
    new = (file for file in written.unrepeated if not file.startswith("{temporary}"))
    files = tuple(sorted((*written.files, *new)))
    last = stage is pipeline.stages[-1]
    if last and output.file and output.kind in {OutputKind.SQLITE, OutputKind.LINES}:
        within = _glob_of(pipeline)
        into = tuple(file for file in files if is_within(file, within))
        if into and not are_one_each(len(into), written.records):
            return FirstWrites(into, within)
    if are_one_each(len(files), written.records):
        return (
            FirstWrites()
            if calls
            else (
                f"the {role} writes each result into a new file, with no call (such as a rename) "
                "that could be held"
            )
        )
    if written.files or calls:
        return FirstWrites(written.files)
    return (
        f"the dry run saw the {role} neither write into a file, nor send a record, nor speak to a "
        "service: nothing of its work can be held"
    )


def _glob_of(pipeline: Pipeline) -> str:
    """Return the glob of the files that are the output, as the kernel names them: whole paths, but
    ``{work}`` for the work folder.
    """
    parts, literal = Path(pipeline.output.file).parts, pipeline.output.kind is OutputKind.SQLITE
    whole = (each for each, part in enumerate(parts) if glob.has_magic(part) and not literal)
    count = next(whole, len(parts))
    folder = fill(str(Path(*parts[:count])), {"here": pipeline.directory})
    real = (
        os.path.normpath(folder)
        if folder.startswith("{work}")
        else os.path.realpath(pipeline.directory / folder)
    )
    return str(Path(glob.escape(real), *parts[count:])) + ("*" if literal else "")


def rhythms_in(history: History, roles: Mapping[str, str]) -> dict[str, Rhythm]:
    """Return the rhythm of each stage that saved positions, or acknowledged records, in a run
    without a fault. ``roles``: by connection.
    """
    given = defaultdict[str, dict[str, tuple[kinds.Fetched, int]]](dict)
    for event in history.of(kinds.Fetched):
        if event.reached:
            of = given[roles.get(str(event.conn), "")]
            of.setdefault(event.record, (event, event.t))
    sessions = {
        role: min(
            (e.session_ms for e in history.of(kinds.Frame) if e.role == role and e.session_ms),
            default=SESSION_S * 1000,
        )
        / 1000
        for role in given
    }
    found = {
        role: _rhythm(records, _saved(history, roles, role), sessions[role])
        for role, records in given.items()
    }
    polls = {
        roles.get(str(e.conn), ""): e.poll_ms / 1000
        for e in history.of(kinds.GroupMember)
        if e.poll_ms is not None
    }
    return {
        role: replace(
            rhythm,
            incessant=_goes_on(history, role, rhythm.quiet_s, given[role]),
            poll_s=polls.get(role),
        )
        for role, rhythm in found.items()
    }


def _goes_on(
    history: History,
    role: str,
    quiet_s: float,
    given: Mapping[str, tuple[kinds.Fetched, int]],
) -> dict[tuple[str, str], int | None]:
    """Return the requests of a stage, each with its server, that go on when everything is at rest:
    before the drain is complete, they pause for ``quiet_s`` (seconds) in less than half of the
    time. And from which size on a request is none of these; see :class:`Rhythm`.
    """
    ends = [e.t for e in history.of(kinds.Drain) if e.phase == DrainPhase.COMPLETED]
    if not ends:
        return {}
    quiet, since = round(quiet_s * 1e9), min(t for _, t in given.values())
    end, begin = ends[-1], ends[-1] - max(TWICE * quiet, RESTED)
    asked = defaultdict[tuple[str, str], list[kinds.Frame]](list)
    for event in history.of(kinds.Frame):
        if event.role == role and event.dir == Direction.REQUEST and since < event.t < end:
            asked[str(event.api), str(event.node)].append(event)
    found = dict[tuple[str, str], int | None]()
    for request, events in asked.items():
        at_rest = [e for e in events if e.t > begin]
        gaps = _gaps(begin, sorted(e.t for e in at_rest), end)
        if sum(gap for gap in gaps if gap >= quiet) < (end - begin) / TWICE:
            least = 1 + max(e.size or 0 for e in at_rest)
            larger = sum((e.size or 0) >= least for e in events)
            found[request] = least if larger > 1 else None
    return found


def _gaps(begin: int, times: list[int], end: int) -> Iterator[int]:
    return (later - earlier for earlier, later in pairwise((begin, *times, end)))


def _saved(
    history: History, roles: Mapping[str, str], role: str
) -> list[kinds.CommitAnswer | kinds.Acknowledged]:
    """Return the events which show that a position or an acknowledgement of a stage is stored."""
    return [
        event
        for event in history.of(kinds.CommitAnswer, kinds.Acknowledged)
        if roles.get(str(event.request).split(":")[0]) == role
        and (not event.error if isinstance(event, kinds.CommitAnswer) else event.reached)
    ]


def _rhythm(
    given: Mapping[str, tuple[kinds.Fetched, int]],
    saved: list[kinds.CommitAnswer | kinds.Acknowledged],
    session_s: float,
) -> Rhythm:
    """Return the rhythm of a stage. A commit is late by the time since the one before it, or since
    the first record that it covers was given, whichever is less: records may wait in a queue of the
    client's for long.
    """
    waiting, covered, latest, last = dict(given), list[int](), 0, 0
    for event in sorted(saved, key=lambda each: each.t):
        done = {
            record: since
            for record, (copy, since) in waiting.items()
            if since <= event.t and _covers(event, copy)
        }
        if not done:
            continue
        latest = max(latest, event.t - max(last, min(done.values())))
        covered += done.values()
        last = event.t
        for record in done:
            del waiting[record]
    if not covered:
        return Rhythm(session_s=session_s)
    return Rhythm(latest / 1e9, session_s, (last - min(covered)) / 1e9 / len(covered))


def _covers(event: kinds.CommitAnswer | kinds.Acknowledged, copy: kinds.Fetched) -> bool:
    if isinstance(event, kinds.Acknowledged):
        return event.record == copy.record
    place = (event.topic, event.partition)
    return place == (copy.topic, copy.partition) and (event.offset or 0) > (copy.offset or 0)

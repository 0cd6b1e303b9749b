"""The names of steps: those of three real runs of one load, and of runs that are made up."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.controls import OnWire
from harness.faults import CrashAtWrite
from harness.faults.network import Until
from harness.model import events as kinds
from harness.model.failures import UsageError
from harness.model.history import History, parse_history
from harness.pipelines import read_pipeline
from harness.protocols.pulsar.steps import Command as Pulsar
from harness.protocols.stomp.steps import Command as Stomp
from harness.sweep.acts import HAND_OVER, HOLD, LATE_NEXT, LATE_NEXT_KILL, trigger
from harness.sweep.found import FoundScenario
from harness.sweep.phases import CALM, name_of, phases
from harness.sweep.pipelines import declared_sweep, failpoints_of, swept
from harness.sweep.points import Capabilities, at_writes, in_programs, points, tried
from harness.sweep.steps import Step, Steps, intersected, process_of, shared_roles, trace
from harness.systems.declared.brokers.attached import AttachedKafka
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.system import DeclaredSystem
from harness.wire.rules import Direction
from tests.events import a_history
from tests.narrow import narrow
from tests.pipelines.scenes import EXAMPLES
from tests.sweep.stepping import asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.cell import Load
    from harness.wire.rules import StepName

SAVED = Path(__file__).with_name("dry.tar.xz")
"""What the wire wrote in three runs of the plain pipeline without a fault, under each semantic:
Kafka, kafka-python, seed 1.
"""
KEY = "c0ffee"


def saved(semantic: str) -> list[tuple[History, str]]:
    """Return real runs, with the keys of their cells."""
    found = []
    with tarfile.open(SAVED) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if member.name.startswith(f"{semantic}/") and file is not None:
                found.append(
                    (parse_history([("wire.jsonl", [file.read()])]), Path(member.name).stem)
                )
    return found


def steps_of(runs: list[tuple[History, str]]) -> Steps:
    """Return what runs have in common."""
    return intersected([trace(history, key) for history, key in runs])


@pytest.mark.parametrize(
    ("semantic", "frames", "by_record", "others", "points_"),
    [
        ("at-least-once", 185, (120, 120), (31, 32), 1479),
        ("exactly-once", 429, (168, 168), (150, 174), 3158),
    ],
)
def test_steps_of_real_runs(
    semantic: str, frames: int, by_record: tuple[int, int], others: tuple[int, int], points_: int
) -> None:
    """Every frame about a record stands in all three runs, in the same phase; most others do, named
    by the step before them.
    """
    runs = saved(semantic)
    steps = steps_of(runs)
    assert steps.frames == frames
    assert (steps.recurred[True], steps.named[True]) == by_record
    assert (steps.recurred[False], steps.named[False]) == others
    names = [step for step, _ in steps.found]
    assert len(set(names)) == len(names) == len({str(name) for name in names})
    phase = phases(runs[0][0])
    assert {phase[name_of(frame.line)] for _, frame in steps.found} >= {CALM, "position behind"}
    [base] = swept([f"plain/{semantic}"], asked(system="", records=24))
    assert len(list(points(steps, base.load(), Capabilities()))) == points_


def test_the_load_of_a_sweep_is_that_of_its_dry_runs() -> None:
    """What the frames of the saved runs are about are the records that a sweep of that seed offers
    today.
    """
    [base] = swept(["plain/at-least-once"], asked(system="", records=24))
    about = {
        name.record
        for step, frame in steps_of(saved("at-least-once")).found
        for name in (step, *frame.names)
        if name.record
    }
    assert about == {record.id for record in base.load().records}


def test_a_point_is_armed_where_its_step_stands() -> None:
    """A step that names no record counts from another one, which names one; both are counted as the
    wire counts.
    """
    end = Step("producer", "EndTxn", Direction.REQUEST, 2, "k1-3")
    after = Step("producer", "AddPartitionsToTxn", Direction.RESPONSE, 1, anchor=end)
    at = trigger(after)
    assert (at.api.label, at.direction, at.occurrence, at.offset) == (
        "AddPartitionsToTxn",
        Direction.RESPONSE,
        1,
        0,
    )
    assert at.since == trigger(end)
    assert after.at == end.at == "k1-3"
    with pytest.raises(KeyError):
        trigger(Step("producer", "api-75", Direction.REQUEST, 1, "k1-3"))


def test_the_failpoints_of_a_program_are_points_at_every_record() -> None:
    """Those that scenarios name on the same pipeline, the commit of its database among them; a file
    says them.
    """
    [base] = swept(["plain/exactly-once"], asked(system="", records=24))
    named = failpoints_of(base)
    assert {("consumer", "before-database-commit"), ("consumer", "after-database-commit")} <= set(
        named
    )
    assert named == failpoints_of(swept(["plain/at-most-once"], asked(system=""))[0])
    [queue] = swept(["queue/at-least-once"], asked(system="activemq"))
    assert ("producer", "between-phases") not in failpoints_of(queue)
    assert ("consumer", "before-commit") in failpoints_of(queue)
    assert ("processor", "before-commit") in failpoints_of(
        swept(["topic-to-topic/exactly-once"], asked(system=""))[0]
    )
    found = list(in_programs(steps_of(saved("exactly-once")), Capabilities(failpoints=named)))
    assert len(found) == 24 * len(named)
    assert {str(point.step) for point in found} >= {"consumer.before-commit.failpoint.k3-13"}
    assert {point.fault.evidence().trigger for point in found} == {"failpoint"}
    with pytest.raises(ValueError, match="is not possible at a failpoint"):
        replace(found[0].happens, act="lose").fault()


def test_another_broker_leads_where_one_can_hand_over() -> None:
    """At what one of several leads: partitions, and the logs of coordinators."""
    [base] = swept(["plain/exactly-once"], asked(system="", records=24))
    steps, load = steps_of(saved("exactly-once")), base.load()

    def handed(can: Capabilities) -> set[str]:
        return {one.step.api for one in points(steps, load, can) if one.act == HAND_OVER}

    assert handed(Capabilities()) == set()
    assert handed(Capabilities(hand_over=True)) >= {"Produce", "Fetch", "EndTxn"}


@pytest.mark.parametrize(("own", "brokers"), [(True, 3), (True, 1), (False, 3)])
def test_only_brokers_of_lostack_hand_over(own: bool, brokers: int, tmp_path: Path) -> None:
    pipeline = replace(read_pipeline(EXAMPLES / "orders" / "pipeline.toml"), brokers=brokers)
    attached = AttachedKafka(Attachment("127.0.0.1:9", pipeline))
    system = DeclaredSystem() if own else DeclaredSystem(source=attached)
    sweep = declared_sweep(asked(system=""), tmp_path, pipeline, system)
    assert sweep.planner.hands_over is (own and brokers > 1)


@pytest.mark.parametrize("semantic", ["at-least-once", "exactly-once"])
def test_an_answer_is_held_until_what_can_come_before_it(semantic: str) -> None:
    """A reader's until the source is exhausted; a producer's until a reader has its record, where
    that is visible by then.
    """
    [base] = swept([f"plain/{semantic}"], asked(system="", records=24))
    held = [
        point
        for point in points(steps_of(saved(semantic)), base.load(), Capabilities())
        if point.act == HOLD
    ]
    assert {str(point.step.direction) for point in held} == {"response"}
    of = {
        role: [point for point in held if point.step.role == role]
        for role in ("producer", "consumer")
    }
    assert {point.fault.until for point in of["consumer"]} == {Until.EXHAUSTED}
    last = "EndTxn" if semantic == "exactly-once" else "Produce"
    assert {point.step.api for point in of["producer"]} == {last}
    assert {str(point.fault.until.role) for point in of["producer"]} == {"consumer"}
    at = narrow(held[0].happens.at, OnWire)
    with pytest.raises(ValueError, match="the act hold is not possible at this frame"):
        replace(of["consumer"][0].happens, at=replace(at, direction=Direction.REQUEST)).fault()


def test_what_is_late_arrives_at_an_answer_that_waits_for_it() -> None:
    """A reader is given records whatever becomes of its commit; what a commit is late for is the
    next commit's answer.
    """
    [base] = swept(["plain/exactly-once"], asked(system="", records=24))
    late = [
        point
        for point in points(steps_of(saved("exactly-once")), base.load(), Capabilities())
        if point.act == LATE_NEXT
    ]
    into = {(point.step.api, point.happens.into.api.label) for point in late if point.happens.into}
    assert {api for api, _ in into} >= {"OffsetCommit", "EndTxn", "Produce"}
    assert "Fetch" not in {api for _, api in into}
    assert ("OffsetCommit", "OffsetCommit") in into


def test_who_dies_of_a_late_commit_has_worked_on_the_next_record() -> None:
    """At most once the position is saved before the work: the next record but one is asked for when
    the next one is done.
    """
    [base] = swept(["plain/at-most-once"], asked(system="", records=24))
    load = base.load()
    at = {record.position: record for record in load.records}
    late = [
        one
        for one in points(steps_of(saved("at-most-once")), load, Capabilities(resends=False))
        if one.act == LATE_NEXT_KILL
    ]
    commits = [
        one
        for one in late
        if one.step.api == "OffsetCommit" and one.step.record and one.happens.into
    ]
    assert commits
    met = set()
    for point in commits:
        here = next(record for record in load.records if record.id == point.step.at)
        into = point.happens.into
        assert into is not None
        behind = [
            record
            for record in load.records
            if record.key == here.key and record.position > here.position
        ]
        one = at[here.position + into.offset]
        met.add((len(behind) > 1, str(into.direction), behind[1:2] == [one]))
    assert met == {(True, "request", True), (False, "response", False)}


def test_what_is_late_arrives_where_something_was_done_since() -> None:
    """In its own partition: at the next record of its key, where one comes. The end of a
    transaction is late for any.
    """
    [base] = swept(["plain/exactly-once"], asked(system="", records=24))
    load = base.load()
    at = {record.position: record for record in load.records}
    late = [
        point
        for point in points(steps_of(saved("exactly-once")), load, Capabilities())
        if point.act == LATE_NEXT
    ]
    into: dict[str, set[tuple[bool, bool]]] = {}
    for point in late:
        here = next(record for record in load.records if record.id == point.step.at)
        comes = any(
            record.key == here.key and record.position > here.position for record in load.records
        )
        if point.happens.into is not None and point.step.record is not None:
            met = at[here.position + point.happens.into.offset]
            into.setdefault(point.step.api, set()).add((comes, met.key == here.key))
    assert (True, True) in into["OffsetCommit"] & into["Produce"] & into["EndTxn"]
    assert (True, False) not in into["OffsetCommit"] | into["Produce"]
    assert (True, False) in into["EndTxn"]


def test_who_sends_nothing_again_is_late_for_nothing() -> None:
    """A producer without retries: there is no answer to what it has not asked again. A consumer
    asks again all the same.
    """
    [base] = swept(["plain/at-most-once"], asked(system="", records=24))

    def late(can: Capabilities) -> set[tuple[str, str]]:
        steps = steps_of(saved("at-most-once"))
        return {
            (point.step.role, point.act)
            for point in points(steps, base.load(), can)
            if point.act.startswith("late")
        }

    assert late(Capabilities()) - late(Capabilities(resends=False)) == {("producer", "late")}
    assert ("consumer", "late") in late(Capabilities(resends=False))


def played(frames: list[tuple[str, str, int, bool]], load: Load, protocol: str = "") -> Steps:
    """Return the steps of a producer's frames, each by API, direction, at which record of a load,
    and whether it is answered.
    """
    lines: list[dict[str, object]] = [
        {"event": "conn", "t": 0, "by": "wire", "phase": "open", "conn": 1, "protocol": protocol}
    ]
    lines += [
        frame(at, api, way, (load.records[one].id,))
        | ({} if answered or way == "response" else {"answered": False})
        for at, (api, way, one, answered) in enumerate(frames, 1)
    ]
    return steps_of([(a_history(tuple(lines)), KEY)])


def acts_of(steps: Steps, load: Load, can: Capabilities) -> dict[str, set[str]]:
    """Return what may happen to the requests, by their API."""
    found: dict[str, set[str]] = {}
    for point in points(steps, load, can):
        if point.step.direction == Direction.REQUEST:
            found.setdefault(point.step.api, set()).add(point.act)
    return found


def test_what_asks_for_no_answer_is_not_refused_nor_left_without_one() -> None:
    """Its own frame says whether it does: of an ACK that asks for a receipt, and of one that does
    not, only the first is.
    """
    load = swept(["queue/at-least-once"], asked(system="activemq", records=24))[0].load()
    for protocol, api in (
        ("stomp", "SEND"),
        ("stomp", "ACK"),
        ("openwire", "MESSAGE"),
        ("amqp", "TRANSFER"),
    ):
        acts = [
            acts_of(played([(api, "request", 1, answered)], load, protocol), load, Capabilities())
            for answered in (True, False)
        ]
        assert acts[0].get(api, set()) - acts[1].get(api, set()) == (
            {"refuse-refused", "silent"} if api in {"SEND", "ACK", "MESSAGE"} else set()
        )
        assert not any(act.startswith("refuse") for act in acts[1].get(api, set()))


@pytest.mark.parametrize(
    ("protocol", "command", "refused"),
    [
        ("stomp", Stomp.SEND, {"refuse-refused"}),
        (
            "pulsar",
            Pulsar.SEND,
            {"refuse-NotAllowedError", "refuse-PersistenceError", "refuse-done-PersistenceError"},
        ),
    ],
)
def test_a_step_is_that_of_the_protocol_that_is_spoken(
    protocol: str, command: StepName, refused: set[str], tmp_path: Path
) -> None:
    """STOMP and Pulsar both have a SEND: its rule, its acts, and its file are of the one that its
    connection speaks.
    """
    load = swept(["queue/at-least-once"], asked(system="activemq", records=24))[0].load()
    steps = played([("SEND", "request", 1, True)], load, protocol)
    [(step, _)] = steps.found
    assert trigger(step).api is command
    assert {
        act for act in acts_of(steps, load, Capabilities())["SEND"] if act.startswith("refuse")
    } == refused
    [cell, *_] = points(steps, load, Capabilities())
    found = FoundScenario(
        "one",
        "It is so.",
        1,
        24,
        2,
        cell.happens,
        pipeline="queue/at-least-once",
        system="activemq",
    )
    read = FoundScenario.load(found.save(tmp_path, "one.toml"))
    assert read.fault == cell.happens
    assert narrow(read.fault.at, OnWire).api is command
    (tmp_path / "two.toml").write_text(
        found.text(tmp_path).replace(f', protocol = "{protocol}"', "")
    )
    with pytest.raises(UsageError, match="several protocols have a step called SEND"):
        FoundScenario.load(tmp_path / "two.toml")


def test_who_shares_the_work_of_a_group() -> None:
    """Several processes of one stage: by the kernel where no client id tells them apart. One beside
    the group shares nothing.
    """

    def joins(role: str, conn: int, client: str, api: str = "JoinGroup") -> dict[str, Any]:
        return {
            "event": "frame",
            "t": conn,
            "dir": "request",
            "role": role,
            "conn": conn,
            "api": api,
            "client": client,
        }

    def owner(conn: int, pid: int) -> dict[str, Any]:
        return {
            "event": "owner",
            "t": conn,
            "conn": conn,
            "role": "processor",
            "pid": pid,
            "command": "python",
        }

    foreign = [joins("processor", 1, "rdkafka"), joins("processor", 2, "rdkafka")]
    both, one = [owner(1, 70), owner(2, 71)], [owner(1, 70), owner(2, 70)]
    assert shared_roles(a_history((*foreign, *both)), KEY) == {"processor"}
    assert shared_roles(a_history((*foreign, *one)), KEY) == set()
    assert shared_roles(a_history(tuple(foreign)), KEY) == set()
    assert shared_roles(a_history((*foreign, both[0])), KEY) == set(), (
        "a connection that nobody looked at is no process"
    )
    beside = [joins("processor", 1, "rdkafka"), joins("processor", 2, "rdkafka", "Metadata")]
    assert shared_roles(a_history((*beside, *both)), KEY) == set()
    for api in ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "api-88"):
        ours = [joins("consumer", at, f"{KEY}.consumer-{at}.1", api) for at in (1, 2)]
        assert shared_roles(a_history(tuple(ours)), KEY) == {"consumer"}


@pytest.mark.parametrize("named", [False, True])
def test_only_who_names_itself_is_fenced_by_its_name(named: bool) -> None:
    """FENCED_INSTANCE_ID is about a group.instance.id: to a member without one no broker says it,
    and the point says why.
    """
    load = swept(["plain/at-least-once"], asked(system="", records=24))[0].load()
    join = frame(1, "JoinGroup", "request") | ({"named_member": True} if named else {})
    commit = [
        frame(at, "OffsetCommit", way, (load.records[1].id,))
        for at, way in enumerate(("request", "response"), 2)
    ]
    steps = steps_of([(a_history((join, *commit)), KEY)])
    refusals = {
        point.act: point.illegal
        for point in points(steps, load, Capabilities())
        if point.act.startswith("refuse")
    }
    assert "without a group.instance.id" in (refusals["refuse-FENCED_INSTANCE_ID"] or "") or named
    assert {act for act, illegal in refusals.items() if illegal} == (
        set() if named else {"refuse-FENCED_INSTANCE_ID"}
    )
    assert len(refusals) > 5


def test_nobody_is_told_that_a_record_is_gone_which_is_there() -> None:
    """A reader that falls back to the first record, or to the last, would be convicted of it."""
    load = swept(["plain/at-least-once"], asked(system="", records=24))[0].load()
    fetches = [
        frame(at, "Fetch", way, (load.records[one].id,) if way == "response" else ())
        for at, (one, way) in enumerate(product((1, 2, 3), ("request", "response")), 1)
    ]
    steps = steps_of([(a_history(tuple(fetches)), KEY)])
    refused = {
        point.act: point.illegal or ""
        for point in points(steps, load, Capabilities())
        if point.act.startswith("refuse")
    }
    assert "the log has the offset" in refused["refuse-OFFSET_OUT_OF_RANGE"]
    assert not refused["refuse-NOT_LEADER_OR_FOLLOWER"]


Refused = set[tuple[int, int]]
"""Which requests a broker refuses by itself: at which of two records, and which one there."""


def illegal_at(
    runs: Sequence[Refused], api: str, *, own: bool = False, turns: int = 1
) -> set[tuple[int, int, bool]]:
    """Return what is not tried at requests of an API: at which record, which request, and whether
    only what is done and refused. Each run has ``turns`` requests at each record, and one more
    where the last one is refused. ``own``: the record is named by the requests themselves, not by
    the end of a transaction before them.
    """
    load = swept(["plain/exactly-once"], asked(system="", records=24))[0].load()
    ids = [record.id for record in load.records[1:3]]

    def run(refused: Refused) -> tuple[History, str]:
        lines: list[dict[str, Any]] = []
        for at, record in enumerate(ids):
            about = (record,) if own else ()
            for way in () if own else ("request", "response"):
                lines += [frame(len(lines) + 1, "EndTxn", way, (record,))]
            turn = 0
            while turn < turns or (at, turn - 1) in refused:
                corr = {"corr": 10 * len(lines) + 5}
                error = {"error": "NOT_LEADER_OR_FOLLOWER"} if (at, turn) in refused else {}
                lines += [
                    frame(len(lines) + 1, api, "request", about) | corr,
                    frame(len(lines) + 2, api, "response", about) | corr | error,
                ]
                turn += 1
        return a_history(tuple(lines)), KEY

    steps = steps_of([run(each) for each in runs])
    tried = [
        each
        for each in points(steps, load, Capabilities())
        if each.step.kind == ("producer", api, "request")
    ]
    assert {ids.index(each.step.at) for each in tried} == {0, 1}
    wrong = [each for each in tried if each.illegal]
    assert all("by themselves" in (each.illegal or "") for each in wrong)
    return {
        (ids.index(each.step.at), each.step.ordinal, each.act.startswith("refuse-done"))
        for each in wrong
    }


BOTH = [(at, 1, True) for at in (0, 1)]


@pytest.mark.parametrize(
    ("runs", "illegal"),
    [
        ([set(), set(), set()], set()),
        ([set(), {(0, 0)}, set()], {*BOTH}),
        ([{(0, 0)}] * 3, {*BOTH, (0, 2, False), (0, 2, True)}),
        ([{(0, 0), (1, 0)}] * 3, {*BOTH}),
    ],
)
def test_what_brokers_refuse_by_themselves_is_not_done(
    runs: list[Refused], illegal: set[tuple[int, int, bool]]
) -> None:
    """A new transaction is refused while the one before ends (CONCURRENT_TRANSACTIONS): it is not
    done, and is asked for a second time only then. Which one that meets is not sure, unless each
    does.
    """
    assert illegal_at(runs, "AddPartitionsToTxn") == illegal


@pytest.mark.parametrize("own", [False, True])
def test_one_refusal_says_nothing_of_other_requests(own: bool) -> None:
    """One that comes anyhow behind one that was refused is sure to come; and a record that was
    refused once says nothing of the other records.
    """
    api = "Produce" if own else "AddPartitionsToTxn"
    runs: list[Refused] = [set(), {(0, 0)}, set()]
    assert illegal_at(runs, api, own=own, turns=3) == {(0, 1, True)}
    assert illegal_at(runs, "Produce", own=True) == {(0, 1, True)}


def test_who_loses_its_connection_for_good_is_late_for_nothing() -> None:
    """Kafka's libraries connect anew by themselves. STOMP's do not: whether its program does is
    known of lostack's own only.
    """
    load = swept(["queue/at-least-once"], asked(system="activemq", records=24))[0].load()
    stomp = [
        (api, way, one, True)
        for one in (1, 2)
        for api, way in (("SEND", "request"), ("RECEIPT", "response"))
    ]
    kafka = [("Produce", way, one, True) for one in (1, 2) for way in ("request", "response")]

    def late(frames: list[tuple[str, str, int, bool]], *, reconnects: bool) -> set[str]:
        protocol = "stomp" if frames is stomp else "kafka"
        acts = acts_of(
            played(frames, load, protocol), load, Capabilities(resends=False, reconnects=reconnects)
        )
        return {act for each in acts.values() for act in each if act.startswith("late")}

    assert late(stomp, reconnects=False) == set()
    assert (
        late(stomp, reconnects=True) == late(kafka, reconnects=False) == {LATE_NEXT, LATE_NEXT_KILL}
    )


def test_durable_writes_are_points_at_every_record() -> None:
    """As the kernel has told them in a run without a fault, counted from when the stage is given
    the record.
    """
    made, files = {"fdatasync": [48], "write": [30]}, ("{work}/out",)
    told = kinds.Writes(t=0, role="consumer", made=made, records=24, files=files)
    writes = tuple(("consumer", write) for write in tried(told))
    assert {(write.call, write.files) for _, write in writes} == {
        ("fdatasync", ()),
        ("write", ("{work}/out",)),
    }
    found = list(at_writes(steps_of(saved("at-least-once")), Capabilities(writes=writes)))
    assert len(found) == 24 * len(writes)
    fault = found[0].fault
    assert isinstance(fault, CrashAtWrite)
    assert fault.point == writes[0][1]
    assert str(found[0].step) == f"consumer.after fdatasync 1.durable write.{found[0].step.record}"
    with pytest.raises(ValueError, match="is not possible at a durable write"):
        replace(found[0].happens, act="lose").fault()


def frame(
    number: int, api: str, way: str, records: tuple[str, ...] = (), error: int | None = None
) -> dict[str, object]:
    """Return the line of a frame."""
    line = {
        "event": "frame",
        "t": number,
        "by": "wire",
        "role": "producer",
        "client": f"{KEY}.producer.1-x",
        "conn": 1,
        "corr": number,
        "dir": way,
        "api": api,
    }
    return (
        line
        | ({"records": list(records)} if records else {})
        | ({} if error is None else {"error": error})
    )


def run_of(frames: Sequence[tuple[str, str, tuple[str, ...], int | None]]) -> tuple[History, str]:
    """Return a run of frames, each by API, direction, records and error."""
    return a_history(tuple(frame(number, *one) for number, one in enumerate(frames, 1))), KEY


def test_a_refused_answer_is_no_step() -> None:
    """A rule passes over it: the answer that grants what was asked has the same name with it and
    without it.
    """
    granted = [("Produce", "request", ("a",), None), ("Produce", "response", ("a",), 0)]
    refused = [granted[0], ("Produce", "response", ("a",), 7), *granted]
    steps = steps_of([run_of(granted), run_of(refused)])
    assert [str(step) for step, _ in steps.found] == [
        "producer.Produce.request.a",
        "producer.Produce.response.a",
    ]


def test_a_frame_about_several_is_named_by_the_one_that_all_runs_have_in_common() -> None:
    """Which records come in one answer is a matter of time; each of them comes in one."""
    together = [("Fetch", "response", ("a", "b"), 0)]
    apart = [("Fetch", "response", ("a",), 0), ("Fetch", "response", ("b",), 0)]
    assert [step.record for step, _ in steps_of([run_of(together), run_of(apart)]).found] == ["a"]
    assert [step.record for step, _ in steps_of([run_of(apart), run_of(together)]).found] == [
        "a",
        "b",
    ]


def test_what_is_counted_from_nothing_has_no_name() -> None:
    """Frames before the first record stand elsewhere in the next run, and no rule is
    armed by then.
    """
    begin = [("Metadata", "request", (), None)] * 3
    steps = steps_of(
        [run_of([*begin, ("Produce", "request", ("a",), None), ("Metadata", "request", (), None)])]
        * 3
    )
    assert [str(step) for step, _ in steps.found] == [
        "producer.Produce.request.a",
        "producer.Metadata.request.1-after-Produce.request.a",
    ]
    assert steps.early == len(begin)


def test_what_is_not_the_last_frame_of_its_message_is_no_step() -> None:
    """No rule acts at it: counted, it would name a frame of the next message, or none at all."""
    parts = [frame(2, "Deliver", "response"), frame(3, "Deliver", "response")]
    whole = frame(1, "Ack", "request", ("a",)), frame(4, "Deliver", "response", ("b",))

    def steps(**more: object) -> list[str]:
        lines = (whole[0], *(part | more for part in parts), whole[1])
        return [str(step) for step, _ in steps_of([(a_history(lines), KEY)] * 2).found]

    named = ["producer.Ack.request.a", "producer.Deliver.response.b"]
    assert steps(unfinished=True) == named
    assert len(steps()) == len(named) + len(parts)


def test_who_a_frame_is_of() -> None:
    """A client id of another cell's key is a stranger's, whom the wire knows by the route."""
    for client, process in (
        (f"{KEY}.consumer-2.3-rdkafka", "consumer-2.3"),
        (f"{KEY}.consumer", "route consumer"),
        ("other.consumer.1", "route consumer"),
    ):
        assert process_of(kinds.Frame(t=0, client=client, role="consumer"), KEY) == process


WAYS = st.sampled_from(["request", "response"])
RECORDS = st.sets(st.sampled_from("abc"), max_size=2)
ABOUT = st.tuples(
    st.sampled_from(["Produce", "EndTxn"]),
    WAYS,
    RECORDS.map(lambda some: tuple(sorted(some))),
    st.sampled_from([None, 0, 7]),
)


@given(st.lists(ABOUT, max_size=30), st.lists(ABOUT, max_size=30))
def test_a_name_means_one_frame(
    one: list[tuple[str, str, tuple[str, ...], int | None]],
    other: list[tuple[str, str, tuple[str, ...], int | None]],
) -> None:
    steps = steps_of([run_of(one), run_of(other)])
    names = [step for step, _ in steps.found]
    assert len(set(names)) == len(names) <= steps.frames
    assert {name.record for name in names if name.record} <= {
        record for *_, records, _ in other for record in records
    }
    itself = steps_of([run_of(one)] * 2)
    assert itself.recurred == {known: count for known, count in itself.named.items() if count}


def test_a_queue_has_phases_of_its_own() -> None:
    """A message is in hand from its delivery to its acknowledgement; a transaction is open until
    its end is taken.
    """

    def line(event: str, t: int, **more: object) -> dict[str, object]:
        return {"event": event, "t": t, "by": "wire", **more}

    def frame(t: int, corr: int, way: str) -> dict[str, object]:
        return line("frame", t, conn=7, corr=corr, dir=way, role="consumer", api="ACK")

    events = (
        frame(1, -1, "response"),
        line("fetched", 2, record="k-1", topic="q", conn=7, redelivered=False, reached=True),
        frame(3, 1, "request"),
        line("acknowledged", 4, record="k-1", request="7:1", how="ack", outcome=None, reached=True),
        frame(5, 2, "request"),
        line("sent", 6, record="k-1", request="7:2", topic="out", transactional=True),
        line("produce_answer", 7, record="k-1", request="7:2", error=0, reached=True),
        frame(8, 3, "request"),
        line("ending", 9, record="k-1", request="7:3", outcome=None, reached=True),
        frame(10, 3, "response"),
        line("ending", 11, record="k-1", request="7:3", outcome="taken", reached=True),
        frame(12, 4, "request"),
    )
    found = phases(a_history(tuple(events), ()))
    assert list(found.values()) == [
        "calm",
        "in hand",
        "calm",
        "in transaction",
        "in transaction",
        "calm",
    ]

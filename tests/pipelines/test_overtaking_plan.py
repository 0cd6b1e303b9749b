"""The points at which something overtakes what it must wait for: what is planned from a dry run,
and how the load waits for them; without a broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import InHand, OnWire
from harness.faults.triggers import rule_at
from harness.matrix.checking import Check
from harness.model import events as kinds
from harness.model.rhythm import Rhythm
from harness.model.scenario import NotApplicable, Role
from harness.model.waiting import wait_until
from harness.model.writes import FirstWrites
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.overtaking import MARK_OVERTAKES, OVERTAKES, rhythms_in
from harness.pipelines.traffic import ServiceTraffic, StageTraffic
from harness.pipelines.writes import Written
from harness.protocols.kafka.steps import Api
from harness.protocols.postgres.steps import Database
from harness.protocols.tcp.steps import Exchange
from harness.systems.declared.feed.waves import Waves
from harness.systems.declared.programs.tracing import in_this_run
from harness.systems.declared.system import DeclaredSystem
from harness.wire.rules import Action, Direction
from tests.events import a_history
from tests.pipelines.test_declaration import GOOD, declared

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario

WRITES = Written({"fsync": [20], "write": [20]}, 20, files=("{work}/a.log", "{work}/out.jsonl"))
CONSUMER = StageTraffic(
    ("c",), 1, {"Fetch": 9, "OffsetCommit": 9}, written=WRITES, rhythm=Rhythm(0.02)
)
PRODUCER = StageTraffic(("p",), 1, {"Produce": 9})
PROCESSOR = GOOD.replace('role = "consumer"', 'role = "processor"').replace(
    'kind = "lines"\nfile = "{work}/*.jsonl"', 'kind = "topic"\ntopic = "orders"'
)
FILE = GOOD.replace('command = "cat"', 'command = ["cat", "{input}"]') + '[input]\nkind = "file"\n'


def planned(
    folder: Path,
    name: str,
    consumer: StageTraffic = CONSUMER,
    text: str = GOOD,
    role: str = "consumer",
) -> Scenario:
    """Return a point as it is planned when the dry run saw this."""
    check = Check(read_pipeline(declared(folder, text)), DeclaredSystem(), folder, "pytest")
    cells, rest = check.plan({"producer": PRODUCER, role: consumer}, (name,))
    [cell] = (*cells, *rest)
    return cell.scenario


def reason(scenario: Scenario) -> str | None:
    """Return why a point does not apply."""
    [expectation] = scenario.expect.values()
    return expectation.because if isinstance(expectation, NotApplicable) else None


def work_of(scenario: Scenario) -> InHand:
    """Return what a point holds."""
    fault: Any = scenario.fault
    assert isinstance(fault.work, InHand)
    return fault.work


def test_the_names_are_there_before_the_dry_run(tmp_path: Path) -> None:
    points = {p.id: p for p in failure_points(read_pipeline(declared(tmp_path, GOOD)))}
    assert reason(points[OVERTAKES]) is None
    assert points[OVERTAKES].failure_point == OVERTAKES
    assert MARK_OVERTAKES in points


def test_its_work_is_what_goes_into_the_output(tmp_path: Path) -> None:
    scenario = planned(tmp_path, OVERTAKES)
    assert reason(scenario) is None
    work = work_of(scenario)
    assert work.writes == FirstWrites(("{work}/out.jsonl",), "{work}/*.jsonl")
    assert work.sends == ()
    assert work.saves == OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE)
    assert (work.within_s, work.quiet_s) == (2.0, 0.3)


def test_a_processor_is_held_at_what_it_sends(tmp_path: Path) -> None:
    steps = {"Fetch": 9, "OffsetCommit": 9, "Produce": 9}
    seen = replace(CONSUMER, requests=steps)
    work = work_of(planned(tmp_path, OVERTAKES, seen, PROCESSOR, "processor"))
    assert work.writes is None
    assert work.sends == (OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.REQUEST),)


def test_work_past_the_wire_cannot_be_held(tmp_path: Path) -> None:
    """Unless all of it goes into a file: the output."""
    seen = replace(CONSUMER, elsewhere=("127.0.0.1:3306",))
    assert work_of(planned(tmp_path, OVERTAKES, seen)).unseen == ()
    text = GOOD.replace('file = "{work}/*.jsonl"', 'file = "{work}/*.other"')
    assert work_of(planned(tmp_path, OVERTAKES, seen, text)).unseen == ("127.0.0.1:3306",)


def test_a_mark_past_the_wire_cannot_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for servers in ((), ("127.0.0.1:5432",)):
        changed = replace(PRODUCER, elsewhere=servers)
        monkeypatch.setitem(globals(), "PRODUCER", changed)
        fault: Any = planned(tmp_path, MARK_OVERTAKES, text=FILE).fault
        assert fault.unseen == servers


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"requests": {"Fetch": 9}}, "no position of the consumer that its broker stores"),
        ({"written": Written({}, 20)}, "nothing of its work can be held"),
        ({"written": Written(because="strace is not on the PATH")}, "strace is not on the PATH"),
        ({"rhythm": Rhythm(30.0)}, "saves its position every 30 s"),
    ],
)
def test_what_cannot_be_held_says_why(
    tmp_path: Path, changed: dict[str, Any], because: str
) -> None:
    found = reason(planned(tmp_path, OVERTAKES, replace(CONSUMER, **changed)))
    assert found is not None
    assert because in found


def test_calls_without_a_file_of_its_own_are_held_wherever_they_are(tmp_path: Path) -> None:
    seen = replace(CONSUMER, written=Written({"rename": [20]}, 20))
    assert work_of(planned(tmp_path, OVERTAKES, seen)).writes == FirstWrites()


def test_temporary_files_are_no_results_and_narrow_nothing(tmp_path: Path) -> None:
    """Neither one that is unpacked, nor one for each record."""
    unpacked = Written({"rename": [20]}, 20, unrepeated=("{temporary}/libzstd.so",))
    found = planned(tmp_path, OVERTAKES, replace(CONSUMER, written=unpacked))
    assert work_of(found).writes == FirstWrites()
    many = tuple(f"{{temporary}}/{number}" for number in range(20))
    written = Written({"write": [20]}, 20, files=("{work}/out.jsonl",), unrepeated=many)
    found = planned(tmp_path, OVERTAKES, replace(CONSUMER, written=written))
    assert work_of(found).writes == FirstWrites(("{work}/out.jsonl",), "{work}/*.jsonl")


def test_what_it_says_to_a_service_is_held_on_its_way(tmp_path: Path) -> None:
    """Its commits, if the service has such; of another server its turns."""
    commit, turn = Database.COMMIT.label, Exchange.TURN.label
    said = {
        "db": ServiceTraffic({commit: 20, turn: 60}, 20),
        "cache": ServiceTraffic({turn: 20}, 20),
    }
    seen = replace(CONSUMER, written=Written({}, 20), said=said)
    work = work_of(planned(tmp_path, OVERTAKES, seen))
    assert work.writes is None
    assert work.sends == (
        OnWire(Role.CONSUMER, Database.COMMIT, Direction.REQUEST, node="db"),
        OnWire(Role.CONSUMER, Exchange.TURN, Direction.REQUEST, node="cache"),
    )


def test_the_output_is_held_also_where_its_name_is_another_in_each_run(tmp_path: Path) -> None:
    """The glob finds it: not the position alone, which is in a file of a lasting name."""
    written = Written(
        {"write": [40]}, 20, files=("{work}/position",), unrepeated=("{work}/7f.jsonl",)
    )
    seen = replace(CONSUMER, written=written)
    work = work_of(planned(tmp_path, OVERTAKES, seen))
    assert work.writes == FirstWrites(("{work}/7f.jsonl",), "{work}/*.jsonl")


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("out.jsonl", "{here}/out.jsonl"),
        ("./a/../out.jsonl", "{here}/out.jsonl"),
        ("{here}/out.jsonl", "{here}/out.jsonl"),
        ("linked/out.jsonl", "{here}/out.jsonl"),
        ("linked/*.jsonl", "{here}/out.jsonl"),
        ("{work}/**/out.jsonl", "{work}/out.jsonl"),
        ("{work}/**/out.jsonl", "{work}/a/b/out.jsonl"),
    ],
)
def test_the_output_is_known_however_its_file_is_declared(
    file: str, written: str, tmp_path: Path
) -> None:
    """A tracer names files by their whole paths, without links."""
    here = tmp_path / "shop [new]"
    here.mkdir()
    (here / "linked").symlink_to(here)
    name = written.replace("{here}", str(here))
    seen = replace(CONSUMER, written=Written({"write": [40]}, 20, files=("/log", name)))
    text = GOOD.replace("{work}/*.jsonl", file)
    writes = work_of(planned(here, OVERTAKES, seen, text)).writes
    assert writes is not None
    assert writes.files == (name,)
    work, out = "/runs [1]", name.replace("{work}", "/runs [1]")
    assert in_this_run(writes, work, [out, f"{work}/position"], prints=False).files == (out,)


@pytest.mark.parametrize("made", [{"write": [40]}, {"rename": [20], "write": [40]}])
def test_the_output_is_held_though_each_record_has_a_file_besides(
    made: dict[str, list[int]], tmp_path: Path
) -> None:
    """A marker, or state by an atomic rename: behind that the result is in the output already."""
    markers = tuple(f"{{work}}/done/{number}" for number in range(20))
    written = Written(made, 20, files=("{work}/out.jsonl",), unrepeated=markers)
    work = work_of(planned(tmp_path, OVERTAKES, replace(CONSUMER, written=written)))
    assert work.writes == FirstWrites(("{work}/out.jsonl",), "{work}/*.jsonl")


@pytest.mark.parametrize("renames", [True, False])
def test_of_a_file_for_each_record_only_its_calls_can_be_held(
    tmp_path: Path, *, renames: bool
) -> None:
    files = tuple(f"{{work}}/{number}.jsonl" for number in range(20))
    made = {"write": [40], **({"rename": [20]} if renames else {})}
    written = Written(made, 20, files=files[:10], unrepeated=files[10:])
    found = planned(tmp_path, OVERTAKES, replace(CONSUMER, written=written))
    because = reason(found)
    if renames:
        assert work_of(found).writes == FirstWrites()
    else:
        assert because is not None
        assert "writes each result into a new file" in because


def test_only_a_producer_with_a_source_has_a_mark(tmp_path: Path) -> None:
    found = reason(planned(tmp_path, MARK_OVERTAKES))
    assert found is not None
    assert "reads standard input" in found
    of_file = planned(tmp_path, MARK_OVERTAKES, text=FILE)
    assert reason(of_file) is None
    fault: Any = of_file.fault
    assert fault.at == OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)


def test_the_rhythm_is_the_longest_time_from_a_delivery_to_its_commit() -> None:
    """Of the records that a commit has covered; the session is that of the group."""
    second = 1_000_000_000

    def given(record: str, offset: int, t: int) -> dict[str, Any]:
        place = {"topic": "orders", "partition": 0, "offset": offset}
        return {"event": "fetched", "record": record, "conn": 3, "reached": True, "t": t, **place}

    def saved(offset: int, t: int, error: int = 0) -> dict[str, Any]:
        place = {"topic": "orders", "partition": 0, "offset": offset, "request": "4:1"}
        return {"event": "commit_answer", "error": error, "t": t, **place}

    join = {"event": "frame", "conn": 4, "role": "consumer", "session_ms": 10_000, "t": 1}
    history = a_history(
        [
            join,
            given("a", 0, second),
            saved(1, 2 * second, error=25),
            given("b", 1, 3 * second),
            saved(2, 4 * second),
            given("c", 2, 5 * second),
        ]
    )
    found = rhythms_in(history, {"3": "consumer", "4": "consumer"})["consumer"]
    assert (found.commits_s, found.session_s) == (3.0, 10.0)
    assert found.works_s == pytest.approx(1.5)
    nothing = rhythms_in(a_history([given("a", 0, second)]), {"3": "consumer"})["consumer"]
    assert nothing.commits_s is None


TURN = Exchange.TURN.label
TALKS = {(TURN, "cache"): None, (Api.PRODUCE.label, "broker"): None}
BEATS = replace(
    CONSUMER,
    written=Written({}, 20),
    said={"cache": ServiceTraffic({TURN: 20}, 20)},
    rhythm=Rhythm(0.02, incessant=TALKS),
)


def test_a_stage_that_talks_all_the_time_cannot_be_held_at_that(tmp_path: Path) -> None:
    found = reason(planned(tmp_path, OVERTAKES, BEATS))
    assert found is not None
    assert "speaks to the cache all the time, also with no record in hand" in found
    both = replace(BEATS, requests={"Fetch": 9, "OffsetCommit": 9, "Produce": 9})
    found = reason(planned(tmp_path, OVERTAKES, both))
    assert found is not None
    assert "the cache and its broker all the time" in found


def test_larger_turns_are_work(tmp_path: Path) -> None:
    """Where each question was smaller than what was posted. Commits have no size that says so."""
    talks = Rhythm(0.02, incessant={(TURN, "cache"): 70})
    [sends] = work_of(planned(tmp_path, OVERTAKES, replace(BEATS, rhythm=talks))).sends
    assert sends == OnWire(Role.CONSUMER, Exchange.TURN, Direction.REQUEST, node="cache", least=70)
    rule = rule_at(sends, Action.HOLD, limit=None)
    assert (rule.least, rule.node) == (70, "cache")
    commit = Database.COMMIT.label
    beats = replace(
        BEATS,
        said={"db": ServiceTraffic({commit: 20}, 20)},
        rhythm=Rhythm(0.02, incessant={(commit, "db"): 70}),
    )
    assert "speaks to the db all the time" in str(reason(planned(tmp_path, OVERTAKES, beats)))


def test_where_its_results_go_it_is_held_all_the_same(tmp_path: Path) -> None:
    work = work_of(planned(tmp_path, OVERTAKES, replace(BEATS, written=WRITES)))
    assert (work.writes, work.sends) == (
        FirstWrites(("{work}/out.jsonl",), "{work}/*.jsonl"),
        (),
    )
    sends = replace(
        BEATS,
        requests={"Fetch": 9, "OffsetCommit": 9, "Produce": 9},
        rhythm=Rhythm(0.02, incessant={(TURN, "cache"): None}),
    )
    work = work_of(planned(tmp_path, OVERTAKES, sends, PROCESSOR, "processor"))
    assert work.sends == (OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.REQUEST),)


def test_what_goes_on_at_rest_is_incessant() -> None:
    second = 1_000_000_000
    place = {"topic": "orders", "partition": 0, "offset": 0}
    told: list[dict[str, Any]] = [
        {"event": "fetched", "record": "a", "conn": 3, "reached": True, "t": second, **place},
        {"event": "commit_answer", "error": 0, "request": "3:1", "t": second, **place, "offset": 1},
        {"event": "drain", "phase": "completed", "t": 10 * second},
    ]

    def asked(node: str, *tenths: int, size: int = 60) -> list[dict[str, Any]]:
        line = {"event": "frame", "role": "consumer", "conn": 4, "api": TURN, "dir": "request"}
        return [{**line, "node": node, "size": size, "t": at * second // 10} for at in tenths]

    told += asked("beat", *range(10, 120))  # every 0.1 s
    told += asked("slow", *range(10, 120, 5))  # every 0.5 s: between two of them it rests
    told += asked("work", *range(10, 91))  # until it was done
    told += asked("once", 97)
    told += asked("stalls", *range(10, 94), *range(97, 120))  # once for 0.4 s: a slow machine
    roles = {"3": "consumer", "4": "consumer"}
    found = rhythms_in(a_history(told), roles)["consumer"]
    assert found.quiet_s == pytest.approx(0.3)
    assert found.incessant == {(TURN, "beat"): None, (TURN, "stalls"): None}
    larger = [*asked("beat", 5, 5, 15, size=90), *asked("stalls", 20, 21, 22, size=61)]
    found = rhythms_in(a_history([*told, *larger]), roles)["consumer"]
    assert found.incessant == {(TURN, "beat"): None, (TURN, "stalls"): 61}
    assert not rhythms_in(a_history(told[:2] + told[3:]), roles)["consumer"].incessant


def test_a_queue_before_a_slow_stage_is_no_clock() -> None:
    """All records are given at once, and each is committed behind its work of half a second."""
    place = {"topic": "orders", "partition": 0}
    told: list[dict[str, Any]] = [
        {"event": "fetched", "record": f"r{n}", "conn": 3, "reached": True, "t": 1, "offset": n}
        | place
        for n in range(20)
    ]
    told += [
        {"event": "commit_answer", "error": 0, "request": "3:1", "offset": n + 1}
        | place
        | {"t": (n + 1) * 500_000_000}
        for n in range(20)
    ]
    found = rhythms_in(a_history(told), {"3": "consumer"})["consumer"]
    assert found.commits_s == pytest.approx(0.5)
    assert not found.is_long
    assert found.works_s == pytest.approx(0.5)


def test_the_target_is_the_last_that_is_offered_until_the_fault_lets_the_rest_go() -> None:
    """It waits until nothing moves. Nothing follows it, however long nothing moves, once the fault
    has fired.
    """
    moved = iter(range(100))
    waves = Waves(
        12,
        seen=lambda: True,
        moves=lambda: next(moved, 0),
        fired=lambda: True,
        still_s=0.0,
        alone_at=6,
        rest_s=0.05,
    )
    assert all(waves.lets(position) for position in range(1, 6))
    assert [waves.lets(6) for _ in range(95)] == [False] * 95, "something moves"
    wait_until(lambda: waves.lets(6), within_s=5.0, because="nothing to move")
    assert [position for position in range(1, 13) if position > 6 and waves.lets(position)] == []
    waves.release()
    assert all(waves.lets(position) for position in range(7, 13))


def test_a_work_line_is_a_kind() -> None:
    line = {"event": "work", "role": "consumer", "phase": "held", "how": "write", "t": 1}
    [event] = a_history([line]).of(kinds.Work)
    assert event.phase == kinds.WorkPhase.HELD

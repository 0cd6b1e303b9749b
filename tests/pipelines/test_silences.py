"""Silent peers: which points they are, when they are run, and which programs they convict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Silent as SilentPeer
from harness.faults import TakenOver, TopicAppears, Twice
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model.scenario import Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.silences import is_long
from harness.pipelines.traffic import StageTraffic
from harness.protocols.kafka.steps import Api
from harness.systems.declared.system import DeclaredSystem
from harness.wire.rules import Direction
from tests.pipelines.test_check import EXAMPLES, Silent, check
from tests.pipelines.test_firsts import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = PROGRAMS / "silent-peer"
ORDERS = EXAMPLES / "orders" / "pipeline.toml"
LONG = ["ack-silent", "commit-ack-silent", "position-answer-silent", "request-silent"]
POSITION = "position-answer-silent"
LATE = "consumer-topic-appears"


def asked(tmp_path: Path, *, long: bool = False) -> Check:
    """Return a check of the orders, of which nothing is started."""
    return Check(read_pipeline(ORDERS), DeclaredSystem(), tmp_path, "pytest", long=long)


SEEN = {
    "producer": StageTraffic(("p",), 1, {"Produce": 24}, {"Produce": 24}),
    "consumer": StageTraffic(
        ("c",),
        1,
        {"Fetch": 24, "OffsetFetch": 1, "OffsetCommit": 24},
        {"Fetch": 24, "OffsetFetch": 1, "OffsetCommit": 24},
    ),
}


def test_they_are_run_where_that_is_asked(tmp_path: Path) -> None:
    """By --all, or by their names; else the plan names them, and what they cost."""
    plain = {cell.scenario.id for cell in asked(tmp_path).plan(SEEN)[0]}
    whole = {cell.scenario.id for cell in asked(tmp_path, long=True).plan(SEEN)[0]}
    assert whole - plain == {*LONG, LATE}
    assert plain < whole
    [named], _ = asked(tmp_path).plan(SEEN, (POSITION,))
    assert named.scenario.id == POSITION
    line, late = asked(tmp_path).left_out(SEEN)
    assert late.startswith(f"not run without --all: {LATE}; ")
    assert sorted(line.split(": ")[1].split(";")[0].split(", ")) == LONG
    assert line.startswith("not run without --all: ")
    assert "(about 35 s, at most 75 s)" in line
    assert not [*asked(tmp_path, long=True).left_out(SEEN)]
    assert not [*asked(tmp_path).left_out(SEEN, (POSITION,))]


def test_nothing_else_is_long() -> None:
    """What waits for no time-out of a client's is run each time, but where brokers come back."""
    found = [
        point
        for point in failure_points(read_pipeline(ORDERS))
        if not isinstance(point.fault, TakenOver | TopicAppears)
    ]
    assert sorted(point.id for point in found if is_long(point)) == [
        *LONG,
        "transaction-commit-ack-silent",
    ]


def test_a_queue_has_none() -> None:
    pipeline = read_pipeline(EXAMPLES / "parcels" / "pipeline.toml")
    assert not [point for point in failure_points(pipeline) if is_long(point)]


def test_a_restarted_reader_asks_for_its_positions_in_vain() -> None:
    """Killed at the record's way to it; its successor's first such answer never comes."""
    [point] = [each for each in failure_points(read_pipeline(ORDERS)) if each.id == POSITION]
    fault: Any = point.fault
    assert isinstance(fault, Twice)
    given = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
    assert fault.first.at == given
    assert fault.second == SilentPeer(
        OnWire(Role.CONSUMER, Api.OFFSET_FETCH, Direction.RESPONSE, since=given)
    )


# --- with a broker --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for all of them."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("version", "kind"), [("2.2.8", Kind.BROKEN), ("2.2.9", Kind.KEPT)], ids=["2.2.8", "2.2.9"]
)
def test_a_silent_coordinator_has_not_said_that_there_is_no_position(
    system: DeclaredSystem, tmp_path: Path, version: str, kind: Kind
) -> None:
    """kafka-python 2.2.8 goes on at auto.offset.reset, and its next version asks again. Where the
    connection is cut, as by the point that there was before, both do.
    """
    lost = "position-answer-lost"
    found = check(system, tmp_path, FOLDER / f"client-{version}.toml", POSITION, lost)
    assert (found[lost].verdict.kind, found[POSITION].verdict.kind) == (Kind.KEPT, kind), {
        name: one.verdict.reason for name, one in found.items()
    }
    assert found[POSITION].verdict.by_fault
    assert found[POSITION].verdict.fired == 1


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "kind"), [("gives-up", Kind.BROKEN), ("sends-again", Kind.KEPT)]
)
def test_a_request_without_an_answer_is_sent_again(
    system: DeclaredSystem, tmp_path: Path, program: str, kind: Kind
) -> None:
    """Whose client repeats it after a cut, and lets it expire in a silence, loses it."""
    names = ("request-lost", "request-silent", "ack-silent")
    found = check(system, tmp_path, FOLDER / f"{program}.toml", *names)
    assert {name: one.verdict.kind for name, one in found.items()} == {
        "request-lost": Kind.KEPT,
        "request-silent": kind,
        "ack-silent": Kind.KEPT,
    }, {name: one.verdict.reason for name, one in found.items()}
    assert {one.verdict.fired for one in found.values()} == {1}


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
def test_a_silence_that_does_not_come_proves_nothing(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    one = Check(read_pipeline(ORDERS), system, tmp_path, "pytest")
    with make_progress(Silent()) as progress:
        [cell], _ = one.plan(seen_in(one.dry_run(progress)), ("ack-silent",))
        never = SilentPeer(OnWire(Role.PRODUCER, Api.END_TXN, Direction.RESPONSE))
        saved = one.faults(
            [replace(cell, scenario=replace(cell.scenario, fault=never))], (), progress
        )
    [found] = saved.results
    assert (found.verdict.kind, found.verdict.reason) == (Kind.VOID, "the fault did not fire")

"""What the cells of each system are made of, where nothing is started: what their faults may ask
for, and in which order.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import registry
from harness.controls import NotFiredError
from harness.model.cell import Cell, expand
from harness.model.scenario import NotApplicable, RefusedByClient
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.run.cell import CellRun
from harness.run.parts import ReadersStart
from harness.run.sinks import Database
from harness.stages.outbox import Outbox
from harness.stages.queries import STREAM_TO_FILES
from harness.stages.settings import PLAIN, TOPIC_TO_TOPIC, Settings
from harness.systems.kafka.log_copies import LogEnds, WholeLog
from harness.systems.kafka.parts import CellOnKafka
from harness.systems.kafka.parts import parts_of as kafka_parts
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.spark.parts import parts_of as spark_parts
from tests.judge.scenes import CELL, Kept
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.model.pipeline import Pipeline
    from harness.run.parts import Parts

KAFKA, SPARK = registry.described("kafka"), registry.described("spark")


class Leaving(SharedCrash):
    """A death that is shared; ``left``: who waits for it no more."""

    def __init__(self) -> None:
        super().__init__(())
        self.left: list[str] = []

    def leave(self, member: str) -> None:
        """Write down who it was."""
        self.left.append(member)


class Observer:
    """Answers whatever it is asked that there is nothing; ``asked``: what that was, and of which
    topic.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    def log(self, topic: str) -> WholeLog:
        """Return an empty log."""
        self.asked.append(topic.rpartition(".")[2])
        return WholeLog({0: LogEnds(0, 0, 0)}, ())

    def positions(self, group: str, topic: str) -> dict[int, int]:
        """Return none."""
        assert group.endswith(".group")
        self.asked.append(f"positions of {topic.rpartition('.')[2]}")
        return {}

    def leaderships(self, topic: str) -> dict[int, Any]:
        """Return none."""
        self.asked.append(f"leaders of {topic.rpartition('.')[2]}")
        return {}

    def groups(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def controller(self) -> int:
        """Return the first."""
        return 1


class Ground:
    """Starts no Spark. Stands in for :class:`harness.systems.spark.launcher.SparkGround`."""

    at_hand = True

    def servers(self, *_: Any) -> Any:
        """Return nothing that could be started."""
        return SimpleNamespace(url="nowhere", conf={}, close=lambda: None)


def transport_of(observer: Any) -> Any:
    """Return a transport of which nothing runs."""
    nothing: Any = None
    return SimpleNamespace(
        secured=None,
        observer=observer,
        wire=nothing,
        runtime=nothing,
        bootstrap=lambda _: "nowhere",
        routes=lambda *_: (),
        brokers=(),
        servers=(),
        size=3,
        broker_process=nothing,
        kill_broker=nothing,
        restart_broker=nothing,
    )


def services() -> Any:
    """Return what stands beside a transport of which nothing runs."""
    where = "postgres://nowhere/key"
    server = SimpleNamespace(
        direct=lambda _: where, by_wire=lambda _: where, process=None, kill=None, restart=None
    )
    return SimpleNamespace(database=lambda: server)


def made(
    cell: Cell,
    folder: Path,
    *,
    crash: Leaving | None = None,
    observer: Any = None,
    history: Any = None,
) -> Parts:
    """Return what a cell is made of."""
    transport = transport_of(observer or Observer())
    kept: Any = history or Kept()
    on_kafka = CellOnKafka.of(cell, folder, kept, transport, services())
    if cell.system == SPARK.name:
        ground: Any = Ground()
        session: Any = None
        return spark_parts(on_kafka, spark=ground, session=session)
    return kafka_parts(on_kafka, crash or Leaving(), None)


def cells() -> Iterator[Cell]:
    """Yield every cell that theory has something to say of, in every runtime."""
    for system in (KAFKA, SPARK):
        mine = [scenario for scenario in registry.scenarios() if system.can_run(scenario)]
        for runtime in system.runtimes:
            client = system.clients[0]
            for cell in expand(
                mine,
                semantics=Semantic,
                seeds=[1],
                system=system.name,
                client=client,
                runtime=runtime,
            ):
                if not isinstance(cell.expectation, NotApplicable):
                    yield cell


def first(wanted: Callable[[Cell], bool]) -> Cell:
    """Return the first of them that is ``wanted``."""
    return next(cell for cell in cells() if wanted(cell))


def test_who_has_an_ability_has_all_of_it(tmp_path: Path) -> None:
    """A method that stands only in the protocol would do nothing, and say nothing of it."""
    for cell in (
        first(lambda cell: cell.scenario.deployment.clustered),
        first(lambda cell: cell.system == SPARK.name),
    ):
        controls: Any = made(cell, tmp_path).controls
        for kind, found in controls.abilities.items():
            assert kind in type(found).mro(), f"{kind} is another ability"
            named = [
                name
                for name, each in vars(kind).items()
                if callable(each) and not name.startswith("_")
            ]
            assert named
            assert [
                name for name in named if getattr(type(found), name) is getattr(kind, name)
            ] == [], kind


def test_the_reading_side_comes_when_the_scenario_says(tmp_path: Path) -> None:
    """Of our own stages before there is load, unless it is to come later or never; a query when its
    topic is filled.
    """
    found = set()
    for cell in cells():
        parts, scenario = made(cell, tmp_path), cell.scenario
        if cell.system == SPARK.name:
            wanted = ReadersStart.FILLED
        elif isinstance(cell.expectation, RefusedByClient):
            wanted = ReadersStart.NEVER
        else:
            wanted = (
                ReadersStart.AFTER_FAULT
                if scenario.consumer_starts_after_fault
                else ReadersStart.BEFORE_LOAD
            )
        assert parts.when is wanted, cell.id
        assert parts.armed_before_load is (
            scenario.source_goes_on if wanted is ReadersStart.FILLED else True
        ), cell.id
        found.add(wanted)
    assert found == {*ReadersStart}


class UnfiredFault:
    """A fault whose trigger does not fire."""

    id = "unfired"

    def evidence(self) -> Any:
        """What no fault has."""
        return CELL.scenario.fault.evidence()

    def arm(self, controls: Any) -> None:
        """Arm nothing."""

    def inject(self, controls: Any) -> None:
        """Wait in vain."""
        raise NotFiredError(controls)


def test_a_cell_whose_fault_has_not_fired_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Those who share the death of its broker go on without it: when its fault is over, and when it
    is closed.
    """
    fault: Any = UnfiredFault()
    shared, volley = first(lambda cell: bool(cell.scenario.together)), Leaving()
    cell = replace(shared, scenario=replace(shared.scenario, fault=fault))
    parts = made(cell, tmp_path, crash=volley)
    history: Any = Kept()
    run = CellRun(cell, history, replace(parts, when=ReadersStart.NEVER))
    run.inject()
    assert volley.left == [cell.id]
    run.close()
    assert volley.left == [cell.id] * 2


def test_a_cell_that_was_never_prepared_leaves_what_it_was_to_share(tmp_path: Path) -> None:
    cell, volley = first(lambda cell: bool(cell.scenario.together)), Leaving()
    history: Any = Kept()
    CellRun(cell, history, made(cell, tmp_path, crash=volley)).close()
    assert volley.left == [cell.id]


ORDER = {
    PLAIN: ["positions of in", "in"],
    TOPIC_TO_TOPIC: ["positions of in", "out", "in"],
    STREAM_TO_FILES: ["in"],
}
"""Who is asked, by what a cell records in: the position, the results, and the log of the source
last.
"""


@pytest.mark.parametrize("kind", ORDER, ids=str)
def test_authorities_are_asked_for_the_position_first_and_for_the_source_last(
    kind: Pipeline, tmp_path: Path
) -> None:
    """Whatever moves meanwhile: what is past a position is found behind it, and what is in the sink
    in the log.
    """
    cell = first(
        lambda cell: cell.scenario.pipeline is kind and cell.semantic is not Semantic.AT_MOST_ONCE
    )
    observer, history = Observer(), Kept()
    parts = made(cell, tmp_path, observer=observer, history=history)
    Outbox.create(tmp_path / "outbox.sqlite", cell.load().records)
    for database in (part for part in parts.ground if isinstance(part, Database)):
        database.open()
    for authority in parts.authorities:
        authority()
    assert observer.asked == ORDER[kind]
    [source] = {
        number
        for number, line in enumerate(history.lines)
        if line["event"] == "log" and line["hop"] == Hop.TOPIC
    }
    assert source == len(history.lines) - 1
    positions = [number for number, line in enumerate(history.lines) if line["event"] == "position"]
    assert len(positions) == narrow(cell.settings, Settings).topic.partitions


def test_on_a_cluster_who_leads_is_asked_behind_the_logs(tmp_path: Path) -> None:
    observer = Observer()
    parts = made(
        first(lambda cell: cell.scenario.deployment.clustered), tmp_path, observer=observer
    )
    parts.authorities[-1]()
    assert observer.asked[0] == "leaders of in"
    assert all(asked.startswith("leaders") for asked in observer.asked)

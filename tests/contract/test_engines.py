"""What an engine says that it can, its cells can; and what faults ask for is said in words."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import registry
from harness.abilities import ABILITIES, BrokerSettings, needs_of
from harness.model.cell import expand
from harness.model.semantics import Semantic
from harness.systems.kafka.parts import CellOnKafka
from harness.systems.kafka.parts import parts_of as kafka_parts
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.spark.parts import parts_of as spark_parts

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from harness.model.cell import Cell


def cells_of(name: str) -> Collection[Cell]:
    """Return a cell of each deployment and pipeline of a system, in each of its runtimes."""
    found: dict[object, Cell] = {}
    for runtime in registry.described(name).runtimes:
        mine = [scenario for scenario in registry.scenarios() if registry.runs(name, scenario)]
        for cell in expand(mine, semantics=Semantic, seeds=[1], system=name, runtime=runtime):
            found.setdefault((cell.scenario.deployment, cell.pipeline, runtime), cell)
    return found.values()


def given(name: str, cell: Cell, folder: Path) -> Collection[type]:
    """Return the abilities that a cell's parts have. Nothing is started for them."""
    observer: Any = SimpleNamespace()
    transport: Any = SimpleNamespace(
        secured=None,
        observer=observer,
        wire=None,
        brokers=(),
        servers=(),
        runtime=SimpleNamespace(check=lambda: None),
        bootstrap=lambda _: "",
        kill_broker=None,
        restart_broker=None,
        broker_process=None,
    )
    server = SimpleNamespace(direct=lambda _: "", by_wire=lambda _: "", process=None, kill=None)
    services: Any = SimpleNamespace(database=lambda: server)
    history: Any = SimpleNamespace(write=lambda *_, **__: None)
    on_kafka = CellOnKafka.of(cell, folder, history, transport, services)
    if name == "kafka":
        parts = kafka_parts(on_kafka, SharedCrash(()), None)
    else:
        spark: Any = SimpleNamespace(at_hand=False)
        session: Any = None
        parts = spark_parts(on_kafka, spark=spark, session=session)
    controls: Any = parts.controls
    return set(controls.abilities)


@pytest.mark.parametrize("name", ["kafka", "spark"])
def test_what_a_system_says_that_it_can_its_cells_can(name: str, tmp_path: Path) -> None:
    """For each deployment, pipeline and runtime: no ability is promised that is not there, and none
    is kept for itself.
    """
    for cell in cells_of(name):
        said, has = set(registry.described(name).abilities(cell)), set(given(name, cell, tmp_path))
        assert said <= has, f"{cell.id} lacks {said - has}"
        beside = has - said
        assert {each.__name__ for each in beside} <= {"Containers"}, (
            f"{cell.id} can {beside}, and does not say so"
        )


def test_every_fault_that_is_declared_is_within_what_its_system_can() -> None:
    """A cell of ours that is not applicable is so by theory, or because this machine lacks
    something: never by an ability.
    """
    for name in registry.default_systems():
        system = registry.described(name)
        mine = [scenario for scenario in registry.scenarios() if system.can_run(scenario)]
        for cell in expand(mine, semantics=Semantic, seeds=[1], system=name):
            if cell.scenario.only_in_containers is None:
                assert set(needs_of(cell.scenario.fault)) <= set(system.abilities(cell)), cell.id


def test_every_ability_has_its_words() -> None:
    """They complete "a system that …"; no two are alike."""
    assert len(set(ABILITIES.values())) == len(ABILITIES)
    assert not [
        words for words in ABILITIES.values() if not words[0].islower() or words.endswith(".")
    ]


def test_settings_of_a_broker_apply_only_where_a_system_passes_them_on() -> None:
    """Elsewhere the plan says so before the run."""
    scenario, mine = next(
        (scenario, name)
        for scenario in registry.scenarios()
        for name in registry.engines()
        if scenario.broker_settings and registry.runs(name, scenario)
    )
    semantic = next(iter(scenario.expect))
    (cell,) = expand([scenario], semantics=[semantic], seeds=[1], system=mine)
    assert BrokerSettings in registry.described(mine).abilities(cell)
    assert registry.inapplicable(replace(cell, system="kafka")) == (
        f"the scenario {scenario.id} needs a system that starts its broker with the settings that "
        "a scenario names: here kafka is not such a system"
    )

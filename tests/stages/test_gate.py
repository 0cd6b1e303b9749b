"""The gate before a producer's last unit: load follows the fault, however late that strikes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.cell import Cell
from harness.model.events import FaultPhase
from harness.model.scenario import Edge, Role
from harness.model.semantics import Semantic
from harness.run.controls import WireControls
from harness.run.scene import CellScene
from harness.stages import gate, producer
from scenarios import plain
from tests.judge import scenes
from tests.stages.test_catching_up import Client, ran

if TYPE_CHECKING:
    from collections.abc import Sequence

CELL = Cell(plain.ACK_LOST, Semantic.AT_LEAST_ONCE, "kafka", "kafka-python", "process", 1, 24)


def test_the_last_unit_waits_for_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and with nothing open: four of five were sent before."""
    client = Client()
    waited: list[tuple[Path, int]] = []
    monkeypatch.setattr(producer, "pass_gate", lambda at: waited.append((at, len(client.ended))))
    ran(tmp_path, monkeypatch, client, 1, None, gate=str(tmp_path / "gate"))
    assert waited == [(tmp_path / "gate", 4)]
    assert len(client.ended) == 5


def test_who_sends_more_at_once_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last unit may have the target, for which the fault waits."""
    monkeypatch.setattr(producer, "pass_gate", lambda _: pytest.fail("it waits"))
    ran(tmp_path, monkeypatch, Client(), 2, 4, gate=str(tmp_path / "gate"))


def test_the_gate_is_passed_when_it_is_open_or_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "WAITS_S", 0.05)
    file = tmp_path / "failpoints" / "gate"
    gate.pass_gate(file)
    monkeypatch.setattr(gate, "WAITS_S", 3600.0)
    gate.open_gate(file)
    gate.pass_gate(file)


def scene_of(folder: Path, cell: Cell) -> CellScene:
    """Return the scene of a cell."""
    history: Any = None
    return CellScene(cell, folder, history)


@pytest.mark.parametrize(
    ("edge", "targets", "waits"), [(None, (), True), (Edge.LAST, (), False), (None, (24,), False)]
)
def test_nothing_waits_where_nothing_can_follow(
    tmp_path: Path, edge: Edge | None, targets: Sequence[int], waits: bool
) -> None:
    """A target is the last record: in its place, or as the last of several."""
    scene = scene_of(tmp_path, replace(CELL, scenario=replace(CELL.scenario, edge=edge)))
    scene.load = replace(scene.load, targets=tuple(scene.load.records[at - 1] for at in targets))
    assert bool(scene.gate) is waits


@pytest.mark.parametrize("phase", [FaultPhase.FIRED, FaultPhase.ARMED])
def test_the_gate_opens_when_the_fault_has_fired(tmp_path: Path, phase: FaultPhase) -> None:
    history: Any = scenes.Kept()
    scene = scenes.scene_of(tmp_path, history=history)
    node = scenes.living(scene, Role.PRODUCER, "producer")
    nothing: Any = None
    controls = WireControls(scene, nothing, nothing, nothing)
    controls.say(phase)
    assert Path(node.stage.gate).exists() is (phase is FaultPhase.FIRED)

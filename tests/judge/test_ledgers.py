"""What a stage's program says of itself is read in its ledger: that it is ready, stands still, goes
on, or has ended.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import Fired, InProgram
from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.tail import SoFar
from harness.run.nodes import StageNode
from harness.run.who import CellNodes
from harness.systems.spark.driver import DriverNode
from tests.judge.growing import tell
from tests.judge.scenes import scene_of

if TYPE_CHECKING:
    from pathlib import Path

ALIVE = SimpleNamespace(pid=7, exit=None, stands_still=lambda: False)


def node_of(kind: type[StageNode], folder: Path, name: str) -> Any:
    """Return the second incarnation of a node that lives, and is as long as it is not told
    otherwise.
    """
    node: Any = object.__new__(kind)
    node.stage = SimpleNamespace(writer=f"{name}-2", name=name)
    node.so_far, node.node, node.role, node.session, node.ended = (
        SoFar(folder),
        ALIVE,
        Role.CONSUMER,
        None,
        lambda: None,
    )
    return node


def test_who_is_ready_says_so_itself(tmp_path: Path) -> None:
    stage = node_of(StageNode, tmp_path, "consumer")
    tell(tmp_path, {"event": kinds.READY}, by="consumer-1")
    tell(tmp_path, {"event": kinds.READY}, by="producer-2")
    tell(tmp_path, {"event": kinds.TAKEN, "record": "k-1"}, by="consumer-2")
    assert not stage.is_ready()
    tell(tmp_path, {"event": kinds.READY}, by="consumer-2")
    assert stage.is_ready()


@pytest.mark.parametrize(
    ("hit", "held"),
    [
        ({"action": "hold", "pid": 7}, True),
        ({"action": "hold", "pid": 8}, False),
        ({"action": "pause", "pid": 7}, False),
    ],
)
def test_who_is_held_at_a_failpoint_says_so(
    tmp_path: Path, hit: dict[str, Any], held: bool
) -> None:
    """By its process: what is paused there, or killed, the kernel tells."""
    stage = node_of(StageNode, tmp_path, "consumer")
    assert not stage.stopped_itself()
    tell(tmp_path, {"event": kinds.FAILPOINT, "name": "after-work", **hit}, by="failpoint")
    assert stage.stopped_itself() is held


def test_a_failpoint_has_fired_when_it_was_written_down(tmp_path: Path) -> None:
    """It is claimed before that; and another one is not this one."""
    scene = scene_of(tmp_path)
    history = scene.history_folder
    stage = node_of(StageNode, history, "consumer")
    stage.stopped_itself = lambda: True
    nodes, trigger = CellNodes(scene, lambda: (stage,), {}), InProgram(Role.CONSUMER, "after-work")
    tell(history, {"event": kinds.FAILPOINT, "name": "before-work"}, by="failpoint")
    assert nodes.standing(trigger) is None
    tell(history, {"event": kinds.FAILPOINT, "name": "after-work"}, by="failpoint")
    assert nodes.standing(trigger) == Fired(scene.load.target.id, "consumer", None)
    assert nodes.standing(InProgram(Role.PROCESSOR, "after-work")) is None
    stage.stopped_itself = lambda: False
    assert nodes.standing(trigger) is None


def test_what_the_wire_sees_is_no_progress(tmp_path: Path) -> None:
    """Clients ask for ever; what programs and runner write is."""
    scene = scene_of(tmp_path)
    seen = [scene.progress()]
    for by in ("wire", "producer-1", "wire", "runner"):
        tell(scene.history_folder, {"event": kinds.TAKEN, "record": "k-1"}, by=by)
        seen.append(scene.progress())
    assert [now != before for before, now in pairwise(seen)] == [False, True, False, True]


def test_a_driver_moves_when_its_program_or_its_jvm_says_something(tmp_path: Path) -> None:
    driver, moves = node_of(DriverNode, tmp_path, "driver"), []
    for by in ("driver-1", "driver-2", "driver-2-jvm", "driver-1-jvm", "stand-in-1"):
        tell(tmp_path, {"event": kinds.BATCH}, by=by)
        moves.append(driver.moves())
    assert moves == [0, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("by", "held"), [("failpoint", True), ("driver-2-jvm", True), ("driver-1-jvm", False)]
)
def test_a_driver_stands_still_at_a_failpoint_of_its_own(
    tmp_path: Path, by: str, held: bool
) -> None:
    """In Python or in the JVM; what its predecessor was held at is over."""
    driver = node_of(DriverNode, tmp_path, "driver")
    tell(tmp_path, {"event": kinds.BATCH}, by="driver-2-jvm")
    assert not driver.stopped_itself()
    tell(tmp_path, {"event": kinds.FAILPOINT, "name": "after-commit-log"}, by=by)
    assert driver.stopped_itself() is held


def test_a_driver_that_has_ended_left_its_last_words(tmp_path: Path) -> None:
    """Those of this life; or none."""
    driver = node_of(DriverNode, tmp_path, "driver")
    driver.front = SimpleNamespace(exit="status 1")
    tell(tmp_path, {"event": kinds.STOPPED, "because": "something else"}, by="driver-1")
    assert driver.trouble() == "its program ended with status 1: it wrote no reason"
    assert not driver._over()
    tell(
        tmp_path,
        {"event": kinds.STOPPED, "because": "QueryError: failed\nCaused by: it was gone"},
        by="driver-2",
    )
    assert driver.trouble() == "its program ended with status 1: Caused by: it was gone"
    assert driver._over()

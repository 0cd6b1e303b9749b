"""Scenes of declared cells that are never run: just what their parts look at, without a broker."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.controls import OnWire
from harness.faults import Kill
from harness.model.scenario import Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import cells_of
from harness.protocols.kafka.steps import Api
from harness.run.controls import FaultState
from harness.systems.declared.drain.conditions import DrainConditions
from harness.systems.declared.drain.progress import Progress
from harness.systems.declared.feed.feed import DeclaredFeed
from harness.systems.declared.programs.owners import Owners
from harness.systems.declared.programs.workers import Victim, Workers
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.scene import EarlierCells, Fetched, Scene
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.log import Log
from harness.systems.declared.transport.positions import Positions
from harness.wire.rules import Direction
from tests.judge.growing import tell
from tests.judge.scenes import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.systems.declared.programs.nodes import CommandNode

EXAMPLES = Path(__file__).parents[2] / "examples"
KILLS = Kill(OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE), (Role.CONSUMER,))
"""A fault, where it matters only that there is one."""


@dataclass
class StillBrokers:
    """Brokers of which a test says what is asked of them. ``named``: the groups that there are."""

    observer: Any = None
    broker: Any = None
    wire: Any = None
    named: tuple[str, ...] = ()
    direct: str = "nowhere:1"
    access: Any = None
    own_access: Any = None
    around: frozenset[str] = frozenset()

    def bootstrap(self, role: Role) -> str:
        """Return an address."""
        del role
        return "nowhere:2"

    def destination(self, topic: str) -> str:
        """Return its name."""
        return topic

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those that there are."""
        del seen
        return self.named

    def clean(self, topics: Iterable[str]) -> None:
        """Fail: nobody answers."""
        raise ConnectionError(*topics)

    def servers(self, history: Any) -> dict[Role, Any]:
        """Return a broker that may be killed."""
        del history
        return {Role.BROKER: lambda: SimpleNamespace(name="broker")}


class Scenes:
    """Makes scenes, and gives their ports back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self._ends = ExitStack()

    def __call__(
        self,
        example: str,
        *events: Mapping[str, Any],
        fault: Any = None,
        pipeline: Mapping[str, Any] | None = None,
        history: Any = None,
        fetched: Fetched | None = None,
        **brokers: Any,
    ) -> Scene:
        """Return the scene of an example's cell: without a fault where none is said.

        ``events``: what the wire has written so far; ``pipeline``: what of the declaration is
        another.
        """
        declared = dataclasses.replace(
            read_pipeline(EXAMPLES / example / "pipeline.toml"), **(pipeline or {})
        )
        [cell] = cells_of(declared, failure_points(declared)[:1])
        if fault is not None:
            cell = dataclasses.replace(
                cell, scenario=dataclasses.replace(cell.scenario, fault=fault)
            )
        self._made += 1
        still: Any = StillBrokers(**brokers)
        kept: Any = history or Kept()
        scene = Scene(
            cell,
            self._folder / f"cell-{self._made}",
            kept,
            brokers=still,
            fetched=fetched or Fetched(),
            learnt=EarlierCells(),
        )
        self._ends.callback(scene.lease.close)
        self._ends.callback(scene.service_routes.close)
        tell(scene.history_folder, *events)
        return scene

    def close(self) -> None:
        """Give the ports back."""
        self._ends.close()


def told(scene: Scene) -> Kept:
    """Return what was written into the history of a scene."""
    history: Any = scene.history
    assert isinstance(history, Kept)
    return history


def nobody(scene: Scene) -> Owners:
    """Return the owners of connections, in a cell that has no stages."""
    return Owners(scene, {}, Workers({}, Victim()))


def conditions_of(
    scene: Scene, workers: Workers | None = None, **stages: CommandNode
) -> DrainConditions:
    """Return the conditions of the drain in a cell that has these stages, by their roles."""
    nodes = {Role(role): stage for role, stage in stages.items()}
    workers = workers or Workers(nodes, Victim())
    owners, matcher = Owners(scene, nodes, workers), RecordMatcher(scene)
    feed = DeclaredFeed(scene, nodes, owners, FaultState())
    positions = Positions(scene, nodes, owners, matcher)
    transport = Log(scene, positions, Authorities(scene, positions, matcher))
    return DrainConditions(
        scene,
        nodes,
        feed=feed,
        matcher=matcher,
        owners=owners,
        transport=transport,
        workers=workers,
        progress=Progress(scene, matcher),
    )


class Clock:
    """The time, as a test has it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return it."""
        return self.now

    def monotonic_ns(self) -> int:
        """Return it in nanoseconds."""
        return int(self.now * 1e9)

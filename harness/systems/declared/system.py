"""Declared pipelines on our Kafka: one cell at a time on a broker, for a user's programs name their topics themselves."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Deployment
from harness.core.waiting import wait_until
from harness.pipelines.cells import SYSTEM, DeclaredCell
from harness.setup.cache import cache_root
from harness.setup.jars import ensure_jars, read_jar_set
from harness.setup.java import find_java
from harness.systems.declared.outputs import Columns
from harness.systems.declared.run import DeclaredRun
from harness.systems.declared.silence import Silences
from harness.systems.kafka.system import KafkaDeployed, KafkaSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.interfaces import CellRun
    from harness.pipelines.declaration import Stage
    from harness.runtimes.docker.engine import Image
    from harness.runtimes.docker.runtime import DockerRuntime
    from harness.runtimes.interface import Runtime
    from harness.systems.kafka.ground import Ground


CLEAN_S = 20.0


@dataclass
class Fetched:
    """What pipelines' stages name and need: folders of jars by the name of their set, images by their own.

    ``say``: whom to tell what a cell's run shows before its end.
    """

    jars: dict[str, Path] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None


class DeclaredSystem(KafkaSystem):
    """Kafka for declared pipelines."""

    name = SYSTEM
    attached: ClassVar[bool] = False
    """Whether its brokers are somebody else's, whom nobody may kill."""

    def __init__(self, *, keep: bool = False) -> None:
        """``keep``: a broker that cells may share stays up between runs, until :meth:`close`."""
        super().__init__()
        self._keep = keep
        self._kept: KafkaDeployed | None = None
        self._fetched = Fetched()
        self.silences = Silences()
        """What the cells before have shown of how long a silence may last."""
        self.columns = Columns()
        """What they have shown of which columns of an output may be empty."""

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> None:
        """Fetch the sets of jars that the pipelines' commands name, and the images of their stages."""
        self._fetched.say = say
        declared = [cell.declared for cell in cells if isinstance(cell, DeclaredCell)]
        for name in {name for each in declared for name in each.jars} - set(self._fetched.jars):
            cache = cache_root()
            java = find_java(cache, say)
            self._fetched.jars[name] = ensure_jars(read_jar_set(name), cache=cache, java=java, say=say)
        if missing := {name for each in declared for name in each.images} - set(self._fetched.images):
            from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - what talks to an engine loads slowly
            from harness.setup.images import users_image  # noqa: PLC0415

            with contextlib.closing(connect()) as engine:
                self._fetched.images |= {name: users_image(engine, name, say) for name in sorted(missing)}

    def versions(self) -> dict[str, str]:
        """Return what takes part: Kafka, and the images of stages with the engine's ids of them."""
        return super().versions() | {f"image {name}": str(image) for name, image in self._fetched.images.items()}

    def deploy(self, need: Deployment, directory: Path) -> KafkaDeployed:
        """Start a deployment, or take the one that was kept."""
        if not self._keep or need is not Deployment.SHARED:
            return super().deploy(need, directory)
        if self._kept is None:
            self._kept = super().deploy(need, directory)
        return _Kept(self._kept)  # type: ignore[return-value]  # the runner asks nothing else of it

    def close(self) -> None:
        """End what was kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _deployment(self, ground: Ground, directory: Path) -> DeclaredDeployed:
        return DeclaredDeployed(ground, directory, self._fetched, self.silences, self.columns)


class _Kept:
    """A deployment that a run may use and not end."""

    def __init__(self, deployed: KafkaDeployed) -> None:
        self._deployed = deployed

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        return self._deployed.cell_run(cell, directory, history)

    def check(self) -> None:
        """Raise EnvironmentFailure where it has broken."""
        self._deployed.check()

    def close(self) -> None:
        """Leave it up."""


class DeclaredDeployed(KafkaDeployed):
    """A broker behind its wire, all of whose routes belong to the cell that is running.

    ``fetched``: what stages may name; ``silences``: what is known of how long one may last, ``columns``: of which may be empty.
    """

    def __init__(self, ground: Ground, directory: Path, fetched: Fetched, silences: Silences, columns: Columns) -> None:
        super().__init__(ground, directory)
        self.fetched = fetched
        self.silences = silences
        self.columns = columns
        self._containers: DockerRuntime | None = None

    def runtime_of(self, stage: Stage) -> Runtime:
        """Return where a stage lives: among the processes, or, where it has an image, among containers."""
        if not stage.image:
            return self.runtime
        if self._containers is None:
            from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - as above

            self._containers = DockerRuntime(directory=self._directory / "containers", images=self.fetched.images)
        return self._containers

    def close(self) -> None:
        """End everything, the containers of stages first."""
        try:
            if self._containers is not None:
                self._containers.close()
        finally:
            super().close()

    def say(self, text: str) -> None:
        """Tell what is seen while a cell runs, at once."""
        self.fetched.say(text)

    @property
    def direct(self) -> str:
        """Where the broker is reached past the wire."""
        return self.broker.bootstrap

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the pipeline's groups: on a broker of one's own, all there are. ``seen``: those that it was seen to use."""
        del seen
        return self.observer.groups()

    def ours(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of them that may be put out and deleted."""
        return self.groups(seen)

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics: name → partitions."""
        self.observer.create_topics({name: (partitions, {}) for name, partitions in topics.items()})

    def clean(self, topics: Iterable[str]) -> None:
        """Delete what the cell before has left: its topics, with their positions, and its groups."""
        topics, groups = tuple(topics), self.ours(())
        for group in groups:
            self.observer.expel(group)
        self.observer.forget([topic for topic in topics if self.observer.has(topic)], groups)
        gone = f"{', '.join(topics)} of the cell before to be gone"
        wait_until(lambda: not any(self.observer.has(t) for t in topics), within_s=CLEAN_S, because=gone, poll_s=0.05)

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:  # type: ignore[override]
        """Return the run of one cell."""
        if not isinstance(cell, DeclaredCell):
            raise TypeError(f"{cell.id} is no declared pipeline")
        return DeclaredRun(self, cell, directory, history)

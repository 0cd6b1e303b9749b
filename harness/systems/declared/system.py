"""Run declared pipelines as a system, on Kafka or on the broker of another system.

A broker runs one cell at a time, because a user's programs choose the names of their topics. Cells
that run side by side have a broker each.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

from harness.model.closing import Closing
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Deployment
from harness.model.secrets import mask_files
from harness.pipelines.alone import why_alone
from harness.pipelines.broker import Broker
from harness.pipelines.cells import DeclaredCell
from harness.pipelines.connectors import prepare_workers
from harness.pipelines.failure_points import SYSTEM
from harness.provision.cache import cache_root
from harness.provision.environments import ensure_client
from harness.provision.jars import ensure_jars, name_and_version, read_jar_set
from harness.provision.java import find_java
from harness.provision.kafka import VERSION
from harness.provision.spark_release import ensure_pyspark
from harness.run.cell import CellRun
from harness.systems.declared.brokers.cluster import OwnCluster
from harness.systems.declared.brokers.kafka import OBSERVER, OBSERVERS_CLIENT, OwnBrokers
from harness.systems.declared.brokers.queues import OwnQueues
from harness.systems.declared.fetchable import check_broker
from harness.systems.declared.parts import parts_of
from harness.systems.declared.programs.services import SharedServices
from harness.systems.declared.scene import EarlierCells, Fetched
from harness.systems.kafka.system import Prepared, started
from harness.systems.listing import declaration
from harness.wire.messages import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.programs import Program
    from harness.pipelines.security import DeclaredSecurity
    from harness.runtimes.docker.runtime import DockerRuntime
    from harness.runtimes.interface import Runtime
    from harness.systems.declared.brokers.kafka import Brokers
    from harness.systems.declared.learnt.silence import Silences


KAFKA: Final = "kafka"


class Source(Protocol):
    """Where the brokers of declared pipelines come from."""

    attached: bool
    """Whether the brokers are attached: lostack did not start them and must not kill them."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download what the brokers are started from."""

    def brokers(
        self,
        need: Deployment,
        directory: Path,
        security: DeclaredSecurity | None,
        roles: tuple[str, ...] = (),
        size: int = 1,
    ) -> Brokers:
        """Return brokers that are not started yet.

        ``security``: how programs log in; ``roles``: the names of stages that share a role, each
        with its own listener; ``size``: how many brokers.
        """

    def versions(self) -> Mapping[str, str]:
        """Return the known versions of what takes part."""


class OwnKafka:
    """Kafka brokers that lostack starts. Implements :class:`Source`."""

    attached = False

    def __init__(self, broker: Broker | None = None) -> None:
        broker = broker or Broker()
        self._prepared = Prepared(version=broker.version or None)
        self._settings = broker.settings

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Java and the jars and make the class-data archive, unless they are
        in the cache.
        """
        self._prepared.prepare(say)

    def brokers(
        self,
        need: Deployment,
        directory: Path,
        security: DeclaredSecurity | None,
        roles: tuple[str, ...] = (),
        size: int = 1,
    ) -> Brokers:
        """Return brokers that are not started yet."""
        how = security.security if security else None
        transport = self._prepared.transport(
            need, directory, how, roles, self._settings, brokers=size
        )
        return OwnBrokers(transport) if size == 1 else OwnCluster(transport)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of Kafka, Java, Python and the observer's client, which is not one of
        the pipeline's clients.
        """
        found = dict(self._prepared.versions(KAFKA))
        return {OBSERVER: found.pop(OBSERVERS_CLIENT), **found}


def own(system: str, broker: Broker) -> Source:
    """Return where brokers of a system come from that lostack starts.

    Raises:
        DeclarationError: lostack does not know the version.
    """
    check_broker(system, broker.version)
    if system == KAFKA:
        return OwnKafka(broker)
    return OwnQueues(declaration(system).launch("process", broker.version or None), broker)


class DeclaredSystem(Closing):
    """The brokers of declared pipelines: started by lostack, or attached. Several threads may
    deploy at once. Implements :class:`harness.interfaces.Launcher`.
    """

    name = SYSTEM
    one_cell = True

    def __init__(self, *, keep: bool = False, source: Source | None = None) -> None:
        """``keep``: shared brokers stay up between runs, until :meth:`close`. ``source``: where
        brokers come from; by default lostack starts a Kafka.
        """
        self._source: Source = source or OwnKafka()
        self._runs_on = KAFKA, Broker()
        """The system of the next pipeline, and the broker that it wants."""
        self._keep = keep
        self._kept: list[DeclaredDeployed] = []
        self._free: list[DeclaredDeployed] = []
        """Kept brokers that no run uses at the moment."""
        self._lock = threading.Lock()
        self._fetched = Fetched()
        self._learnt = EarlierCells()
        self._security: DeclaredSecurity | None = None
        """How the programs of the next pipeline log in to the brokers."""
        self._roles: tuple[str, ...] = ()
        """The names of the next pipeline's stages that share a role."""
        self._size = 1
        """How many brokers the next pipeline has."""

    @property
    def attached(self) -> bool:
        """Whether the brokers are attached: lostack did not start them and must not kill them."""
        return self._source.attached

    @property
    def silences(self) -> Silences:
        """What earlier cells have shown of how long a silence may last."""
        return self._learnt.silences

    def prepare(self, say: Callable[[str], None]) -> None:
        """Do nothing: :meth:`prepare_for` downloads what the pipelines need."""

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Download the brokers' software, and the jars, Python environments, PySpark and images
        that the pipelines name: all or none.
        """
        self._fetched.say = say
        declared = [cell.declared for cell in cells if isinstance(cell, DeclaredCell)]
        self._come_by(
            next((each.security for each in declared), None),
            next((each.named for each in declared), ()),
            next((each.brokers for each in declared), 1),
        )
        started = [
            (each.system, each.broker if self.attached else each.started_broker)
            for each in declared
        ]
        self._run_on(*next(iter(started), (KAFKA, Broker())))
        self._source.prepare(say)
        for name in {name for each in declared for name in each.jars} - set(self._fetched.jars):
            cache = cache_root()
            java = find_java(cache, say)
            self._fetched.jars[name] = ensure_jars(
                read_jar_set(name), cache=cache, java=java, say=say
            )
        if not self.attached and any(stage.connector for p in declared for stage in p.stages):
            prepare_workers(self._runs_on[1].version or VERSION, say)
        for name in {name for each in declared for name in each.packages} - set(
            self._fetched.pythons
        ):
            self._fetched.pythons[name] = ensure_client(name, say)
        for name in {name for each in declared for name in each.pysparks}:
            self._fetched.pysparks[name] = ensure_pyspark(name, cache=cache_root(), say=say)
        self._fetch_images(declared, say)
        return {}

    def _fetch_images(self, declared: Iterable[Pipeline], say: Callable[[str], None]) -> None:
        """Pull or build the images of pipelines, each once."""
        wanted = {
            program.image_in(each.directory): (program, each.directory)
            for each in declared
            for program in each.programs
            if program.image
        }
        for known in sorted(wanted.keys() - self._fetched.images.keys()):
            from harness.provision.images import built_image, users_image  # noqa: PLC0415
            from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - what talks to an engine loads slowly

            program, folder = wanted[known]
            with contextlib.closing(connect()) as engine:
                self._fetched.images[known] = (
                    built_image(engine, program.image, (folder / program.build).resolve(), say)
                    if program.build
                    else users_image(engine, program.image, say)
                )

    def versions(self) -> dict[str, str]:
        """Return the versions of the brokers and of the jars that were fetched for the stages, and
        the stages' images with their ids.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for jars in self._fetched.jars:
            name, version = name_and_version(jars)
            found[name].append(version)
        for each in self._fetched.images.values():
            found[f"image {each.name}"].append(str(each))
        return {
            **self._source.versions(),
            **{name: ", ".join(known) for name, known in found.items()},
        }

    def _come_by(
        self, security: DeclaredSecurity | None, roles: tuple[str, ...], size: int = 1
    ) -> None:
        """Use this security, these listeners and so many brokers next; stop kept brokers that
        differ.
        """
        if (security, roles, size) != (self._security, self._roles, self._size):
            self.close()
        self._security, self._roles, self._size = security, roles, size

    def _run_on(self, system: str, broker: Broker) -> None:
        """Use such brokers next; stop kept brokers of another system, version, or settings."""
        if (system, broker) != self._runs_on:
            self.close()
            self._source = own(system, broker)
        self._runs_on = system, broker

    def deploy(self, need: Deployment, directory: Path) -> DeclaredDeployed | KeptDeployment:
        """Start a deployment, or reuse a kept one: also for cells that kill one of several
        brokers, because each cell begins with all of them.
        """
        if not self._keep or (need is not Deployment.SHARED and self._size == 1):
            return self._start(need, directory)
        with self._lock:
            kept = self._free.pop() if self._free else None
        if kept is None:
            kept = self._start(need, directory)
            with self._lock:
                self._kept.append(kept)
        else:
            kept.serve(directory.absolute().parents[1])
        return KeptDeployment(kept, self._give_back)

    def why_alone(self, pipeline: Pipeline) -> str | None:
        """Say why cells of a pipeline cannot run side by side here, or ``None``."""
        return (
            "an attached cluster has one set of topic names"
            if self.attached
            else why_alone(pipeline)
        )

    def close(self) -> None:
        """Stop all kept brokers, even if stopping one of them fails."""
        with self._lock:
            kept, self._kept, self._free = self._kept, [], []
        with ThreadPoolExecutor(
            max(1, len(kept))
        ) as ends:  # each waits for the ends of its processes
            ended = [ends.submit(each.close) for each in kept]
        for each in ended:
            each.result()

    def _give_back(self, kept: DeclaredDeployed) -> None:
        """Make a kept deployment free for the next run, unless it was stopped meanwhile."""
        with self._lock:
            if kept in self._kept and kept not in self._free:
                self._free.append(kept)

    def _start(self, need: Deployment, directory: Path) -> DeclaredDeployed:
        return started(
            DeclaredDeployed(
                self._source.brokers(need, directory, self._security, self._roles, self._size),
                self._fetched,
                self._learnt,
            ),
            directory,
        )


TOLD = ("*.properties", "*.conf", "*.log")
"""The files of a broker in which a user's settings may stand: its settings, and its logs."""


class DeclaredDeployed:
    """Running brokers behind their wire. All routes of the wire belong to the cell
    that is running.
    """

    def __init__(self, brokers: Brokers, fetched: Fetched, learnt: EarlierCells) -> None:
        self._brokers = brokers
        self._fetched = fetched
        self._learnt = learnt
        self._containers: DockerRuntime | None = None
        self._shared_services = SharedServices(brokers.directory / "services")

    def start(self) -> None:
        """Start wire and brokers."""
        self._brokers.start()

    def serve(self, run: Path) -> None:
        """Go on in another run; ``run`` is its folder.

        Raises:
            EnvironmentFailure: a broker or the wire has ended meanwhile.
        """
        self._brokers.check()
        try:
            self._brokers.wire.admit(run)
        except WireError as error:
            raise EnvironmentFailure(f"the kept broker's wire does not go on: {error}") from error

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: this deployment runs one cell at a time."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        if not isinstance(cell, DeclaredCell):
            raise TypeError(f"{cell.id} is no declared pipeline")
        parts = parts_of(
            cell,
            directory,
            history,
            brokers=self._brokers,
            fetched=self._fetched,
            learnt=self._learnt,
            runtime_of=self._runtime_of,
            shared_services=self._shared_services,
        )
        return CellRun(cell, history, parts)

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""
        self._brokers.check()

    def close(self) -> None:
        """Stop the services, the stages' containers and the brokers. Then mask the secrets in what
        the brokers were told, and what they said.
        """
        with contextlib.ExitStack() as ends:  # the last comes first
            ends.callback(mask_files, self._brokers.directory, *TOLD)
            ends.callback(self._brokers.close)
            if self._containers is not None:
                ends.callback(self._containers.close)
            ends.callback(self._shared_services.close)

    def _runtime_of(self, stage: Program) -> Runtime:
        """Return the runtime of a program: containers if it has an image, otherwise processes."""
        if not stage.image:
            return self._brokers.runtime
        if self._containers is None:
            from harness.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 - as above

            self._containers = DockerRuntime(
                directory=self._brokers.directory / "containers", images=self._fetched.images
            )
        return self._containers


class KeptDeployment:
    """A kept deployment, which survives the end of a run. ``give_back``: called with the deployment
    when the run ends.
    """

    def __init__(
        self, deployed: DeclaredDeployed, give_back: Callable[[DeclaredDeployed], None]
    ) -> None:
        self._deployed = deployed
        self._give_back = give_back

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: this deployment runs one cell at a time."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        return self._deployed.cell_run(cell, directory, history)

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""
        self._deployed.check()

    def close(self) -> None:
        """Give the deployment back without stopping it."""
        self._give_back(self._deployed)

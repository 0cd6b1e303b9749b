"""Kafka as a system under test: prepare it, and deploy brokers for lostack's own stages."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from kafka.errors import KafkaError

from harness.model.cell import client_name
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Deployment, Role
from harness.model.waiting import WaitTimeoutError
from harness.proofs.network import NetworkBad
from harness.provision.clients import ClientSetup, prepare_client
from harness.provision.kafka import VERSION
from harness.provision.toxiproxy import VERSION as TOXIPROXY
from harness.run.cell import CellRun
from harness.run.lacking import fetched_by_client, fetched_for
from harness.stages.clients import ADAPTERS, JAVA, PRELOADS
from harness.systems.kafka.launcher import make_ground
from harness.systems.kafka.parts import CellOnKafka, parts_of
from harness.systems.kafka.services import Services
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.kafka.transport import SHAPES, KafkaTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.security import Security
    from harness.run.parts import Parts
    from harness.services.postgres.program import PostgresProgram
    from harness.systems.kafka.launcher import Ground, ToxiproxyProgram

    class Startable(Protocol):
        """A deployment that can be started and closed."""

        def start(self) -> None: ...  # noqa: D102

        def close(self) -> None: ...  # noqa: D102


KAFKA_CLIENTS = "kafka-clients"
"""The name of the Java client among the versions, where "java" means the JVM."""


@dataclass
class Prepared:
    """The software of Kafka and the services beside it, in one runtime; each is downloaded once.

    ``version``: a version of Kafka other than the default, with known checksums.
    """

    runtime: str = "process"
    version: str | None = None
    ground: Ground | None = None
    toxiproxy: ToxiproxyProgram | None = None
    postgres: PostgresProgram | None = None
    clients: dict[str, ClientSetup] = field(default_factory=dict)

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Java and the jars and make the class-data archive, or get the images, unless
        they are available.
        """
        self.ground = make_ground(self.runtime, say, self.version or VERSION)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Download or build the clients, Toxiproxy and PostgreSQL, if one of the cells needs them.
        Return who lacks what.
        """
        cells, self.clients = tuple(cells), {}
        adapted = [cell for cell in cells if client_name(cell.client) in ADAPTERS]
        lacking = fetched_by_client(adapted, partial(self._bring_client, say))
        disturbed = [each for each in cells if each.scenario.fault.evidence().proof(NetworkBad)]
        lacking |= fetched_for(disturbed, partial(self._bring_toxiproxy, say))
        on_server = [each for each in cells if each.scenario.pipeline.on_server]
        return lacking | fetched_for(on_server, partial(self._bring_postgres, say))

    def _bring_client(self, say: Callable[[str], None], client: str) -> None:
        self.clients[client] = self.stood_on().client(prepare_client(client, say), say)

    def _bring_toxiproxy(self, say: Callable[[str], None]) -> None:
        self.toxiproxy = self.stood_on().toxiproxy(say)

    def _bring_postgres(self, say: Callable[[str], None]) -> None:
        self.postgres = self.stood_on().postgres(say)

    def stood_on(self) -> Ground:
        """Return the ground on which brokers are started.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self.ground is None:
            raise RuntimeError("prepare() comes first")
        return self.ground

    def transport(
        self,
        need: Deployment,
        directory: Path,
        security: Security | None = None,
        roles: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
        *,
        brokers: int | None = None,
    ) -> KafkaTransport:
        """Return brokers that are not started yet.

        ``security``: how clients log in, if the deployment does not say it; ``roles``: further
        roles with a listener; ``settings``: of the brokers, in place of lostack's; ``brokers``: how
        many, in place of the deployment's.
        """
        shape = replace(
            SHAPES[need],
            brokers=brokers or SHAPES[need].brokers,
            security=security or SHAPES[need].security,
            roles=roles,
            settings=settings or {},
        )
        return KafkaTransport(self.stood_on(), directory, shape)

    def services(self, transport: KafkaTransport, reader: str) -> Services:
        """Return the services beside these brokers, not started yet."""
        return Services(transport, reader, self.toxiproxy, self.postgres)

    def versions(self, name: str) -> dict[str, str]:
        """Return the versions of Kafka, its clients, Java and Python. ``name``: the key for Kafka
        if its version was chosen.
        """
        found = {
            "kafka-python": importlib.metadata.version("kafka-python")
        }  # the observer reads by kafka-python, whatever the stages use
        found |= {
            KAFKA_CLIENTS if client == JAVA else client: setup.version
            for client, setup in self.clients.items()
        }
        if self.ground is not None:
            found |= self.ground.versions()
        if self.version is not None and "kafka" in found:
            found[name] = found.pop("kafka")
        if self.toxiproxy is not None:
            found["toxiproxy"] = TOXIPROXY
        if self.postgres is not None:
            found["postgres"] = self.postgres.version
        return found


D = TypeVar("D", bound="Startable")


def started(deployed: D, directory: Path) -> D:
    """Start a deployment and return it; if that fails, stop what was started.

    Raises:
        EnvironmentFailure: the deployment does not come up.
    """
    try:
        deployed.start()
    except (WaitTimeoutError, KafkaError) as error:
        deployed.close()
        raise EnvironmentFailure(
            f"Kafka did not come up: {error}; its logs: {directory}"
        ) from error
    except BaseException:
        deployed.close()
        raise
    return deployed


class KafkaSystem:
    """Kafka, in one runtime. Implements :class:`harness.interfaces.Launcher`."""

    name = "kafka"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: a version other than the default, with known checksums."""
        self._prepared = Prepared(runtime, version)
        if version is not None:
            self.name = f"{self.name}=={version}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Java and the jars and make the class-data archive, or get the images, unless
        they are available.
        """
        self._prepared.prepare(say)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Download or build what only some cells need: clients, Toxiproxy, PostgreSQL. Return who
        lacks what.
        """
        return self._prepared.prepare_for(cells, say)

    def deploy(self, need: Deployment, directory: Path) -> KafkaDeployed:
        """Start a broker or a cluster with its wire, and wait until a write is acknowledged."""
        transport = self._prepared.transport(need, directory)
        services = self._prepared.services(transport, Role.CONSUMER)
        return started(KafkaDeployed(transport, services, self._prepared.clients), directory)

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, its clients, Java and Python."""
        return self._prepared.versions(self.name)


class DeployedOnKafka(ABC):
    """Running brokers behind their wire, for the cells of one system. Safe to use from several
    threads, one per cell.
    """

    def __init__(self, transport: KafkaTransport, services: Services) -> None:
        self.transport = transport
        self.services = services

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: the cells share no crash."""
        del cells

    @abstractmethod
    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell, from its ground on Kafka."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        ground = CellOnKafka.of(cell, directory, history, self.transport, self.services)
        return CellRun(cell, history, self.parts(ground))

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian, the wire, Toxiproxy or the database died by
        itself.
        """
        self.transport.check()
        self.services.check()

    def close(self) -> None:
        """Stop the services, the brokers and the wire."""
        self.services.close()
        self.transport.close()


class KafkaDeployed(DeployedOnKafka):
    """Running brokers for cells of lostack's own stages."""

    def __init__(
        self, transport: KafkaTransport, services: Services, clients: Mapping[str, ClientSetup]
    ) -> None:
        super().__init__(transport, services)
        self._clients = clients
        self._crash = SharedCrash(())

    def start(self) -> None:
        """Start the wire and the brokers."""
        self.transport.start(
            preloads=tuple(
                chain.from_iterable(PRELOADS.get(client, ()) for client in self._clients)
            )
        )

    def together(self, cells: Sequence[Cell]) -> None:
        """Let these cells share one death and one restart of the broker."""
        self._crash = SharedCrash((cell.id for cell in cells), min(cell.stands_s for cell in cells))

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        return parts_of(on_kafka, self._crash, self._clients.get(on_kafka.scene.cell.client))

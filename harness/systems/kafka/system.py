"""Kafka deployed: one broker or a cluster, one wire in front of it, one observer behind it."""

from __future__ import annotations

import importlib.metadata
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kafka.errors import KafkaError

from harness.core.cell import client_name
from harness.core.failures import EnvironmentFailure
from harness.core.scenario import Deployment, Role
from harness.core.waiting import WaitTimeoutError, wait_until
from harness.programs.clients import ADAPTERS, JAVA, PRELOADS
from harness.proofs.network import NetworkBad
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.setup.clients import ClientSetup, prepare_client
from harness.setup.kafka import VERSION
from harness.setup.toxiproxy import VERSION as TOXIPROXY
from harness.systems.kafka.broker import INTERNAL_TOPICS, WIRE_ROLES, Broker, Ports, format_all, name_of
from harness.systems.kafka.cluster import ClusterCellRun
from harness.systems.kafka.database import DatabaseServer
from harness.systems.kafka.ground import make_ground
from harness.systems.kafka.network import CellNetwork
from harness.systems.kafka.observer import Observer
from harness.systems.kafka.run import KafkaCellRun
from harness.systems.kafka.volley import Volley
from harness.toxiproxy.server import ToxiproxyServer
from harness.wire.control import WireControl
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.postgres.program import PostgresProgram
    from harness.runtimes.interface import Exit, Node
    from harness.systems.kafka.ground import Ground, ToxiproxyProgram

WIRE_START_S = 20.0
KAFKA_CLIENTS = "kafka-clients"
"""The Java client among the versions: "java" is the JVM there."""


class KafkaSystem:
    """Kafka, in the runtime of that name."""

    name = "kafka"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: another one than the default, of those whose sums are known."""
        self._runtime = runtime
        self._version = version
        if version is not None:
            self.name = f"{self.name}=={version}"
        self._ground: Ground | None = None
        self._toxiproxy: ToxiproxyProgram | None = None
        self._clients: dict[str, ClientSetup] = {}
        self._postgres: PostgresProgram | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Java, the jars and the class-data archive, or the images, where they are not there yet."""
        self._ground = make_ground(self._runtime, say, self._version or VERSION)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> None:
        """Fetch or build the Toxiproxy server, and find PostgreSQL, where one of the cells needs it."""
        cells = tuple(cells)
        clients = sorted({cell.client for cell in cells if client_name(cell.client) in ADAPTERS})
        around = [client for client in clients if "==" in client or client == JAVA]
        if around and self._runtime != "process":
            raise EnvironmentFailure(f"--client {around[0]} needs more than the image of the stages has: runtime process only")
        self._clients = {client: prepare_client(client, say) for client in clients}
        if any(cell.scenario.fault.evidence().proof(NetworkBad) for cell in cells):
            self._toxiproxy = self._prepared().toxiproxy(say)
        if any(cell.scenario.pipeline.on_server for cell in cells):
            self._postgres = self._prepared().postgres(say)

    def deploy(self, need: Deployment, directory: Path) -> KafkaDeployed:
        """Start a broker, or a cluster, with its wire; ready when a write has been acknowledged."""
        special = {Deployment.CLUSTER: KafkaCluster, Deployment.APART: KafkaApart, Deployment.SMALL: KafkaOnSmallDisk}
        deployed: KafkaDeployed
        if need in special:
            deployed = special[need](self._prepared(), directory)
        else:
            deployed = self._deployment(self._prepared(), directory)
        if need is Deployment.SHARED:
            for server in deployed.servers:
                server.outlive_starvation()
        deployed.clients = self._clients
        deployed.postgres = self._postgres
        try:
            deployed.start()
        except (WaitTimeoutError, KafkaError) as error:
            deployed.close()
            raise EnvironmentFailure(f"Kafka did not come up: {error}; its logs: {directory}") from error
        except BaseException:
            deployed.close()
            raise
        return deployed

    def _prepared(self) -> Ground:
        if self._ground is None:
            raise RuntimeError("prepare() comes first")
        return self._ground

    def _deployment(self, ground: Ground, directory: Path) -> KafkaDeployed:
        return KafkaDeployed(ground, directory, self._toxiproxy)

    def versions(self) -> dict[str, str]:
        """Kafka, its clients, Java and Python."""
        found = {"kafka-python": importlib.metadata.version("kafka-python")}  # the observer's, whoever else takes part
        found |= {KAFKA_CLIENTS if client == JAVA else client: setup.version for client, setup in self._clients.items()}
        if self._ground is not None:
            found |= self._ground.versions()
        if self._version is not None:
            found[self.name] = found.pop("kafka")
        if self._toxiproxy is not None:
            found["toxiproxy"] = TOXIPROXY
        if self._postgres is not None:
            found["postgres"] = self._postgres.version
        return found


class KafkaDeployed:
    """A running broker behind its wire. Safe to use from several threads, one per cell."""

    size: ClassVar[int] = 1
    """How many brokers."""
    apart: ClassVar[int] = 0
    """How many controllers that are no brokers; none: the brokers are the controllers too."""
    disk: ClassVar[int | None] = None
    """How many bytes a broker may keep, on a disk of its own."""
    reader: ClassVar[str] = Role.CONSUMER
    """Who writes into a database."""

    def __init__(self, ground: Ground, directory: Path, toxiproxy: ToxiproxyProgram | None = None) -> None:
        self.runtime = ground.runtime(directory)
        self._directory = directory
        each = 2 + 2 * len(WIRE_ROLES)
        self._lease = PortLease(3 + self.size * each + self.apart)
        self.toxiproxy_port, self._database_port, self._control_port, *others = self._lease.ports
        quorum = [_ports(others[at : at + each]) for at in range(0, self.size * each, each)]
        apart = [Ports(port, port, {}, {}) for port in others[self.size * each :]]
        numbers = range(1, self.size + self.apart + 1)
        folders = [directory / name_of(n, self.size) if self.size > 1 else directory for n in numbers]
        self.servers = tuple(
            Broker(self.runtime, ground, folders[n - 1], quorum, n, apart=apart, disk=self.disk) for n in numbers
        )
        """The brokers, and the controllers apart, in the order of their numbers."""
        self.brokers = self.servers[: self.size]
        self.observer = Observer(",".join(broker.bootstrap for broker in self.brokers), self.runtime.check)
        self._wire: WireControl | None = None
        self.wire_node: Node | None = None
        self._toxiproxy_program = toxiproxy
        self._toxiproxy: ToxiproxyServer | None = None
        self._database: DatabaseServer | None = None
        self.postgres: PostgresProgram | None = None
        """What a database server is started from, where a cell needs one."""
        self._starting = threading.Lock()
        self.volley = Volley(())
        """The cells for which the broker is to die next."""
        self.clients: dict[str, ClientSetup] = {}
        """What the clients need around the stage programs."""

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire

    def start(self) -> None:
        """Start wire and broker."""
        self._start_wire()
        format_all(self.servers)
        for server in self.servers:
            server.launch()
        for client in self.clients:  # while the brokers start
            self.runtime.expect(PRELOADS.get(client, ()))
        for server in self.servers:
            server.await_listening()
        self.observer.wait_ready()

    @property
    def broker(self) -> Broker:
        """The broker; of a cluster, the first."""
        return self.brokers[0]

    def bootstrap(self, role: Role) -> str:
        """The addresses that nodes of a role are given: the wire's."""
        return ",".join(f"{self.runtime.address('wire')}:{broker.ports.wire[str(role)]}" for broker in self.brokers)

    def routes(self, *roles: str) -> tuple[Route, ...]:
        """Return the wire's routes for these roles, to every broker."""
        return tuple(
            Route(
                role if self.size == 1 else f"{broker.name}.{role}", broker.name, role,
                broker.ports.wire[role], broker.ports.broker[role], self.runtime.bind, self.runtime.address(broker.name),
            )
            for broker in self.brokers for role in roles
        )  # fmt: skip

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> KafkaCellRun:
        """Return the run of one cell."""
        return KafkaCellRun(self, cell, directory, history)

    def adapter(self, cell: Cell) -> str:
        """The client that the stage programs of a cell talk through; a streaming engine's topic is filled by the first."""
        name = client_name(cell.client)
        return name if name in ADAPTERS else next(iter(ADAPTERS))

    def network(self, cell: Cell, history: HistoryWriter, roles: Iterable[str]) -> CellNetwork:
        """Lead a cell's clients of these roles through Toxiproxy, which is started for the first cell that needs it."""
        client, host = self._toxiproxy_server().client, self.runtime.address("toxiproxy")
        network = CellNetwork(cell, history, self.wire, client, self.runtime.bind, host)
        network.lead(self.routes(*roles))
        return network

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian, wire, Toxiproxy or the database have died by themselves."""
        self.runtime.check()
        if self.wire_node is not None and self.wire_node.exit is not None:
            raise EnvironmentFailure(f"the wire ended ({self.wire_node.exit}): {self.wire_node.log_tail(3)}")
        if self._toxiproxy is not None:
            self._toxiproxy.check()
        if self._database is not None:
            self._database.server.check()

    def database(self) -> DatabaseServer:
        """The database server, which is started for the first cell that needs it."""
        from harness.postgres.server import PostgresServer  # noqa: PLC0415 - brings the driver; other cells need none

        with self._starting:
            if self._database is None:
                if self.postgres is None:
                    raise RuntimeError("prepare_for() comes first")
                server = PostgresServer(self.runtime, self.postgres, self._database_port, self._directory / "database")
                database = DatabaseServer(server, self.wire, self.runtime, self.reader)
                database.start()
                self._database = database
            return self._database

    def broker_process(self) -> Node:
        """The broker's process."""
        return self.broker.process()

    def together(self, cells: Sequence[Cell]) -> None:
        """Let the broker die once for all of these, and come back once."""
        self.volley = Volley(cell.id for cell in cells)

    def kill_broker(self) -> Exit:
        """SIGKILL the broker; the wire refuses connections until it is back."""
        end = self.broker_process().kill()
        for role in WIRE_ROLES:
            self.wire.close_route(role)
        self.observer.close()
        return end

    def restart_broker(self) -> None:
        """Start the broker again on the same data; the wire connects again once it has acknowledged a write."""
        self.broker.start()
        self.observer.wait_ready()
        for role in WIRE_ROLES:
            self.wire.open_route(role)

    def close(self) -> None:
        """End everything."""
        self.observer.close()
        if self._database is not None:
            self._database.server.stop()
        if self._wire is not None:
            self._wire.close()
        self.runtime.close()
        self._lease.close()

    def _start_wire(self) -> None:
        log = self._directory / "wire.log"
        spec = NodeSpec(
            name="wire", role="wire", log=log, stdin_pipe=True, cwd=Path.cwd(),
            argv=(self.runtime.python, "-m", "harness.wire", "--history", str(self._directory),
                  "--control-host", self.runtime.bind, "--control-port", str(self._control_port)),
            # the whole run's folder, <run>/deployments/<this>: the cells' histories lie beside
            container=ContainerSpec(ports=(self._control_port,), folders=(self._directory.absolute().parents[1],)),
        )  # fmt: skip
        self.wire_node = self.runtime.start(spec)

        def control_port() -> int | None:
            if self.wire_node is not None and self.wire_node.exit is not None:
                raise EnvironmentFailure(f"the wire ended at once: {self.wire_node.log_tail(3)}")
            for line in log.read_text().splitlines() if log.exists() else ():
                if line.startswith('{"control"'):
                    return int(json.loads(line)["control"])
            return None

        port = wait_until(control_port, within_s=WIRE_START_S, because="the wire to start")
        self._wire = WireControl.connect(port)
        for route in self.routes(*WIRE_ROLES):
            self._wire.add_route(route)

    def _toxiproxy_server(self) -> ToxiproxyServer:
        with self._starting:
            if self._toxiproxy is None:
                if self._toxiproxy_program is None:
                    raise RuntimeError("prepare_for() comes first")
                log = self._directory / "toxiproxy.log"
                server = ToxiproxyServer(self.runtime, self._toxiproxy_program.path, self.toxiproxy_port, log)
                server.await_ready()
                self._toxiproxy = server
            return self._toxiproxy


class KafkaOnSmallDisk(KafkaDeployed):
    """One broker, for one cell at a time, on a disk that a fault can fill."""

    disk = 64 << 20


class KafkaCluster(KafkaDeployed):
    """Three combined nodes behind one wire. One cell at a time: its faults reach every broker."""

    size = 3

    def start(self) -> None:
        """Start it. Kafka's own topics are led by the first broker: what leads a cell's topics coordinates nothing."""
        super().start()
        config = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
        self.observer.create_topics(dict.fromkeys(INTERNAL_TOPICS, (1, config)), lambda _: range(1, self.size + 1))

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> ClusterCellRun:
        """Return the run of one cell."""
        return ClusterCellRun(self, cell, directory, history)


class KafkaApart(KafkaCluster):
    """Three brokers, and their one controller a process of its own."""

    apart = 1


def _ports(numbers: Sequence[int]) -> Ports:
    """Share out the ports of one broker."""
    controller, direct, *others = numbers
    half = len(WIRE_ROLES)
    own, wire = others[:half], others[half:]
    return Ports(controller, direct, dict(zip(WIRE_ROLES, own, strict=True)), dict(zip(WIRE_ROLES, wire, strict=True)))

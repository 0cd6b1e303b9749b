"""A running Kafka: one broker or a cluster, one wire in front of it, one observer behind it. Other
systems build on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from harness.model.scenario import Deployment
from harness.run.wire import start_wire
from harness.runtimes.ports import PortLease
from harness.systems.kafka.broker import (
    INTER_BROKER,
    INTERNAL_TOPICS,
    WIRE_ROLES,
    Broker,
    Ports,
    format_all,
    name_of,
)
from harness.systems.kafka.observer import Observer
from harness.systems.kafka.security import Secured
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.model.scenario import Role
    from harness.model.security import Security
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Exit, Node
    from harness.systems.kafka.launcher import Ground
    from harness.wire.control import WireControl
    from harness.wire.messages import Tls

BESIDE = 2
"""How many ports the services beside the brokers need: Toxiproxy, a database."""


class Guard(TypedDict, total=False):
    """How a route ends TLS, and the file of the users that may log in."""

    tls: Tls | None
    users: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of brokers and of separate controllers, and the size in bytes of a broker's own
    disk, if it has one.
    """

    brokers: int = 1
    controllers: int = 0
    disk: int | None = None
    security: Security | None = None
    """How clients log in and whether they use TLS."""
    traced: bool = False
    """Whether the brokers are started so that they can lose their power."""
    roles: tuple[str, ...] = ()
    """Further roles with a listener, besides WIRE_ROLES."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers that replace lostack's."""

    @property
    def wire_roles(self) -> tuple[str, ...]:
        """All roles that have a listener."""
        return (*WIRE_ROLES, *self.roles)


SHAPES = {
    Deployment.SHARED: Shape(),
    Deployment.OWN: Shape(),
    Deployment.TRACED: Shape(traced=True),
    Deployment.SMALL: Shape(disk=64 << 20),
    Deployment.CLUSTER: Shape(brokers=3),
    Deployment.TRACED_CLUSTER: Shape(brokers=3, traced=True),
    Deployment.APART: Shape(brokers=3, controllers=1),
    **{need: Shape(security=need.security) for need in Deployment if need.security},
}


class KafkaTransport:
    """Running brokers behind their wire. Safe to use from several threads, one per cell."""

    def __init__(self, ground: Ground, directory: Path, shape: Shape | None = None) -> None:
        self.shape = shape or Shape()
        self.runtime = ground.runtime(directory)
        self.directory = directory
        each, size = 2 + 2 * len(self.shape.wire_roles), self.shape.brokers
        self.secured = Secured(self.shape.security, directory) if self.shape.security else None
        self._lease = PortLease(BESIDE + size * each + self.shape.controllers)
        self.toxiproxy_port, self.database_port, *others = self._lease.ports
        quorum = [
            _ports(others[at : at + each], self.shape.wire_roles)
            for at in range(0, size * each, each)
        ]
        apart = [Ports(port, port, {}, {}) for port in others[size * each :]]
        numbers = range(1, size + self.shape.controllers + 1)
        folders = [directory / name_of(n, size) if size > 1 else directory for n in numbers]
        self.servers = tuple(
            Broker(
                self.runtime,
                ground,
                folders[n - 1],
                quorum,
                n,
                apart=apart,
                disk=self.shape.disk,
                secured=self.secured,
                settings=self.shape.settings,
                traced=self.shape.traced,
            )
            for n in numbers
        )
        """The brokers, then the separate controllers, in the order of their numbers."""
        self.brokers = self.servers[:size]
        self.observer = Observer(
            ",".join(broker.bootstrap for broker in self.brokers), self.runtime.check
        )
        self._wire: RunningWire | None = None

    @property
    def size(self) -> int:
        """The number of brokers."""
        return self.shape.brokers

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        return self._running_wire().control

    @property
    def wire_node(self) -> Node:
        """The wire's process."""
        return self._running_wire().node

    def start(self, preloads: tuple[str, ...] = ()) -> None:
        """Start the wire and the brokers, and wait until a write is acknowledged.

        ``preloads``: modules that later programs import.
        """
        if self.secured is not None:
            self.secured.make()
        self._wire = start_wire(self.runtime, self.directory, self.routes(*self.shape.wire_roles))
        format_all(self.servers)
        for server in self.servers:
            server.launch()
        self.runtime.expect(preloads)  # while the brokers start
        for server in self.servers:
            server.await_listening()
        self.observer.wait_ready()
        if (
            self.size > 1
            # the first broker leads Kafka's internal topics, so the leaders of a cell's topics
            # coordinate nothing
        ):
            config = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
            self.observer.create_topics(
                dict.fromkeys(INTERNAL_TOPICS, (1, config)), lambda _: range(1, self.size + 1)
            )

    @property
    def broker(self) -> Broker:
        """The broker; in a cluster, the first one."""
        return self.brokers[0]

    @property
    def direct(self) -> str:
        """The broker's own address, without the wire."""
        return self.broker.bootstrap

    def bootstrap(self, role: Role) -> str:
        """Return the bootstrap addresses for nodes of a role, which are the wire's."""
        return ",".join(
            f"{self.runtime.address('wire')}:{broker.ports.wire[str(role)]}"
            for broker in self.brokers
        )

    def routes(self, *roles: str) -> tuple[Route, ...]:
        """Return the wire's routes for these roles, to every broker."""
        return tuple(
            Route(
                role if self.size == 1 else f"{broker.name}.{role}",
                broker.name,
                role,
                broker.ports.wire[role],
                broker.ports.broker[role],
                self.runtime.bind,
                self.runtime.address(broker.name),
                protocol="kafka",
                **self._secured(role, self.runtime.address(broker.name)),
            )
            for broker in self.brokers
            for role in roles
        )

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        self.runtime.check()
        if self._wire is not None:
            self._wire.check()

    def broker_process(self) -> Node:
        """Return the broker's process."""
        return self.broker.process()

    def kill_broker(self) -> Exit:
        """Kill the broker with SIGKILL; the wire refuses connections until it is back."""
        end = self.broker_process().kill()
        for role in self.shape.wire_roles:
            self.wire.close_route(role)
        self.observer.close()
        return end

    def restart_broker(self) -> None:
        """Restart the broker on the same data; the wire accepts connections once a write is
        acknowledged.
        """
        self.broker.start()
        self.observer.wait_ready()
        for role in self.shape.wire_roles:
            self.wire.open_route(role)

    def close(self) -> None:
        """Stop everything. Safe to call twice, and before anything was started."""
        self.observer.close()
        if self._wire is not None:
            self._wire.close()
        self.runtime.close()
        self._lease.close()
        if self.secured is not None:
            self.secured.destroy()

    def _secured(self, role: str, host: str) -> Guard:
        """Return a route's TLS and login settings; none for routes between brokers."""
        if self.secured is None or role == INTER_BROKER:
            return {}
        return {"tls": self.secured.tls(host), "users": self.secured.users}

    def _running_wire(self) -> RunningWire:
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire


def _ports(numbers: Sequence[int], roles: Sequence[str]) -> Ports:
    """Divide the ports of one broker: controller, direct, and two for each role."""
    controller, direct, *others = numbers
    own, wire = others[: len(roles)], others[len(roles) :]
    return Ports(
        controller, direct, dict(zip(roles, own, strict=True)), dict(zip(roles, wire, strict=True))
    )

"""The services beside a declared pipeline, such as databases: started for each cell or once, and
ended with their children.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.model.secrets import mask_file
from harness.pipelines.programs import ONCE
from harness.runtimes.ports import HOST, PortLease
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.nodes import CommandNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.pipelines.programs import Program, Service
    from harness.runtimes.interface import Runtime
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.wire.routes import ServiceRoutes

OPEN_S = 1.0
"""How long (seconds) a port of this machine may take to answer."""
KEY = "service"
"""The mark of a process of a service that outlives its cell."""


def is_open(port: int) -> bool:
    """Say whether a process listens at a port of this machine."""
    try:
        with socket.create_connection((HOST, port), timeout=OPEN_S):
            return True
    except OSError:
        return False


@dataclass
class ServiceTarget:
    """A service as a target of faults: while it is dead, the wire refuses connections to it.
    Implements :class:`harness.controls.Target`.
    """

    node: CommandNode
    service_routes: ServiceRoutes

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def role(self) -> Role:
        """Its role in histories."""
        return self.node.role

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is reaped."""
        self.node.kill()
        self.service_routes.shut(self.name)

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.node.pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self.node.resume()

    def restart(self) -> None:
        """Start it again and wait until it is ready."""
        self.node.restart()
        self.service_routes.reopen(self.name)


@dataclass
class ServiceInstance:
    """One service with its port, its folder, and, once started, its node."""

    service: Service
    lease: PortLease
    folder: Path
    node: CommandNode | None = None

    @property
    def log(self) -> Path:
        """Where a service that outlives its cell writes what it prints."""
        return self.folder.parent / f"{self.service.name}.log"

    def values(self) -> dict[str, object]:
        """Return the values of the service's names in braces: ``NAME.port`` and ``NAME.dir``."""
        return {
            f"{self.service.name}.port": self.lease.port,
            f"{self.service.name}.dir": self.folder,
        }

    def close(self) -> None:
        """Stop the service, and note that in the history."""
        try:
            if self.node is not None and self.node.started:
                self.node.kill()
        finally:
            self.lease.close()

    def close_untold(self) -> None:
        """Stop the service after the last cell, without a history line: no history is open any
        more. Then mask the secrets in its log.
        """
        try:
            if self.node is not None and self.node.processes.node is not None:
                self.node.processes.node.kill()
        finally:
            self.lease.close()
            if self.log.exists():
                mask_file(self.log)


@dataclass
class SharedServices:
    """The services that are started once and end with the brokers. ``directory``: where their
    folders are.
    """

    directory: Path
    placed: dict[tuple[str, str], ServiceInstance] = field(default_factory=dict)
    """(file of the pipeline, name of the service) → the service."""

    def take(self, pipeline: str, service: Service) -> ServiceInstance:
        """Return a service; make it, not started, if it is not known yet."""
        key = (pipeline, service.name)
        if key not in self.placed:
            self.placed[key] = ServiceInstance(
                service, PortLease(1), self.directory / str(len(self.placed)) / service.name
            )
        return self.placed[key]

    def close(self) -> None:
        """Stop all services, even if stopping one of them fails."""
        with ExitStack() as ends:
            for each in self.placed.values():
                ends.callback(each.close_untold)
        self.placed.clear()


class Services:
    """The services of one cell, which are up before its stages start."""

    def __init__(
        self,
        scene: Scene,
        shared_services: SharedServices,
        runtime_of: Callable[[Program], Runtime],
    ) -> None:
        self._scene = scene
        self._runtime_of = runtime_of
        pipeline = scene.pipeline
        self._placed = [
            shared_services.take(f"{pipeline.directory}/{pipeline.file}", service)
            if service.anew == ONCE
            else ServiceInstance(service, PortLease(1), scene.directory / "services" / service.name)
            for service in pipeline.services
        ]
        for each in self._placed:
            scene.of_services |= each.values()

    @property
    def nodes(self) -> Sequence[CommandNode]:
        """The nodes of the started services, in the declaration's order."""
        return [each.node for each in self._placed if each.node is not None]

    def targets(self) -> Mapping[Role, Callable[[], Target]]:
        """Return the services as targets of faults, by their roles."""
        return {each.service.known: lambda each=each: self._node(each) for each in self._placed}  # type: ignore[misc]

    def open(self) -> None:
        """Start each service that is not up, and wait until it is ready; then let the wire listen
        for the stages.

        Raises:
            StageError: a service ended, or is not ready in time.
        """
        for each in self._placed:
            each.folder.mkdir(parents=True, exist_ok=True)
            if each.node is not None and each.node.ended() is None:
                self._go_on(each.node, self._scene.history)
                continue
            each.node = self._make(each)
            each.node.start()
            each.node.await_ready()
        ports = {each.service.name: each.lease.port for each in self._placed}
        self._scene.service_routes.open(self._scene.brokers.wire, ports)

    def close(self) -> None:
        """Stop the services of this cell, even if stopping one of them fails."""
        with ExitStack() as ends:
            ends.callback(self._scene.service_routes.close)
            for each in self._placed:
                if each.service.anew != ONCE:
                    ends.callback(each.close)

    def _node(self, each: ServiceInstance) -> Target:
        if each.node is None:
            raise RuntimeError(f"the service {each.service.name} was not started")
        return ServiceTarget(each.node, self._scene.service_routes)

    def _go_on(self, node: CommandNode, history: HistoryWriter) -> None:
        """Let a service that is already up write its events to this cell's history."""
        node.processes.history = history
        first = node.processes.node
        node.processes.say(NodePhase.STARTED, pid=first.pid if first else None)
        node.processes.say(NodePhase.READY, pid=first.pid if first else None)

    def _make(self, each: ServiceInstance) -> CommandNode:
        scene, service = self._scene, each.service
        stays = service.anew == ONCE
        bootstrap = scene.kafka.direct if scene.pipeline.dialect.logs else ""
        return CommandNode(
            StageCommand(
                service,
                scene.places(bootstrap, in_image=bool(service.image)),
                scene.pipeline.directory,
                each.log if stays else scene.logs / f"{service.name}.log",
                scene.failpoints,
                path=scene.pipeline.path,
            ),
            self._runtime_of(service),
            scene.history,
            f"{KEY}{each.lease.port}" if stays else scene.cell.key,
            fetches=lambda _: True,
            is_open=lambda: not self._asks_for_port(service) or is_open(each.lease.port),
        )

    @staticmethod
    def _asks_for_port(service: Service) -> bool:
        return any(f"{{{service.name}.port}}" in word for word in service.words)

"""The ways from the stages of a cell to its services: each is a route of the wire, with a port of
its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from harness.pipelines.at_services import pairs_of
from harness.runtimes.ports import PortLease
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Role
    from harness.pipelines.declaration import Pipeline
    from harness.wire.control import WireControl

PROTOCOL: Final = "service"
"""What the wire reads on these routes, by its name in the registry of protocols."""


class ServiceRoutes:
    """The routes of one cell to its services. Ports are leased at once, for the stages' commands
    name them before the routes are there.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        pairs = pairs_of(pipeline)
        self._lease = PortLease(len(pairs))
        self._ports = dict(zip(pairs, self._lease.ports, strict=True))
        self._wire: WireControl | None = None
        self._opened: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the routes that are open."""
        return tuple(self._opened)

    def values(self, role: Role) -> dict[str, object]:
        """Return the values of the names in braces ``NAME.port`` for a stage."""
        return {
            f"{service}.port": port for (each, service), port in self._ports.items() if each == role
        }

    def open(self, wire: WireControl, services: Mapping[str, int]) -> None:
        """Let the wire listen for each stage. ``services``: the services' own ports."""
        self._wire = wire
        for (role, service), port in self._ports.items():
            name = _name(role, service)
            wire.add_route(Route(name, service, role, port, services[service], protocol=PROTOCOL))
            self._opened.append(name)

    def shut(self, service: str) -> None:
        """Refuse connections to a service, and end those there are: it is dead."""
        for name in self._of(service):
            if self._wire is not None:
                self._wire.close_route(name)

    def reopen(self, service: str) -> None:
        """Accept connections to a service again."""
        for name in self._of(service):
            if self._wire is not None:
                self._wire.open_route(name)

    def close(self) -> None:
        """Remove the routes, and give the ports back."""
        with ExitStack() as ends:
            ends.callback(self._lease.close)
            while self._opened and self._wire is not None:
                ends.callback(self._wire.remove_route, self._opened.pop())

    def _of(self, service: str) -> list[str]:
        return [_name(role, each) for role, each in self._ports if each == service]


def _name(role: Role, service: str) -> str:
    return f"{role} to {service}"

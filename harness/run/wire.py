"""The wire of a deployment: a process of its own, and the connection that controls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.wire.control import WireControl, argv
from harness.wire.door import SECRET, new_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.runtimes.interface import Node, Runtime
    from harness.wire.messages import Route

START_S = 20.0


class RunningWire:
    """The wire's process, and its control."""

    def __init__(self, node: Node, control: WireControl, lease: PortLease | None) -> None:
        self.node = node
        self.control = control
        self._lease = lease

    def check(self) -> None:
        """Raise EnvironmentFailure if the wire has ended by itself."""
        if self.node.exit is not None:
            raise EnvironmentFailure(f"the wire ended ({self.node.exit}): {self.node.log_tail(3)}")

    def close(self) -> None:
        """Close the control connection. The runtime ends the wire's process."""
        self.control.close()
        if self._lease is not None:
            self._lease.close()


def start_wire(runtime: Runtime, directory: Path, routes: Iterable[Route]) -> RunningWire:
    """Start the wire of a deployment, with its routes. Its log goes into ``directory``, which is
    ``<run>/deployments/<name>``.

    The wire reads and writes only below ``<run>``, and below runs that it is told of later
    (:meth:`~harness.wire.control.WireControl.admit`).

    Raises:
        EnvironmentFailure: the wire does not come up.
    """
    log, secret, run = directory / "wire.log", new_secret(), directory.absolute().parents[1]
    lease = None if runtime.here else PortLease(1)
    ports = () if lease is None else lease.ports
    spec = NodeSpec(
        name="wire",
        role="wire",
        log=log,
        stdin_pipe=True,
        cwd=Path.cwd(),
        argv=(
            *argv(directory, run, python=runtime.python),
            *(
                word
                for port in ports
                for word in ("--control-host", runtime.bind, "--control-port", str(port))
            ),
        ),
        env={SECRET: secret},
        container=ContainerSpec(ports=ports, folders=(run,)),
    )
    node = runtime.start(spec)

    def said() -> str | None:
        if node.exit is not None:
            raise EnvironmentFailure(f"the wire ended at once: {node.log_tail(3)}")
        for line in log.read_text().splitlines() if log.exists() else ():
            if line.startswith('{"control"'):
                return line
        return None

    address = json.loads(wait_until(said, within_s=START_S, because="the wire to start"))["control"]
    wire = RunningWire(node, WireControl.connect(address, secret), lease)
    for route in routes:
        wire.control.add_route(route)
    return wire

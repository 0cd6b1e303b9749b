"""The wire of a deployment: a process of its own, and the connection that controls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.wire.control import WireControl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.runtimes.interface import Node, Runtime
    from harness.wire.messages import Route

START_S = 20.0


class RunningWire:
    """The wire's process, and its control."""

    def __init__(self, node: Node, control: WireControl) -> None:
        self.node = node
        self.control = control

    def check(self) -> None:
        """Raise EnvironmentFailure if the wire has ended by itself."""
        if self.node.exit is not None:
            raise EnvironmentFailure(f"the wire ended ({self.node.exit}): {self.node.log_tail(3)}")

    def close(self) -> None:
        """Close the control connection. The runtime ends the wire's process."""
        self.control.close()


def start_wire(
    runtime: Runtime, directory: Path, control_port: int, routes: Iterable[Route]
) -> RunningWire:
    """Start the wire of a deployment, with its routes. Its log goes into ``directory``.

    Raises:
        EnvironmentFailure: the wire does not come up.
    """
    log = directory / "wire.log"
    spec = NodeSpec(
        name="wire",
        role="wire",
        log=log,
        stdin_pipe=True,
        cwd=Path.cwd(),
        argv=(
            runtime.python,
            "-m",
            "harness.wire",
            "--history",
            str(directory),
            "--control-host",
            runtime.bind,
            "--control-port",
            str(control_port),
        ),
        # the whole run's folder, <run>/deployments/<this>: the cells' histories lie beside
        container=ContainerSpec(ports=(control_port,), folders=(directory.absolute().parents[1],)),
    )
    node = runtime.start(spec)

    def port() -> int | None:
        if node.exit is not None:
            raise EnvironmentFailure(f"the wire ended at once: {node.log_tail(3)}")
        for line in log.read_text().splitlines() if log.exists() else ():
            if line.startswith('{"control"'):
                return int(json.loads(line)["control"])
        return None

    wire = RunningWire(
        node, WireControl.connect(wait_until(port, within_s=START_S, because="the wire to start"))
    )
    for route in routes:
        wire.control.add_route(route)
    return wire

"""A Toxiproxy server as a node: started by the runtime, so that it dies with the harness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.services.toxiproxy.client import Toxiproxy

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Node, Runtime

START_S = 20.0


class ToxiproxyServer:
    """A running server on a loopback port of its own. ``program``: ``None`` where an image brings it."""

    def __init__(self, runtime: Runtime, program: Path | None, port: int, log: Path, *, seed: int = 1) -> None:
        self.client = Toxiproxy(port)
        self.log = log
        spec = NodeSpec(
            name="toxiproxy", role="toxiproxy", log=log,
            argv=(*(() if program is None else (str(program),)), "-host", runtime.bind, "-port", str(port), "-seed", str(seed)),
            container=ContainerSpec("toxiproxy", ports=(port,), host_pids=False),
        )  # fmt: skip
        self.node: Node = runtime.start(spec)

    def await_ready(self) -> None:
        """Wait until it answers.

        Raises:
            EnvironmentFailure: the server does not start.
        """
        try:
            wait_until(self._answers_or_died, within_s=START_S, because="Toxiproxy to answer", poll_s=0.02)
        except WaitTimeoutError as error:
            raise EnvironmentFailure(f"Toxiproxy did not come up: {error}; its log: {self.log}") from error

    def check(self) -> None:
        """Raise EnvironmentFailure where it has died."""
        if self.node.exit is not None:
            raise EnvironmentFailure(f"Toxiproxy ended ({self.node.exit}): {self.node.log_tail(3)}")

    def _answers_or_died(self) -> bool:
        self.check()
        return self.client.ready()

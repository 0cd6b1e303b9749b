"""A Toxiproxy server as a node. The runtime starts it, so it ends when the harness ends."""

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
    """A running server on its own loopback port. ``program``: its executable; ``None`` if a
    container image has it.
    """

    def __init__(self, runtime: Runtime, program: Path | None, port: int, log: Path) -> None:
        self.client = Toxiproxy(port)
        self.log = log
        spec = NodeSpec(
            name="toxiproxy",
            role="toxiproxy",
            log=log,
            argv=(
                *(() if program is None else (str(program),)),
                "-host",
                runtime.bind,
                "-port",
                str(port),
                "-seed",
                "1",
            ),
            container=ContainerSpec("toxiproxy", ports=(port,), host_pids=False),
        )
        self.node: Node = runtime.start(spec)

    def await_ready(self) -> None:
        """Wait until the server answers.

        Raises:
            EnvironmentFailure: the server does not start.
        """
        try:
            wait_until(
                self._answers_or_died, within_s=START_S, because="Toxiproxy to answer", poll_s=0.02
            )
        except WaitTimeoutError as error:
            raise EnvironmentFailure(
                f"Toxiproxy did not start: {error}; its log: {self.log}"
            ) from error

    def check(self) -> None:
        """Make sure that the server still runs.

        Raises:
            EnvironmentFailure: the server has ended.
        """
        if self.node.exit is not None:
            raise EnvironmentFailure(f"Toxiproxy ended ({self.node.exit}): {self.node.log_tail(3)}")

    def _answers_or_died(self) -> bool:
        self.check()
        return self.client.ready()

"""A worker as a node: a JVM, over all its incarnations."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness import failpoint
from harness.model.events import NodePhase
from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.nodes import CLOSED_S, StageNode
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process.peers import listening_at
from lostack_connect.rest import WorkerApi
from lostack_connect.settings import ConnectSettings
from lostack_connect.words import CLIENT, worker_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from lostack_connect.install import ConnectInstall

STOPS: Final = b"Stopping task"
"""What a worker says in its log when it has told a task to stop."""
STOPS_S: Final = 60.0
READY_S: Final = 90.0
"""How long a worker may take to start the task: also until a dead one's transaction times out."""


@dataclass
class WorkerNode(StageNode):
    """One worker, over all its incarnations. Implements :class:`harness.controls.Target`."""

    install: ConnectInstall | None = field(default=None, kw_only=True)
    port: int = field(default=0, kw_only=True)
    """Of its REST interface."""
    put_out: Callable[[], object] = field(default=lambda: None, kw_only=True)
    """Called when it is dead, before it is started again."""

    def is_ready(self) -> bool:
        """Say whether this incarnation has started the task; one of several need only answer."""
        return super().is_ready() if self._alone else self.rest.up()

    @property
    def rest(self) -> WorkerApi:
        """The client of its REST interface."""
        return WorkerApi(self.port)

    def start(self) -> None:
        """Start the next incarnation; do not wait."""
        if self.install is None:
            raise RuntimeError("a worker needs a Kafka Connect")
        self.stage = replace(self.stage, incarnation=self.stage.incarnation + 1)
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.failpoints.mkdir(parents=True, exist_ok=True)
        self.node = self.runtime.start(
            NodeSpec(
                name=f"{self.stage.key}-{self.stage.writer}",
                role=self.role,
                argv=self.install.command(self.properties(), self._scratch, self._scratch),
                env={
                    "LOSTACK_CELL": self.stage.cell,
                    "LOSTACK_BY": self.stage.writer,
                    "LOSTACK_HISTORY": str(Path(self.stage.history).absolute()),
                    CLIENT: self.stage.client_id,
                    failpoint.VARIABLE: str(self.failpoints.absolute()),
                },
                log=self.logs / f"{self.name}.log",
                cwd=Path.cwd(),  # where the names in a failpoint's order begin
            )
        )
        self._told = self._asked = False
        self._say(NodePhase.STARTED, pid=self.node.pid, supervised=self.by_supervisor)

    def begin_again(self) -> None:
        """Start the next incarnation; do not wait. The dead one leaves its cluster, as when its
        session is over, only sooner: else its successor would be given no task until then.
        """
        self.put_out()
        super().begin_again()

    def properties(self) -> dict[str, str]:
        """Return the properties of this incarnation."""
        number = self.name.rpartition("-")[2]
        return worker_words(
            ConnectSettings.of(self.stage.settings),
            self.stage.key,
            client=f"{number}.{self.stage.incarnation}",
            bootstrap=self.stage.bootstrap,
            port=self.port,
        )

    def kill(self) -> None:
        """Kill the worker with SIGKILL.

        Raises:
            CellFailure: by the kernel's word it serves still.
        """
        super().kill()
        try:
            wait_until(
                lambda: not listening_at({self.port}),
                within_s=CLOSED_S,
                because="its port to close",
            )
        except WaitTimeoutError:
            raise CellFailure(f"{self.name} was killed, but still listens at {self.port}") from None

    def leave(self) -> None:
        """Tell the worker to end, and release the failpoint that holds its task when it has told
        the task to stop. Until then the task would go on as if nothing had happened.
        """
        log = self.logs / f"{self.name}.log"
        before = log.stat().st_size
        self.tell_to_end()
        wait_until(
            lambda: STOPS in log.read_bytes()[before:],
            within_s=STOPS_S,
            because=f"{self.name} to stop its task",
            poll_s=0.02,
        )
        self.release()

    def resume(self) -> None:
        """Let the worker go on, and release the failpoint that holds its task."""
        self.release()
        super().resume()

    def release(self) -> None:
        """Release the failpoint that holds its task."""
        for fired in self.failpoints.glob("*.fired"):
            failpoint.release(self.failpoints, fired.stem)

    def dismiss(self) -> None:
        """Remove its temporary files."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _alone(self) -> bool:
        """Whether it is the only worker, and so has the task."""
        return ConnectSettings.of(self.stage.settings).connect.workers == 1

    @property
    def _scratch(self) -> Path:
        return self.failpoints.parent.absolute() / "scratch" / self.name

"""The topology of a cell: submit it, follow its workers, which the supervisor
restarts, and end it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import StageEndedError
from harness.run.nodes import say_of
from harness.systems.storm.cluster import EXITED_S
from harness.systems.storm.desk import DeskError
from harness.systems.storm.settings import ACKER, StormSettings
from harness.systems.storm.words import Place, words_of

if TYPE_CHECKING:
    from typing import Unpack

    from harness.model.events import NodeFields
    from harness.run.sinks import Database
    from harness.systems.kafka.scene import Scene
    from harness.systems.storm.cluster import Cluster
    from harness.systems.storm.keeper import Keeper

READY_S: Final = 90.0
POLL_S: Final = 0.02
SHELL: Final = 128
"""What a shell adds to a signal's number in the status of a killed program."""


class Worker:
    """A worker of a cell's topology, over all its incarnations. Implements
    :class:`harness.controls.Target`.
    """

    def __init__(
        self, scene: Scene, cluster: Cluster, name: str = "worker", role: Role = Role.PROCESSOR
    ) -> None:
        self.name = name
        self.role = role
        self._scene = scene
        self._cluster = cluster
        self.incarnation = 0
        self._pid = 0
        self._id = ""
        self._told = False

    def await_ready(self) -> None:
        """Wait until the next incarnation writes that it is ready."""
        writer = f"{self.name}-{self.incarnation + 1}"
        ready = self._scene.so_far.finder(kinds.Ready, lambda e: e.by == writer)
        [said, *_] = wait_until(
            lambda: ready(),  # noqa: PLW0108
            within_s=READY_S,
            because=f"{writer} to run",
            poll_s=POLL_S,
        )
        if said.pid is None:
            raise RuntimeError(f"{writer} did not write its process id")
        self.incarnation += 1
        self._pid, self._id, self._told = said.pid, str(said.worker), False
        self._say(NodePhase.STARTED, known_as=self._id)
        self._say(NodePhase.READY)

    def ended(self) -> int | None:
        """Return the worker's exit code, as the supervisor reports it, or ``None``; the history
        notes the end once.
        """
        code = self._cluster.ended_with(self._id)
        if code is not None and not self._told:
            self._told = True
            killed = code > SHELL
            self._say(
                NodePhase.EXITED,
                status=None if killed else code,
                signal=code - SHELL if killed else None,
            )
        return code

    def kill(self) -> None:
        """Kill the worker with SIGKILL, and wait until the supervisor reports its end."""
        os.kill(self._pid, signal.SIGKILL)
        self._cluster.await_end(self._id)
        self.ended()

    def pause(self) -> None:
        """Stop the worker (SIGSTOP)."""
        os.kill(self._pid, signal.SIGSTOP)
        self._say(NodePhase.PAUSED)

    def resume(self) -> None:
        """Let the worker go on."""
        os.kill(self._pid, signal.SIGCONT)
        self._say(NodePhase.RESUMED)

    def restart(self) -> None:
        """Wait until the next worker, which the supervisor starts, is ready."""
        self.await_ready()

    def runs(self) -> bool:
        """Say whether its process exists."""
        return Path(f"/proc/{self._pid}").exists()

    def _say(self, phase: NodePhase, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self._scene.history, phase, self._pid, self.incarnation, **fields)


class RunningTopology:
    """The topology of one cell. Implements :class:`harness.run.parts.Stages`; opened and closed
    with the cell.
    """

    def __init__(
        self,
        scene: Scene,
        cluster: Cluster,
        keeper: Keeper,
        jars: str = "",
        database: Database | None = None,
    ) -> None:
        """``database``: the database with the state, if the state is in one."""
        self._scene = scene
        self._database = database
        self._cluster = cluster
        self._keeper = keeper
        self._jars = jars
        self._settings = StormSettings.of(scene.cell.settings)
        self._submitted = False
        self.worker = Worker(scene, cluster)
        self.acker = (
            Worker(scene, cluster, str(ACKER), ACKER) if self._settings.topology.apart else None
        )

    def open(self) -> None:
        """Do nothing: the run calls :meth:`start`."""

    def stand_by(self) -> None:
        """Do nothing: a topology has no standby."""

    def start(self) -> None:
        """Submit the topology, and wait until its workers are ready."""
        scene, trident = self._scene, self._settings.trident
        place = Place(
            scene.transport.bootstrap(Role.PROCESSOR),
            scene.source,
            scene.sink,
            scene.group,
            scene.history_folder,
            scene.failpoints,
            scene.cell.id,
            scene.transport.direct,
            self._keeper.address() if trident else ("", 0),
            self._jars,
            self._database.there if self._database else "",
        )
        self._cluster.submit(scene.cell.key, words_of(place, self._settings, self.client))
        self._submitted = True
        for worker in self.workers:
            worker.await_ready()

    @property
    def client(self) -> str:
        """Its client id, the same in every worker."""
        return f"{self._scene.cell.key}.{self.worker.name}"

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers of the topology."""
        return (self.worker,) if self.acker is None else (self.worker, self.acker)

    def saved_positions(self) -> dict[int, int]:
        """Return the saved position of each partition: the group's, or the end of Trident's last
        transaction.
        """
        scene = self._scene
        if self._settings.trident is None:
            return scene.every_partition(scene.group_positions())
        return scene.every_partition(self._keeper.positions(self.client, scene.source))

    def trouble(self) -> str | None:
        """Return ``None``: running workers are no trouble.

        Raises:
            StageEndedError: a worker has ended by itself.
        """
        for worker in self.workers:
            if not worker.runs():
                raise StageEndedError(f"the {worker.name} ended with {worker.ended()}")
        return None

    def unwritten(self) -> str | None:
        """Say which record the bolt was given and has not written, or return ``None``. Without an
        acker only results show it.
        """
        if self._settings.trident is not None:
            return None  # Trident saves a position only after the results
        so_far, writer = self._scene.so_far, f"{self.worker.name}-{self.worker.incarnation}"
        given = {
            event.record
            for event in so_far.of(kinds.Delivered)
            if event.by == writer and event.record is not None
        }
        asked = {
            (event.record, event.request)
            for event in so_far.of(kinds.Sent)
            if event.topic == self._scene.sink and str(event.attempt).startswith(f"{writer}.")
        }
        answered = {
            (event.record, event.request)
            for event in so_far.of(kinds.ProduceAnswer)
            if not event.error
        }
        missing = min(given - {record for record, _ in asked & answered}, default=None)
        return None if missing is None else f"{writer} was given {missing} and has not written it"

    def close(self) -> None:
        """End the topology, if it was submitted, and wait until its workers have gone: they write
        into the history.
        """
        if not self._submitted:
            return
        self._submitted = False
        try:
            self._cluster.end(self._scene.cell.key)
        except DeskError:  # Nimbus is gone, or does not know the topology
            return
        ready = (e for e in self._scene.so_far.of(kinds.Ready) if e.worker)
        started = {e.pid for e in ready if e.pid is not None}
        with suppress(WaitTimeoutError):  # what it writes then is found by the judge
            wait_until(
                lambda: not any(map(psutil.pid_exists, started)),
                within_s=EXITED_S,
                because="the workers of an ended topology to end",
                poll_s=POLL_S,
            )

"""The workers of a cell, which are one cluster, and its one connector."""

from __future__ import annotations

import base64
import time
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.drain import StageEndedError
from harness.run.stages import Producing, kill_all
from harness.run.who import CellNodes
from harness.runtimes.ports import PortLease
from lostack_connect.authorities import saved_positions
from lostack_connect.faults import Tasks
from lostack_connect.node import READY_S, WorkerNode
from lostack_connect.rest import RestError
from lostack_connect.settings import Aside, ConnectSettings
from lostack_connect.words import (
    TOPICS,
    cluster_of,
    letters_of,
    sink_words,
    source_words,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.controls import InProgram, Stop
    from harness.model.record import Record
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.stages import StageMaker
    from lostack_connect.install import ConnectInstall

UP_S: Final = 90.0
CONNECTOR: Final = "connector"
"""The name of a cell's one connector."""


class Workers(Tasks):
    """The workers of one cell. Implements :class:`harness.run.parts.Stages`; opened and closed with
    the cell.
    """

    def __init__(
        self, scene: Scene, install: ConnectInstall, role: Role, maker: StageMaker
    ) -> None:
        """``role``: what the tasks of the connector are."""
        self.role = role
        self._scene = scene
        self._settings = ConnectSettings.of(scene.settings)
        self._lease = PortLease(self._settings.connect.workers)

        def put_out() -> None:
            if self._settings.connect.workers == 1:  # of several, the others take over
                scene.observer.expel(cluster_of(scene.cell.key))

        def make(number: int, port: int) -> WorkerNode:
            stage = maker.make(role, f"worker-{number}")
            own = {each.name: getattr(stage, each.name) for each in fields(stage) if each.init}
            own["ready_within_s"] = READY_S
            return WorkerNode(**own, install=install, port=port, put_out=put_out)

        self.nodes = tuple(make(number, port) for number, port in enumerate(self._lease.ports, 1))

    def open(self) -> None:
        """Create the topics that workers keep, and the file that the source connector reads."""
        kept = {topic_of(self._scene.cell.key, name): (1, _COMPACT) for name in TOPICS}
        if self._settings.connect.aside is not Aside.NONE:
            kept[letters_of(self._scene.cell.key)] = (1, {})
        self._scene.observer.create_topics(kept)
        if self.role is Role.PRODUCER:
            self._file.write_bytes(b"".join(map(self._line, self._scene.load.records)))

    def start(self) -> None:
        """Start the workers and the connector, and wait until its task works."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            wait_until(
                lambda node=node: node.ended() or node.rest.up(),  # type: ignore[misc]  # a loop's variable
                within_s=UP_S,
                because=f"{node.name} to answer",
                poll_s=0.05,
            )
        wait_until(self._made, within_s=UP_S, because="the connector to be made", poll_s=0.1)
        for node in self.nodes:
            node.await_ready()
        wait_until(self.at_work, within_s=UP_S, because="a task to start", poll_s=0.05)

    def at_work(self, since: int = 0, but: str = "") -> bool:
        """Say whether a worker has started the task after a time (monotonic ns). ``but``: the name
        of a worker that does not count.
        """
        others = tuple(f"{node.name}-" for node in self.nodes if node.name != but)
        return any(
            e.t > since and str(e.by).startswith(others) for e in self._scene.so_far.of(kinds.Ready)
        )

    def restart_task(self) -> None:
        """Wait until the task has failed, restart it, and wait until it works."""
        rest = self.nodes[0].rest

        def failed() -> bool:
            return any(task["state"] == "FAILED" for task in rest.status(CONNECTOR)["tasks"])

        wait_until(failed, within_s=UP_S, because="the task to fail", poll_s=0.05)
        since = time.monotonic_ns()
        rest.restart_task(CONNECTOR)
        self._await_task(since)
        # it works before the worker says so, and who believed the worker would give it up
        wait_until(
            lambda: not failed(),
            within_s=UP_S,
            because="the worker to say that the task runs again",
            poll_s=0.05,
        )

    def reconfigure(self) -> None:
        """Change a setting of the connector, and wait until a new task works."""
        since = time.monotonic_ns()
        self.nodes[0].rest.put(CONNECTOR, {**self._connector(), "changed": "once"})
        self._await_task(since)

    def let_go(self) -> None:
        """Release the failpoint that holds the old task."""
        for node in self.nodes:
            node.release()

    def move(self, node: str) -> None:
        """Let a worker end, and its held task go on when it is told to stop; wait until another
        worker has started the task and this one has ended.
        """
        leaving = self._named(node)
        since = time.monotonic_ns()
        leaving.leave()
        self._await_task(since, but=node)
        leaving.await_end()

    def come_back(self, node: str) -> None:
        """Start the worker again."""
        self._named(node).restart()

    def _named(self, name: str) -> WorkerNode:
        return next(node for node in self.nodes if node.name == name)

    def _await_task(self, since: int, but: str = "") -> None:
        wait_until(
            lambda: self.at_work(since, but),
            within_s=UP_S,
            because="the task to start again",
            poll_s=0.02,
        )

    def stand_by(self) -> None:
        """Do nothing: the workers need no preparation."""

    def trouble(self) -> str | None:
        """Say why the task does not run, or return ``None``.

        Raises:
            StageEndedError: a worker has ended by itself, or the task has failed.
        """
        for node in self.nodes:
            if node.started and (end := node.ended()) is not None:
                raise StageEndedError(f"{node.name} ended with {end}", str(self.role))
        try:
            tasks = self.nodes[0].rest.status(CONNECTOR)["tasks"]
        except RestError as error:
            return str(error)
        for task in tasks:
            if task["state"] == "FAILED":
                said = str(task.get("trace", "")).partition("\n")[0]
                raise StageEndedError(f"the task has failed: {said}", str(self.role))
        return None if tasks else "the connector has no task"

    def close(self) -> None:
        """Kill the workers."""
        with ExitStack() as ends:
            ends.callback(self._lease.close)
            for node in self.nodes:
                ends.callback(node.dismiss)
            ends.callback(kill_all, self.nodes)

    @property
    def _file(self) -> Path:
        return self._scene.directory.absolute() / "outbox.txt"

    def _line(self, record: Record) -> bytes:
        value = base64.b64encode(record.encode(self._scene.cell.key))
        return record.key.encode() + b" " + value + b"\n"

    def _made(self) -> bool:
        """Ask the first worker for the connector; a cluster that is being formed refuses."""
        if (end := self.nodes[0].ended()) is not None:
            raise StageEndedError(f"the worker ended with {end}", str(self.role))
        try:
            self.nodes[0].rest.put(CONNECTOR, self._connector())
        except RestError:
            return False
        return True

    def _connector(self) -> Mapping[str, str]:
        scene = self._scene
        if self.role is Role.PRODUCER:
            return source_words(self._settings, str(self._file), scene.source)
        sink = str(Path(self.nodes[0].stage.sink).absolute())
        return sink_words(
            self._settings,
            sink,
            scene.source,
            scene.group,
            letters=letters_of(scene.cell.key),
            bad=scene.load.target.id,
        )


_COMPACT: Final = {"cleanup.policy": "compact"}


class Sourcing(Producing):
    """The workers with a source connector, as the feed of a cell."""

    def __init__(self, scene: Scene, workers: Workers) -> None:
        super().__init__(scene.history, workers.nodes[0])
        self._scene = scene
        self._workers = workers

    def open(self) -> None:
        """Create what the workers need."""
        self._workers.open()

    def start(self) -> None:
        """Start the workers and the connector."""
        self._workers.start()

    def has_ended(self) -> bool:
        """Say whether the source offset behind the last record was saved. A worker that wakes up
        late may have saved an earlier one since.
        """
        return max(saved_positions(self._scene)) > len(self._scene.load.records)

    def trouble(self) -> str | None:
        """Say why the source is not exhausted yet, or return ``None``."""
        if told := self._workers.trouble():
            return told
        return None if self.has_ended() else "the source connector has not sent everything yet"

    def close(self) -> None:
        """Kill the workers."""
        self._workers.close()


class WorkerNodes(CellNodes):
    """Finds the nodes of a cell. A failpoint holds a worker's task, or lets its work fail; the
    fault then acts.
    """

    held: Role = Role.PRODUCER
    """The role of the workers."""

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, object]]:
        """Return how a failpoint is armed: a task cannot kill its worker by itself."""
        fails = str(stop) == "fail"
        return (
            super().arm(trigger, stop) if fails or trigger.role is not self.held else ("hold", {})
        )

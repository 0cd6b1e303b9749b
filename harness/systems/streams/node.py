"""An instance of a Kafka Streams application as a node: a JVM, which may have a standby for its
next incarnation.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness import failpoint
from harness.model.events import NodePhase
from harness.run.nodes import StageNode
from harness.runtimes.interface import JAVA_IMAGE, ContainerSpec, NodeSpec
from harness.stages.consumer_settings import GroupProtocol, Members
from harness.systems.streams.install import StreamsInstall, told_all
from harness.systems.streams.settings import TOPOLOGIES, Guarantee, StreamsSettings

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Node
    from harness.stages.stage import Stage

READY_S = 60.0


@dataclass
class InstanceNode(StageNode):
    """One instance, over all its incarnations, which share a state folder. Implements
    :class:`harness.controls.Target`.
    """

    ready_within_s: float = READY_S
    install: StreamsInstall | None = field(default=None, kw_only=True)
    successors: int = 0
    """How many more incarnations are to be started ahead, one after the other."""
    _ahead: Node | None = None
    """The next incarnation, started ahead as a standby."""

    def stand_by(self) -> None:
        """Start the JVM of the next incarnation ahead. It touches nothing shared
        before its turn.
        """
        self.successors -= 1
        self._ahead = self._launch(self._next())

    def dismiss(self) -> None:
        """Stop the standby, and delete the instance's state, which is some megabytes and not needed
        for judging.
        """
        if self._ahead is not None and self._ahead.alive:
            self._ahead.kill()
        for folder in (self._scratch, self.state):
            shutil.rmtree(folder, ignore_errors=True)
        for turn in self._folder.glob(f".turn-{self.name}-*"):
            turn.unlink()

    def start(self) -> None:
        """Start the next incarnation, or let the standby begin."""
        self.stage = self._next()
        ahead, self._ahead = self._ahead, None
        self.node = ahead or self._launch(self.stage)
        self._told = self._asked = False
        self._say(
            NodePhase.STARTED,
            pid=self.node.pid,
            supervised=self.by_supervisor,
            stood_by=ahead is not None,
        )
        self._turn(self.stage).touch()

    def kill(self) -> None:
        """Kill the instance with SIGKILL, and start the next standby if one is needed."""
        super().kill()
        if self.successors > 0 and self._ahead is None:
            self.stand_by()

    def await_back(self) -> None:
        """Wait until the instance is ready; start a further standby if one is needed."""
        super().await_back()
        if self.successors > 0:
            self.stand_by()

    def resume(self) -> None:
        """Let the instance go on, and release the failpoint that holds it."""
        for fired in self.failpoints.glob("*.fired"):
            failpoint.release(self.failpoints, fired.stem)
        super().resume()

    @property
    def state(self) -> Path:
        """The folder of its state on the local disk."""
        return self._folder / "state" / self.name

    def lose_state(self) -> int:
        """Delete the state folder of the dead instance; return its size in bytes."""
        size = sum(file.stat().st_size for file in self.state.rglob("*") if file.is_file())
        shutil.rmtree(self.state)
        return size

    @property
    def _folder(self) -> Path:
        return self.failpoints.parent.absolute()

    @property
    def _scratch(self) -> Path:
        return self._folder / "scratch" / self.name

    def _next(self) -> Stage:
        following: Stage = replace(self.stage, incarnation=self.stage.incarnation + 1)
        return following

    def _turn(self, stage: Stage) -> Path:
        """Return the file whose existence tells a standby to begin."""
        return self._folder / f".turn-{stage.writer}"

    def _launch(self, stage: Stage) -> Node:
        if self.install is None:
            raise RuntimeError("an instance needs a Kafka Streams")
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.failpoints.mkdir(parents=True, exist_ok=True)
        return self.runtime.start(
            NodeSpec(
                name=f"{stage.key}-{stage.writer}",
                role=self.role,
                argv=self.install.command(self._scratch, self._words(stage)),
                log=self.logs / f"{self.name}.log",
                cwd=self._folder,
                container=ContainerSpec(JAVA_IMAGE, folders=(self._folder, *self.install.folders)),
            )
        )

    def _words(self, stage: Stage) -> dict[str, object]:
        """Return the arguments of an incarnation's program."""
        settings = StreamsSettings.of(stage.settings)
        streams, consumer, producer = settings.streams, settings.consumer, settings.producer
        words = {
            **told_all(
                stage.bootstrap, stage.group, stage.client_id, streams.guarantee, self.state
            ),
            "stage.topology": TOPOLOGIES[stage.pipeline],
            "stage.in": stage.topic_in,
            "stage.out": stage.topic_out,
            "stage.cell": stage.cell,
            "stage.by": stage.writer,
            "stage.history": self._folder / "history",
            "stage.failpoints": self.failpoints.absolute(),
            "stage.turn": self._turn(stage),
            "stage.each": streams.each,
            "stage.step": streams.step,
            "stage.flush": streams.flush,
            "stage.keeps": streams.keeps_ms,
            "num.standby.replicas": streams.standbys,
            "commit.interval.ms": streams.commit_interval_ms,
            "main.consumer.max.poll.records": consumer.unit,
            "main.consumer.fetch.max.wait.ms": 100,
            "restore.consumer.fetch.max.wait.ms": 100,
            "main.consumer.request.timeout.ms": consumer.patience_ms,
            "producer.request.timeout.ms": producer.request_timeout_ms,
            "producer.delivery.timeout.ms": producer.delivery_timeout_ms,
        }
        if consumer.unit == 1:
            words |= {
                "main.consumer.fetch.max.bytes": 1,
                "main.consumer.max.partition.fetch.bytes": 1,
            }
        if streams.step:
            words |= {"producer.linger.ms": 0}
        if streams.guarantee is Guarantee.EXACTLY_ONCE_V2:
            timeout = (
                streams.transaction_timeout_ms
            )  # a transaction must last longer than the interval
            interval = min(streams.commit_interval_ms, timeout // 2)
            words |= {"producer.transaction.timeout.ms": timeout, "commit.interval.ms": interval}
        if (
            consumer.protocol is GroupProtocol.STREAMS
        ):  # the group decides the session time-out and the heartbeat interval
            words |= {"group.protocol": consumer.protocol}
        else:
            words |= {
                "main.consumer.session.timeout.ms": consumer.session_ms,
                "main.consumer.heartbeat.interval.ms": consumer.heartbeat_ms,
            }
        if consumer.members is Members.STATIC:
            words |= {"group.instance.id": f"{stage.key}-{stage.name}"}
        return words

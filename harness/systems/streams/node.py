"""An instance of a Kafka Streams application as a node: a JVM, which may have a successor that stands by."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness import failpoint
from harness.run.nodes import StageNode
from harness.runtimes.interface import JAVA_IMAGE, ContainerSpec, NodeSpec
from harness.stages.settings import GroupProtocol, Members
from harness.systems.streams.install import StreamsInstall, told_all
from harness.systems.streams.settings import TOPOLOGIES, Guarantee, streams_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Node
    from harness.stages.stage import Stage

READY_S = 60.0


@dataclass
class InstanceNode(StageNode):
    """An instance over its incarnations, which share a folder of state. Implements :class:`harness.controls.Target`."""

    ready_within_s: float = READY_S
    install: StreamsInstall | None = field(default=None, kw_only=True)
    successors: int = 0
    """How many more incarnations are to stand by, one after the other."""
    _ahead: Node | None = None
    """The next incarnation, which stands by."""

    def stand_by(self) -> None:
        """Start the JVM of the next incarnation ahead; it begins with nothing that it shares."""
        self.successors -= 1
        self._ahead = self._launch(self._next())

    def dismiss(self) -> None:
        """End the standby, and remove its state: it has some megabytes, and nothing is judged by it."""
        if self._ahead is not None and self._ahead.alive:
            self._ahead.kill()
        for folder in (self._scratch, self.state):
            shutil.rmtree(folder, ignore_errors=True)
        for turn in self._folder.glob(f".turn-{self.name}-*"):
            turn.unlink()

    def start(self) -> None:
        """Start the next incarnation; or let it begin, where it stands by."""
        self.stage = self._next()
        ahead, self._ahead = self._ahead, None
        self.node = ahead or self._launch(self.stage)
        self._told = self._asked = False
        self._say("started", pid=self.node.pid, supervised=self.supervised, stood_by=ahead is not None)
        self._turn(self.stage).touch()

    def kill(self) -> None:
        """SIGKILL it; a successor that does not stand by yet gets ready at once, while others miss it."""
        super().kill()
        if self.successors > 0 and self._ahead is None:
            self.stand_by()

    def restart(self) -> None:
        """Start the next incarnation and wait until it is ready; if that is to end, too, let the one after it stand by."""
        super().restart()
        if self.successors > 0:
            self.stand_by()

    def resume(self) -> None:
        """Let it go on, past the failpoint that holds it."""
        for fired in self.failpoints.glob("*.fired"):
            failpoint.release(self.failpoints, fired.stem)
        super().resume()

    @property
    def state(self) -> Path:
        """Where it keeps its state on the local disk."""
        return self._folder / "state" / self.name

    def lose_state(self) -> int:
        """Remove that, while it is dead; return how many bytes it had."""
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
        """Return the file that tells an instance that its turn has come."""
        return self._folder / f".turn-{stage.writer}"

    def _launch(self, stage: Stage) -> Node:
        if self.install is None:
            raise RuntimeError("an instance needs a Kafka Streams")
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.failpoints.mkdir(parents=True, exist_ok=True)
        return self.runtime.start(NodeSpec(
            name=f"{stage.key}-{stage.writer}", role=self.role, argv=self.install.command(self._scratch, self._words(stage)),
            log=self.logs / f"{self.name}.log", cwd=self._folder,
            container=ContainerSpec(JAVA_IMAGE, folders=(self._folder, *self.install.folders)),
        ))  # fmt: skip

    def _words(self, stage: Stage) -> dict[str, object]:
        """Return all that an incarnation is told."""
        settings = streams_of(stage.settings)
        streams, consumer, producer = settings.streams, settings.consumer, settings.producer
        words = {
            **told_all(stage.bootstrap, stage.group, stage.client_id, streams.guarantee, self.state),
            "stage.topology": TOPOLOGIES[stage.pipeline], "stage.in": stage.topic_in, "stage.out": stage.topic_out,
            "stage.cell": stage.cell, "stage.by": stage.writer, "stage.history": self._folder / "history",
            "stage.failpoints": self.failpoints.absolute(), "stage.turn": self._turn(stage), "stage.each": streams.each,
            "stage.step": streams.step, "stage.flush": streams.flush, "stage.keeps": streams.keeps_ms,
            "num.standby.replicas": streams.standbys, "commit.interval.ms": streams.commit_interval_ms,
            "main.consumer.max.poll.records": consumer.unit, "main.consumer.fetch.max.wait.ms": 100,
            "restore.consumer.fetch.max.wait.ms": 100,
            "main.consumer.request.timeout.ms": consumer.patience_ms,
            "producer.request.timeout.ms": producer.request_timeout_ms,
            "producer.delivery.timeout.ms": producer.delivery_timeout_ms,
        }  # fmt: skip
        if consumer.unit == 1:
            words |= {"main.consumer.fetch.max.bytes": 1, "main.consumer.max.partition.fetch.bytes": 1}
        if streams.step:
            words |= {"producer.linger.ms": 0}
        if streams.guarantee is Guarantee.EXACTLY_ONCE_V2:
            timeout = streams.transaction_timeout_ms  # a transaction must last longer than the interval
            interval = min(streams.commit_interval_ms, timeout // 2)
            words |= {"producer.transaction.timeout.ms": timeout, "commit.interval.ms": interval}
        if consumer.protocol is GroupProtocol.STREAMS:  # the group says how long a session is, and how often to tell of oneself
            words |= {"group.protocol": consumer.protocol}
        else:
            words |= {"main.consumer.session.timeout.ms": consumer.session_ms,
                      "main.consumer.heartbeat.interval.ms": consumer.heartbeat_ms}  # fmt: skip
        if consumer.members is Members.STATIC:
            words |= {"group.instance.id": f"{stage.key}-{stage.name}"}
        return words

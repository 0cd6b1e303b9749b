"""A KRaft node (broker, controller or both): configure, format, start and restart it, and take its
unflushed data away.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.model import events
from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.runtimes.power.tracer import PowerTrace, why_no_power_loss
from harness.systems.kafka.launcher import new_cluster_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.runtimes.interface import Node, Runtime
    from harness.systems.kafka.launcher import Ground
    from harness.systems.kafka.log_copies import Leadership
    from harness.systems.kafka.security import Secured

INTER_BROKER = "broker"
"""The wire role of traffic between brokers: replication, and requests of coordinators
to leaders.
"""
WIRE_ROLES = ("producer", "consumer", "processor", "driver", INTER_BROKER)
"""Roles that have their own listener, whose advertised address is the wire's."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
SHARE_STATE = "__share_group_state"
"""The log of the share coordinator; it exists once there is a share group."""
REBUILT = ("*.index", "*.timeindex")
"""Mapped files that the broker makes again from a log when it was not shut down in order."""
START_S = 60.0
FORMAT_S = 60.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on loopback: the node's own, and, for each role, the broker's listener and the wire's
    port that it advertises.
    """

    controller: int
    direct: int
    broker: Mapping[str, int]
    wire: Mapping[str, int]


def properties(
    directory: Path,
    quorum: Sequence[Ports],
    number: int,
    runtime: Runtime,
    apart: Sequence[Ports] = (),
) -> dict[str, str]:
    """Return the ``server.properties`` of node ``number`` (from 1) of a cluster, set for fast
    restarts and short time-outs.

    ``quorum``: the ports of the brokers, which are also the controllers unless ``apart`` gives
    ports of separate controllers, whose numbers follow the brokers'. Kafka's internal topics have a
    replica on every broker.
    """
    servers, size = (*quorum, *apart), str(len(quorum))
    ports, controls = servers[number - 1], number > len(quorum)
    insync = str(min(2, len(quorum)))
    alone = len(quorum) == 1
    bind, first = runtime.bind, len(quorum) + 1 if apart else 1
    voting = list(enumerate(servers, 1))[first - 1 :]
    voters = [
        f"{n}@{runtime.address(name_of(n, len(quorum)))}:{each.controller}" for n, each in voting
    ]
    if controls:
        return {
            "process.roles": "controller",
            "node.id": str(number),
            "listeners": f"CONTROLLER://{bind}:{ports.controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str((directory / "data").absolute()),
        } | _quorum(voters, alone=alone)
    own = [] if apart else [f"CONTROLLER://{bind}:{ports.controller}"]
    names = [role.upper() for role in ports.broker]
    listeners = [f"{role.upper()}://{bind}:{port}" for role, port in ports.broker.items()]
    advertised = [
        f"{role.upper()}://{runtime.address('wire')}:{port}" for role, port in ports.wire.items()
    ]
    return {
        "process.roles": "broker" if apart else "broker,controller",
        "node.id": str(number),
        "inter.broker.listener.name": INTER_BROKER.upper(),
        "listeners": ",".join([*own, f"DIRECT://{bind}:{ports.direct}", *listeners]),
        # the harness reaches it by loopback: a container's port is published there by its own
        # number
        "advertised.listeners": ",".join([f"DIRECT://127.0.0.1:{ports.direct}", *advertised]),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("CONTROLLER", "DIRECT", *names)
        ),
        "log.dirs": str((directory / "data").absolute()),
        # one per listener, and few others: each costs a start of the broker
        "num.network.threads": "1",
        "background.threads": "2",
        "group.coordinator.threads": "1",
        "num.io.threads": "4",
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
        "default.replication.factor": size,
        "offsets.topic.replication.factor": size,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": size,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": insync,
        "share.coordinator.state.topic.replication.factor": size,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.min.isr": insync,
        # what a group of the new protocols is told of itself may be short
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.share.min.session.timeout.ms": "500",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.streams.min.session.timeout.ms": "500",
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.initial.rebalance.delay.ms": "0",
        # the share coordinator's log is kept whole: it says what became of each record of a share
        # group
        "share.coordinator.state.topic.prune.interval.ms": "86400000",
        "share.coordinator.cold.partition.snapshot.interval.ms": "86400000",
        "share.coordinator.snapshot.update.records.per.snapshot": "500",
        # abandoned transactions end soon after their time-out, not ten seconds later
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        # a follower that the wire keeps waiting is soon out of the set in sync
        "replica.lag.time.max.ms": "30000" if alone else "3000",
        "replica.fetch.backoff.ms": "100",
        "initial.broker.registration.timeout.ms": "60000",
        # how far each log is flushed is written down soon, so that a power loss knows what it may
        # take
        "log.flush.offset.checkpoint.interval.ms": "100",
        "log.flush.start.offset.checkpoint.interval.ms": "1000",
        "log.initial.task.delay.ms": "0",
        "log.segment.bytes": "16777216",
        "log.index.size.max.bytes": "65536",
        "log.cleaner.enable": "false",
    } | _quorum(voters, alone=alone)


BROKER_SESSION = "broker.session.timeout.ms"


def _quorum(voters: Iterable[str], *, alone: bool) -> dict[str, str]:
    """Return the settings of the controller quorum, for controllers and brokers."""
    return {
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        # one of several must not be taken for dead while a busy machine keeps it waiting, and one
        # alone even less: nobody could take its place
        BROKER_SESSION: "10000" if alone else "2000",
        "broker.heartbeat.interval.ms": "200",
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.fetch.timeout.ms": "500" if alone else "1500",
        "controller.quorum.election.backoff.max.ms": "100",
        "controller.quorum.append.linger.ms": "5",
        # leaders move when a cell moves them, and not every five minutes by themselves
        "auto.leader.rebalance.enable": "false",
    }


class Broker:
    """Node ``number`` (from 1) of a quorum, with its data in ``directory``. Ports and data survive
    a restart.

    ``apart``: ports of separate controllers, whose numbers follow the brokers'. ``disk``: the size
    of its disk in bytes.
    """

    def __init__(
        self,
        runtime: Runtime,
        ground: Ground,
        directory: Path,
        quorum: Sequence[Ports],
        number: int = 1,
        *,
        apart: Sequence[Ports] = (),
        disk: int | None = None,
        secured: Secured | None = None,
        settings: Mapping[str, str] | None = None,
        traced: bool = False,
    ) -> None:
        """``settings``: further lines of ``server.properties``, which come before lostack's own.
        ``traced``: start it below a tracer, so that it can lose its power.
        """
        self.name = name_of(number, len(quorum))
        self.number = number
        self.controls = number > len(quorum)
        """Whether it is only a controller."""
        self.ports = (*quorum, *apart)[number - 1]
        self._alone = len(quorum) + len(apart) == 1
        self.data = directory / "data"
        self._runtime = runtime
        self._ground = ground
        self._directory = directory
        self._disk = disk
        self._secured = secured
        directory.mkdir(parents=True, exist_ok=True)
        self._settings = properties(directory, quorum, number, runtime, apart) | dict(
            settings or {}
        )
        self.node: Node | None = None
        self.power: PowerTrace | None = None
        if traced and runtime.here and why_no_power_loss() is None:
            self.power = PowerTrace(self.data, directory / "power.log", REBUILT)

    def process(self) -> Node:
        """Return the node's process, dead or alive.

        Raises:
            RuntimeError: the node was never started.
        """
        if self.node is None:
            raise RuntimeError(f"{self.name} was never started")
        return self.node

    @property
    def bootstrap(self) -> str:
        """The address of the direct listener, which the observer uses without the wire."""
        return f"127.0.0.1:{self.ports.direct}"

    def begin_format(self, cluster: str) -> Node | None:
        """Start to format the data directory; :func:`format_all` waits for the end. ``None``:
        nothing has to be waited for.
        """
        if self._secured is not None:
            self._settings |= self._secured.settings(
                [role for role in self.ports.broker if role != INTER_BROKER], self._settings
            )
        elif self._ground.formatted(self._settings, self._directory, cluster):
            return None
        spec = self._ground.format(self.name, self._settings, self._directory, cluster)
        if spec is not None and self._secured is not None:
            spec = replace(
                spec,
                argv=(*spec.argv, *self._secured.format_arguments()),
                log=self._secured.format_log,
            )
        return None if spec is None else self._runtime.start(spec)

    def await_formatted(self, node: Node) -> None:
        """Wait until the data directory is formatted.

        Raises:
            EnvironmentFailure: the data directory could not be formatted.
        """
        end = node.wait(FORMAT_S)
        if end is None or end.status != 0:
            node.kill()
            raise EnvironmentFailure(
                f"Kafka's storage could not be formatted ({end}); its log: {node.log_path}"
            )
        if self._secured is None:
            self._ground.keep_formatted(self._settings, self._directory)

    def start(self) -> None:
        """Start the process and wait until its direct port is open. The observer decides when it is
        ready.
        """
        self.launch()
        self.await_listening()

    def launch(self) -> None:
        """Start the process, without waiting."""
        settings = self._settings
        if self.node is not None and self._alone:  # not kept waiting by its own old registration
            settings = settings | {BROKER_SESSION: "1000"}
        spec = self._ground.broker(
            self.name, settings, self._directory, [self.ports.direct], self._disk
        )
        if self.power is not None:
            spec = replace(spec, argv=self.power.start(spec.argv))
        self.node = self._runtime.start(spec)

    def await_listening(self) -> None:
        """Wait until the direct port is open."""
        wait_until(
            self._listens_or_died,
            within_s=START_S,
            because=f"{self.name} to listen on port {self.ports.direct}",
        )
        if self.power is not None:
            self.power.settle()

    def _listens_or_died(self) -> bool:
        self._runtime.check()
        if self.node is not None and self.node.exit is not None:
            raise EnvironmentFailure(
                f"{self.name} ended at once ({self.node.exit}): {self.node.log_tail(3)}"
            )
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.ports.direct)) == 0

    # --- power loss -------------------------------------------------------------------------------

    @property
    def _checkpoint(self) -> Path:
        return self.data / "recovery-point-offset-checkpoint"

    def checkpoint(self) -> tuple[int, int]:
        """Return a value that changes when the recovery-point file is written again."""
        stat = self._checkpoint.stat()
        return stat.st_mtime_ns, stat.st_ino

    def log_of(self, topic: str) -> Iterator[tuple[int, bytes]]:
        """Yield the log segments of a topic: partition and content (bytes)."""
        for folder in sorted(self.data.glob(f"{topic}-*")):
            name, _, partition = folder.name.rpartition("-")
            if name == topic and partition.isdigit():
                for segment in sorted(folder.glob("*.log")):
                    yield int(partition), segment.read_bytes()

    def flushed(self, topics: Iterable[str]) -> dict[str, int]:
        """Return, for each partition folder of the topics, the offset up to which Kafka says it has
        flushed.
        """
        offsets: dict[str, int] = {}
        for line in self._checkpoint.read_text().splitlines()[2:]:
            topic, partition, offset = line.rsplit(" ", 2)
            if topic in set(topics):
                offsets[f"{topic}-{partition}"] = int(offset)
        return offsets

    def forget_unflushed(self, topics: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Truncate the topics' logs to their flushed state. The broker must be dead.

        Only whole batches below the recovery point stay. Indexes, producer snapshots and the
        leader-epoch cache above it are removed, because they were not flushed, either. This is the
        worst legal outcome of a power cut.

        Returns:
            For each partition folder its length in bytes before and after.
        """
        lengths = {}
        flushed = self.flushed(topics)
        for topic in topics:
            for folder in sorted(self.data.glob(f"{topic}-*")):
                if folder.name.rsplit("-", 1)[0] == topic:
                    lengths[folder.name] = _truncate(folder, flushed.get(folder.name, 0))
        return lengths


def name_of(number: int, brokers: int | None = None) -> str:
    """Return the name of a node. ``brokers``: how many brokers there are; higher numbers are
    controllers.

    >>> name_of(2), name_of(4, 3)
    ('broker-2', 'controller-4')
    """
    return f"broker-{number}" if brokers is None or number <= brokers else f"controller-{number}"


def format_all(brokers: Sequence[Broker]) -> None:
    """Format an empty data directory for each node of one new cluster."""
    cluster = new_cluster_id()
    for broker, node in [(broker, broker.begin_format(cluster)) for broker in brokers]:
        if node is not None:
            broker.await_formatted(node)


def _truncate(folder: Path, flushed: int) -> tuple[int, int]:
    """Keep only the batches of a partition folder that lie wholly below offset ``flushed``."""
    before = after = 0
    for log in sorted(folder.glob("*.log")):
        data = log.read_bytes()
        keep = _bytes_below(data, flushed)
        before += len(data)
        after += keep
        with log.open("r+b") as file:
            file.truncate(keep)
        if keep < len(data):
            for stale in (
                log.with_suffix(".index"),
                log.with_suffix(".timeindex"),
                log.with_suffix(".txnindex"),
            ):
                stale.unlink(missing_ok=True)
    for snapshot in folder.glob("*.snapshot"):
        if int(snapshot.stem) > flushed:
            snapshot.unlink()
    epochs = folder / "leader-epoch-checkpoint"
    if before != after and flushed == 0:
        epochs.unlink(missing_ok=True)
    return before, after


_BATCH_HEAD = 12


def _bytes_below(data: bytes, offset: int) -> int:
    """Length of the leading record batches (format v2: base offset, length, ..., last offset delta)
    below ``offset``.
    """
    at = 0
    while at + 27 <= len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        size = int.from_bytes(data[at + 8 : at + 12], "big") + _BATCH_HEAD
        last = base + int.from_bytes(data[at + 23 : at + 27], "big")
        if last >= offset or at + size > len(data):
            break
        at += size
    return at


def leadership(
    topic: str, partition: int, now: Leadership, controller: str = ""
) -> events.Leadership:
    """Return the history's line about who leads a partition."""
    return events.Leadership(
        topic=topic,
        partition=partition,
        leader=name_of(now.leader),
        number=now.leader,
        epoch=now.epoch,
        controller=controller,
        replicas=tuple(map(name_of, now.replicas)),
        isr=tuple(map(name_of, now.isr)),
    )

"""The observer: read the logs over a direct listener, without the wire, both committed and
uncommitted.

One observer serves all cells of a broker. Every call holds its lock. After the death of a broker
its connections are closed and made anew.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidPartitionsError,
    InvalidReplicationAssignmentError,
    InvalidReplicationFactorError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NotCoordinatorError,
    NotEnoughReplicasError,
    RetriableError,
    TopicAlreadyExistsError,
    UnknownBrokerIdError,
)
from kafka.structs import OffsetAndMetadata

from harness.model.places import log_fields, waits_in_log
from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER
from harness.model.waiting import wait_until
from harness.systems.kafka.new_groups import (
    expel,
    groups_of,
    left_to,
    members_of,
    protocol_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafka.consumer.fetcher import ConsumerRecord

    from harness.stages.access import Access
    from harness.stages.settings import GroupProtocol

    Placement = Callable[[int], Sequence[int]]
    """Partition → the numbers of the brokers that keep copies of it; the first is the preferred
    leader.
    """

_Asked = ParamSpec("_Asked")
_Seen = TypeVar("_Seen")
PROBE_TOPIC = "lostack.probe"
CREATED_S = 10.0
READY_S = 60.0
PROBE_S = 8
"""How long (seconds) one probe of a broker may take: on a busy machine a healthy broker takes
seconds.
"""
_CLIENT = {
    "request_timeout_ms": 15_000,
    "bootstrap_timeout_ms": 5000,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_ms": 20,
}
_QUIET = {"metrics_enabled": False}


@dataclass(frozen=True, slots=True)
class LogCopy:
    """One copy of a record in a log. ``visible``: whether a read-committed reader sees it."""

    partition: int
    epoch: int
    offset: int
    key: bytes | None
    value: bytes | None
    attempt: str | None
    origin: str | None
    visible: bool
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader of a partition and its epoch, and the brokers that keep copies and are in sync,
    all by number.
    """

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Offsets of one partition: first, last stable offset, and high watermark."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A topic at one moment: the end offsets of every partition, and every copy between them."""

    ends: Mapping[int, LogEnds]
    copies: tuple[LogCopy, ...]

    def last_visible(self, partition: int) -> int:
        """Return the offset of a partition's last copy that a read-committed reader sees; -1 if
        there is none.
        """
        return max(
            (copy.offset for copy in self.copies if copy.partition == partition and copy.visible),
            default=-1,
        )

    def said_of(self, copy: LogCopy, saved: Mapping[int, int] | None = None) -> dict[str, object]:
        """Return the fields of a copy's history line: its place, whether it is visible, and what it
        waits for.

        ``saved``: the saved positions of the log's reader by partition; ``None`` if the log has no
        reader that counts.
        """
        ends = self.ends.get(copy.partition)
        waiting = waits_in_log(
            visible=copy.visible,
            offset=copy.offset,
            stable=ends.stable if ends else None,
            saved=None if saved is None else saved.get(copy.partition, -1),
        )
        return {
            **log_fields(copy.partition, copy.epoch, copy.offset),
            "visible": copy.visible,
            "waiting": waiting,
        }


PUT_OUT = (
    MetadataEmptyBrokerList,
    InvalidReplicationFactorError,
    InvalidReplicationAssignmentError,
)
"""Errors while a broker is not registered: the cluster has no broker, or fewer brokers than
replicas.
"""
NOT_YET = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError)
"""Errors while the log of saved positions is being created, for the first group of a broker, or
loaded.
"""
OUTDATED = (UnknownBrokerIdError, NotCoordinatorError)
"""Errors of a client with outdated metadata: the broker it asks is gone, or another broker is the
coordinator now.
"""


def _patiently(
    look: Callable[Concatenate[Observer, _Asked], _Seen],
) -> Callable[Concatenate[Observer, _Asked], _Seen]:
    """Repeat a call while the cluster lacks a broker: a busy machine delays its heartbeat, so a
    living broker may be fenced.

    After an error of outdated metadata the call is repeated with a new client.
    """

    @functools.wraps(look)
    def patient(self: Observer, /, *args: _Asked.args, **kwargs: _Asked.kwargs) -> _Seen:
        seen: list[_Seen] = []

        def once() -> bool:
            try:
                seen.append(look(self, *args, **kwargs))
            except (*PUT_OUT, *NOT_YET):
                return False
            except OUTDATED:
                self.close()
                return False
            except KafkaTimeoutError:  # its metadata may name an old leader
                self.close()
                raise
            return True

        wait_until(
            once, within_s=READY_S, because="the broker to be registered in its cluster again"
        )
        return seen[0]

    return patient


class Observer:
    """Reads the logs and positions of a broker or cluster. ``check`` raises if the runtime broke;
    ``access``: its credentials.
    """

    def __init__(
        self, bootstrap: str, check: Callable[[], None], access: Access | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._client = _CLIENT | (access.for_kafka_python() if access else {})
        self._check = check
        self._lock = threading.RLock()
        self._admin: KafkaAdminClient | None = None
        self._readers: dict[str, KafkaConsumer] = {}

    def wait_ready(self) -> None:
        """Wait until the broker acknowledges a write, for a minute at most."""
        wait_until(
            self._acks,
            within_s=READY_S,
            because=f"the broker at {self._bootstrap} to acknowledge a write",
        )

    @_patiently
    def create_topics(
        self,
        topics: Mapping[str, tuple[int, Mapping[str, str]]],
        placement: Placement | None = None,
        replicas: int = 1,
    ) -> None:
        """Create topics (name → partitions, configuration) that do not exist; a broker may repeat
        the request by itself.

        ``placement``: the brokers of each partition; without it ``replicas`` says how many copies
        there are (-1: the default).
        """
        wanted: dict[str, dict[str, object]] = {}
        for name, (partitions, config) in topics.items():
            if placement is None:
                where: dict[str, object] = {
                    "num_partitions": partitions,
                    "replication_factor": replicas,
                }
            else:
                where = {
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": {p: list(placement(p)) for p in range(partitions)},
                }
            wanted[name] = {**where, "configs": dict(config)}
        with contextlib.suppress(
            TopicAlreadyExistsError, KafkaTimeoutError
        ):  # made, and perhaps not to be seen in time
            self._make(wanted)
            return
        wait_until(
            lambda: all(self.has(name) for name in wanted),
            within_s=CREATED_S,
            because=f"{', '.join(wanted)} to be there",
        )

    def _make(self, topics: Mapping[str, Mapping[str, object]]) -> None:
        with self._lock:
            self._admin_client().create_topics(topics, wait_for_metadata=True)

    def grow(self, topic: str, partitions: int) -> None:
        """Increase a topic's partitions to a number, as an administrator does, and wait until each
        has a leader.
        """
        with (
            contextlib.suppress(InvalidPartitionsError),
            self._lock,
        ):  # a repeated request: the topic has them already
            self._admin_client().create_partitions({topic: partitions})

        def led() -> bool:
            found = self.leaderships(topic)
            return len(found) == partitions and all(one.leader >= 0 for one in found.values())

        wait_until(
            led, within_s=CREATED_S, because=f"{topic} to have {partitions} partitions", poll_s=0.05
        )
        self._forget_metadata()

    @_patiently
    def leaderships(self, topic: str) -> dict[int, Leadership]:
        """Return the leader and replicas of each partition of a topic, as a broker of the cluster
        reports them.
        """
        with self._lock:
            described = self._admin_client().describe_topics([topic])
        return {
            part["partition_index"]: Leadership(
                part["leader_id"],
                part["leader_epoch"],
                tuple(part["replica_nodes"]),
                tuple(part["isr_nodes"]),
            )
            for part in described[0]["partitions"]
        }

    def reorder_replicas(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Change the order of the replicas of a topic's partitions; the first is the preferred
        leader.
        """
        with self._lock:
            wanted = {TopicPartition(topic, p): list(order) for p, order in replicas.items()}
            self._admin_client().alter_partition_reassignments(wanted)

    def prefer_leaders(self, topics: Iterable[str]) -> None:
        """Elect the preferred leader of each partition, if it is in sync."""
        with self._lock:
            self._admin_client().elect_leaders(
                0, {t: list(self.leaderships(t)) for t in topics}, raise_errors=False
            )

    def refuses(self, topic: str, partition: int) -> bool:
        """Say whether the leader of a partition refuses a record with acks=all because too few
        replicas are in sync.
        """
        with self._lock:
            self._check()
            producer = KafkaProducer(
                **self._client | _QUIET | {"request_timeout_ms": 1000},
                bootstrap_servers=self._bootstrap,
                acks="all",
                retries=0,
                delivery_timeout_ms=2000,
                enable_idempotence=False,
            )
            try:
                producer.send(topic, b"probe", partition=partition).get(timeout=3)
            except NotEnoughReplicasError:
                return True
            except KafkaError:
                return False
            else:
                return False
            finally:
                producer.close(timeout=0)

    @_patiently
    def controller(self) -> int:
        """Return the number of the node that leads the controller quorum; -1 if none is known."""
        with self._lock:
            quorum = self._admin_client().describe_metadata_quorum()
        return int(quorum["topics"][0]["partitions"][0]["leader_id"])

    @_patiently
    def ends(self, topic: str) -> dict[int, LogEnds]:
        """Return the end offsets of every partition of a topic, as of the moment when the high
        watermarks were asked for.

        The broker answers one isolation level at a time. The last stable offset is asked for
        second: if it is below the high watermark all the same, a transaction is open. In the other
        order, records that arrive in between would look like one.
        """
        with self._lock:
            known = self._reader("read_uncommitted").partitions_for_topic(topic) or ()
            partitions = [TopicPartition(topic, p) for p in sorted(known)]
            first = self._reader("read_uncommitted").beginning_offsets(partitions)
            last = self._reader("read_uncommitted").end_offsets(partitions)
            stable = self._reader("read_committed").end_offsets(partitions)
        return {
            p.partition: LogEnds(first[p], min(stable[p], last[p]), last[p]) for p in partitions
        }

    @_patiently
    def copies(self, topic: str) -> list[LogCopy]:
        """Return every copy in a topic; ``visible`` says whether a read-committed reader sees it,
        too.
        """
        with self._lock:
            seen = {(r.partition, r.offset) for r in self._read(topic, "read_committed")}
            return [
                _copy_of(r, (r.partition, r.offset) in seen)
                for r in self._read(topic, "read_uncommitted")
            ]

    def log(self, topic: str) -> WholeLog:
        """Return a whole topic. The end offsets are read first, and copies that were appended later
        are left out.
        """
        ends = self.ends(topic)
        held = (
            copy
            for copy in self.copies(topic)
            if copy.partition not in ends or copy.offset < ends[copy.partition].end
        )
        return WholeLog(ends, tuple(held))

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of a topic below an offset per partition, as retention would."""
        with self._lock:
            self._admin_client().delete_records(
                {TopicPartition(topic, p): offset for p, offset in before.items()}
            )

    @_patiently
    def visible(self, topic: str, since: Mapping[int, int]) -> dict[int, int]:
        """Return, for each partition, the offset of the last visible record at or above ``since``,
        if there is one.
        """
        with self._lock:
            last: dict[int, int] = {}
            for record in self._read(topic, "read_committed", since):
                last[record.partition] = max(record.offset, last.get(record.partition, -1))
            return last

    @_patiently
    def positions(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed position of a group for each partition that has one."""
        with self._lock:
            offsets = self._admin_client().list_group_offsets({group: None})[group]
        return {
            p.partition: meta.offset
            for p, meta in offsets.items()
            if p.topic == topic and meta.offset >= 0
        }

    def save_positions(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Save positions for a group without members, as an administrator does.

        Raises:
            RuntimeError: the broker refuses the positions.
        """
        wanted = {
            TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1)
            for p, offset in positions.items()
        }

        def saved() -> (
            dict[TopicPartition, type[KafkaError]] | None
        ):  # for the first group of a broker, the log of positions is still being created
            try:
                with self._lock:
                    told = dict(self._admin_client().alter_group_offsets(group, wanted))
            except RetriableError:
                return None
            return (
                None if any(issubclass(error, RetriableError) for error in told.values()) else told
            )

        told = wait_until(
            saved, within_s=READY_S, because=f"the positions of {group} to be saved", poll_s=0.05
        )
        if refused := {error.__name__ for error in told.values()} - {"NoError"}:
            raise RuntimeError(
                f"the positions of {group} could not be saved: {', '.join(sorted(refused))}"
            )

    def tell_group(
        self, group: str, config: Mapping[str, str], where_known: Mapping[str, str] | None = None
    ) -> None:
        """Set a group's configuration; leave out ``where_known`` for brokers before 4.3, which do
        not know these settings.

        Raises:
            RuntimeError: the broker refuses the settings.
        """
        wanted = {**config, **(where_known or {})}
        try:
            with self._lock:
                told = self._admin_client().alter_configs(
                    [ConfigResource(ConfigResourceType.GROUP, group, wanted)]
                )
        except ValueError:  # the broker does not know one of the settings
            if not where_known:
                raise
            self.tell_group(group, config)
            return
        if (said := told["group"][group]) != "OK":
            raise RuntimeError(f"the settings of the group {group} could not be set: {said}")

    @_patiently
    def left_to(self, group: str, topic: str) -> Mapping[int, int]:
        """Return how many offsets of each partition a share group has not finished; see
        :func:`new_groups.left_to`.
        """
        with self._lock:
            return left_to(self._admin_client(), group, topic)

    @_patiently
    def members(self, group: str, protocol: GroupProtocol | None = None) -> Mapping[str, str]:
        """Return the members of a group: member id → client id. ``protocol``: ``None`` if it is not
        known; the broker is asked for it then.
        """
        with self._lock:
            admin = self._admin_client()
            return members_of(admin, group, protocol or protocol_of(admin, group))

    @_patiently
    def peopled(self) -> frozenset[str]:
        """Return the names of the groups that have members."""
        with self._lock:
            return frozenset(
                group for group, (_, peopled) in groups_of(self._admin_client()).items() if peopled
            )

    @_patiently
    def transaction(self, transactional_id: str) -> str:
        """Return the state of a transaction as its coordinator reports it: Ongoing, CompleteAbort
        ...
        """
        with self._lock:
            return str(
                self._admin_client()
                .describe_transactions([transactional_id])[transactional_id]
                .state.value
            )

    @_patiently
    def groups(self) -> tuple[str, ...]:
        """Return the names of all consumer groups."""
        with self._lock:
            return tuple(sorted(group["group_id"] for group in self._admin_client().list_groups()))

    @_patiently
    def has(self, topic: str) -> bool:
        """Say whether a topic exists."""
        with self._lock:
            return topic in self._admin_client().list_topics()

    def expel(self, group: str, only: Collection[str] | None = None) -> int:
        """Remove every member from a group, or ``only`` these, as the session time-outs would;
        return how many were removed.
        """
        with self._lock:
            return expel(self._admin_client(), group, only)

    def forget(self, topics: Iterable[str], groups: Iterable[str]) -> None:
        """Delete topics, and groups without members."""
        with self._lock:
            if groups := list(groups):
                self._admin_client().delete_groups(groups)
            if topics := list(topics):
                self._admin_client().delete_topics(topics)
        self._forget_metadata()  # a new topic of the same name may have other leaders

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        with self._lock:
            for client in (self._admin, *self._readers.values()):
                if client is not None:
                    with contextlib.suppress(
                        Exception
                    ):  # closing a connection to a dead broker may fail
                        client.close()
            self._admin = None
            self._readers = {}

    # --- inside -----------------------------------------------------------------------------------

    def _forget_metadata(self) -> None:
        """Discard the readers, whose metadata of a topic may be five minutes old."""
        with self._lock:
            while self._readers:
                self._readers.popitem()[1].close()

    def _acks(self) -> bool:
        try:
            with contextlib.suppress(TopicAlreadyExistsError):
                self._make({PROBE_TOPIC: {"num_partitions": 1, "replication_factor": 1}})
            producer = KafkaProducer(
                **self._client | _QUIET | {"bootstrap_timeout_ms": 1500},
                bootstrap_servers=self._bootstrap,
                acks="all",
                max_block_ms=1000 * PROBE_S,
                enable_idempotence=False,
            )
        except KafkaConfigurationError:
            raise
        except KafkaError:
            self.close()
            return False
        try:
            producer.send(PROBE_TOPIC, b"probe").get(timeout=PROBE_S)
        except KafkaError:
            return False
        else:
            return True
        finally:
            with contextlib.suppress(
                KafkaError
            ):  # a container's published port accepts connections before its broker is up
                producer.close(timeout=1)

    def _admin_client(self) -> KafkaAdminClient:
        self._check()
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._client, bootstrap_servers=self._bootstrap)
        return self._admin

    def _reader(self, isolation: str) -> KafkaConsumer:
        self._check()
        if isolation not in self._readers:
            self._readers[isolation] = KafkaConsumer(
                **self._client,
                **_QUIET,
                bootstrap_servers=self._bootstrap,
                isolation_level=isolation,
                enable_auto_commit=False,
                fetch_max_wait_ms=20,
                group_id=None,
            )
        return self._readers[isolation]

    def _read(
        self, topic: str, isolation: str, since: Mapping[int, int] | None = None
    ) -> list[ConsumerRecord]:
        reader = self._reader(isolation)
        partitions = [
            TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())
        ]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        starts = reader.beginning_offsets(partitions)
        for partition in partitions:
            reader.seek(
                partition, max(starts[partition], (since or {}).get(partition.partition, 0))
            )
        found: list[ConsumerRecord] = []

        def done() -> bool:
            for records in reader.poll(timeout_ms=20).values():
                found.extend(records)
            return all(reader.position(p) >= ends[p] for p in partitions)

        wait_until(done, within_s=30, because=f"{topic} to be read ({isolation})", poll_s=0)
        return [
            record
            for record in found
            if record.offset < ends[TopicPartition(topic, record.partition)]
        ]


def _copy_of(record: ConsumerRecord, visible: bool) -> LogCopy:  # noqa: FBT001 - a plain fact of the copy
    headers = {
        name: value.decode("ascii", "replace")
        for name, value in record.headers
        if value is not None
    }
    return LogCopy(
        record.partition,
        record.leader_epoch,
        record.offset,
        record.key,
        record.value,
        headers.get(ATTEMPT_HEADER),
        headers.get(ORIGIN_HEADER),
        visible,
        tuple(record.headers),
    )

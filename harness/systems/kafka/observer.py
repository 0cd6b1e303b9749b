"""The observer: what is in the logs, read over a direct listener, past the wire, committed and uncommitted.

One observer serves all cells of a broker; every call holds its lock. After a broker's death it is closed and made anew.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, MemberToRemove
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
from harness.stages.settings import GroupProtocol
from harness.systems.kafka.new_groups import left_to, members_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.stages.access import Access

    Placement = Callable[[int], Sequence[int]]
    """The brokers, by number, that keep copies of a partition; the first is its preferred leader."""

_Asked = ParamSpec("_Asked")
_Seen = TypeVar("_Seen")
PROBE_TOPIC = "lostack.probe"
CREATED_S = 10.0
READY_S = 60.0
PROBE_S = 8
"""How long one probe of a broker may take: on a starved machine a broker that is there takes seconds."""
_CLIENT = {"request_timeout_ms": 15_000, "bootstrap_timeout_ms": 5000, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50,
           "retry_backoff_ms": 20}  # fmt: skip
_QUIET = {"metrics_enabled": False}


@dataclass(frozen=True, slots=True)
class LogCopy:
    """One copy of a record in a log."""

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
    """Who leads a partition since which epoch, and which brokers keep copies and are in sync; by number."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Offsets of one partition: first, last stable, and high watermark."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A topic as it was at one moment: the offsets of every partition, and every copy that lies in between."""

    ends: Mapping[int, LogEnds]
    copies: tuple[LogCopy, ...]

    def last_visible(self, partition: int) -> int:
        """Return the offset of the last copy of a partition that a read-committed reader sees; -1 where there is none."""
        return max((copy.offset for copy in self.copies if copy.partition == partition and copy.visible), default=-1)

    def said_of(self, copy: LogCopy, saved: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the fields of a copy's history line: its place, whether it is visible, and what it waits for.

        ``saved``: the positions of the log's reader by partition, ``None`` where the log has none that counts.
        """
        ends = self.ends.get(copy.partition)
        waiting = waits_in_log(
            visible=copy.visible, offset=copy.offset, stable=ends.stable if ends else None,
            saved=None if saved is None else saved.get(copy.partition, -1),
        )  # fmt: skip
        return {**log_fields(copy.partition, copy.epoch, copy.offset), "visible": copy.visible, "waiting": waiting}


PUT_OUT = (MetadataEmptyBrokerList, InvalidReplicationFactorError, InvalidReplicationAssignmentError)
"""What is said where a broker is not registered yet, or not any more: there is none, or there are not as many as copies."""
NOT_YET = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError)
"""What is said where the log of all positions is being made, for the first group of a broker, or is being read."""
OUTDATED = (UnknownBrokerIdError, NotCoordinatorError)
"""What is said where a client would ask a broker that it knows from before: that broker is gone, or its part is another's now."""


def _patiently(look: Callable[Concatenate[Observer, _Asked], _Seen]) -> Callable[Concatenate[Observer, _Asked], _Seen]:
    """Ask again while the cluster lacks a broker, for a starved one is late with its heartbeat and put out though it lives.

    Who asks by an outdated picture of the cluster asks anew, with another client.
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
            except KafkaTimeoutError:  # it may ask in vain who led before
                self.close()
                raise
            return True

        wait_until(once, within_s=READY_S, because="the broker to be in its cluster's metadata again")
        return seen[0]

    return patient


class Observer:
    """Reads one broker's logs and positions. ``check`` raises where the ground has broken: then nothing waits for an answer.

    ``access``: how it is let in, where not anybody is.
    """

    def __init__(self, bootstrap: str, check: Callable[[], None], access: Access | None = None) -> None:
        self._bootstrap = bootstrap
        self._client = _CLIENT | (access.for_kafka_python() if access else {})
        self._check = check
        self._lock = threading.RLock()
        self._admin: Any = None
        self._readers: dict[str, Any] = {}

    def wait_ready(self) -> None:
        """Wait, a bounded time, until the broker acknowledges a write."""
        wait_until(self._acks, within_s=READY_S, because=f"the broker at {self._bootstrap} to acknowledge a write")

    @_patiently
    def create_topics(self, topics: Mapping[str, tuple[int, Mapping[str, str]]], placement: Placement | None = None,
                      replicas: int = 1) -> None:  # fmt: skip
        """Create topics: name → (partitions, configuration); ``placement``: on which brokers, where not on any.

        ``replicas`` without a placement: how many copies of a partition; -1: as many as the cluster makes by itself.

        A broker hands the request on to the controller, and does so again where no answer came: the second one finds the
        topics that the first has made. Names are new with each cell, so a topic that is there is the one that was wanted.
        """
        wanted: dict[str, dict[str, Any]] = {}
        for name, (partitions, config) in topics.items():
            if placement is None:
                where: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replicas}
            else:
                where = {"num_partitions": -1, "replication_factor": -1,
                         "assignments": {p: list(placement(p)) for p in range(partitions)}}  # fmt: skip
            wanted[name] = {**where, "configs": dict(config)}
        with contextlib.suppress(TopicAlreadyExistsError, KafkaTimeoutError):  # made, and perhaps not to be seen in time
            self._make(wanted)
            return
        wait_until(lambda: all(self.has(name) for name in wanted), within_s=CREATED_S, because=f"{', '.join(wanted)} to be there")

    def _make(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        with self._lock:
            self._admin_client().create_topics(topics, wait_for_metadata=True)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, as an administrator does, and wait until each of them has a leader."""
        with contextlib.suppress(InvalidPartitionsError), self._lock:  # asked again by a broker: it has as many
            self._admin_client().create_partitions({topic: partitions})

        def led() -> bool:
            found = self.leaderships(topic)
            return len(found) == partitions and all(one.leader >= 0 for one in found.values())

        wait_until(led, within_s=CREATED_S, because=f"{topic} to have {partitions} partitions", poll_s=0.05)
        self._forget_metadata()

    @_patiently
    def leaderships(self, topic: str) -> dict[int, Leadership]:
        """Return who leads and who follows each partition of a topic, as a broker of the cluster knows it."""
        with self._lock:
            described = self._admin_client().describe_topics([topic])
        return {
            part["partition_index"]: Leadership(
                part["leader_id"], part["leader_epoch"], tuple(part["replica_nodes"]), tuple(part["isr_nodes"]),
            )
            for part in described[0]["partitions"]
        }  # fmt: skip

    def reorder_replicas(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Give partitions of a topic another order of replicas: the first is the preferred leader."""
        with self._lock:
            wanted = {TopicPartition(topic, p): list(order) for p, order in replicas.items()}
            self._admin_client().alter_partition_reassignments(wanted)

    def prefer_leaders(self, topics: Iterable[str]) -> None:
        """Let the preferred replica of each partition lead, where it is in sync."""
        with self._lock:
            self._admin_client().elect_leaders(0, {t: list(self.leaderships(t)) for t in topics}, raise_errors=False)

    def refuses(self, topic: str, partition: int) -> bool:
        """Say whether the leader of a partition refuses a record that asks for all acks, because too few replicas are in sync."""
        with self._lock:
            self._check()
            producer = KafkaProducer(**self._client | _QUIET | {"request_timeout_ms": 1000}, bootstrap_servers=self._bootstrap,
                                     acks="all", retries=0, delivery_timeout_ms=2000, enable_idempotence=False)  # fmt: skip
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
        """Return the number of the node that leads the quorum of controllers; -1 where nobody is known to."""
        with self._lock:
            quorum = self._admin_client().describe_metadata_quorum()
        return int(quorum["topics"][0]["partitions"][0]["leader_id"])

    @_patiently
    def ends(self, topic: str) -> dict[int, LogEnds]:
        """Return the offsets of every partition of a topic."""
        with self._lock:
            known = self._reader("read_uncommitted").partitions_for_topic(topic) or ()
            partitions = [TopicPartition(topic, p) for p in sorted(known)]
            first = self._reader("read_uncommitted").beginning_offsets(partitions)
            stable = self._reader("read_committed").end_offsets(partitions)
            last = self._reader("read_uncommitted").end_offsets(partitions)
        return {p.partition: LogEnds(first[p], stable[p], last[p]) for p in partitions}

    @_patiently
    def copies(self, topic: str) -> list[LogCopy]:
        """Return every copy in a topic; ``visible`` where a read-committed reader sees it too."""
        with self._lock:
            seen = {(r.partition, r.offset) for r in self._read(topic, "read_committed")}
            return [_copy_of(r, (r.partition, r.offset) in seen) for r in self._read(topic, "read_uncommitted")]

    def log(self, topic: str) -> WholeLog:
        """Return a whole topic. It is asked for its ends first: what is appended later is not taken for missing, nor told."""
        ends = self.ends(topic)
        held = (copy for copy in self.copies(topic) if copy.partition not in ends or copy.offset < ends[copy.partition].end)
        return WholeLog(ends, tuple(held))

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of a topic below an offset per partition, as retention would."""
        with self._lock:
            self._admin_client().delete_records({TopicPartition(topic, p): offset for p, offset in before.items()})

    @_patiently
    def visible(self, topic: str, since: Mapping[int, int]) -> dict[int, int]:
        """Return the last visible data offset per partition at or above ``since``; partitions without one are missing."""
        with self._lock:
            last: dict[int, int] = {}
            for record in self._read(topic, "read_committed", since):
                last[record.partition] = max(record.offset, last.get(record.partition, -1))
            return last

    @_patiently
    def positions(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed position per partition of a group; partitions without one are missing."""
        with self._lock:
            offsets = self._admin_client().list_group_offsets({group: None})[group]
        return {p.partition: meta.offset for p, meta in offsets.items() if p.topic == topic and meta.offset >= 0}

    def save_positions(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Save positions of a group that has no members, as an administrator does."""
        wanted = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in positions.items()}

        def saved() -> dict[Any, Any] | None:  # of the first group of a broker, the log of its positions is being made
            try:
                with self._lock:
                    told = dict(self._admin_client().alter_group_offsets(group, wanted))
            except RetriableError:
                return None
            return None if any(issubclass(error, RetriableError) for error in told.values()) else told

        told = wait_until(saved, within_s=READY_S, because=f"the positions of {group} to be saved", poll_s=0.05)
        if refused := {error.__name__ for error in told.values()} - {"NoError"}:
            raise RuntimeError(f"the positions of {group} could not be saved: {', '.join(sorted(refused))}")

    def tell_group(self, group: str, config: Mapping[str, str], where_known: Mapping[str, str] | None = None) -> None:
        """Give a group settings of its own, as an administrator does; it need not be there yet.

        ``where_known``: more of them, which brokers before 4.3 do not know.
        """
        wanted = {**config, **(where_known or {})}
        try:
            with self._lock:
                told = self._admin_client().alter_configs([ConfigResource(ConfigResourceType.GROUP, group, wanted)])
        except ValueError:  # so it says that it does not know one of them
            if not where_known:
                raise
            self.tell_group(group, config)
            return
        if (said := told["group"][group]) != "OK":
            raise RuntimeError(f"the group {group} could not be told its settings: {said}")

    @_patiently
    def left_to(self, group: str, topic: str) -> Mapping[int, int]:
        """Return how many offsets of each partition are left to a share group; see :func:`new_groups.left_to`."""
        with self._lock:
            return left_to(self._admin_client(), group, topic)

    @_patiently
    def members(self, group: str, protocol: GroupProtocol = GroupProtocol.CLASSIC) -> Mapping[str, str]:
        """Return the members of a group: client id by member id."""
        with self._lock:
            return members_of(self._admin_client(), group, protocol)

    @_patiently
    def transaction(self, transactional_id: str) -> str:
        """Return the state that a transaction is in, as its coordinator says: Ongoing, CompleteAbort ..."""
        with self._lock:
            return str(self._admin_client().describe_transactions([transactional_id])[transactional_id].state.value)

    @_patiently
    def groups(self) -> tuple[str, ...]:
        """Return the names of all consumer groups."""
        with self._lock:
            return tuple(sorted(group["group_id"] for group in self._admin_client().list_groups()))

    @_patiently
    def has(self, topic: str) -> bool:
        """Say whether there is such a topic."""
        with self._lock:
            return topic in self._admin_client().list_topics()

    def expel(self, group: str) -> int:
        """Put every member out of a group, as their session time-outs would; return how many there were."""
        with self._lock:
            members = self._admin_client().describe_groups([group])[group]["members"]
            if members:
                self._admin_client().remove_group_members(group, [MemberToRemove(member_id=m["member_id"]) for m in members])
            return len(members)

    def forget(self, topics: Iterable[str], groups: Iterable[str]) -> None:
        """Delete topics and (empty) groups."""
        with self._lock:
            if groups := list(groups):
                self._admin_client().delete_groups(groups)
            if topics := list(topics):
                self._admin_client().delete_topics(topics)
        self._forget_metadata()  # one of the same name may have other leaders

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        with self._lock:
            for client in (self._admin, *self._readers.values()):
                if client is not None:
                    with contextlib.suppress(Exception):  # a dead broker's connections may fail to close: they are gone
                        client.close()
            self._admin = None
            self._readers = {}

    # --- inside ----------------------------------------------------------------------------------------------------

    def _forget_metadata(self) -> None:
        """Take new readers from now on: what one knows of a topic is up to five minutes old."""
        with self._lock:
            while self._readers:
                self._readers.popitem()[1].close()

    def _acks(self) -> bool:
        try:
            with contextlib.suppress(TopicAlreadyExistsError):
                self._make({PROBE_TOPIC: {"num_partitions": 1, "replication_factor": 1}})
            producer = KafkaProducer(**self._client | _QUIET | {"bootstrap_timeout_ms": 1500}, bootstrap_servers=self._bootstrap,
                                     acks="all", max_block_ms=1000 * PROBE_S, enable_idempotence=False)  # fmt: skip
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
            with contextlib.suppress(KafkaError):  # a published port takes connections for a broker that is not up yet
                producer.close(timeout=1)

    def _admin_client(self) -> Any:
        self._check()
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._client, bootstrap_servers=self._bootstrap)
        return self._admin

    def _reader(self, isolation: str) -> Any:
        self._check()
        if isolation not in self._readers:
            self._readers[isolation] = KafkaConsumer(
                **self._client, **_QUIET, bootstrap_servers=self._bootstrap, isolation_level=isolation, enable_auto_commit=False,
                fetch_max_wait_ms=20, group_id=None,
            )  # fmt: skip
        return self._readers[isolation]

    def _read(self, topic: str, isolation: str, since: Mapping[int, int] | None = None) -> list[Any]:
        reader = self._reader(isolation)
        partitions = [TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        starts = reader.beginning_offsets(partitions)
        for partition in partitions:
            reader.seek(partition, max(starts[partition], (since or {}).get(partition.partition, 0)))
        found: list[Any] = []

        def done() -> bool:
            for records in reader.poll(timeout_ms=20).values():
                found.extend(records)
            return all(reader.position(p) >= ends[p] for p in partitions)

        wait_until(done, within_s=30, because=f"{topic} to be read ({isolation})", poll_s=0)
        return [record for record in found if record.offset < ends[TopicPartition(topic, record.partition)]]


def _copy_of(record: Any, visible: bool) -> LogCopy:  # noqa: FBT001 - a plain fact of the copy
    headers = {name: value.decode("ascii", "replace") for name, value in record.headers if value is not None}
    return LogCopy(
        record.partition, record.leader_epoch, record.offset, record.key, record.value,
        headers.get(ATTEMPT_HEADER), headers.get(ORIGIN_HEADER), visible, tuple(record.headers),
    )  # fmt: skip

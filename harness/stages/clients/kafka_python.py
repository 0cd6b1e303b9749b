"""kafka-python, configured from :mod:`harness.stages.settings`. The only module of the stage
programs that uses it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as Errors  # noqa: N812 - the client's own name for it
from kafka.structs import OffsetAndMetadata

from harness.model.waiting import wait_until
from harness.stages.access import Access
from harness.stages.clients.interface import (
    ClientError,
    Delivered,
    Meaning,
    Membership,
    Position,
    Stored,
)
from harness.stages.clients.kafka_settings import of_producer
from harness.stages.consumer_settings import Members, SavePosition
from harness.stages.stage import SettingsRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.producer.future import FutureRecordMetadata

    from harness.stages.stage import Stage

_MEANING: dict[Meaning, tuple[type[Exception], ...]] = {
    Meaning.NEVER_APPENDED: (
        Errors.MessageSizeTooLargeError,
        Errors.InvalidTopicError,
        Errors.TopicAuthorizationFailedError,
        Errors.NotEnoughReplicasError,
        Errors.UnsupportedForMessageFormatError,
        Errors.InvalidRequiredAcksError,
    ),
    Meaning.FENCED: (
        Errors.InvalidProducerEpochError,
        Errors.ProducerFencedError,
        Errors.FencedInstanceIdError,
    ),
    Meaning.PUT_OUT: (Errors.CommitFailedError,),
}

_PATIENCE = {
    "request_timeout_ms": 15_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "bootstrap_timeout_ms": 20_000,
    "metrics_enabled": False,
}
OUTAGE_S = 60.0
CLOSE_MS = 1000
POSITION_MS = 1000
_NOBODY_THERE = (Errors.KafkaConnectionError, Errors.MetadataEmptyBrokerList)
"""No broker answers, or the one that does is not registered yet: it names no broker at all."""


def _patience(kind: type[KafkaConsumer | KafkaProducer]) -> dict[str, object]:
    """Return the time-outs that this version of the client accepts as settings."""
    return {name: value for name, value in _PATIENCE.items() if name in kind.DEFAULT_CONFIG}


def _let_in(stage: Stage) -> dict[str, object]:
    access = Access.read(stage.access)
    return access.for_kafka_python() if access else {}


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever it is, the ledger says it in one line
        meaning = next(
            (m for m, kinds in _MEANING.items() if isinstance(error, kinds)), Meaning.UNKNOWN
        )
        raise ClientError(type(error).__name__, error, meaning) from error


def make_producer(stage: Stage, *, transactional_id: str) -> Producer:
    """Return a producer with the stage's settings.

    Raises:
        SettingsRefusedError: the client refuses the settings.
    """
    settings, own = stage.settings.producer, of_producer(stage, transactional_id)
    config: dict[str, object] = {
        **_patience(KafkaProducer),
        **_let_in(stage),
        **{name.replace(".", "_"): value for name, value in own.items()},
        "max_block_ms": settings.max_block_ms,
    }
    if settings.metadata_max_age_ms is not None:
        config["metadata_max_age_ms"] = settings.metadata_max_age_ms
    try:
        return Producer(KafkaProducer(**config))
    except (Errors.KafkaConfigurationError, AssertionError) as error:
        raise SettingsRefusedError(f"{type(error).__name__}: {error}") from error


def make_consumer(stage: Stage) -> Consumer:
    """Return a consumer of the stage's group, not subscribed yet."""
    settings = stage.settings.consumer
    auto = settings.position is SavePosition.AUTO
    age = (
        {}
        if settings.metadata_max_age_ms is None
        else {"metadata_max_age_ms": settings.metadata_max_age_ms}
    )
    return Consumer(
        partial(
            KafkaConsumer,
            **_patience(KafkaConsumer)
            | {"request_timeout_ms": settings.patience_ms}
            | age
            | _let_in(stage),
            bootstrap_servers=stage.bootstrap,
            client_id=stage.client_id,
            group_id=stage.group,
            group_instance_id=f"{stage.key}-{stage.name}"
            if settings.members is Members.STATIC
            else None,
            enable_auto_commit=auto,
            auto_commit_interval_ms=settings.auto_commit_interval_ms,
            auto_offset_reset=settings.reset,
            isolation_level=settings.isolation,
            max_poll_records=settings.unit,
            max_partition_fetch_bytes=1 if settings.unit == 1 else 1 << 20,
            fetch_max_bytes=1 if settings.unit == 1 else 1 << 20,
            fetch_max_wait_ms=100,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
        )
    )


def last_committed(stage: Stage, topic: str) -> bytes | None:
    """Return the last value that a read-committed reader sees in a topic of one partition."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        **_patience(KafkaConsumer),
        **_let_in(stage),
        bootstrap_servers=stage.bootstrap,
        client_id=f"{stage.client_id}.cursor",
        isolation_level="read_committed",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        value = None
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=200).values():
                value = bytes(records[-1].value)
        return value
    finally:
        consumer.close(autocommit=False)


def _outlive_unknown_leader(producer: KafkaProducer) -> None:
    """Let the producer ask for metadata again when a partition's leader is not among the brokers.

    A broker reads leaders and brokers one after the other when it answers a metadata request. If
    the leader is put out between the two, the answer names a leader that it does not list. The
    sender of kafka-python 3.0.12 then fails in each round before it reads from the network, and so
    forever: the producer never sends anything again, and no record of it expires.
    """
    client, metadata = producer._sender._client, producer._metadata  # noqa: SLF001 - no other way in
    connect = client.maybe_connect

    def maybe_connect(node: int, **options: object) -> None:
        try:
            connect(node, **options)
        except Errors.UnknownBrokerIdError:
            metadata.request_update()

    client.maybe_connect = maybe_connect


class Pending:
    """A record that is being sent: a future of kafka-python."""

    def __init__(self, future: FutureRecordMetadata) -> None:
        self._future = future

    def wait(self, within_s: float) -> Stored:
        """Wait for the outcome that the client reports."""
        with _translated():
            told = self._future.get(timeout=within_s)
            return Stored(told.partition, told.offset)


class Producer:
    """A KafkaProducer."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        _outlive_unknown_leader(producer)

    def init_transactions(self) -> None:
        """Fence other producers with this transactional id."""
        with _translated():
            self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        with _translated():
            self._producer.begin_transaction()

    def commit(self) -> None:
        """Commit the transaction."""
        with _translated():
            self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort the transaction."""
        with _translated():
            self._producer.abort_transaction()

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Add a group's positions to the transaction."""
        with _translated():
            self._producer.send_offsets_to_transaction(_offsets(topic, positions), membership.token)

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Pending:
        """Pass a record to the client."""
        with _translated():
            return Pending(self._producer.send(topic, value, key=key, headers=list(headers)))

    def close(self, within_s: float) -> None:
        """Close the producer."""
        with _translated():
            self._producer.close(timeout=within_s)


class Consumer:
    """A KafkaConsumer."""

    def __init__(self, make: Callable[[], KafkaConsumer]) -> None:
        self._make = make
        self._consumer = make()
        self._again: Callable[[], None] = self._no_subscription

    def _no_subscription(self) -> None:
        """Do nothing: nothing is subscribed yet."""

    def _anew(self) -> None:
        """Make a new client, because kafka-python 3.0.12 never asks a broker again after it failed
        to ask it once.
        """
        self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)
        self._consumer = self._make()
        self._again()

    def subscribe(self, topic: str, assigned: Callable[[list[int]], Mapping[int, int]]) -> None:
        """Join the group."""
        self._again = partial(self.subscribe, topic, assigned)
        self._consumer.subscribe([topic], listener=_Listener(self._consumer, assigned))
        # known before the first poll, and of what is subscribed to: it joins again for what it
        # learns of afterwards
        wait_until(
            partial(self._knows, topic),
            within_s=OUTAGE_S,
            because=f"a broker that knows topic {topic}",
            poll_s=0.05,
        )

    def _knows(self, topic: str) -> bool:
        """Ask a broker for the topics, and return whether this one is among them."""
        try:
            return topic in self._consumer.topics()
        except _NOBODY_THERE:
            return False

    def poll(self, most: int, within_s: float) -> list[Delivered]:
        """Poll, and repeat that while no broker can be reached: kafka-python raises an exception
        where other clients wait.
        """
        polled: list[Delivered] = []

        def answered() -> bool:
            try:
                found = self._consumer.poll(timeout_ms=int(within_s * 1000), max_records=most)
            except _NOBODY_THERE:
                return False
            except (
                Errors.UnknownBrokerIdError
            ):  # the cluster lost a broker between the plan of a fetch and the fetch
                self._anew()
                return False
            polled.extend(_delivered(record) for records in found.values() for record in records)
            return True

        wait_until(
            answered, within_s=OUTAGE_S, because="a broker to answer the consumer", poll_s=0.05
        )
        return polled

    def commit(self, topic: str, positions: Position, within_s: float) -> None:
        """Save positions and wait for the answer."""
        with _translated():
            self._consumer.commit(_offsets(topic, positions), timeout_ms=int(within_s * 1000))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue reading the partition at an offset."""
        self._consumer.seek(TopicPartition(topic, partition), offset)

    def assignment(self) -> frozenset[int]:
        """Return the partitions that are assigned to this consumer now."""
        return frozenset(one.partition for one in self._consumer.assignment())

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next offset that it reads. This client keeps it for a partition that it gets
        back in a rebalance.
        """
        try:
            found: int | None = self._consumer.position(
                TopicPartition(topic, partition), timeout_ms=POSITION_MS
            )
        except Errors.KafkaError:  # it does not know, or nobody answers
            return None
        return found

    def membership(self) -> Membership:
        """Return the current group metadata."""
        token = self._consumer.group_metadata()
        return Membership(token, token.generation_id >= 0)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(
        self, consumer: KafkaConsumer, assigned: Callable[[list[int]], Mapping[int, int]]
    ) -> None:
        self._consumer = consumer
        self._assigned = assigned

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Do nothing: positions are saved with their records, and not at a rebalance."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Report the assigned partitions to the program, and seek to the positions
        that it returns.
        """
        if not assigned:
            return
        begins = self._assigned(sorted(partition.partition for partition in assigned))
        for partition in sorted(assigned):
            if partition.partition in begins:
                self._consumer.seek(partition, begins[partition.partition])


def _delivered(record: ConsumerRecord) -> Delivered:
    return Delivered(
        record.topic,
        record.partition,
        record.leader_epoch,
        record.offset,
        record.key,
        bytes(record.value),
    )


def _offsets(topic: str, positions: Position) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1)
        for p, offset in positions.items()
    }

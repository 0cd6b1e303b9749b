"""confluent-kafka (librdkafka), configured from :mod:`harness.stages.settings`. The only module
that uses it.
"""

from __future__ import annotations

import struct
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError as Code
from confluent_kafka import Producer as RdProducer

from harness.model.waiting import wait_until
from harness.stages.access import Access
from harness.stages.clients.interface import (
    Answer,
    ClientError,
    Delivered,
    Meaning,
    Membership,
    Position,
    Stored,
)
from harness.stages.clients.kafka_settings import of_consumer, of_producer
from harness.stages.consumer_settings import GroupProtocol
from harness.stages.stage import SettingsRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from harness.stages.stage import Stage

_NEVER_APPENDED = {
    Code.MSG_SIZE_TOO_LARGE,
    Code.TOPIC_EXCEPTION,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.NOT_ENOUGH_REPLICAS,
    Code.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    Code.INVALID_REQUIRED_ACKS,
}
_FENCED = {Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED, Code.FENCED_INSTANCE_ID}
_PUT_OUT = {
    Code.UNKNOWN_MEMBER_ID,
    Code.ILLEGAL_GENERATION,
    Code.REBALANCE_IN_PROGRESS,
    Code._NO_OFFSET,  # noqa: SLF001
}
_REFUSED_SETTINGS = {Code._INVALID_ARG, Code._CONFLICT}  # noqa: SLF001 - the binding's own spelling of local errors

_ANSWERS = {Answer.ACCEPT: 1, Answer.RELEASE: 2, Answer.REJECT: 3}
"""The numbers of librdkafka's AcknowledgeType."""
_RESET = {"earliest": "earliest", "latest": "latest", "none": "error"}
"""librdkafka's values of auto.offset.reset."""

CALL_S = 60.0
"""How many seconds a transaction's call is repeated while the client reports that it can be
repeated.
"""
METADATA_S = 10.0
CURSOR_S = 20.0
_GROUP_METADATA = struct.Struct("=7si")
"""The beginning of librdkafka's serialised group metadata: a magic word and the generation."""


def _error(error: Code) -> ClientError:
    code = error.code()
    meaning = Meaning.UNKNOWN
    if code in _NEVER_APPENDED:
        meaning = Meaning.NEVER_APPENDED
    elif code in _FENCED:
        meaning = Meaning.FENCED
    elif code in _PUT_OUT:
        meaning = Meaning.PUT_OUT
    return ClientError(error.name(), error.str(), meaning)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() == Code._FENCED:  # noqa: SLF001 - told of a transaction, it is certain
            raise ClientError(error.name(), error.str(), Meaning.FENCED) from raised
        raise _error(error) from raised
    except BufferError as raised:
        raise ClientError("BufferError", raised, Meaning.NEVER_APPENDED) from raised


def _common(stage: Stage, *, client_id: str | None = None) -> dict[str, object]:
    access = Access.read(stage.access)
    return {
        "bootstrap.servers": stage.bootstrap,
        "client.id": client_id or stage.client_id,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "broker.address.family": "v4",
        "topic.metadata.refresh.fast.interval.ms": 50,
        "log_level": 4,
        **(access.for_librdkafka() if access else {}),
    }


def make_producer(stage: Stage, *, transactional_id: str) -> Producer:
    """Return a producer with the stage's settings.

    Raises:
        SettingsRefusedError: the client refuses the settings.
    """
    settings = stage.settings.producer
    config: dict[str, object] = {
        **_common(stage),
        **of_producer(stage, transactional_id),
        "socket.timeout.ms": settings.request_timeout_ms,
        "retry.backoff.ms": 50,
        "partitioner": "murmur2_random",  # the one of the other clients
    }
    if settings.metadata_max_age_ms is not None:
        config["topic.metadata.refresh.interval.ms"] = settings.metadata_max_age_ms
    if settings.transactional:
        timeout = stage.settings.transaction_timeout_ms
        config |= {
            "delivery.timeout.ms": min(settings.delivery_timeout_ms, timeout),
            "socket.timeout.ms": min(settings.request_timeout_ms, timeout),
        }
    try:
        return Producer(RdProducer(config))
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() in _REFUSED_SETTINGS:
            raise SettingsRefusedError(f"{error.name()}: {error.str()}") from raised
        raise _error(error) from raised


def make_consumer(stage: Stage) -> Consumer:
    """Return a consumer of the stage's group, not subscribed yet."""
    settings = stage.settings.consumer
    config: dict[str, object] = {
        **_common(stage),
        **of_consumer(stage),
        "auto.offset.reset": _RESET[settings.reset],
        "queued.min.messages": settings.unit,
        "fetch.queue.backoff.ms": 10,
        "fetch.error.backoff.ms": 50,
        "fetch.wait.max.ms": 100,
        "max.poll.interval.ms": max(300_000, settings.session_ms),
        "socket.timeout.ms": settings.patience_ms,
        "coordinator.query.interval.ms": 1000,
        "retry.backoff.ms": 50,
    }
    if settings.metadata_max_age_ms is not None:
        config["topic.metadata.refresh.interval.ms"] = settings.metadata_max_age_ms
    return Consumer(RdConsumer(config), incremental=settings.protocol is GroupProtocol.CONSUMER)


def make_sharer(stage: Stage) -> Sharer:
    """Return a reader of the stage's share group, not subscribed yet."""
    from confluent_kafka import ShareConsumer  # noqa: PLC0415 - versions before 2.16 have none

    settings = stage.settings.consumer
    return Sharer(
        ShareConsumer(
            {
                **_common(stage),
                "group.id": stage.group,
                "share.acknowledgement.mode": "implicit" if settings.share.implicit else "explicit",
                "max.poll.records": settings.unit,
                "fetch.wait.max.ms": 100,
                "socket.timeout.ms": settings.patience_ms,
                "coordinator.query.interval.ms": 1000,
                "retry.backoff.ms": 50,
            }
        )
    )


def last_committed(stage: Stage, topic: str) -> bytes | None:
    """Return the last value that a read-committed reader sees in a topic of one partition."""
    consumer = RdConsumer(
        {
            **_common(stage, client_id=f"{stage.client_id}.cursor"),
            "group.id": f"{stage.group}.cursor",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    values: list[bytes] = []

    def at_end() -> bool:
        message = consumer.poll(1.0)
        if message is None:
            return False
        error = message.error()
        if error is None:
            values.append(bytes(message.value() or b""))
        return error is not None and error.code() == Code._PARTITION_EOF  # noqa: SLF001

    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        wait_until(at_end, within_s=CURSOR_S, because="the end of the cursor topic", poll_s=0)
    finally:
        consumer.close()
    return values[-1] if values else None


class Polled(Protocol):
    """What reports on records when it is polled: a producer of librdkafka."""

    def poll(self, timeout: float, /) -> int:
        """Wait for reports, at most so many seconds."""


class Pending:
    """A record that librdkafka reports on when it is polled."""

    def __init__(self, producer: Polled) -> None:
        self._producer = producer
        self._told: tuple[Code | None, Message] | None = None

    def told(self, error: Code | None, message: Message) -> None:
        """Take the delivery report."""
        self._told = (error, message)

    def wait(self, within_s: float) -> Stored:
        """Wait for the delivery report.

        Raises:
            ClientError: the record was refused, or no report came in time.
        """
        until = time.monotonic() + within_s
        while self._told is None:
            if time.monotonic() > until:
                raise ClientError("Timeout", f"no delivery report came within {within_s:g} s")
            with _translated():
                self._producer.poll(0.1)
        error, message = self._told
        if error is not None:
            raise _error(error)
        partition, offset = message.partition(), message.offset()
        return Stored(-1 if partition is None else partition, -1 if offset is None else offset)


class Producer:
    """A producer of librdkafka."""

    def __init__(self, producer: RdProducer) -> None:
        self._producer = producer

    def init_transactions(self) -> None:
        """Fence other producers with this transactional id."""
        _repeated(self._producer.init_transactions)

    def begin(self) -> None:
        """Begin a transaction."""
        with _translated():
            self._producer.begin_transaction()

    def commit(self) -> None:
        """Commit the transaction."""
        _repeated(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort the transaction."""
        _repeated(self._producer.abort_transaction)

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Add a group's positions to the transaction."""
        offsets = _offsets(topic, positions)
        _repeated(
            lambda within_s: self._producer.send_offsets_to_transaction(
                offsets, membership.token, within_s
            )
        )

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Pending:
        """Pass a record to the client."""
        pending = Pending(self._producer)
        with _translated():
            self._producer.produce(
                topic, value, key, headers=list(headers), on_delivery=pending.told
            )
        return pending

    def close(self, within_s: float) -> None:
        """Close the producer."""
        if not within_s:
            self._producer.purge()
        self._producer.flush(within_s)


class Consumer:
    """A consumer of librdkafka. ``incremental``: its group reports only changes of the
    assignment.
    """

    def __init__(self, consumer: RdConsumer, *, incremental: bool) -> None:
        self._consumer = consumer
        self._incremental = incremental

    def subscribe(self, topic: str, assigned: Callable[[list[int]], Mapping[int, int]]) -> None:
        """Join the group."""

        def known() -> bool:
            try:
                found = self._consumer.list_topics(topic, timeout=METADATA_S).topics.get(topic)
            except KafkaException:
                return False
            return found is not None and found.error is None and bool(found.partitions)

        def on_assign(consumer: RdConsumer, partitions: list[TopicPartition]) -> None:
            if partitions:
                begins = assigned(sorted(partition.partition for partition in partitions))
                for partition in partitions:
                    partition.offset = begins.get(partition.partition, partition.offset)
            if self._incremental:
                consumer.incremental_assign(partitions)
            else:
                consumer.assign(partitions)

        wait_until(known, within_s=METADATA_S, because=topic, poll_s=0.05)
        self._consumer.subscribe([topic], on_assign=on_assign)

    def poll(self, most: int, within_s: float) -> list[Delivered]:
        """Return the records that have arrived."""
        first = self._consumer.poll(within_s)
        if first is None:
            return []
        more = self._consumer.consume(most - 1, 0) if most > 1 else []
        # what a message says instead of a record (a time-out, a topic that is unknown yet) this
        # client mends by itself, unless it says that it is done for (put out as a static member, it
        # never joins again) or does not know where to go on
        for message in (first, *more):
            error = message.error()
            if error is not None and (error.fatal() or error.code() == Code._AUTO_OFFSET_RESET):  # noqa: SLF001 - see above
                raise _error(error)
        return [_delivered(message) for message in (first, *more) if message.error() is None]

    def commit(self, topic: str, positions: Position, within_s: float) -> None:  # noqa: ARG002 - socket.timeout.ms bounds it
        """Save positions and wait for the answer."""
        with _translated():
            told = self._consumer.commit(offsets=_offsets(topic, positions), asynchronous=False)
        for partition in told:
            if partition.error is not None:
                raise _error(partition.error)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue reading the partition at an offset."""
        with _translated():
            self._consumer.seek(TopicPartition(topic, partition, offset))

    def assignment(self) -> frozenset[int]:
        """Return the partitions that are assigned to this consumer now."""
        return frozenset(one.partition for one in self._consumer.assignment())

    def position(self, _topic: str, _partition: int) -> int | None:
        """Return ``None``: this client asks its group for the position."""
        return None

    def membership(self) -> Membership:
        """Return the current group metadata."""
        token = self._consumer.consumer_group_metadata()
        _, generation = _GROUP_METADATA.unpack_from(bytes(token))
        return Membership(token, generation >= 0)


class Sharer:
    """A share consumer of librdkafka."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def subscribe(self, topic: str) -> None:
        """Join the group."""
        with _translated():
            self._consumer.subscribe([topic])

    def poll(self, within_s: float) -> list[Delivered]:
        """Return the records that have arrived."""
        with _translated():
            messages = list(self._consumer.poll(within_s))
        for message in messages:
            if (error := message.error()) is not None and error.fatal():
                raise _error(error)
        return [
            replace(_delivered(each), deliveries=each.delivery_count())
            for each in messages
            if each.error() is None
        ]

    def answer(self, message: Delivered, answer: Answer) -> None:
        """Set the answer for a record."""
        with _translated():
            self._consumer.acknowledge_offset(
                message.topic, message.partition, message.offset, _ANSWERS[answer]
            )

    def commit(self, within_s: float) -> None:
        """Send the answers, and wait for the brokers' results."""
        with _translated():
            told = self._consumer.commit_sync(within_s)
        for raised in told.values():
            if raised is not None:
                raise _error(raised.args[0])


def _repeated(call: Callable[[float], object]) -> None:
    """Make a transaction's call, and repeat it while the client reports that it can be repeated."""
    until = time.monotonic() + CALL_S
    while True:
        try:
            with _translated():
                call(CALL_S)
        except ClientError as error:
            cause = error.__cause__
            retriable = isinstance(cause, KafkaException) and cause.args[0].retriable()
            if not retriable or time.monotonic() > until:
                raise
        else:
            return


def _delivered(message: Any) -> Delivered:
    epoch = message.leader_epoch() if hasattr(message, "leader_epoch") else None
    return Delivered(
        message.topic(),
        message.partition(),
        -1 if epoch is None else epoch,
        message.offset(),
        message.key(),
        bytes(message.value()),
    )


def _offsets(topic: str, positions: Position) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]

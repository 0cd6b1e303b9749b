"""The Java client of Kafka, in the JVM of ``stages/jvm/ClientBridge.java``: see :mod:`.bridge`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from harness.model.waiting import wait_until
from harness.stages.access import Access
from harness.stages.clients.bridge import Bridge, coded, decoded, milliseconds
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
from harness.stages.stage import SettingsRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.stages.stage import Stage

METADATA_S: Final = 10.0
_MEANING: Final[dict[str, Meaning]] = {
    **dict.fromkeys(
        (
            "RecordTooLargeException",
            "InvalidTopicException",
            "TopicAuthorizationException",
            "NotEnoughReplicasException",
            "UnsupportedForMessageFormatException",
            "InvalidRequiredAcksException",
        ),
        Meaning.NEVER_APPENDED,
    ),
    **dict.fromkeys(
        ("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException"),
        Meaning.FENCED,
    ),
    **dict.fromkeys(("CommitFailedException", "RebalanceInProgressException"), Meaning.PUT_OUT),
}
_PATIENCE: Final = {
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}
_BYTES: Final = "org.apache.kafka.common.serialization.ByteArray"


@cache
def _bridge() -> Bridge:
    return Bridge.of_this_program(_MEANING)


def make_producer(stage: Stage, *, transactional_id: str) -> Producer:
    """Return a producer with the stage's settings.

    Raises:
        SettingsRefusedError: the client refuses the settings.
    """
    settings = stage.settings.producer
    config: dict[str, object] = {
        **_common(stage),
        **of_producer(stage, transactional_id),
        "key.serializer": f"{_BYTES}Serializer",
        "value.serializer": f"{_BYTES}Serializer",
        "max.block.ms": settings.max_block_ms,
    }
    if settings.metadata_max_age_ms is not None:
        config["metadata.max.age.ms"] = settings.metadata_max_age_ms
    try:
        return Producer(_bridge().call("producer", *_words(config))[0])
    except ClientError as error:
        if error.name == "ConfigException":
            raise SettingsRefusedError(str(error)) from error
        raise


def make_consumer(stage: Stage) -> Consumer:
    """Return a consumer of the stage's group, not subscribed yet."""
    settings = stage.settings.consumer
    config: dict[str, object] = {
        **_consuming(stage),
        **of_consumer(stage),
        "auto.offset.reset": settings.reset,
        "max.poll.records": settings.unit,
        "fetch.max.bytes": 1 if settings.unit == 1 else 1 << 20,
        "fetch.max.wait.ms": 100,
        "request.timeout.ms": settings.patience_ms,
    }
    if settings.metadata_max_age_ms is not None:
        config["metadata.max.age.ms"] = settings.metadata_max_age_ms
    return Consumer(_bridge().call("consumer", *_words(config))[0])


def make_sharer(stage: Stage) -> Sharer:
    """Return a reader of the stage's share group, not subscribed yet."""
    settings = stage.settings.consumer
    config: dict[str, object] = {
        **_consuming(stage),
        "group.id": stage.group,
        "share.acknowledgement.mode": "implicit" if settings.share.implicit else "explicit",
        "share.acquire.mode": "record_limit",
        "max.poll.records": settings.unit,
        "fetch.max.wait.ms": 100,
        "request.timeout.ms": settings.patience_ms,
    }
    return Sharer(_bridge().call("sharer", *_words(config))[0])


def last_committed(stage: Stage, topic: str) -> bytes | None:
    """Return the last value that a read-committed reader sees in a topic of one partition."""
    config = {
        **_consuming(stage),
        "client.id": f"{stage.client_id}.cursor",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.max.wait.ms": 50,
    }
    return decoded(_bridge().call("last", topic, *_words(config))[0])


class Pending:
    """A record that is being sent: a future in the JVM."""

    def __init__(self, producer: str, number: str) -> None:
        self._producer = producer
        self._number = number

    def wait(self, within_s: float) -> Stored:
        """Wait for the outcome that the client reports."""
        partition, offset = _bridge().call(
            "wait", self._producer, self._number, milliseconds(within_s)
        )
        return Stored(int(partition), int(offset))


class Producer:
    """A KafkaProducer of the JVM, by its number there."""

    def __init__(self, number: str) -> None:
        self._number = number

    def init_transactions(self) -> None:
        """Fence other producers with this transactional id."""
        _bridge().call("init", self._number)

    def begin(self) -> None:
        """Begin a transaction."""
        _bridge().call("begin", self._number)

    def commit(self) -> None:
        """Commit the transaction."""
        _bridge().call("commit", self._number)

    def abort(self) -> None:
        """Abort the transaction."""
        _bridge().call("abort", self._number)

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Add a group's positions to the transaction."""
        _bridge().call("offsets", self._number, topic, _positions(positions), membership.token)

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Pending:
        """Pass a record to the client."""
        words = [word for name, data in headers for word in (name, coded(data))]
        return Pending(
            self._number,
            _bridge().call("send", self._number, topic, coded(key), coded(value), *words)[0],
        )

    def close(self, within_s: float) -> None:
        """Close the producer."""
        _bridge().call("close", self._number, milliseconds(within_s))


class Consumer:
    """A KafkaConsumer of the JVM, by its number there."""

    def __init__(self, number: str) -> None:
        self._number = number

    def subscribe(self, topic: str, assigned: Callable[[list[int]], Mapping[int, int]]) -> None:
        """Join the group."""

        def known() -> bool:
            try:
                return _bridge().call("known", self._number, topic, milliseconds(METADATA_S)) != [
                    "0"
                ]
            except ClientError:
                return False

        wait_until(known, within_s=METADATA_S, because=topic, poll_s=0.05)
        _bridge().asked = lambda words: _positions(assigned(_numbers(words[0])))
        _bridge().call("subscribe", self._number, topic)

    def poll(self, most: int, within_s: float) -> list[Delivered]:  # noqa: ARG002 - max.poll.records bounds it
        """Return the records that have arrived."""
        return list(_delivered(_bridge().call("poll", self._number, milliseconds(within_s))))

    def commit(self, topic: str, positions: Position, within_s: float) -> None:
        """Save positions and wait for the answer."""
        _bridge().call("commit", self._number, topic, _positions(positions), milliseconds(within_s))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue reading the partition at an offset."""
        _bridge().call("seek", self._number, topic, partition, offset)

    def assignment(self) -> frozenset[int]:
        """Return the partitions that are assigned to this consumer now."""
        return frozenset(_numbers(_bridge().call("assignment", self._number)[0]))

    def position(self, _topic: str, _partition: int) -> int | None:
        """Return ``None``: this client asks its group for the position."""
        return None

    def membership(self) -> Membership:
        """Return the current group metadata."""
        token, generation = _bridge().call("membership", self._number)
        return Membership(token, int(generation) >= 0)


class Sharer:
    """A KafkaShareConsumer of the JVM, by its number there."""

    def __init__(self, number: str) -> None:
        self._number = number

    def subscribe(self, topic: str) -> None:
        """Join the group."""
        _bridge().call("subscribe", self._number, topic)

    def poll(self, within_s: float) -> list[Delivered]:
        """Return the records that have arrived."""
        words = _bridge().call("poll", self._number, milliseconds(within_s))
        return [
            Delivered(
                topic,
                int(partition),
                int(epoch),
                int(offset),
                decoded(key),
                decoded(value) or b"",
                int(deliveries),
            )
            for topic, partition, epoch, offset, deliveries, key, value in zip(
                *[iter(words)] * 7, strict=True
            )
        ]

    def answer(self, message: Delivered, answer: Answer) -> None:
        """Set the answer for a record."""
        _bridge().call(
            "acknowledge", self._number, message.topic, message.partition, message.offset, answer
        )

    def commit(self, within_s: float) -> None:
        """Send the answers, and wait for the brokers' results."""
        _bridge().call("commit", self._number, milliseconds(within_s))


def _common(stage: Stage) -> dict[str, object]:
    return {
        **_PATIENCE,
        "bootstrap.servers": stage.bootstrap,
        "client.id": stage.client_id,
        **_let_in(stage),
    }


def _let_in(stage: Stage) -> dict[str, str]:
    access = Access.read(stage.access)
    return access.for_java() if access else {}


def _consuming(stage: Stage) -> dict[str, object]:
    return {
        **_common(stage),
        "key.deserializer": f"{_BYTES}Deserializer",
        "value.deserializer": f"{_BYTES}Deserializer",
        "allow.auto.create.topics": False,
    }


def _words(config: Mapping[str, object]) -> list[str]:
    return [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in config.items()
    ]


def _delivered(words: Sequence[str]) -> Iterator[Delivered]:
    for topic, partition, epoch, offset, key, value in zip(*[iter(words)] * 6, strict=True):
        yield Delivered(
            topic, int(partition), int(epoch), int(offset), decoded(key), decoded(value) or b""
        )


def _positions(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}={offset}" for partition, offset in positions.items())


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]

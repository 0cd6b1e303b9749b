"""The clients of an observer: connections to brokers over a listener that the wire does not read.

Every call holds the lock. After the death of a broker the connections are closed and made anew.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidReplicationAssignmentError,
    InvalidReplicationFactorError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NotCoordinatorError,
    TopicAlreadyExistsError,
    UnknownBrokerIdError,
)

from harness.model.failures import CellFailure
from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka.consumer.fetcher import ConsumerRecord

    from harness.stages.access import Access

_Asked = ParamSpec("_Asked")
_Seen = TypeVar("_Seen")
_Of = TypeVar("_Of", bound="Clients")
PROBE_TOPIC = "lostack.probe"
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
QUIET = {"metrics_enabled": False}


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


def patiently(
    look: Callable[Concatenate[_Of, _Asked], _Seen],
) -> Callable[Concatenate[_Of, _Asked], _Seen]:
    """Repeat a call while the cluster lacks a broker: a busy machine delays its heartbeat, so a
    living broker may be fenced.

    After an error of outdated metadata the call is repeated with a new client.

    Raises:
        CellFailure: the cluster does not allow it.
    """

    @functools.wraps(look)
    def patient(self: _Of, /, *args: _Asked.args, **kwargs: _Asked.kwargs) -> _Seen:
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
            except AuthorizationError as error:
                raise CellFailure(
                    "lostack's log-in has no right to what it asked the cluster for "
                    f"({look.__name__.replace('_', ' ')}: {type(error).__name__}): give it that "
                    "right (docs/attach.md)"
                ) from error
            return True

        wait_until(
            once, within_s=READY_S, because="the broker to be registered in its cluster again"
        )
        return seen[0]

    return patient


class Clients:
    """Connections to a broker or cluster, which are opened when they are needed.

    ``check`` raises if the runtime broke; ``access``: the broker's credentials.
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

    def _make(self, topics: Mapping[str, Mapping[str, object]]) -> None:
        with self._lock:
            self._admin_client().create_topics(topics, wait_for_metadata=True)

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
                **self._client | QUIET | {"bootstrap_timeout_ms": 1500},
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
            reader = KafkaConsumer(
                **self._client,
                **QUIET,
                bootstrap_servers=self._bootstrap,
                isolation_level=isolation,
                enable_auto_commit=False,
                fetch_max_wait_ms=20,
                group_id=None,
            )
            # else a reader that asks for a topic once more makes it anew where it was just deleted,
            # if the broker does so (auto.create.topics.enable); the client's own setting for this
            # has no effect (kafka-python 3.0.12)
            known = reader._client.cluster.config  # noqa: SLF001
            known["allow_auto_create_topics"] = False
            self._readers[isolation] = reader
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

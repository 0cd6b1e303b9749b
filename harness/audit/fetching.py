"""One partition of a topic, fetch by fetch, straight from its leader: for listeners without encryption or log-in.

The next fetch is asked for before the one at hand is read. Everything else (encryption, log-in, brokers before Kafka 2.3) is
left to Spark's own connector.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka import errors
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.audit.answers import FETCH_VERSION, fetched_part
from harness.audit.batches import DamagedBatchError, next_offset, read
from harness.audit.links import FETCH_BYTES, METADATA_VERSION, PATIENCE_S, Link, metadata_request, need, servers_of
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.audit.answers import Fetched
    from harness.audit.batches import Records

WAIT_MS: Final = 500
ASK_AGAIN_S: Final = 0.2
MOVED: Final = {
    "NotLeaderForPartitionError", "LeaderNotAvailableError", "UnknownTopicOrPartitionError", "ReplicaNotAvailableError",
    "FencedLeaderEpochError", "UnknownLeaderEpochError", "KafkaStorageError", "OffsetNotAvailableError", "UnknownServerError",
    "UnknownTopicIdError",
}  # fmt: skip


class Stretch(NamedTuple):
    """Offsets of one partition that are to be read, ``end`` not among them; ``servers`` are host:port, by commas."""

    servers: str
    topic: str
    partition: int
    first: int
    end: int


class UnreadableError(Exception):
    """A partition cannot be read whole: one line that says which, and why."""


class _Moved(Exception):  # noqa: N818 - no error: asked elsewhere
    """The broker that was asked is not the one, or not any more."""


def fetched(stretch: Stretch) -> Iterator[Records]:
    """Read a stretch, committed, in order, some megabytes at a time. Records are true until the next ones are asked for.

    Raises:
        UnreadableError: the stretch cannot be read whole.
        NotOursToReadError: the Java client should read it.
    """
    at = stretch.first
    deadline = time.monotonic() + PATIENCE_S
    while at < stretch.end:
        why = "it gives nothing"
        try:
            with contextlib.closing(_leader(stretch)) as link:
                for records, behind in _from_leader(link, stretch, at):
                    deadline = time.monotonic() + PATIENCE_S
                    at = behind
                    yield records
        except (_Moved, OSError) as error:
            why = str(error)
            _await_answer(stretch, at)
        if at < stretch.end and time.monotonic() > deadline:
            raise _given_up(stretch, at, why)


def _await_answer(stretch: Stretch, at: int) -> None:
    """Wait until a leader answers without refusing: an election is known here sooner than there. Raises UnreadableError."""
    said = "nobody leads it"

    def answers() -> bool:
        nonlocal said
        try:
            with contextlib.closing(_leader(stretch)) as link:
                link.send(_request(stretch, at))
                _part(link, stretch, at)
        except (_Moved, OSError) as error:
            said = str(error)
            return False
        return True

    try:
        wait_until(answers, within_s=PATIENCE_S, because="a leader that answers", poll_s=ASK_AGAIN_S)
    except WaitTimeoutError:
        raise _given_up(stretch, at, said) from None


def _given_up(stretch: Stretch, at: int, why: str) -> UnreadableError:
    return UnreadableError(f"partition {stretch.partition} of {stretch.topic} cannot be read from offset {at} on: {why}")


def _part(link: Link, stretch: Stretch, at: int) -> Fetched:
    """Return what a fetch brought of the partition; raise what its error means."""
    part = fetched_part(*link.answer())
    if part.error:
        _refused(part.error, stretch, at)
    return part


def _from_leader(link: Link, stretch: Stretch, at: int) -> Iterator[tuple[Records, int]]:
    """Read on from an offset while this broker leads: records, and the offset behind them. Ends where nothing comes any more."""
    link.send(_request(stretch, at))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        part = _part(link, stretch, at)
        behind = next_offset(part.data, part.at, part.end)
        if behind is None:
            if time.monotonic() > deadline:
                return
            link.send(_request(stretch, at))
            continue
        begin, at = at, behind
        if at < stretch.end:
            link.send(_request(stretch, at))
        try:
            records = read(part.data, part.aborted, part.at, part.end).between(begin, stretch.end)
        except DamagedBatchError as error:
            raise UnreadableError(f"partition {stretch.partition} of {stretch.topic}: {error}") from None
        yield records, at
        if at >= stretch.end:
            return
        deadline = time.monotonic() + PATIENCE_S


def _refused(code: int, stretch: Stretch, at: int) -> None:
    """Raise what an error of the broker means."""
    kind = errors.for_code(code)
    name = kind.__name__
    if name in MOVED:
        raise _Moved(name)
    if kind is errors.OffsetOutOfRangeError:
        name = "it is gone (retention), or was never there"
    raise UnreadableError(f"partition {stretch.partition} of {stretch.topic} cannot be read at offset {at}: {name}")


def _request(stretch: Stretch, at: int) -> Any:
    topic = FetchRequest.FetchTopic(version=FETCH_VERSION, topic=stretch.topic, partitions=[
        FetchRequest.FetchTopic.FetchPartition(
            version=FETCH_VERSION, partition=stretch.partition, current_leader_epoch=-1, fetch_offset=at,
            log_start_offset=-1, partition_max_bytes=FETCH_BYTES,
        )
    ])  # fmt: skip
    return FetchRequest(
        version=FETCH_VERSION, replica_id=-1, max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=1,
        session_id=0, session_epoch=-1, topics=[topic], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip


def _leader(stretch: Stretch) -> Link:
    """Connect to whoever leads the partition, as soon as somebody does. Raises UnreadableError after PATIENCE_S."""
    said = "no broker answers"

    def connected() -> Link | None:
        nonlocal said
        for host, port in servers_of(stretch.servers):
            try:
                with contextlib.closing(Link(host, port)) as link:
                    leader = _asked(link, stretch)
                if leader is not None:
                    return Link(*leader)
                said = "nobody leads it"
            except OSError as error:
                said = str(error)
        return None

    try:
        return wait_until(connected, within_s=PATIENCE_S, because="a leader", poll_s=ASK_AGAIN_S)
    except WaitTimeoutError:
        raise UnreadableError(f"partition {stretch.partition} of {stretch.topic} cannot be read: {said}") from None


def _asked(link: Link, stretch: Stretch) -> tuple[str, int] | None:
    """Ask one broker who leads. Raises NotOursToReadError for a broker that is too old."""
    need(link, (FetchRequest, FETCH_VERSION), (MetadataRequest, METADATA_VERSION))
    answer = link.ask(metadata_request(stretch.topic), MetadataResponse, METADATA_VERSION)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.partition_index == stretch.partition:
                return brokers.get(part.leader_id)
    return None

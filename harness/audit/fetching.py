"""Reads one partition of a topic directly from its leader, for listeners without encryption or
log-in.

The next fetch is requested before the current one is read. Everything else (encryption, log-in,
brokers before Kafka 2.3) is left to Spark's own connector.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.audit.answers import fetched_part
from harness.audit.batches import next_offset, read
from harness.audit.links import FETCH_BYTES, PATIENCE_S, Link, need, servers_of
from harness.audit.messages import FETCH, METADATA, fetch_request, metadata, metadata_request
from harness.audit.places import DamagedBatchError
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.audit.answers import Fetched
    from harness.audit.batches import Records
    from harness.audit.messages import Request

WAIT_MS: Final = 500
ASK_AGAIN_S: Final = 0.2
MOVED: Final = {
    "NotLeaderForPartitionError",
    "LeaderNotAvailableError",
    "UnknownTopicOrPartitionError",
    "ReplicaNotAvailableError",
    "FencedLeaderEpochError",
    "UnknownLeaderEpochError",
    "KafkaStorageError",
    "OffsetNotAvailableError",
    "UnknownServerError",
    "UnknownTopicIdError",
}


class OffsetRange(NamedTuple):
    """The offsets of one partition to read, from ``first`` to before ``end``; ``servers`` are
    host:port, separated by commas.
    """

    servers: str
    topic: str
    partition: int
    first: int
    end: int


class UnreadableError(Exception):
    """A partition cannot be read completely; the message is one line that says which, and why."""


class _Moved(Exception):  # noqa: N818 - no error: asked elsewhere
    """The broker that was asked does not lead the partition, or does not any more."""


def fetched(stretch: OffsetRange) -> Iterator[Records]:
    """Yield the committed records of a stretch, in order, some megabytes at a time. Each item is
    valid until the next one.

    Raises:
        UnreadableError: the stretch cannot be read completely.
        NotOursToReadError: the Java client should read it.
    """
    at = stretch.first
    deadline = time.monotonic() + PATIENCE_S
    while at < stretch.end:
        why = "its leader returns no records"
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


def _await_answer(stretch: OffsetRange, at: int) -> None:
    """Wait until a leader answers without an error, as after an election.

    Raises:
        UnreadableError: no leader answered within PATIENCE_S seconds.
    """
    said = "it has no leader"

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
        wait_until(
            answers, within_s=PATIENCE_S, because="a leader that answers", poll_s=ASK_AGAIN_S
        )
    except WaitTimeoutError:
        raise _given_up(stretch, at, said) from None


def _given_up(stretch: OffsetRange, at: int, why: str) -> UnreadableError:
    return UnreadableError(
        f"partition {stretch.partition} of {stretch.topic} cannot be read from offset {at} on: "
        f"{why}"
    )


def _part(link: Link, stretch: OffsetRange, at: int) -> Fetched:
    """Return the result of a fetch, or raise the error that it reports."""
    part = fetched_part(*link.answer())
    if part.error:
        _refused(part.error, stretch, at)
    return part


def _from_leader(link: Link, stretch: OffsetRange, at: int) -> Iterator[tuple[Records, int]]:
    """Yield records from an offset on, each with the offset after it, until this broker returns
    none for PATIENCE_S seconds.
    """
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
            raise UnreadableError(
                f"partition {stretch.partition} of {stretch.topic}: {error}"
            ) from None
        yield records, at
        if at >= stretch.end:
            return
        deadline = time.monotonic() + PATIENCE_S


def _refused(code: int, stretch: OffsetRange, at: int) -> None:
    """Raise the exception for an error of the broker."""
    from kafka import errors  # noqa: PLC0415 - a third of a second, for a fetch that is refused

    name = errors.for_code(code).__name__
    if name in MOVED:
        raise _Moved(name)
    if name == "OffsetOutOfRangeError":
        name = "it is gone (retention), or was never there"
    raise UnreadableError(
        f"partition {stretch.partition} of {stretch.topic} cannot be read at offset {at}: {name}"
    )


def _request(stretch: OffsetRange, at: int) -> Request:
    return fetch_request(
        stretch.topic, stretch.partition, at, wait_ms=WAIT_MS, most_bytes=FETCH_BYTES
    )


def _leader(stretch: OffsetRange) -> Link:
    """Connect to the leader of the partition, and wait for one if there is none.

    Raises:
        UnreadableError: there was no leader within PATIENCE_S seconds.
    """
    said = "no broker answers"

    def connected() -> Link | None:
        nonlocal said
        for host, port in servers_of(stretch.servers):
            try:
                with contextlib.closing(Link(host, port)) as link:
                    leader = _asked(link, stretch)
                if leader is not None:
                    return Link(*leader)
                said = "it has no leader"
            except OSError as error:
                said = str(error)
        return None

    try:
        return wait_until(connected, within_s=PATIENCE_S, because="a leader", poll_s=ASK_AGAIN_S)
    except WaitTimeoutError:
        raise UnreadableError(
            f"partition {stretch.partition} of {stretch.topic} cannot be read: {said}"
        ) from None


def _asked(link: Link, stretch: OffsetRange) -> tuple[str, int] | None:
    """Ask one broker for the leader's host and port; ``None`` if there is no leader."""
    need(link, FETCH, METADATA)
    told = link.ask(metadata_request(stretch.topic), metadata)
    leaders = [leader for partition, leader in told.partitions if partition == stretch.partition]
    return told.brokers.get(leaders[0]) if leaders else None

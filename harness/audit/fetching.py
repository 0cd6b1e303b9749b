"""One partition of a topic, fetch by fetch, straight from its leader: for listeners without encryption or log-in.

The next fetch is asked for before the one at hand is read. Everything else (encryption, log-in, brokers before Kafka 2.3) is
left to Spark's own connector.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka import errors
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from harness.audit.batches import DamagedBatchError, NotOursToReadError, next_offset, read
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.audit.batches import Records

FETCH_VERSION: Final = 11
"""The first that knows every compression (10) and the last that Kafka 2.3 knows."""
METADATA_VERSION: Final = 5
FETCH_BYTES: Final = 8 << 20
ROOM_BESIDE: Final = 1 << 16
CORRELATION: Final = 4
"""Bytes of an answer's header, in the versions that are spoken here."""
WAIT_MS: Final = 500
PATIENCE_S: Final = 30.0
"""How long a partition may give nothing before it counts as not readable: longer than the election of a leader."""
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


class _Link:
    """A connection to one broker, one request at a time (or one ahead)."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._sent = 0
        self._room = bytearray(FETCH_BYTES + ROOM_BESIDE)  # new room for each answer would cost more than to read it

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any) -> None:
        self._sent += 1
        request.with_header(correlation_id=self._sent, client_id="lostack-audit")
        self._socket.sendall(request.encode(header=True, framed=True))

    def receive(self, kind: Any, version: int) -> Any:
        """Return the answer to the oldest request; what it holds is its own, for the room is used again."""
        answer = self._exactly(int.from_bytes(self._exactly(4), "big"))
        return kind.decode(answer[CORRELATION:], version=version)

    def ask(self, request: Any, kind: Any, version: int) -> Any:
        self.send(request)
        return self.receive(kind, version)

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._room):
            self._room = bytearray(size)
        view, at = memoryview(self._room)[:size], 0
        while at < size:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got
        return view


def fetched(stretch: Stretch) -> Iterator[Records]:
    """Read a stretch, committed, in order, some megabytes at a time.

    Raises UnreadableError where it cannot be read whole, NotOursToReadError where the Java client should read it.
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
                _part(link.receive(FetchResponse, FETCH_VERSION), stretch, at)
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


def _part(answer: Any, stretch: Stretch, at: int) -> Any:
    """Return what a fetch brought of the partition; raise what its error means."""
    if answer.error_code or not answer.responses:
        _refused(answer.error_code, stretch, at)
    part = answer.responses[0].partitions[0]
    if part.error_code:
        _refused(part.error_code, stretch, at)
    return part


def _from_leader(link: _Link, stretch: Stretch, at: int) -> Iterator[tuple[Records, int]]:
    """Read on from an offset while this broker leads: records, and the offset behind them. Ends where nothing comes any more."""
    link.send(_request(stretch, at))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        part = _part(link.receive(FetchResponse, FETCH_VERSION), stretch, at)
        data = bytes(part.records or b"")
        behind = next_offset(data)
        if behind is None:
            if time.monotonic() > deadline:
                return
            link.send(_request(stretch, at))
            continue
        begin, at = at, behind
        if at < stretch.end:
            link.send(_request(stretch, at))
        aborted = [(gone.first_offset, gone.producer_id) for gone in part.aborted_transactions or ()]
        try:
            records = read(data, aborted).between(begin, stretch.end)
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


def _leader(stretch: Stretch) -> _Link:
    """Connect to whoever leads the partition, as soon as somebody does. Raises UnreadableError after PATIENCE_S."""
    said = "no broker answers"

    def connected() -> _Link | None:
        nonlocal said
        for server in stretch.servers.split(","):
            host, _, port = server.rpartition(":")
            try:
                with contextlib.closing(_Link(host.strip("[]"), int(port))) as link:
                    leader = _asked(link, stretch)
                if leader is not None:
                    return _Link(*leader)
                said = "nobody leads it"
            except OSError as error:
                said = str(error)
        return None

    try:
        return wait_until(connected, within_s=PATIENCE_S, because="a leader", poll_s=ASK_AGAIN_S)
    except WaitTimeoutError:
        raise UnreadableError(f"partition {stretch.partition} of {stretch.topic} cannot be read: {said}") from None


def _asked(link: _Link, stretch: Stretch) -> tuple[str, int] | None:
    """Ask one broker who leads. Raises NotOursToReadError for a broker that is too old."""
    spoken = link.ask(ApiVersionsRequest(version=0), ApiVersionsResponse, 0)
    versions = {api.api_key: (api.min_version, api.max_version) for api in spoken.api_keys}
    for kind, version in ((FetchRequest, FETCH_VERSION), (MetadataRequest, METADATA_VERSION)):
        low, high = versions.get(kind.API_KEY, (0, -1))
        if not low <= version <= high:
            raise NotOursToReadError(f"the broker does not speak {kind.name} {version}")
    name = MetadataRequest.MetadataRequestTopic(version=METADATA_VERSION, name=stretch.topic)
    request = MetadataRequest(version=METADATA_VERSION, topics=[name], allow_auto_topic_creation=False)
    answer = link.ask(request, MetadataResponse, METADATA_VERSION)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.partition_index == stretch.partition:
                return brokers.get(part.leader_id)
    return None

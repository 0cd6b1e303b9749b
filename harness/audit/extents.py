"""What there is to read of a topic: asked of the brokers first, without a JVM.

The offsets are fixed before the first pass, so that every pass reads the same; and what a read-committed reader cannot
see, or what is gone, is said instead of being taken for lost.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.audit.failures import AuditError
from harness.audit.spec import shown
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.audit.links import Link
    from harness.audit.spec import Rows

ANSWER_WITHIN_MS: Final = 15_000
ASK_AGAIN_S: Final = 0.2
OFFSETS_VERSION: Final = 3
CONFIGS_VERSION: Final = 1
EARLIEST, LATEST = -2, -1
COMMITTED, UNCOMMITTED = 1, 0
TOPIC: Final = 2
"""The kind of a resource with a configuration."""
FINAL: Final = {
    "TopicAuthorizationFailedError": "no permission to read it",
    "ClusterAuthorizationFailedError": "no permission to read it",
    "InvalidTopicError": "that is no name of a topic",
    "UnknownTopicOrPartitionError": "there is no such topic",
}
"""What will be no different a moment later."""


@dataclass(frozen=True, slots=True)
class Extent:
    """From where to where a topic is read, per partition, and why that may not be everything."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    doubts: tuple[str, ...]

    @property
    def starting(self) -> str:
        """As Spark wants it: JSON."""
        return json.dumps({self.topic: {str(p): at for p, at in self.starts.items()}})

    @property
    def ending(self) -> str:
        """As Spark wants it: JSON."""
        return json.dumps({self.topic: {str(p): at for p, at in self.ends.items()}})


def extent_from(
    topic: str, starts: Mapping[int, int], stable: Mapping[int, int], ends: Mapping[int, int], *, compacted: bool
) -> Extent:
    """Put an extent together, given per partition the first offset, the last stable one and the last one."""
    doubts = [
        *(f"partition {p} of {topic} begins at offset {at}: what stood before is gone" for p, at in starts.items() if at > 0),
        *(
            f"partition {p} of {topic} has {ends[p] - at} offsets behind an open transaction"
            for p, at in stable.items()
            if ends[p] > at
        ),
    ]
    if compacted:
        doubts.append(f"{topic} is compacted: copies may be gone")
    return Extent(topic, starts, stable, tuple(doubts))


def extent_by_brokers(side: Rows) -> Extent:
    """Ask the brokers themselves.

    Raises:
        AuditError: no broker answers, or none may.
        NotOursToReadError: a broker is too old.
    """
    said = "no broker answers there"

    def asked() -> Extent | None:
        nonlocal said
        try:
            return _extent(side)
        except _NotYetError as error:
            said = str(error)
        except OSError:
            said = "no broker answers there"
        return None

    try:
        within_s = ANSWER_WITHIN_MS / 1000
        return wait_until(asked, within_s=within_s, because="the brokers' answers", poll_s=ASK_AGAIN_S)
    except WaitTimeoutError:
        raise AuditError(f"cannot read {shown(side.text)}: {said}") from None


class _NotYetError(Exception):
    """A broker cannot say it now."""


def _extent(side: Rows) -> Extent:
    from kafka.protocol.admin.configs import DescribeConfigsRequest  # noqa: PLC0415 - a quarter of a second
    from kafka.protocol.consumer.offsets import ListOffsetsRequest  # noqa: PLC0415
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse  # noqa: PLC0415

    from harness.audit.links import METADATA_VERSION, metadata_request, need  # noqa: PLC0415

    with contextlib.closing(_any_broker(side)) as link:
        need(
            link, (MetadataRequest, METADATA_VERSION), (ListOffsetsRequest, OFFSETS_VERSION),
            (DescribeConfigsRequest, CONFIGS_VERSION),
        )  # fmt: skip
        answer = link.ask(metadata_request(side.topic), MetadataResponse, METADATA_VERSION)
        for topic in answer.topics:
            _sound(side, topic.error_code)
        compacted = _compacted(link, side.topic)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    led: dict[tuple[str, int], list[int]] = {}
    for part in answer.topics[0].partitions:
        if part.leader_id not in brokers:
            raise _NotYetError(f"nobody leads partition {part.partition_index}")
        led.setdefault(brokers[part.leader_id], []).append(part.partition_index)
    starts, stable, ends = (
        _offsets(side, led, time=time, isolation=isolation)
        for time, isolation in ((EARLIEST, COMMITTED), (LATEST, COMMITTED), (LATEST, UNCOMMITTED))
    )
    return extent_from(side.topic, starts, stable, ends, compacted=compacted)


def _any_broker(side: Rows) -> Link:
    from harness.audit.links import Link, servers_of  # noqa: PLC0415

    failed: OSError | None = None
    for host, port in servers_of(side.at):
        try:
            return Link(host, port)
        except OSError as error:
            failed = error
    raise failed or OSError("no broker is named")


def _sound(side: Rows, code: int) -> None:
    """Raise what an error means: AuditError for one that stays, _NotYetError for others."""
    if not code:
        return
    from kafka import errors  # noqa: PLC0415

    name = errors.for_code(code).__name__
    if name in FINAL:
        raise AuditError(f"cannot read {shown(side.text)}: {FINAL[name]}")
    raise _NotYetError(name)


def _offsets(side: Rows, led: Mapping[tuple[str, int], Iterable[int]], *, time: int, isolation: int) -> dict[int, int]:
    """Ask each leader for an offset of each of its partitions."""
    from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse  # noqa: PLC0415

    from harness.audit.links import Link  # noqa: PLC0415

    kind = ListOffsetsRequest.ListOffsetsTopic
    found: dict[int, int] = {}
    for (host, port), partitions in led.items():
        wanted = [kind.ListOffsetsPartition(version=OFFSETS_VERSION, partition_index=one, timestamp=time) for one in partitions]
        request = ListOffsetsRequest(
            version=OFFSETS_VERSION, replica_id=-1, isolation_level=isolation,
            topics=[kind(version=OFFSETS_VERSION, name=side.topic, partitions=wanted)],
        )  # fmt: skip
        with contextlib.closing(Link(host, port)) as link:
            answer = link.ask(request, ListOffsetsResponse, OFFSETS_VERSION)
        for part in answer.topics[0].partitions:
            _sound(side, part.error_code)
            found[part.partition_index] = part.offset
    return dict(sorted(found.items()))


def _compacted(link: Link, topic: str) -> bool:
    """Whether old copies of a key may be removed; not known (False) where the configuration may not be read."""
    from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse  # noqa: PLC0415

    resource = DescribeConfigsRequest.DescribeConfigsResource(
        version=CONFIGS_VERSION, resource_type=TOPIC, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    request = DescribeConfigsRequest(version=CONFIGS_VERSION, resources=[resource], include_synonyms=False)
    answer: Any = link.ask(request, DescribeConfigsResponse, CONFIGS_VERSION)
    return any("compact" in (entry.value or "") for result in answer.results for entry in result.configs)

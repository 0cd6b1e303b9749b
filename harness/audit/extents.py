"""The extent of a topic, from its brokers: the offsets to read, and the reasons why they may not be
all. It needs no JVM.

The offsets are fixed before the first pass, so that every pass reads the same records. Records that
a read-committed reader cannot see, and records that were deleted, are reported as doubts and not
counted as lost.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.audit.failures import AuditError
from harness.audit.links import Link, need, servers_of
from harness.audit.messages import (
    COMMITTED,
    DESCRIBE_CONFIGS,
    LIST_OFFSETS,
    METADATA,
    UNCOMMITTED,
    config_request,
    config_values,
    metadata,
    metadata_request,
    offsets,
    offsets_request,
)
from harness.audit.spec import shown
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.audit.spec import Rows

ANSWER_WITHIN_MS: Final = 15_000
ASK_AGAIN_S: Final = 0.2
EARLIEST, LATEST = -2, -1
POLICY: Final = "cleanup.policy"
FINAL: Final = {
    "TopicAuthorizationFailedError": "no permission to read it",
    "ClusterAuthorizationFailedError": "no permission to read it",
    "InvalidTopicError": "this is not a valid name of a topic",
    "UnknownTopicOrPartitionError": "there is no such topic",
}
"""Errors that do not go away by themselves, and the words for them."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets to read of a topic, by partition, and why they may not be all (``doubts``).

    ``starts``: the first offset; ``ends``: the offset after the last one.
    """

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    doubts: tuple[str, ...]

    @property
    def starting(self) -> str:
        """The first offsets as JSON, for Spark's option ``startingOffsets``."""
        return json.dumps({self.topic: {str(p): at for p, at in self.starts.items()}})

    @property
    def ending(self) -> str:
        """The ends as JSON, for Spark's option ``endingOffsets``."""
        return json.dumps({self.topic: {str(p): at for p, at in self.ends.items()}})


def extent_from(
    topic: str,
    starts: Mapping[int, int],
    stable: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    compacted: bool,
) -> Extent:
    """Return the extent, given for each partition the first offset, the last stable offset and the
    end of the log.

    ``ends`` must be asked for before ``stable``: else records that arrive in between look like an
    open transaction.
    """
    doubts = [
        *(
            f"partition {p} of {topic} begins at offset {at}: earlier records were deleted"
            for p, at in starts.items()
            if at > 0
        ),
        *(
            f"partition {p} of {topic} has {ends[p] - at} offsets behind an open transaction"
            for p, at in stable.items()
            if ends[p] > at
        ),
    ]
    if compacted:
        doubts.append(f"{topic} is compacted: copies may have been removed")
    return Extent(topic, starts, stable, tuple(doubts))


def extent_by_brokers(side: Rows) -> Extent:
    """Ask the brokers for the extent of a topic.

    Raises:
        AuditError: no broker answers, or they do not permit it.
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
        return wait_until(
            asked, within_s=within_s, because="the brokers' answers", poll_s=ASK_AGAIN_S
        )
    except WaitTimeoutError:
        raise AuditError(f"cannot read {shown(side.text)}: {said}") from None


class _NotYetError(Exception):
    """A broker cannot answer the question now."""


def _extent(side: Rows) -> Extent:
    with contextlib.closing(_any_broker(side)) as link:
        need(link, METADATA, LIST_OFFSETS, DESCRIBE_CONFIGS)
        told = link.ask(metadata_request(side.topic), metadata)
        _sound(side, told.error)
        # whether old copies of a key may be removed; not known where the configuration may not be
        # read
        compacted = any(
            "compact" in value
            for value in link.ask(config_request(side.topic, POLICY), config_values)
        )
    led: dict[tuple[str, int], list[int]] = {}
    for partition, leader in told.partitions:
        if leader not in told.brokers:
            raise _NotYetError(f"partition {partition} has no leader")
        led.setdefault(told.brokers[leader], []).append(partition)
    starts, ends, stable = (
        _offsets(side, led, time=time, isolation=isolation)
        for time, isolation in ((EARLIEST, COMMITTED), (LATEST, UNCOMMITTED), (LATEST, COMMITTED))
    )
    return extent_from(side.topic, starts, stable, ends, compacted=compacted)


def _any_broker(side: Rows) -> Link:
    failed: OSError | None = None
    for host, port in servers_of(side.at):
        try:
            return Link(host, port)
        except OSError as error:
            failed = error
    raise failed or OSError("the SPEC names no broker")


def _sound(side: Rows, code: int) -> None:
    """Check the error code of an answer.

    Raises:
        AuditError: the error does not go away by itself.
        _NotYetError: the error may go away.
    """
    if not code:
        return
    from kafka import errors  # noqa: PLC0415 - a third of a second, for what is refused

    name = errors.for_code(code).__name__
    if name in FINAL:
        raise AuditError(f"cannot read {shown(side.text)}: {FINAL[name]}")
    raise _NotYetError(name)


def _offsets(
    side: Rows, led: Mapping[tuple[str, int], Iterable[int]], *, time: int, isolation: int
) -> dict[int, int]:
    """Ask each leader for an offset of each of its partitions."""
    found: dict[int, int] = {}
    for (host, port), partitions in led.items():
        with contextlib.closing(Link(host, port)) as link:
            answer = link.ask(
                offsets_request(side.topic, partitions, time=time, isolation=isolation), offsets
            )
        for partition, error, offset in answer:
            _sound(side, error)
            found[partition] = offset
    return dict(sorted(found.items()))

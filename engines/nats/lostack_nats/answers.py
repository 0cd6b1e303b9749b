"""What the answers of JetStream's API say of a stream and its consumers. Without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.model.takeovers import Led
from lostack_nats.blocks import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Told = Mapping[str, Any]


def led_in(log: str, told: Told, servers: Sequence[str]) -> Led:
    """Return who leads a stream, or a consumer, and which copies are not in sync."""
    cluster = told.get("cluster") or {}
    behind = (
        each["name"]
        for each in cluster.get("replicas") or ()
        if not each["current"] or each.get("offline") or each.get("lag")
    )
    return Led(log, cluster.get("leader", ""), tuple(servers), tuple(behind))


def slowest(consumers: Sequence[Told]) -> Told | None:
    """Return the consumer that has most to do; ``None``: there is none."""
    return max(
        consumers, key=lambda each: each["num_pending"] + each["num_ack_pending"], default=None
    )


def reader_in(told: Told) -> Reader | None:
    """Return how far a consumer is; ``None``: these numbers do not say what is pending."""
    floor, given = told["ack_floor"]["stream_seq"], told["delivered"]["stream_seq"]
    if told["num_ack_pending"] not in (0, given - floor):
        return None
    pending = range(floor + 1, given + 1) if told["num_ack_pending"] else ()
    return Reader(floor, given, frozenset(pending))

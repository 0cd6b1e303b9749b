"""The lines of brokers of queues in the table of the common points: by the protocol, with what only
one broker has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.interfaces import PointsLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BY_CLIENT: Final = {
    "stomp.py": (
        "STOMP",
        "no receipt, `ack:auto`; ¹ receipt, no resend, ACK before the work",
        "receipt, resend; `ack:client-individual`, ACK after the work",
    ),
    "core": (
        "Core (JMS)",
        (
            "sends do not block, `AUTO_ACKNOWLEDGE` blocks; ¹ sends block, no resend, acknowledged "
            "before the work"
        ),
        "sends block, resend; `INDIVIDUAL_ACKNOWLEDGE` after the work",
    ),
    "openwire": (
        "OpenWire",
        (
            "sends without an answer, `AUTO_ACKNOWLEDGE` with one; ¹ sends with an answer, no "
            "resend, acknowledged before the work"
        ),
        "sends with an answer, resend; acknowledged one by one after the work",
    ),
    "amqp": (
        "AMQP 1.0",
        "presettled on both sides; ¹ settled by the broker, no resend, accepted before the work",
        "settled by the broker, resend; accepted one by one after the work",
    ),
}
"""By client: its protocol, and the settings that make at-most-once and at-least-once."""


def queue_points(
    product: str, pipeline: str, clients: Iterable[str], exactly_once: str
) -> Iterator[PointsLine]:
    """Yield the line of each client. ``exactly_once``: the settings that make it with this
    broker.
    """
    for client in clients:
        protocol, at_most_once, at_least_once = _BY_CLIENT[client]
        settings = (at_most_once, at_least_once, exactly_once)
        yield PointsLine(f"{product}, {protocol}", pipeline, client, settings)

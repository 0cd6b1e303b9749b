"""Settings for consumers of a broker that pushes messages: part of :mod:`.settings`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Acknowledge(StrEnum):
    """How a client of a queue acknowledges received messages (the modes of JMS).

    The library acknowledges: before it passes a message to the program (AUTO), at some later time
    (DUPS_OK), or for many messages at once (OPTIMIZED: ActiveMQ's ``optimizeAcknowledge``). The
    program acknowledges: for all messages of its session (CLIENT), for one message (INDIVIDUAL: not
    part of JMS, but every library has it), or by the commit of the session's transaction
    (TRANSACTED). The broker takes a message for acknowledged before it delivers it (BEFORE:
    Artemis' PRE_ACKNOWLEDGE).
    """

    AUTO = "auto"
    BEFORE = "before"
    DUPS_OK = "dups-ok"
    OPTIMIZED = "optimized"
    CLIENT = "client"
    INDIVIDUAL = "individual"
    TRANSACTED = "transacted"


BY_LIBRARY: Final = {
    Acknowledge.AUTO,
    Acknowledge.BEFORE,
    Acknowledge.DUPS_OK,
    Acknowledge.OPTIMIZED,
}


@dataclass(frozen=True, slots=True)
class AcknowledgeSettings:
    """How a client of a queue acknowledges what it was given."""

    mode: Acknowledge | None = None
    """``None``: the acknowledgement mode that fits the position, AUTO or INDIVIDUAL."""
    blocking: bool = True
    """Whether it waits for the answer to an acknowledgement."""


class Subscription(StrEnum):
    """How the messages of a topic are distributed to the consumers of one subscription (Pulsar)."""

    SHARED = "shared"
    """To the consumers in turn. Each message is acknowledged individually."""
    EXCLUSIVE = "exclusive"
    """To the only consumer that is allowed."""
    FAILOVER = "failover"
    """To one consumer, and to the next one when the first is gone."""
    KEY_SHARED = "key-shared"
    """All messages of a key to the same consumer."""


SUBSCRIPTION_NAME: Final = "workers"
"""The one subscription of a cell's topic."""


class Cursor(StrEnum):
    """When a Pulsar broker stores which messages of a subscription are acknowledged."""

    LAZY = "lazy"
    """At most once a second (the default). The broker answers an acknowledgement before it stores
    it.
    """
    WRITTEN = "written"
    """Before the broker answers the acknowledgement."""
    FEW = "few"
    """Before the broker answers, but only a limited number of acknowledged ranges. It forgets the
    other ranges when it dies.
    """
    PAUSING = "pausing"
    """The same, but the broker delivers nothing more while there are more ranges than it stores
    (PIP-299).
    """
    SNAPSHOTS = "snapshots"
    """At most once a second. Each producer's sequence number, for deduplication, is stored every 5
    messages (default: 1000).
    """


@dataclass(frozen=True, slots=True)
class PushSettings:
    """Settings of a subscription to a broker that keeps a log and pushes messages (Pulsar), and of
    its acknowledgements.
    """

    subscription: Subscription = Subscription.SHARED
    cumulative: bool = False
    """Whether an acknowledgement is cumulative: it covers all messages up to one."""
    receipts: bool = False
    """Whether an acknowledgement is sent at once and its answer is waited for. Otherwise the
    library sends it within 100 ms, together with others, and gets no answer.
    """
    cursor: Cursor = Cursor.LAZY
    puts_off: int = 0
    """Up to this position in the source, the consumer puts every second message aside, and works on
    it when nothing else comes. That leaves holes among the acknowledged messages. 0: no message is
    put aside.
    """

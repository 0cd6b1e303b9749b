"""What the consumers of a broker that pushes are told: part of :mod:`.settings`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Acknowledge(StrEnum):
    """How a client of JMS acknowledges what it has received (the modes of its sessions).

    The library does, before it hands a message over (AUTO), as lazily as it likes (DUPS_OK), or for many at once (OPTIMIZED:
    ActiveMQ's ``optimizeAcknowledge``). The program does, for all that its session was given (CLIENT), for one message
    (INDIVIDUAL: no part of JMS, and all have it), or by the commit of the session's transaction (TRANSACTED). The broker does,
    before it gives a message out (BEFORE: Artemis' PRE_ACKNOWLEDGE).
    """

    AUTO = "auto"
    BEFORE = "before"
    DUPS_OK = "dups-ok"
    OPTIMIZED = "optimized"
    CLIENT = "client"
    INDIVIDUAL = "individual"
    TRANSACTED = "transacted"


BY_LIBRARY: Final = {Acknowledge.AUTO, Acknowledge.BEFORE, Acknowledge.DUPS_OK, Acknowledge.OPTIMIZED}


class Subscription(StrEnum):
    """To whom the messages of a topic go that share a subscription (Pulsar)."""

    SHARED = "shared"
    """To one after the other, each acknowledged for itself."""
    EXCLUSIVE = "exclusive"
    """To the only one that there may be."""
    FAILOVER = "failover"
    """To one, and to the next when that is gone."""
    KEY_SHARED = "key-shared"
    """All of a key to the same one."""


SUBSCRIPTION_NAME: Final = "workers"
"""The one subscription of a cell's topic."""


class Cursor(StrEnum):
    """When a broker of Pulsar writes down what of a subscription is acknowledged."""

    LAZY = "lazy"
    """At most once a second: its default. An acknowledgement is answered all the same."""
    WRITTEN = "written"
    """Before it answers."""
    FEW = "few"
    """Before it answers, and only some of the ranges of single acknowledgements: what is behind those it knows until it dies."""
    PAUSING = "pausing"
    """The same, and it gives nothing more out while there are more of them (PIP-299)."""
    SNAPSHOTS = "snapshots"
    """At most once a second; and how far each producer is, by which it deduplicates, every five messages, not every thousand."""


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How a broker that keeps a log and pushes (Pulsar) is told to, and what it is told of what was given."""

    subscription: Subscription = Subscription.SHARED
    cumulative: bool = False
    """An acknowledgement is about all up to a message."""
    receipts: bool = False
    """An acknowledgement goes at once, and is waited for until the broker has answered it. Else it is said to a library that
    sends it within 100 ms, with others, and hears nothing."""
    cursor: Cursor = Cursor.LAZY
    puts_off: int = 0
    """Up to which record of the source every second message is put aside: it is worked on, and acknowledged, when nothing else
    comes. Its place is a hole among what is acknowledged. 0: none is."""

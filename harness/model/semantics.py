"""Delivery semantics, the anomalies, and the one table that says which semantic forbids which.

The definitions of the three semantics are those of the stream-processing literature (design,
section 1); the promise table is section 3's. Nothing else in the project decides what is forbidden.
"""

from __future__ import annotations

from enum import StrEnum


class Semantic(StrEnum):
    """A delivery semantic."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Guarantee(StrEnum):
    """A session guarantee that a pipeline may claim besides its semantic."""

    MONOTONIC = "monotonic"
    """No reader skips a record or goes back behind a saved position, no group saves a lower
    position than before, and no write is acknowledged at a lower offset than an earlier one.
    """
    READ_YOUR_WRITES = "read-your-writes"
    """A stage that reads a topic that it writes is given each of its acknowledged writes there
    before its readers pass it.
    """


class Anomaly(StrEnum):
    """Something that happened to records and that at least one semantic forbids."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    PHANTOM = "phantom"
    RESURRECTED = "resurrected"
    TORN = "torn"


_ALWAYS = frozenset({Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN})

PROMISES: dict[Semantic, frozenset[Anomaly]] = {
    Semantic.AT_MOST_ONCE: _ALWAYS | {Anomaly.DUPLICATED},
    Semantic.AT_LEAST_ONCE: _ALWAYS | {Anomaly.LOST},
    Semantic.EXACTLY_ONCE: _ALWAYS | {Anomaly.LOST, Anomaly.DUPLICATED},
}
"""The anomalies that each semantic forbids. The others are counted too."""


def forbids(semantic: Semantic, anomaly: Anomaly) -> bool:
    """Say whether ``semantic`` forbids ``anomaly``.

    >>> forbids(Semantic.AT_MOST_ONCE, Anomaly.LOST)
    False
    >>> forbids(Semantic.EXACTLY_ONCE, Anomaly.LOST)
    True
    """
    return anomaly in PROMISES[semantic]

"""The rules of the verdict, by name and in their order."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """The rules of the verdict, in their order. The first that matches decides."""

    INSTRUMENT = "lostack has not seen everything, so nothing is judged"
    LOG = "a log gave its readers what no sound log gives"
    FORBIDDEN = (
        "there are duplicates or records that must not be seen, and the promise forbids them"
    )
    LOST = "the drain was completed, records are missing, and the promise forbids loss"
    ORDER = "records of a key are out of their order, and the order is claimed"
    GUARANTEES = "a reader was given what a claimed session guarantee forbids"
    INVARIANTS = "the drain was completed, and an invariant does not hold"
    EXPERIMENT = "the run proves nothing about its fault"
    EFFECT = "the fault had no effect, and one was predicted"
    STUCK = "everything is healed, and nothing has moved until the deadline"
    REST = "something can still move, so the results may change"
    HEALTH = "a program was not healthy after the fault"
    ARRIVED = "not one record arrived"
    SIGN = "nothing shows the protection that was predicted"
    PREDICTION = "what was predicted is not what was seen"
    KEPT = "no rule speaks against the promise"

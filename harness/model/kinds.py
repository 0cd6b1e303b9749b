"""The kinds of events that are named by a text, for who writes no objects; words that the wire
writes, too; and a word about errors.

A program in an environment of its own has the standard library and its client. So whoever only
writes events imports this module, and not :mod:`harness.model.events`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Direction(StrEnum):
    """Which way a frame goes."""

    REQUEST = "request"
    RESPONSE = "response"


REMOVED: Final = "removed"
MOVED: Final = "moved"
ABSORBED: Final = "absorbed"
READY: Final = "ready"
RESUMED: Final = "resumed"
TAKEN: Final = "taken"
ACKED: Final = "acked"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
DELIVERED: Final = "delivered"
TRANSACTION: Final = "transaction"
DOUBT: Final = "doubt"
SAVED: Final = "saved"
BATCH: Final = "batch"
STATE: Final = "state"
FAILPOINT: Final = "failpoint"
STOPPED: Final = "stopped"
FRAME: Final = "frame"
PRODUCE_ANSWER: Final = "produce_answer"
FETCHED: Final = "fetched"
REPLICATED: Final = "replicated"
COMMITTED: Final = "committed"
ACKNOWLEDGED: Final = "acknowledged"
SHARE_STATE: Final = "share_state"
ENDING: Final = "ending"
ASKED_AGAIN: Final = "asked_again"
MARKED_AGAIN: Final = "marked_again"
RULE: Final = "rule"
UNDECODABLE: Final = "undecodable"
CELL: Final = "cell"
NODE: Final = "node"
DURABLE: Final = "durable"
WRITES: Final = "writes"
ELSEWHERE: Final = "elsewhere"
FAULT: Final = "fault"
ALONE: Final = "alone"
NETWORK: Final = "network"
UNGOVERNED: Final = "ungoverned"
FLUSHED: Final = "flushed"
DAMAGED: Final = "damaged"

FIRST_WAVE, SECOND_WAVE, TARGET_WAVE = "first-wave", "second-wave", "target-wave"
LAST_WAVE, BEHIND_WAVE = "last-wave", "behind-wave"
WAVES: Final = (FIRST_WAVE, SECOND_WAVE, TARGET_WAVE, LAST_WAVE, BEHIND_WAVE)
"""The names of wire rules that hold back what a producer sends, so that other records pass before a
fault and after it. They are not part of any fault.
"""

MOST_WORDS: Final = 200
"""A reason quotes at most so many characters of a program's error."""


def root_cause_line(because: object) -> str:
    r"""Return one line of the error with which a program ended: its root cause (the last ``Caused
    by:``), else its first line.

    >>> root_cause_line("QueryError: failed\n  at some.frame\nCaused by: it was gone")
    'Caused by: it was gone'
    >>> root_cause_line("fenced")
    'fenced'
    """
    first, *rest = str(because).splitlines() or [""]
    return [first, *(line for line in rest if line.startswith("Caused by: "))][-1][:MOST_WORDS]

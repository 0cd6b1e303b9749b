"""The kinds of events by name, for who writes them; words that the wire writes, too; and a word
about errors.

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


OFFERED: Final = "offered"
REMOVED: Final = "removed"
MOVED: Final = "moved"
CURSOR: Final = "cursor"
STORED: Final = "stored"
LOG: Final = "log"
COUNTED: Final = "counted"
SETTLED: Final = "settled"
POSITION: Final = "position"
RECORDED: Final = "recorded"
FOLDED: Final = "folded"
TOTAL: Final = "total"
INVARIANT: Final = "invariant"
OUTPUT_READ: Final = "output_read"
UNNAMED: Final = "unnamed"
UNFILLED: Final = "unfilled"
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
SENT: Final = "sent"
UNSENT: Final = "unsent"
PRODUCE_ANSWER: Final = "produce_answer"
FETCHED: Final = "fetched"
REPLICATED: Final = "replicated"
COMMITTED: Final = "committed"
COMMIT_ANSWER: Final = "commit_answer"
ACKNOWLEDGED: Final = "acknowledged"
SHARE_STATE: Final = "share_state"
INIT_PRODUCER: Final = "init_producer"
END_TXN: Final = "end_txn"
END_TXN_ANSWER: Final = "end_txn_answer"
ENDING: Final = "ending"
ASKED_AGAIN: Final = "asked_again"
MARKED_AGAIN: Final = "marked_again"
DATABASE_COMMIT: Final = "database_commit"
GROUP_MEMBER: Final = "group_member"
RULE: Final = "rule"
CONN: Final = "conn"
UNDECODABLE: Final = "undecodable"
CELL: Final = "cell"
NODE: Final = "node"
OWNER: Final = "owner"
DURABLE: Final = "durable"
WRITES: Final = "writes"
WORK: Final = "work"
REGROUP: Final = "regroup"
STRANGER: Final = "stranger"
ELSEWHERE: Final = "elsewhere"
INPUT_ENDED: Final = "input_ended"
FAULT: Final = "fault"
ADDED: Final = "added"
OVERRUN: Final = "overrun"
REMADE: Final = "remade"
APPEARED: Final = "appeared"
REFILLED: Final = "refilled"
LEADERSHIP: Final = "leadership"
REPLICA: Final = "replica"
ALONE: Final = "alone"
NETWORK: Final = "network"
ENGINE: Final = "engine"
UNGOVERNED: Final = "ungoverned"
FLUSHED: Final = "flushed"
POWER: Final = "power"
DAMAGED: Final = "damaged"
DRAIN: Final = "drain"
HELD_BACK: Final = "held_back"
EXPELLED: Final = "expelled"
FAILED: Final = "failed"

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

"""What the wire has seen of a record that a spout was given again, and of one that was written
without a daemon.
"""

from __future__ import annotations

from typing import Any

from harness.model import events as kinds
from harness.systems.storm.signs import POLLED_AGAIN, WENT_ON, storm_signs
from tests.events import a_history


def fetched(record: str, conn: int, *, reached: bool = True) -> dict[str, Any]:
    """Return what the wire tells of an answer with a record."""
    return {
        "t": conn,
        "by": "wire",
        "event": kinds.FETCHED,
        "record": record,
        "conn": conn,
        "reached": reached,
    }


def test_a_record_is_fetched_again_over_another_connection() -> None:
    """One that has not reached, and one that came twice over the same, are not meant."""
    told = [
        fetched("k0-1", 1),
        fetched("k0-1", 2),
        fetched("k0-2", 1),
        fetched("k0-2", 1),
        fetched("k0-3", 1, reached=False),
        fetched("k0-3", 2),
    ]
    assert storm_signs(a_history(tuple(told)))[POLLED_AGAIN] == {"k0-1"}


def without_a_daemon(*, answered_at: int, workers: int = 1) -> set[str]:
    """Return which records went on: Nimbus was dead from 10 to 20, and the record's answer came at
    some time.
    """
    told: list[dict[str, Any]] = [
        {"t": 10, "by": "runner", "event": kinds.NODE, "role": "nimbus", "phase": "exited"},
        {"t": 20, "by": "runner", "event": kinds.NODE, "role": "nimbus", "phase": "started"},
        {
            "t": 5,
            "by": "wire",
            "event": "sent",
            "record": "k0-1",
            "attempt": "worker-1.0.1",
            "request": "1:1",
        },
        {
            "t": answered_at,
            "by": "wire",
            "event": kinds.PRODUCE_ANSWER,
            "record": "k0-1",
            "request": "1:1",
            "error": 0,
        },
    ]
    told += [{"t": n, "by": f"worker-{n}", "event": kinds.READY} for n in range(1, workers + 1)]
    return set(storm_signs(a_history(tuple(told)))[WENT_ON])


def test_a_worker_goes_on_without_a_daemon() -> None:
    """What was written before its death, or behind its return, says nothing; nor does what another
    worker has written.
    """
    assert without_a_daemon(answered_at=15) == {"k0-1"}
    assert without_a_daemon(answered_at=8) == set()
    assert without_a_daemon(answered_at=25) == set()
    assert without_a_daemon(answered_at=15, workers=2) == set()

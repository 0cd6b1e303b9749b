"""What the wire has seen of a record that a spout was given again."""

from __future__ import annotations

from typing import Any

from harness.model import events as kinds
from harness.model.history import History
from harness.systems.storm.signs import POLLED_AGAIN, storm_signs


def fetched(record: str, conn: int, *, reached: bool = True) -> dict[str, Any]:
    """Return what the wire tells of an answer with a record."""
    return {"t": conn, "by": "wire", "event": kinds.FETCHED, "record": record, "conn": conn, "reached": reached}


def test_a_record_is_fetched_again_over_another_connection() -> None:
    """One that has not reached, and one that came twice over the same, are not meant."""
    told = [
        fetched("k0-1", 1), fetched("k0-1", 2), fetched("k0-2", 1), fetched("k0-2", 1), fetched("k0-3", 1, reached=False),
        fetched("k0-3", 2),
    ]  # fmt: skip
    assert storm_signs(History(tuple(told)))[POLLED_AGAIN] == {"k0-1"}

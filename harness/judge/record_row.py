"""The row of an account about one offered record: where it is, and how often it was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from harness.model.states import LastHop, State


class RecordRow(TypedDict):
    """What became of one offered record. Reports write it as it is."""

    record: str
    """Its id."""
    key: str | None
    position: int
    """Its place in the order in which records were offered, from 1."""
    acked: bool
    """Whether the broker acknowledged it to its program."""
    refused: bool
    """Whether its program was told that it is not stored."""
    unknown: bool
    """Whether its program was not told what became of it."""
    stored: bool
    """Whether the topic, or queue, has or had a copy."""
    recordings: int
    """How often it is in the sink."""
    absorbed: int
    """How many further copies the sink recognised."""
    aside: int
    """How many copies were set aside."""
    duplicated: int
    """How many recordings are too many: ``stored_twice`` and ``delivered_twice``."""
    stored_twice: int
    delivered_twice: int
    state: State
    """Where it is now."""
    last_hop: LastHop | None
    """Where a lost record was last seen."""
    why: str | None
    """Why it is where it is, if a line shows that (:mod:`harness.judge.reasons`)."""
    in_doubt: bool
    """Whether its producer does not know what became of its transaction."""


COLUMNS = {
    **dict.fromkeys(("record", "key", "state", "last_hop", "why"), "object"),
    **dict.fromkeys(("acked", "refused", "unknown", "stored", "in_doubt"), "bool"),
    **dict.fromkeys(
        (
            "position",
            "recordings",
            "absorbed",
            "aside",
            "duplicated",
            "stored_twice",
            "delivered_twice",
        ),
        "int64",
    ),
}
"""The type of each column in a pandas table of rows."""

"""Events of a pipeline's topics, written by the runner."""

from __future__ import annotations

from harness.model.events.base import Event


class Added(Event, frozen=True, kw_only=True):
    """A partition that was added while the pipeline ran, to a topic that had ``before`` of them."""

    topic: str
    partition: int
    before: int


class Overrun(Event, frozen=True, kw_only=True):
    """Retention has deleted what a dead reader had worked on: the broker's answers right before the
    reader came back.
    """

    record: str
    """The last one that was deleted."""
    topic: str
    partition: int
    saved: int | None
    """The position that the reader's group had saved; ``None``: none."""
    start: int
    """Where the log began."""
    end: int
    """Its end."""


class Compacted(Event, frozen=True, kw_only=True):
    """A log was compacted while its reader was dead: what it had right before the reader came back,
    as the broker answers.
    """

    record: str
    """The record whose copy compaction was to take."""
    topic: str
    partition: int
    offset: int
    """Where that copy was."""
    next: int | None
    """The offset of the first copy of a record from there on; ``None``: none."""
    later: int | None
    """The offset of the last copy with the same key; ``None``: none behind it."""


class Remade(Event, frozen=True, kw_only=True):
    """A topic was deleted, and made anew with the same name. What lines before this one say of the
    topic is about the deleted one.
    """

    topic: str
    ends: dict[str, int]
    """Where the logs of the deleted one ended, by partition."""
    saved: dict[str, int]
    """The positions that groups had saved in it."""
    left: dict[str, int]
    """Those that the brokers still have."""


class Appeared(Event, frozen=True, kw_only=True):
    """A topic was created for the first time after its reader was started."""

    topic: str


class Refilled(Event, frozen=True, kw_only=True):
    """Where the logs of a topic that was made anew, or late, ended right before its reader came
    back, or heard of it, by partition.
    """

    topic: str
    ends: dict[str, int]

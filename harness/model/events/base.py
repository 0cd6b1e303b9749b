"""The base of all events: the fields that every line of a history has."""

from __future__ import annotations

import re

import msgspec


def _kind(name: str) -> str:
    """Return the kind that a class stands for.

    >>> _kind("EndTxnAnswer")
    'end_txn_answer'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="event",
    tag=_kind,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """One line of a history. Its class is the kind of the event.

    A field that a line need not have is ``None`` where it has none; a flag is false. The runner and
    the wire leave such a field out. What every line has is said by its writer.
    """

    line: int = 1
    """The number of the line among those of its writer."""
    t: int = -1
    """Monotonic ns. A line without it is damage: an event has none until it is written."""
    w: int = 0
    """Wall ns."""
    cell: str = ""
    by: str = ""
    """The writer."""
    facts: dict[str, object] | None = None
    """The other fields of the line, by their names: what a fault or a protocol of somebody else's
    says besides. :func:`harness.model.history.event_of` puts them here.
    """

    @property
    def event(self) -> str:
        """The kind, as the line names it."""
        tag: str = self.__struct_config__.tag  # type: ignore[assignment]  # by _kind
        return tag


class OfUnknownKind(Event, frozen=True, kw_only=True):
    """An event of a kind that lostack does not know. It voids its cell, because the judge does not
    know what it means.
    """

    kind: str
    fields: dict[str, object]
    """All that the line has besides what every event has."""

    @property
    def event(self) -> str:
        """The kind, as the line names it."""
        return self.kind


class OfCopy(Event, frozen=True, kw_only=True):
    """An event about one copy. Only a copy in a log has a partition, an epoch and an offset."""

    partition: int | None = None
    epoch: int | None = None
    offset: int | None = None

    @property
    def at(self) -> tuple[int, int] | None:
        """The partition and the offset of a copy in a log; ``None``: it is in none."""
        if self.partition is None or self.offset is None:
            return None
        return self.partition, self.offset

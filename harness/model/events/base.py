"""What every event has. Only tests still read events by text, which is to be removed."""

from __future__ import annotations

import re
from typing import Any

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
):
    """One line of a history. Its class is the kind of the event.

    A field that a line need not have is ``None`` where it has none; a flag is false.
    """

    line: int = 1
    """The number of the line among those of its writer."""
    t: int
    """Monotonic ns."""
    w: int = 0
    """Wall ns."""
    cell: str = ""
    by: str = ""
    """The writer."""
    facts: dict[str, Any] | None = None
    """The other fields of the line, by their names: what a fault or a protocol of somebody else's
    says besides. :func:`harness.model.history.event_of` puts them here.
    """

    @property
    def event(self) -> str:
        """The kind, as the line names it."""
        tag: str = self.__struct_config__.tag  # type: ignore[assignment]  # by _kind
        return tag

    # --- To be removed: the reading of fields by text, for tests that are not converted yet -------

    def __getitem__(self, name: str) -> Any:
        """Return a field; ``None`` if the line has none.

        Raises:
            KeyError: this kind of event has no such field.
        """
        found = getattr(self, _attribute(name), msgspec.UNSET)
        if found is msgspec.UNSET:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field; ``default`` if the line has none."""
        found = getattr(self, _attribute(name), None)
        return default if found is None or found is msgspec.UNSET else found

    def __contains__(self, name: str) -> bool:
        """Say whether the line has a field."""
        return self.get(name) is not None


def _attribute(name: str) -> str:
    return name.replace("-", "_")


class OfUnknownKind(Event, frozen=True, kw_only=True):
    """An event of a kind that lostack does not know. It voids its cell, because the judge does not
    know what it means.
    """

    kind: str
    fields: dict[str, Any]
    """All that the line has besides what every event has."""

    @property
    def event(self) -> str:
        """The kind, as the line names it."""
        return self.kind

    def __getitem__(self, name: str) -> Any:
        """Return a field (for tests, to be removed)."""
        return self.fields[name] if name in self.fields else super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field (for tests, to be removed)."""
        return self.fields[name] if name in self.fields else super().get(name, default)


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

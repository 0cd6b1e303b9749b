"""What theory predicts for one column (lost, duplicated) of one cell, and whether a
count agrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import msgspec

from harness.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Set as AbstractSet


class Select(Name):
    """A set of records, named relative to the target record of the fault. An engine can add
    selections of its own.
    """

    __slots__ = ()
    TARGET: ClassVar[Select]
    """The target record."""
    NEXT: ClassVar[Select]
    """The record after the target in the source."""
    UNIT: ClassVar[Select]
    """All records of the unit (send, poll, transaction) that holds the target."""
    THROUGH_TARGET: ClassVar[Select]
    """The target and all records before it in the source."""
    BEFORE_TARGET: ClassVar[Select]
    """All records before the target in the source."""
    BATCH: ClassVar[Select]
    """All records of the engine's batch that first held the target."""
    THROUGH_BATCH: ClassVar[Select]
    """All records of the batch that first held the target, and of all batches before it."""
    BATCH_BEFORE_TARGET: ClassVar[Select]
    """The records of that batch that the engine processes before the target."""
    BATCH_FROM_TARGET: ClassVar[Select]
    """The target, and the records of that batch that the engine processes after it."""
    ADDED: ClassVar[Select]
    """The records in partitions that were added to the topic while the pipeline ran."""
    UNREPLICATED: ClassVar[Select]
    """The records that were sent, but that no follower fetched as far as the wire has seen."""


Select.TARGET = Select("target")
Select.NEXT = Select("next")
Select.UNIT = Select("unit")
Select.THROUGH_TARGET = Select("through-target")
Select.BEFORE_TARGET = Select("before-target")
Select.BATCH = Select("batch")
Select.THROUGH_BATCH = Select("through-batch")
Select.BATCH_BEFORE_TARGET = Select("batch-before-target")
Select.BATCH_FROM_TARGET = Select("batch-from-target")
Select.ADDED = Select("added")
Select.UNREPLICATED = Select("unreplicated")


class Expected(msgspec.Struct, frozen=True, tag_field="kind", tag=True):
    """What theory says of a set of records."""

    shows: ClassVar[bool] = False
    """Whether some record must be seen."""

    def must_show(self) -> bool:
        """Say whether a count of zero means that the fault had no effect."""
        return self.shows


class Zero(Expected, frozen=True):
    """Theory predicts no record."""

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return "0"

    def contradiction(
        self,
        seen: AbstractSet[str],
        resolve: dict[Select, frozenset[str]],  # noqa: ARG002
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        return f"predicted 0, saw {len(seen)} ({examples(seen)})" if seen else None


class Exactly(Expected, frozen=True):
    """Theory predicts exactly these records."""

    shows: ClassVar[bool] = True
    select: Select = Select.TARGET

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return f"exactly {self.select}"

    def contradiction(
        self, seen: AbstractSet[str], resolve: dict[Select, frozenset[str]]
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        want = resolve[self.select]
        if seen == want:
            return None
        return f"predicted exactly {examples(want)}, saw {examples(seen)}"


class AtLeast(Expected, frozen=True):
    """Theory predicts these records, and permits more: only those of ``most``, or any if ``most``
    is null.
    """

    shows: ClassVar[bool] = True
    select: Select = Select.TARGET
    most: Select | None = None

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return f"at least {self.select}{_bound(self.most)}"

    def contradiction(
        self, seen: AbstractSet[str], resolve: dict[Select, frozenset[str]]
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        want = resolve[self.select]
        if want - seen:
            return f"predicted at least {examples(want)}, saw {examples(seen)}"
        return _beyond(seen - want, self.most, resolve)


class Some(Expected, frozen=True):
    """Theory predicts at least ``count`` records, but not which: only those of ``most``, or any if
    ``most`` is null.
    """

    shows: ClassVar[bool] = True
    count: int = 1
    most: Select | None = None

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return f"at least {self.count}{_bound(self.most)}"

    def contradiction(
        self, seen: AbstractSet[str], resolve: dict[Select, frozenset[str]]
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        if len(seen) < self.count:
            return f"predicted at least {self.count}, saw {len(seen)}"
        return _beyond(seen, self.most, resolve)


class AtMost(Expected, frozen=True):
    """Theory permits all, some or none of these records, and no other record."""

    select: Select

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return f"at most {self.select}"

    def contradiction(
        self, seen: AbstractSet[str], resolve: dict[Select, frozenset[str]]
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        others = seen - resolve[self.select]
        return (
            (
                f"predicted at most {self.select} ({examples(resolve[self.select])}), saw "
                f"{examples(seen)}"
            )
            if others
            else None
        )


class Permitted(Expected, frozen=True):
    """Theory permits any number of records, also none."""

    def text(self) -> str:
        """Return the prediction as it is shown."""
        return "permitted"

    def contradiction(
        self,
        seen: AbstractSet[str],  # noqa: ARG002
        resolve: dict[Select, frozenset[str]],  # noqa: ARG002
    ) -> str | None:
        """Say how the records seen contradict the prediction, or ``None``."""
        return None


def _bound(most: Select | None) -> str:
    return "" if most is None else f", besides at most {most}"


def _beyond(
    seen: AbstractSet[str], most: Select | None, resolve: dict[Select, frozenset[str]]
) -> str | None:
    """Say which of the records seen no bound allows."""
    others = seen - resolve[most] if most is not None else frozenset()
    return (
        f"predicted besides at most {most} ({examples(resolve[most])}), saw {examples(others)}"
        if most and others
        else None
    )


SELECTS: Final = ("select", "most")
"""The fields of a prediction that name a selection."""
Prediction: TypeAlias = Zero | Exactly | AtLeast | AtMost | Some | Permitted


def by_name(record: str) -> tuple[int, str]:
    """Return the sort key of a record's name, so that ``a-2`` stands before ``a-10``. Lists of
    records have this order everywhere: in the terminal, in the reports, and on the page.
    """
    return len(record), record


def examples(records: Collection[str], most: int = 4) -> str:
    """Return the names of at most ``most`` records, and how many more there are.

    >>> examples({"a-2", "a-10", "a-1"}, most=2)
    'a-1, a-2 and 1 more'
    >>> examples(set())
    'none'
    """
    if not records:
        return "none"
    ordered = sorted(records, key=by_name)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more

"""Of which cells everything stays on the disk when they have ended."""

from __future__ import annotations

from enum import StrEnum


class Keep(StrEnum):
    """Of which cells everything stays; of the others histories and logs do."""

    ALL = "all"
    BROKEN = "broken"
    """Of those that are not green."""
    NONE = "none"

    def whole(self, *, green: bool) -> bool:
        """Whether everything stays of a cell that is green, or is not."""
        return self is Keep.ALL or (self is Keep.BROKEN and not green)

"""The error of a stage that cannot do its work."""

from __future__ import annotations

from harness.model.failures import CellFailure


class StageError(CellFailure):
    """A stage cannot do its work; the text is one line, with the last lines of its log. ``stage``:
    its name, if known.
    """

    def __init__(self, text: str, stage: str = "") -> None:
        super().__init__(text)
        self.stage = stage

"""The error of every table format."""

from __future__ import annotations

from harness.model.failures import CellFailure


class TableError(CellFailure):
    """A table cannot be read; the text is one line."""

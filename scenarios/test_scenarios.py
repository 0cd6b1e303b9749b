"""Every cell as a pytest case: ``pytest -m kafka -k ack-lost``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Cell


def test_cell(lostack_cell: Cell, lostack_check: Callable[[Cell], object]) -> None:
    """The promise is kept, or the control convicted, as theory predicts."""
    lostack_check(lostack_cell)

"""What only some cells need: where it cannot be had, these cells are void, and all others run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.model.cell import Cell


def fetched_for(cells: Iterable[Cell], fetch: Callable[[], object]) -> dict[str, str]:
    """Fetch what these cells need, unless there are none. Return why it cannot be had, for the id
    of each of them.
    """
    needing = [cell.id for cell in cells]
    if not needing:
        return {}
    try:
        fetch()
    except EnvironmentFailure as error:
        return dict.fromkeys(needing, str(error))
    return {}

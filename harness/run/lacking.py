"""What only some cells need: where it cannot be had, these cells are void, and all others run."""

from __future__ import annotations

from functools import partial
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


def fetched_by_client(cells: Iterable[Cell], fetch: Callable[[str], object]) -> dict[str, str]:
    """Fetch the client of each of these cells, in the order of their names. Return why one cannot
    be had, for the id of each cell that has it.
    """
    cells, lacking = tuple(cells), dict[str, str]()
    for client in sorted({cell.client for cell in cells}):
        mine = [cell for cell in cells if cell.client == client]
        lacking |= fetched_for(mine, partial(fetch, client))
    return lacking

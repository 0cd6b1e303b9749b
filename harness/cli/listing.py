"""``lostack list``: every cell, with what theory predicts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness import registry
from harness.cli.options import AsJson, Clients, Only, Semantics  # noqa: TC001 - typer reads them
from harness.cli.telling import tell, tell_json
from harness.matrix.selection import SelectionError, choose
from harness.model.scenario import Predicted, RefusedByClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.cell import Cell


def list_cells(
    *,
    only: Only = None,
    semantic: Semantics = None,
    system: Annotated[
        str | None,
        typer.Option(help="Only cells of this system. By default those of all real systems."),
    ] = None,
    client: Clients = None,
    as_json: AsJson = False,
) -> None:
    """Show every cell with what theory predicts, and those that do not apply with their reason."""
    cells = _cells(
        [system] if system else registry.real(), only or (), semantic or (), client or ()
    )
    if as_json:
        tell_json([_listed(cell) for cell in cells])
        return
    width = max(len(cell.id) for cell in cells)
    for cell in cells:
        tell(f"{cell.id:<{width}}  {_predicted(cell)}")


def _cells(
    systems: Sequence[str], only: Sequence[str], semantics: Sequence[str], clients: Sequence[str]
) -> list[Cell]:
    """Return the cells of several systems. Raises SelectionError where none has any."""
    cells: list[Cell] = []
    for at, system in enumerate(systems, 1):
        try:
            cells += choose(
                registry.scenarios(), only=only, semantics=semantics, clients=clients, system=system
            )
        except SelectionError:
            if at == len(systems) and not cells:
                raise
    return cells


def _listed(cell: Cell) -> dict[str, object]:
    """Return a cell as ``list --json`` shows it; what does not apply has no prediction."""
    expectation, unable = cell.expectation, registry.inapplicable(cell)
    row: dict[str, object] = {
        "id": cell.id,
        "scenario": cell.scenario.id,
        "failure_point": cell.scenario.failure_point,
        "pipeline": str(cell.scenario.pipeline),
        "semantic": str(cell.semantic),
        "because": cell.scenario.because,
        "lost": None,
        "duplicated": None,
        "sign": None,
        "control": False,
        "refused_by_client": None,
        "not_applicable": None,
    }
    match expectation:
        case Predicted() if unable is None:
            sign = str(expectation.sign) if expectation.sign else None
            return row | {
                "lost": expectation.lost.text(),
                "duplicated": expectation.duplicated.text(),
                "sign": sign,
                "control": expectation.control,
            }
        case RefusedByClient() if unable is None:
            return row | {"refused_by_client": expectation.because}
        case _:
            return row | {"not_applicable": unable}


def _predicted(cell: Cell) -> str:
    expectation, unable = cell.expectation, registry.inapplicable(cell)
    match expectation:
        case Predicted() if unable is None:
            control = "  (control: must be convicted)" if expectation.control else ""
            left = f", left {expectation.left.text()}" if expectation.left.must_show() else ""
            return (
                f"lost {expectation.lost.text()}, duplicated "
                f"{expectation.duplicated.text()}{left}{control}"
            )
        case RefusedByClient() if unable is None:
            return f"refused by the client: {expectation.because}"
        case _:
            return f"n/a: {unable}"

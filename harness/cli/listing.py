"""``lostack list``: every cell, with what theory predicts of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from harness import registry
from harness.cli.options import AsJson, Clients, Only, Semantics  # noqa: TC001 - typer reads them
from harness.matrix.selection import choose
from harness.model.scenario import NotApplicable, Predicted, RefusedByClient

if TYPE_CHECKING:
    from harness.model.cell import Cell


def list_cells(*, only: Only = None, semantic: Semantics = None, client: Clients = None, as_json: AsJson = False) -> None:
    """Show every cell with what theory predicts, and those that do not apply with their reason."""
    cells = choose(registry.scenarios(), only=only or (), semantics=semantic or (), clients=client or ())
    if as_json:
        typer.echo(json.dumps([_listed(cell) for cell in cells], indent=1))
        return
    width = max(len(cell.id) for cell in cells)
    for cell in cells:
        typer.echo(f"{cell.id:<{width}}  {_predicted(cell)}")


def _listed(cell: Cell) -> dict[str, Any]:
    """Return a cell as ``list --json`` shows it; what does not apply has no prediction."""
    expectation = cell.expectation
    row = {
        "id": cell.id, "scenario": cell.scenario.id, "failure_point": cell.scenario.failure_point,
        "pipeline": str(cell.scenario.pipeline), "semantic": str(cell.semantic), "because": cell.scenario.because,
        "lost": None, "duplicated": None, "sign": None, "control": False, "refused_by_client": None,
        "not_applicable": None,
    }  # fmt: skip
    match expectation:
        case Predicted():
            sign = str(expectation.sign) if expectation.sign else None
            return row | {"lost": expectation.lost.text(), "duplicated": expectation.duplicated.text(), "sign": sign,
                          "control": expectation.control}  # fmt: skip
        case RefusedByClient():
            return row | {"refused_by_client": expectation.because}
        case NotApplicable():
            return row | {"not_applicable": expectation.because}


def _predicted(cell: Cell) -> str:
    expectation = cell.expectation
    match expectation:
        case Predicted():
            control = "  (control: must be convicted)" if expectation.control else ""
            left = f", left {expectation.left.text()}" if expectation.left.must_show() else ""
            return f"lost {expectation.lost.text()}, duplicated {expectation.duplicated.text()}{left}{control}"
        case RefusedByClient():
            return f"refused by the client: {expectation.because}"
        case NotApplicable():
            return f"n/a: {expectation.because}"

"""Rows and outcomes for the tests of the scoreboard."""

from __future__ import annotations

from harness.scoreboard.board import RAN, Cell, Outcome


def cell(point: str, outcome: str = "kept", *, lost: int = 0, duplicated: int = 0) -> Cell:
    """Return a cell of a row."""
    way = ("k1-2: acknowledged, not stored",) if outcome == "broken" else ()
    return Cell(point, outcome, lost, duplicated, f"{outcome} because of it", 1.5, way)


def outcome(
    client: str, program: str, *cells: Cell, state: str = RAN, because: str = ""
) -> Outcome:
    """Return the outcome of a row. ``program``: its role and mode, as ``consumer/as-it-comes``."""
    role, mode = program.split("/")
    return Outcome(
        row=f"{client}-1.0/{program}",
        client=client,
        language="Python",
        version="1.0",
        role=role,
        mode=mode,
        claims="at-least-once",
        seed=1,
        date="2026-11-28",
        state=state,
        because=because,
        cells=cells,
    )

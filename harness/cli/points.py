"""``lostack points``: the failure points that every system has, side by side."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it
from typing import Annotated

import typer

from harness.cli.telling import tell_text


def points(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Saved runs, in which the cells were measured.")
    ] = None,
    *,
    why: Annotated[
        bool, typer.Option(help="Show also each system's words, settings and reasons.")
    ] = False,
) -> None:
    """Show the same failure points of every system: what is predicted, and what was measured; in
    Markdown.
    """
    from harness.matrix.points import LEGEND, measured_in, page, table  # noqa: PLC0415 - nobody else needs it
    from harness.saved import load_run  # noqa: PLC0415

    measured = measured_in(result for run in runs or () for result in load_run(run).results)
    tell_text(page(measured).rstrip() if why else f"{table(measured)}\n{LEGEND}")

"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Only = Annotated[
    list[str] | None, typer.Option(help="Only cells whose id has these words or matches this glob. May be repeated.")
]
Semantics = Annotated[list[str] | None, typer.Option("--semantic", help="Only this semantic. May be repeated.")]
Clients = Annotated[
    list[str] | None,
    typer.Option("--client", help="Only this client (confluent-kafka, confluent-kafka==2.3.0). May be repeated."),
]
Reports = Annotated[Path, typer.Option(help="Where runs are written.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]
Directory = Annotated[Path, typer.Argument(help="A saved run, e.g. reports/latest.")]
Baseline = Annotated[Path | None, typer.Option(help="A file of known breaks; they are shown and fail nothing.")]

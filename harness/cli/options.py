"""Options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from harness.model.keep import Keep

MOST_AT_ONCE = 3
"""How many cells of a declared pipeline run at once by default."""

Only = Annotated[
    list[str] | None,
    typer.Option(help="Only cells whose id has these words or matches this glob. May be repeated."),
]
Semantics = Annotated[
    list[str] | None, typer.Option("--semantic", help="Only this semantic. May be repeated.")
]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="Only this client (confluent-kafka, confluent-kafka==2.3.0). May be repeated.",
    ),
]
Reports = Annotated[Path, typer.Option(help="The folder into which runs are written.")]
KeepFiles = Annotated[
    Keep,
    typer.Option(
        "--keep",
        metavar="WHICH",
        help="Of which cells every file stays: all, broken (whatever is not green) or none. Of "
        "the others the histories and logs do.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]
Directory = Annotated[Path, typer.Argument(help="A saved run, e.g. reports/latest.")]
Baseline = Annotated[
    Path | None,
    typer.Option(help="A file of known breaks; they are shown, and do not change the exit code."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help=(
            "How many cells run at once, each on a broker of its own. By default one more than "
            "cores, 3 at most."
        ),
    ),
]


def jobs_of(jobs: int | None) -> int:
    """Return how many cells of a declared pipeline run at once: ``jobs``, or a default that fits
    this machine's cores.
    """
    return jobs or min(MOST_AT_ONCE, (os.cpu_count() or 1) + 1)

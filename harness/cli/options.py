"""The command-line options that several commands share: their types and help texts."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any, Final

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


def _keep_of(value: str, why: str = "") -> Keep:
    try:
        return Keep(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(map(str, Keep))}{why}") from None


def _sweep_keep_of(value: str) -> Keep:
    return _keep_of(value, f": to keep findings in a folder, give --findings {shlex.quote(value)}")


_KEEP: Final[dict[str, Any]] = {
    "metavar": "WHICH",
    "help": "Of which cells every file stays: all, broken (whatever is not green) or none. Of "
    "the others the histories and logs do.",
}
KeepFiles = Annotated[Keep, typer.Option("--keep", parser=_keep_of, **_KEEP)]
SweepKeepFiles = Annotated[Keep, typer.Option("--keep", parser=_sweep_keep_of, **_KEEP)]
"""The same; its message knows that ``--keep`` once named the folder of findings."""
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


def jobs_of(jobs: int | None, more: int = 1, most: int = MOST_AT_ONCE) -> int:
    """Return how many cells of a declared pipeline run at once: ``jobs``, or so many ``more`` than
    this machine has cores, at ``most``.
    """
    return jobs or min(most, (os.cpu_count() or 1) + more)


def is_said(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"

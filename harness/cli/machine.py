"""Preparing and checking this machine: ``lostack fetch``, ``images`` and ``doctor``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import harness
from harness import registry
from harness.cli.options import AsJson  # noqa: TC001 - typer reads them
from harness.cli.telling import complain, tell, tell_json
from harness.matrix.progress import make_progress
from harness.model.exits import ExitCode
from harness.model.failures import UsageError


class Vendored(StrEnum):
    """The files that programs carry copies of."""

    FAILPOINT = "failpoint"


def fetch(
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="Systems, e.g. kafka spark. By default Kafka and Spark."),
    ] = None,
) -> None:
    """Download what systems need, ahead of a run: jars (checked by sha256), class-data archives,
    servers.
    """
    for name in systems or registry.default_systems():
        registry.systems("process", name)
    with make_progress(sys.stdout) as progress:
        for name in systems or registry.default_systems():
            registry.system(name).prepare(progress.say)


def images() -> None:
    """Pull the container images that --runtime docker needs, or build stand-ins where they cannot
    be pulled.
    """
    from harness.provision.images import NAMES, ensure_image  # noqa: PLC0415
    from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - the engine's client; nobody else needs it

    client = connect()
    for name in NAMES:
        tell(f"{name:<10} {ensure_image(client, name, complain)}")


def vendor(
    what: Annotated[Vendored, typer.Argument(help="What to copy.")],
    file: Annotated[Path, typer.Argument(help="Where to, e.g. src/failpoint.py.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Copy a file of lostack's into your program, which then needs no lostack to run."""
    text = (Path(harness.__file__).parent / f"{what}.py").read_text(encoding="utf-8")
    try:
        with file.open("w" if force else "x", encoding="utf-8") as into:
            into.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists: name another file, or add --force") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; name another file") from error
    tell(f"{file}: from {file.stem} import {what}")


def doctor(*, as_json: AsJson = False) -> None:
    """Say what this machine has, what is missing for runs, and how to get it."""
    from harness.doctor import diagnose  # noqa: PLC0415 - looks at everything; nobody else needs it

    findings = diagnose()
    if as_json:
        rows = [
            {"name": f.name, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings
        ]
        tell_json(rows)
    else:
        for finding in findings:
            tell(f"{'ok     ' if finding.ok else 'MISSING'} {finding.name:<22} {finding.detail}")
            if not finding.ok and finding.remedy:
                tell(f"        {'':<22} → {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(ExitCode.ENVIRONMENT)

"""Messages of commands on standard error, beside their output."""

from __future__ import annotations

import typer

from harness.report.escaping import visible


def warn(*texts: str | None) -> None:
    """Print each text that is not empty on a line of its own."""
    for text in texts:
        if text:
            complain(text)


def complain(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"lostack: {visible(text)}", err=True)

"""What commands say besides what they were asked for."""

from __future__ import annotations

import typer

from harness.report.escaping import visible


def warn(*texts: str | None) -> None:
    """Say what is not empty, each on a line of its own."""
    for text in texts:
        if text:
            complain(text)


def complain(text: str) -> None:
    """Say one line beside the output."""
    typer.echo(f"lostack: {visible(text)}", err=True)

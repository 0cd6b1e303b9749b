"""The one way out: everything that a command prints goes through this module.

Texts of others (programs, brokers, declarations, saved runs, names of files) may hold what a
terminal obeys: escape sequences, carriage returns, marks that turn the direction of writing. Here
each such character is written as its number, and each value that is a secret as asterisks.
``tests/cli/test_way_out.py`` holds all commands to it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from harness.report.escaping import lines_visible, visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def tell(text: object = "") -> None:
    """Print one line."""
    typer.echo(visible(str(text)))


def tell_lines(lines: Iterable[object]) -> None:
    """Print each on a line of its own."""
    for line in lines:
        tell(line)


def tell_text(text: str) -> None:
    """Print a text of several lines, as it is laid out. It ends with one line break."""
    typer.echo(lines_visible(text.removesuffix("\n")))


def tell_json(value: Any) -> None:
    """Print a value as JSON."""
    tell_json_text(json.dumps(value, indent=1))


def tell_json_text(text: str) -> None:
    """Print a text that is JSON, and stays the same JSON."""
    typer.echo(visible_json(text.removesuffix("\n")))


def ask(question: str, guess: str | None = None) -> str:
    """Ask a question on the terminal and return the answer. ``guess``: the answer if the user
    presses Enter.
    """
    shown = None if guess is None else visible(guess)
    answer = str(typer.prompt(visible(question), default=shown, show_default=bool(guess)))
    return str(guess) if answer == shown else answer


def warn(*texts: str | None) -> None:
    """Print each text that is not empty on standard error, on a line of its own."""
    for text in texts:
        if text:
            complain(text)


def complain(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"lostack: {visible(text)}", err=True)


def complain_text(text: str) -> None:
    """Print a text of several lines on standard error, as it is laid out."""
    typer.echo(lines_visible(text.removesuffix("\n")), err=True)

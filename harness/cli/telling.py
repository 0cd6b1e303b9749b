"""The one way out: everything that a command prints goes through this module.

Texts of others (programs, brokers, declarations, saved runs, names of files) may hold what a
terminal obeys: escape sequences, carriage returns, marks that turn the direction of writing. Here
each such character is written as its number, and each value that is a secret as asterisks.
``tests/cli/test_way_out.py`` holds all commands to it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from harness.model.secrets import masked_settings
from harness.report.escaping import lines_shown, shown, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def tell(text: object = "") -> None:
    """Print one line."""
    typer.echo(shown(str(text)))


def tell_lines(lines: Iterable[object]) -> None:
    """Print each on a line of its own."""
    for line in lines:
        tell(line)


def tell_text(text: str) -> None:
    """Print a text of several lines, as it is laid out. It ends with one line break."""
    typer.echo(lines_shown(text.removesuffix("\n")))


def tell_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(visible_json(json.dumps(masked_settings(value), indent=1)))


def tell_json_text(text: str) -> None:
    """Print a text that is JSON, and stays JSON: of several lines, or of one."""
    text = text.removesuffix("\n")
    told = json.dumps(masked_settings(json.loads(text)), indent=1 if "\n" in text else None)
    typer.echo(visible_json(told))


def ask(question: str, guess: str | None = None) -> str:
    """Ask a question on the terminal and return the answer. ``guess``: the answer if the user
    presses Enter.
    """
    proposed = None if guess is None else shown(guess)
    answer = str(typer.prompt(shown(question), default=proposed, show_default=bool(guess)))
    return str(guess) if answer == proposed else answer


def warn(*texts: str | None) -> None:
    """Print each text that is not empty on standard error, on a line of its own."""
    for text in texts:
        if text:
            complain(text)


def complain(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"lostack: {shown(text)}", err=True)


def complain_text(text: str) -> None:
    """Print a text of several lines on standard error, as it is laid out."""
    typer.echo(lines_shown(text.removesuffix("\n")), err=True)

"""Passwords that a declaration only names: each is in an environment variable, or in a file of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable. Whatever else a password is said to be in is a file."""


class SecretError(ValueError):
    """A password is not where it is said to be; one line that says what to do, without the password."""


def place_of_secret(said: str, folder: Path) -> str:
    """Return where a password is: the name of an environment variable as it is, a file (its name has a /) by its whole path.

    Raises:
        SecretError: it is neither, and may be the password itself, which is not repeated.

    >>> place_of_secret("REGISTRY_PASSWORD", Path("/shop")), place_of_secret("./password", Path("/shop"))
    ('REGISTRY_PASSWORD', '/shop/password')
    """
    if VARIABLE.fullmatch(said):
        return said
    if "/" not in said:
        raise SecretError("names an environment variable, or a file as ./password; a password itself does not belong here")
    return str((folder / said).absolute())


def read_secret(place: str) -> str:
    """Return the password that is in a place: all of an environment variable, or the first line of a file.

    Raises:
        SecretError: the variable is not set, the file cannot be read, or there is nothing in it.
    """
    if VARIABLE.fullmatch(place):
        what, found = f"the environment variable {place}", os.environ.get(place)
        if found is None:
            raise SecretError(f"{what} is not set (the name of a file begins with ./)")
    else:
        what = place
        try:
            found = Path(place).read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
        except OSError as error:
            raise SecretError(f"cannot read {place}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SecretError(f"{place} is no UTF-8") from error
    if not found:
        raise SecretError(f"{what} is empty")
    return found

"""Read the passwords that a declaration refers to. A password is in an environment variable, or in
a file of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable. Every other place is a file."""


class SecretError(ValueError):
    """A password cannot be read. The message is one line, says what to do, and never holds the
    password.
    """


def place_of_secret(said: str, folder: Path) -> str:
    """Return the place of a password: an environment variable's name unchanged, or a file's
    absolute path (the name has a /).

    Raises:
        SecretError: ``said`` is neither. It may be the password itself, so the message does not
            repeat it.

    >>> shop = Path("/shop")
    >>> place_of_secret("REGISTRY_PASSWORD", shop), place_of_secret("./password", shop)
    ('REGISTRY_PASSWORD', '/shop/password')
    """
    if VARIABLE.fullmatch(said):
        return said
    if "/" not in said:
        raise SecretError(
            "write the name of an environment variable, or a file as ./password, and never the "
            "password itself"
        )
    return str((folder / said).absolute())


def read_secret(place: str) -> str:
    """Return the password from its place: the value of an environment variable, or the first line
    of a file.

    Raises:
        SecretError: the variable is not set, the file cannot be read, or it is empty.
    """
    if VARIABLE.fullmatch(place):
        what, found = f"the environment variable {place}", os.environ.get(place)
        if found is None:
            raise SecretError(f"{what} is not set: set it, or name a file, which begins with ./")
    else:
        what = place
        try:
            found = Path(place).read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
        except OSError as error:
            raise SecretError(f"cannot read {place}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SecretError(f"{place} is not UTF-8 text: write it as such") from error
    if not found:
        raise SecretError(f"{what} is empty: write the password into it")
    return found

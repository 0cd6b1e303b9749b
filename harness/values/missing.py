"""Import the optional libraries that a schema needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


class SchemaError(ValueError):
    """A schema cannot be used to read values. The message is one line."""


def library(name: str, what: str) -> ModuleType:
    """Import the library ``name`` for the format ``what`` and return it.

    Raises:
        SchemaError: the library is not installed. The message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SchemaError(
            f"{what}: {name.partition('.')[0]} is not installed: pip install 'lostack[values]'"
        ) from error

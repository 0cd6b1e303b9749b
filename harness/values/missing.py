"""Libraries that a schema needs, and that may not be there."""

from __future__ import annotations

import importlib
from typing import Any


class SchemaError(ValueError):
    """Values cannot be read by a schema; one line."""


def library(name: str, what: str) -> Any:
    """Return a library.

    Raises:
        SchemaError: it is not installed; the line says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SchemaError(f"{what}: {name.partition('.')[0]} is not installed: pip install 'lostack[values]'") from error

"""The faults of any system: a row for each file of ``harness/faults``."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

from harness import faults
from tests.docs.markdown import cell, columns


def table() -> str:
    """Return a table of the faults with their required fields, and what the first line of their
    file says of them.
    """
    exported = [getattr(faults, name) for name in faults.__all__]
    rows = columns("fault", "what it does")
    for module in pkgutil.iter_modules(faults.__path__, f"{faults.__name__}."):
        found = [
            f"`{each.__name__}({', '.join(said_of(each))})`"
            for each in exported
            if each.__module__ == module.name and hasattr(each, "id")
        ]
        title = (importlib.import_module(module.name).__doc__ or "").split("\n\n")[0]
        if found:
            rows.append(f"| {', '.join(found)} | {cell(title.partition(': ')[2])} |")
    return "\n".join(rows)


def said_of(fault: Any) -> list[str]:
    """Return the names of a fault's required fields, and three dots if it has others."""
    fields = dataclasses.fields(fault)
    required = [each.name for each in fields if each.default is dataclasses.MISSING]
    return [*required, "…"] if len(required) < len(fields) else required

"""Which lostack this is: its version, and its code."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DIGITS = 12
BYTECODE = "__pycache__"


def lostack_version() -> str:
    """Return the version of the installed package; empty where lostack runs from its source."""
    try:
        return version("lostack")
    except PackageNotFoundError:
        return ""


@cache
def code_of(*modules: str) -> str:
    """Return lostack's version and a digest of its files and of the packages of these imported
    modules: two runs that have the same did the same. A checkout changes, and its version does not.
    """
    ours = Path(sys.modules[__name__.partition(".")[0]].__path__[0])
    digest = hashlib.sha256()
    for place in sorted({ours, *map(_place, modules)}):
        for file in _files(place):
            digest.update(f"{place.name} {file.relative_to(place)} ".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{lostack_version()}+{digest.hexdigest()[:DIGITS]}"


def _place(module: str) -> Path:
    """Return the folder of the package that a module is in, or its file if it is in none."""
    file = Path(str(sys.modules[module].__file__))
    return file.parent if "." in module else file


def _files(place: Path) -> list[Path]:
    """Return a file, or all files in a folder and in folders that it links to, without bytecode."""
    if place.is_file():
        return [place]
    return sorted(
        Path(inside, name)
        for inside, _, names in os.walk(place, followlinks=True)
        if BYTECODE not in inside
        for name in names
    )

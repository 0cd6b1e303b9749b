"""Which lostack this is: its version, and its code."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DIGITS = 12
NO_CODE = ("__pycache__", ".*", "*~", "#*#", "*.bak", "*.orig", "*.rej", "*.tmp")
"""Names of bytecode, of what is hidden, and of what editors and patches leave behind."""


def lostack_version() -> str:
    """Return the version of the installed package; empty where lostack runs from its source."""
    try:
        return version("lostack")
    except PackageNotFoundError:
        return ""


@cache
def code_of(*modules: str) -> str:
    """Return lostack's version and a digest of its files and of the packages of these modules: two
    runs that have the same did the same. A checkout changes, and its version does not.
    """
    ours = Path(sys.modules[__name__.partition(".")[0]].__path__[0])
    return f"{lostack_version()}+{digest_of(ours, *map(_place, modules))}"


def digest_of(*places: Path) -> str:
    """Return a short digest of files, and of the files of code in folders."""
    digest = hashlib.sha256()
    for place in sorted(set(places)):
        for file in _files(place):
            digest.update(f"{place.name} {file.relative_to(place)} ".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:DIGITS]


def _place(module: str) -> Path:
    """Return the folder of the package that a module is in, or its file if it is in none."""
    file = Path(str(importlib.import_module(module).__file__))
    return file.parent if "." in module else file


def _files(place: Path) -> list[Path]:
    """Return a file; of a folder the files of code in it, and in the folders that it links to, each
    folder once.
    """
    if place.is_file():
        return [place]
    found: list[Path] = []
    seen: set[str] = set()
    for inside, folders, names in os.walk(place, followlinks=True):
        real = os.path.realpath(inside)
        folders[:] = () if real in seen else sorted(filter(_is_code, folders))
        found += () if real in seen else (Path(inside, name) for name in filter(_is_code, names))
        seen.add(real)
    return sorted(file for file in found if file.is_file())  # no dangling link, no socket


def _is_code(name: str) -> bool:
    return not any(fnmatch(name, each) for each in NO_CODE)

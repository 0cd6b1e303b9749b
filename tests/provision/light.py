"""An environment with the built wheel of lostack and what it needs by itself, without any extra. It
is made of what is installed here, so it needs no network.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from email.parser import HeaderParser
from importlib.metadata import distribution
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


def build_wheel(into: Path) -> Path:
    """Build lostack's wheel, and return it."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into))
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = into.glob("lostack-*.whl")
    return wheel


def needed(asked: Iterable[str], extras: frozenset[str]) -> Iterator[Requirement]:
    """Yield the requirements that hold here, with these extras."""
    for text in asked:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in extras):
            yield requirement


def closure(asked: Sequence[str], *extras: str) -> set[str]:
    """Return the names of all distributions that lostack brings, with these extras of its own.
    ``asked``: its requirements.
    """
    found: set[tuple[str, frozenset[str]]] = set()
    left = list(needed(asked, frozenset({"", *extras})))
    while left:
        requirement = left.pop()
        key = (_name(requirement.name), frozenset(requirement.extras))
        if key not in found:
            found.add(key)
            own = requirement.name == "lostack"
            brought = asked if own else distribution(requirement.name).requires or ()
            left += needed(brought, frozenset({"", *requirement.extras}))
    return {name for name, _ in found}


def requires(wheel: Path) -> list[str]:
    """Return what a wheel's metadata say that it requires."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        told = HeaderParser().parsestr(archive.read(name).decode())
    return [str(each) for each in told.get_all("Requires-Dist") or ()]


def make_environment(folder: Path, wheel: Path) -> Path:
    """Make a virtual environment with a wheel and its own requirements; return its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    for name in closure(requires(wheel)):
        there = distribution(name)
        tops = {file.parts[0] for file in there.files or () if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            place = site / top
            if not place.exists():
                place.symlink_to(str(there.locate_file(top)))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return folder / "bin" / "python"


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

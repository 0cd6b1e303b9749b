"""The in-memory system: it tests lostack itself, and says nothing about a real system.

It is no part of what users install. Tests list it among lostack's systems; a command in a process
of its own finds it by its entry point, where :data:`INSTALLED` is on its path.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MEMORY: Final = "memory"
ABOUT: Final = "tests.memory.about:SYSTEM"
ROOT: Final = Path(__file__).parents[2]
INSTALLED: Final = Path(__file__).parent / "installed"


def python_path(*more: Path) -> dict[str, str]:
    """Return the environment of a command that knows the in-memory system. ``more``: packages
    besides.
    """
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*more, INSTALLED, ROOT)))}

"""The gate before a producer's last unit: it opens when the fault has fired, so load
follows it, however late it strikes.

A producer sends its records within a tenth of a second, and a reader may be slower. A fault that
strikes the reader would then follow the last record, and prove nothing.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

WAITS_S: Final = 3.0
"""How long a producer waits at most: there are faults that need the last unit."""
POLL_S: Final = 0.01


def open_gate(gate: Path) -> None:
    """Let the producer go on, also one that has not come to the gate yet."""
    gate.parent.mkdir(parents=True, exist_ok=True)
    gate.touch()


def pass_gate(gate: Path) -> None:
    """Wait until the gate is open, for at most :data:`WAITS_S`."""
    ends = time.monotonic() + WAITS_S
    while not gate.exists() and time.monotonic() < ends:
        threading.Event().wait(POLL_S)

"""Faults: what is done at a failure point. One small file and one line here each."""

from __future__ import annotations

from harness.faults.absent import Absent
from harness.faults.crash_at_write import CrashAtWrite
from harness.faults.drop import Drop
from harness.faults.end_input import EndInput
from harness.faults.expire import Expire
from harness.faults.grow import Grow
from harness.faults.kill import Forget, Kill
from harness.faults.late import Late
from harness.faults.move import Move
from harness.faults.network import Network, Until
from harness.faults.none import NoFault
from harness.faults.outlive import Outlive
from harness.faults.overtake import Overtake
from harness.faults.pause import Pause
from harness.faults.roll import Roll
from harness.faults.strike import Strike
from harness.faults.terminate import Terminate
from harness.faults.unanswered import Unanswered
from harness.faults.usurp import Usurp

_ALL = (
    NoFault,
    Absent,
    Kill,
    Drop,
    Expire,
    Late,
    Pause,
    Usurp,
    Network,
    Move,
    Outlive,
    Overtake,
    Roll,
    Grow,
    Strike,
    Terminate,
    EndInput,
    Unanswered,
    CrashAtWrite,
)
FAULTS = {fault.id: fault for fault in _ALL}
"""The registry: every fault by its name."""

__all__ = [
    "FAULTS", "Absent", "CrashAtWrite", "Drop", "EndInput", "Expire", "Forget", "Grow", "Kill", "Late", "Move", "Network",
    "NoFault", "Outlive", "Overtake", "Pause", "Roll", "Strike", "Terminate", "Unanswered", "Until", "Usurp",
]  # fmt: skip

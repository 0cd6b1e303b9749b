"""Faults that exist only for a Flink job: between its checkpoints and inside them. Each is a file,
and is named here.
"""

from __future__ import annotations

from harness.systems.flink.faults.alignment import AtAlignment
from harness.systems.flink.faults.crash import Crash, During
from harness.systems.flink.faults.job_manager_crash import JobManagerCrash
from harness.systems.flink.faults.resubmitted import FromNothing, FromOlder
from harness.systems.flink.faults.superseded import Superseded

__all__ = [
    "AtAlignment",
    "Crash",
    "During",
    "FromNothing",
    "FromOlder",
    "JobManagerCrash",
    "Superseded",
]

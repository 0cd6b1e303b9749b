"""Faults that exist only for a Flink job: between its checkpoints and inside them. Each has a file
and one line here.
"""

from __future__ import annotations

from harness.systems.flink.faults.alignment import AtAlignment
from harness.systems.flink.faults.crash import Crash, During
from harness.systems.flink.faults.job_manager_crash import JobManagerCrash
from harness.systems.flink.faults.resubmitted import FromNothing, FromOlder
from harness.systems.flink.faults.superseded import Superseded

FAULTS = {
    fault.id: fault
    for fault in (AtAlignment, Crash, JobManagerCrash, FromOlder, FromNothing, Superseded)
}
"""The registry: id → fault."""

__all__ = [
    "FAULTS",
    "AtAlignment",
    "Crash",
    "During",
    "FromNothing",
    "FromOlder",
    "JobManagerCrash",
    "Superseded",
]

"""Faults that only a job of Flink can have, between its checkpoints and inside them. A small file and a line here each."""

from __future__ import annotations

from harness.systems.flink.faults.crash import Crash, During
from harness.systems.flink.faults.job_manager_crash import JobManagerCrash

FAULTS = {fault.id: fault for fault in (Crash, JobManagerCrash)}
"""The registry: each of them by its name."""

__all__ = ["FAULTS", "Crash", "During", "JobManagerCrash"]

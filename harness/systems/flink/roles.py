"""The roles of Flink's nodes."""

from __future__ import annotations

from typing import Final

from harness.model.scenario import Role

TASK_MANAGER: Final = Role("task-manager")
"""The JVM that runs the tasks of a job."""
JOB_MANAGER: Final = Role("job-manager")
"""The JVM that deploys the tasks and coordinates checkpoints."""

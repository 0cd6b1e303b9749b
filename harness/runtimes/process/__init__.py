"""Runtime ``process``: nodes are child processes of a guardian, which outlives neither the harness nor its duty."""

from harness.runtimes.process.runtime import GuardianDiedError, ProcessNode, ProcessRuntime

__all__ = ["GuardianDiedError", "ProcessNode", "ProcessRuntime"]

"""Runtime ``process``: nodes are child processes of a guardian, which outlives neither the harness nor its duty."""

from harness.runtimes.process.link import GuardianDiedError
from harness.runtimes.process.node import ProcessNode
from harness.runtimes.process.runtime import ProcessRuntime

__all__ = ["GuardianDiedError", "ProcessNode", "ProcessRuntime"]

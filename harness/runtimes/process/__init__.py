"""Runtime ``process``: nodes are child processes of a guardian, which kills them and ends when the
harness dies.
"""

from harness.runtimes.process.link import GuardianDiedError
from harness.runtimes.process.node import ProcessNode
from harness.runtimes.process.runtime import ProcessRuntime

__all__ = ["GuardianDiedError", "ProcessNode", "ProcessRuntime"]

"""Runtime ``docker``: nodes are containers on a private network of the run. Ports are published on
loopback only.
"""

from harness.runtimes.docker.node import DockerNode
from harness.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerNode", "DockerRuntime"]

"""Runtime ``docker``: nodes are containers on a private network of the run; nothing but loopback is published."""

from harness.runtimes.docker.node import DockerNode
from harness.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerNode", "DockerRuntime"]

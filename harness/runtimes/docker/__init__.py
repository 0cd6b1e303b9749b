"""Runtime ``docker``: nodes are containers on a private network of the run. Ports are published on
loopback only.
"""

from harness.model.extras import require

require("docker", "a container")

from harness.runtimes.docker.node import DockerNode  # noqa: E402 - it imports the engine's client
from harness.runtimes.docker.runtime import DockerRuntime  # noqa: E402

__all__ = ["DockerNode", "DockerRuntime"]

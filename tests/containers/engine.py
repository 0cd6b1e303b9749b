"""Whether there is a container engine that the tests may use."""

from __future__ import annotations

from harness.model.failures import EnvironmentFailure
from harness.runtimes.docker.engine import connect, same_kernel


def missing() -> str | None:
    """Say why no container can be started here, or ``None``."""
    try:
        client = connect()
        trouble = same_kernel(client)
        client.close()
    except EnvironmentFailure as error:
        return str(error)
    return trouble

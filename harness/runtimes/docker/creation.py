"""Create the container of a node's spec, through testcontainers."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from docker.models.containers import Container
    from testcontainers.core.network import Network

    from harness.runtimes.docker.engine import Image
    from harness.runtimes.interface import NodeSpec

ACCOUNT: Final = "lostack"
"""The name of the current user inside containers."""
_STARTING: Final = threading.Lock()


def create(
    spec: NodeSpec,
    image: Image,
    *,
    name: str,
    labels: Mapping[str, str],
    network: Network,
    disk: str | None,
    accounts: Path,
) -> Container:
    """Create and start a container; return the engine's object for it.

    ``network``: the run's network, in which the container is reached by its spec's name and by
    ``name`` (unless it uses the host's network). ``disk``: the volume of its small disk.
    ``accounts``: a path where its list of accounts may be written.
    """
    wants = spec.container
    described = DockerContainer(
        image.id or image.reference
    )  # another checkout may take the name meanwhile
    described.env = dict(spec.env)
    if spec.argv:
        described.with_command(list(spec.argv))
    described.with_name(name)
    if not wants.host_network:
        described.with_network(network).with_network_aliases(spec.name)
    ports: dict[str, Any] = {
        f"{port}/tcp": ("127.0.0.1", port) for port in wants.ports
    }  # a pair is docker-py's own form
    described.ports = ports
    for folder, inside in (
        *((each, str(each.absolute())) for each in wants.folders),
        *wants.elsewhere,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        described.with_volume_mapping(str(folder.absolute()), inside, "rw")
    for volume, seen in wants.volumes:
        described.with_volume_mapping(volume, str(seen), "rw")
    if wants.disk is not None and disk:
        described.with_volume_mapping(disk, str(wants.disk.folder), "rw")
    described.with_kwargs(
        labels={**labels, "lostack.node": spec.name},
        user=f"{os.getuid()}:{os.getgid()}",
        stdin_open=spec.stdin_pipe,
        working_dir=None if spec.cwd is None else str(spec.cwd.absolute()),
        detach=not spec.stdin_pipe,  # else the engine never closes its standard input
        pid_mode="host" if wants.host_pids else None,
        mem_limit=wants.memory,
        entrypoint=wants.entrypoint,
        **({"network_mode": "host"} if wants.host_network else {"hostname": spec.name[:63]}),
    )
    if os.getuid() != 0:  # a JVM wants the name of its user, and the images know few
        accounts.write_text(f"{ACCOUNT}:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh\n")
        described.with_volume_mapping(str(accounts.absolute()), "/etc/passwd", "ro")
    # Ryuk would want an image and the engine's socket; what is left over is removed by the guardian
    with _STARTING:
        ryuk = testcontainers_config.ryuk_disabled
        testcontainers_config.ryuk_disabled = True
        try:
            described.start()
        except BaseException:
            with contextlib.suppress(
                Exception
            ):  # there may be none; the reason why it did not start is the one to tell
                described.get_wrapped_container().remove(force=True, v=True)
            raise
        finally:
            testcontainers_config.ryuk_disabled = ryuk
    return described.get_wrapped_container()

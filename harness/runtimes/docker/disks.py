"""Small disks of containers. Each is a volume in memory, which a helper container keeps mounted."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Literal, Protocol

from harness.model.waiting import wait_until
from harness.runtimes.docker.engine import EngineError, telling
from harness.runtimes.interface import ContainerSpec, NodeSpec, NodeStateError, Room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker.models.containers import Container

    from harness.runtimes.interface import Node

ENDED_WITHIN_S = 60.0
"""How many seconds a program may live on a full disk. A program that writes nothing does not notice
that the disk is full.
"""


class Holder(Protocol):
    """A container that keeps a disk mounted."""

    @property
    def container(self) -> Container:
        """The engine's object for the container."""


class Host(Protocol):
    """What the small disks need from the runtime of containers."""

    @property
    def python(self) -> str:
        """The Python in the runtime's containers."""

    def named(self, name: str) -> str:
        """Return the engine's name for something of this run."""

    def make_volume(self, name: str, options: Mapping[str, str]) -> None:
        """Make a volume of this run."""

    def start(self, spec: NodeSpec) -> Holder:
        """Start a container."""


class Disks:
    """The small disks of one runtime, by the names of their nodes."""

    def __init__(self, runtime: Host) -> None:
        self._runtime = runtime
        self._holders: dict[str, Holder] = {}

    def volume(self, spec: NodeSpec) -> str | None:
        """Return the volume of a node's disk, which is made and mounted at the node's first start;
        ``None`` if it has no disk.
        """
        disk = spec.container.disk
        if disk is None:
            return None
        name = self._runtime.named(spec.name)
        if spec.name not in self._holders:
            owner = f"uid={os.getuid()},gid={os.getgid()},mode=0700"
            self._runtime.make_volume(
                name, {"type": "tmpfs", "device": "tmpfs", "o": f"size={disk.size},{owner}"}
            )
            holder = ContainerSpec(volumes=((name, disk.folder),))
            self._holders[spec.name] = self._runtime.start(
                NodeSpec(f"{spec.name}-disk", "disk", ("sleep", "infinity"), container=holder)
            )
        return name

    def fill(self, node: Node) -> Room:
        """Fill a node's disk, and keep it full until the node has ended by itself."""
        full = self.act(node, "fill")

        def ended() -> bool:
            if node.alive:
                self.act(node, "fill")
            return not node.alive

        wait_until(
            ended,
            within_s=ENDED_WITHIN_S,
            poll_s=0.05,
            because=f"node {node.name} to end by itself, with {full.free} bytes of its disk free",
        )
        return full

    def act(self, node: Node, verb: Literal["fill", "empty"]) -> Room:
        """Fill a node's disk, or make room again, from the helper container; return the disk's size
        and free space afterwards.

        Raises:
            NodeStateError: the node has no small disk.
            EngineError: the disk cannot be written.
        """
        disk = node.spec.container.disk
        if disk is None:
            raise NodeStateError(f"node {node.name} has no small disk of its own")
        with telling(f"writing on the disk of node {node.name}"):
            words = [self._runtime.python, "-m", "harness.runtimes.disk", verb, str(disk.folder)]
            done = self._holders[node.name].container.exec_run(words)
        said = done.output.decode(errors="replace").strip()
        if done.exit_code != 0:
            why = said.splitlines()[-1] if said else f"status {done.exit_code}"
            raise EngineError(f"the disk of node {node.name} cannot be written: {why}")
        return Room(**json.loads(said))

"""The runtime ``docker``: each node is a container, made through testcontainers. The engine's
answers prove what happened.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from testcontainers.core.network import Network

from harness.runtimes.docker.creation import create
from harness.runtimes.docker.disks import Disks
from harness.runtimes.docker.engine import (
    HARNESS,
    RUN,
    EngineError,
    connect,
    owner_label,
    remove,
    remove_leftovers,
    telling,
)
from harness.runtimes.docker.node import GONE_WITHIN_S, DockerNode
from harness.runtimes.interface import Exit, NodeStateError, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from harness.runtimes.docker.engine import Image
    from harness.runtimes.interface import NodeSpec


class DockerRuntime:
    """Starts nodes as containers in one private network. Thread-safe; a context manager.

    ``images``: the images by the names that specs use. Logs go to ``directory/<node>.log``.
    Containers that earlier, killed runs left are removed first. Raises EngineError if the engine
    cannot be reached.
    """

    name = "docker"
    python = "python3"
    here = False
    bind = "0.0.0.0"  # noqa: S104 - of the container; only loopback is published

    def __init__(self, *, directory: Path, images: Mapping[str, Image]) -> None:
        self.directory = directory
        self.images = images
        self._nodes: dict[str, DockerNode] = {}
        self._incarnations: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._failure: Exception | None = None
        self._client = connect()
        self.run = secrets.token_hex(4)
        self._labels = {RUN: self.run, HARNESS: owner_label()}
        self.disks = Disks(self)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot write logs to {directory}: {error.strerror}") from error
        with telling("removing what an earlier run left"):
            remove_leftovers(self._client)
        self._guardian = self._spawn_guardian()
        self._network = Network(docker_network_kw={"labels": self._labels, "driver": "bridge"})
        self._network.name = f"lostack-{self.run}"
        with telling("making a network for the containers"):
            self._network.create()

    def _spawn_guardian(self) -> subprocess.Popen[bytes]:
        """Start the process that removes everything if this one dies. Returns when that process is
        ready.
        """
        command = [sys.executable, "-m", "harness.runtimes.docker.guardian", f"{RUN}={self.run}"]
        with (self.directory / "guardian.log").open("ab") as log:
            guardian = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        if guardian.stdout is None or guardian.stdout.readline() != b"ready\n":
            guardian.kill()
            raise EngineError("the guardian of the containers did not start")
        return guardian

    # --- what users call --------------------------------------------------------------------------

    @property
    def guardian_pid(self) -> int:
        """Process id of the guardian."""
        return self._guardian.pid

    @property
    def nodes(self) -> tuple[DockerNode, ...]:
        """The latest incarnation of every node."""
        with self._lock:
            return tuple(self._nodes.values())

    def address(self, node: str) -> str:
        """Return the host name by which other nodes reach a node."""
        return node

    def check(self) -> None:
        """Make sure that the runtime can be used.

        Raises:
            EngineError: the engine, or the guardian of the containers, is gone.
        """
        if self._failure is not None:
            raise self._failure
        if self._guardian.poll() is not None and not self._closing:
            raise EngineError(
                f"the guardian of the containers ended (status {self._guardian.returncode})"
            )

    def expect(self, preload: tuple[str, ...]) -> None:
        """Do nothing: a container always starts its program anew."""

    def start(self, spec: NodeSpec) -> DockerNode:
        """Start a container. If the spec keeps its container over restarts, the ended one is
        started again.

        Raises:
            StartError: the container does not start.
            NodeStateError: the runtime is closed.
        """
        self.check()
        node, before = self._admit(spec)
        try:
            with telling(f"cannot start node {spec.name}"):
                self._run(node, before)
        except EngineError as error:
            self._dismiss(node, before)
            raise StartError(str(error)) from error
        return node

    def named(self, name: str) -> str:
        """Return the engine's name for something of this run. Names in the engine are shared by all
        its users.
        """
        return f"lostack-{self.run}-{name}"

    def make_volume(self, name: str, options: Mapping[str, str]) -> None:
        """Make a volume of this run."""
        with telling(f"making the volume {name}"):
            self._client.volumes.create(
                name, driver="local", driver_opts=dict(options), labels=self._labels
            )

    def disconnect(self, node: DockerNode) -> str:
        """Disconnect a container from the network; return the address that it had.

        Raises:
            NodeStateError: the container still has an address.
        """
        self.check()
        address = self._address(node)
        with telling(f"disconnecting node {node.name}"):
            self._client.networks.get(self._network.name).disconnect(node.container)
        if left := self._address(node):
            raise NodeStateError(
                f"node {node.name} still has the address {left}, although the engine reported "
                "that it was disconnected"
            )
        return address

    def connect(self, node: DockerNode) -> str:
        """Connect a container again; return its address."""
        self.check()
        with telling(f"connecting node {node.name}"):
            self._client.networks.get(self._network.name).connect(
                node.container, aliases=[node.name]
            )
        return self._address(node)

    def _address(self, node: DockerNode) -> str:
        """Return a container's address in the run's network, as the engine gives it; empty if it
        has none.
        """
        with telling(f"asking for the address of node {node.name}"):
            networks = self._client.api.inspect_container(node.container.id)["NetworkSettings"][
                "Networks"
            ]
        return str(networks.get(self._network.name, {}).get("IPAddress", ""))

    def state(self, node: DockerNode) -> dict[str, Any]:
        """Return a container's state from the engine."""
        with telling(f"asking for the state of node {node.name}"):
            return dict(self._client.api.inspect_container(node.container.id)["State"])

    def clear(self, temporary: str) -> None:
        """Do nothing: a container's temporary files are removed with it."""

    def close(self) -> None:
        """Remove all containers, networks and volumes of this runtime, and end the guardian. Safe
        to call twice.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
        try:
            with telling("removing the containers"):
                remove(self._client, f"{RUN}={self.run}")
            for node in self.nodes:
                node.wait(GONE_WITHIN_S)
        finally:
            self._client.close()
            with contextlib.suppress(BrokenPipeError):
                self._guardian.communicate(b"done\n", timeout=GONE_WITHIN_S)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception:
            if value is None:
                raise

    # --- inside -----------------------------------------------------------------------------------

    def _admit(self, spec: NodeSpec) -> tuple[DockerNode, DockerNode | None]:
        """Reserve the node's name; return the node to start, and the earlier node with
        that name.
        """
        log_path = (spec.log or self.directory / f"{spec.name}.log").absolute()
        with self._lock:
            if self._closing:
                raise NodeStateError(f"cannot start node {spec.name}: the runtime is closed")
            before = self._nodes.get(spec.name)
            if before is not None and before.alive:
                raise NodeStateError(
                    f"cannot start node {spec.name}: a node of that name is alive (pid "
                    f"{before.pid})"
                )
            incarnation = self._incarnations.get(spec.name, 0) + 1
            node = DockerNode(self, spec, log_path=log_path, incarnation=incarnation)
            self._nodes[spec.name] = node
            self._incarnations[spec.name] = incarnation
            return node, before

    def _dismiss(self, node: DockerNode, before: DockerNode | None) -> None:
        """Free the name of a node that could not be started."""
        node.end(None)
        with self._lock:
            self._incarnations[node.name] -= 1
            if before is None:
                del self._nodes[node.name]
            else:
                self._nodes[node.name] = before

    def _run(self, node: DockerNode, before: DockerNode | None) -> None:
        if (
            before is not None
            and before.spec == node.spec
            and node.spec.container.keep
            and not before.discarded
        ):
            node.container = before.container
            node.began_after = _moment(self.state(node)["FinishedAt"])
            node.container.start()
        else:
            if before is not None and before.spec.container.keep and not before.discarded:
                before.container.remove(force=True, v=True)
            disk = self.disks.volume(node.spec)
            node.container = create(
                node.spec,
                self.images[node.spec.container.image],
                name=self.named(f"{node.name}-{node.incarnation}"),
                labels=self._labels,
                network=self._network,
                disk=disk,
                accounts=self.directory / "passwd",
            )
        node.log_path.touch(0o600)
        if node.spec.stdin_pipe:
            node.open_stdin()
        state = self.state(node)
        node.pid = int(state.get("Pid") or 0)
        threading.Thread(
            target=self._follow, args=(node,), name=f"follow-{node.name}", daemon=True
        ).start()

    def _follow(self, node: DockerNode) -> None:
        """Copy a container's output into its log until it ends, then record how it ended. Runs in
        its own thread.
        """
        try:
            with telling(f"following node {node.name}"):
                # of a container that was up before, only what came since; the engine takes the time
                # of a start after the fact, when a quick program has written already
                since = {} if node.began_after is None else {"since": node.began_after}
                with open(node.log_path, "ab", buffering=0, opener=_private) as log:
                    log.writelines(node.container.logs(stream=True, follow=True, **since))
                code = int(node.container.wait()["StatusCode"])
                at_ns = time.monotonic_ns()
                oom = node.out_of_memory(code)
                if not node.spec.container.keep:
                    node.container.remove(v=True)
        except EngineError as error:
            if not self._closing:
                self._failure = self._failure or error
            node.end(None)
            return
        number = node.signal_of(code, oom=oom)
        node.end(Exit(node.pid, None if number else code, number, at_ns), oom_killed=oom)


def _moment(text: str) -> float:
    """Convert a time in the engine's format to seconds since 1970."""
    return dt.datetime.fromisoformat(text).timestamp()


def _private(path: str, flags: int) -> int:
    """Open a log so that nobody else reads it: a program may print what it was given."""
    return os.open(path, flags, 0o600)

"""The interface of a runtime: it starts nodes, and kills, pauses and resumes them. The kernel
confirms that each act happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


PROGRAMS_IMAGE: Final = "lostack"
"""The image of lostack's own programs: this package and its dependencies."""
JAVA_IMAGE: Final = "java"
"""The image of programs on jars: the programs' image with a Java. It sees the jars at the same
paths as this machine.
"""


class StartError(EnvironmentFailure):
    """A node could not be started. The message names the node and the reason, in one line."""


class NodeStateError(Exception):
    """A request does not fit the node's state: pausing an ended node, or restarting a
    running one.
    """


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A container's own small disk. It survives the container's death, and is removed at the end of
    the run.
    """

    folder: Path
    """The folder at which the container sees it."""
    size: int
    """Its size in bytes. Written bytes are held in the machine's memory."""


@dataclass(frozen=True, slots=True)
class Room:
    """The size and free space of a disk, in bytes, as its file system reports them."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a node needs if it is a container. A runtime of processes ignores it."""

    image: str = PROGRAMS_IMAGE
    """The image's name among those that the runtime was given."""
    ports: tuple[int, ...] = ()
    """Ports that are published on the host's loopback under the same numbers. They stay the same
    over restarts.
    """
    folders: tuple[Path, ...] = ()
    """Folders of the host that the container sees at the same paths."""
    elsewhere: tuple[tuple[Path, str], ...] = ()
    """Folders of the host, each with its path inside the container."""
    volumes: tuple[tuple[str, Path], ...] = ()
    """The engine's volumes by name, each with its path inside the container."""
    disk: SmallDisk | None = None
    """A small disk for its data."""
    host_pids: bool = True
    """Whether it sees the host's process ids. A failpoint then reports the id of the process that
    the engine sees die.
    """
    keep: bool = False
    """Whether a restart starts the same container again (as for a broker), instead of a new one."""
    memory: str | None = None
    """Its memory limit, such as ``256m``."""
    entrypoint: str | None = None
    """The program that gets ``argv`` as arguments, instead of the image's own entrypoint."""
    host_network: bool = False
    """Whether it uses the host's network, and so its loopback, instead of the run's network."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to start: a plain command with settings in its environment.

    ``env`` is added to the environment of the harness or, in a container, of the image. ``log``
    defaults to ``<runtime's directory>/<name>.log``. With ``stdin_pipe`` the node reads what
    ``write_stdin`` writes; without it, its standard input is empty. ``foreign``: the program is the
    user's own. It may detach the processes that it starts, so the runtime searches for them.
    ``preload``: the modules that a program ``(python, "-m", module, ...)`` imports, and its own;
    see :meth:`Runtime.expect`. ``temporary``: the name of a folder that the program, its JVM and
    its Spark use for temporary files, instead of the one that all nodes of the runtime share. It is
    kept over restarts until :meth:`Runtime.clear`. A container always has its own.
    """

    name: str
    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    stdin_pipe: bool = False
    log: Path | None = None
    container: ContainerSpec = ContainerSpec()
    foreign: bool = False
    preload: tuple[str, ...] = ()
    temporary: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A process that belongs to a node, with the reason why it does: see
    ``runtimes/process/members.py``.
    """

    pid: int
    how: str
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command})"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a node ended: ``status`` if it exited by itself, else ``signal``. ``at_ns`` is monotonic.

    ``members``: its other processes, which were killed then. ``left``: processes that live on,
    because they could not be killed, or because it is unknown whether they belong to the node.
    """

    pid: int
    status: int | None
    signal: int | None
    at_ns: int
    members: tuple[Member, ...] = ()
    left: tuple[Member, ...] = ()

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"status {self.status}"


class Node(Protocol):
    """One life of a node. A restart gives a new ``Node`` with the next incarnation."""

    @property
    def name(self) -> str:
        """Its name, unique among the living nodes of its runtime."""

    @property
    def role(self) -> str:
        """Its role: producer, broker, consumer, driver."""

    @property
    def spec(self) -> NodeSpec:
        """The spec that it was started from."""

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""

    @property
    def incarnation(self) -> int:
        """1 for the first start of this name in this runtime, 2 for the next."""

    @property
    def log_path(self) -> Path:
        """The file that its output goes to. All incarnations share it."""

    @property
    def exit(self) -> Exit | None:
        """How it ended; ``None`` while it lives."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""

    def members(self) -> tuple[Member, ...]:
        """Return the node's living processes that the runtime can see."""

    def kill(self) -> Exit:
        """Send SIGKILL, and wait until it and everything it started is gone. Return how it ended,
        also if that was before.
        """

    def terminate(self, within_s: float) -> Exit:
        """Send SIGTERM (a paused node is resumed for it), and SIGKILL if the node still lives
        ``within_s`` seconds later.
        """

    def tell_to_end(self) -> bool:
        """Send SIGTERM without waiting. Return false if the node has ended."""

    def pause(self) -> None:
        """Stop the node with everything it started; return when the kernel shows every thread
        stopped.

        Raises:
            NodeStateError: the node has ended.
        """

    def resume(self) -> None:
        """Let a paused node go on.

        Raises:
            NodeStateError: the node has ended.
        """

    def stands_still(self) -> bool:
        """Return whether it is stopped by a signal, its own for instance. An ended node is not
        stopped.
        """

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end, at most ``within_s`` seconds; return ``None`` if it lives on."""

    def write_stdin(self, data: bytes) -> None:
        """Write to its standard input (``stdin_pipe`` only).

        Raises:
            NodeStateError: the node's standard input cannot be written.
        """

    def close_stdin(self) -> None:
        """Close its standard input. Does nothing if it is closed."""

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines that this incarnation wrote."""

    def restart(self) -> Node:
        """Start the same spec again.

        Raises:
            NodeStateError: this node, or its successor, is alive.
        """


@runtime_checkable
class Contained(Protocol):
    """The additional operations of a node that is a container."""

    @property
    def container_id(self) -> str:
        """The container's id in the engine."""

    @property
    def oom_killed(self) -> bool:
        """Whether the kernel killed it for lack of memory, by the engine's report."""

    def starve(self) -> int:
        """Make it exceed a memory limit, and wait for its end. Return the limit in bytes; the next
        life has none.
        """

    def discard(self) -> None:
        """Remove the dead container; a restart makes another. Its files in folders of the host
        stay.
        """

    def fill_disk(self) -> Room:
        """Fill the node's small disk, and wait until the node ends by itself. Return the full
        disk's size and free space.
        """

    def empty_disk(self) -> Room:
        """Make room on its small disk again; return the disk's size and free space."""

    def disconnect(self) -> str:
        """Disconnect it from the network; return the address that it had there."""

    def connect(self) -> str:
        """Connect it to the network again, by the same name; return its address."""


class Runtime(Protocol):
    """Where nodes live. All nodes end when the context is left, and when the harness dies."""

    @property
    def name(self) -> str:
        """The name by which the user selects it."""

    @property
    def python(self) -> str:
        """The Python that runs programs of this package."""

    @property
    def here(self) -> bool:
        """Whether nodes are processes of this machine, whose Unix sockets the harness can reach."""

    @property
    def bind(self) -> str:
        """The address that a node listens on for other nodes."""

    def address(self, node: str) -> str:
        """Return the host name or address at which nodes reach a node."""

    def expect(self, preload: tuple[str, ...]) -> None:
        """Announce that Python programs which import these modules start soon. A runtime may import
        the modules once for all.
        """

    def start(self, spec: NodeSpec) -> Node:
        """Start a node; return when its program runs.

        Raises:
            StartError: the node cannot be started. The message is one line, with its name and the
                reason. The name is free again.
            NodeStateError: the name is taken, or the runtime is closed.
        """

    def check(self) -> None:
        """Raise EnvironmentFailure if the runtime can no longer watch its nodes."""

    def clear(self, temporary: str) -> None:
        """Remove a folder for temporary files (:attr:`NodeSpec.temporary`) after its programs have
        ended. Safe to call twice.
        """

    def close(self) -> None:
        """End every node with everything it started. Bounded in time, and safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...

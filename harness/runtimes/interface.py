"""What a runtime is: it starts nodes, and kills, pauses and resumes them with the kernel's word that it happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


PROGRAMS_IMAGE: Final = "lostack"
"""The image of our own programs: this package, and what it needs."""
JAVA_IMAGE: Final = "java"
"""The image of what runs on jars: that, and a Java. The jars are seen in it where they lie here."""


class StartError(EnvironmentFailure):
    """A node could not be started; the message says which, and why, in one line."""


class NodeStateError(Exception):
    """What was asked does not fit the node's state: pausing one that has ended, restarting one that runs."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A disk of a container's own: it lives as long as the run, whatever becomes of the container, and then it is gone."""

    folder: Path
    """Where it is seen inside."""
    size: int
    """Bytes. They are taken from the machine's memory, as far as they are written."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a disk's file system says of it, in bytes."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a node needs where it is a container; a runtime of processes has no use for it."""

    image: str = PROGRAMS_IMAGE
    """Which of the images the runtime was given."""
    ports: tuple[int, ...] = ()
    """Published on the host's loopback, by the same numbers; they stay over restarts."""
    folders: tuple[Path, ...] = ()
    """Folders of the host, seen at the same place inside."""
    elsewhere: tuple[tuple[Path, str], ...] = ()
    """Folders of the host, each with where it is seen inside."""
    volumes: tuple[tuple[str, Path], ...] = ()
    """The engine's volumes by their names, each with where it is seen inside."""
    disk: SmallDisk | None = None
    """A small disk of its own, for what it keeps."""
    host_pids: bool = True
    """Whether it sees the host's process ids: a program's failpoint names the id that the engine will see die."""
    keep: bool = False
    """Whether a restart starts the very same container again (a broker's), and not a new one."""
    memory: str | None = None
    """The most it may take, such as ``256m``."""
    entrypoint: str | None = None
    """The program that the words of ``argv`` are for, in the place of the image's own."""
    host_network: bool = False
    """Whether it has the host's network, and so its loopback, instead of the run's own."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to start: a plain command with settings in its environment.

    ``env`` is laid over the environment of the harness, or, in a container, over the image's. ``log`` defaults to
    ``<runtime's directory>/<name>.log``.
    With ``stdin_pipe`` the node reads what ``write_stdin`` writes, else its standard input is empty.
    ``foreign``: the program is somebody else's; where it may hide what it starts, more is done to find that.
    ``preload``: modules that a program ``(python, "-m", module, ...)`` imports, itself among them; see :meth:`Runtime.expect`.
    ``temporary``: the name of a folder that the program, its JVM and its Spark use for temporary files, instead of the one that
    all nodes of the runtime share. It stays over restarts, until :meth:`Runtime.clear`. A container has such a folder anyway.
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
    """A process that belongs to a node, and by what it does: see ``runtimes/process/members.py``."""

    pid: int
    how: str
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command})"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a node ended: ``status`` where it left by itself, else ``signal``. ``at_ns`` is monotonic.

    ``members``: its other processes, which were killed then. ``left``: those that live on, for they could not be killed, or
    nobody can tell whether they are its own.
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
        """Unique among the nodes alive in its runtime."""

    @property
    def role(self) -> str:
        """What it is there for: producer, broker, consumer, driver."""

    @property
    def spec(self) -> NodeSpec:
        """What it was started from."""

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""

    @property
    def incarnation(self) -> int:
        """1 for the first start of this name in this runtime, 2 for the next."""

    @property
    def log_path(self) -> Path:
        """Where its output goes; all incarnations share the file."""

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it lives."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""

    def members(self) -> tuple[Member, ...]:
        """Return the node's living processes, as far as the runtime can see them."""

    def kill(self) -> Exit:
        """SIGKILL, and wait until it is gone with everything it started. Where it had ended before, say how."""

    def terminate(self, within_s: float) -> Exit:
        """SIGTERM, which a paused one hears as well, and SIGKILL where it is not gone ``within_s`` later."""

    def tell_to_end(self) -> bool:
        """SIGTERM; does not wait. False where it has ended."""

    def pause(self) -> None:
        """Stop it with everything it started; return when the kernel shows every thread stopped.

        Raises:
            NodeStateError: the node has ended.
        """

    def resume(self) -> None:
        """Let a paused node go on.

        Raises:
            NodeStateError: the node has ended.
        """

    def stands_still(self) -> bool:
        """Say whether it has been stopped by a signal, its own for instance. False where it has ended."""

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end; None where it lives on."""

    def write_stdin(self, data: bytes) -> None:
        """Give it something to read (``stdin_pipe`` only).

        Raises:
            NodeStateError: the node does not take standard input.
        """

    def close_stdin(self) -> None:
        """End its input. Does nothing where it is ended."""

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines this incarnation wrote."""

    def restart(self) -> Node:
        """Start the same spec again.

        Raises:
            NodeStateError: this node, or its successor, is alive.
        """


@runtime_checkable
class Contained(Protocol):
    """What a node can besides that is a container. Nothing of it is done to processes."""

    @property
    def container_id(self) -> str:
        """The engine's id of it."""

    @property
    def oom_killed(self) -> bool:
        """Whether the kernel ended it for want of memory, as the engine tells."""

    def starve(self) -> int:
        """Let it hit a limit of its memory, and wait for its end. Return the limit in bytes; the next life has none."""

    def discard(self) -> None:
        """Remove the dead container: a restart makes another. What it kept in folders of the host stays."""

    def fill_disk(self) -> Room:
        """Fill the node's small disk, and wait until the node ends by itself. Return what the full disk said."""

    def empty_disk(self) -> Room:
        """Give the disk its room back; return what it says then."""

    def disconnect(self) -> str:
        """Take it from the network; return the address that it had there."""

    def connect(self) -> str:
        """Give it back to the network, by the same name; return its address."""


class Runtime(Protocol):
    """Where nodes live. Leaving the context ends them all, and so does the death of the harness."""

    @property
    def name(self) -> str:
        """The word that selects it."""

    @property
    def python(self) -> str:
        """The Python that programs of this package are run by."""

    @property
    def bind(self) -> str:
        """The address that a node listens on for other nodes."""

    def address(self, node: str) -> str:
        """Return the host name or address at which nodes reach a node."""

    def expect(self, preload: tuple[str, ...]) -> None:
        """Say that programs of this Python which import these modules will be started soon; some runtimes import them once."""

    def start(self, spec: NodeSpec) -> Node:
        """Start a node; return when its program runs.

        Raises:
            StartError: the node cannot be started; one line with its name and why. The name is free again.
            NodeStateError: the name is taken, or the runtime is closed.
        """

    def check(self) -> None:
        """Raise EnvironmentFailure where nodes can no longer be watched over."""

    def clear(self, temporary: str) -> None:
        """Remove a folder for temporary files (:attr:`NodeSpec.temporary`); its programs have ended. Safe to call twice."""

    def close(self) -> None:
        """End every node, with whatever it started. Bounded, and safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None: ...

"""The stages of a declared pipeline as nodes: a command and all processes that it starts."""

from __future__ import annotations

import fnmatch
import os
import re
import select
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import failpoint
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.logs import last_lines
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.model.writes import WRITES, FirstWrites
from harness.pipelines.braces import fill
from harness.run.nodes import GRACE_S, LIVES
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.process.durable import (
    Tracing,
    TracingError,
    files_since,
    made_since,
    why_no_tracing,
)
from harness.runtimes.process.members import tracer_of
from harness.runtimes.process.processes import (
    command_of,
    owner_of,
    stopped,
    stranger_at,
    written_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.model.writes import Point
    from harness.pipelines.declaration import Stage
    from harness.pipelines.programs import Service
    from harness.runtimes.interface import Exit, Member, Node, Runtime
    from harness.runtimes.process.durable import Held

GONE_S = 20.0
"""How long (seconds) a killed process may take to be gone. Only an uninterruptible read delays a
SIGKILL.
"""
WORK = "{work}"
"""Stands for the work folder in the name of a file, which is different in each run."""
MANY = 1000
"""How many lines of a log are searched for its last messages, which may be repeated many times."""


class StageError(CellFailure):
    """A stage cannot do its work; the text is one line, with the last lines of its log. ``stage``:
    its name, if known.
    """

    def __init__(self, text: str, stage: str = "") -> None:
        super().__init__(text)
        self.stage = stage


@dataclass
class CommandNode:
    """One stage, over all its incarnations. Implements :class:`harness.controls.Target`."""

    stage: Stage | Service
    values: Mapping[str, object]
    runtime: Runtime
    history: HistoryWriter
    cell_key: str
    directory: Path
    log: Path
    failpoints: Path
    fetches: Callable[[int], bool]
    """Says whether the wire saw the stage fetch since a time (monotonic ns)."""
    stdin: bool
    hint: Callable[[], str]
    """Returns what the wire saw that may explain why the stage does not become ready."""
    is_unread: Callable[[], bool] = lambda: False
    """Says whether the stage speaks what the wire does not read."""
    buried: Callable[[], object] = lambda: None
    """Called after the stage has died and before it is started again."""
    is_open: Callable[[], bool] = lambda: True
    """Says whether the port of a service without a ``ready`` pattern is open."""
    path: str | None = None
    """The PATH of the command and of what it starts; ``None``: lostack's own."""
    prints: bool = False
    """Whether what it prints is the output. If so, its output buffer stays on, and a crash may lose
    it.
    """
    incarnation: int = 0
    node: Node | None = None
    ready_at: int = 0
    """When this incarnation was ready (monotonic ns); 0: nobody has waited for that yet."""
    _since: int = 0
    _told: bool = field(default=False)
    _ended_s: float = field(default=0.0)
    """When the end of this incarnation was first seen (monotonic, seconds)."""
    _asked: bool = field(default=False)
    """Whether this incarnation was sent a SIGTERM."""
    _tracing: Tracing | None = field(default=None)
    _held: bool = field(default=False)
    _unready: StageError | None = field(default=None)
    """Why this incarnation did not become ready after a restart."""

    @property
    def role(self) -> Role:
        """Its role in histories: the role, or the stage's name if several stages share the role."""
        return self.stage.known

    @property
    def name(self) -> str:
        """Its name, which no other stage of the run has."""
        return str(self.stage.known)

    def start(self, *, supervised: bool = False) -> None:
        """Start the next incarnation without waiting for it. ``supervised``: the previous one ended
        by itself.
        """
        self.incarnation += 1
        bootstrap = str(self.values["bootstrap"])
        spec = NodeSpec(
            name=f"{self.cell_key}-{self.name}",
            role=self.name,
            log=self.log,
            stdin_pipe=self.stdin,
            foreign=True,
            temporary=self.cell_key,
            cwd=None if self.stage.image else self.directory,
            container=self._container(),
            argv=tuple(fill(word, self.values) for word in self.stage.command),
            env={
                "BOOTSTRAP_SERVERS": bootstrap,
                "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
                "PYTHONUNBUFFERED": "" if self.prints else "1",  # empty counts as not set
                "LOSTACK_WORK": str(self.values["work"]),
                failpoint.VARIABLE: str(self.failpoints),
                **({"PATH": self.path} if self.path and not self.stage.image else {}),
                **{
                    name: fill(value, self.values) for name, value in self.stage.environment.items()
                },
            },
        )
        self._since, self.ready_at = time.monotonic_ns(), 0
        self.node = self.runtime.start(spec)
        self._told, self._asked, self._unready = False, False, None
        self.say("started", pid=self.node.pid, supervised=supervised)

    def _container(self) -> ContainerSpec:
        """Return the container: its image, and every folder that the command may name, mounted at
        the same path.
        """
        folders = (
            self.failpoints,
            *(
                value
                for value in self.values.values()
                if isinstance(value, Path) and value.is_dir()
            ),
            *(
                value.parent
                for name, value in self.values.items()
                if name == "ca" and isinstance(value, Path)
            ),
        )
        return ContainerSpec(image=self.stage.image, folders=folders, host_network=True)

    def await_ready(self) -> None:
        """Wait until the stage is ready.

        Raises:
            StageError: the stage ended before it was ready, or is not ready in time.
        """
        within_s = self.stage.ready_within_s
        try:
            wait_until(
                lambda: self.ended() or self._is_ready() or self.is_unread(),
                within_s=within_s,
                because=f"the {self.name} to be ready",
            )
        except WaitTimeoutError as error:
            unseen = (
                "it never fetched from a topic of the run"
                if self.stage.reads
                else "nothing listens at its port"
            )
            wanted = f"its output never showed {self.stage.ready!r}" if self.stage.ready else unseen
            raise self.error(f"was not ready within {within_s:g} s: {wanted}") from error
        self.check_read()
        end = self.ended()
        if end is not None and not (end.status == 0 and not self.stage.reads):
            stays = "; a stage must stay in the foreground" if end.status == 0 else ""
            raise self.error(f"ended with {end} before it was ready{stays}")
        self.ready_at = time.monotonic_ns()
        self.say("ready", pid=self._alive().pid)

    def check_read(self) -> None:
        """Raise StageError if the wire does not read what the stage speaks: that voids the cell."""
        if self.is_unread():
            raise self.error("speaks what the wire does not read")

    def _is_ready(self) -> bool:
        if self.stage.ready:
            return re.search(self.stage.ready, self._alive().log_tail(1000)) is not None
        return self.fetches(self._since) if self.stage.reads else self.is_open()

    def error(self, what: str) -> StageError:
        """Return an error about the stage, with what the wire saw that may explain it and the last
        lines of its log.
        """
        tail = " | ".join(last_lines(self._alive().log_tail(MANY)))
        said = f"; it last said: {tail}" if tail else "; it printed nothing"
        hint = self.hint()
        return StageError(f"the {self.name} {what}{f' ({hint})' if hint else ''}{said}", self.name)

    def ended(self) -> Exit | None:
        """Return how this incarnation ended, or ``None``; the history notes the end once."""
        if self.node is None:  # its start is still to come
            return None
        self.runtime.check()
        end = self._alive().exit
        if end is not None and not self._told:
            self._told, self._ended_s = True, time.monotonic()
            asked = {"asked": True} if self._asked else {}
            self.say(
                "exited",
                pid=end.pid,
                status=end.status,
                signal=end.signal,
                **asked,
                **_others(members=end.members, left=end.left),
            )
        return end

    @property
    def since(self) -> int:
        """When this incarnation was started (monotonic ns)."""
        return self._since

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self.node is not None

    @property
    def asked(self) -> bool:
        """Whether this incarnation was sent a SIGTERM."""
        return self._asked

    def stopped_itself(self) -> bool:
        """Say whether this incarnation has ended by itself."""
        return self.node is not None and self.ended() is not None

    def members(self) -> dict[int, Member]:
        """Return the living processes of this stage, by their process ids."""
        return {} if self.node is None else {member.pid: member for member in self.node.members()}

    def owner(self, port: int) -> int | None:
        """Return the id of this stage's process that has the connection from a port; ``None`` if
        none has.
        """
        return owner_of(self.members(), port, self.ports)

    def stranger(self, port: int) -> tuple[int, str] | None:
        """Return the process outside this stage that has the connection from a port; ``None`` if
        the stage itself has it.

        The result is the process id (0 if it cannot be seen) and the command. For a container it is
        always ``None``: the container is the boundary.
        """
        if self.stage.image:
            return None
        pid = stranger_at(port, self.ports, self.members)
        return None if pid is None else (pid, command_of(pid) if pid else "")

    @property
    def ports(self) -> set[int]:
        """Return the ports at which the wire listens for this stage."""
        brokers = (at.rpartition(":")[2] for at in str(self.values["bootstrap"]).split(",") if at)
        services = (at for name, at in self.values.items() if name.endswith(".port"))
        return {int(str(port)) for port in (*brokers, *services)}

    def trace(self, log: Path, point: Point | FirstWrites | None = None) -> None:
        """Log the durable writes of this incarnation from now on; stop a thread at a point if one
        is given.

        Raises:
            TracingError: the stage is a container, or the kernel does not allow tracing.
        """
        if self.stage.image:
            raise TracingError(
                f"the {self.name} is a container: lostack does not trace processes in containers"
            )
        if why := why_no_tracing():
            raise TracingError(why)
        if isinstance(point, FirstWrites) or (point is not None and point.call in WRITES):
            opened = {file for pid in self.members() for file in written_by(pid)} - self._aside
            point = _in_this_run(point, str(self.values["work"]), opened, prints=self.prints)
        self._tracing = Tracing(self._alive(), log, point, plain=point is None)  # type: ignore[arg-type]  # without an image: a process

    def written(self, since_ns: int) -> tuple[dict[str, list[int]], tuple[str, ...]]:
        """Return the durable calls of each thread since a time (wall ns), the busiest first, and
        the files written.

        A file below the work folder is named by ``{work}``.
        """
        if self._tracing is None:
            return {}, ()
        writes = self._tracing.writes()
        files = files_since(writes, since_ns, self._aside)
        return made_since(writes, since_ns, files), tuple(
            file.replace(str(self.values["work"]), WORK) for file in files
        )

    @property
    def _aside(self) -> set[str]:
        """The files whose writes do not count: the stage's log, unless that is the output."""
        return set() if self.prints else {str(self.log.resolve())}

    def held(self) -> Held | None:
        """Return the durable write at which a thread is stopped, or ``None``; the history notes it
        once.
        """
        found = None if self._tracing is None else self._tracing.held()
        if found is not None and not self._held:
            self._held = True
            self.history.write(
                kinds.DURABLE, role=self.name, incarnation=self.incarnation, **found.told()
            )
        return found

    @property
    def tracing(self) -> Tracing | None:
        """What traces this incarnation; ``None``: nothing does."""
        return self._tracing

    def untrace(self) -> None:
        """End the tracing. A thread that was stopped before a write then does it, if its process
        lives.
        """
        if self._tracing is not None:
            self._tracing.end()
            self._tracing = None

    def one(self, pid: int) -> OneProcess | CommandNode:
        """Return one process of this stage, to be crashed alone; the stage itself if it has no
        other process.
        """
        others = self.members().keys() - {pid, tracer_of(pid)}
        return OneProcess(self, pid, self._alive().pid) if others else self

    def claim(self, pid: int) -> None:
        """Note in the history that a process belongs to this stage, if the kernel says so."""
        if pid != self._alive().pid and pid in self.members():
            self.say("joined", pid=pid, of=self._alive().pid)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the stage, and wait until they are reaped."""
        try:
            if self.ended() is None:
                self._alive().kill()
                self.ended()
        finally:
            self.untrace()

    def tell_to_end(self) -> None:
        """Send SIGTERM to all processes of the stage, without waiting."""
        self._asked = self._alive().tell_to_end()
        if self._asked:
            self.say("told", pid=self._alive().pid)

    def await_end(self) -> None:
        """Wait until the stage has ended; kill it after the grace period that
        orchestrators give.
        """
        try:
            wait_until(
                self.ended, within_s=GRACE_S, because=f"the {self.name} to end after SIGTERM"
            )
        except WaitTimeoutError:
            self.kill()

    def pause(self) -> None:
        """Stop all processes of the stage (SIGSTOP)."""
        (node := self._alive()).pause()
        others = [member for pid, member in self.members().items() if pid != node.pid]
        self.say("paused", pid=node.pid, **_others(members=others))

    def resume(self) -> None:
        """Let all processes of the stage go on (SIGCONT)."""
        self._alive().resume()
        self.say("resumed", pid=self._alive().pid)

    def restart(self) -> None:
        """Start the stage again and wait until it is ready. If it does not become ready,
        :meth:`supervise` raises that error.
        """
        self.begin_again()
        self.await_back()

    def begin_again(self) -> None:
        """Start the stage again after its ``down_s``; do not wait until it is ready."""
        self.buried()
        wait_until(
            lambda: not self._is_down(),
            within_s=self.stage.down_s + GONE_S,
            because=f"the {self.name} to come back",
        )
        self.start()

    def await_back(self) -> None:
        """Wait until it is ready. :meth:`supervise` tells that it does not come back."""
        try:
            self.await_ready()
        except StageError as error:
            self._unready = error

    def supervise(self) -> str | None:
        """Start the stage again if it ended and should go on; return a message about that, or
        ``None``.

        Raises:
            StageError: the stage ends again and again, or did not become ready after a restart.
        """
        end = self.ended()
        if end is None:
            if self._unready is not None and not self._is_ready():
                raise self._unready
            return None
        if end.status == 0 and not self.stage.reads:
            return None
        if not self.stage.restart or self.incarnation >= LIVES:
            raise self.error(
                "ended with "
                f"{end}{f', started {self.incarnation} times' if self.incarnation > 1 else ''}"
            )
        if self._is_down():
            return f"the {self.name} ended with {end}, and stays down for {self.stage.down_s:g} s"
        self.buried()
        self.start(supervised=True)
        return f"the {self.name} ended with {end} and was started again"

    def _is_down(self) -> bool:
        return time.monotonic() - self._ended_s < self.stage.down_s

    def _alive(self) -> Node:
        if self.node is None:
            raise RuntimeError(f"the {self.name} was never started")
        return self.node

    def say(self, phase: str, **fields: Any) -> None:
        """Note in the history what happened to one of the stage's processes."""
        self.history.write(
            kinds.NODE,
            node=self.name,
            role=self.name,
            incarnation=self.incarnation,
            phase=phase,
            **fields,
        )


def _in_this_run(
    point: Point | FirstWrites, work: str, opened: Iterable[str], *, prints: bool
) -> Point | FirstWrites:
    """Return a point with the names that its files have in this run. Files that are ``opened``
    count, too; of a first write only those in its glob, unless the stage ``prints`` the output.
    """
    named = {file.replace(WORK, work) for file in point.files}
    if isinstance(point, FirstWrites) and not prints:
        within = point.within.replace(WORK, work)
        opened = (file for file in opened if within and fnmatch.fnmatchcase(file, within))
    return replace(point, files=tuple(sorted({*named, *opened})))


def _others(**found: Sequence[Member]) -> dict[str, Any]:
    """Return processes as fields of a history line; no field for an empty list."""
    return {
        name: [[one.pid, one.how, one.command] for one in members]
        for name, members in found.items()
        if members
    }


class OneProcess:
    """One process of a stage that has several. Implements :class:`harness.controls.Target`.

    Its parent belongs to the user's program, and the kernel tells only the parent how it ended. Its
    pid file descriptor shows that it lived when it was killed, and that it was gone afterwards.
    """

    def __init__(self, stage: CommandNode, pid: int, leader: int) -> None:
        self.name = stage.name
        self.role = stage.role
        self._stage = stage
        self._pid = pid
        self._leader = leader

    def kill(self) -> None:
        """Send SIGKILL to this process alone, and wait until it is gone.

        Raises:
            StageError: the process ended before it could be killed.
            WaitTimeoutError: the process is not gone in time.
        """
        try:
            descriptor = os.pidfd_open(self._pid)
        except ProcessLookupError as error:
            raise StageError(
                f"the process {self._pid} of the {self.name} ended before it could be killed"
            ) from error
        try:
            ended, _, _ = select.select([descriptor], [], [], 0)
            if ended:
                raise StageError(
                    f"the process {self._pid} of the {self.name} ended before it could be killed"
                )
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            # a traced process cannot end while its tracer holds it; and the other processes must go
            # on
            self._stage.untrace()
            ended, _, _ = select.select([descriptor], [], [], GONE_S)
        finally:
            os.close(descriptor)
        if not ended:
            raise WaitTimeoutError(f"process {self._pid} of the {self.name} to be gone", GONE_S)
        self._say("exited", status=None, signal=int(signal.SIGKILL))

    def pause(self) -> None:
        """Send SIGSTOP; return when the kernel shows every thread of the process stopped."""
        os.kill(self._pid, signal.SIGSTOP)
        wait_until(
            lambda: stopped(self._pid),
            within_s=GONE_S,
            because=f"process {self._pid} to stand still",
        )
        self._say("paused")

    def resume(self) -> None:
        """Send SIGCONT."""
        os.kill(self._pid, signal.SIGCONT)
        self._say("resumed")

    def restart(self) -> None:
        """Do nothing: its parent, or the stage's restart, replaces it."""

    def _say(self, phase: str, **fields: Any) -> None:
        self._stage.say(phase, pid=self._pid, of=self._leader, **fields)

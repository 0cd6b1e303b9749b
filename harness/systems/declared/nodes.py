"""The stages of a declared pipeline as nodes: a plain command, all that it starts, its lives written down."""

from __future__ import annotations

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
from harness.model.writes import WRITES
from harness.pipelines.braces import fill
from harness.run.nodes import GRACE_S
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.process.durable import Tracing, TracingError, files_since, made_since, why_no_tracing
from harness.runtimes.process.members import tracer_of
from harness.runtimes.process.processes import command_of, owner_of, stopped, stranger_at, written_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.model.writes import Point
    from harness.pipelines.declaration import Stage
    from harness.pipelines.programs import Service
    from harness.runtimes.interface import Exit, Member, Node, Runtime
    from harness.runtimes.process.durable import Held

LIVES = 6
"""How often a stage that ends by itself is started, as a supervisor would, before it counts as crash-looping."""
GONE_S = 20.0
"""A SIGKILL takes effect at once, unless the process sits in an uninterruptible read."""
WORK = "{work}"
"""How the work folder is named where a file is that another run will have, too."""
MANY = 1000
"""Lines of it that are looked at: they may say the same again and again."""


class StageError(CellFailure):
    """A stage cannot do its work; one line with the last lines of its log. ``stage``: its name, where it is about one."""

    def __init__(self, text: str, stage: str = "") -> None:
        super().__init__(text)
        self.stage = stage


@dataclass
class CommandNode:
    """One stage over its incarnations. Implements :class:`harness.controls.Target`."""

    stage: Stage | Service
    values: Mapping[str, object]
    runtime: Runtime
    history: HistoryWriter
    cell_key: str
    directory: Path
    log: Path
    failpoints: Path
    fetches: Callable[[int], bool]
    """Whether the stage has fetched since a time (monotonic ns), as the wire saw it."""
    stdin: bool
    hint: Callable[[], str]
    """What the wire saw that may be the reason where the stage does not become ready."""
    buried: Callable[[], object] = lambda: None
    """Called when the stage has died, before it is started again."""
    is_open: Callable[[], bool] = lambda: True
    """Whether a service that shows nothing is ready, by its port."""
    path: str | None = None
    """Where its command is looked for, and what it starts; ``None``: as ever."""
    prints: bool = False
    """Whether what it prints is the output. When it does so is its own then, or no crash would find anything unprinted."""
    incarnation: int = 0
    node: Node | None = None
    _since: int = 0
    _told: bool = field(default=False)
    _ended_s: float = field(default=0.0)
    """When it was first seen that this incarnation has ended (monotonic)."""
    _asked: bool = field(default=False)
    """Whether this incarnation was told to end."""
    _tracing: Tracing | None = field(default=None)
    _held: bool = field(default=False)
    _unready: StageError | None = field(default=None)
    """Why this incarnation, which was started in the place of a dead one, was not ready."""

    @property
    def role(self) -> Role:
        """What it is called in histories: the role that it alone has, or its own name."""
        return self.stage.known

    @property
    def name(self) -> str:
        """A run has one stage of each name."""
        return str(self.stage.known)

    def start(self, *, supervised: bool = False) -> None:
        """Start the next incarnation; does not wait. ``supervised``: because the one before has ended by itself."""
        self.incarnation += 1
        bootstrap = str(self.values["bootstrap"])
        spec = NodeSpec(
            name=f"{self.cell_key}-{self.name}", role=self.name, log=self.log, stdin_pipe=self.stdin, foreign=True,
            temporary=self.cell_key,
            cwd=None if self.stage.image else self.directory, container=self._container(),
            argv=tuple(fill(word, self.values) for word in self.stage.command),
            env={
                "BOOTSTRAP_SERVERS": bootstrap, "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
                "PYTHONUNBUFFERED": "" if self.prints else "1",  # empty is as good as not set, whatever lostack was started with
                "LOSTACK_WORK": str(self.values["work"]), failpoint.VARIABLE: str(self.failpoints),
                **({"PATH": self.path} if self.path and not self.stage.image else {}),
                **{name: fill(value, self.values) for name, value in self.stage.environment.items()},
            },
        )  # fmt: skip
        self._since = time.monotonic_ns()
        self.node = self.runtime.start(spec)
        self._told = self._asked = False
        self._unready = None
        self._say("started", pid=self.node.pid, supervised=supervised)

    def _container(self) -> ContainerSpec:
        """What it needs where it is a container: every folder that its command may name, at the same place."""
        folders = (
            self.failpoints,
            *(value for value in self.values.values() if isinstance(value, Path) and value.is_dir()),
            *(value.parent for name, value in self.values.items() if name == "ca" and isinstance(value, Path)),
        )
        return ContainerSpec(image=self.stage.image, folders=folders, host_network=True)

    def await_ready(self) -> None:
        """Wait until it does its work.

        Raises:
            StageError: it ends before, or is never ready.
        """
        within_s = self.stage.ready_within_s
        try:
            wait_until(lambda: self.ended() or self._is_ready(), within_s=within_s, because=f"the {self.name} to be ready")
        except WaitTimeoutError as error:
            unseen = "it never fetched any topic of the run" if self.stage.reads else "nobody listens at its port"
            wanted = f"its output never showed {self.stage.ready!r}" if self.stage.ready else unseen
            raise self.error(f"was not ready within {within_s:g} s: {wanted}") from error
        end = self.ended()
        if end is not None and not (end.status == 0 and not self.stage.reads):
            stays = ", and a stage has to stay, in the foreground" if end.status == 0 else ""
            raise self.error(f"ended with {end} before it was ready{stays}")
        self._say("ready", pid=self._alive().pid)

    def _is_ready(self) -> bool:
        if self.stage.ready:
            return re.search(self.stage.ready, self._alive().log_tail(1000)) is not None
        return self.fetches(self._since) if self.stage.reads else self.is_open()

    def error(self, what: str) -> StageError:
        """Return an error about it, with what the wire saw that may be the reason, and its last words."""
        tail = " | ".join(last_lines(self._alive().log_tail(MANY)))
        said = f"; it last said: {tail}" if tail else "; it printed nothing"
        hint = self.hint()
        return StageError(f"the {self.name} {what}{f' ({hint})' if hint else ''}{said}", self.name)

    def ended(self) -> Exit | None:
        """Return how this incarnation ended, if it has; written down once."""
        self.runtime.check()
        end = self._alive().exit
        if end is not None and not self._told:
            self._told, self._ended_s = True, time.monotonic()
            asked = {"asked": True} if self._asked else {}
            self._say("exited", pid=end.pid, status=end.status, signal=end.signal, **asked,
                      **_others(members=end.members, left=end.left))  # fmt: skip
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
        """Whether this incarnation was told to end."""
        return self._asked

    def stopped_itself(self) -> bool:
        """Say whether this incarnation has ended by itself."""
        return self.node is not None and self.ended() is not None

    def members(self) -> dict[int, Member]:
        """Return the processes of this stage that live, by their ids."""
        return {} if self.node is None else {member.pid: member for member in self.node.members()}

    def owner(self, port: int) -> int | None:
        """Return the process of this stage that has a connection from a port; None where none has."""
        return owner_of(self.members(), port, self._ports())

    def stranger(self, port: int) -> tuple[int, str] | None:
        """Return who else has the connection from a port: its process id (0: it is not to be seen) and its command; or None.

        In containers the container is the boundary, and nobody looks.
        """
        if self.stage.image:
            return None
        pid = stranger_at(port, self._ports(), self.members)
        return None if pid is None else (pid, command_of(pid) if pid else "")

    def _ports(self) -> set[int]:
        """The ports of the stage's route."""
        return {int(at.rpartition(":")[2]) for at in str(self.values["bootstrap"]).split(",") if at}

    def trace(self, log: Path, point: Point | None = None) -> None:
        """Write its durable writes into a log, from now on and in this life of it, and hold a thread at a point, if there is one.

        Raises:
            TracingError: it cannot be traced.
        """
        if self.stage.image:
            raise TracingError(f"the {self.name} is a container, whose processes nobody traces")
        if why := why_no_tracing():
            raise TracingError(why)
        if point is not None and point.call in WRITES:
            named = {file.replace(WORK, str(self.values["work"])) for file in point.files}
            opened = {file for pid in self.members() for file in written_by(pid)} - self._aside
            point = replace(point, files=tuple(sorted(named | opened)))
        self._tracing = Tracing(self._alive(), log, point, plain=point is None)  # type: ignore[arg-type]  # without an image: a process

    def written(self, since_ns: int) -> tuple[dict[str, list[int]], tuple[str, ...]]:
        """Return how often each of its threads was seen to make each durable call since a time (wall), the busiest first.

        And the files that it wrote into, below its work folder by ``{work}``.
        """
        if self._tracing is None:
            return {}, ()
        writes = self._tracing.writes()
        files = files_since(writes, since_ns, self._aside)
        return made_since(writes, since_ns, files), tuple(file.replace(str(self.values["work"]), WORK) for file in files)

    @property
    def _aside(self) -> set[str]:
        """Files whose writes are no result: what it prints, unless that is the output."""
        return set() if self.prints else {str(self.log.resolve())}

    def held(self) -> Held | None:
        """Say at which durable write it is held, if it is; written down once."""
        found = None if self._tracing is None else self._tracing.held()
        if found is not None and not self._held:
            self._held = True
            self.history.write(kinds.DURABLE, role=self.name, incarnation=self.incarnation, **found.told())
        return found

    def untrace(self) -> None:
        """Let go of who is traced, or held; what somebody was held in front of is done, if he lives."""
        if self._tracing is not None:
            self._tracing.end()
            self._tracing = None

    def one(self, pid: int) -> OneProcess | CommandNode:
        """Return one process of this stage, to be crashed alone; the stage itself where it is its only one."""
        others = self.members().keys() - {pid, tracer_of(pid)}
        return OneProcess(self, pid, self._alive().pid) if others else self

    def claim(self, pid: int) -> None:
        """Write down that a process is one of this stage's, where the kernel says so."""
        if pid != self._alive().pid and pid in self.members():
            self._say("joined", pid=pid, of=self._alive().pid)

    def kill(self) -> None:
        """SIGKILL all of its processes, and wait until they are reaped."""
        try:
            if self.ended() is None:
                self._alive().kill()
                self.ended()
        finally:
            self.untrace()

    def tell_to_end(self) -> None:
        """SIGTERM to all of its processes; does not wait."""
        self._asked = self._alive().tell_to_end()
        if self._asked:
            self._say("told", pid=self._alive().pid)

    def await_end(self) -> None:
        """Wait until it is gone; after the grace that orchestrators give it is killed."""
        try:
            wait_until(self.ended, within_s=GRACE_S, because=f"the {self.name} to end, as it was told")
        except WaitTimeoutError:
            self.kill()

    def pause(self) -> None:
        """Stop it."""
        self._alive().pause()
        others = [member for pid, member in self.members().items() if pid != self._alive().pid]
        self._say("paused", pid=self._alive().pid, **_others(members=others))

    def resume(self) -> None:
        """Let it go on."""
        self._alive().resume()
        self._say("resumed", pid=self._alive().pid)

    def restart(self) -> None:
        """Start it again and wait until it is ready. :meth:`supervise` tells that it does not come back."""
        self.buried()
        wait_until(lambda: not self._is_down(), within_s=self.stage.down_s + GONE_S, because=f"the {self.name} to come back")
        self.start()
        try:
            self.await_ready()
        except StageError as error:
            self._unready = error

    def supervise(self) -> str | None:
        """Start again what has ended and should go on; say so, or ``None``.

        Raises:
            StageError: it ends again and again.
        """
        end = self.ended()
        if end is None:
            if self._unready is not None and not self._is_ready():
                raise self._unready
            return None
        if end.status == 0 and not self.stage.reads:
            return None
        if not self.stage.restart or self.incarnation >= LIVES:
            raise self.error(f"ended with {end}{f', started {self.incarnation} times' if self.incarnation > 1 else ''}")
        if self._is_down():
            return f"the {self.name} ended with {end}, and is down for {self.stage.down_s:g} s"
        self.buried()
        self.start(supervised=True)
        return f"the {self.name} ended with {end} and was started again"

    def _is_down(self) -> bool:
        """Whether it is too early to start again what has ended."""
        return time.monotonic() - self._ended_s < self.stage.down_s

    def _alive(self) -> Node:
        if self.node is None:
            raise RuntimeError(f"the {self.name} was never started")
        return self.node

    def say(self, phase: str, **fields: Any) -> None:
        """Write down what became of one of its processes."""
        self._say(phase, **fields)

    def _say(self, phase: str, **fields: Any) -> None:
        self.history.write(kinds.NODE, node=self.name, role=self.name, incarnation=self.incarnation, phase=phase, **fields)


def _others(**found: Sequence[Member]) -> dict[str, Any]:
    """Return processes as they are written down; nothing where there are none."""
    return {name: [[one.pid, one.how, one.command] for one in members] for name, members in found.items() if members}


class OneProcess:
    """One process of a stage of several. Implements :class:`harness.controls.Target`. Its parent is the user's own.

    Nobody but its parent is told how it ended: that it was there, and not dead, when it was killed, and that it was gone
    after that, is what its file descriptor says.
    """

    def __init__(self, stage: CommandNode, pid: int, leader: int) -> None:
        self.name = stage.name
        self.role = stage.role
        self._stage = stage
        self._pid = pid
        self._leader = leader

    def kill(self) -> None:
        """SIGKILL of this process alone, and wait until it is gone.

        Raises:
            StageError: it ended before it could be killed.
            WaitTimeoutError: it is not gone in time.
        """
        try:
            descriptor = os.pidfd_open(self._pid)
        except ProcessLookupError as error:
            raise StageError(f"the process {self._pid} of the {self.name} ended before it could be killed") from error
        try:
            ended, _, _ = select.select([descriptor], [], [], 0)
            if ended:
                raise StageError(f"the process {self._pid} of the {self.name} ended before it could be killed")
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            self._stage.untrace()  # its end would wait for its tracer, who holds it; and the others are to go on
            ended, _, _ = select.select([descriptor], [], [], GONE_S)
        finally:
            os.close(descriptor)
        if not ended:
            raise WaitTimeoutError(f"process {self._pid} of the {self.name} to be gone", GONE_S)
        self._say("exited", status=None, signal=int(signal.SIGKILL))

    def pause(self) -> None:
        """SIGSTOP; return when the kernel shows every thread of it stopped."""
        os.kill(self._pid, signal.SIGSTOP)
        wait_until(lambda: stopped(self._pid), within_s=GONE_S, because=f"process {self._pid} to stand still")
        self._say("paused")

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self._pid, signal.SIGCONT)
        self._say("resumed")

    def restart(self) -> None:
        """Leave it to its stage: to its parent, or to whoever starts the stage again where that ends."""

    def _say(self, phase: str, **fields: Any) -> None:
        self._stage.say(phase, pid=self._pid, of=self._leader, **fields)

"""The runtime ``process``: nodes are processes of this machine, and the guardian is
their parent.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from harness.model.failures import EnvironmentFailure
from harness.runtimes.interface import Exit, Member, NodeStateError, StartError
from harness.runtimes.process import cgroups
from harness.runtimes.process.link import GONE_WITHIN_S, GuardianDiedError, Link
from harness.runtimes.process.members import VARIABLE, Members, end_all
from harness.runtimes.process.node import ProcessNode
from harness.runtimes.process.scratch import Scratch, used_by

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from types import TracebackType

    from harness.runtimes.interface import NodeSpec
    from harness.runtimes.process.messages import Answer, Request

FORK_SERVER: Final = Path(__file__).with_name("fork_server.py")
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""Keeps NumPy's library from starting threads on import, because a fork does not copy them."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STAGES: Final = {
    "log": "cannot open its log {log}",
    "cwd": "cannot enter its directory {cwd}",
    "exec": "cannot run {program}",
    "fork": "the machine refuses to start another process",
}


class ProcessRuntime:
    """Starts nodes as processes of this machine. Thread-safe; a context manager.

    Logs go to ``directory/<node>.log``; the default is the folder for temporary files, which is
    removed at the end. Raises GuardianDiedError if the guardian does not start, and from every call
    after its death.
    """

    name = "process"
    python = sys.executable
    here = True
    bind = "127.0.0.1"

    def __init__(self, *, directory: Path | None = None, cgroups: bool = True) -> None:
        """Start the guardian. ``cgroups``: give each foreign node its own cgroup, if this machine
        allows that.
        """
        self._scratch = Scratch()
        self.directory = directory or self._scratch.path
        self._cgroups = cgroups
        self.id = secrets.token_hex(8)
        """The runtime's unique id."""
        self._nodes: dict[str, ProcessNode] = {}
        self._incarnations: dict[str, int] = {}
        self._by_pid: dict[int, ProcessNode] = {}
        self._preload: tuple[str, ...] = ()
        self._preload_cwd = Path()
        self._lock = threading.Lock()
        self._closing = False
        try:
            self._link = Link(self.directory, self._scratch.path, self._exited, self._lost)
        except BaseException:
            self._scratch.close()
            raise

    # --- what users call --------------------------------------------------------------------------

    @property
    def guardian_pid(self) -> int:
        """Process id of the guardian."""
        return self._link.pid

    @property
    def nodes(self) -> tuple[ProcessNode, ...]:
        """The latest incarnation of every node."""
        with self._lock:
            return tuple(self._nodes.values())

    def address(self, node: str) -> str:
        """Return the loopback address: every node is on this machine."""
        del node
        return self.bind

    def check(self) -> None:
        """Raise GuardianDiedError if the guardian is gone, so that the runtime cannot be used."""
        self._link.check()

    def expect(self, preload: tuple[str, ...]) -> None:
        """Start the fork server, which imports these modules once, in this folder. Later calls do
        nothing.
        """
        self.check()
        with self._lock:
            if not preload or self._preload or self._closing:
                return
            self._preload, self._preload_cwd = preload, Path.cwd()
        command = [
            self.python,
            str(FORK_SERVER),
            str(self._link.pid),
            str(self.directory.absolute()),
            *preload,
        ]
        log = str(self.directory.absolute() / "guardian.log")
        env = {**os.environ, **ONE_THREAD, "TMPDIR": str(self._scratch.path)}
        message: Request = {
            "do": "preload",
            "argv": command,
            "env": env,
            "cwd": str(self._preload_cwd),
            "log": log,
        }
        self._link.ask(message, lambda _: None)

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start a node; return when its program runs.

        Raises:
            StartError: the node cannot be started.
            NodeStateError: the node's name is taken, or the runtime is closed.
        """
        self.check()
        _check_spec(spec)
        self.expect(spec.preload)
        read, write = _stdin_pipe() if spec.stdin_pipe else (None, None)
        node = self._admit(spec, write)

        def started(answer: Answer) -> None:
            if "pid" in answer:
                node.pid, node.since = answer["pid"], answer["since"]
                node.cgroup = answer["cgroup"]
                self._by_pid[node.pid] = node

        message: Request = {
            "do": "start",
            "node": spec.name,
            "argv": list(spec.argv),
            "env": {**self._environment(spec), VARIABLE: node.token},
            "foreign": spec.foreign,
            "cgroup": spec.foreign and self._cgroups,
            "cwd": None if spec.cwd is None else str(spec.cwd.absolute()),
            "log": str(node.log_path),
            "stdin": spec.stdin_pipe,
            **self._forked(spec),
        }
        try:
            answer = self._link.ask(message, started, () if read is None else (read,))
        except EnvironmentFailure:
            self._dismiss(node)
            raise
        finally:
            if read is not None:
                os.close(read)
        if "error" in answer:
            self._dismiss(node)
            raise StartError(_why(spec, node.log_path, answer))
        return node

    def treat(self, node: ProcessNode, what: str, number: signal.Signals) -> Answer:
        """Let the guardian ``signal`` a node's group, or ``kill``, ``pause`` or ``resume`` all its
        members; return its answer.
        """
        self.check()
        if not node.alive:
            return {"error": "it has ended", "stage": "signal"}
        return self._link.ask({"do": what, "pid": node.pid, "signal": int(number)}, lambda _: None)

    def members(self, node: ProcessNode) -> tuple[Member, ...]:
        """Return the living processes of a node."""
        self.check()
        if not node.alive:
            return ()
        return _members(
            self._link.ask({"do": "members", "pid": node.pid}, lambda _: None).get("members", ())
        )

    def signal(self, node: ProcessNode, number: signal.Signals) -> bool:
        """Signal a node's group. Return false if the node has ended."""
        return "error" not in self.treat(node, "signal", number)

    def clear(self, temporary: str) -> None:
        """Remove a folder for temporary files."""
        shutil.rmtree(self._scratch.path / temporary, ignore_errors=True)

    def close(self) -> None:
        """End every node with everything it started, and the guardian.

        Raises:
            GuardianDiedError: the guardian had died before.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
        try:
            self._link.close()
        finally:
            self._scratch.close()
        self.check()

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
        except GuardianDiedError:  # all other errors followed from this one
            if value is None or isinstance(value, Exception):
                raise
        except Exception:
            if value is None:
                raise

    def _forked(self, spec: NodeSpec) -> Request:
        """Return the fields by which the fork server forks a program, if it has imported the
        program's modules in its folder.
        """
        python, *words = spec.argv
        here = spec.cwd is not None and spec.cwd.absolute() == self._preload_cwd
        known = set(spec.preload) <= set(self._preload)
        if (
            not spec.preload
            or not known
            or not here
            or python != self.python
            or words[:1] != ["-m"]
        ):
            return {}
        return {"module": words[1], "words": words[2:]}

    def _environment(self, spec: NodeSpec) -> dict[str, str]:
        env = {**os.environ, "TMPDIR": str(self._scratch.path), **spec.env}
        return used_by(self._scratch.folder(spec.temporary), env) if spec.temporary else env

    # --- bookkeeping ------------------------------------------------------------------------------

    def _admit(self, spec: NodeSpec, stdin: int | None) -> ProcessNode:
        """Reserve the node's name and return the node to start."""
        log_path = (spec.log or self.directory / f"{spec.name}.log").absolute()
        with self._lock:
            if self._closing:
                raise NodeStateError(f"cannot start node {spec.name}: the runtime is closed")
            holder = self._nodes.get(spec.name)
            if holder is not None and holder.alive:
                raise NodeStateError(
                    f"cannot start node {spec.name}: a node of that name is alive (pid "
                    f"{holder.pid})"
                )
            incarnation = self._incarnations.get(spec.name, 0) + 1
            node = ProcessNode(self, spec, log_path=log_path, incarnation=incarnation, stdin=stdin)
            if spec.temporary:
                node.temporary = os.path.realpath(self._scratch.folder(spec.temporary))
            self._nodes[spec.name] = node
            self._incarnations[spec.name] = incarnation
            return node

    def _dismiss(self, node: ProcessNode) -> None:
        """Free the name of a node that could not be started."""
        node.close_stdin()
        with self._lock:
            if self._nodes.get(node.name) is node:
                del self._nodes[node.name]
                self._incarnations[node.name] -= 1

    def _exited(self, message: Answer) -> None:
        """Record the end of a node that the guardian has reported."""
        node = self._by_pid.pop(message["pid"])
        node.end(
            Exit(
                message["pid"],
                message["status"],
                message["signal"],
                message["t"],
                _members(message["members"]),
                _members(message["left"]),
            )
        )

    def _lost(self) -> None:
        """After the guardian's end, kill what is left of the nodes. How they ended is unknown.

        Its second does the same, unless both were killed.
        """
        nodes = tuple(self._by_pid.values())
        lives = [Members(n.pid, n.token, since=n.since, cgroup=n.cgroup) for n in nodes]
        for wait_s in end_all(lives, GONE_WITHIN_S, cgroups.kill):
            time.sleep(wait_s)
        for cgroup in {str(Path(life.cgroup).parent) for life in lives if life.cgroup}:
            cgroups.remove(cgroup)
        for node in nodes:
            node.end(node.exit)


def _members(told: Iterable[tuple[int, str, str]]) -> tuple[Member, ...]:
    return tuple(Member(*each) for each in told)


def _stdin_pipe() -> tuple[int, int]:
    """Return the ends of a pipe; writing never blocks, so a node that does not read cannot hang the
    harness.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    return read, write


def _check_spec(spec: NodeSpec) -> None:
    """Raise StartError if a spec cannot be started on any machine."""
    if not NAME.fullmatch(spec.name):
        raise StartError(
            f"cannot start node {spec.name!r}: use letters, digits, dots, dashes and underscores "
            "in a node's name"
        )
    if not spec.argv or not spec.argv[0]:
        raise StartError(f"cannot start node {spec.name}: its command is empty")
    if "\0" in "".join((*spec.argv, *spec.env, *spec.env.values())):
        raise StartError(
            f"cannot start node {spec.name}: its command or environment holds a NUL byte"
        )


def _why(spec: NodeSpec, log: Path, answer: Answer) -> str:
    """Say in one line why a node did not start."""
    what = STAGES[answer["stage"]].format(log=log, cwd=spec.cwd, program=spec.argv[0])
    return f"cannot start node {spec.name}: {what}: {answer['error']}"

"""The runtime ``process``: nodes are real processes, and the guardian is their parent."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psutil

from harness.core.failures import EnvironmentFailure
from harness.core.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import Exit, Member, NodeStateError, StartError
from harness.runtimes.logs import tail
from harness.runtimes.process.members import VARIABLE, Members, look, send
from harness.runtimes.process.scratch import Scratch, used_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from harness.runtimes.interface import NodeSpec

GUARDIAN: Final = Path(__file__).with_name("guardian.py")
FORK_SERVER: Final = Path(__file__).with_name("fork_server.py")
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's library starts its threads when it is imported, and a fork takes none of them along."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ANSWER_WITHIN_S: Final = 20.0
"""The guardian answers within milliseconds; more than this means that it hangs."""
GONE_WITHIN_S: Final = 20.0
"""A SIGKILL takes effect at once, unless the process sits in an uninterruptible read; then the disk is the problem."""
STAGES: Final = {
    "log": "cannot open its log {log}",
    "cwd": "cannot enter its directory {cwd}",
    "exec": "cannot run {program}",
    "fork": "the machine refuses another process",
}


class GuardianDiedError(EnvironmentFailure):
    """The guardian is gone, and with it every node. The run says nothing about the system under test."""


class ProcessNode:
    """One life of a node; see :class:`harness.runtimes.interface.Node`."""

    def __init__(self, runtime: ProcessRuntime, spec: NodeSpec, *, log_path: Path, incarnation: int, stdin: int | None) -> None:
        self.spec = spec
        self.name = spec.name
        self.role = spec.role
        self.log_path = log_path
        self.incarnation = incarnation
        self.pid = 0
        self.since = 0
        """When it was started, in the kernel's own ticks: who has its process id and began at another time is somebody else."""
        self.token = f"{runtime.id}.{spec.name}.{incarnation}"
        """In the environment of everything that it starts."""
        self._log_start = log_path.stat().st_size if log_path.exists() else 0
        self._runtime = runtime
        self._exit: Exit | None = None
        self._ended = threading.Event()
        self._stdin = stdin
        self._stdin_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<node {self.name} ({self.role}), pid {self.pid}, {self._exit or 'alive'}>"

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it lives."""
        return self._exit

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""
        return not self._ended.is_set()

    def members(self) -> tuple[Member, ...]:
        """Return the processes of it that live; none where it has ended."""
        return self._runtime.members(self)

    def kill(self) -> Exit:
        """SIGKILL, and wait until it is gone with everything it started. Where it had ended before, say how."""
        self._runtime.treat(self, "kill", signal.SIGKILL)
        return self._gone()

    def terminate(self, within_s: float) -> Exit:
        """SIGTERM, and SIGKILL where it is not gone ``within_s`` later. A paused node is resumed to hear it."""
        if self._runtime.signal(self, signal.SIGTERM) and self._runtime.signal(self, signal.SIGCONT):
            return self.wait(within_s) or self.kill()
        return self._gone()

    def tell_to_end(self) -> bool:
        """SIGTERM to its group; does not wait."""
        return self._runtime.signal(self, signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP; return when the kernel shows every thread of every member stopped, and nobody is new."""
        self._must("pause", signal.SIGSTOP, "to stand still")

    def resume(self) -> None:
        """SIGCONT; return when the kernel shows no thread stopped."""
        self._must("resume", signal.SIGCONT, "to go on")

    def stands_still(self) -> bool:
        """Whether the kernel shows it stopped."""
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:  # it has just died, and will be reported in a moment
            return False

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end; None where it lives on. Raises GuardianDiedError where nobody can know any more."""
        self._ended.wait(within_s)
        if self._exit is None:
            self._runtime.check()
        return self._exit

    def write_stdin(self, data: bytes) -> None:
        """Give it something to read; what does not fit into the pipe (64 KiB unread) raises NodeStateError."""
        with self._stdin_lock:
            if self._stdin is None:
                raise NodeStateError(f"node {self.name} has no open standard input")
            try:
                written = os.write(self._stdin, data)
            except (BrokenPipeError, BlockingIOError):
                written = 0
        if written != len(data):
            raise NodeStateError(f"node {self.name} does not read its input ({written} of {len(data)} bytes taken)")

    def close_stdin(self) -> None:
        """End its input."""
        with self._stdin_lock:
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None

    def log_tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines this incarnation wrote, of the last 64 KiB of the log."""
        return tail(self.log_path, self._log_start, lines)

    def restart(self) -> ProcessNode:
        """Start the same spec again, as the next incarnation."""
        if self.alive:
            raise NodeStateError(f"node {self.name} is alive (pid {self.pid}); end it before its restart")
        return self._runtime.start(self.spec)

    def _must(self, what: str, number: signal.Signals, because: str) -> None:
        """Do it to all members. Raises NodeStateError where the node has ended, unless by going on."""
        answer = self._runtime.treat(self, what, number)
        if answer.get("stage") == "still" and self.alive:
            raise WaitTimeoutError(f"node {self.name} {because} after {number.name}: {answer['error']}", ANSWER_WITHIN_S)
        if "error" in answer or (not self.alive and number != signal.SIGCONT):
            raise NodeStateError(f"cannot send {number.name} to node {self.name}: it has ended by {self._gone()}")

    def _gone(self) -> Exit:
        exit_ = self.wait(GONE_WITHIN_S)
        if exit_ is None:
            raise WaitTimeoutError(f"node {self.name} (pid {self.pid}) to be gone", GONE_WITHIN_S)
        return exit_

    def _end(self, exit_: Exit | None) -> None:
        """Note its end; None where the guardian took the knowledge with it."""
        self._exit = exit_
        self.close_stdin()
        self._ended.set()


class _Request:
    """A question to the guardian, and its answer, which stays None where the guardian died."""

    def __init__(self, message: dict[str, Any], on_answer: Callable[[dict[str, Any]], None]) -> None:
        self.message = message
        self.on_answer = on_answer
        self.answer: dict[str, Any] | None = None
        self.answered = threading.Event()


class ProcessRuntime:
    """Starts nodes as processes of this machine. Thread-safe; a context manager.

    Logs go to ``directory/<node>.log``, by default in the folder for temporary files, which goes at the end.
    Raises GuardianDiedError where the guardian does not come up, and from every call after its death.
    """

    name = "process"
    python = sys.executable
    bind = "127.0.0.1"

    def __init__(self, *, directory: Path | None = None, cgroups: bool = True) -> None:
        """``cgroups``: foreign nodes get one of their own, where this machine lets one be made."""
        self._scratch = Scratch()
        self.directory = directory or self._scratch.path
        self._cgroups = cgroups
        self.id = secrets.token_hex(8)
        """Of all runtimes."""
        self._nodes: dict[str, ProcessNode] = {}
        self._incarnations: dict[str, int] = {}
        self._by_pid: dict[int, ProcessNode] = {}
        self._requests: dict[int, _Request] = {}
        self._next_id = 0
        self._preload: tuple[str, ...] = ()
        self._preload_cwd = Path()
        self._lock = threading.Lock()
        self._closing = False
        self._farewell = False
        self._failure: Exception | None = None
        self._ready = threading.Event()
        try:
            self._spawn_guardian()
        except BaseException:
            self._scratch.close()
            raise

    def _spawn_guardian(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            log = (self.directory / "guardian.log").open("ab")
        except OSError as error:
            raise StartError(f"cannot write logs to {self.directory}: {error.strerror}") from error
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_WITHIN_S), 0))
        command = [sys.executable, "-I", "-S", str(GUARDIAN), str(theirs.fileno()), str(os.getpid()), str(self._scratch.path)]
        with log, theirs:
            self._guardian = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="guardian-reader", daemon=True)
        self._reader.start()
        if not self._ready.wait(ANSWER_WITHIN_S) or self._failure is not None:
            self._guardian.kill()
            raise self._failure or GuardianDiedError("the guardian of the nodes did not come up")

    # --- what users call ----------------------------------------------------------------------------------------

    @property
    def guardian_pid(self) -> int:
        """Process id of the guardian."""
        return self._guardian.pid

    @property
    def nodes(self) -> tuple[ProcessNode, ...]:
        """The latest incarnation of every node."""
        with self._lock:
            return tuple(self._nodes.values())

    def address(self, node: str) -> str:
        """Every node is on this machine's loopback."""
        del node
        return self.bind

    def check(self) -> None:
        """Raise what makes this runtime useless: GuardianDiedError."""
        if self._failure is not None:
            raise self._failure

    def expect(self, preload: tuple[str, ...]) -> None:
        """Start a process that imports these modules once, in this folder; the first time only. Programs are forked from it."""
        self.check()
        with self._lock:
            if not preload or self._preload or self._closing:
                return
            self._preload, self._preload_cwd = preload, Path.cwd()
        command = [self.python, str(FORK_SERVER), str(self._guardian.pid), str(self.directory.absolute()), *preload]
        log = str(self.directory.absolute() / "guardian.log")
        env = {**os.environ, **ONE_THREAD, "TMPDIR": str(self._scratch.path)}
        message = {"do": "preload", "argv": command, "env": env, "cwd": str(self._preload_cwd), "log": log}
        self._ask(message, lambda _: None)

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start a node; return when its program runs. Raises StartError, or NodeStateError where its name is taken."""
        self.check()
        _check_spec(spec)
        self.expect(spec.preload)
        read, write = _stdin_pipe() if spec.stdin_pipe else (None, None)
        node = self._admit(spec, write)

        def started(answer: dict[str, Any]) -> None:
            if "pid" in answer:
                node.pid, node.since = answer["pid"], answer["since"]
                self._by_pid[node.pid] = node

        message = {
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
            answer = self._ask(message, started, () if read is None else (read,))
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

    def treat(self, node: ProcessNode, what: str, number: signal.Signals) -> dict[str, Any]:
        """Let the guardian ``signal`` a node's group, or ``kill``, ``pause`` or ``resume`` all its members; return its answer."""
        self.check()
        if not node.alive:
            return {"error": "it has ended", "stage": "signal"}
        return self._ask({"do": what, "pid": node.pid, "signal": int(number)}, lambda _: None)

    def members(self, node: ProcessNode) -> tuple[Member, ...]:
        """Return the living processes of a node."""
        self.check()
        if not node.alive:
            return ()
        return _members(self._ask({"do": "members", "pid": node.pid}, lambda _: None).get("members", ()))

    def signal(self, node: ProcessNode, number: signal.Signals) -> bool:
        """Signal a node's group. False where it has ended."""
        return "error" not in self.treat(node, "signal", number)

    def clear(self, temporary: str) -> None:
        """Remove a folder for temporary files."""
        shutil.rmtree(self._scratch.path / temporary, ignore_errors=True)

    def close(self) -> None:
        """End every node with whatever it started, and the guardian. Raises GuardianDiedError where that had died."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        try:
            self._end_all()
        finally:
            self._scratch.close()
        self.check()

    def _end_all(self) -> None:
        with contextlib.suppress(OSError):  # the guardian may be gone
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._guardian.wait(GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait(GONE_WITHIN_S)
        self._reader.join(GONE_WITHIN_S)
        self._socket.close()
        for node in tuple(self._by_pid.values()):
            self._make_sure(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.close()
        except GuardianDiedError:  # what else went wrong did so because of that
            if value is None or isinstance(value, Exception):
                raise
        except Exception:
            if value is None:
                raise

    def _forked(self, spec: NodeSpec) -> dict[str, Any]:
        """Return what a program is forked by, which is so where what it imports has been imported, in its folder."""
        python, *words = spec.argv
        here = spec.cwd is not None and spec.cwd.absolute() == self._preload_cwd
        known = set(spec.preload) <= set(self._preload)
        if not spec.preload or not known or not here or python != self.python or words[:1] != ["-m"]:
            return {}
        return {"module": words[1], "words": words[2:]}

    def _environment(self, spec: NodeSpec) -> dict[str, str]:
        env = {**os.environ, "TMPDIR": str(self._scratch.path), **spec.env}
        return used_by(self._scratch.folder(spec.temporary), env) if spec.temporary else env

    # --- bookkeeping --------------------------------------------------------------------------------------------

    def _admit(self, spec: NodeSpec, stdin: int | None) -> ProcessNode:
        """Reserve the node's name and return the node that is to be started."""
        log_path = (spec.log or self.directory / f"{spec.name}.log").absolute()
        with self._lock:
            if self._closing:
                raise NodeStateError(f"cannot start node {spec.name}: the runtime is closed")
            holder = self._nodes.get(spec.name)
            if holder is not None and holder.alive:
                raise NodeStateError(f"cannot start node {spec.name}: one of that name is alive (pid {holder.pid})")
            incarnation = self._incarnations.get(spec.name, 0) + 1
            node = ProcessNode(self, spec, log_path=log_path, incarnation=incarnation, stdin=stdin)
            self._nodes[spec.name] = node
            self._incarnations[spec.name] = incarnation
            return node

    def _dismiss(self, node: ProcessNode) -> None:
        """Free the name of a node that never came to life."""
        node.close_stdin()
        with self._lock:
            if self._nodes.get(node.name) is node:
                del self._nodes[node.name]
                self._incarnations[node.name] -= 1

    def _make_sure(self, node: ProcessNode) -> None:
        """After the guardian's end: wait until nothing of a node is left, and kill what the kernel and the second forgot."""
        members = Members(node.pid, node.token, since=node.since)
        try:
            wait_until(lambda: not members.find(look()), within_s=GONE_WITHIN_S / 10, because="all of it to be gone")
        except WaitTimeoutError:
            for each in members.find(look()):
                send(each, signal.SIGKILL)
        node._end(node.exit)  # noqa: SLF001

    # --- the guardian -------------------------------------------------------------------------------------------

    def _ask(
        self, message: dict[str, Any], on_answer: Callable[[dict[str, Any]], None], fds: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """Ask the guardian and wait for its answer, which the reader has acted on by then."""
        with self._lock:
            self._next_id += 1
            request = _Request({"id": self._next_id, **message}, on_answer)
            self._requests[self._next_id] = request
            try:
                self._send(request.message, fds)
            except OSError:
                request.answered.set()
        request.answered.wait(ANSWER_WITHIN_S)
        if request.answer is None:
            if self._failure is None:
                what = "is closed" if self._closing else f"has not answered for {ANSWER_WITHIN_S:g} s"
                self._failure = GuardianDiedError(f"the guardian of the nodes (pid {self._guardian.pid}) {what}")
            raise self._failure
        return request.answer

    def _send(self, message: dict[str, Any], fds: tuple[int, ...]) -> None:
        data = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(self._socket, [data], fds) if fds else 0
        self._socket.sendall(data[sent:])

    def _read(self) -> None:
        """Run the reader thread: hand out answers and ends until the guardian is gone."""
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._handle(json.loads(line))
            except (OSError, ValueError):
                pass
        self._guardian_gone()

    def _handle(self, message: dict[str, Any]) -> None:
        if "id" in message:
            request = self._requests.pop(message["id"])
            request.on_answer(message)
            request.answer = message
            request.answered.set()
        elif message["event"] == "exited":
            node = self._by_pid.pop(message["pid"])
            exit_ = Exit(
                message["pid"], message["status"], message["signal"], message["t"], _members(message["members"]),
                _members(message["left"]),
            )  # fmt: skip
            node._end(exit_)  # noqa: SLF001
        elif message["event"] == "ready":
            self._ready.set()
        elif message["event"] == "closed":
            self._farewell = True

    def _guardian_gone(self) -> None:
        """Fail everything that waits for the guardian, unless it was asked to leave."""
        if not (self._closing and self._farewell):
            try:
                code: int | None = self._guardian.wait(ANSWER_WITHIN_S)
            except subprocess.TimeoutExpired:
                code = None
            self._failure = self._failure or GuardianDiedError(
                f"the guardian of the nodes (pid {self._guardian.pid}) ended by {_ended_by(code)}, "
                f"and all nodes with it; see {self.directory / 'guardian.log'}"
            )
        for request in tuple(self._requests.values()):
            request.answered.set()
        for node in tuple(self._by_pid.values()):
            node._end(None)  # noqa: SLF001
        self._ready.set()


def _members(told: Iterable[tuple[int, str, str]]) -> tuple[Member, ...]:
    return tuple(Member(*each) for each in told)


def _stdin_pipe() -> tuple[int, int]:
    """Return the ends of a pipe; writing never blocks, so a node that does not read cannot hang the harness."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    return read, write


def _check_spec(spec: NodeSpec) -> None:
    """Raise StartError where a spec can't be started anywhere."""
    if not NAME.fullmatch(spec.name):
        raise StartError(f"cannot start node {spec.name!r}: a node's name is letters, digits, dot, dash and underscore")
    if not spec.argv or not spec.argv[0]:
        raise StartError(f"cannot start node {spec.name}: no command")
    if "\0" in "".join((*spec.argv, *spec.env, *spec.env.values())):
        raise StartError(f"cannot start node {spec.name}: a NUL byte in its command or environment")


def _why(spec: NodeSpec, log: Path, answer: dict[str, Any]) -> str:
    """Say in one line why a node did not start."""
    what = STAGES[answer["stage"]].format(log=log, cwd=spec.cwd, program=spec.argv[0])
    return f"cannot start node {spec.name}: {what}: {answer['error']}"


def _ended_by(code: int | None) -> str:
    if code is None:
        return "closing its socket"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"

"""The runtime ``docker``: a node is a container, driven through testcontainers; the engine's word is the evidence."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import psutil
from docker.errors import APIError
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from harness.core.waiting import WaitTimeoutError, wait_until
from harness.runtimes.docker.disks import Disks
from harness.runtimes.docker.engine import HARNESS, RUN, EngineError, connect, explained, me, remove, remove_leftovers, telling
from harness.runtimes.interface import Exit, Member, NodeStateError, StartError
from harness.runtimes.logs import tail
from harness.runtimes.process.processes import command_of, group_members

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from harness.runtimes.docker.engine import Image
    from harness.runtimes.interface import NodeSpec, Room

GONE_WITHIN_S: Final = 30.0
READY_WITHIN_S: Final = 20.0
KILLED: Final = 128
"""The engine shows a death by signal n as exit code 128 + n."""
ACCOUNT: Final = "lostack"
"""What whoever runs this is called inside."""
REASON_WITHIN_S: Final = 1.0
STARVED_AT: Final = 48 << 20
"""How much more memory than it has (bytes) a container that is to hit its limit may take."""
_STARTING: Final = threading.Lock()


class DockerNode:
    """One life of a container; see :class:`harness.runtimes.interface.Node`."""

    def __init__(self, runtime: DockerRuntime, spec: NodeSpec, *, log_path: Path, incarnation: int) -> None:
        self.spec = spec
        self.name = spec.name
        self.role = spec.role
        self.log_path = log_path
        self.incarnation = incarnation
        self.pid = 0
        self.container: Any = None
        self._log_start = log_path.stat().st_size if log_path.exists() else 0
        self._runtime = runtime
        self._exit: Exit | None = None
        self._ended = threading.Event()
        self.oom_killed = False
        """Whether the kernel ended it for want of memory, as the engine tells."""
        self.sent: set[int] = set()
        """The signals that the engine has taken for it."""
        self.began_after: float | None = None
        """When the same container's life before this one ended (seconds since 1970); ``None`` where it is new."""
        self.discarded = False
        """Whether its container is gone, although a restart would want it."""

    def __repr__(self) -> str:
        return (
            f"<node {self.name} ({self.role}), container {self.container and self.container.short_id}, {self._exit or 'alive'}>"
        )

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it lives."""
        return self._exit

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""
        return not self._ended.is_set()

    def members(self) -> tuple[Member, ...]:
        """Return the processes of its first one's group that are seen from here: what dies with it is the engine's business."""
        seen = group_members(self.pid) if self.pid and self.alive else ()  # the id of one that has ended may be given again
        return tuple(Member(pid, "group", command_of(pid)) for pid in seen)

    def kill(self) -> Exit:
        """SIGKILL, and wait until the engine says that it is gone. Where it had ended before, say how."""
        self._runtime.signal(self, signal.SIGKILL)
        return self._gone()

    def terminate(self, within_s: float) -> Exit:
        """SIGTERM, and SIGKILL where it is not gone ``within_s`` later. A paused node is resumed to hear it."""
        if self._paused():
            self.resume()
        if self._runtime.signal(self, signal.SIGTERM):
            return self.wait(within_s) or self.kill()
        return self._gone()

    def tell_to_end(self) -> bool:
        """SIGTERM to its first process, as ``docker stop`` does; does not wait."""
        return self._runtime.signal(self, signal.SIGTERM)

    def pause(self) -> None:
        """Freeze the container; return when the engine shows it paused."""
        self._runtime.pause(self)

    def resume(self) -> None:
        """Let it go on, whether it was frozen or has stopped itself."""
        self._runtime.resume(self)

    def stands_still(self) -> bool:
        """Whether its processes are stopped by a signal (a failpoint does that), as the engine's ``top`` shows."""
        return self._runtime.stands_still(self)

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end; None where it lives on."""
        self._ended.wait(within_s)
        if self._exit is None:
            self._runtime.check()
        return self._exit

    def write_stdin(self, data: bytes) -> None:
        """Refuse: nothing is written into a container's input."""
        raise NodeStateError(f"node {self.name} is a container: {len(data)} bytes cannot be written to its input")

    def close_stdin(self) -> None:
        """Do nothing: it has no input."""

    def log_tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines this incarnation wrote, of the last 64 KiB of the log."""
        return tail(self.log_path, self._log_start, lines)

    def restart(self) -> DockerNode:
        """Start the same container again, as the next incarnation."""
        if self.alive:
            raise NodeStateError(f"node {self.name} is alive (pid {self.pid}); end it before its restart")
        return self._runtime.start(self.spec)

    @property
    def container_id(self) -> str:
        """The engine's id of it, short."""
        return str(self.container.short_id)

    def starve(self) -> int:
        """Let it hit a limit of its memory, and wait for its end. Return the limit in bytes; the next life has none."""
        return self._runtime.starve(self)

    def discard(self) -> None:
        """Remove the dead container: a restart makes another. What it kept in folders of the host stays."""
        if self.alive:
            raise NodeStateError(f"node {self.name} is alive (pid {self.pid}); end it before it is removed")
        with telling(f"removing node {self.name}"):
            self.container.remove(v=True)
        self.discarded = True

    def fill_disk(self) -> Room:
        """Fill its small disk, and wait until it has ended by itself. Return what the disk said once it was full."""
        return self._runtime.disks.fill(self)

    def empty_disk(self) -> Room:
        """Give the disk its room back; return what it says then."""
        return self._runtime.disks.act(self, "empty")

    def disconnect(self) -> str:
        """Take it from the network of the run; return the address that it had there."""
        return self._runtime.disconnect(self)

    def connect(self) -> str:
        """Give it back to the network, by the same name; return its address."""
        return self._runtime.connect(self)

    def _paused(self) -> bool:
        return self.alive and self._runtime.state(self).get("Paused", False)

    def _gone(self) -> Exit:
        exit_ = self.wait(GONE_WITHIN_S)
        if exit_ is None:
            raise WaitTimeoutError(f"container {self.name} to be gone", GONE_WITHIN_S)
        return exit_

    def _end(self, exit_: Exit | None, *, oom_killed: bool = False) -> None:
        self._exit = exit_
        self.oom_killed = oom_killed
        self._ended.set()


class DockerRuntime:
    """Starts nodes as containers of one private network. Thread-safe; a context manager.

    ``images``: by the names that specs use. Logs go to ``directory/<node>.log``. What earlier runs here left goes first.
    Raises EngineError where the engine cannot be reached.
    """

    name = "docker"
    python = "python3"
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
        self._labels = {RUN: self.run, HARNESS: me()}
        self.disks = Disks(self)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot write logs to {directory}: {error.strerror}") from error
        with telling("removing what an earlier run has left"):
            remove_leftovers(self._client)
        self._guardian = self._spawn_guardian()
        self._network = Network(docker_network_kw={"labels": self._labels, "driver": "bridge"})
        self._network.name = f"lostack-{self.run}"
        with telling("making a network for the containers"):
            self._network.create()

    def _spawn_guardian(self) -> subprocess.Popen[bytes]:
        """Start the process that removes everything where this one dies. Returns when it watches."""
        command = [sys.executable, "-m", "harness.runtimes.docker.guardian", f"{RUN}={self.run}"]
        with (self.directory / "guardian.log").open("ab") as log:
            guardian = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )  # fmt: skip
        if guardian.stdout is None or guardian.stdout.readline() != b"ready\n":
            guardian.kill()
            raise EngineError("the guardian of the containers did not come up")
        return guardian

    # --- what users call ----------------------------------------------------------------------------------------

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
        """Return the name by which other nodes reach one."""
        return node

    def check(self) -> None:
        """Raise what makes this runtime useless: the engine is gone."""
        if self._failure is not None:
            raise self._failure
        if self._guardian.poll() is not None and not self._closing:
            raise EngineError(f"the guardian of the containers ended (status {self._guardian.returncode})")

    def expect(self, preload: tuple[str, ...]) -> None:
        """Do nothing: every container is a program started afresh."""

    def start(self, spec: NodeSpec) -> DockerNode:
        """Start a container; the one that ended, where that is kept and its spec the same. Raises StartError, NodeStateError."""
        self.check()
        node, before = self._admit(spec)
        try:
            with telling(f"cannot start node {spec.name}"):
                self._run(node, before)
        except EngineError as error:
            self._dismiss(node, before)
            raise StartError(str(error)) from error
        return node

    def signal(self, node: DockerNode, number: signal.Signals) -> bool:
        """Signal a container's first process. False where it has ended."""
        self.check()
        if not node.alive:
            return False
        node.sent.add(number)
        with telling(f"sending {number.name} to node {node.name}"):
            try:
                node.container.kill(signal=number.name)
            except APIError as error:
                if "is not running" in explained(error):
                    node.sent.discard(number)
                    return False
                raise
        return True

    def pause(self, node: DockerNode) -> None:
        """Freeze a container. Raises NodeStateError where it has ended."""
        self._act(node, "pause")
        if not self.state(node).get("Paused"):
            raise NodeStateError(f"node {node.name} is not paused, though the engine said so")

    def resume(self, node: DockerNode) -> None:
        """Thaw it, and send SIGCONT where it has stopped itself. Raises NodeStateError where it has ended."""
        if node.alive and self.state(node).get("Paused"):
            self._act(node, "unpause")
        if self.stands_still(node):
            self.signal(node, signal.SIGCONT)
            wait_until(lambda: not node.alive or not self.stands_still(node), within_s=GONE_WITHIN_S,
                       because=f"node {node.name} to go on after SIGCONT")  # fmt: skip
        if not node.alive:
            raise NodeStateError(f"cannot resume node {node.name}: it has ended by {node.exit}")

    def stands_still(self, node: DockerNode) -> bool:
        """Whether a process of the container is stopped by a signal."""
        if not node.alive:
            return False
        try:
            with telling(f"asking for the processes of node {node.name}"):
                rows = node.container.top(ps_args="-eo pid,stat")["Processes"] or ()
        except EngineError:  # it has just ended, and will be reported in a moment
            return False
        return any(row[1].startswith("T") for row in rows)

    def starve(self, node: DockerNode) -> int:
        """Limit a container's memory to little more than it has now, and let something inside it want more."""
        self.check()
        first = psutil.Process(node.pid)
        used = sum(int(each.memory_info().rss) for each in (first, *first.children(recursive=True)))
        limit = used + STARVED_AT
        with telling(f"limiting the memory of node {node.name}"):
            node.container.update(mem_limit=limit, memswap_limit=limit)
            # tail keeps the last line of what it reads, and this has no end of a line; the kernel ends who has most
            node.container.exec_run(["sh", "-c", f"head -c {2 * limit} /dev/zero | tail"], detach=True)
        if node.wait(GONE_WITHIN_S) is None:
            raise WaitTimeoutError(f"node {node.name} to be ended for want of memory", GONE_WITHIN_S)
        with telling(f"giving node {node.name} its memory back"):
            plenty = psutil.virtual_memory().total
            node.container.update(mem_limit=plenty, memswap_limit=plenty)
        return limit

    def named(self, name: str) -> str:
        """Return what something of this run is called in the engine, where names are everybody's."""
        return f"lostack-{self.run}-{name}"

    def make_volume(self, name: str, options: Mapping[str, str]) -> None:
        """Make a volume of this run."""
        with telling(f"making the volume {name}"):
            self._client.volumes.create(name, driver="local", driver_opts=dict(options), labels=self._labels)

    def disconnect(self, node: DockerNode) -> str:
        """Take a container from the network; return the address that it had."""
        self.check()
        address = self._address(node)
        with telling(f"disconnecting node {node.name}"):
            self._client.networks.get(self._network.name).disconnect(node.container)
        if left := self._address(node):
            raise NodeStateError(f"node {node.name} still has the address {left}, though the engine said it was disconnected")
        return address

    def connect(self, node: DockerNode) -> str:
        """Connect a container again; return its address."""
        self.check()
        with telling(f"connecting node {node.name}"):
            self._client.networks.get(self._network.name).connect(node.container, aliases=[node.name])
        return self._address(node)

    def _address(self, node: DockerNode) -> str:
        """Return a container's address in the network of the run, as the engine says it; empty where it has none."""
        with telling(f"asking for the address of node {node.name}"):
            networks = self._client.api.inspect_container(node.container.id)["NetworkSettings"]["Networks"]
        return str(networks.get(self._network.name, {}).get("IPAddress", ""))

    def state(self, node: DockerNode) -> dict[str, Any]:
        """Return what the engine says of a container."""
        with telling(f"asking for the state of node {node.name}"):
            return dict(self._client.api.inspect_container(node.container.id)["State"])

    def clear(self, temporary: str) -> None:
        """Do nothing: what a container put there goes with it."""

    def close(self) -> None:
        """Remove everything of this runtime, and end the guardian. Safe to call twice."""
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

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.close()
        except Exception:
            if value is None:
                raise

    # --- inside -------------------------------------------------------------------------------------------------

    def _admit(self, spec: NodeSpec) -> tuple[DockerNode, DockerNode | None]:
        """Reserve the node's name; return the node that is to be started, and the one that had the name."""
        log_path = (spec.log or self.directory / f"{spec.name}.log").absolute()
        with self._lock:
            if self._closing:
                raise NodeStateError(f"cannot start node {spec.name}: the runtime is closed")
            before = self._nodes.get(spec.name)
            if before is not None and before.alive:
                raise NodeStateError(f"cannot start node {spec.name}: one of that name is alive (pid {before.pid})")
            incarnation = self._incarnations.get(spec.name, 0) + 1
            node = DockerNode(self, spec, log_path=log_path, incarnation=incarnation)
            self._nodes[spec.name] = node
            self._incarnations[spec.name] = incarnation
            return node, before

    def _dismiss(self, node: DockerNode, before: DockerNode | None) -> None:
        """Free the name of a node that never came to life."""
        node._end(None)  # noqa: SLF001
        with self._lock:
            self._incarnations[node.name] -= 1
            if before is None:
                del self._nodes[node.name]
            else:
                self._nodes[node.name] = before

    def _run(self, node: DockerNode, before: DockerNode | None) -> None:
        if before is not None and before.spec == node.spec and node.spec.container.keep and not before.discarded:
            node.container = before.container
            node.began_after = _moment(self.state(node)["FinishedAt"])
            node.container.start()
        else:
            if before is not None and before.spec.container.keep and not before.discarded:
                before.container.remove(force=True, v=True)
            node.container = self._create(node)
        state = self.state(node)
        node.pid = int(state.get("Pid") or 0)
        threading.Thread(target=self._follow, args=(node,), name=f"follow-{node.name}", daemon=True).start()

    def _create(self, node: DockerNode) -> Any:
        """Create and start a container through testcontainers."""
        spec, wants = node.spec, node.spec.container
        image = self.images[wants.image]
        described = DockerContainer(image.id or image.reference)  # another checkout may take the name meanwhile
        described.env = dict(spec.env)
        if spec.argv:
            described.with_command(list(spec.argv))
        described.with_name(self.named(f"{spec.name}-{node.incarnation}"))
        if not wants.host_network:
            described.with_network(self._network).with_network_aliases(spec.name)
        ports: dict[str, Any] = {f"{port}/tcp": ("127.0.0.1", port) for port in wants.ports}  # a pair is docker-py's own form
        described.ports = ports
        for folder, inside in (*((each, str(each.absolute())) for each in wants.folders), *wants.elsewhere):
            folder.mkdir(parents=True, exist_ok=True)
            described.with_volume_mapping(str(folder.absolute()), inside, "rw")
        for volume, seen in wants.volumes:
            described.with_volume_mapping(volume, str(seen), "rw")
        if wants.disk is not None and (small := self.disks.volume(spec)):
            described.with_volume_mapping(small, str(wants.disk.folder), "rw")
        described.with_kwargs(
            labels={**self._labels, "lostack.node": spec.name}, user=f"{os.getuid()}:{os.getgid()}",
            stdin_open=spec.stdin_pipe, working_dir=None if spec.cwd is None else str(spec.cwd.absolute()), detach=True,
            pid_mode="host" if wants.host_pids else None, mem_limit=wants.memory, entrypoint=wants.entrypoint,
            **({"network_mode": "host"} if wants.host_network else {"hostname": spec.name[:63]}),
        )  # fmt: skip
        if os.getuid() != 0:  # a JVM wants the name of its user, and the images know few
            accounts = self.directory / "passwd"
            accounts.write_text(f"{ACCOUNT}:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh\n")
            described.with_volume_mapping(str(accounts.absolute()), "/etc/passwd", "ro")
        with _STARTING:  # Ryuk would want an image and the engine's socket; what is left over is removed by the guardian
            ryuk = testcontainers_config.ryuk_disabled
            testcontainers_config.ryuk_disabled = True
            try:
                described.start()
            except BaseException:
                with contextlib.suppress(Exception):  # there may be none; the reason why it did not start is the one to tell
                    described.get_wrapped_container().remove(force=True, v=True)
                raise
            finally:
                testcontainers_config.ryuk_disabled = ryuk
        return described.get_wrapped_container()

    def _follow(self, node: DockerNode) -> None:
        """Copy a container's output into its log until it ends; then say how it ended. A thread of its own."""
        try:
            with telling(f"following node {node.name}"):
                # of a container that was up before, only what came since; the engine takes the time of a start after the fact,
                # when a quick program has written already
                since = {} if node.began_after is None else {"since": node.began_after}
                with node.log_path.open("ab", buffering=0) as log:
                    for chunk in node.container.logs(stream=True, follow=True, **since):
                        log.write(chunk)
                code = int(node.container.wait()["StatusCode"])
                at_ns = time.monotonic_ns()
                oom = self._out_of_memory(node, code)
                if not node.spec.container.keep:
                    node.container.remove(v=True)
        except EngineError as error:
            if not self._closing:
                self._failure = self._failure or error
            node._end(None)  # noqa: SLF001
            return
        number = self._signal_of(node, code, oom=oom)
        node._end(Exit(node.pid, None if number else code, number, at_ns), oom_killed=oom)  # noqa: SLF001

    def _out_of_memory(self, node: DockerNode, code: int) -> bool:
        """Whether the engine says that memory was the reason; it may learn of a death a moment before it learns of its reason."""

        def said() -> bool:
            return bool(self.state(node).get("OOMKilled"))

        if code != KILLED + signal.SIGKILL or signal.SIGKILL in node.sent:
            return said()
        with contextlib.suppress(WaitTimeoutError):
            return wait_until(said, within_s=REASON_WITHIN_S, because="the engine to say why", poll_s=0.05)
        return False

    def _signal_of(self, node: DockerNode, code: int, *, oom: bool) -> int | None:
        """Return the signal that ended a container; ``None`` where its program may have left by itself.

        The engine shows a death by signal n as 128 + n, and so does a shell whose child has died so, or anybody who chooses such
        a number. It was a signal where the engine has taken that very one from us, where it says that memory was the reason, and
        where the program is one that a failpoint may let kill itself, for those never leave with such a status.
        """
        number = code - KILLED
        if number not in set(signal.valid_signals()):
            return None
        if number in node.sent or (oom and number == signal.SIGKILL) or node.spec.container.host_pids:
            return number
        return None

    def _act(self, node: DockerNode, verb: str) -> None:
        self.check()
        try:
            if node.alive:
                getattr(node.container, verb)()
        except APIError as error:
            if "is not running" not in explained(error):
                raise EngineError(f"cannot {verb} node {node.name}: {explained(error)}") from error
            node.wait(GONE_WITHIN_S)
        if not node.alive:
            raise NodeStateError(f"cannot {verb} node {node.name}: it has ended by {node.exit}")


def _moment(text: str) -> float:
    """Return the seconds since 1970 of a time as the engine writes it."""
    return dt.datetime.fromisoformat(text).timestamp()

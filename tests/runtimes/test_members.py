"""What belongs to a node, wherever it has gone to: it is stopped with the node, it dies with it,
and nothing outlives the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import cgroups, members
from harness.runtimes.process.link import GuardianDiedError
from harness.runtimes.process.runtime import ProcessRuntime
from tests.runtimes.test_nodes import GONE_S, gone

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from harness.runtimes.process.members import Member

UP_S = 20.0
LEFT_S = 10.0
"""A machine may be busy; on an idle one it takes a tenth of a second."""
WORKER = """
import os, signal, sys
open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w").close()
signal.pause()
"""
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, *sys.argv[2:]], {} if sys.argv[1] == "bare" else os.environ)
    os._exit(0)
os.wait()
"""  # noqa: E501
"""Does what daemons do, and ends. ``bare``: in an environment with nothing in it."""
DETACHED = {
    "setsid": ("sh", "-c", "setsid {worker} & wait", "descendant"),
    "a shell with job control": ("bash", "-c", "set -m; {worker} & wait", "session"),
    "a session of its own, and no environment": (
        "sh",
        "-c",
        "setsid sh -c '(env -i {worker} &); sleep 600' & wait",
        "session",
    ),
    "two forks": ("sh", "-c", "{daemon} kept {worker_words}; sleep 600", "token"),
    "two forks, and no environment": (
        "sh",
        "-c",
        "{daemon} bare {worker_words}; sleep 600",
        "orphan",
    ),
}


class Place:
    """A folder in which workers note that they are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "worker.py").write_text(WORKER)
        (folder / "daemon.py").write_text(DAEMON)
        self.words = f"{folder / 'worker.py'} {folder}"

    def command(self, way: str) -> tuple[str, ...]:
        """Return a command that starts a worker in one of the ways."""
        *words, _ = DETACHED[way]
        daemon = f"{sys.executable} {self.folder / 'daemon.py'}"
        worker = f"{sys.executable} {self.words}"
        return tuple(
            word.format(worker=worker, daemon=daemon, worker_words=self.words) for word in words
        )

    def workers(self, count: int = 1) -> list[int]:
        """Wait for so many workers; return their process ids."""
        return wait_until(
            lambda: found if len(found := self.there()) >= count else None,
            within_s=UP_S,
            because=f"{count} workers",
        )

    def there(self) -> list[int]:
        """Return the process ids of those that have noted that they are there."""
        return [int(file.stem) for file in self.folder.glob("*.pid")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a folder with programs; who was left alive is ended at last, for it must not be found
    by the next test.
    """
    made = Place(tmp_path)
    yield made
    for pid in made.there():
        with contextlib.suppress(psutil.NoSuchProcess):
            if str(tmp_path) in " ".join(psutil.Process(pid).cmdline()):
                psutil.Process(pid).kill()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """Return a runtime without cgroups, for there are none on many a machine; it is closed
    afterwards.
    """
    with ProcessRuntime(directory=tmp_path / "nodes", cgroups=False) as made:
        yield made


@pytest.fixture
def bounding(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """Return one whose foreign nodes have a cgroup each."""
    if not (parent := cgroups.make_parent()):
        pytest.skip(
            "no cgroup can be made here: it takes version 2, and the right to divide one's own"
        )
    cgroups.remove(parent)
    with ProcessRuntime(directory=tmp_path / "nodes") as made:
        yield made


def stands(pid: int) -> bool:
    """Whether the kernel shows a process stopped."""
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


@pytest.mark.parametrize("way", DETACHED)
def test_who_has_left_the_group_is_paused_and_dies_with_its_node(
    runtime: ProcessRuntime, place: Place, way: str
) -> None:
    """By setsid, by job control, as a daemon, as one that has thrown its environment away."""
    node = runtime.start(NodeSpec("a", "consumer", place.command(way), foreign=True))
    [worker] = place.workers()
    assert os.getpgid(worker) != node.pid
    node.pause()
    assert stands(worker)
    assert stands(node.pid)
    node.resume()
    assert not stands(worker)
    end = node.kill()
    assert gone(worker)
    assert {member.pid: member.how for member in end.members}[worker] == DETACHED[way][-1]
    assert str(place.folder) in next(
        member.command for member in end.members if member.pid == worker
    )
    assert not end.left


@pytest.mark.parametrize("way", ["setsid", "two forks", "two forks, and no environment"])
def test_who_has_left_the_group_dies_when_its_node_ends_by_itself(
    runtime: ProcessRuntime, place: Place, way: str
) -> None:
    """And is told with its end, which is the node's own: status 0."""
    command = (
        place.command(way)[-1]
        .replace("& wait", "& read line")
        .replace("; sleep 600", "; read line")
    )
    node = runtime.start(
        NodeSpec("a", "consumer", ("sh", "-c", command), stdin_pipe=True, foreign=True)
    )
    [worker] = place.workers()
    node.close_stdin()
    end = node.wait(UP_S)
    assert end is not None
    assert gone(worker)
    assert worker in [member.pid for member in end.members]


def test_of_two_nodes_nobody_knows_whose_a_stray_is(runtime: ProcessRuntime, place: Place) -> None:
    """It is not killed with one of them, and that is told; it ends when it can only be
    the other's.
    """
    nodes = [
        runtime.start(
            NodeSpec(
                name,
                "consumer",
                place.command("two forks, and no environment" if name == "b" else "setsid"),
                foreign=True,
            )
        )
        for name in "ab"
    ]
    workers = set(place.workers(2))
    [stray] = [pid for pid in workers if psutil.Process(pid).ppid() == runtime.guardian_pid]
    end = nodes[0].kill()
    assert [member.pid for member in end.members if member.pid in workers] == [*workers - {stray}]
    assert [(member.pid, member.how) for member in end.left] == [(stray, "stray")]
    assert not gone(stray)
    end = nodes[1].kill()
    assert stray in [member.pid for member in end.members]
    assert not end.left
    assert gone(stray)


def test_a_stray_of_one_of_our_own_ends_with_the_run(runtime: ProcessRuntime, place: Place) -> None:
    """Not with its node: of our own programs nobody expects one."""
    node = runtime.start(NodeSpec("a", "broker", place.command("two forks, and no environment")))
    [worker] = place.workers()
    assert not node.kill().members[1:]
    assert not gone(worker)
    runtime.close()
    assert gone(worker)


def test_nobody_else_is_killed(runtime: ProcessRuntime, place: Place) -> None:
    """Neither another node's daemon, nor a stranger, nor whoever bears a token of another life of
    the node.
    """
    node = runtime.start(NodeSpec("a", "consumer", place.command("two forks"), foreign=True))
    [first] = place.workers()
    other = runtime.start(NodeSpec("b", "consumer", place.command("two forks"), foreign=True))
    mine = {first, *place.workers(2)} - {first}
    words = [sys.executable, *place.words.split()]
    with subprocess.Popen(
        words, env={**os.environ, members.VARIABLE: f"{node.token}1"}, start_new_session=True
    ) as stranger:
        try:
            place.workers(3)
            node.kill()
            assert gone(first)
            assert not any(gone(pid) for pid in (*mine, other.pid, stranger.pid))
        finally:
            stranger.kill()


def test_who_has_the_id_of_one_that_is_gone_is_somebody_else(place: Place) -> None:
    """Ids are given again: neither it nor its group is touched."""
    with subprocess.Popen([sys.executable, *place.words.split()], start_new_session=True) as other:
        try:
            place.workers()
            began = members.look()[other.pid].start
            assert [
                one.pid for one in members.Members(other.pid, since=began).find(members.look())
            ] == [other.pid]
            assert not members.Members(other.pid, since=began - 1).find(members.look())
        finally:
            other.kill()


STARTER = """
import os, subprocess, sys
while sys.stdin.buffer.read(1):
    subprocess.Popen([sys.executable, *sys.argv[1:]], start_new_session=True, stdin=subprocess.DEVNULL)
"""  # noqa: E501


@contextlib.contextmanager
def starting(place: Place) -> Iterator[tuple[Callable[[], list[Member]], list[list[int]]]]:
    """Start a program that starts a worker between the first look at its members and what follows;
    and who was found when.
    """
    words = [sys.executable, "-c", STARTER, *place.words.split()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as starter:
        belonging = members.Members(starter.pid)
        looks: list[list[int]] = []

        def find() -> list[Member]:
            found = belonging.find(members.look())
            looks.append([one.pid for one in found])
            if len(looks) == 1 and starter.stdin is not None:
                starter.stdin.write(b"\n")
                starter.stdin.flush()
                place.workers()
            return found

        try:
            yield find, looks
        finally:
            starter.kill()


def test_who_is_started_while_all_are_being_killed_is_found(place: Place) -> None:
    """One looks again until nobody is new: between the first look and the first SIGSTOP another
    worker is started.
    """
    with starting(place) as (find, looks):
        left = run(members.end(find, UP_S))
        [worker] = place.workers()
        assert worker not in looks[0]
        assert worker in looks[1]
        assert not left
        assert gone(worker)


def test_who_is_started_while_all_are_being_stopped_is_found(place: Place) -> None:
    with starting(place) as (find, looks):
        found = run(members.hold(find, UP_S))
        [worker] = place.workers()
        assert worker not in looks[0]
        assert worker in [one.pid for one in found]
        assert stands(worker)


def run(job: Generator[float, None, list[Member]]) -> list[Member]:
    """Do all that is to be done; return what comes of it."""
    while True:
        try:
            time.sleep(next(job))
        except StopIteration as end:
            return list(end.value)


BREEDER = """
import os, signal, sys, time
for number in range(400):
    if os.fork() == 0:
        os.setsid()
        open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w").close()
        signal.pause()
    time.sleep(0.001)
signal.pause()
"""


def test_a_node_that_starts_one_worker_after_the_other_dies_with_all_of_them(
    runtime: ProcessRuntime, place: Place
) -> None:
    """Each in a session of its own, hundreds of them, while it is killed."""
    node = runtime.start(
        NodeSpec("a", "consumer", (sys.executable, "-c", BREEDER, str(place.folder)))
    )
    place.workers(20)
    end = node.kill()
    assert not end.left
    assert len(end.members) >= 20
    assert all(gone(pid) for pid in place.there())


@pytest.mark.parametrize("way", DETACHED)
def test_a_cgroup_has_them_all(bounding: ProcessRuntime, place: Place, way: str) -> None:
    """Of two nodes, too, and it is gone when its node is."""
    nodes = [
        bounding.start(NodeSpec(name, "consumer", place.command(way), foreign=True))
        for name in "ab"
    ]
    workers = place.workers(2)
    mine = [pid for pid in workers if pid in [member.pid for member in nodes[0].members()]]
    assert len(mine) == 1
    end = nodes[0].kill()
    assert {member.pid: member.how for member in end.members}[mine[0]] in ("cgroup", "session")
    assert not end.left
    assert [pid for pid in workers if gone(pid)] == mine
    assert not nodes[1].kill().left
    assert all(map(gone, workers))
    bounding.close()
    assert not cgroups_of(bounding)


CHAIN = """
import os, sys, time
open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w").close()
while time.monotonic() < float(sys.argv[2]):
    if os.fork():
        os._exit(0)
    os.setsid()
open(os.path.join(sys.argv[1], "over"), "w").close()
"""
"""Each forks the next one and ends, until a time that all of them know: whoever fails to catch them
has not let them loose for ever. (No number of processes bounds them: there are never more than
two.)
"""
RUNS_S = 30.0


def chain_of(place: Place, until: float) -> tuple[str, ...]:
    """Return the words that start the chain; it ends by itself at that time (monotonic)."""
    (place.folder / "chain.py").write_text(CHAIN)
    return sys.executable, str(place.folder / "chain.py"), str(place.folder), str(until)


def in_chain(place: Place) -> bool:
    """Whether any process of the chain is there."""
    return any(
        str(place.folder / "chain.py") in " ".join(_words(process))
        for process in psutil.process_iter()
    )


def test_what_runs_away_as_fast_as_it_can_is_caught_by_its_cgroup(
    bounding: ProcessRuntime, place: Place
) -> None:
    """Each process of it lives for less time than a look takes."""
    until = time.monotonic() + RUNS_S
    words = f"{' '.join(chain_of(place, until))} & sleep 600"
    node = bounding.start(NodeSpec("a", "consumer", ("sh", "-c", words), foreign=True))
    place.workers()
    end = node.kill()
    assert not end.left
    assert not in_chain(place)
    assert time.monotonic() < until
    assert not (place.folder / "over").exists()


def test_what_runs_away_and_is_caught_by_nobody_ends_by_itself(place: Place) -> None:
    """Else a harness that fails above would leave a core busy for ever, and nobody to kill: each id
    is gone when it is read.
    """
    with subprocess.Popen(chain_of(place, time.monotonic() + 0.5)) as first:
        place.workers()
        assert first.wait(UP_S) == 0
    wait_until((place.folder / "over").exists, within_s=UP_S, because="the chain to end by itself")


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return list(process.cmdline())
    return []


def cgroups_of(runtime: ProcessRuntime) -> list[str]:
    """Return what the runtime's guardian has left of cgroups."""
    return [
        folder
        for folder, _, _ in os.walk("/sys/fs/cgroup")
        if cgroups.name_of(runtime.guardian_pid) in folder
    ]


def test_a_cgroup_is_killed_as_a_whole(bounding: ProcessRuntime, place: Place) -> None:
    node = bounding.start(
        NodeSpec("a", "consumer", place.command("two forks, and no environment"), foreign=True)
    )
    [worker] = place.workers()
    _, cgroup = [
        folder for folder in cgroups_of(bounding) if worker in members.cgroup_members(folder)
    ]
    cgroups.kill(cgroup)
    end = node.wait(UP_S)
    assert end is not None
    assert end.signal == signal.SIGKILL
    assert gone(worker)
    assert not end.members


@pytest.mark.parametrize("dies", ["harness", "guardian", "both"])
def test_no_cgroup_is_left(bounding: ProcessRuntime, place: Place, dies: str) -> None:
    """However it ended, as long as one of those lives that look after it."""
    with harness_of(place, "two forks, and no environment", cgroups=True) as (harness, _, guardian):
        [worker] = place.workers()
        die(dies, harness, guardian)
        wait_until(lambda: gone(worker), within_s=LEFT_S, because="all to be gone")
        left = cgroups.name_of(guardian)
        wait_until(
            lambda: not any(left in folder for folder, _, _ in os.walk("/sys/fs/cgroup")),
            within_s=LEFT_S,
            because="it",
        )


def test_only_what_is_left_of_this_pid_namespace_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers may share the tree of cgroups, and one's process ids mean nothing in another."""
    gone_pid = psutil.Popen(["true"])
    gone_pid.wait()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    theirs = f"lostack-{namespace + 1}-{gone_pid.pid}"
    living = f"lostack-{namespace}-{os.getppid()}"
    for name in (theirs, living, f"lostack-{namespace}-{gone_pid.pid}", f"lostack-{gone_pid.pid}"):
        (tmp_path / name).mkdir()
    (tmp_path / "cgroup.procs").touch()
    killed: list[str] = []
    monkeypatch.setattr(cgroups, "_own", lambda: str(tmp_path))
    monkeypatch.setattr(cgroups, "kill", killed.append)
    assert not cgroups.make_parent()  # this is no tree of cgroups
    assert killed == [str(tmp_path / f"lostack-{namespace}-{gone_pid.pid}")]
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {"cgroup.procs", theirs, living, f"lostack-{gone_pid.pid}"}


VFORKER = """
import os, signal, sys
open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w").close()
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[2], os.O_RDONLY, 0)])
open(os.path.join(sys.argv[1], "1.pid"), "w").close()
signal.pause()
"""  # noqa: E501


def test_a_node_in_the_middle_of_a_vfork_is_paused_and_killed(
    runtime: ProcessRuntime, place: Place
) -> None:
    """Its child stands still before it is a program of its own, and it waits in the kernel, with a
    stop to come.
    """
    fifo = place.folder / "fifo"
    os.mkfifo(fifo)
    node = runtime.start(
        NodeSpec("a", "consumer", (sys.executable, "-c", VFORKER, str(place.folder), str(fifo)))
    )
    place.workers()
    wait_until(lambda: members.thread_states(node.pid) == ["D"], within_s=UP_S, because="the vfork")
    node.pause()
    writer = os.open(fifo, os.O_RDWR)  # the child could go on
    try:
        [child] = [member.pid for member in node.members() if member.pid != node.pid]
        assert stands(child)
        assert place.there() == [node.pid]
        node.resume()
        place.workers(2)
    finally:
        os.close(writer)
    assert node.kill() == node.exit


HEADLESS = """
import ctypes, os, sys, threading, time
open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w").close()
threading.Thread(target=lambda: time.sleep(600)).start()
os.setsid()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def test_a_process_whose_first_thread_has_ended_lives(
    runtime: ProcessRuntime, place: Place
) -> None:
    command = ("sh", "-c", f"{sys.executable} {place.folder / 'headless.py'} {place.folder} & wait")
    (place.folder / "headless.py").write_text(HEADLESS)
    node = runtime.start(NodeSpec("a", "consumer", command))
    [worker] = place.workers()
    wait_until(
        lambda: psutil.Process(worker).status() == psutil.STATUS_ZOMBIE,
        within_s=UP_S,
        because="its end, by half",
    )
    assert worker in [member.pid for member in node.members()]
    node.kill()
    wait_until(lambda: not members.look().get(worker), within_s=GONE_S, because="it to be reaped")


HARNESS = """
    import signal, sys
    from pathlib import Path
    from harness.runtimes.interface import NodeSpec
    from harness.runtimes.process.runtime import ProcessRuntime
    runtime = ProcessRuntime(directory=Path(sys.argv[1]) / "nodes", cgroups={cgroups})
    node = runtime.start(NodeSpec("a", "consumer", tuple(sys.argv[2:]), foreign=True))
    print(node.pid, runtime.guardian_pid, flush=True)
    signal.pause()
"""


@contextlib.contextmanager
def harness_of(
    place: Place, way: str, *, cgroups: bool
) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Start a harness with one node, which starts a worker; give it, and the ids of the node and of
    the guardian.
    """
    program = textwrap.dedent(HARNESS.format(cgroups=cgroups))
    words = [sys.executable, "-c", program, str(place.folder), *place.command(way)]
    env = {**os.environ, "TMPDIR": str(place.folder)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as harness:
        try:
            assert harness.stdout is not None
            node, guardian = (int(word) for word in harness.stdout.readline().split())
            yield harness, node, guardian
        finally:
            harness.kill()


def die(who: str, harness: subprocess.Popen[str], guardian: int) -> None:
    """SIGKILL the harness, its guardian, or both."""
    if who != "harness":
        psutil.Process(guardian).kill()
    if who != "guardian":
        harness.kill()


@pytest.mark.parametrize("way", DETACHED)
@pytest.mark.parametrize("dies", ["harness", "guardian", "both"])
def test_nothing_outlives_the_harness_or_its_guardian(place: Place, dies: str, way: str) -> None:
    """Not a daemon either; one without any environment only where the guardian lives to see whose
    child it has become.
    """
    with harness_of(place, way, cgroups=False) as (harness, node, guardian):
        [worker] = place.workers()
        die(dies, harness, guardian)
        bare = "forks, and no environment" in way and dies != "harness"
        wait_until(
            lambda: all(map(gone, [node] if bare else [node, worker])),
            within_s=LEFT_S,
            because="all to be gone",
        )


def kill_both(guardian: int) -> None:
    """SIGKILL a guardian and its second, so that neither sees the other's end."""
    both = (_second(guardian), guardian)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            psutil.Process(pid).send_signal(number)


@pytest.mark.parametrize("own", [False, True], ids=["without cgroup", "cgroup"])
@pytest.mark.parametrize("way", DETACHED)
def test_the_harness_kills_what_its_guardian_and_the_second_have_left(
    tmp_path: Path, place: Place, way: str, *, own: bool
) -> None:
    """At once, not only at the end of the run; one without any environment by its cgroup alone."""
    runtime = ProcessRuntime(directory=tmp_path / "nodes", cgroups=own)
    node = runtime.start(NodeSpec("a", "consumer", place.command(way), foreign=True))
    [worker] = place.workers()
    kill_both(runtime.guardian_pid)
    if way != "two forks, and no environment" or node.cgroup:
        wait_until(lambda: gone(worker), within_s=LEFT_S, because="the worker to be gone")
    with pytest.raises(GuardianDiedError):
        runtime.close()
    assert not node.cgroup or not Path(node.cgroup).exists()


def test_what_all_three_have_left_is_killed_by_the_next_guardian(
    bounding: ProcessRuntime, place: Place
) -> None:
    with harness_of(place, "two forks, and no environment", cgroups=True) as started:
        harness, node, guardian = started
        [worker] = place.workers()
        harness.send_signal(signal.SIGSTOP)
        kill_both(guardian)
        harness.kill()
        wait_until(lambda: gone(node), within_s=LEFT_S, because="the node to be gone")
        assert not gone(worker)
    bounding.start(NodeSpec("b", "consumer", ("sleep", "600"), foreign=True))
    wait_until(lambda: gone(worker), within_s=LEFT_S, because="the worker to be gone")


def _second(guardian: int) -> int:
    """Return the guardian's fork: its only child that runs the same program."""
    process = psutil.Process(guardian)
    second: int
    [second] = [each.pid for each in process.children() if each.cmdline() == process.cmdline()]
    return second

"""What every caller of a runtime relies on, of each that there is. Another one gets all this by its
line in ``runtimes.py``.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from harness import registry
from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec, NodeStateError, StartError
from harness.runtimes.ports import PortLease
from tests.contract.runtimes import RUNTIMES, STILL_S, WITHIN_S, Place, moves
from tests.runtimes.test_nodes import gone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node

SLEEPER = "import signal; print('up'); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); signal.pause()"
ORDERLY = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("up")
while True:
    signal.pause()
"""
TELLS = (
    "import json, os, sys; print(json.dumps([os.environ.get('MINE'), os.getcwd(), sys.argv[1:]]))"
)


def test_every_runtime_there_is_has_its_line() -> None:
    assert tuple(RUNTIMES) == registry.RUNTIMES


def test_a_runtime_is_called_what_selects_it(place: Place) -> None:
    assert place.runtime.name == place.name
    place.runtime.check()


# --- ends -----------------------------------------------------------------------------------------


def test_a_killed_node_is_reaped_and_says_how_it_ended(place: Place) -> None:
    """``kill`` returns when its end is known: signal 9. Its process is no more then, and a second
    one says the same.
    """
    node = place.up(SLEEPER)
    assert (node.alive, node.exit) == (True, None)
    end = node.kill()
    assert (end.pid, end.status, end.signal) == (node.pid, None, signal.SIGKILL)
    assert not psutil.pid_exists(node.pid), "a zombie is not reaped"
    assert (node.alive, node.kill(), node.exit) == (False, end, end)


@pytest.mark.parametrize("status", [0, 7])
def test_a_node_that_leaves_by_itself_has_its_status_and_no_signal(
    place: Place, status: int
) -> None:
    end = ended(place.start(f"raise SystemExit({status})"))
    assert (end.status, end.signal) == (status, None)


def test_a_node_that_kills_itself_has_ended_by_that_signal(place: Place) -> None:
    end = ended(place.start("import os; os.kill(os.getpid(), 9)"))
    assert (end.status, end.signal) == (None, signal.SIGKILL)


def test_the_end_of_a_node_is_in_the_past_and_behind_its_start(place: Place) -> None:
    since = time.monotonic_ns()
    end = place.up(SLEEPER).kill()
    assert since < end.at_ns <= time.monotonic_ns()


def test_of_an_ended_node_nothing_can_be_asked_but_how_it_ended(place: Place) -> None:
    """To kill it again is harmless; to pause it, to let it go on or to write to it is refused in
    one line.
    """
    node = place.start("raise SystemExit(3)")
    end = ended(node)
    assert node.kill() == node.terminate(STILL_S) == node.wait(STILL_S) == end
    assert not node.tell_to_end()
    assert not node.stands_still()
    assert node.members() == ()
    node.close_stdin()
    for ask in (node.pause, node.resume, lambda: node.write_stdin(b"x")):
        with pytest.raises(NodeStateError) as refused:
            ask()
        one_line(refused.value, node.name)


def test_two_who_kill_a_node_learn_of_one_end(place: Place) -> None:
    """A cell that is closed while its fault kills."""
    node = place.up(SLEEPER)
    ends: list[Exit] = []
    threads = [threading.Thread(target=lambda: ends.append(node.kill())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    assert ends == [node.exit] * 2


def test_what_a_node_has_started_dies_with_it(place: Place) -> None:
    file = place.file()
    node = place.ticking(file)
    child = int(node.log_tail())
    node.kill()
    wait_until(lambda: gone(child), within_s=WITHIN_S, because="the child to be gone")
    assert not moves(file, STILL_S)


def test_its_own_process_is_a_member_of_a_living_node(place: Place) -> None:
    """Whom the wire must know: connections are those of members."""
    node = place.up(SLEEPER)
    assert node.pid in [member.pid for member in node.members()]


# --- told to end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
def test_a_node_that_is_told_to_end_may_do_so_in_order(place: Place, paused: bool) -> None:
    """By SIGTERM, which a paused one hears as well: its status is its own."""
    node = place.up(ORDERLY)
    if paused:
        node.pause()
    end = node.terminate(WITHIN_S)
    assert (end.status, end.signal) == (5, None)


def test_a_node_that_does_not_end_in_time_is_killed(place: Place) -> None:
    """Whoever tells it to end waits no longer than they said."""
    node = place.up(DEAF)
    began = time.monotonic()
    assert node.terminate(STILL_S).signal == signal.SIGKILL
    assert time.monotonic() - began < WITHIN_S / 2


def test_to_tell_a_node_to_end_does_not_wait(place: Place) -> None:
    node = place.up(DEAF)
    assert node.tell_to_end()
    assert node.alive


def test_a_wait_is_bounded(place: Place) -> None:
    node = place.up(SLEEPER)
    began = time.monotonic()
    assert node.wait(STILL_S) is None
    assert STILL_S <= time.monotonic() - began < WITHIN_S / 2


# --- paused ---------------------------------------------------------------------------------------


def test_a_paused_node_stands_still_and_goes_on(place: Place) -> None:
    """With all that it has started; it is alive all the while."""
    file = place.file()
    node = place.ticking(file)
    node.pause()
    assert not moves(file, STILL_S)
    assert node.alive
    node.resume()
    assert moves(file, WITHIN_S)


def test_a_paused_node_can_be_killed(place: Place) -> None:
    node = place.up(SLEEPER)
    node.pause()
    assert node.kill().signal == signal.SIGKILL
    assert gone(node.pid)


def test_a_node_that_stops_itself_is_seen_and_goes_on(place: Place) -> None:
    program = "import os, signal; print('up'); os.kill(os.getpid(), signal.SIGSTOP); print('on')"
    node = place.up(program)
    wait_until(node.stands_still, within_s=WITHIN_S, because="the program to stop itself")
    assert node.alive
    node.resume()
    assert ended(node).status == 0
    assert node.log_tail().splitlines() == ["up", "on"]


# --- started --------------------------------------------------------------------------------------


def test_environment_words_and_folder_are_the_node_s(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "the harness's")
    node = place.start(TELLS, "one", "two words", env={"MINE": "its own"}, cwd=place.folder)
    ended(node)
    assert json.loads(node.log_tail()) == ["its own", str(place.folder), ["one", "two words"]]


def test_a_node_has_no_input_unless_it_is_given_one(place: Place) -> None:
    """It finds the end of it at once; and nothing can be written to it."""
    node = place.start("import sys; print(len(sys.stdin.read()))")
    assert ended(node).status == 0
    assert node.log_tail() == "0"
    other = place.up(SLEEPER)
    with pytest.raises(NodeStateError):
        other.write_stdin(b"x")
    other.close_stdin()


def test_what_is_written_to_a_node_is_read(place: Place) -> None:
    """Also what was written before it reads; and it sees the end."""
    node = place.up("import sys; print('up'); print(sys.stdin.read())", stdin_pipe=True)
    node.write_stdin(b"a ")
    node.write_stdin(b"line\n")
    node.close_stdin()
    assert ended(node).status == 0
    assert node.log_tail().split("\n")[1] == "a line"


def test_who_does_not_read_takes_only_so_much(place: Place) -> None:
    """Then it is refused, and nobody waits."""
    node = place.up(SLEEPER, stdin_pipe=True)

    def write() -> None:
        for _ in range(1000):
            node.write_stdin(b"x" * 10_000)

    with pytest.raises(NodeStateError) as refused:
        write()
    one_line(refused.value, node.name)


def test_nodes_reach_each_other_by_their_addresses(place: Place) -> None:
    serve = (
        "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); "
        "print('up'); s.accept()"
    )
    call = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)"
    with PortLease() as lease:
        server = place.up(serve, place.runtime.bind, str(lease.port))
        client = place.start(call, place.runtime.address(server.name), str(lease.port))
        assert ended(client).status == 0, client.log_tail()
        assert ended(server).status == 0


@pytest.mark.parametrize(
    ("name", "program"), [("never", "/no/such/program"), ("no name", ""), ("no/name", "")]
)
def test_what_cannot_be_started_is_one_line(place: Place, name: str, program: str) -> None:
    """An error of the machine, which names the node, and the program where that is why; the name is
    free again.
    """
    argv = (program or place.runtime.python, "-c", SLEEPER)
    with pytest.raises(StartError) as failure:
        place.runtime.start(NodeSpec(name, "tool", argv))
    assert isinstance(failure.value, EnvironmentFailure)
    one_line(failure.value, name)
    one_line(failure.value, program)
    if program:
        assert place.start(SLEEPER, name=name).incarnation == 1


def test_a_name_is_taken_while_its_node_lives(place: Place) -> None:
    """One line says whose it is; a paused one lives."""
    node = place.up(SLEEPER, name="taken")
    node.pause()
    asks: tuple[Callable[[], object], ...] = (
        lambda: place.start(SLEEPER, name="taken"),
        node.restart,
    )
    for ask in asks:
        with pytest.raises(NodeStateError) as refused:
            ask()
        one_line(refused.value, "taken")
    node.kill()
    assert place.start(SLEEPER, name="taken").alive


def test_a_restart_is_the_next_incarnation(place: Place) -> None:
    """Of the same spec, with another process; the life before keeps its end, and has no second
    successor.
    """
    node = place.up(SLEEPER)
    end = node.kill()
    again = node.restart()
    assert (node.incarnation, again.incarnation) == (1, 2)
    assert (again.name, again.role, again.spec) == (node.name, node.role, node.spec)
    assert again.pid != node.pid
    assert node.exit == end
    assert again.alive
    with pytest.raises(NodeStateError):
        node.restart()


# --- logs -----------------------------------------------------------------------------------------


def test_a_node_that_has_said_nothing_has_an_empty_log(place: Place) -> None:
    """From its start on, so that whoever waits for its first words takes nothing else for them."""
    assert place.start("import signal; signal.pause()").log_tail() == ""


@pytest.mark.parametrize("output", [1, 2])
def test_what_a_node_has_said_is_readable_after_its_death(place: Place, output: int) -> None:
    """On either output, up to the last line; each life by itself, all of them in one file."""
    node = place.up(f"import os; os.write({output}, b'first\\nlast\\n'); os.kill(os.getpid(), 9)")
    ended(node)
    assert node.log_tail().splitlines() == ["first", "last"]
    assert node.log_tail(1) == "last"
    again = node.restart()
    ended(again)
    assert again.log_path == node.log_path
    assert again.log_tail().splitlines() == ["first", "last"]
    assert node.log_path.read_text().splitlines() == ["first", "last"] * 2


def test_a_log_is_where_it_was_asked_for(place: Place) -> None:
    """And else by the node's name, in the runtime's folder."""
    wanted = place.file()
    node = place.start("print('here')", log=wanted)
    ended(node)
    assert node.log_path == wanted
    assert wanted.read_text() == "here\n"
    other = place.start("print('there')")
    ended(other)
    assert other.log_path.name == f"{other.name}.log"
    assert other.log_path.read_text() == "there\n"


# --- the end of a runtime -------------------------------------------------------------------------


def test_nothing_survives_a_closed_runtime(place: Place, tmp_path: Path) -> None:
    """Neither a node, running or paused, nor what it has started. To close it again is harmless;
    nothing is started any more.
    """
    with place.make(tmp_path / "another") as runtime:
        other = Place(place.name, runtime, place.folder, place.make)
        nodes = [other.up(SLEEPER), other.up(SLEEPER), other.ticking(place.file())]
        child = int(nodes[2].log_tail())
        nodes[1].pause()
        runtime.close()
        wait_until(
            lambda: all(map(gone, [child, *(node.pid for node in nodes)])),
            within_s=WITHIN_S,
            because="all to be gone",
        )
        assert not any(node.alive for node in nodes)
        runtime.close()
        with pytest.raises(NodeStateError) as refused:
            other.start(SLEEPER)
        one_line(refused.value, "closed")


def test_an_error_ends_a_runtime_and_is_told(place: Place, tmp_path: Path) -> None:
    nodes: list[Node] = []

    def fail() -> None:
        with place.make(tmp_path / "another") as runtime:
            nodes.append(Place(place.name, runtime, place.folder, place.make).up(SLEEPER))
            raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        fail()
    wait_until(lambda: gone(nodes[0].pid), within_s=WITHIN_S, because="the node to be gone")


def test_to_clear_what_is_not_there_is_harmless(place: Place) -> None:
    place.runtime.clear("a cell")
    place.runtime.clear("a cell")


# --- what is asked here ---------------------------------------------------------------------------


def ended(node: Node) -> Exit:
    """Wait for the end of a node."""
    end = node.wait(WITHIN_S)
    assert end is not None, f"{node.name} lives on"
    return end


def one_line(error: Exception, names: str) -> None:
    """An error is one line and names something."""
    assert names in str(error)
    assert "\n" not in str(error)

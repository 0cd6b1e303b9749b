"""The life of a broker behind its wire: a few lines of Python that answer each line by itself, and
remember nothing.
"""

from __future__ import annotations

import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.pipeline import SettingsError
from harness.model.scenario import Deployment, Role
from harness.model.waiting import wait_until
from harness.run.queue_broker import BROKER
from harness.run.served import ServedBroker
from harness.runtimes.interface import NodeSpec
from harness.scenarios.activemq import POINTS
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ECHO = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with server.accept()[0] as client:
        while data := client.recv(100):
            client.sendall(data)
"""


class Echo(ServedBroker):
    """Answers what it is told. ``program``: what its process runs; ``wanted``: what it must have
    answered to be there.
    """

    start_s = 3.0

    def __init__(self, directory: Path, program: str = ECHO, wanted: bytes = b"hello\n") -> None:
        super().__init__(directory, 2)
        self._program, self._wanted = program, wanted

    def routes(self) -> Sequence[Route]:
        """Return the one way through its wire."""
        return [Route("way", BROKER, Role.PRODUCER, self.ports[0], self.ports[1], protocol="stomp")]

    def spec(self) -> NodeSpec:
        """Return how it is started."""
        argv = (sys.executable, "-c", self._program, str(self.ports[1]))
        return NodeSpec(
            name=BROKER, role=Role.BROKER, argv=argv, log=self._directory / "broker.log"
        )

    def answers(self) -> bool:
        """Whether it says what it is told."""
        return talk(self.ports[1]) == self._wanted


class Pair(ServedBroker):
    """Two of them, which serve alone, too."""

    start_s = 3.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 4, names=(BROKER, "broker-2"))
        self.of = dict(zip((BROKER, "broker-2"), (self.ports[:2], self.ports[2:]), strict=True))

    def routes(self) -> Sequence[Route]:
        """Return the way to each through the wire."""
        return [
            Route(name, name, Role.PRODUCER, way, own, protocol="stomp")
            for name, (way, own) in self.of.items()
        ]

    def spec(self) -> NodeSpec:
        """Return how the first one is started."""
        return self.spec_of(BROKER)

    def spec_of(self, name: str) -> NodeSpec:
        """Return how one is started."""
        argv = (sys.executable, "-c", ECHO, str(self.of[name][1]))
        return NodeSpec(name=name, role=Role.BROKER, argv=argv, log=self._directory / name)

    def answers(self) -> bool:
        """Whether both do."""
        return all(map(self.serves, self.of))

    def serves(self, name: str) -> bool:
        """Whether one says what it is told."""
        return talk(self.of[name][1]) == b"hello\n"


def talk(port: int) -> bytes:
    """Say hello, and return what is answered. Raises OSError."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
        client.sendall(b"hello\n")
        return client.recv(100)


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a deployment, in that of a run."""
    found = tmp_path / "deployments" / "one"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def echo(folder: Path) -> Iterator[Echo]:
    """Return one that is up."""
    broker = Echo(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def test_it_is_killed_and_started_again_behind_its_wire(echo: Echo) -> None:
    """While it is dead the wire takes no connection; with ``close`` nothing of it is left."""
    assert listens(echo.ports[0])
    first = echo.process()
    assert echo.kill().signal == signal.SIGKILL
    assert not listens(echo.ports[0])
    echo.restart()
    assert listens(echo.ports[0])
    second = echo.process()
    assert first is not second
    echo.check()
    pids = [second.pid, echo.wire_node.pid]
    assert all(map(psutil.pid_exists, pids))
    echo.close()
    wait_until(
        lambda: not any(map(psutil.pid_exists, pids)),
        within_s=10,
        because="its processes to be gone",
    )
    echo.close()


def test_one_of_two_is_killed_while_the_other_serves(folder: Path) -> None:
    """The wire refuses who would go to the dead one, and nobody else; it alone is started again,
    and waited for. With ``become`` both are.
    """
    broker = Pair(folder)
    try:
        broker.start()
        first, second = broker.nodes
        before = first.process()
        assert second.kill().signal == signal.SIGKILL
        assert [listens(way) for way, _ in broker.of.values()] == [True, False]
        with pytest.raises(OSError, match="refused"):
            broker.answers()
        second.restart()
        assert [listens(way) for way, _ in broker.of.values()] == [True, True]
        assert first.process() is before
        assert second.end().signal == signal.SIGTERM
        assert [listens(way) for way, _ in broker.of.values()] == [True, False]
        second.restart()
        lives = [node.process() for node in broker.nodes]
        broker.become({"flush": "never"})
        assert broker.answers()
        assert not {*lives} & {node.process() for node in broker.nodes}
    finally:
        broker.close()


def test_it_is_started_again_for_other_settings_only(echo: Echo) -> None:
    """A cell's settings are there when it answers; the next cell's need not be."""
    first = echo.process()
    echo.become({})
    assert echo.process() is first
    echo.become({"flush": "never"})
    assert (echo.told, listens(echo.ports[0])) == ({"flush": "never"}, True)
    second = echo.process()
    assert second is not first
    echo.become({"flush": "never"})
    assert echo.process() is second
    echo.become({})
    assert (echo.told, echo.process() is second) == ({}, False)


def test_only_a_broker_of_its_own_can_have_a_scenario_s_settings() -> None:
    """Other cells would have them, too."""
    [shared] = [each for each in POINTS if each.id == "none"]
    with pytest.raises(SettingsError, match="broker_settings needs a broker for this cell alone"):
        replace(shared, broker_settings={"flush": "never"})
    replace(shared, broker_settings={"flush": "never"}, deployment=Deployment.OWN)


def test_a_wire_that_has_died_by_itself_is_told(echo: Echo) -> None:
    echo.wire_node.kill()
    with pytest.raises(EnvironmentFailure, match="the wire ended"):
        echo.check()


@pytest.mark.parametrize(
    ("program", "wanted", "says"),
    [
        ("raise SystemExit('no licence')", b"hello\n", "ended at once .*no licence"),
        (
            "import time; time.sleep(60)",
            b"hello\n",
            r"broker-1 to answer.*\(it said: .*refused\); its logs: ",
        ),
        (ECHO, b"goodbye\n", r"broker-1 to answer.*\(it said: "),
    ],
    ids=["ends", "refuses", "answers otherwise"],
)
def test_one_that_does_not_come_up_says_why(
    program: str, wanted: bytes, says: str, folder: Path
) -> None:
    broker = Echo(folder, program, wanted)
    try:
        with pytest.raises(EnvironmentFailure, match=says):
            broker.start()
    finally:
        broker.close()

"""What a broker of queues is told by: its control port, in one line."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from harness.run.control_port import HOST, ControlPort
from harness.run.queue_server import QueueServer
from harness.run.queue_system import Refusing

if TYPE_CHECKING:
    from collections.abc import Iterator


class Port:
    """A control port that writes down what it is asked, and gives one answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.secrets: list[str] = []
        self.says = ""
        self._server = socket.create_server((HOST, 0))
        self.number: int = self._server.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, client.makefile("rw") as talk:
                self.secrets.append(talk.readline().strip())
                self.asked.append(talk.readline().strip())
                talk.write(f"{self.says}\n\n" if self.says else "\n")

    def close(self) -> None:
        """End it."""
        self._server.close()


@pytest.fixture
def port() -> Iterator[Port]:
    """Return one."""
    found = Port()
    yield found
    found.close()


@pytest.fixture
def broker(port: Port) -> QueueServer:
    """Return a broker that is asked there, and was never started."""
    found = object.__new__(QueueServer)
    found._control = ControlPort(port.number, 5.0)
    return found


@pytest.mark.parametrize("queue", ["k.in", "/queue/k.in"])
def test_a_broker_is_told_to_refuse_by_the_name_of_its_queue(
    port: Port, broker: QueueServer, queue: str
) -> None:
    Refusing(broker, queue).refuse_next()
    assert port.asked == ["refuse k.in"]
    assert port.secrets == [broker._control.secret]


def test_one_that_cannot_refuse_says_so(port: Port, broker: QueueServer) -> None:
    """The cell is not run as if it had."""
    port.says = '{"error": "this broker refuses nothing"}'
    with pytest.raises(OSError, match="answer to refuse is an error: this broker refuses nothing"):
        Refusing(broker, "k.in").refuse_next()

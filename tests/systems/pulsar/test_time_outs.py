"""The Java client's every call ends, also one that the library itself would wait in for ever."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from harness.protocols.pulsar import frames
from harness.protocols.pulsar.steps import ERRORS, NUMBERS, OF_NUMBER, Command
from harness.stages.clients.bridge import COMMAND, Bridge
from harness.stages.clients.interface import ClientError
from harness.systems.pulsar.install import ensure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.protocols.pulsar.protobuf import Message

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(120)]
SOON_S, WITHIN_MS = 45.0, 10_000


class Refusing:
    """A broker that grants everything up to the coordinator of transactions, which it does not
    allow.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listening.getsockname()[1]}"
        self.refused = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                talk, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        buffer = b""
        with suppress(OSError):
            while data := talk.recv(1 << 16):
                buffer += data
                while not isinstance(head := frames.head(buffer), int) and len(buffer) >= head.size:
                    buffer = buffer[head.size :]
                    if answer := self._answer(OF_NUMBER[head.type], head.said):
                        talk.sendall(answer)

    def _answer(self, asked: Command, said: Message) -> bytes | None:
        if asked is Command.CONNECT:
            return frames.command(NUMBERS[Command.CONNECTED], {1: "a test", 2: 20})
        if asked is Command.PARTITIONED_METADATA:
            return frames.command(
                NUMBERS[Command.PARTITIONED_METADATA_RESPONSE], {1: 1, 2: said.number(2), 3: 0}
            )
        if asked is Command.LOOKUP:
            return frames.command(
                NUMBERS[Command.LOOKUP_RESPONSE], {1: self.url, 3: 1, 4: said.number(2), 5: 1}
            )
        if asked is Command.TC_CLIENT_CONNECT_REQUEST:
            self.refused.set()
            told: dict[int, Any] = {1: said.number(1), 2: ERRORS["NotAllowedError"], 3: "not here"}
            return frames.command(NUMBERS[Command.TC_CLIENT_CONNECT_RESPONSE], told)
        return None


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    """Return such a broker."""
    found = Refusing()
    yield found
    found.close()


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridge]:
    """Return the JVM of a client; it ends when nobody calls it any more."""
    monkeypatch.setenv(COMMAND, ensure(lambda _: None).client(lambda _: None).variables[COMMAND])
    found = Bridge.of_this_program({})
    yield found
    found._jvm.communicate()


@pytest.mark.parametrize(
    ("operation_ms", "within_ms", "name"),
    [
        pytest.param(60_000, WITHIN_MS, "TimeoutException", id="by-us"),
        pytest.param(
            WITHIN_MS, 60_000, "PulsarClientException", id="by-the-library", marks=pytest.mark.rest
        ),
    ],
)
def test_a_client_is_given_up_where_the_coordinator_is_not_allowed(
    refusing: Refusing, bridge: Bridge, operation_ms: int, within_ms: int, name: str
) -> None:
    """Older libraries wait there for ever while one is made (apache/pulsar#17876), this one for the
    time of an operation.

    Whichever is over first, the next call is served as any other.
    """
    assert bridge.call("client", refusing.url, "warmed up", operation_ms, "false", 60_000)
    began = time.monotonic()
    with pytest.raises(ClientError) as told:
        bridge.call("client", refusing.url, "a test", operation_ms, "true", within_ms)
    assert told.value.name == name
    assert refusing.refused.is_set(), "it was not the coordinator that it waited for"
    assert WITHIN_MS / 1000 <= time.monotonic() - began < SOON_S
    assert bridge.call("client", refusing.url, "the next", operation_ms, "false", within_ms)

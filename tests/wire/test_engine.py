"""What the wire does for any protocol: units of several frames, keepalives, names that come late,
answers to several frames.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

import harness.wire
from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.waiting import wait_until
from harness.protocols import PROTOCOLS
from harness.wire.messages import Route, WireError
from harness.wire.rules import Action, Direction, How, Rule
from tests.wire.broker import WITHIN_S, read_exactly
from tests.wire.conftest import hit_in, hold_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import Event
    from tests.wire.conftest import WireProcess

    A = TypeVar("A", bound=Event)

KEY = "small000"


@dataclass
class Both:
    """Both ends of a connection through the wire."""

    wire: WireProcess
    folder: Path
    client: socket.socket
    server: socket.socket

    def ask(self, *lines: str) -> None:
        """Let the client say lines, and see that they arrive."""
        data = "".join(f"{line}\n" for line in lines).encode()
        self.client.sendall(data)
        assert read_exactly(self.server, len(data)) == data

    def give(self, *lines: str) -> None:
        """Let the server say lines."""
        data = "".join(f"{line}\n" for line in lines).encode()
        self.server.sendall(data)
        assert read_exactly(self.client, len(data)) == data

    def events(self, *wanted: type[A]) -> list[A]:
        """Return the cell's events of some kinds."""
        return list(read_history(self.folder).of(*wanted))

    def steps(self) -> list[str | None]:
        """Return the steps that the history has."""
        return [event.api for event in self.events(kinds.Frame)]


@pytest.fixture
def both(wire: WireProcess, tmp_path: Path) -> Iterator[Both]:
    """A client and a server of the small protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        route = Route(
            "small",
            "s",
            "consumer",
            0,
            listener.getsockname()[1],
            protocol="small",
        )
        port = wire.control.add_route(route).listen_port
        wire.control.open_cell(KEY, KEY, tmp_path / "cell" / "wire.jsonl")
        client = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
        server, _ = listener.accept()
        server.settimeout(WITHIN_S)
        yield Both(wire, tmp_path / "cell", client, server)
        client.close()
        server.close()
        wire.control.remove_route("small")
        wire.control.close_cell(KEY)


def test_what_came_before_its_name_is_told_when_that_is_known(both: Both) -> None:
    """In order, and as the client's that it turned out to be; of a stranger nothing is told."""
    both.ask("ask 1 a-1", "beat", "ask 2 a-2")
    both.give("ok 1")
    assert not both.folder.exists() or both.events(kinds.Frame) == []
    both.ask(f"name {KEY}.consumer.1")
    both.give("ok 2")
    wait_until(lambda: len(both.steps()) == 5, within_s=WITHIN_S, because="five lines")
    assert both.steps() == ["ask", "ask", "ok", "name", "ok"]
    assert {event.client for event in both.events(kinds.Frame)} == {f"{KEY}.consumer.1"}


def test_more_than_can_be_kept_before_a_name_voids(both: Both) -> None:
    both.ask(*(f"ask {number} a-{number}" for number in range(65)))
    both.ask(f"name {KEY}.consumer.1")
    wait_until(
        lambda: both.events(kinds.Undecodable), within_s=WITHIN_S, because="a line that voids"
    )
    assert "more than 64 frames" in str(both.events(kinds.Undecodable)[0].because)


def test_what_is_done_to_a_unit_is_done_at_its_last_frame(both: Both) -> None:
    """The parts before it have gone; of the record that a part carries no frame but the last is
    held.
    """
    both.wire.control.arm(KEY, Rule("r", Action.HOLD, record="a-1"))
    both.ask(f"name {KEY}.consumer.1", "more 1 a-1", "more 1 a-1")
    both.client.sendall(b"ask 1 a-1\n")
    hit = hit_in(both.folder)
    assert (hit.api, hit.corr) == ("ask", 4)
    assert [event.unfinished for event in both.events(kinds.Frame)] == [False, True, True, False]
    both.wire.control.resolve(hold_of(hit), How.RELEASE)
    assert read_exactly(both.server, 10) == b"ask 1 a-1\n"


def test_a_cut_in_the_middle_of_a_unit_leaves_its_parts(both: Both) -> None:
    both.wire.control.arm(KEY, Rule("r", Action.CUT, record="a-1"))
    both.ask(f"name {KEY}.consumer.1", "more 1 a-1")
    both.client.sendall(b"ask 1 a-1\n")
    assert both.server.recv(1) == b""
    told = [(event.event, event.topic) for event in both.events(kinds.Sent, kinds.Unsent)]
    assert told == [("sent", "more"), ("unsent", "ask")]
    wait_until(
        lambda: both.events(kinds.Failed), within_s=WITHIN_S, because="what the end has done"
    )
    assert [event.because for event in both.events(kinds.Failed)] == ["ended by wire"]


def test_a_keepalive_is_no_step(both: Both) -> None:
    """No rule meets it, and no line tells of it; it waits behind what is held."""
    both.ask(f"name {KEY}.consumer.1")
    both.wire.control.arm(KEY, Rule("r", Action.HOLD, occurrence=2))
    both.ask("beat", "beat", "ask 1 a-1", "beat")
    both.client.sendall(b"ask 2 a-2\nbeat\n")
    hit = hit_in(both.folder)
    assert hit.records == ("a-2",)
    both.give("beat")
    both.wire.control.resolve(hold_of(hit), How.RELEASE)
    assert read_exactly(both.server, 15) == b"ask 2 a-2\nbeat\n"
    assert both.steps() == ["name", "ask", "ask"]


def test_one_frame_may_answer_several_and_a_server_may_ask(both: Both) -> None:
    both.ask(f"name {KEY}.consumer.1")
    both.wire.control.arm(KEY, Rule("r", Action.DROP, "take", record="a-2"))
    both.give("give 1 a-1", "give 2 a-2", "give 3 a-3")
    both.ask("take 1")
    both.client.sendall(b"take 2\n")
    assert both.server.recv(1) == b""
    dropped = next(event for event in both.events(kinds.Rule) if event.phase == "dropped")
    assert dropped.records is not None
    assert "a-2" in dropped.records
    assert "a-3" not in dropped.records


def test_a_frame_that_stays_is_not_moved(both: Both) -> None:
    both.wire.control.arm(KEY, Rule("r", Action.HOLD, "ask", Direction.REQUEST))
    both.ask(f"name {KEY}.consumer.1")
    both.client.sendall(b"ask 1 a-1\n")
    hit = hit_in(both.folder)
    with pytest.raises(WireError, match="stays: it can only go on in place"):
        both.wire.control.resolve(hold_of(hit), How.DELIVER)
    both.wire.control.resolve(hold_of(hit), How.DISCARD)


@pytest.mark.parametrize(
    ("protocol", "says"),
    [
        ("mysql", "the wire does not read mysql"),
        ("tests.wire.small:Small", "the wire does not read tests.wire.small:Small"),
        ("without-its-class", "cannot read without-its-class"),
        ("without-its-module", "cannot read without-its-module"),
    ],
)
def test_a_protocol_that_is_not_there_is_one_line(
    wire: WireProcess, protocol: str, says: str
) -> None:
    with pytest.raises(WireError, match=says) as refused:
        wire.control.add_route(Route("x", "x", "consumer", 0, 1, protocol=protocol))
    assert "\n" not in str(refused.value)
    assert "x" not in {route.name for route in wire.control.routes()}


def test_the_wire_names_no_protocol() -> None:
    folder = Path(harness.wire.__file__).parent
    named = [name for name in PROTOCOLS if name != "tcp"]  # on which all others stand
    words = re.compile("|".join(named), re.IGNORECASE)
    lines = [
        f"{file.name}: {line}"
        for file in sorted(folder.glob("**/*.py"))
        for line in file.read_text().splitlines()
        if words.search(line)
    ]
    assert lines == []

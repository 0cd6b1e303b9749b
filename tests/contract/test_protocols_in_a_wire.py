"""What the wire relies on of every protocol, in a wire: between a client and a server that say what
they say.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import psutil
import pytest

from harness.contract.suite_protocols import MEGABYTE, ProtocolCase, everything
from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.waiting import wait_until
from harness.provision.certificates import make_certificates
from harness.wire.messages import Route, Tls, WireError
from harness.wire.protocol import UNKNOWN, Frame, Need, UnableError
from harness.wire.rules import Action, Direction, How, Rule
from tests.contract.protocols import FROM, KEYS, LIMIT, RECORD, TO, DirectionReader
from tests.wire.broker import read_exactly
from tests.wire.conftest import hit_in, hold_of
from tests.wire.tls import NAME, TlsSocket, serving, trusting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.model.history import Event
    from harness.provision.certificates import Certificates
    from tests.contract.protocols import Said, Speaker
    from tests.wire.conftest import WireProcess

    A = TypeVar("A", bound=Event)

WITHIN_S = 5.0


@dataclass(frozen=True)
class Secured:
    """Two authorities, who know nothing of each other: the run's own, and the broker's."""

    run: Certificates
    broker: Certificates


class Joint:
    """A client and a server, a wire between them, and a cell that the client is of."""

    def __init__(
        self, wire: WireProcess, speaker: Speaker, folder: Path, secured: Secured | None = None
    ) -> None:
        self.wire, self.speaker, self.key = wire, speaker, next(KEYS)
        self.folder = folder / self.key
        self._secured = secured
        self._listener = socket.create_server(("127.0.0.1", 0))
        tls = (
            None if secured is None else Tls(str(secured.run.server), str(secured.broker.authority))
        )
        route = Route(
            self.key,
            self.key,
            "consumer",
            0,
            self._listener.getsockname()[1],
            protocol=speaker.name,
            tls=tls,
        )
        self.port = wire.control.add_route(route).listen_port
        # of a client without a name the route says whose it is
        routes = () if speaker.reads else (self.key,)
        wire.control.open_cell(self.key, self.key, self.folder / "wire.jsonl", routes=routes)
        self.client, self.server = self.connected()

    def connected(self) -> tuple[socket.socket | TlsSocket, socket.socket | TlsSocket]:
        """Connect through the wire; return both ends."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)
        server = self.accepted()
        return client if self._secured is None else TlsSocket(
            client, trusting(self._secured.run), NAME
        ), server

    def accepted(self) -> socket.socket | TlsSocket:
        """Return the server's side of the next connection."""
        self._listener.settimeout(WITHIN_S)
        sock, _ = self._listener.accept()
        sock.settimeout(WITHIN_S)
        return sock if self._secured is None else TlsSocket(sock, serving(self._secured.broker))

    def say(self, said: list[Said], piece: int = LIMIT) -> None:
        """Say one thing after the other, and see that each arrives as it is."""
        for way, data in said:
            source, target = (self.client, self.server) if way is TO else (self.server, self.client)
            for at in range(0, len(data), piece):
                source.sendall(data[at : at + piece])
            assert read_exactly(target, len(data)) == data

    def again(self) -> None:
        """See the end of the connection on both sides, and begin another."""
        assert (ended(self.client), ended(self.server)) == (b"", b"")
        for sock in (self.client, self.server):
            sock.close()
        self.client, self.server = self.connected()
        self.say(self.speaker.opening(self.key))

    def begin(self) -> bytes:
        """Say everything up to the question, and return that."""
        *before, (_, question) = self.speaker.question(self.key)
        self.say([*self.speaker.opening(self.key), *before])
        return question

    def events(self, *wanted: type[A]) -> list[A]:
        """Return the cell's events of some kinds."""
        return list(read_history(self.folder).of(*wanted))

    def lines(self) -> list[bool]:
        """Return of each line about the record whether what it is about has reached."""
        about = [
            event
            for event in read_history(self.folder).events
            if getattr(event, "record", None) == RECORD and not isinstance(event, kinds.Rule)
        ]
        told = [(event, getattr(event, "reached", None)) for event in about]
        return [
            not isinstance(event, kinds.Unsent) if reached is None else reached
            for event, reached in told
        ]

    def expected(self, *reached: bool) -> list[bool]:
        """Return the lines about the record that must be there: none, if it cannot be read."""
        return list(reached) if self.speaker.reads else []

    def cut(self) -> int:
        """Cut its connection."""
        named = {"client": self.key} if self.speaker.reads else {"node": self.key}
        return self.wire.control.cut(**named)

    def replies(self) -> list[bytes]:
        """Return what the server says to a client that begins."""
        return [data for way, data in self.speaker.opening(self.key) if way is FROM]

    def close(self) -> None:
        """Leave everything."""
        for sock in (self.client, self.server, self._listener):
            sock.close()
        self.wire.control.remove_route(self.key)
        self.wire.control.close_cell(self.key)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    """What only the wire can show to a client, and only the broker to the wire."""
    folder = tmp_path_factory.mktemp("certificates")
    return Secured(make_certificates(folder / "run"), make_certificates(folder / "broker"))


@pytest.fixture(params=["bare", "tls"])
def joint(
    small_wire: WireProcess,
    speaker: Speaker,
    tmp_path: Path,
    secured: Secured,
    request: pytest.FixtureRequest,
) -> Iterator[Joint]:
    """Each protocol, spoken through a wire, as it is and in TLS that ends there."""
    made = Joint(small_wire, speaker, tmp_path, secured if request.param == "tls" else None)
    yield made
    made.close()


@pytest.mark.parametrize("piece", [1, LIMIT])
def test_a_conversation_arrives_as_it_was_said(joint: Joint, piece: int) -> None:
    """Byte by byte too; its cell knows of it, and nothing of it was unreadable."""
    joint.say([each for each in everything(joint.speaker, joint.key) if each[1]], piece)
    answers = [event for event in joint.events(kinds.Frame) if event.dir == FROM]
    assert answers
    wait_until(
        lambda: joint.lines() == joint.expected(True, True),
        within_s=WITHIN_S,
        because="the lines of what has arrived",
    )
    assert {event.client for event in answers} == {joint.speaker.client(joint.key)}
    assert joint.events(kinds.Undecodable) == []


def test_who_has_said_all_still_gets_its_answer(joint: Joint) -> None:
    question = joint.begin()
    joint.client.sendall(question)
    joint.client.shutdown(socket.SHUT_WR)
    assert read_exactly(joint.server, len(question)) == question
    assert joint.server.recv(1) == b""
    joint.say([(FROM, joint.speaker.answer)])
    finish(joint.server)
    assert joint.client.recv(1) == b""


def finish(sock: socket.socket | TlsSocket) -> None:
    """Leave as one does who has said all."""
    sock.leave() if isinstance(sock, TlsSocket) else sock.close()


def test_48_megabytes_are_streamed(joint: Joint) -> None:
    joint.say(joint.speaker.opening(joint.key))
    size = 48 * MEGABYTE
    head = joint.speaker.large(joint.key, size)
    memory = psutil.Process(joint.wire.process.pid).memory_info
    before = memory().rss
    sender = threading.Thread(target=_send, args=(joint.client, head, size))
    sender.start()
    came, most = len(read_exactly(joint.server, len(head))), 0
    while came < size:
        more = len(joint.server.recv(MEGABYTE))
        assert more, f"{came} of {size} bytes came"
        came += more
        most = max(most, memory().rss - before)
    sender.join(WITHIN_S)
    assert most < 16 * MEGABYTE, f"the wire grew by {most >> 20} MB"
    assert [
        event.because for event in joint.events(kinds.Undecodable) if event.api == UNKNOWN
    ] == []


def _send(sock: socket.socket | TlsSocket, head: bytes, size: int) -> None:
    sock.sendall(head)
    block = b"x" * MEGABYTE
    for left in range(size - len(head), 0, -MEGABYTE):
        sock.sendall(block[:left])


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 64, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 64, b"\0" * 64],
)
def test_garbage_passes_and_voids(joint: Joint, garbage: bytes) -> None:
    """Behind the opening, both ways, as it is; and the cell says that it could not be read. To who
    takes anything it is as good as any.
    """
    joint.say(joint.speaker.opening(joint.key))
    joint.client.sendall(garbage)
    joint.server.sendall(garbage)
    joint.client.shutdown(socket.SHUT_WR)
    assert read_exactly(joint.server, len(garbage)) == garbage
    joint.server.shutdown(socket.SHUT_WR)
    assert read_exactly(joint.client, len(garbage)) == garbage
    if joint.speaker.takes_anything:
        assert joint.client.recv(1) == joint.server.recv(1) == b""
        assert joint.events(kinds.Undecodable) == []
        return
    wait_until(
        lambda: joint.events(kinds.Undecodable), within_s=WITHIN_S, because="a line that voids"
    )


def test_heart_beats_go_on_under_a_hold_and_are_no_steps(joint: Joint) -> None:
    """In the other direction; those behind what is held come behind it. What is held has not
    arrived, then it has.
    """
    joint.wire.control.arm(joint.key, joint.speaker.rule(Action.HOLD))
    question = joint.begin()
    beat = joint.speaker.beat
    joint.say([(TO, beat)])
    joint.client.sendall(question + beat)
    hit = hit_in(joint.folder)
    frames = len(joint.events(kinds.Frame))
    joint.say([(FROM, beat)] * 3)
    assert joint.lines() == []
    joint.wire.control.resolve(hold_of(hit), How.RELEASE)
    assert read_exactly(joint.server, len(question + beat)) == question + beat
    assert len(joint.events(kinds.Frame)) == frames
    wait_until(
        lambda: joint.lines() == joint.expected(True),
        within_s=WITHIN_S,
        because="the line of what was held",
    )


@pytest.mark.parametrize("direction", Direction)
def test_what_is_dropped_has_not_reached(joint: Joint, direction: Direction) -> None:
    """The question, or its answer: not a byte of it goes on, and both sides see the end."""
    joint.wire.control.arm(joint.key, joint.speaker.rule(Action.DROP, direction))
    question = joint.begin()
    joint.client.sendall(question)
    if direction is FROM:
        assert read_exactly(joint.server, len(question)) == question
        joint.server.sendall(joint.speaker.answer)
    for sock in (joint.server, joint.client):
        assert ended(sock) == b""
    assert joint.lines() == joint.expected(*([False] if direction is TO else [True, False]))


def ended(sock: socket.socket | TlsSocket) -> bytes:
    """Read to the end of a connection."""
    data = b""
    try:
        while more := sock.recv(MEGABYTE):
            data += more
    except (ConnectionError, ssl.SSLEOFError):
        pass
    return data


def test_a_cut_in_the_middle_of_a_frame_leaves_a_part(joint: Joint) -> None:
    """The server gets less than the whole, then the end; the connection, and the wire, are none the
    worse for it.
    """
    joint.say(joint.speaker.opening(joint.key))
    size = 64 * MEGABYTE
    sender = threading.Thread(
        target=_send_what_goes, args=(joint.client, joint.speaker.large(joint.key, size), size)
    )
    sender.start()
    came = len(read_exactly(joint.server, MEGABYTE))
    assert joint.cut() == 1
    came += len(ended(joint.server))
    sender.join(WITHIN_S)
    assert came < size
    assert joint.cut() == 0
    wait_until(
        lambda: [e for e in joint.events(kinds.Conn) if e.phase == "close"],
        within_s=WITHIN_S,
        because="its end",
    )
    assert joint.events(kinds.Failed) == []


def _send_what_goes(sock: socket.socket | TlsSocket, head: bytes, size: int) -> None:
    try:
        _send(sock, head, size)
    except OSError:
        return


def test_a_request_is_refused_in_its_brokers_name(joint: Joint) -> None:
    """In every version; it never gets there, and what comes behind it does, unless who refuses
    hangs up.
    """
    joint.say(joint.speaker.opening(joint.key))
    for number, data in enumerate(joint.speaker.refused(joint.key)):
        heard = ProtocolCase(joint.speaker, joint.speaker.opening(joint.key), LIMIT)
        asked = heard.session.feed(TO, data)
        assert isinstance(asked, Frame)
        known = heard.protocol.steps[asked.step, TO]
        error = _legal(joint.speaker, joint.key, data, number)
        joint.wire.control.arm(
            joint.key, Rule(f"r{number}", Action.ANSWER, asked.step, error=error)
        )
        joint.client.sendall(data)
        heard.session.sending(asked)
        said = _answered(joint.client, heard)
        assert asked.id in said.answers, (
            f"{asked.step} {asked.facts['version']} is refused by an answer to something else"
        )
        if known.hangs_up:
            joint.again()
    if not joint.events(kinds.Rule):
        return
    joint.say(joint.speaker.question(joint.key))
    assert [event.reached for event in answered(joint)] == [True] * len(
        joint.speaker.refused(joint.key)
    )
    assert joint.events(kinds.Undecodable) == []


def _legal(speaker: Speaker, key: str, data: bytes, number: int) -> str:
    """Return an error by which this very request can be refused; another one by each number."""
    heard = ProtocolCase(speaker, speaker.opening(key), LIMIT)
    asked = heard.session.feed(TO, data)
    assert isinstance(asked, Frame)
    errors = sorted(heard.protocol.steps[asked.step, TO].errors)
    for error in errors[number % len(errors) :] + errors:
        with contextlib.suppress(UnableError):
            heard.session.refuse(asked, data, error)
            return error
    raise AssertionError(f"{asked.step} can be refused by none of {errors}")


def answered(joint: Joint) -> list[kinds.Rule]:
    """Return what is told of refusals."""
    return [event for event in joint.events(kinds.Rule) if event.phase == "answered"]


def _answered(sock: socket.socket | TlsSocket, heard: ProtocolCase) -> Frame:
    """Read one answer whole."""
    data = b""
    while True:
        fed = heard.session.feed(FROM, data) if data else Need(1)
        assert isinstance(fed, Need | Frame), fed
        whole = fed.bytes if isinstance(fed, Need) else fed.size
        if isinstance(fed, Frame) and len(data) == whole:
            return fed
        data += read_exactly(sock, whole - len(data))


def test_a_refusal_takes_the_place_of_its_answer(joint: Joint) -> None:
    """Where what was asked may be done behind an error, it is done, and what the broker says of it
    is for nobody.
    """
    errors = joint.speaker.make().steps[joint.speaker.step, TO].errors
    done = [error for error, may_be in errors.items() if may_be]
    if not done:
        return
    joint.wire.control.arm(
        joint.key, joint.speaker.rule(Action.ANSWER, error=done[0], forward=True)
    )
    question = joint.begin()
    joint.client.sendall(question)
    assert read_exactly(joint.server, len(question)) == question
    joint.server.sendall(joint.speaker.answer)
    heard = ProtocolCase(
        joint.speaker,
        [*joint.speaker.opening(joint.key), *joint.speaker.question(joint.key)],
        LIMIT,
    )
    asked = next(frame for way, frame, _ in reversed(heard.frames()) if way is TO)
    assert asked.id in _answered(joint.client, heard).answers
    wait_until(lambda: len(joint.lines()) == 2, within_s=WITHIN_S, because="the line of the answer")
    assert joint.lines() == [True, False]
    [line] = wait_until(
        lambda: answered(joint), within_s=WITHIN_S, because="the line of the refusal"
    )
    assert (line.error, line.forward, line.said) == (done[0], True, 0)


def test_what_is_moved_arrives_whole_on_a_fresh_connection(joint: Joint) -> None:
    """After what its protocol says before it, and its answer is written down; or it is refused, as
    the plan knew.
    """
    joint.wire.control.arm(joint.key, joint.speaker.rule(Action.HOLD))
    question = joint.begin()
    joint.client.sendall(question)
    held = hold_of(hit_in(joint.folder))
    if not joint.speaker.make().steps[joint.speaker.step, TO].movable:
        with pytest.raises(WireError, match="can only go on in place"):
            joint.wire.control.resolve(held, How.RELEASE_LATER)
        return
    joint.wire.control.resolve(held, How.RELEASE_LATER)
    assert ended(joint.server) == b""
    greeted: list[bytes] = []
    answering = threading.Thread(target=serve, args=(joint, question, greeted))
    answering.start()
    done = joint.wire.control.resolve(held, How.DELIVER, within_s=WITHIN_S)
    answering.join(WITHIN_S)
    assert greeted == joint.replies() or joint.speaker.anonymous, (
        "nobody has said from whom it comes"
    )
    assert (done.outcome, done.reached, done.answered, done.error or 0) == (
        "delivered",
        True,
        True,
        0,
    )
    assert joint.lines() == [True, False]
    assert joint.events(kinds.Undecodable) == []


def serve(joint: Joint, question: bytes, greeted: list[bytes]) -> None:
    """Answer a fresh connection as a server would, up to the question; ``greeted``: what was said
    to what came before.
    """
    sock = joint.accepted()
    ear = DirectionReader(joint.speaker.make().session(1, limit=LIMIT), TO)
    while question not in [data for _, data in ear.heard]:
        before = len(ear.heard)
        ear.take(sock.recv(MEGABYTE))
        for fed, data in ear.heard[before:]:
            if isinstance(fed, Frame) and data != question:
                greeted.append(joint.replies()[len(greeted)])
                sock.sendall(greeted[-1])
    sock.sendall(joint.speaker.answer)
    sock.close()

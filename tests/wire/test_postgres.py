"""A database's connection on the wire: which message commits, whose records, what a rule does to it and to its answer."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from harness.core.history import read_history
from harness.core.record import Record
from harness.core.waiting import wait_until
from harness.protocols.postgres import messages as postgres
from harness.protocols.postgres.messages import NotAMessageError
from harness.wire.messages import Route, WireError
from harness.wire.rules import Action, Api, Direction, How, Rule, RuleError
from tests.wire.broker import WITHIN_S, read_exactly
from tests.wire.conftest import hit_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.core.history import Event
    from tests.wire.conftest import WireProcess

KEYS = (f"db{number:06x}" for number in itertools.count(1))
READY = b"Z" + struct.pack(">i", 5) + b"I"


def said(kind: bytes, body: bytes = b"") -> bytes:
    """Make a message."""
    return kind + struct.pack(">i", 4 + len(body)) + body


def query(text: str) -> bytes:
    """Make a simple query."""
    return said(b"Q", text.encode() + b"\0")


def executed(statement: str, *values: bytes, name: str = "", portal: str = "", parse: bool = True) -> bytes:
    """Make what a driver sends to run a statement with values, prepared by ``name``."""
    bound = b"".join(struct.pack(">i", len(value)) + value for value in values)
    parts = [
        said(b"P", name.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">h", 0)) if parse else b"",
        said(b"B", f"{portal}\0{name}\0".encode() + struct.pack(">hhh", 1, 1, len(values)) + bound + struct.pack(">h", 0)),
        said(b"E", portal.encode() + b"\0" + struct.pack(">i", 0)),
        said(b"S"),
    ]  # fmt: skip
    return b"".join(parts)


def startup(name: str) -> bytes:
    """Make what a client sends first."""
    body = struct.pack(">i", postgres.STARTUP) + b"user\0me\0application_name\0" + name.encode() + b"\0\0"
    return struct.pack(">i", 4 + len(body)) + body


def complete(tag: str) -> bytes:
    """Make the answer to a statement."""
    return said(b"C", tag.encode() + b"\0")


@dataclass
class Server:
    """Takes one connection after the other, keeps what comes, and answers what it is told to."""

    answer: bytes = complete("COMMIT") + READY
    came: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.conns: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.conns.append(sock)
                while data := sock.recv(1 << 16):
                    self.came += data
                    if data.startswith(struct.pack(">ii", 8, postgres.ENCRYPTION[0])):
                        sock.sendall(b"N")
                    elif b"COMMIT" in data or b"go" in data:
                        sock.sendall(self.answer)

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conn in self.conns:
            conn.close()


@dataclass
class Base:
    """A server behind a route of its own, and one open cell."""

    wire: WireProcess
    server: Server
    key: str
    port: int
    path: Path

    def client(self) -> socket.socket:
        """Connect and give a name."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)
        sock.sendall(startup(f"{self.key}.consumer.1"))
        return sock

    def value(self, record: str = "k0-1") -> bytes:
        """Return the payload of a record of the cell."""
        return Record(record, record[:2], int(record[3:]), "x").encode(self.key)

    def rule(self, action: Action, direction: Direction, record: str | None = "k0-1") -> None:
        """Arm a rule at the commit of a record."""
        self.wire.control.arm(self.key, Rule("r", action, Api.DATABASE_COMMIT, direction, role="consumer", record=record))

    def commits(self) -> list[tuple[object, ...]]:
        """Return what is written down of commits."""
        return [(e["record"], e["outcome"], e["reached"]) for e in self.events("database_commit")]

    def events(self, kind: str) -> list[Event]:
        """Return the cell's events of a kind."""
        return list(read_history(self.path.parent).of(kind))

    def came(self, data: bytes) -> None:
        """Wait until the server has got something."""
        wait_until(lambda: data in bytes(self.server.came), within_s=WITHIN_S, because=f"{data!r} at the server")


@pytest.fixture
def base(wire: WireProcess, tmp_path: Path) -> Iterator[Base]:
    """One server, one route, one cell."""
    key, server = next(KEYS), Server()
    state = wire.control.add_route(Route(key, key, "consumer", 0, server.port, protocol="postgres"))
    path = tmp_path / "cell" / "wire.jsonl"
    wire.control.open_cell(key, key, path)
    yield Base(wire, server, key, state.listen_port, path)
    server.close()
    wire.control.remove_route(key)
    wire.control.close_cell(key)


def test_a_commit_is_about_what_was_written_since_begin(base: Base) -> None:
    """Values of a transaction name its records, binary or in text; what was rolled back is in no later commit."""
    with base.client() as sock:
        sock.sendall(query("BEGIN") + executed("INSERT INTO t VALUES ($1)", base.value("k0-1")) + query("ROLLBACK"))
        sock.sendall(query("BEGIN") + executed("INSERT INTO t VALUES ($1)", base.value("k1-2"), b"7"))
        sock.sendall(query(rf"insert into t select '\x{base.value('k2-3').hex()}'") + query("COMMIT"))
        base.server.answer = complete("ROLLBACK") + complete("COMMIT") + READY
        base.came(b"COMMIT")
        assert read_exactly(sock, len(complete("ROLLBACK"))) == complete("ROLLBACK")
        wait_until(lambda: len(base.commits()) == 4, within_s=WITHIN_S, because="the answer to be written down")
    assert base.commits() == [
        ("k1-2", None, True),
        ("k2-3", None, True),
        ("k1-2", "committed", True),
        ("k2-3", "committed", True),
    ]


def test_a_prepared_commit_is_known_by_its_statement(base: Base) -> None:
    """As JDBC does it: parsed once under a name, then only bound and executed."""
    with base.client() as sock:
        for number in (1, 2):
            sock.sendall(executed("INSERT INTO t VALUES ($1)", base.value(f"k0-{number}"), name="s1", parse=number == 1))
            sock.sendall(executed("COMMIT", name="s2", portal="p", parse=number == 1) + query("go"))
            wait_until(lambda n=number: len(base.commits()) == 2 * n, within_s=WITHIN_S, because="the commit to be written down")
    assert [record for record, outcome, _ in base.commits() if outcome] == ["k0-1", "k0-2"]


def test_a_held_commit_never_arrives_when_it_is_discarded(base: Base) -> None:
    """The statements before it have arrived; it has not, and the connection ends."""
    base.rule(Action.HOLD, Direction.REQUEST)
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()) + query("COMMIT"))
        hit = hit_in(base.path.parent)
        assert (hit["api"], hit["records"], hit["client"]) == ("DatabaseCommit", ["k0-1"], f"{base.key}.consumer.1")
        base.came(base.value())
        base.wire.control.resolve(hit["held"], How.DISCARD)
        assert sock.recv(1) == b""
    assert b"COMMIT" not in base.server.came
    assert base.commits() == [("k0-1", None, False)]


def test_a_dropped_answer_was_committed(base: Base) -> None:
    """The server has got the commit and answered it; the program sees the connection end."""
    base.rule(Action.DROP, Direction.RESPONSE)
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()) + query("COMMIT"))
        assert sock.recv(1) == b""
    base.came(b"COMMIT")
    assert base.commits() == [("k0-1", None, True), ("k0-1", "committed", False)]


def test_a_held_answer_goes_on_in_place(base: Base) -> None:
    """Released, it and what stands behind it arrive."""
    base.rule(Action.HOLD, Direction.RESPONSE)
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()) + query("COMMIT"))
        hit = hit_in(base.path.parent)
        with pytest.raises(WireError, match="can only go on in place"):
            base.wire.control.resolve(hit["held"], How.RELEASE_LATER)
        base.wire.control.resolve(hit["held"], How.RELEASE)
        assert read_exactly(sock, len(base.server.answer)) == base.server.answer


def test_another_record_s_commit_passes(base: Base) -> None:
    """A rule for one record leaves the commits of others alone."""
    base.rule(Action.DROP, Direction.REQUEST, record="k0-9")
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()) + query("COMMIT"))
        assert read_exactly(sock, len(base.server.answer)) == base.server.answer


@pytest.mark.parametrize(("answer", "outcome"), [
    (said(b"E", b"SERROR\0C23505\0\0"), "refused"), (complete("ROLLBACK"), "rolled back"),
])  # fmt: skip
def test_a_commit_that_failed_is_called_so(base: Base, answer: bytes, outcome: str) -> None:
    """A COMMIT of a broken transaction is answered by ROLLBACK, one that a constraint forbids by an error."""
    base.server.answer = answer + READY
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()) + query("COMMIT"))
        read_exactly(sock, len(base.server.answer))
    assert base.commits() == [("k0-1", None, True), ("k0-1", outcome, True)]


def test_a_refused_wish_for_encryption_passes(base: Base) -> None:
    """Asked for first and answered by N, as drivers do by default; then the client gives its name."""
    with socket.create_connection(("127.0.0.1", base.port), timeout=WITHIN_S) as sock:
        sock.sendall(struct.pack(">ii", 8, postgres.ENCRYPTION[0]))
        assert read_exactly(sock, 1) == b"N"
        sock.sendall(startup(f"{base.key}.consumer.1") + executed("INSERT", base.value()) + query("COMMIT"))
        read_exactly(sock, len(base.server.answer))
    assert [record for record, outcome, _ in base.commits() if outcome] == ["k0-1"]


def test_what_is_no_postgres_passes_unread(base: Base) -> None:
    """Nothing is held back; that it could not be read is written down."""
    with base.client() as sock:
        sock.sendall(b"\xff\xff\xff\xff\xffgo")
        assert read_exactly(sock, len(base.server.answer)) == base.server.answer
    assert [event["api"] for event in base.events("undecodable")] == ["unknown"]


def test_a_record_selects_a_commit_and_a_topic_does_not() -> None:
    """A commit has records, and no topics."""
    Rule("r", Action.HOLD, Api.DATABASE_COMMIT, record="k0-1")
    with pytest.raises(RuleError, match="DatabaseCommit request cannot be selected by topic"):
        Rule("r", Action.HOLD, Api.DATABASE_COMMIT, topic="t")


def test_a_protocol_nobody_reads_is_refused(wire: WireProcess) -> None:
    """One line."""
    with pytest.raises(WireError, match="does not read mysql"):
        wire.control.add_route(Route("m", "m", "consumer", 0, 1, protocol="mysql"))


@pytest.mark.parametrize("head", [b"Q\0\0\0\3", b"\1\0\0\0\5", b"Q\x7f\xff\xff\xff"])
def test_a_message_that_cannot_be_is_none(head: bytes) -> None:
    """Too short, of no kind, too long."""
    with pytest.raises(NotAMessageError):
        postgres.message(head)

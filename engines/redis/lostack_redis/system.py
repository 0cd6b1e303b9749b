"""Redis, or Valkey, as a system under test: one server, whose append-only file is read at rest."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from harness.abilities import Retention
from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.queue_broker import Count
from harness.run.queue_launcher import QueueLauncher
from harness.run.queue_served import ROLES, QueueServed
from harness.stages.settings import Settings
from harness.systems.pulsar.sink import TopicSink
from lostack_redis import resp
from lostack_redis.install import DEFAULT, ensure, title
from lostack_redis.journal import Journal
from lostack_redis.steps import ACTS, BY_SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.protocols.acts import Act
    from harness.run.queue_broker import Message, Results
    from harness.run.queues import Queue
    from harness.run.scene import CellScene
    from harness.wire.rules import StepName
    from lostack_redis.resp import Value

ANSWER_S: Final = 5.0
WRITTEN_S: Final = 10.0
MADE: Final = {
    "appendonly": "yes",
    "appendfsync": "always",
    "aof-use-rdb-preamble": "no",
    "auto-aof-rewrite-percentage": "0",
    "save": "",
}
"""The settings that lostack makes. A user may choose another ``appendfsync``."""
UNACKED: Final = "unacked"
"""Kombu's hash of the messages that a worker has and has not acknowledged."""


class RedisServer(QueueServed):
    """A running server, seen by clients of RESP."""

    protocol = "resp"
    roles = (*ROLES, Role.PROCESSOR)

    def __init__(self, program: Path, settings: Mapping[str, str], directory: Path) -> None:
        super().__init__(directory)
        self._program = program
        self._settings = MADE | dict(settings)
        self._journal = Journal(self.data)

    def argv(self) -> Sequence[str]:
        """Return the command that starts the server on its data."""
        told = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.data)}
        pairs = {**self._settings, **self.told, **told}.items()
        return (
            str(self._program),
            *(word for name, value in pairs for word in (f"--{name}", value)),
        )

    def answers(self) -> bool:
        """Say whether the server has loaded its data."""
        return self.ask("PING") == b"PONG"

    def counted(self, queue: str) -> Count:
        """Return how many messages wait in a stream or a list, as the server says."""
        if self.ask("TYPE", queue) != b"stream":
            return Count(_number(self.ask("LLEN", queue)), _number(self.ask("HLEN", UNACKED)))
        entries = [_first(each) for each in _all(self.ask("XRANGE", queue, "-", "+"))]
        ready: set[Value] = set()
        pending: set[Value] = set()
        groups = [_fields(each) for each in _all(self.ask("XINFO", "GROUPS", queue))]
        for group in groups:
            name, last = group[b"name"], group[b"last-delivered-id"]
            ready |= {_first(each) for each in _all(self.ask("XRANGE", queue, b"(" + last, "+"))}
            ids = self.ask("XPENDING", queue, name, "-", "+", "1000000")
            pending |= {_first(each) for each in _all(ids)}
        ready = ready if groups else set(entries)
        return Count(len(ready), len((pending - ready) & {*entries}))

    def messages(self, queue: str) -> Sequence[Message]:
        """Return every copy that a stream or a list has had, from the append-only file, when the
        server has written all of it.
        """
        wait_until(
            lambda: b"\naof_buffer_length:0\r" in self._info(),
            within_s=WRITTEN_S,
            because="the append-only file to be written",
            poll_s=0.02,
        )
        return self._journal.messages(queue)

    def _info(self) -> bytes:
        said = self.ask("INFO", "persistence")
        return said if isinstance(said, bytes) else b""

    def ask(self, *words: str | bytes) -> Value:
        """Return the server's answer to a command, past the wire.

        Raises:
            OSError: it does not answer, or refuses.
        """
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S) as server:
            server.sendall(resp.command(*words))
            data = b""
            while True:
                data += (more := server.recv(1 << 16))
                if not more:
                    raise ConnectionResetError("the server closed the connection")
                try:
                    answer = resp.Reader(data).value()
                except resp.ShortError:
                    continue
                except resp.NotRespError as error:
                    raise OSError(str(error)) from error
                if isinstance(answer, resp.Refusal):
                    raise OSError(answer.text.decode("utf-8", "replace"))
                return answer


def _all(value: Value) -> Sequence[Value]:
    return value if isinstance(value, list) else ()


def _first(value: Value) -> Value:
    return value[0] if isinstance(value, list) and value else None


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _fields(value: Value) -> dict[bytes, bytes]:
    words = list(_all(value))
    pairs = zip(words[::2], words[1::2], strict=False)
    return {k: v for k, v in pairs if isinstance(k, bytes) and isinstance(v, bytes)}


@dataclass
class Trimmed(Retention):
    """Trims the stream of a cell."""

    broker: RedisServer
    queue: Queue

    def expire(self) -> None:
        """Remove every entry that a group was given.

        Raises:
            CellFailure: none was there.
        """
        name = self.queue.name
        [group] = [_fields(each) for each in _all(self.broker.ask("XINFO", "GROUPS", name))]
        ms, _, number = group[b"last-delivered-id"].partition(b"-")
        gone = self.broker.ask("XTRIM", name, "MINID", b"%s-%d" % (ms, int(number) + 1))
        if not isinstance(gone, int) or not gone:
            raise CellFailure(f"{name} had no entry that its group was given")
        scene = self.queue.scene
        scene.history.write(
            kinds.Fault(
                phase=FaultPhase.FORGOT, fault=scene.cell.scenario.fault.id, file=name, records=gone
            )
        )


class RedisSystem(QueueLauncher):
    """Redis or Valkey, as it is prepared and deployed."""

    words: ClassVar[Mapping[Act, StepName]] = ACTS

    @property
    def name(self) -> str:
        """The system's name, with its version if one was chosen."""
        return "redis" if self.version is None else f"redis=={self.version}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch the server."""
        self._program = ensure(self.version or DEFAULT, say)

    def broker(self, directory: Path) -> RedisServer:
        """Return a server that is not started yet."""
        return RedisServer(self._program, self.settings, directory)

    def words_of(self, cell: Cell) -> Mapping[Act, StepName]:
        """Return the steps of a cell: its producer may send by a script."""
        return BY_SCRIPT if Settings.of(cell.settings).producer.names_records else ACTS

    def abilities(self, broker: QueueServed, queue: Queue) -> Mapping[type, object]:
        """Return what faults can do to a stream: trim it."""
        return {Retention: Trimmed(cast("RedisServer", broker), queue)}

    def to_queue(self, cell: Cell, broker: QueueServed) -> Callable[[CellScene], Results] | None:
        """Return what makes the stream of results, if a processor adds them to one."""
        if not cell.scenario.pipeline.to_topic:
            return None
        return lambda scene: TopicSink(scene, broker)

    def own_versions(self) -> Mapping[str, str]:
        """Return the version of the server."""
        name, _, version = title(self.version or DEFAULT).partition(" ")
        return {name.lower(): version} if hasattr(self, "_program") else {}

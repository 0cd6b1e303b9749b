"""A running nats-server: how it is started, what its streams hold, and what it counts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.model.places import Removal, Waiting
from harness.model.record import ATTEMPT_HEADER
from harness.model.waiting import wait_until
from harness.proofs.takeover import READERS, readers_of
from harness.run.queue_broker import Count, Message
from harness.run.queue_replicas import of_most
from harness.run.queue_served import NO_DEAD_LETTERS, QueueServed
from lostack_nats.answers import led_in, reader_in, slowest
from lostack_nats.blocks import Reader, Stored, reader_of, records_in
from lostack_nats.config import KEPT, server_text, stream_config
from lostack_nats.direct import NOT_FOUND, WITHIN_S, NobodyError, RefusedError, ask
from lostack_nats.steps import DURABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.model.takeovers import Led
    from harness.run.queue_served import Server

WORK_QUEUE: Final = "work-queue"
"""The pipeline whose stream forgets what is acknowledged."""
NOBODY: Final = "lostack-nobody"
"""A subject that nobody has."""
SOON_S: Final = 2.0
"""Within how many seconds a cluster answers, if somebody leads: else nobody does."""
MADE_S: Final = 30.0
"""Within how many seconds a cluster has elected who can make a stream."""
WRITTEN_S: Final = 5.0
"""Within how many seconds the server writes how far a consumer is."""
SETTINGS: Final = {"sync_interval": "always"}
"""The defaults of the server's settings of JetStream here. Its own flushes every two minutes."""


class NatsServer(QueueServed):
    """A running server behind its wire."""

    protocol = "nats"
    start_s: ClassVar[float] = 30.0

    def __init__(
        self, program: Path, directory: Path, settings: Mapping[str, str], size: int = 1
    ) -> None:
        """``settings``: a user's, of JetStream, by the server's names; ``stream.NAME``: of streams
        that are made here; ``size``: of how many servers each stream has a copy.
        """
        super().__init__(directory, ports=size > 1, size=size)
        self._program = program
        self._settings = {**SETTINGS, **settings}
        self._made: dict[str, object] = {}

    def argv(self) -> Sequence[str]:
        """Return the (first) server's command; write its settings."""
        return self.argv_of(self.servers[0])

    def argv_of(self, server: Server) -> Sequence[str]:
        """Return a server's command; write its settings. The servers of a cluster connect to each
        other past the wire, and tell clients no address.
        """
        ports = [port for each in self.servers for port in each.further]
        ports.sort(key=lambda port: port not in server.further)
        store, file = f"{server.data}/store", server.data / "server.conf"
        text = server_text(server.name, server.port, store, self._chosen(), ports)
        file.write_text(text, encoding="utf-8")
        return (str(self._program), "-c", str(file))

    def answers(self) -> bool:
        """Say whether JetStream answers: the port is open before. A stream that is gone is made
        again, as programs do when they start.

        Raises:
            OSError: it does not.
        """
        if "memory" not in self.ask("$JS.API.INFO"):
            return False
        for stream, config in self._made.items():
            self.ask(f"$JS.API.STREAM.CREATE.{stream}", config)
        return True

    def serves(self, name: str) -> bool:
        """Say whether a server takes connections: it says that nobody has this subject."""
        try:
            ask(self.server(name).port, NOBODY)
        except NobodyError:
            return True
        return False

    def ask(self, subject: str, asked: object = None) -> dict[str, Any]:
        """Return the answer to a request past the wire, of the first server that gives one.

        Raises:
            RefusedError: the server refuses.
            OSError: no server answers.
        """
        up = (node.name for node in self.nodes if node.process().exit is None)
        server = self.server(next(up, self.servers[0].name))
        within_s = SOON_S if len(self.servers) > 1 else WITHIN_S
        return ask(server.port, subject, asked, within_s)

    def led(self, queue: str) -> Sequence[Led]:
        """Return who leads a stream, and its consumer. A stream that is gone is made again."""
        names = [each.name for each in self.servers]
        info = self._info(queue) or self.ask(f"$JS.API.STREAM.CREATE.{queue}", self._made[queue])
        stream = led_in(queue, info, names)
        try:
            told = self.ask(f"$JS.API.CONSUMER.INFO.{queue}.{DURABLE}")
        except OSError as error:  # only its leader answers
            if isinstance(error, RefusedError) and error.code == NOT_FOUND:
                return [stream]
            told = {}
        return [stream, led_in(readers_of(queue), told, names)]

    def hand_over(self, led: Led, to: str | None = None) -> None:
        """Tell the leader to step down. Servers before 2.11 choose the next one themselves."""
        queue = led.log.removesuffix(READERS)
        kind, name = ("STREAM", queue) if queue == led.log else ("CONSUMER", f"{queue}.{DURABLE}")
        subject = f"$JS.API.{kind}.LEADER.STEPDOWN.{name}"
        try:
            self.ask(subject, {"placement": {"preferred": to}} if to else None)
        except RefusedError:  # it takes no wish
            self.ask(subject)

    def queue(self, name: str) -> str:
        """Return the name of a stream, which is also its subject: without dots."""
        return name.replace(".", "_")

    def create(self, queue: str, pipeline: str) -> None:
        """Make the stream of a queue, unless it exists."""
        forgets = pipeline == WORK_QUEUE
        self._made[queue] = stream_config(
            queue, self._chosen(), forgets=forgets, replicas=len(self.servers)
        )
        wait_until(partial(self._is_made, queue), within_s=MADE_S, because=f"a stream {queue}")
        if forgets:
            self.ask(f"{queue}.{KEPT}")

    def _is_made(self, queue: str) -> bool:
        """Make a stream; say whether it is made. A cluster without a leader makes none yet."""
        try:
            self.ask(f"$JS.API.STREAM.CREATE.{queue}", self._made[queue])
        except OSError:
            if len(self.servers) == 1:
                raise
            return False
        return True

    def _chosen(self) -> Mapping[str, str]:
        return {**self._settings, **self.told}

    def counted(self, queue: str) -> Count:
        """Return how many messages wait, as the server says of the consumer that has most to do."""
        if (state := self._state(queue)) is None:
            return Count()
        if (told := slowest(self._consumers(queue))) is None:
            return Count(ready=state["messages"] - self._kept(queue))
        return Count(told["num_pending"], told["num_ack_pending"])

    def messages(self, queue: str) -> Sequence[Message]:
        """Return every copy that a stream has had, from its blocks.

        An acknowledged message of a stream with limits stays where it is. It is told as removed,
        because for its consumer it is.
        """
        if queue.startswith(NO_DEAD_LETTERS) or (state := self._state(queue)) is None:
            return ()
        found = of_most([self._in_files(queue, server) for server in self.servers])
        gone = {each.sequence for each in found if each.removes}
        reader = self._reader(queue)
        told = []
        for each in found:
            if each.removes or each.subject != queue:
                continue
            removed = each.sequence in gone or each.sequence < state["first_seq"]
            waits = not removed and (reader is None or reader.waits(each.sequence))
            place = f"{queue}:{each.sequence}"
            told.append(
                Message(
                    place,
                    place,
                    each.body,
                    each.headers.get(ATTEMPT_HEADER),
                    waiting=Waiting.READY if waits else None,
                    removed=None if waits else Removal.ACK,
                )
            )
        return told

    def copies(self, queue: str, server: Server) -> Mapping[int, bytes]:
        """Return the messages in the blocks of one server."""
        return {e.sequence: e.body for e in self._in_files(queue, server) if e.subject == queue}

    def _in_files(self, queue: str, server: Server) -> list[Stored]:
        blocks = (self._folder(queue, server) / "msgs").glob("*.blk")
        ordered = sorted(blocks, key=lambda file: int(file.stem))
        return [each for file in ordered for each in records_in(file.read_bytes())]

    def _folder(self, queue: str, server: Server) -> Path:
        return server.data / "store" / "jetstream" / "$G" / "streams" / queue

    def _info(self, queue: str) -> dict[str, Any] | None:
        try:
            return self.ask(f"$JS.API.STREAM.INFO.{queue}")
        except RefusedError as refused:
            if refused.code == NOT_FOUND:
                return None
            raise

    def _state(self, queue: str) -> dict[str, Any] | None:
        return (self._info(queue) or {}).get("state")

    def _kept(self, queue: str) -> int:
        told = self.ask(f"$JS.API.STREAM.INFO.{queue}", {"subjects_filter": f"{queue}.{KEPT}"})
        return len(told["state"].get("subjects") or ())

    def _consumers(self, queue: str) -> list[dict[str, Any]]:
        found = self.ask(f"$JS.API.CONSUMER.LIST.{queue}", {"offset": 0})["consumers"]
        return list(found or ())

    def _reader(self, queue: str) -> Reader | None:
        """Return how far the consumer is that has most to do; ``None``: there is none.

        Where the server's numbers do not tell which messages are pending, its file does.
        """
        told = slowest(self._consumers(queue))
        if told is None or (known := reader_in(told)) is not None:
            return None if told is None else known
        files = [self._folder(queue, each) / "obs" / DURABLE / "o.dat" for each in self.servers]
        same = (told["ack_floor"]["stream_seq"], told["num_ack_pending"])

        def written() -> Reader | None:
            read = (reader_of(file.read_bytes()) for file in files)
            return next((each for each in read if (each.floor, len(each.pending)) == same), None)

        return wait_until(
            written, within_s=WRITTEN_S, because="a consumer's file to be written", poll_s=0.05
        )

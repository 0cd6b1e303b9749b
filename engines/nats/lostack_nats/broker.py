"""A running nats-server: how it is started, what its streams hold, and what it counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.model.places import Removal, Waiting
from harness.model.record import ATTEMPT_HEADER
from harness.model.waiting import wait_until
from harness.run.queue_broker import Count, Message
from harness.run.queue_served import NO_DEAD_LETTERS, QueueServed
from lostack_nats.blocks import Reader, reader_in, records_in
from lostack_nats.direct import NOT_FOUND, RefusedError, ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

WORK_QUEUE: Final = "work-queue"
"""The pipeline whose stream forgets what is acknowledged."""
OF_STREAMS: Final = "stream."
"""How the name of a setting begins that is a stream's, and not the server's."""
KEPT: Final = "lostack-kept"
"""The end of the subject of a work queue's first message, which nobody reads: the server removes a
block of which all messages are acknowledged, and this one keeps it.
"""
WRITTEN_S: Final = 5.0
"""Within how many seconds the server writes how far a consumer is."""
SETTINGS: Final = {"sync_interval": "always"}
"""The defaults of the server's settings of JetStream here. Its own flushes every two minutes."""


def typed(text: str) -> object:
    """Return a setting as its type has it in JSON.

    >>> typed("1000"), typed("true"), typed("workqueue")
    (1000, True, 'workqueue')
    """
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


class NatsServer(QueueServed):
    """A running server behind its wire."""

    protocol: ClassVar[str] = "nats"
    start_s: ClassVar[float] = 30.0

    def __init__(self, program: Path, directory: Path, settings: Mapping[str, str]) -> None:
        """``settings``: a user's, of JetStream, by the server's names; ``stream.NAME``: of streams
        that are made here.
        """
        super().__init__(directory)
        self._program = program
        self._settings = {**SETTINGS, **settings}
        self._made: dict[str, object] = {}

    def argv(self) -> Sequence[str]:
        """Return the server's command; write its settings."""
        file = self.data / "server.conf"
        own = {k: v for k, v in self._chosen().items() if not k.startswith(OF_STREAMS)}
        lines = (f"  {name}: {value}" for name, value in own.items())
        file.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{\n  store_dir: "{self.data}/store"\n'
            + "\n".join(lines)
            + "\n}\n",
            encoding="utf-8",
        )
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

    def ask(self, subject: str, asked: object = None) -> dict[str, Any]:
        """Return the server's answer to a request past the wire.

        Raises:
            RefusedError: the server refuses.
            OSError: the server does not answer.
        """
        return ask(self.port, subject, asked)

    def queue(self, name: str) -> str:
        """Return the name of a stream, which is also its subject: without dots."""
        return name.replace(".", "_")

    def create(self, queue: str, pipeline: str) -> None:
        """Make the stream of a queue, unless it exists."""
        forgets = pipeline == WORK_QUEUE
        kept = f"{queue}.{KEPT}"
        config = {
            "name": queue,
            "subjects": [queue, kept] if forgets else [queue],
            "retention": "workqueue" if forgets else "limits",
            "storage": "file",
            "num_replicas": 1,
            **{
                name.removeprefix(OF_STREAMS): typed(value)
                for name, value in self._chosen().items()
                if name.startswith(OF_STREAMS)
            },
        }
        self._made[queue] = config
        self.ask(f"$JS.API.STREAM.CREATE.{queue}", config)
        if forgets:
            self.ask(kept)

    def _chosen(self) -> Mapping[str, str]:
        return {**self._settings, **self.told}

    def counted(self, queue: str) -> Count:
        """Return how many messages wait, as the server says of the consumer that has most to do."""
        if (state := self._state(queue)) is None:
            return Count()
        readers = self._readers(queue)
        if not readers:
            return Count(ready=state["messages"] - self._kept(queue))
        slowest = readers[0]
        return Count(slowest["num_pending"], slowest["num_ack_pending"])

    def messages(self, queue: str) -> Sequence[Message]:
        """Return every copy that a stream has had, from its blocks.

        An acknowledged message of a stream with limits stays where it is. It is told as removed,
        because for its consumer it is.
        """
        if queue.startswith(NO_DEAD_LETTERS) or (state := self._state(queue)) is None:
            return ()
        folder = self.data / "store" / "jetstream" / "$G" / "streams" / queue
        blocks = sorted((folder / "msgs").glob("*.blk"), key=lambda file: int(file.stem))
        found = [each for file in blocks for each in records_in(file.read_bytes())]
        gone = {each.sequence for each in found if each.removes}
        reader = self._reader(queue, folder)
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

    def _state(self, queue: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.ask(f"$JS.API.STREAM.INFO.{queue}")["state"]
        except RefusedError as refused:
            if refused.code == NOT_FOUND:
                return None
            raise
        return found

    def _kept(self, queue: str) -> int:
        asked = {"subjects_filter": f"{queue}.{KEPT}"}
        state = self.ask(f"$JS.API.STREAM.INFO.{queue}", asked)["state"]
        return len(state.get("subjects") or ())

    def _readers(self, queue: str) -> list[dict[str, Any]]:
        """Return the consumers, the one with most to do first."""
        found = self.ask(f"$JS.API.CONSUMER.LIST.{queue}", {"offset": 0})["consumers"] or []
        return sorted(found, key=lambda each: -each["num_pending"] - each["num_ack_pending"])

    def _reader(self, queue: str, folder: Path) -> Reader | None:
        """Return how far the consumer is that has most to do; ``None``: there is none.

        Where the server's numbers do not tell which messages are pending, its file does.
        """
        readers = self._readers(queue)
        if not readers:
            return None
        told = readers[0]
        floor, given = told["ack_floor"]["stream_seq"], told["delivered"]["stream_seq"]
        if told["num_ack_pending"] in (0, given - floor):
            pending = range(floor + 1, given + 1) if told["num_ack_pending"] else ()
            return Reader(floor, given, frozenset(pending))
        file = folder / "obs" / told["name"] / "o.dat"

        def written() -> Reader | None:
            found = reader_in(file.read_bytes())
            same = (found.floor, len(found.pending)) == (floor, told["num_ack_pending"])
            return found if same else None

        return wait_until(
            written, within_s=WRITTEN_S, because="a consumer's file to be written", poll_s=0.05
        )

"""The programs of a cell: a producer, and a consumer. Each is told a :class:`ToyStage`, and writes
a ledger.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.failpoint import failpoint
from harness.model import events as kinds
from harness.model.record import decode_id
from harness.stages.outbox import Outbox
from harness.stages.sinks.interface import Copy
from harness.stages.sinks.opening import open_sink
from harness.stages.stage import conduct

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter

VARIABLE = "LOSTACK_TOY_STAGE"
ANSWER_S = 2.0
NO_COPY = Copy(-1, -1, -1)


@dataclass(frozen=True)
class ToyStage:
    """What a program is told. Implements :class:`harness.run.nodes.IncarnationSettings`."""

    cell: str
    key: str
    name: str
    port: int
    outbox: str
    sink: str
    history: str
    resend: bool
    ack_first: bool
    absorb: bool
    incarnation: int = 0
    client: str = "toy"

    @property
    def writer(self) -> str:
        """The name of this incarnation."""
        return f"{self.name}-{self.incarnation}"

    @property
    def called(self) -> str:
        """What it calls itself when it connects: its cell's key, its node, its incarnation."""
        return f"{self.key}.{self.name}.{self.incarnation}"

    def environment(self) -> dict[str, str]:
        """Return the variables to start the program with."""
        return {VARIABLE: json.dumps(asdict(self))}


class Connection:
    """A connection to the server; asked again, it connects again."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._file: TextIO | None = None

    def ask(self, *words: object) -> list[str]:
        """Return the words of the answer but the first. Raises OSError where there is
        none in time.
        """
        try:
            file = self._file
            if file is None:
                server = socket.create_connection(("127.0.0.1", self._port), ANSWER_S)
                self._file = file = server.makefile("rw", encoding="ascii")
                self.ask("HELLO", self._name)
            file.write(" ".join(map(str, words)) + "\n")
            file.flush()
            answer = file.readline()
            if not answer:
                raise ConnectionResetError("the connection has ended")
        except OSError:
            self._file = None
            raise
        return answer.split()[1:]


def produce(stage: ToyStage, ledger: LedgerWriter) -> None:
    """Put every record into the queue, the cursor behind it saved before (at most
    once) or after.
    """
    outbox = Outbox(Path(stage.outbox))
    server = Connection(stage.port, stage.called)
    attempt = 0
    ledger.write(kinds.RESUMED, where="source", partition=None, position=outbox.cursor())
    ledger.write(kinds.READY, role="producer")
    for record in outbox.read(outbox.cursor()):
        told = False
        while not told:
            attempt += 1
            of = {"record": record.id, "attempt": f"{stage.writer}.0.{attempt}", "hop": "topic"}
            ledger.write(kinds.TAKEN, record=record.id)
            if not stage.resend:
                outbox.save_cursor(record.position + 1)
            failpoint("before-send", record.id)
            try:
                server.ask("PUT", f"{stage.key}.in", of["attempt"], record.encode(stage.key).hex())
                ledger.write(kinds.ACKED, partition=None, offset=None, **of)
                told = True
            except OSError as error:
                ledger.write(kinds.UNKNOWN, error=f"{type(error).__name__}: {error}", **of)
                told = not stage.resend
        outbox.save_cursor(record.position + 1)


def consume(stage: ToyStage, ledger: LedgerWriter) -> None:
    """Record what is given, acknowledged before (at most once) or after; where asked, what was
    recorded is absorbed.
    """
    sink = open_sink(stage.sink, name=stage.name)
    server = Connection(stage.port, stage.called)
    ledger.write(kinds.READY, role="consumer")
    while True:
        try:
            number, *given = server.ask("GET", f"{stage.key}.in")
            if not given:
                continue
            value = bytes.fromhex(given[1])
            record = decode_id(value)
            assert record is not None, "the server has records only"
            ledger.write(kinds.DELIVERED, record=record, redelivered=given[0] != "1")
            if stage.ack_first:
                server.ask("ACK", number)
            failpoint("before-recording", record)
            sink.begin()
            if not (stage.absorb and sink.absorb(record, NO_COPY)):
                sink.record(value, record.partition("-")[0], NO_COPY)
            sink.commit()
            failpoint("before-commit", record)
            if not stage.ack_first:
                server.ask("ACK", number)
        except OSError:  # what was not acknowledged is given again
            continue


if __name__ == "__main__":
    told = ToyStage(**json.loads(os.environ[VARIABLE]))
    raise SystemExit(conduct(told, produce if told.name == "producer" else consume))

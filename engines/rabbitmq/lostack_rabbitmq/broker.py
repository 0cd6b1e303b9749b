"""A running node of RabbitMQ: how it is started, and what its quorum queues hold."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import pika
from pika.exceptions import AMQPError

from harness.model.failures import EnvironmentFailure
from harness.run.queue_broker import Count, Message
from harness.run.queue_served import QueueServed
from lostack_rabbitmq.client import declare
from lostack_rabbitmq.logs import logs_in
from lostack_rabbitmq.queues import ASIDE, DEAD, LATE
from lostack_rabbitmq.raft import Log, dead_in, fates_in, packed, why_of
from lostack_rabbitmq.settings import NODE, OURS, command, files, variables
from lostack_rabbitmq.terms import NotATermError, term

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.model.places import Removal
    from lostack_rabbitmq.install import Installed

ANSWER_S: Final = 10.0
STOMP: Final = "stomp"
TELLS: Final = Path(__file__).with_name("tells.erl")
"""What the node itself runs, beside the broker. On a port of its own (``PORT``) it tells whether it
serves, and of a queue the name of its log, and the indexes of the messages that wait, ready or with
a consumer. A queue that a kill has left without a leader may elect none for a minute: then it is
told to.
"""
WRITTEN: Final = "!written"
"""Asks the node to write the names of its logs. By itself it does so half a second after a queue
was declared; killed before, it begins the queue anew when it starts, without its messages.
"""
REPLAY: Final = "!replay "
"""Asks the node which messages of a log its queue drops, and why."""


class RabbitServer(QueueServed):
    """A running node behind its wire. It needs no epmd, and listens for no other node."""

    protocol = "amqp-0-9-1"
    others = (STOMP,)
    start_s: ClassVar[float] = 90.0

    def __init__(self, found: Installed, directory: Path, settings: Mapping[str, str]) -> None:
        """``settings``: a user's, by their names in ``rabbitmq.conf``; ``advanced.APP.NAME``: as
        ``advanced.config`` has it, of an application of the node.
        """
        super().__init__(directory, ports=1)
        self._found = found
        self._settings = OURS | dict(settings)
        self.prefix = ""
        """What stands before a queue's name over STOMP."""
        self._kept: dict[str, Log] = {}
        """What the logs held when the node was started again: it may forget it."""

    def argv(self) -> Sequence[str]:
        """Return the node's command; write its settings. ``erl`` becomes the server."""
        stomp = {"stomp.listeners.tcp.1": f"127.0.0.1:{self.servers[0].speaks(STOMP)[0]}"}
        for name, text in files({**self._settings, **self.told, **stomp}).items():
            (self.data / name).write_text(text, encoding="utf-8")
        code = self._found.folder / "plugins" / f"rabbit-{self._found.version}" / "ebin"
        tells = TELLS.read_text(encoding="utf-8").replace("PORT", str(self.further[0]))
        return command(self._found.erl, str(code), tells)

    @property
    def _quorum(self) -> Path:
        return self.data / "node" / "quorum" / NODE

    def environment(self) -> Mapping[str, str]:
        """Return what the node's scripts would set: all of its files are in its folder."""
        return variables(str(self.data), str(self._found.folder), self.port)

    def answers(self) -> bool:
        """Say whether the node serves clients, and each queue has a leader.

        Raises:
            OSError: it does not answer.
        """
        for port in (self.port, self.servers[0].speaks(STOMP)[0]):
            socket.create_connection(("127.0.0.1", port), ANSWER_S).close()
        return bool(self.ask("") == ("ready", "true", 0))

    def restart(self) -> None:
        """Start the node again. What its queues' logs hold is read before."""
        self._kept.update(self._logs())
        super().restart()

    def create(self, queue: str, pipeline: str) -> None:
        """Make the durable quorum queue of a cell, as one that has been there for a while, and that
        of its dead letters. Other queues are declared by programs.
        """
        if pipeline in {"", LATE}:
            return
        queue = _plain(queue)
        there = pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=ANSWER_S)
        try:
            with pika.BlockingConnection(there) as connection:
                channel = connection.channel()
                declare(channel, queue, pipeline)
                if pipeline == ASIDE:
                    declare(channel, queue + DEAD, "")
        except AMQPError as error:
            raise OSError(f"{queue}: {type(error).__name__}: {error}") from error
        if (said := self.ask(WRITTEN)) != "ok":
            raise OSError(f"{queue}: the node says {said}")

    def counted(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the queue's own state says."""
        _, ready, given = self._holds(queue)
        return Count(len(ready), len(given))

    def messages(self, queue: str) -> Sequence[Message]:
        """Return every message that a queue was given, from its log; what of it waits, from the
        queue's state. What is in the log of a queue that the node has begun anew is gone. Of what
        was removed, the node says what was dropped: that was moved, if another queue's log has it.
        """
        queue = _plain(queue)
        every = self._logs()
        logs = {name: log for name, log in every.items() if log.queue == queue}
        current, ready, given = self._holds(queue) if logs else ("", [], [])
        told: list[Message] = []
        dead = dead_in(every, queue)
        for name, log in sorted(logs.items(), key=lambda each: each[0] == current):
            dropped = self._dropped(name, log) if name == current else None
            for each, fate in fates_in(log, dead, dropped, (*ready, *given)):
                place = f"{name}:{each.index}"
                told.append(Message(place, place, each.body, each.attempt, **fate))
        return told

    def _dropped(self, name: str, log: Log) -> Mapping[int, Removal]:
        """Return why the queue has dropped messages, by their first indexes. The node finds it with
        its own code: it applies the log to an empty queue of the same settings.
        """
        config = self._quorum / name / "config"
        said = self.ask(f"{REPLAY}{config}", packed(log))
        if not isinstance(said, list):
            raise OSError(f"{log.queue}: the node says {said}")
        return why_of(log, said)

    def dead_letters(self, queue: str) -> str:
        """Return the name of the queue with its dead letters; if none has any, that of a cell's."""
        logs, name = self._logs(), _plain(queue)
        places = [place for each in dead_in(logs, name).values() for place in each]
        return logs[places[0].partition(":")[0]].queue if places else name + DEAD

    def queue(self, name: str) -> str:
        """Return a queue's name as clients write it."""
        return self.prefix + name

    def speaking(self, protocol: str) -> Self:
        """Return the same node, seen by programs that speak another protocol."""
        found = super().speaking(protocol)
        found.prefix = "/queue/" if protocol == STOMP else ""
        return found

    def called(self, name: str) -> None:
        """Return ``None``: a delivery tag is a channel's, and names no copy."""

    def ask(self, queue: str, more: bytes | None = None) -> Any:
        """Return what the node tells of a queue; of none, whether it serves. ``more``: follows.

        Raises:
            OSError: it does not answer.
        """
        with socket.create_connection(("127.0.0.1", self.further[0]), ANSWER_S) as node:
            node.settimeout(ANSWER_S)
            node.sendall(f"{queue}\n".encode())
            if more is not None:
                node.sendall(len(more).to_bytes(4, "big") + more)
            said = b""
            while more := node.recv(1 << 16):
                said += more
        try:
            return term(said)
        except NotATermError as error:
            raise OSError(f"the node said {said[:20]!r}: {error}") from error

    def _holds(self, queue: str) -> tuple[str, list[int], list[int]]:
        """Return the name of a queue's log, and the indexes of the messages that are ready, and
        with a consumer.
        """
        said = self.ask(queue := _plain(queue))
        if said == "none":
            return "", [], []
        if said[0] == "other":
            raise EnvironmentFailure(
                f"{queue} is a {said[1]}: lostack reads what quorum queues keep; declare it with "
                "x-queue-type: quorum"
            )
        if said[0] != "queue":
            raise OSError(f"{queue}: the node says {said}")
        _, name, (ready, given) = said
        return name.decode(), ready, given

    def _logs(self) -> dict[str, Log]:
        found = logs_in(self._quorum)
        for name, kept in self._kept.items():
            log = found.setdefault(name, Log(kept.queue))
            for index, (of_term, data) in kept.raw.items():
                log.add(index, of_term, data)
        return found


def _plain(queue: str) -> str:
    """Return the name of a queue that is there, by one of STOMP's or its own.

    >>> _plain("/amq/queue/orders"), _plain("/queue/orders"), _plain("orders")
    ('orders', 'orders', 'orders')
    """
    return queue.removeprefix("/amq").removeprefix("/queue/")

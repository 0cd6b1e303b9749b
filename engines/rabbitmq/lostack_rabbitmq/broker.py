"""A running node of RabbitMQ: how it is started, and what its quorum queues hold."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pika
from pika.exceptions import AMQPError

from harness.model.failures import EnvironmentFailure
from harness.model.places import Removal, Waiting
from harness.run.queue_broker import Count, Message
from harness.run.queue_served import QueueServed
from lostack_rabbitmq.client import declare
from lostack_rabbitmq.logs import logs_in
from lostack_rabbitmq.queues import ASIDE, DEAD, LATE, YOUNG
from lostack_rabbitmq.raft import Log, dead_in
from lostack_rabbitmq.terms import NotATermError, term

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lostack_rabbitmq.install import Installed

ANSWER_S: Final = 10.0
NODE: Final = "lostack@localhost"
ADVANCED: Final = "advanced."
"""How the name of a setting begins that ``rabbitmq.conf`` cannot have."""
SETTINGS: Final = {"log.console.level": "warning"}
"""lostack's, which a user may change."""
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


class RabbitServer(QueueServed):
    """A running node behind its wire. It needs no epmd, and listens for no other node."""

    protocol: ClassVar[str] = "amqp-0-9-1"
    start_s: ClassVar[float] = 90.0

    def __init__(self, found: Installed, directory: Path, settings: Mapping[str, str]) -> None:
        """``settings``: a user's, by their names in ``rabbitmq.conf``; ``advanced.APP.NAME``: as
        ``advanced.config`` has it, of an application of the node.
        """
        super().__init__(directory, ports=1)
        self._found = found
        self._settings = SETTINGS | dict(settings)
        self._kept: dict[str, Log] = {}
        """What the logs held when the node was started again: it may forget it."""

    def argv(self) -> Sequence[str]:
        """Return the node's command; write its settings. ``erl`` becomes the server."""
        chosen = {**self._settings, **self.told}
        inside = [name for name in chosen if name.startswith(ADVANCED)]
        lines = [f"{name} = {value}\n" for name, value in chosen.items() if name not in inside]
        (self.data / "rabbitmq.conf").write_text("".join(lines), encoding="utf-8")
        (self.data / "advanced.config").write_text(
            f"[{', '.join(_advanced(name, chosen[name]) for name in inside)}].\n", encoding="utf-8"
        )
        (self.data / "enabled_plugins").write_text("[].\n", encoding="utf-8")
        code = self._plugins / f"rabbit-{self._found.version}" / "ebin"
        return (
            *(self._found.erl, "-pa", str(code), "-noinput", "-s", "rabbit", "boot"),
            *("-boot", "start_sasl", "+W", "w", "+S", "2:2", "+sbwt", "none"),
            *(
                "-sname",
                NODE,
                "-start_epmd",
                "false",
                "-dist_listen",
                "false",
                "-erl_epmd_port",
                "1",
            ),
            *("-setcookie", "lostack", "-syslog", "logger", "[]"),
            *("-syslog", "syslog_error_logger", "false"),
            *("-kernel", "prevent_overlapping_partitions", "false"),
            *("-eval", TELLS.read_text(encoding="utf-8").replace("PORT", str(self.further[0]))),
        )

    @property
    def _plugins(self) -> Path:
        return self._found.folder / "plugins"

    def environment(self) -> Mapping[str, str]:
        """Return what the node's scripts would set: all of its files are in its folder."""
        data = self.data
        return {
            "HOME": str(data),
            "ERL_LIBS": str(self._plugins),
            "RABBITMQ_HOME": str(self._found.folder),
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_MNESIA_BASE": str(data),
            "RABBITMQ_MNESIA_DIR": str(data / "node"),
            "RABBITMQ_LOG_BASE": str(data / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PLUGINS_DIR": str(self._plugins),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(data / "plugins"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(data / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(data / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(data / "no-such-file"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(data / "feature_flags"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(data / "config"),
            "RABBITMQ_SCHEMA_DIR": str(data / "schema"),
            "RABBITMQ_PID_FILE": str(data / "pid"),
        }

    def answers(self) -> bool:
        """Say whether the node serves clients, and each queue has a leader.

        Raises:
            OSError: it does not answer.
        """
        socket.create_connection(("127.0.0.1", self.port), ANSWER_S).close()
        return bool(self.ask("") == ("ready", "true", 0))

    def restart(self) -> None:
        """Start the node again. What its queues' logs hold is read before."""
        self._kept = self._logs()
        super().restart()

    def create(self, queue: str, pipeline: str) -> None:
        """Make the durable quorum queue of a cell, as one that has been there for a while, and that
        of its dead letters. Other queues are declared by programs.
        """
        if pipeline in {"", YOUNG, LATE}:
            return
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
        queue's state. What is in the log of a queue that the node has begun anew is gone. What is
        in another queue's log, and says that it died in this one, was moved there.
        """
        every = self._logs()
        logs = {name: log for name, log in every.items() if log.queue == queue}
        dead = dead_in(every, queue)
        current, ready, given = self._holds(queue) if logs else ("", [], [])
        told = []
        for name, log in sorted(logs.items(), key=lambda each: each[0] == current):
            entries = log.entries()
            waits = {log.first(index) for index in (*ready, *given)} if name == current else ()
            gone = Removal.ACK if name == current else Removal.PURGE
            for each in entries:
                place = f"{name}:{each.index}"
                waiting = Waiting.READY if each.index in waits else None
                aside = dead.get((each.body, each.attempt)) if not (each.again or waiting) else None
                moved, why = aside.pop(0) if aside else (None, None)
                removed = Removal.DUPLICATE if each.again else None if waiting or moved else gone
                copy = Message(place, place, each.body, each.attempt, waiting)
                told.append(replace(copy, removed=removed, moved=moved, why=why))
        return told

    def dead_letters(self, queue: str) -> str:
        """Return the name of the queue for its dead letters, which a cell's queue may have."""
        return queue + DEAD

    def called(self, name: str) -> None:
        """Return ``None``: a delivery tag is a channel's, and names no copy."""

    def ask(self, queue: str) -> Any:
        """Return what the node tells of a queue; of none, whether it serves.

        Raises:
            OSError: it does not answer.
        """
        with socket.create_connection(("127.0.0.1", self.further[0]), ANSWER_S) as node:
            node.settimeout(ANSWER_S)
            node.sendall(f"{queue}\n".encode())
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
        said = self.ask(queue)
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
        found = logs_in(self.data / "node" / "quorum" / NODE)
        for name, kept in self._kept.items():
            log = found.setdefault(name, Log(kept.queue))
            for index, (of_term, data) in kept.raw.items():
                log.add(index, of_term, data)
        return found


def _advanced(name: str, value: str) -> str:
    """Return a setting as ``advanced.config`` has it.

    >>> _advanced("advanced.ra.wal_sync_method", "none")
    '{ra, [{wal_sync_method, none}]}'
    """
    return "{{{}, [{{{}, {}}}]}}".format(*name.removeprefix(ADVANCED).split(".", 1), value)

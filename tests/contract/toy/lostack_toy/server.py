"""The server: queues in memory, and a journal from which they are read again. ``python -m
lostack_toy.server <port> <journal>``.

A request is a line, and so is its answer; answers come in the order of the requests::

    HELLO <name>                    HELLO
    PUT <queue> <token> <hex>       PUT <number>                        it is in the journal
    GET <queue>                     GET <number> <times> <hex>, or GET - where there was none for a
        while
    ACK <number>                    ACK                                 it is gone for ever
    COUNT <queue>                   COUNT <ready> <with a client>

What was given over a connection and not acknowledged is ready again when the connection ends.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

WAITS_S = 0.2
"""How long GET waits for a message."""


class Store:
    """All queues."""

    def __init__(self, journal: Path) -> None:
        self.changed = threading.Condition()
        self.bodies: dict[int, tuple[str, str]] = {}
        self.times: dict[int, int] = {}
        self.given: set[int] = set()
        self.last = 0
        for what, number, *more in read_journal(journal):
            self.last = max(self.last, number)
            if what == "put":
                self.bodies[number] = more[0], more[2]
            else:
                del self.bodies[number]
        self.journal = journal.open("a", encoding="ascii")

    def write(self, *line: object) -> None:
        """Write a line into the journal: the kernel has it then, whatever becomes of
        this process.
        """
        self.journal.write(json.dumps(line) + "\n")
        self.journal.flush()

    def put(self, queue: str, token: str, body: str) -> int:
        """Take a message."""
        with self.changed:
            self.last += 1
            self.write("put", self.last, queue, token, body)
            self.bodies[self.last] = queue, body
            self.changed.notify_all()
            return self.last

    def get(self, queue: str) -> int | None:
        """Give the first message that is ready."""
        with self.changed:
            self.changed.wait_for(lambda: self.ready(queue), WAITS_S)
            found = self.ready(queue)
            if not found:
                return None
            self.given.add(found[0])
            self.times[found[0]] = self.times.get(found[0], 0) + 1
            return found[0]

    def ready(self, queue: str) -> list[int]:
        """Return the messages of a queue that nobody has, in order."""
        return sorted(
            number
            for number, (where, _) in self.bodies.items()
            if where == queue and number not in self.given
        )

    def ack(self, number: int) -> None:
        """Forget a message."""
        with self.changed:
            if self.bodies.pop(number, None):
                self.write("gone", number)
            self.given.discard(number)

    def back(self, numbers: set[int]) -> None:
        """Make ready what was not acknowledged."""
        with self.changed:
            self.given -= numbers
            self.changed.notify_all()


def read_journal(journal: Path) -> list[list[Any]]:
    """Return the whole lines of a journal."""
    text = journal.read_text(encoding="ascii") if journal.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Client(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Answer line by line."""
        given: set[int] = set()
        try:
            for line in self.rfile:
                self.wfile.write(
                    (
                        " ".join(map(str, self.answer(given, *line.decode("ascii").split()))) + "\n"
                    ).encode("ascii")
                )
        except ConnectionError:
            pass
        finally:
            STORE.back(given)

    def answer(self, given: set[int], verb: str, *words: str) -> list[object]:
        """Return the words of an answer."""
        match verb:
            case "PUT":
                return [verb, STORE.put(*words)]
            case "GET":
                number = STORE.get(*words)
                if number is None:
                    return [verb, "-"]
                given.add(number)
                return [verb, number, STORE.times[number], STORE.bodies[number][1]]
            case "ACK":
                STORE.ack(int(words[0]))
                given.discard(int(words[0]))
            case "COUNT":
                everything = sum(queue == words[0] for queue, _ in STORE.bodies.values())
                ready = len(STORE.ready(words[0]))
                return [verb, ready, everything - ready]
        return [verb]


class Server(socketserver.ThreadingTCPServer):
    """The server."""

    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    STORE = Store(Path(sys.argv[2]))
    Server(("127.0.0.1", int(sys.argv[1])), Client).serve_forever(poll_interval=0.05)

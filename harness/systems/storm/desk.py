"""A client of the desk, the Java process that submits and ends topologies, on loopback. See
``jvm/Desk.java``.
"""

from __future__ import annotations

import json
import socket
from typing import Any, Final

HOST: Final = "127.0.0.1"
ANSWER_S: Final = 60.0


class DeskError(Exception):
    """The desk did not answer, or answered with an error; the message is one line."""


def ask(port: int, *words: str) -> list[dict[str, Any]]:
    """Send an order to the desk, and return the lines of its answer.

    Raises:
        DeskError: the desk answers with an error, or does not answer.
    """
    said: list[dict[str, Any]] = []
    try:
        with (
            socket.create_connection((HOST, port), timeout=ANSWER_S) as client,
            client.makefile("rw") as talk,
        ):
            talk.write(" ".join(words) + "\n")
            talk.flush()
            for line in talk:
                if not line.strip():
                    break
                said.append(json.loads(line))
            else:
                raise DeskError(f"{words[0]}: the desk closed the connection without an answer")
    except OSError as error:
        raise DeskError(f"{words[0]}: {error}") from error
    if said and "error" in said[0]:
        raise DeskError(f"{words[0]}: {str(said[0]['error']).partition(chr(10))[0]}")
    return said

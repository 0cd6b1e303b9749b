"""The control port of a Java program of lostack's: see ``provision/ControlPort.java``.

A connection begins with the program's secret, as every user of the machine can connect. Then it
takes lines of words (``hello``, ``count QUEUE``), each quoted as in a URL, and answers a line with
lines of JSON and an empty line.
"""

from __future__ import annotations

import json
import secrets
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST: Final = "127.0.0.1"
VARIABLE: Final = "LOSTACK_CONTROL_SECRET"
"""The environment variable by which the program learns its secret."""
SECRET_BYTES: Final = 32


@dataclass(frozen=True)
class ControlPort:
    """A program's control port: its number, and how many seconds an answer may take."""

    number: int
    answer_s: float
    secret: str = field(default_factory=lambda: secrets.token_hex(SECRET_BYTES), repr=False)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables to start the program with."""
        return {VARIABLE: self.secret}

    def ask(self, *words: str) -> list[dict[str, Any]]:
        """Send a command; return the objects in the answer.

        Raises:
            OSError: the program does not answer, or answers with an error. One line.
        """
        with (
            socket.create_connection((HOST, self.number), timeout=self.answer_s) as client,
            client.makefile("rw") as talk,
        ):
            talk.write(f"{self.secret}\n{' '.join(map(quote, words))}\n")
            talk.flush()
            said = []
            while line := talk.readline():
                if not line.strip():
                    break
                said.append(json.loads(line))
            else:  # in a container also where nobody listens yet: the engine takes the connection
                raise OSError(f"the connection was closed without an answer to {words[0]}")
        if said and "error" in said[0]:
            error = str(said[0]["error"]).partition("\n")[0]
            raise OSError(f"the answer to {words[0]} is an error: {error}")
        return said

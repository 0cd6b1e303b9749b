"""A JVM beside the stage program, which calls it through pipes: the common part of all clients
written in Java.

The stage's logic, its sink, its ledger and its failpoints stay in this process. The JVM executes
one call at a time; between calls only the client library itself works. The two processes live and
die together: they are one process group, which the harness kills and pauses as a whole, and the
kernel kills the JVM when this process ends.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from harness.stages.clients.interface import ClientError, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMMAND: Final = "LOSTACK_JAVA_CLIENT"
"""The environment variable with the JVM's command, as a JSON list."""
PR_SET_PDEATHSIG: Final = 1


class Bridge:
    """The JVM of this process. It takes one call at a time.

    ``meanings``: the meaning of the client's exceptions, by their names. ``asked``: answers a
    question of the JVM during a call.
    """

    def __init__(self, command: Sequence[str], meanings: Mapping[str, Meaning]) -> None:
        libc = ctypes.CDLL(None)
        java, *words = command
        scratch = f"-Djava.io.tmpdir={tempfile.gettempdir()}"  # a JVM does not look at TMPDIR
        self._jvm = subprocess.Popen(
            [java, scratch, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="ascii",
            bufsize=1,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509 - no other thread is here
        )
        self._meanings = meanings
        self.asked: Callable[[Sequence[str]], str] = lambda _: ""

    @classmethod
    def of_this_program(cls, meanings: Mapping[str, Meaning]) -> Bridge:
        """Start the JVM whose command is in the environment."""
        return cls(json.loads(os.environ[COMMAND]), meanings)

    def call(self, *words: object) -> list[str]:
        """Return the words of the answer.

        Raises:
            ClientError: the answer is an exception.
        """
        self._say("\t".join(map(str, words)))
        while True:
            kind, *rest = self._heard()
            if kind == "ok":
                return rest
            if kind == "error":
                name, said = rest
                text = (decoded(said) or b"").decode("utf-8", "replace")
                raise ClientError(name, text, self._meanings.get(name, Meaning.UNKNOWN))
            self._say(self.asked(rest))

    def _say(self, line: str) -> None:
        if self._jvm.stdin is None:
            raise RuntimeError("the JVM has no standard input")
        self._jvm.stdin.write(f"{line}\n")
        self._jvm.stdin.flush()

    def _heard(self) -> list[str]:
        line = self._jvm.stdout.readline() if self._jvm.stdout else ""
        if not line:
            raise RuntimeError(f"the JVM of the client ended with {self._jvm.wait()}")
        return line.rstrip("\n").split("\t")


def coded(data: bytes | None) -> str:
    """Encode bytes as a word of a call."""
    return "-" if data is None else base64.b64encode(data).decode()


def decoded(word: str) -> bytes | None:
    """Decode a word of an answer to bytes."""
    return None if word == "-" else base64.b64decode(word)


def milliseconds(seconds: float) -> int:
    """Return a time in whole milliseconds, as the JVM takes it."""
    return int(seconds * 1000)

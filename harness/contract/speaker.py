"""How the suite about protocols speaks one: a conversation of a client with its server."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.model.history import Line, encoded, event_of
from harness.model.record import Record
from harness.wire.protocol import Frame, Need, Unframed
from harness.wire.rules import Action, Direction, Rule
from harness.wire.spoken import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.events import Event
    from harness.wire.protocol import Protocol, Session

TO, FROM = Direction.REQUEST, Direction.RESPONSE
LIMIT = 1 << 20
RECORD = "k0-1"
Said = tuple[Direction, bytes]


@dataclass(frozen=True)
class Speaker:
    """How the suite speaks a protocol. What is said is made for a cell of a key, whose clients are
    called after it.
    """

    name: str
    """The protocol's in the registry."""
    opening: Callable[[str], list[Said]]
    """Everything up to where a client may begin to work; each part is one frame, or what stands
    between two.
    """
    question: Callable[[str], list[Said]]
    """What comes to a question about the record, which is the last of it, and changes something
    durable.
    """
    answer: bytes
    """The answer to that question, behind which nothing is left to say."""
    step: str
    """Of the question."""
    answered_by: str
    """The step of the answer."""
    large: Callable[[str, int], bytes]
    """The beginning of a client's message of so many bytes."""
    beat: bytes = b""
    """A heart-beat, where there are any."""
    anonymous: bool = False
    """A request comes from nobody in particular: nothing must be said before it."""
    refused: Callable[[str], tuple[bytes, ...]] = lambda _: ()
    """Questions, in every version that there is, that can be refused."""
    reads: bool = True
    """It knows who its client is, what a frame is about, and where it ends. Else a frame is the
    bytes that are there.
    """
    takes_anything: bool = False
    """No bytes are unreadable to it."""

    def make(self) -> Protocol:
        """Make the protocol, as the wire does; a wrong one by its place."""
        module, _, wrong = self.name.partition(":")
        if wrong:
            made: Protocol = getattr(importlib.import_module(module), wrong)()
            return made
        return load(self.name)

    def rule(
        self,
        action: Action,
        direction: Direction = TO,
        *,
        error: str | None = None,
        forward: bool = False,
    ) -> Rule:
        """Make a rule for the question, or for its answer."""
        step = self.step if direction is TO else self.answered_by
        before = 0 if self.reads else sum(way is direction for way, _ in self.opening(""))
        return Rule(
            "r",
            action,
            step,
            direction,
            record=self.record,
            occurrence=1 + before,
            error=error,
            forward=forward,
        )

    @property
    def record(self) -> str | None:
        """What the question and its answer are about, as far as it can tell."""
        return RECORD if self.reads else None

    def client(self, key: str) -> str:
        """Return the name of a client of a cell."""
        return f"{key}.consumer.1" if self.reads else ""


def value(key: str) -> bytes:
    """Return the payload of the record."""
    return Record(RECORD, "k0", 1, "x").encode(key)


def with_the_wrong(speaker: Speaker, wrong: type) -> Speaker:
    """Return how a protocol is spoken, with another one in its place."""
    return replace(speaker, name=f"{wrong.__module__}:{wrong.__name__}")


class DirectionReader:
    """Takes bytes of one direction as they come, and gives them to a session; ``heard`` is what
    they are.
    """

    def __init__(self, session: Session, way: Direction) -> None:
        self._session = session
        self._way = way
        self._buffer = b""
        self.heard: list[tuple[Frame | Unframed, bytes]] = []

    def take(self, data: bytes) -> None:
        """Go on as far as the bytes go."""
        self._buffer += data
        while self._buffer:
            fed = self._session.feed(self._way, self._buffer)
            if isinstance(fed, Need):
                assert fed.bytes > len(self._buffer), (
                    f"needs {fed.bytes} bytes and has {len(self._buffer)}"
                )
                return
            assert isinstance(fed, Unframed | Frame), fed
            assert fed.size > 0
            if len(self._buffer) < fed.size:
                return
            if isinstance(fed, Frame):
                self._session.sending(fed)
            whole, self._buffer = self._buffer[: fed.size], self._buffer[fed.size :]
            self._session.taken(self._way, fed.size)
            self.heard.append((fed, whole))


def read_back(told: Event | Line) -> Event:
    """Return the event that a reader makes of a line of the wire.

    Raises:
        ValueError: the line would be damage.
    """
    return event_of(json.loads(encoded(told)))

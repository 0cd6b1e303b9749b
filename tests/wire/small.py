"""A protocol that nobody speaks, for what the wire does with what none of the others has.

A line is a frame: ``name`` says who it is, ``ask N TEXT`` is answered by ``ok N``, ``more N TEXT``
is a part of the ``ask`` behind it, ``take N`` answers all ``give`` up to N, ``beat`` is a
keepalive. A text is the id of a record.
"""

# ruff: noqa: ARG002 - what the wire hands over, and nobody here wants

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from harness.model import events as kinds
from harness.wire.protocol import Frame, Immovable, Insight, Need, Opaque, Step, UnableError
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed

RECORD = frozenset({"record"})


@dataclass(slots=True, eq=False)
class SmallFrame(Frame):
    """A line."""

    record: str | None = None


class Small:
    """The protocol."""

    name = "small"
    steps: ClassVar = {
        (step, way): Step(selects=RECORD)
        for step in ("ask", "give", "take", "ok", "more")
        for way in Direction
    }

    def learn(self, names: Mapping[str, str]) -> None:
        """There are no names."""

    def ledger(self, key: str, identity: Identity | None) -> str:
        """Nothing is kept."""
        return key

    def session(self, conn: int, *, limit: int) -> SmallSession:
        """Begin a connection."""
        return SmallSession(conn)


@dataclass
class SmallSession:
    """One connection."""

    conn: int
    name: str | None = None
    numbers: int = 0
    heard: dict[Direction, Frame] = field(default_factory=dict)
    asked: dict[str, SmallFrame] = field(default_factory=dict)

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find a line."""
        if way in self.heard:
            return self.heard[way]
        size = bytes(data).find(b"\n") + 1
        if not size:
            return Need(len(data) + 1)
        step, *words = bytes(data[:size]).decode("ascii", "replace").split() or [""]
        if step not in ("name", "ask", "more", "ok", "give", "take", "beat"):
            return Opaque(f"no line of ours: {step}")
        self.numbers += 1
        facts = {"version": 1, "corr": self.numbers}
        frame = self.heard[way] = SmallFrame(step, size, head=size, facts=facts)
        match step, words:
            case "name", [name]:
                self.name = name
            case (("ask" | "give"), [number, text]):
                frame.id, frame.record = number, text
            case "more", [_, text]:
                frame.record, frame.last = text, False
            case "ok", [number]:
                frame.answers, frame.record = (number,), self.asked[number].record
            case "take", [number]:
                frame.answers = tuple(each for each in self.asked if each <= number)
            case _:
                frame.keepalive = step == "beat"
        return frame

    def taken(self, way: Direction, size: int) -> None:
        """The next line may be found."""
        self.heard.pop(way, None)

    def read(self, frame: Frame, data: bytes | None, ledger: Any) -> Insight:
        """A line is about its record."""
        assert isinstance(frame, SmallFrame)
        records = {frame.record, *(self.asked[str(each)].record for each in frame.answers)} - {None}
        return Insight(Subject(frozenset(str(each) for each in records)))

    def sending(self, frame: Frame) -> None:
        """Remember what will be answered."""
        assert isinstance(frame, SmallFrame)
        if frame.id is not None:
            self.asked[str(frame.id)] = frame

    def settled(self, frame: Frame, ledger: Any, *, reached: bool) -> Iterable[Event]:
        """Say what has become of it."""
        assert isinstance(frame, SmallFrame)
        return (
            [
                (kinds.Sent if reached else kinds.Unsent)(
                    record=frame.record, topic=frame.step, request="0:0"
                )
            ]
            if frame.record
            else []
        )

    def refuse(self, frame: Frame, data: bytes, error: str) -> bytes:
        """Nothing is refused."""
        raise UnableError(error)

    def move(self, frame: Frame, data: bytes) -> Immovable:
        """Nothing is moved."""
        return Immovable("stays")

    def owner(self) -> str | None:
        """Return the name."""
        return self.name

    def silence_s(self, way: Direction) -> float | None:
        """For ever."""
        return None

    def ended(self, by: str, ledger: Any) -> Iterable[Event]:
        """Say who went."""
        return [kinds.Failed(because=f"ended by {by}")]

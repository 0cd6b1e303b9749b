"""A frame of Pulsar's protocol, with the facts that its session has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.protocols.pulsar.protobuf import Message
from harness.protocols.pulsar.steps import Command
from harness.wire.protocol import Frame
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from harness.protocols.pulsar import frames


@dataclass(slots=True, eq=False)
class PulsarFrame(Frame):
    """One frame. ``asked``: for an answer, the frame that it answers."""

    way: Direction = Direction.REQUEST
    said: Message = field(default_factory=lambda: Message(b""))
    message: frames.Outline | None = None
    number: int = 0
    asked: PulsarFrame | None = None
    taken_off: tuple[PulsarFrame, ...] = ()
    """Of an acknowledgement, or its contrary, the messages that it is about."""
    transaction: str | None = None
    topic: str | None = None
    carried: tuple[tuple[str | None, str | None], ...] = ()
    """Record and attempt of each message in the frame, if it was read."""
    kept: dict[int, frozenset[int]] = field(default_factory=dict)
    """By the number of a message among :attr:`taken_off`: which places in its batch this leaves
    unacknowledged.
    """
    done: frozenset[int] = frozenset()
    """Of a delivery, the places in its batch that are acknowledged."""
    part: bytes | None = None
    """What it adds to a message in several parts, until its fate is known."""
    subject: Subject = field(default_factory=Subject)

    @property
    def discards(self) -> bool:
        """Whether it acknowledges a message that the consumer could not read
        (``validation_error``).
        """
        return self.step == Command.ACK and 4 in self.said  # noqa: PLR2004 - the field's number

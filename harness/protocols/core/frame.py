"""One packet of Core: what the wire keeps of it, what it says of records, and how it is refused."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.protocols.core import reading
from harness.protocols.core.steps import STEPS, Kind
from harness.protocols.telling import About, line
from harness.wire.protocol import PLAIN, Frame, UnableError
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.events import Event
    from harness.protocols.acts import Act

UNNUMBERED: Final = -1
"""The number of a request that its answer does not repeat."""
REFUSES: Final = 0
"""The code of an error that says no more."""


@dataclass(slots=True, eq=False)
class CoreFrame(Frame):
    """One packet. ``asked``: for an answer, the request. ``taken_off``: for an acknowledgement, the
    acknowledged deliveries.
    """

    way: Direction = Direction.REQUEST
    kind: int = 0
    channel: int = 0
    number: int = 0
    consumer: int | None = None
    message: int | None = None
    topic: str | None = None
    transaction: str | None = None
    error: str | None = None
    asked: CoreFrame | None = None
    taken_off: tuple[CoreFrame, ...] = ()
    subject: Subject = field(default_factory=Subject)
    attempt: str | None = None
    redelivered: bool = False
    act: Act | None = None
    """What it tells of its records."""


def consumer_of(frame: CoreFrame) -> str:
    """Return the name of a packet's consumer."""
    return f"{frame.channel}.{frame.consumer}"


def refusal_of(frame: CoreFrame, error: str) -> bytes:
    """Return the EXCEPTION packet that refuses a request.

    Raises:
        UnableError: the packet requests no answer, or is never refused by this error.
    """
    if error not in STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors or frame.id is None:
        raise UnableError(
            f"a {frame.step} that requests {'an' if frame.id else 'no'} answer cannot be "
            f"refused by {error!r}"
        )
    correlation = int(str(frame.id).rpartition(":")[2])
    text = struct.pack(">ib", REFUSES, 1) + _text(error)
    body = struct.pack(">bq", Kind.EXCEPTION, frame.channel) + text
    body += b"" if correlation == UNNUMBERED else struct.pack(">q", correlation)
    return struct.pack(">i", len(body)) + body


def _text(text: str) -> bytes:
    """Write a text, short or not, as
    :meth:`harness.protocols.core.reading.Reader.text` reads it.
    """
    size = len(text)
    coded = (
        text.encode("utf-16-be")
        if size < reading.SHORT
        else struct.pack(">H", len(text.encode())) + text.encode()
    )
    return struct.pack(">i", size) + coded


def lines_of(conn: int, frame: CoreFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a packet, or the answer to one, says of each record."""
    of = frame.asked or frame
    if of.act is None:
        return
    about = About(of.act, conn, of.number, of.topic, of.transaction, of.attempt, of.redelivered)
    for record in sorted(frame.subject.records):
        yield line(about, record, reached=reached, answered=of is not frame, error=frame.error or 0)

"""Makes the history lines of a frame, once it is known whether the frame arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from harness.protocols.acts import Act
from harness.protocols.pulsar.steps import Command
from harness.protocols.telling import About, line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.events import Event
    from harness.protocols.pulsar.frame import PulsarFrame

_TOLD: Mapping[str, Act] = {
    Command.SEND: Act.SEND,
    Command.MESSAGE: Act.GIVE,
    Command.ACK: Act.ACK,
    Command.REDELIVER: Act.ACK,
    Command.END_TXN: Act.COMMIT,
}


def lines_of(
    conn: int, frame: PulsarFrame, error: int | str | None, *, reached: bool
) -> Iterator[Event]:
    """Yield the history lines of a frame, or of an answer, one for each record in it.

    The answer to a SEND also has ``place``: where the message is stored; null if the broker reports
    no place.
    """
    of, answered = frame.asked or frame, frame.asked is not None
    act = _TOLD.get(of.step)
    if act is None:
        return
    how = "nack" if of.step == Command.REDELIVER else "discard" if of.discards else "ack"
    place = {"place": frame.facts.get("place")} if answered and act is Act.SEND else {}
    carried = (
        of.carried
        if act in (Act.SEND, Act.GIVE)
        else [(record, None) for record in sorted(of.subject.records)]
    )
    for record, attempt in carried:
        if record is not None:
            about = About(
                act,
                conn,
                of.number,
                of.topic,
                of.transaction,
                attempt,
                bool(of.facts.get("redelivered")),
                how,
            )
            told = line(about, record, reached=reached, answered=answered, error=error or 0)
            yield structs.replace(told, **place)

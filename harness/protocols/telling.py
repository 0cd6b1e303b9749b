"""Makes the history lines for what happens on a queue, in the same form for every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.acts import Act

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.events import Event


@dataclass(frozen=True, slots=True)
class About:
    """What the history says about a frame. For an answer, these are the facts of the frame that it
    answers.

    ``act``: SEND, GIVE, ACK, or COMMIT (any end of a transaction). ``number``: identifies the frame
    on its connection. ``how``: the kind of an acknowledgement.
    """

    act: Act
    conn: int
    number: int
    topic: str | None = None
    transaction: str | None = None
    attempt: str | None = None
    redelivered: bool = False
    how: str = "ack"


def attempt_in(properties: Mapping[str, object]) -> str | None:
    """Return the name of the attempt from a message's properties; ``None`` if there is none.

    Java's names have no dash. A program may have such a property that is no text; it names no
    attempt.

    >>> attempt_in({"lostack_attempt": "p-1.0.2"}), attempt_in({"lostack-attempt": 7})
    ('p-1.0.2', None)
    """
    names = (ATTEMPT_HEADER, ATTEMPT_HEADER.replace("-", "_"))
    return next((said for name in names if isinstance(said := properties.get(name), str)), None)


def line(
    about: About, record: str, *, reached: bool, answered: bool = False, error: str | int = 0
) -> Event:
    """Return the history line of a record for a frame, or for its answer (``answered``; ``error``:
    the reason of a refusal).
    """
    request = f"{about.conn}:{about.number}"
    outcome = None if not answered else Outcome.REFUSED if error else Outcome.TAKEN
    match about.act:
        case Act.SEND if answered:
            return kinds.ProduceAnswer(record=record, request=request, error=error, reached=reached)
        case Act.SEND:
            return (kinds.Sent if reached else kinds.Unsent)(
                record=record,
                request=request,
                topic=about.topic,
                transactional=about.transaction is not None,
                transactional_id=about.transaction,
                attempt=about.attempt,
            )
        case Act.GIVE:
            return kinds.Fetched(
                record=record,
                topic=about.topic,
                conn=about.conn,
                redelivered=about.redelivered,
                reached=reached,
            )
        case Act.COMMIT:
            return kinds.Ending(record=record, request=request, outcome=outcome, reached=reached)
        case _:
            return kinds.Acknowledged(
                record=record,
                request=request,
                how=about.how,
                transactional_id=about.transaction,
                outcome=outcome,
                reached=reached,
            )

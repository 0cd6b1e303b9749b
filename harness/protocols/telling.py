"""Makes the history lines for what happens on a queue, in the same form for every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import kinds
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.acts import Act

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Line


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
) -> Line:
    """Return the history line of a record for a frame, or for its answer (``answered``; ``error``:
    the reason of a refusal).
    """
    fields: dict[str, object] = {"record": record, "request": f"{about.conn}:{about.number}"}
    outcome = None if not answered else "refused" if error else "taken"
    match about.act:
        case Act.SEND if answered:
            return kinds.PRODUCE_ANSWER, {**fields, "error": error, "reached": reached}
        case Act.SEND:
            bound = {
                "transactional": about.transaction is not None,
                "transactional_id": about.transaction,
            }
            return (kinds.SENT if reached else kinds.UNSENT), {
                **fields,
                "topic": about.topic,
                **bound,
                "attempt": about.attempt,
            }
        case Act.GIVE:
            given = {"topic": about.topic, "conn": about.conn, "redelivered": about.redelivered}
            return kinds.FETCHED, {"record": record, **given, "reached": reached}
        case Act.COMMIT:
            return kinds.ENDING, {**fields, "outcome": outcome, "reached": reached}
        case _:
            how = {"how": about.how, "transactional_id": about.transaction}
            return kinds.ACKNOWLEDGED, {**fields, **how, "outcome": outcome, "reached": reached}

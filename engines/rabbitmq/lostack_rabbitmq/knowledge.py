"""What the judge must know of RabbitMQ's histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.judge.proof import Knowledge
from harness.judge.queue_selections import outlived, unfinished
from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

SET_ASIDE: Final = Sign(
    "rabbitmq-set-aside", "the broker moved this record to the dead letters, and says why"
)


def set_aside(history: History) -> Mapping[Sign, frozenset[str]]:
    """Return the records that the broker has moved for a reason."""
    moved = (e.record for e in history.of(kinds.Moved) if e.why)
    return {SET_ASIDE: frozenset(record for record in moved if record)}


KNOWLEDGE: Final = Knowledge(selections=(unfinished,), signs=(outlived, set_aside))

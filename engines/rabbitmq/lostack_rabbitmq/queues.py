"""The queues of cells: how each pipeline's is declared, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

QUORUM: Final = "quorum"
LATE: Final = "late-queue"
"""The pipeline whose queue is not there before its reader, which declares it."""
LIMITED: Final = "delivery-limit"
"""The pipeline whose queue drops a message that was given too often, or refused."""
ASIDE: Final = "dead-letters"
"""The same, and its queue has another one for what it drops."""
DEAD: Final = ".dead-letters"
"""The end of that other queue's name."""
LIMIT: Final = 3
"""How often a message of a limited queue may be given again."""


def arguments(queue: str, pipeline: str) -> Mapping[str, object]:
    """Return the arguments with which a pipeline's queue is declared."""
    limit = {"x-delivery-limit": LIMIT} if pipeline in {LIMITED, ASIDE} else {}
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue + DEAD}
    return {"x-queue-type": "quorum", **limit, **(dead if pipeline == ASIDE else {})}

"""What only the toy tells the judge: a sign of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.judge.proof import Knowledge
from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

DONE_WITH = Sign(
    "toy-done-with",
    "the server was told that this record is done with, and gave it to nobody again",
)


def toy_signs(history: History) -> Mapping[Sign, frozenset[str]]:
    """Return what was acknowledged and given once."""
    given = Counter(line.record for line in history.of(kinds.Fetched))
    told = {
        line.record
        for line in history.of(kinds.Acknowledged)
        if line.reached and line.outcome is None
    }
    return {DONE_WITH: frozenset(record for record in told if given[record] == 1)}


KNOWLEDGE = Knowledge(signs=(toy_signs,))

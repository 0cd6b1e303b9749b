"""What only histories of NATS tell the judge: a sign, and what was unfinished when a connection
ended.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.judge.proof import Knowledge
from harness.judge.queue_selections import broker_deaths, outlived, served_on, untaken
from harness.model import events as kinds
from harness.model.events import Outcome
from harness.model.prediction import Select
from harness.model.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

DEDUPLICATED: Final = Sign(
    "nats-deduplicated",
    "the stream answered a publish of this record as a duplicate, with the first one's sequence",
)


ENDED: Final = Sign(
    "nats-taken-off",
    "the server answered this record's acknowledgement, died, and did not deliver it again",
)


def nats_signs(history: History) -> Mapping[Sign, frozenset[str]]:
    """Return the records whose publish was answered as a duplicate, and those that a server which
    died did not deliver again.
    """
    answers = [e for e in history.of(kinds.ProduceAnswer) if e.error == 0]
    deaths = list(broker_deaths(history))
    given = Counter(e.record for e in history.of(kinds.Fetched) if e.reached)
    taken = {
        e.record
        for e in history.of(kinds.Acknowledged)
        if e.outcome == Outcome.TAKEN and any(e.t < death for death in deaths)
    }
    return {
        DEDUPLICATED: frozenset(e.record for e in answers if e.record and e.place is None),
        ENDED: frozenset(record for record in taken if given[record] == 1),
    }


UNWRITTEN: Final = Select("unfinished-at-death")
"""What a correct server that dies may have twice, or deliver twice: what was sent and not answered,
and what was acknowledged just before. It answers an acknowledgement before it writes how far the
consumer is, which it does ten times a second at most.
"""
WRITES_NS: Final = 2_000_000_000
"""That tenth of a second; the rest is for a busy machine, on which a kill and a write take time."""


def unwritten(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return the records that were sent and not answered, acknowledged, or delivered, just before
    the server died; nothing if it did not die.
    """
    deaths = list(broker_deaths(history))
    if not deaths:
        return {}
    late = {
        e.record
        for e in history.of(kinds.Acknowledged, kinds.Fetched)
        if e.record and any(0 <= death - e.t < WRITES_NS for death in deaths)
    }
    answered = {(e.record, e.request) for e in history.of(kinds.ProduceAnswer) if e.reached}
    late |= {e.record for e in history.of(kinds.Sent) if (e.record, e.request) not in answered}
    return {UNWRITTEN: frozenset(record for record in late if record)}


KNOWLEDGE: Final = Knowledge(
    selections=(unwritten, untaken), signs=(nats_signs, outlived, served_on)
)

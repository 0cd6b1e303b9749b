"""What the judge must know about histories of Kafka Connect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from harness.judge.proof import Knowledge
from harness.model import events as kinds
from harness.model.events import RulePhase
from harness.model.sign import Sign
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from lostack_connect.faults import StartedAgain, StartedElsewhere
from lostack_connect.settings import PIPELINES

if TYPE_CHECKING:
    from harness.model.history import History

OFFSET_SENT_AGAIN: Final = Sign(
    "offset-sent-again",
    (
        "the worker was not told that this record's offset was saved, and sent offsets again "
        "before its source gave another record"
    ),
)
TASK_TOOK_AGAIN: Final = Sign(
    "task-took-again",
    "a task was started again in a worker that lived on, and took this record again",
)
KEEPER: Final = "-offsets"
"""How the id of a worker's client ends that saves source offsets."""


def connect_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records whose offset was sent again, and those that a worker has taken twice."""
    saving = [
        e
        for e in history.of(kinds.Rule, kinds.Frame)
        if e.api == Api.PRODUCE.label and str(e.client).endswith(KEEPER)
    ]
    found = set()
    for hit in saving:
        if not isinstance(hit, kinds.Rule) or hit.phase != RulePhase.HIT:
            continue
        acked = [e.record for e in history.of(kinds.Acked) if e.record and e.t < hit.t]
        until = min((e.t for e in history.of(kinds.Taken) if e.t > hit.t), default=math.inf)
        sent = (e for e in saving if isinstance(e, kinds.Frame) and e.dir == Direction.REQUEST)
        if acked and hit.dir == Direction.RESPONSE and any(hit.t < e.t < until for e in sent):
            found.add(acked[-1])
    starts = list(history.of(kinds.Ready))
    taken = list(history.of(kinds.Taken))
    twice = {
        e.record
        for e in taken
        for start in starts
        if start.by == e.by and start.t < e.t
        if any(o.record == e.record and o.by == e.by and o.t < start.t for o in taken)
    }
    return {OFFSET_SENT_AGAIN: found, TASK_TOOK_AGAIN: twice}


KNOWLEDGE: Final = Knowledge(
    proofs={each.name: each for each in (StartedAgain, StartedElsewhere)},
    signs=(connect_signs,),
    recipes={pipeline.name: pipeline.recipes for pipeline in PIPELINES},
)

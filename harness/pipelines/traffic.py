"""What the wire saw of a stage in a run without a fault: what it does decides which failure points
apply to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model.rhythm import UNSEEN, Rhythm
from harness.model.writes import LEAST
from harness.pipelines.shares import Share
from harness.pipelines.writes import UNWATCHED, Written
from harness.protocols.postgres.steps import Database
from harness.protocols.tcp.steps import Exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Moment
    from harness.wire.rules import StepName


STEPS: Final[Mapping[str, StepName]] = {
    step.label: step for step in (Database.CONFIRMATION, Database.COMMIT, Exchange.TURN)
}
"""What a stage may say to a service. Of the reader of a replication slot only what it confirms is
tried; else only commits, if there are some.
"""


@dataclass(frozen=True, slots=True)
class ServiceTraffic:
    """What a stage said to a service in the dry run while ``records`` came to it (or were sent by
    it), the target first: how many commits and turns were answered, how many confirmations were
    said.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    records: int = 0

    @property
    def step(self) -> StepName | None:
        """What is tried: the first of these that there is twice, else the first that there is at
        all; ``None`` if there is none.
        """
        said = (
            step
            for least in (2, 1)
            for label, step in STEPS.items()
            if self.counts.get(label, 0) >= least
        )
        return next(said, None)

    @property
    def tried(self) -> int:
        """How many consecutive ones are tried: as many as one record takes, and those that another
        run will have, too.
        """
        count = 0 if self.step is None else self.counts[self.step.label]
        return min(max(LEAST, round(count / max(self.records, 1))), count // 2)


@dataclass(frozen=True, slots=True)
class Owner:
    """One process of a stage, the number of its connections, and the requests on them."""

    pid: int
    command: str
    connections: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StageTraffic:
    """What the wire saw of one stage in the dry run: client ids, number of connections, number of
    requests of each kind.

    ``answers``: number of answers of each kind. ``processes``: the processes that owned the
    connections that were open when lostack asked the kernel. ``written``: the durable writes that
    the tracer saw.
    """

    clients: tuple[str, ...] = ()
    connections: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    answers: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[Owner, ...] = ()
    written: Written = UNWATCHED
    unit: int = 0
    """The most records that one request sent, or that one request saved a position behind."""
    seconds: float = 0.0
    """Seconds from the wire's first line about a record to its last."""
    moments: Mapping[Moment, str] = field(default_factory=dict)
    """The moments of a record that were seen, each with the step of the protocol."""
    share: Share = field(default_factory=Share)
    rhythm: Rhythm = UNSEEN
    said: Mapping[str, ServiceTraffic] = field(default_factory=dict)
    """What it said to each service."""
    elsewhere: tuple[str, ...] = ()
    """The servers that it spoke to past the wire."""
    incremental: bool = False
    """Whether its group shares out incrementally: a member keeps what nobody takes from it."""
    alone: str = ""
    """Why its requests never overlap; empty: they do, or nobody has tried."""

    @property
    def steps(self) -> frozenset[str]:
        """The steps that the wire saw on its connections: requests and answers."""
        return frozenset({*self.requests, *self.answers})

    def reading(self, pipeline: Pipeline) -> int:
        """Return how many processes of the stage read records."""
        return sum(pipeline.dialect.reads[0].label in owner.requests for owner in self.processes)


NOTHING: Final = StageTraffic()
"""Of a stage that the dry run did not see."""

DryRun: TypeAlias = "Mapping[str, StageTraffic] | None"
"""What the dry run saw, by role; ``None``: there was none yet."""


def traffic_of(role: str, seen: DryRun) -> StageTraffic | None:
    """Return what the dry run saw of a stage; ``None``: there was no dry run, or no wire saw it."""
    return seen.get(role, NOTHING) if seen else None

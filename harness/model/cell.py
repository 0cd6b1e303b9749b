"""The cell: scenario x system x client x semantic x runtime x seed. What pytest runs, and what a
verdict is about.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model.failures import UsageError
from harness.model.prediction import Select
from harness.model.record import Record, make_records
from harness.model.scenario import Edge, NotApplicable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from harness.model.pipeline import Settings
    from harness.model.scenario import Expectation, Scenario
    from harness.model.semantics import Guarantee, Semantic

DEFAULT_RECORDS = 24
LEAST_RECORDS = 12
MOST_RECORDS = 100_000
MOST_PARTITIONS = 1000
"""The most partitions of a topic. An embedded broker creates so many within seconds, and a run has
only a few dozen records.
"""


STANDS_S = 10.0
"""How long (seconds) a cell at its failure point waits for those that share its broker's death.
After that its clients would time out.
"""
MOST_BYTES = 255
"""The most bytes of a file's name, on Linux."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, before it runs."""

    scenario: Scenario
    semantic: Semantic
    system: str
    """``name``, or ``name==version``."""
    client: str
    """``name``, or ``name==version``."""
    runtime: str
    seed: int
    records: int

    def __post_init__(self) -> None:
        if (size := len(os.fsencode(self.slug))) > MOST_BYTES:
            raise UsageError(
                f"the folder of the cell {self.id} would have a name of {size} bytes, and "
                f"{MOST_BYTES} is the most: shorten the names in it"
            )

    @property
    def id(self) -> str:
        """The stable, readable id by which commands select the cell."""
        under = f"{self.scenario.id}/{self.semantic}/{self.runtime}/s{self.seed}"
        return f"{self.system}/{self.client}/{self.pipeline}/{under}"

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return str(self.scenario.pipeline)

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings as they are saved with the plan."""
        return dataclasses.asdict(self.settings)  # type: ignore[call-overload, no-any-return]  # it is a dataclass

    def logs(self) -> dict[str, int]:
        """Return how many partitions each log has that the observer reads at the end, by its hop.
        Queues are left out.
        """
        return dict(self.settings.logs(self.scenario.pipeline))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are offered records, if there are several."""
        return ()

    @property
    def key(self) -> str:
        """Eight hex digits that identify the cell on a shared broker: its client ids, topics and
        groups begin with them.
        """
        return hashlib.sha256(f"{self.id}/{self.records}".encode()).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """The cell's folder name: without a space, where a program may end its path."""
        return self.id.replace("/", ".").replace(" ", "-")

    @property
    def expectation(self) -> Expectation:
        """What theory says about this cell."""
        if self.runtime == "process" and self.scenario.only_in_containers is not None:
            return NotApplicable(self.scenario.only_in_containers)
        return self.scenario.expectation(self.semantic, self.client, self.system)

    @property
    def settings(self) -> Settings:
        """The settings that implement the semantic in this cell."""
        return self.scenario.settings(self.semantic, self.client, self.system)

    @property
    def dies_with(self) -> tuple[object, ...] | None:
        """What cells have in common that may share one death of their broker; ``None``: it dies for
        this cell alone. Seeds are repetitions: one must not depend on another.
        """
        death = self.scenario.together
        return (death, self.pipeline, self.client, self.seed) if death else None

    @property
    def stands_s(self) -> float:
        """How long, in seconds, it stands at its failure point for others that share the death."""
        return STANDS_S

    @property
    def ordered(self) -> bool:
        """Whether the cell claims that the records of a key are recorded in their order."""
        return False

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The session guarantees that the cell claims."""
        return ()

    @property
    def supervised(self) -> bool:
        """Whether lostack's own programs are started again when they end with an error, as a
        supervisor does.
        """
        return False

    @property
    def still_s(self) -> float | None:
        """After how many seconds without progress the cell's drain counts as stuck; None: only at
        the drain's deadline.
        """
        return None

    def stood(self, still_s: float, *, moved: bool) -> None:
        """Learn from one silence in the drain: it lasted ``still_s`` seconds, and ended by progress
        (``moved``) or time-out.
        """

    def load(self) -> Load:
        """Return the records and the target, all drawn from the seed."""
        load = make_load(
            seed=self.seed,
            salt=f"{self.scenario.id}/{self.semantic}",
            count=self.records,
            unit=self.settings.unit,
        )
        if self.scenario.edge is not None:
            load = at_edge(load, self.scenario.edge)
        pace = self.scenario.pace_ms
        return dataclasses.replace(load, jitter_ms=(pace, pace)) if pace else load


def client_name(client: str) -> str:
    """Return a client's name without the version that it may be pinned to.

    >>> client_name("confluent-kafka==2.3.0"), client_name("kafka-python")
    ('confluent-kafka', 'kafka-python')
    """
    return client.partition("==")[0]


def system_name(system: str) -> str:
    """Return a system's name without the version that it may be pinned to.

    >>> system_name("kafka==4.2.0"), system_name("spark")
    ('kafka', 'spark')
    """
    return system.partition("==")[0]


@dataclass(frozen=True, slots=True)
class Load:
    """The records that the source offers, and the target, at which the fault is placed."""

    records: tuple[Record, ...]
    target: Record
    unit: int
    jitter_ms: tuple[int, int]
    targets: tuple[Record, ...] = ()
    """The records that a fault strikes one after the other, the target first; empty: the target
    alone.
    """

    def renamed(self, records: Sequence[Record]) -> Load:
        """Return the load with other records at the same positions."""
        return dataclasses.replace(
            self,
            records=tuple(records),
            target=records[self.target.position - 1],
            targets=tuple(records[each.position - 1] for each in self.targets),
        )

    def select(self) -> dict[Select, frozenset[str]]:
        """Return the record ids of each named selection."""
        at = self.target.position
        first = (at - 1) // self.unit * self.unit + 1
        return {
            Select.TARGET: frozenset({self.target.id}),
            Select.NEXT: frozenset(r.id for r in self.records if r.position == at + 1),
            Select.UNIT: frozenset(
                r.id for r in self.records if first <= r.position < first + self.unit
            ),
            Select.THROUGH_TARGET: frozenset(r.id for r in self.records if r.position <= at),
            Select.BEFORE_TARGET: frozenset(r.id for r in self.records if r.position < at),
        }


def middle_of(count: int) -> tuple[int, int]:
    """Return how many records come before the middle third, and how many come before its end.

    >>> middle_of(24), middle_of(2)
    ((8, 16), (1, 2))
    """
    return middles_of(count, 1)[0]


def middles_of(count: int, targets: int) -> tuple[tuple[int, int], ...]:
    """Return for each of several targets how many records come before the part that it is in, and
    how many before that part's end: of equal parts, every second has a target.

    >>> middles_of(24, 1), middles_of(48, 2)
    (((8, 16),), ((9, 18), (27, 36)))
    """
    part = max(count // (2 * targets + 1), 1)
    begins = ((2 * number + 1) * part for number in range(targets))
    return tuple((begin, begin + part) for begin in begins)


@functools.lru_cache(maxsize=4)
def make_load(*, seed: int, salt: str, count: int, unit: int) -> Load:
    """Draw a load: keys, filler sizes, jitter and the target all depend on the seed.

    The last few are kept, because whoever plans, runs and tells a cell asks for its load.
    The target is in the middle third, and a record after its unit has the same key. So later
    records in the target's partition show where a restarted consumer resumed.
    """
    number = int.from_bytes(hashlib.sha256(f"{seed}/{salt}".encode()).digest()[:8], "big")
    dice = random.Random(number)
    largest = dice.choice((16, 64, 256, 1024))
    records = make_records(count, keys=dice.randint(4, 9), filler_bytes=(0, largest), seed=number)
    third, end = middle_of(count)
    drawn = dice.randrange(third, end)
    last = {record.key: at for at, record in enumerate(records)}
    middle = (*range(drawn, end), *range(third, drawn))
    at = next((at for at in middle if last[records[at].key] >= (at // unit + 1) * unit), drawn)
    return Load(records, records[at], unit, (0, dice.choice((0, 1, 2))))


def at_edge(load: Load, edge: Edge, among: Collection[int] | None = None) -> Load:
    """Return the load with its first or last record as the target, of those at the positions
    ``among`` (``None``: of all).
    """
    positions = among or range(1, len(load.records) + 1)
    at = min(positions) if edge is Edge.FIRST else max(positions)
    return dataclasses.replace(load, target=load.records[at - 1])


def expand(
    scenarios: Iterable[Scenario],
    *,
    semantics: Iterable[Semantic],
    seeds: Iterable[int],
    records: int = DEFAULT_RECORDS,
    system: str = "kafka",
    client: str = "kafka-python",
    runtime: str = "process",
) -> Iterator[Cell]:
    """Yield a cell for each combination, including those to which the scenario does not apply (the
    expectation says why).
    """
    wanted = tuple(semantics)
    for seed in seeds:
        for scenario in scenarios:
            for semantic in wanted:
                if semantic in scenario.expect:
                    yield Cell(scenario, semantic, system, client, runtime, seed, records)

"""The cell: scenario x system x client x semantic x runtime x seed. What pytest runs, and what a verdict is about."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model.prediction import Select
from harness.model.record import Record, make_records
from harness.model.scenario import NotApplicable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.pipeline import Settings
    from harness.model.scenario import Expectation, Scenario
    from harness.model.semantics import Semantic

DEFAULT_RECORDS = 24
LEAST_RECORDS = 12
MOST_RECORDS = 100_000
MOST_PARTITIONS = 1000
"""Of a topic: so many an embedded broker has made in some seconds, and a run has some dozen records."""


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

    @property
    def id(self) -> str:
        """The stable, readable id: selects the cell everywhere."""
        return f"{self.system}/{self.client}/{self.pipeline}/{self.scenario.id}/{self.semantic}/{self.runtime}/s{self.seed}"

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return str(self.scenario.pipeline)

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings as they are saved with the plan."""
        return dataclasses.asdict(self.settings)  # type: ignore[call-overload, no-any-return]  # it is a dataclass

    def logs(self) -> dict[str, int]:
        """Return how many partitions each log has that is read at the end, by its hop. A queue is none."""
        return dict(self.settings.logs(self.scenario.pipeline))

    @property
    def key(self) -> str:
        """Eight hex digits that keep this cell apart on a shared broker: client ids, topics and groups begin with it."""
        return hashlib.sha256(f"{self.id}/{self.records}".encode()).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """The cell's folder name."""
        return self.id.replace("/", ".")

    @property
    def expectation(self) -> Expectation:
        """What theory says about this cell."""
        if self.runtime == "process" and self.scenario.only_in_containers is not None:
            return NotApplicable(self.scenario.only_in_containers)
        return self.scenario.expectation(self.semantic, self.client, self.system)

    @property
    def settings(self) -> Settings:
        """The settings that make up the semantic here."""
        return self.scenario.settings(self.semantic, self.client, self.system)

    @property
    def ordered(self) -> bool:
        """Whether it claims that the records of a key are recorded in their order."""
        return False

    @property
    def still_s(self) -> float | None:
        """For how long nothing may move in its drain before it counts as stuck; null: the drain has all its time."""
        return None

    def stood(self, still_s: float, *, moved: bool) -> None:
        """Take in that nothing moved in its drain for so long, and then something did, or it was given up."""

    def load(self) -> Load:
        """Return the records and the target; everything in it is drawn from the seed."""
        load = make_load(seed=self.seed, salt=f"{self.scenario.id}/{self.semantic}", count=self.records, unit=self.settings.unit)
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
    """What the source offers, and at which record the fault is placed."""

    records: tuple[Record, ...]
    target: Record
    unit: int
    jitter_ms: tuple[int, int]

    def select(self) -> dict[Select, frozenset[str]]:
        """Return the record ids behind each named selection."""
        at = self.target.position
        first = (at - 1) // self.unit * self.unit + 1
        return {
            Select.TARGET: frozenset({self.target.id}),
            Select.NEXT: frozenset(r.id for r in self.records if r.position == at + 1),
            Select.UNIT: frozenset(r.id for r in self.records if first <= r.position < first + self.unit),
            Select.THROUGH_TARGET: frozenset(r.id for r in self.records if r.position <= at),
            Select.BEFORE_TARGET: frozenset(r.id for r in self.records if r.position < at),
        }


def middle_of(count: int) -> tuple[int, int]:
    """Return how many records come before the middle third, and how many with it.

    >>> middle_of(24), middle_of(2)
    ((8, 16), (1, 2))
    """
    third = max(count // 3, 1)
    return third, max(2 * third, third + 1)


def make_load(*, seed: int, salt: str, count: int, unit: int) -> Load:
    """Draw a load: keys, filler sizes, jitter and the target all depend on the seed.

    The target is in the middle third, and its key comes again after its unit: what goes on behind it in its partition
    shows where a restarted consumer resumed.
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
    """Yield every cell of the product; cells that do not apply are among them, with their reason."""
    wanted = tuple(semantics)
    for seed in seeds:
        for scenario in scenarios:
            for semantic in wanted:
                if semantic in scenario.expect:
                    yield Cell(scenario, semantic, system, client, runtime, seed, records)

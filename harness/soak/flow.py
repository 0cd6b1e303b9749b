"""A stream that is asked for, and the system that it flows through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from harness.model.keep import Keep
from harness.soak.drawing import MOST_HITS, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.model.semantics import Semantic
    from harness.soak.drawing import DrawnFault

UNIT: Final = 20_000
PARTITIONS: Final = 2
RECORD_BYTES: Final = 100
FEWEST_HITS: Final = 2
"""A fault strikes at the latest when one in so many of the remaining units is finished."""


@dataclass(frozen=True)
class Stream:
    """What a stream runs (records, faults, seed), and the folder in which it is saved."""

    folder: Path
    scenarios: tuple[Scenario, ...]
    semantic: Semantic
    records: int
    faults_per_minute: float
    seed: int
    unit: int = UNIT
    partitions: int = PARTITIONS
    keep: Keep = Keep.BROKEN
    """Of which faults the folder stays: of all, or of those that are not kept."""

    @property
    def asked(self) -> dict[str, object]:
        """The settings that must be the same when the stream continues."""
        return {
            "kind": "stream",
            "faults": [one.id for one in self.scenarios],
            "semantic": self.semantic,
            "records": self.records,
            "faults_per_minute": self.faults_per_minute,
            "seed": self.seed,
            "unit": self.unit,
            "partitions": self.partitions,
            "record_bytes": RECORD_BYTES,
        }

    @property
    def ends(self) -> tuple[int, ...]:
        """How many records each partition has, by partition."""
        each, more = divmod(self.records, self.partitions)
        return tuple(each + (partition < more) for partition in range(self.partitions))

    def draw(self, number: int, left: int) -> DrawnFault:
        """Return the fault of a number. ``left``: how many units its partition still
        has, at least.
        """
        return drawn(
            self.scenarios, self.seed, number, self.partitions, min(MOST_HITS, left // FEWEST_HITS)
        )


class Flow(Protocol):
    """The system that a stream runs on. ``marks`` and the results are in the folder given to
    ``begin``.
    """

    def begin(self, folder: Path, begins: Sequence[int]) -> None:
        """Start the flow of records. ``begins``: the first position of each partition."""

    def strike(self, fault: DrawnFault, folder: Path) -> None:
        """Arm a fault, wait until it has struck (or cannot any more), heal it. Its history is
        written below ``folder``.
        """

    def over(self) -> None:
        """Close the history of the fault, whose window is past."""

    def results(self, partition: int, table: str, row: int) -> Iterable[tuple[int, int, int]]:
        """Yield the runs ``recorded`` or ``absorbed`` (``table``) in this leg after a row: row,
        first position, number.
        """

    def strange(self) -> int:
        """Return how many values of this leg were no records of the stream, or were damaged."""

    def trouble(self) -> str | None:
        """Say which program has ended although it should run, or return ``None``. The stream asks
        only between faults.
        """

    def close(self) -> None:
        """End all processes. Safe to call twice."""

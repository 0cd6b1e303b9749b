"""Sides of an audit made by hand, and what plain sets and the core's account say about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from harness.audit.auditing import audit
from harness.audit.findings import Findings
from harness.audit.spec import Rows, parse
from tests.events import account

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

Auditor: TypeAlias = "Callable[[str, str], Findings]"
Row = dict[str, Any]
KEYS = ("a", "b", "c")


@dataclass
class Case:
    """Offered (key, number) pairs, and rows that arrived: key, number, order, partition, offset."""

    offered: list[tuple[str, int]] = field(default_factory=list)
    arrived: list[Row] = field(default_factory=list)

    def arrive(
        self, key: str | None, number: int | None, partition: int = 0, offset: int | None = None
    ) -> None:
        """Let a row arrive, by default from a log copy of its own."""
        order = len(self.arrived)
        at = order if offset is None else offset
        self.arrived.append(
            {"key": key, "id": number, "n": order, "partition": partition, "offset": at}
        )

    def write(self, folder: Path) -> tuple[str, str]:
        """Write both sides as Parquet, in several files, and return their SPECs."""
        offered = pa.table(
            {
                "key": pa.array([key for key, _ in self.offered], pa.string()),
                "id": pa.array([number for _, number in self.offered], pa.int64()),
            }
        )
        kinds = {
            "key": pa.string(),
            "id": pa.int64(),
            "n": pa.int64(),
            "partition": pa.int32(),
            "offset": pa.int64(),
        }
        arrived = pa.table(
            {
                name: pa.array([row[name] for row in self.arrived], kind)
                for name, kind in kinds.items()
            }
        )
        for name, table in (("offered", offered), ("arrived", arrived)):
            (folder / name).mkdir(parents=True)
            half = len(table) // 2
            pq.write_table(table.slice(0, half), folder / name / "part-0.parquet")
            pq.write_table(table.slice(half), folder / name / "part-1.parquet")
        options = "id=id&key=key&order=n&partition=partition&offset=offset"
        return (
            f"parquet:{folder / 'offered'}#id=id&key=key",
            f"parquet:{folder / 'arrived'}#{options}",
        )

    def by_core(self) -> dict[str, Any]:
        """Ask the core's account: the same rows as events of one cell."""
        events: list[Row] = []

        def tell(event: str, **fields: object) -> None:
            events.append(
                {"t": len(events), "w": 0, "cell": "c", "by": "x", "event": event, **fields}
            )

        for key, number in self.offered:
            tell("offered", record=f"{key}-{number}", key=key, position=number)
        for row in self.arrived:
            usable = row["key"] is not None and row["id"] is not None
            tell(
                "recorded",
                record=f"{row['key']}-{row['id']}" if usable else None,
                intact=usable,
                order=row["n"],
                key=row["key"],
                partition=row["partition"],
                epoch=0,
                offset=row["offset"],
                attempt=None,
            )
        found = account(events)
        names = (
            "offered",
            "recorded",
            "lost",
            "duplicated",
            "stored_twice",
            "phantom",
            "reordered",
        )
        counts = {name: found.counts[name] for name in names}
        return counts | {
            "recorded_twice": found.counts["delivered_twice"],
            "ids": sorted(found.lost),
        }


def told(found: Findings) -> dict[str, Any]:
    """Bring what an audit found into the form of :meth:`Case.by_core`, where rows without a
    readable id are phantoms.
    """
    lost = [
        f"{span.key}-{number}"
        for span in found.lost_ranges
        for number in range(span.first, span.last + 1)
    ]
    return {
        "offered": found.offered,
        "recorded": found.arrived,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "stored_twice": found.stored_twice,
        "phantom": found.phantom + found.unread_arrived.rows,
        "reordered": found.reordered,
        "recorded_twice": found.recorded_twice,
        "ids": sorted(lost),
    }


def random_case(dice: random.Random, size: int) -> Case:
    """Draw a case: lost, duplicated (stored or recorded twice), phantom, unreadable and reordered
    rows, over pages.
    """
    case = Case()
    numbers = {key: sorted(dice.sample(range(70_000), size)) for key in KEYS}
    case.offered = [(key, number) for key in KEYS for number in numbers[key]]
    queue = [pair for pair in case.offered if dice.random() > 0.1]
    for at in range(len(queue) - 1):
        if dice.random() < 0.1:
            queue[at], queue[at + 1] = queue[at + 1], queue[at]
    sent: Counter[tuple[str, int]] = Counter()
    for at, (key, number) in enumerate(queue):
        case.arrive(key, number, offset=at)
        sent[key, number] += 1
        while dice.random() < 0.15:
            case.arrive(key, number, offset=dice.choice([at, 1_000_000 + len(case.arrived)]))
        if dice.random() < 0.03:
            case.arrive(dice.choice(KEYS), dice.choice([200_000, (1 << 40) - 1]))
        if dice.random() < 0.03:
            case.arrive(dice.choice(KEYS), dice.choice([None, -1, 1 << 40]))
    return case


def here(offered: str, arrived: str) -> Findings:
    """Audit in this process."""
    return audit(offered, arrived, engine="here")


def on_spark(session: SparkSession, offered: str, arrived: str) -> Findings:
    """Audit on the session of the tests."""
    from harness.audit.on_spark import audit_on_spark  # noqa: PLC0415

    right = parse(arrived)
    assert isinstance(right, Rows)
    return audit_on_spark(session, parse(offered), right)


def ids(path: Path, numbers: Sequence[object], kind: pa.DataType | None = None) -> str:
    """Write a column of ids and return its SPEC."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(numbers, kind or pa.int64())}), path)
    return f"parquet:{path}"


def findings(**counts: Any) -> Findings:
    """Make findings by hand."""
    base: dict[str, Any] = dict.fromkeys(
        ("offered_again", "lost", "duplicated", "duplicated_ids", "phantom"), 0
    )
    return Findings(
        **{
            **base,
            "offered": 9,
            "arrived": 9,
            "reordered": None,
            "stored_twice": None,
            "recorded_twice": None,
            **counts,
        }
    )

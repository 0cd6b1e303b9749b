"""The results of a stream: a line of ``soak.jsonl`` for each fault, the verdict on the whole, and
the lines for a terminal.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.judge.verdict import Kind, merge
from harness.model import safe_files
from harness.model.semantics import PROMISES, Anomaly, Semantic
from harness.report.summary import counted
from harness.soak.waves import SoakError, parsed_line, whole_lines

if TYPE_CHECKING:
    from pathlib import Path

NAMED: Final = 5
"""How many runs of positions a line for a terminal names."""
Run = list[int]
"""Partition, first position, number of positions; a run of duplicates also has the number of extra
copies of each.
"""


@dataclass(frozen=True, slots=True)
class FaultResult:
    """The result of one fault. ``windows``: for each partition, the first position and the position
    after the last one.
    """

    number: int
    scenario: str
    partition: int
    hit: int
    windows: list[list[int]]
    counts: dict[str, int]
    lost: list[Run]
    duplicated: list[Run]
    verdict: str
    reason: str
    seconds: float
    saved: str | None

    @property
    def green(self) -> bool:
        """Whether the promise was kept."""
        return self.verdict == Kind.KEPT


@dataclass
class Streamed:
    """The results of a stream so far.

    ``outside``: once the stream has ended, the records lost or duplicated outside every window, and
    the copies that were added to a window after it was judged (``late``).
    """

    faults: list[FaultResult] = field(default_factory=list)
    outside: dict[str, Any] | None = None
    recorded: int = 0
    stuck: str | None = None
    interrupted: bool = False
    semantic: Semantic = Semantic.EXACTLY_ONCE

    @property
    def kind(self) -> Kind:
        """The verdict on the whole: the worst of those on all faults, and on the records outside
        their windows.
        """
        kinds = [Kind(one.verdict) for one in self.faults]
        if self.stuck:
            kinds.append(Kind.STUCK)
        if self.outside is not None:
            counts = self.outside["counts"]
            found = {
                anomaly
                for anomaly in (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.PHANTOM)
                if counts[anomaly]
            }
            kinds += (
                [Kind.BROKEN] if found & PROMISES[self.semantic] else [Kind.VOID] if found else []
            )
        if not self.faults and not self.stuck:
            kinds.append(Kind.VOID)  # nothing has struck: nothing is proved
        return merge(kinds)

    def total(self, name: str) -> int:
        """Return a count over all windows and the records outside them."""
        return sum(one.counts[name] for one in self.faults) + (
            self.outside["counts"][name] if self.outside else 0
        )


def fault_line(one: FaultResult) -> str:
    """Return the line about one fault: verdict, window, lost and duplicated positions, seconds."""
    where = ", ".join(
        f"{partition}:{low:,}-{high - 1:,}" for partition, (low, high) in enumerate(one.windows)
    )
    ids = "".join(
        f"; {word} {_named(runs)}"
        for word, runs in (("lost", one.lost), ("duplicated", one.duplicated))
        if runs
    )
    return (
        f"fault {one.number}, {one.scenario}: {one.verdict}, {one.reason}; window {where}{ids}; "
        f"{one.seconds:.1f} s"
    )


def progress_line(found: Streamed, recorded: int, records: int, seconds: float, new: int) -> str:
    """Return the line about progress: records, faults, rate, time left."""
    rate = new / seconds if seconds > 0 else 0.0
    minutes, rest = divmod(int((records - recorded) / rate) if rate else 0, 60)
    done = (
        f"{recorded:,} of {records:,} records ({100 * recorded // records} %), "
        f"{counted(len(found.faults), 'fault')}"
    )
    return f"{done}; {rate:,.0f} records/s, {minutes}:{rest:02} left"


def as_lines(found: Streamed, records: int, folder: Path) -> list[str]:
    """Return the lines that a terminal shows at the end: each finding, the totals, the verdict."""
    lines: list[str] = []
    for one in found.faults:
        if not one.green or one.lost or one.duplicated:
            lines.append(fault_line(one))
            lines += [f"  saved: {os.path.relpath(folder / one.saved)}"] if one.saved else []
    if found.outside is not None:
        for word in ("lost", "duplicated"):
            if found.outside[word]:
                lines += [f"outside every fault's window: {word} {_named(found.outside[word])}"]
        if found.outside.get("late"):
            lines += [f"after the window was judged: duplicated {_named(found.outside['late'])}"]
        if found.outside["counts"]["phantom"]:
            lines.append(
                f"outside every fault's window: {found.outside['counts']['phantom']:,} phantom"
            )
    if found.stuck:
        lines.append(f"stuck: {found.stuck}")
    totals = {name: found.total(name) for name in ("lost", "duplicated", "phantom", "absorbed")}
    told = ", ".join(f"{count:,} {name}" for name, count in totals.items() if count)
    whole = found.outside is not None
    counts = f"{found.recorded:,} recorded" + (f", {told}" if told else "")
    begins = "" if whole else f"PARTIAL, {found.recorded:,} of {records:,} records: "
    faults = counted(len(found.faults), "fault")
    return [*lines, f"{faults}; {records:,} offered, {counts}", f"{begins}{found.kind.upper()}"]


def _named(runs: list[Run]) -> str:
    """Name runs of positions, ``partition:first-last``."""
    named = [
        f"{run[0]}:{run[1]:,}" + (f"-{run[1] + run[2] - 1:,}" if run[2] > 1 else "")
        for run in runs[:NAMED]
    ]
    more = f" and {len(runs) - NAMED} more runs" if len(runs) > NAMED else ""
    return f"{', '.join(named)}{more} ({sum(run[2] for run in runs):,} records)"


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Read the lines of a file. A last line that a crash cut off is removed from the file.

    Raises:
        SoakError: a line before the last one is damaged.
    """
    found = [parsed_line(file, line) for line in whole_lines(file)]
    if not all(isinstance(line, dict) for line in found):
        raise SoakError(
            f"{file} is damaged: a line is no JSON object; start anew, without --resume"
        )
    return found


def append_line(file: Path, line: dict[str, object]) -> None:
    """Append a line and write it through to the disk, so that a crash does not lose it."""
    safe_files.append_line(file.parent, file.name, json.dumps(line).encode(), durable=True)

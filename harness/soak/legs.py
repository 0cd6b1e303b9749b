"""The legs of a stream: where each begins, and the copies of each record, counted over them all."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from typing import TYPE_CHECKING, Any, Final

from harness.model import safe_files
from harness.soak.copies import Copies
from harness.soak.found import FaultResult, Run, Streamed, append_line, read_lines
from harness.soak.waves import LEGS, WAVES_FILE, SoakError
from harness.stages.bulk.marks import Mark, Marks
from harness.stages.bulk.results import Results

if TYPE_CHECKING:
    from harness.soak.flow import Flow, Stream

MARKS: Final = "marks"


class Legs:
    """All legs of a stream, and the results that they have recorded."""

    def __init__(self, asked: Stream) -> None:
        self._asked = asked
        self._file = asked.folder / WAVES_FILE
        self._legs: list[dict[str, Any]] = []
        self._armed: dict[str, Any] | None = None
        self._judged = 0
        """How many faults earlier legs have judged."""
        self._rows = [{"recorded": 0, "absorbed": 0} for _ in range(asked.partitions)]
        self._marks: Marks | None = None
        self.copies: list[Copies] = []
        """By partition: how many copies of each record were recorded."""
        self.absorbed = 0
        """How many copies all partitions have absorbed in this leg."""
        self.strange = 0
        """How many values of earlier legs were no records, or damaged."""

    def read(self, found: Streamed) -> bool:
        """Read the stream's file into what was found; return whether the stream has ended already.

        Raises:
            SoakError: a stream does not write such a line.
        """
        for line in read_lines(self._file):
            if {"leg", "begins"} == set(line):
                self._legs.append(line)
            elif {"armed", "scenario", "lows"} == set(line):
                self._armed = line
            elif set(FaultResult.__dataclass_fields__) == set(line):
                found.faults.append(FaultResult(**line))
            elif {"counts", "lost", "duplicated"} <= set(line):
                found.outside = line
            else:
                why = f"{json.dumps(line)[:80]} is no line of a stream"
                raise SoakError(f"{self._file} is damaged: {why}; start anew, without --resume")
        self._judged = len(found.faults)
        return found.outside is not None

    def begin(self, flow: Flow) -> None:
        """Start the flow after the last window that was judged.

        Raises:
            SoakError: the files of an earlier leg are damaged.
        """
        asked, number = self._asked, len(self._legs)
        self.copies = [Copies(end) for end in asked.ends]
        try:
            begins = self._behind() if number else [0] * asked.partitions
        except (OSError, ValueError, struct.error, sqlite3.DatabaseError) as error:
            raise SoakError(
                f"{asked.folder / LEGS} is damaged: {error}; start anew, without --resume"
            ) from error
        folder = asked.folder / LEGS / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        Marks.create(folder / MARKS, begins).close()
        append_line(self._file, {"leg": number, "begins": begins})
        self._marks = Marks(folder / MARKS)
        flow.begin(folder, begins)

    def _behind(self) -> list[int]:
        """Count the results of all earlier legs, each up to the start of the next one; return the
        first positions of this leg.

        A leg starts after the last finished record, but not after the start of a window that was
        not judged.
        """
        folders = [self._asked.folder / LEGS / str(leg["leg"]) for leg in self._legs]
        for leg in self._legs:
            for name in (MARKS, *map(results_name, range(self._asked.partitions))):
                safe_files.check_plain(self._asked.folder, f"{LEGS}/{leg['leg']}/{name}")
        with Marks(folders[-1] / MARKS) as marks:
            begins = [
                min(marks.get(partition, "done"), end)
                for partition, end in enumerate(self._asked.ends)
            ]
        if self._armed is not None and self._armed["armed"] >= self._judged:
            begins = [min(pair) for pair in zip(begins, self._armed["lows"], strict=True)]
        untils = [*(leg["begins"] for leg in self._legs[1:]), begins]
        for folder, leg, until in zip(folders, self._legs, untils, strict=True):
            for partition, copies in enumerate(self.copies):
                file = folder / results_name(partition)
                if not file.exists():
                    if until[partition] > leg["begins"][partition]:
                        raise ValueError(f"{file} is missing")
                    continue
                with Results(file) as results:
                    self.strange += results.strange()
                    for _, first, count in results.since("recorded", 0):
                        copies.add(first, max(0, min(first + count, until[partition]) - first))
                        never = max(first, copies.end)
                        copies.add(never, max(0, first + count - never))
        return begins

    def pump(self, flow: Flow) -> None:
        """Count the results that have been recorded since the last call."""
        for partition, rows in enumerate(self._rows):
            for row, first, count in flow.results(partition, "recorded", rows["recorded"]):
                self.copies[partition].add(first, count)
                rows["recorded"] = row
            for row, _, count in flow.results(partition, "absorbed", rows["absorbed"]):
                self.absorbed += count
                rows["absorbed"] = row

    def all_marks(self) -> list[Mark]:
        """Return how far each partition is."""
        assert self._marks is not None  # noqa: S101 - a leg has begun
        return [self._marks.read(partition) for partition in range(self._asked.partitions)]

    def recorded(self) -> int:
        """Return how many records have been recorded."""
        return sum(copies.once for copies in self.copies)

    def anomalies(self, windows: list[tuple[int, int]]) -> tuple[list[Run], list[Run]]:
        """Return the runs of lost and of duplicated positions in a window of each partition."""
        lost: list[Run] = []
        more: list[Run] = []
        for partition, (low, high) in enumerate(windows):
            gone, twice = self.copies[partition].anomalies(low, high)
            lost += [[partition, *run] for run in gone]
            more += [[partition, *run] for run in twice]
        return lost, more

    def close(self) -> None:
        """Close the marks of this leg."""
        if self._marks is not None:
            self._marks.close()


def results_name(partition: int) -> str:
    """Return the name of the file of a partition's results."""
    return f"results-{partition}.sqlite"

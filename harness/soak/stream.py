"""A stream: records flow at full speed while one fault after another strikes. Each fault is judged
as soon as its window is past.

The window of a fault is a range of positions in each partition. It begins after the last record
that was finished when the fault was armed. It ends with the last record that had been taken from
the source when the fault was healed and records flowed again. Records lost or duplicated in the
window count for that fault. Outside all windows no record may be lost or duplicated, and no copy
may be added to a window after it was judged. Windows do not overlap.

``soak.jsonl`` has a line for each start (a *leg*), each armed fault, each judged fault, and the
end. A soak that was interrupted continues with another leg, after the last judged window: records
beyond that window are counted anew.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.judge.verdict import Kind
from harness.matrix.keeping import clean, tidy_folder
from harness.model import safe_files
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.keep import Keep
from harness.soak.copies import Copies, beyond
from harness.soak.drawing import MOST_HITS, drawn
from harness.soak.found import (
    Run,
    Streamed,
    Struck,
    append_line,
    fault_line,
    progress_line,
    read_lines,
)
from harness.soak.judging import Window, judge
from harness.soak.waves import FAULTS, LEGS, WAVES_FILE, SoakError, begun
from harness.stages.bulk.marks import Mark, Marks
from harness.stages.bulk.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.model.semantics import Semantic
    from harness.soak.drawing import Drawn

MARKS: Final = "marks"
UNIT: Final = 20_000
PARTITIONS: Final = 2
RECORD_BYTES: Final = 100
POLL_S: Final = 0.05
SAY_S: Final = 2.0
STILL_S: Final = 120.0
"""How many seconds no record may be taken or finished before the stream counts as stuck."""
JOIN_S: Final = 30.0
FEWEST_HITS: Final = 2
"""A fault strikes at the latest when one in so many of the remaining units is finished."""
FEWEST_LEFT: Final = 16
"""Units that each partition must have left for another fault, because records flow while the fault
waits for its hit.
"""
FIRST_AT: Final = 0.2
"""The first fault is armed when this share of the records is finished, or earlier."""

FEWEST_UNITS: Final = 40
"""Units of a partition if there are few records; a unit has at least LEAST_UNIT records."""
LEAST_UNIT: Final = 50


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
    record_bytes: int = RECORD_BYTES
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
            "record_bytes": self.record_bytes,
        }

    @property
    def ends(self) -> tuple[int, ...]:
        """How many records each partition has, by partition."""
        each, more = divmod(self.records, self.partitions)
        return tuple(each + (partition < more) for partition in range(self.partitions))

    def draw(self, number: int, left: int) -> Drawn:
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

    def strike(self, fault: Drawn, folder: Path) -> None:
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


class Progress(Protocol):
    """Shows the progress of a stream."""

    def say(self, text: str) -> None:
        """Show a line."""


@dataclass
class _Open:
    """A fault under way: the marks when it was armed, when it was healed, and when its window was
    past.
    """

    fault: Drawn
    folder: Path
    lows: list[int]
    since: float
    thread: threading.Thread
    failed: list[BaseException]
    before: int
    """How many copies all partitions had absorbed when the fault was armed."""
    strange: int
    unheard: int
    """The position to which the struck partition's producer had gone on without an answer."""
    healed: list[int] | None = None
    highs: list[int] | None = None


class Streaming:
    """One leg of a stream: it runs the flow, arms faults and judges them."""

    def __init__(
        self,
        asked: Stream,
        flow: Flow,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
        poll_s: float = POLL_S,
    ) -> None:
        self._asked = asked
        self._flow = flow
        self._progress = progress
        self._clock = clock
        self._poll_s = poll_s
        self.found = Streamed(semantic=asked.semantic)
        self._copies: list[Copies] = []
        self._rows = [{"recorded": 0, "absorbed": 0} for _ in range(asked.partitions)]
        self._absorbed = 0
        self._open: _Open | None = None
        self._legs: list[dict[str, Any]] = []
        self._armed: dict[str, Any] | None = None
        self._before_leg = 0
        """How many faults earlier legs had."""
        self._strange_before = 0
        """How many values of earlier legs were no records, or damaged."""
        self._marks: Marks | None = None
        self._file = asked.folder / WAVES_FILE
        self._moved: tuple[object, float] = (None, 0.0)
        self._said = 0.0

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Streamed:
        """Stream until all records are finished and judged, or until Ctrl-C. A stream in the folder
        is continued.

        Raises:
            SoakError: the folder has another soak, or a damaged one.
        """
        asked, found = self._asked, self.found
        begun(asked.folder, asked.asked)
        if self._resume():
            found.recorded = asked.records - found.total("lost")
            return found
        try:
            self._begin_leg()
            since = self._clock()
            before = self._recorded()
            while not self._ended():
                self._pump()
                self._say(since, before)
                self._step(since)
                if found.stuck:
                    break
                time.sleep(self._poll_s)
            else:
                self._pump()
                self._close()
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            self._flow.close()
            if self._open is not None:
                self._open.thread.join(JOIN_S)
            if self._marks is not None:
                self._marks.close()
            found.recorded = self._recorded()
        return found

    def _resume(self) -> bool:
        """Read the stream's file; return whether the stream has ended already.

        Raises:
            SoakError: a stream does not write such a line.
        """
        for line in read_lines(self._file):
            if {"leg", "begins"} == set(line):
                self._legs.append(line)
            elif {"armed", "scenario", "lows"} == set(line):
                self._armed = line
            elif set(Struck.__dataclass_fields__) == set(line):
                self.found.faults.append(Struck(**line))
            elif {"counts", "lost", "duplicated"} <= set(line):
                self.found.outside = line
            else:
                why = f"{json.dumps(line)[:80]} is no line of a stream"
                raise SoakError(
                    f"{self._file} is damaged: {why}; start a new soak, without --resume"
                )
        self._before_leg = len(self.found.faults)
        return self.found.outside is not None

    def _begin_leg(self) -> None:
        """Start the flow after the last window that was judged.

        Raises:
            SoakError: the files of an earlier leg are damaged.
        """
        asked, number = self._asked, len(self._legs)
        self._copies = [Copies(0, end) for end in asked.ends]
        try:
            begins = self._behind() if number else [0] * asked.partitions
        except (OSError, ValueError, struct.error, sqlite3.DatabaseError) as error:
            raise SoakError(
                f"{asked.folder / LEGS} is damaged: {error}; start a new soak, without --resume"
            ) from error
        folder = asked.folder / LEGS / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        Marks.create(folder / MARKS, begins).close()
        append_line(self._file, {"leg": number, "begins": begins})
        self._marks = Marks(folder / MARKS)
        self._flow.begin(folder, begins)

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
        if self._armed is not None and self._armed["armed"] >= self._before_leg:
            begins = [min(pair) for pair in zip(begins, self._armed["lows"], strict=True)]
        untils = [*(leg["begins"] for leg in self._legs[1:]), begins]
        for folder, leg, until in zip(folders, self._legs, untils, strict=True):
            for partition, copies in enumerate(self._copies):
                file = folder / results_name(partition)
                if not file.exists():
                    if until[partition] > leg["begins"][partition]:
                        raise ValueError(f"{file} is missing")
                    continue
                with Results(file) as results:
                    self._strange_before += results.strange()
                    for _, first, count in results.since("recorded", 0):
                        copies.add(first, max(0, min(first + count, until[partition]) - first))
                        never = max(first, copies.end)
                        copies.add(never, max(0, first + count - never))
        return begins

    def _pump(self) -> None:
        """Count the results that have been recorded since the last call."""
        for partition, rows in enumerate(self._rows):
            for row, first, count in self._flow.results(partition, "recorded", rows["recorded"]):
                self._copies[partition].add(first, count)
                rows["recorded"] = row
            for row, _, count in self._flow.results(partition, "absorbed", rows["absorbed"]):
                self._absorbed += count
                rows["absorbed"] = row

    def _all_marks(self) -> list[Mark]:
        assert self._marks is not None  # noqa: S101 - a leg has begun
        return [self._marks.read(partition) for partition in range(self._asked.partitions)]

    def _ended(self) -> bool:
        """Whether every partition has reached its end, and no fault is under way."""
        return self._open is None and all(
            mark.done > end for mark, end in zip(self._all_marks(), self._asked.ends, strict=True)
        )

    def _recorded(self) -> int:
        return sum(copies.once for copies in self._copies)

    # -- faults ------------------------------------------------------------------------------------

    def _step(self, since: float) -> None:
        """Arm the next fault, or continue with the one under way."""
        marks, now = self._all_marks(), self._clock()
        if self._moved[0] != marks:
            self._moved = (marks, now)
        if now - self._moved[1] > STILL_S:
            behind = [
                f"partition {p}: {mark.taken} taken, {mark.done} finished"
                for p, mark in enumerate(marks)
            ]
            self.found.stuck = f"no record has moved for {STILL_S:.0f} s; {'; '.join(behind)}"
        elif self._open is not None:
            self._follow(self._open, marks)
        elif (trouble := self._flow.trouble()) is not None:
            self.found.stuck = trouble
        elif self._is_due(now - since):
            self._arm(marks)

    def _is_due(self, seconds: float) -> bool:
        asked = self._asked
        struck = len(self.found.faults)
        first = not struck and self._recorded() > FIRST_AT * asked.records
        return first or seconds >= (struck - self._before_leg + 1) * 60 / asked.faults_per_minute

    def _arm(self, marks: list[Mark]) -> None:
        asked = self._asked
        left = min(
            (end - mark.taken) // asked.unit for mark, end in zip(marks, asked.ends, strict=True)
        )
        if left < FEWEST_LEFT:
            return  # too few are left for a fault and the proof that records flow behind it
        fault = asked.draw(len(self.found.faults), left)
        lows = [mark.done for mark in marks]
        folder = asked.folder / FAULTS / str(fault.number)
        shutil.rmtree(folder, ignore_errors=True)
        append_line(
            self._file, {"armed": fault.number, "scenario": fault.scenario.id, "lows": lows}
        )
        failed: list[BaseException] = []

        def strike() -> None:
            try:
                self._flow.strike(fault, folder)
            except BaseException as error:  # noqa: BLE001 - whoever waits for it hears of it
                failed.append(error)

        thread = threading.Thread(target=strike, name=f"fault {fault.number}", daemon=True)
        unheard = marks[fault.partition].unheard
        self._open = _Open(
            fault,
            folder,
            lows,
            self._clock(),
            thread,
            failed,
            self._absorbed,
            self._flow.strange(),
            unheard,
        )
        thread.start()

    def _follow(self, fault: _Open, marks: list[Mark]) -> None:
        """Wait until the fault has ended, then until the records under way are finished; then judge
        it.
        """
        if fault.thread.is_alive():
            return
        if fault.failed:
            raise fault.failed[0]
        ends = self._asked.ends
        if fault.healed is None:
            fault.healed = [mark.taken for mark in marks]
        elif fault.highs is None:
            if all(
                (mark.done >= healed and mark.taken > healed) or mark.done > end
                for mark, healed, end in zip(marks, fault.healed, ends, strict=True)
            ):
                fault.highs = [mark.taken for mark in marks]
        elif all(
            mark.done >= high + (high == end)
            for mark, high, end in zip(marks, fault.highs, ends, strict=True)
        ):
            self._pump()
            self._judge(fault, unheard=marks[fault.fault.partition].unheard > fault.unheard)

    def _judge(self, fault: _Open, *, unheard: bool) -> None:
        assert fault.highs is not None  # noqa: S101 - it is past
        self._flow.over()
        lost, more = self._anomalies(list(zip(fault.lows, fault.highs, strict=True)))
        counts = {
            "offered": sum(high - low for low, high in zip(fault.lows, fault.highs, strict=True)),
            "lost": sum(run[2] for run in lost),
            "duplicated": sum(run[2] * run[3] for run in more),
            "absorbed": self._absorbed - fault.before,
            "phantom": self._flow.strange() - fault.strange,
        }
        asked, number = self._asked, fault.fault.number
        try:
            history = read_history(fault.folder / HISTORY)
            window = Window(
                fault.fault,
                asked.semantic,
                history,
                unheard,
                counts["lost"],
                counts["duplicated"],
                counts["absorbed"],
                counts["phantom"],
                asked.unit,
            )
            kind, reason = judge(window)
        except HistoryError as error:
            kind, reason = Kind.VOID, str(error)
        gone = kind is Kind.KEPT and asked.keep is not Keep.ALL
        saved = None if gone else str(fault.folder.relative_to(asked.folder))
        struck = Struck(
            number,
            fault.fault.scenario.id,
            fault.fault.partition,
            fault.fault.hit,
            [list(pair) for pair in zip(fault.lows, fault.highs, strict=True)],
            counts,
            lost,
            more,
            kind,
            reason,
            round(self._clock() - fault.since, 3),
            saved,
        )
        append_line(self._file, asdict(struck))
        if saved is None:
            shutil.rmtree(fault.folder)
        elif asked.keep is Keep.NONE:
            tidy_folder(fault.folder, asked.folder)
            clean(asked.folder)
        self.found.faults.append(struck)
        self._open = None
        self._progress.say(fault_line(struck))

    def _anomalies(self, windows: list[tuple[int, int]]) -> tuple[list[Run], list[Run]]:
        """Return the runs of lost and of duplicated positions in a window of each partition."""
        lost: list[Run] = []
        more: list[Run] = []
        for partition, (low, high) in enumerate(windows):
            gone, twice = self._copies[partition].anomalies(low, high)
            lost += [[partition, *run] for run in gone]
            more += [[partition, *run] for run in twice]
        return lost, more

    def _close(self) -> None:
        """Judge the records outside all windows, and the copies that were added to a window after
        it was judged.
        """
        lost: list[Run] = []
        more: list[Run] = []
        late: list[Run] = []
        for partition, end in enumerate(self._asked.ends):
            at = 0
            for low, high in [*(one.windows[partition] for one in self.found.faults), [end, end]]:
                gone, twice = self._copies[partition].anomalies(at, low)
                lost += [[partition, *run] for run in gone]
                more += [[partition, *run] for run in twice]
                at = max(at, high)
            for one in self.found.faults:
                _, now = self._copies[partition].anomalies(*one.windows[partition])
                then = [(run[1], run[2], run[3]) for run in one.duplicated if run[0] == partition]
                late += [[partition, *run] for run in beyond(now, then)]
        phantom = (
            self._strange_before
            + self._flow.strange()
            + sum(copies.outside for copies in self._copies)
        )
        counts = {
            "lost": sum(run[2] for run in lost),
            "duplicated": sum(run[2] * run[3] for run in (*more, *late)),
            "phantom": phantom - sum(one.counts["phantom"] for one in self.found.faults),
            "absorbed": 0,
        }
        self.found.outside = {"counts": counts, "lost": lost, "duplicated": more, "late": late}
        append_line(self._file, self.found.outside)

    def _say(self, since: float, before: int) -> None:
        now = self._clock()
        if now - self._said < SAY_S:
            return
        self._said = now
        done = self._recorded()
        self._progress.say(
            progress_line(self.found, done, self._asked.records, now - since, done - before)
        )


def unit_of(records: int) -> int:
    """Return how many records a unit has, such that there are enough units for faults.

    >>> unit_of(4000), unit_of(10**7)
    (50, 20000)
    """
    return max(LEAST_UNIT, min(UNIT, records // (PARTITIONS * FEWEST_UNITS)))


def results_name(partition: int) -> str:
    """Return the name of the file of a partition's results."""
    return f"results-{partition}.sqlite"

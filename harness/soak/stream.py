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

import shutil
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Protocol

from harness.judge.verdict import Kind
from harness.matrix.alone import alone_in
from harness.matrix.keeping import clean, tidy_folder
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.keep import Keep
from harness.soak.copies import added_copies
from harness.soak.flow import PARTITIONS, UNIT, Flow, Stream
from harness.soak.found import (
    FaultResult,
    Run,
    Streamed,
    append_line,
    fault_line,
    progress_line,
)
from harness.soak.judging import Window, judge
from harness.soak.legs import Legs
from harness.soak.waves import FAULTS, WAVES_FILE, begun

if TYPE_CHECKING:
    from pathlib import Path

    from harness.soak.drawing import DrawnFault
    from harness.stages.bulk.marks import Mark

POLL_S: Final = 0.05
SAY_S: Final = 2.0
STILL_S: Final = 120.0
"""How many seconds no record may be taken or finished before the stream counts as stuck."""
JOIN_S: Final = 30.0
FEWEST_LEFT: Final = 16
"""Units that each partition must have left for another fault, because records flow while the fault
waits for its hit.
"""
FIRST_AT: Final = 0.2
"""The first fault is armed when this share of the records is finished, or earlier."""

FEWEST_UNITS: Final = 40
"""Units of a partition if there are few records; a unit has at least LEAST_UNIT records."""
LEAST_UNIT: Final = 50


class Progress(Protocol):
    """Shows the progress of a stream."""

    def say(self, text: str) -> None:
        """Show a line."""


@dataclass
class _Open:
    """A fault under way: the marks when it was armed, when it was healed, and when its window was
    past.
    """

    fault: DrawnFault
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
        poll_s: float = POLL_S,
    ) -> None:
        self._asked = asked
        self._flow = flow
        self._progress = progress
        self._poll_s = poll_s
        self.found = Streamed(semantic=asked.semantic)
        self._legs = Legs(asked)
        self._open: _Open | None = None
        self._before_leg = 0
        """How many faults earlier legs had."""
        self._file = asked.folder / WAVES_FILE
        self._moved: tuple[object, float] = (None, 0.0)
        self._said = 0.0

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Streamed:
        """Stream until all records are finished and judged, or until Ctrl-C. A stream in the folder
        is continued.

        Raises:
            SoakError: the folder has another soak, or a damaged one.
            UsageError: another command runs in the folder.
        """
        with alone_in(self._asked.folder):
            return self._run()

    def _run(self) -> Streamed:
        asked, found = self._asked, self.found
        begun(asked.folder, asked.asked)
        ended = self._legs.read(found)
        self._before_leg = len(found.faults)
        if ended:
            found.recorded = asked.records - found.total("lost")
            return found
        try:
            self._legs.begin(self._flow)
            since = time.monotonic()
            before = self._legs.recorded()
            while not self._ended():
                self._legs.pump(self._flow)
                self._say(since, before)
                self._step(since)
                if found.stuck:
                    break
                time.sleep(self._poll_s)
            else:
                self._legs.pump(self._flow)
                self._close()
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            self._flow.close()
            if self._open is not None:
                self._open.thread.join(JOIN_S)
            self._legs.close()
            found.recorded = self._legs.recorded()
        return found

    def _ended(self) -> bool:
        """Whether every partition has reached its end, and no fault is under way."""
        marks = self._legs.all_marks()
        return self._open is None and all(
            mark.done > end for mark, end in zip(marks, self._asked.ends, strict=True)
        )

    # -- faults ------------------------------------------------------------------------------------

    def _step(self, since: float) -> None:
        """Arm the next fault, or continue with the one under way."""
        marks, now = self._legs.all_marks(), time.monotonic()
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
        first = not struck and self._legs.recorded() > FIRST_AT * asked.records
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
            time.monotonic(),
            thread,
            failed,
            self._legs.absorbed,
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
            self._legs.pump(self._flow)
            self._judge(fault, unheard=marks[fault.fault.partition].unheard > fault.unheard)

    def _judge(self, fault: _Open, *, unheard: bool) -> None:
        assert fault.highs is not None  # noqa: S101 - it is past
        self._flow.over()
        lost, more = self._legs.anomalies(list(zip(fault.lows, fault.highs, strict=True)))
        counts = {
            "offered": sum(high - low for low, high in zip(fault.lows, fault.highs, strict=True)),
            "lost": sum(run[2] for run in lost),
            "duplicated": sum(run[2] * run[3] for run in more),
            "absorbed": self._legs.absorbed - fault.before,
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
        struck = FaultResult(
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
            round(time.monotonic() - fault.since, 3),
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
                gone, twice = self._legs.copies[partition].anomalies(at, low)
                lost += [[partition, *run] for run in gone]
                more += [[partition, *run] for run in twice]
                at = max(at, high)
            for one in self.found.faults:
                _, now = self._legs.copies[partition].anomalies(*one.windows[partition])
                then = [(run[1], run[2], run[3]) for run in one.duplicated if run[0] == partition]
                late += [[partition, *run] for run in added_copies(now, then)]
        phantom = (
            self._legs.strange
            + self._flow.strange()
            + sum(copies.outside for copies in self._legs.copies)
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
        now = time.monotonic()
        if now - self._said < SAY_S:
            return
        self._said = now
        done = self._legs.recorded()
        self._progress.say(
            progress_line(self.found, done, self._asked.records, now - since, done - before)
        )


def unit_of(records: int) -> int:
    """Return how many records a unit has, such that there are enough units for faults.

    >>> unit_of(4000), unit_of(10**7)
    (50, 20000)
    """
    return max(LEAST_UNIT, min(UNIT, records // (PARTITIONS * FEWEST_UNITS)))

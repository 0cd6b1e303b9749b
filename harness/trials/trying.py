"""Runs a user's test behind the proxy: twice without a fault, then once for each point."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.exits import ExitCode
from harness.model.failures import CellFailure, UsageError
from harness.model.history import read_history
from harness.model.safe_files import write_whole
from harness.proxy.proxy import Proxy
from harness.trials.command import HOW, Command, Ended
from harness.trials.counting import ClaimResult, Count, judged, merged
from harness.trials.points import NEVER, Point, Step, points, steps
from harness.wire.rules import Direction, RuleCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.model.history import Event, History
    from harness.model.semantics import Semantic
    from harness.proxy.fault import Fault
    from harness.trials.counting import Topic

FIRST_S: Final = 600.0
"""How long a run without a fault may take."""
PATIENCE_S: Final = 60.0
"""How long clients try by themselves. A run with a fault may take that, and three times as long as
one without.
"""
TIMES: Final = 3
REPORT: Final = "report.json"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command. ``because``: why it proves nothing."""

    ended: Ended
    history: History
    struck: RuleCounts | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class TriedPoint:
    """What came of a point. ``again``: its second run, if the test failed in the first."""

    point: Point
    word: ClaimResult
    reason: str
    run: Run
    again: Run | None = None

    @property
    def failing(self) -> bool:
        """Whether the test fails with this fault: each time of two."""
        return self.again is not None and all(
            each.because is None and each.ended.code != 0 for each in (self.run, self.again)
        )

    @property
    def result(self) -> str:
        """What the test itself said."""
        if self.again is None:
            return self.run.ended.told
        if self.failing:
            return f"{self.run.ended.told}, 2 of 2; passed without the fault, 2 of 2"
        second = self.again.because or self.again.ended.told
        return f"{self.run.ended.told}; in a second run: {second}"

    @property
    def code(self) -> ExitCode:
        """What it says for the exit code."""
        if self.word is ClaimResult.BROKEN:
            return ExitCode.BROKEN
        fine = self.word is ClaimResult.KEPT and self.run.ended.code == 0
        return ExitCode.KEPT if fine else ExitCode.VOID

    def told(self) -> dict[str, object]:
        """Return it as plain values."""
        runs = [each for each in (self.run, self.again) if each is not None]
        return {
            "point": self.point.id,
            "because": self.point.because,
            "verdict": self.word,
            "reason": self.reason,
            "fails_with_this_fault": self.failing,
            "runs": [
                {
                    "test": each.ended.told,
                    "exit_code": each.ended.code,
                    "seconds": round(each.ended.seconds, 3),
                    "said": each.ended.said,
                    "struck": each.struck.fired if each.struck else 0,
                    "void": each.because,
                }
                for each in runs
            ],
        }


@dataclass(frozen=True, slots=True)
class TrialBaseline:
    """What the runs without a fault have shown."""

    usual: Mapping[str, Topic]
    points: tuple[Point, ...]
    seconds: float


@dataclass(slots=True)
class Trial:
    """Somebody's test, and what is claimed of it. ``folder``: where its runs are kept."""

    command: Command
    upstream: str
    claims: Semantic
    folder: Path
    seed: int = 1
    pattern: str | None = None
    patience_s: float = PATIENCE_S
    tried: list[TriedPoint] = field(default_factory=list)

    # -- without a fault ---------------------------------------------------------------------------

    def learn(self) -> TrialBaseline:
        """Run the test twice without a fault.

        Raises:
            UsageError: nothing came through the wire.
            CellFailure: the test failed, or something could not be read.
        """
        first = self._sound("without-a-fault-1", ())
        seen = _frames(first.history)
        if not seen:
            raise UsageError(f"nothing came through the wire: {HOW}")
        topics = _topics(first.history.events)
        counters = [*dict.fromkeys((*steps(seen, topics), *steps(seen, ())))]
        counts: dict[Step, int] = {}
        second = self._sound("without-a-fault-2", counters, counts)
        again = _frames(second.history)
        stay = topics if topics == _topics(second.history.events) else ()
        found = {
            step: counts[step] if step.about else min(seen[step.place], again[step.place])
            for step in steps(seen, stay)
        }
        usual = merged(*(self._count(run.history.events) for run in (first, second)))
        seconds = max(first.ended.seconds, second.ended.seconds)
        return TrialBaseline(usual, points(found, self.seed), seconds)

    def _sound(
        self, name: str, counters: Sequence[Step], counts: dict[Step, int] | None = None
    ) -> Run:
        run = self._run(name, None, FIRST_S, counters, counts)
        if run.ended.code != 0:
            which = "" if name.endswith("1") else ", in the second of two runs"
            raise CellFailure(
                f"the test {run.ended.told} without any fault{which}, so its failures would prove "
                f"nothing: {run.ended.said}"
            )
        if run.because:
            raise CellFailure(f"the run without a fault proves nothing: {run.because}")
        return run

    # -- with a fault ------------------------------------------------------------------------------

    def within_s(self, point: Point, learnt: TrialBaseline) -> float:
        """How long a run of a point may take."""
        return self.patience_s + TIMES * learnt.seconds + 2 * point.waits_s

    def attempt(self, point: Point, learnt: TrialBaseline) -> TriedPoint:
        """Run the test with a fault. If it fails, run it once more."""
        within_s = self.within_s(point, learnt)
        run = self._run(point.id, point, within_s)
        again = None
        if run.because is None and run.ended.code != 0:
            again = self._run(f"{point.id}-again", point, within_s)
        word, reason = ClaimResult.VOID, run.because or ""
        if run.because is None:
            topics = Count(run.history.events, learnt.usual, self.pattern).topics()
            word, reason = judged(self.claims, topics, learnt.usual)
        made = TriedPoint(point, word, reason, run, again)
        self.tried.append(made)
        return made

    def _run(
        self,
        name: str,
        point: Point | None,
        within_s: float,
        counters: Sequence[Step] = (),
        counts: dict[Step, int] | None = None,
    ) -> Run:
        folder = self.folder / name
        proxy = Proxy(self.upstream, history=folder)
        struck: RuleCounts | None = None
        try:
            armed = {step: proxy.fault(step.asked("cut", NEVER)) for step in counters}
            fault = proxy.fault(point.asked) if point else None
            look = proxy.control.check
            if fault is not None and point is not None and point.asked["do"] == "late":
                look = _Late(fault, point.asked["nth"]).look
            ended = self.command.run(proxy.bootstrap, folder / "output.txt", within_s, look)
            look()  # the command may have ended before anybody looked
            struck = fault.counts if fault else None
            if counts is not None:
                counts.update({step: each.counts.matched for step, each in armed.items()})
        finally:
            proxy.close()
        history = read_history(folder / "history")
        return Run(ended, history, struck, _why_void(history, struck))

    def _count(self, events: Sequence[Event]) -> dict[str, Topic]:
        return Count(events, None, self.pattern).topics()

    # -- the report --------------------------------------------------------------------------------

    @property
    def code(self) -> ExitCode:
        """The exit code of what was tried."""
        codes = {each.code for each in self.tried} or {ExitCode.VOID}
        order = (ExitCode.BROKEN, ExitCode.VOID, ExitCode.KEPT)
        return next(each for each in order if each in codes)

    def save(self, command: str, learnt: TrialBaseline | None, *, partial: bool) -> None:
        """Write the report."""
        told = {
            "command": command,
            "claims": self.claims,
            "seed": self.seed,
            "exit_code": self.code,
            "partial": partial,
            "seconds_without_a_fault": round(learnt.seconds, 3) if learnt else None,
            "records_without_a_fault": {
                kind: topic.offered for kind, topic in (learnt.usual if learnt else {}).items()
            },
            "points": [each.told() for each in self.tried],
        }
        write_whole(self.folder, REPORT, json.dumps(told, indent=1) + "\n")


class _Late:
    """Lets a late request arrive behind the one that takes its place. ``nth``: its number."""

    def __init__(self, fault: Fault, nth: object) -> None:
        self._fault = fault
        self._nth = int(str(nth))
        self._over = False

    def look(self) -> None:
        """Look whether it is time: whether one more has passed."""
        if not self._over and self._fault.counts.matched > self._nth:
            self._over = True
            self._fault.deliver()


def _frames(history: History) -> Counter[tuple[str, Direction]]:
    return Counter(
        (str(each.api), Direction(each.dir)) for each in history.of(kinds.Frame) if each.dir
    )


def _topics(events: Sequence[Event]) -> set[str]:
    """Return the topics of all records."""
    seen = kinds.Sent | kinds.Unsent | kinds.Fetched
    return {each.topic for each in events if isinstance(each, seen) and each.topic}


def _why_void(history: History, struck: RuleCounts | None) -> str | None:
    """Say why a run proves nothing."""
    for unread in history.of(kinds.Undecodable, kinds.Failed):
        return f"the wire could not read all that passed: {unread.because or 'no reason was given'}"
    if history.damage:
        return f"the wire's lines are damaged: {history.damage[0]}"
    if struck is not None and not struck.fired:
        return (
            f"the fault never struck: of {struck.seen} frames of this API {struck.matched} fitted"
        )
    return None

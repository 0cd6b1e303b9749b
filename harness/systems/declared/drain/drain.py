"""The drain of a declared pipeline: wait until everything is at rest."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.model.semantics import Anomaly, forbids
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import Check, Checks
from harness.run.parts import Drained
from harness.systems.declared.learnt.silence import QuietPeriod, QuietReason, longest_silence
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from harness.run.parts import DrainFields
    from harness.systems.declared.drain.conditions import DrainConditions

UNREADABLE_S = 10.0
"""The drain ends when the output was unreadable for so long and everything else is at rest."""
OUTPUT = "output"
"""The last stage of the drain but one: the output must not change."""
REST = "rest"
"""The last stage of the drain: nothing is known to be on its way, and only silence can show that
nothing is.
"""


class Drain:
    """Checks the conditions of the drain in order, and remembers the first that does not hold.

    When all conditions hold, only silence can show that nothing follows. ``gap`` is the cell's
    longest silence with all conditions fulfilled, in seconds, after which something about a record
    still happened: a line of the wire, or a change of the results.
    """

    def __init__(self, conditions: DrainConditions) -> None:
        self._conditions = conditions
        self._scene = conditions.scene
        self._checks = Checks(
            (
                Check("stage", conditions.stage_trouble),
                Check("source", conditions.source_trouble),
                Check("sends", conditions.send_trouble),
                *conditions.transport.checks(),
            ),
            conditions.transport.unanswered,
        )
        self.stage = "source"
        self.because = ""
        self.gap = 0.0
        self.missing: int | None = None
        """How many records are neither in the output nor set aside where they may be; ``None``
        before the output was read.
        """
        self.rest = QuietPeriod(0.0, QuietReason.ENDED)
        self.why = QuietReason.ENDED
        """The weakest reason for the length of the rest so far: something that came later may have
        given a better one.
        """
        self.over = False
        self._since = time.monotonic()
        """When something last happened, or was last known to be on its way (monotonic, seconds)."""
        self._began = time.monotonic_ns()
        self._held = False
        """Whether all conditions held when they were last checked: else it was no silence."""
        self._seen = len(self._scene.records_seen.moments())
        self._size: Any = None
        self._sized = self._since
        self._failed: str | None = None
        self._failing = self._since
        """``_failed``: why the output cannot be read; ``_failing``: since when."""
        self._changed: float | None = None
        """When the output began to change after it was last read."""
        self._results: Counter[str | None] | None = None

    def at_rest(self) -> bool:
        """Check once, and say whether everything is at rest."""
        self.over = self._is_at_rest()
        return self.over

    def _is_at_rest(self) -> bool:
        # asked first: whoever ends later is found, and perhaps started again, by the next check
        ended = self._conditions.all_ended()
        self._conditions.attribute()
        self._take_in()
        self._held = self._hold()
        if not self._held:
            self.because, self._since = self._checks.because, time.monotonic()
            self._sized, self._failed = self._since, None
            return False
        self.stage, quiet_s = OUTPUT, 0.0 if ended else self._scene.pipeline.output.quiet_s
        self.because = (
            f"the output ({self._scene.pipeline.output.kind}) is not quiet: its content changes "
            "although no record arrives; look for a time in its rows, rows in no fixed order, "
            "or another program that writes there"
        )
        try:
            size = self._conditions.size()
            self._look_at(size)
            if time.monotonic() - self._sized < quiet_s:
                return False
            self._read()
        except OutputError as error:  # if it stays unreadable, the final read reports it
            if str(error) != self._failed:
                self._failed, self._failing = str(error), time.monotonic()
            return time.monotonic() - self._failing >= max(quiet_s, UNREADABLE_S)
        self._failed = None
        self.stage = REST
        self.rest = QuietPeriod(0.0, QuietReason.ENDED) if ended else self._needed()
        self.why = max(self.why, self.rest.why, key=[*QuietReason].index)
        self.because = (
            f"{self.missing} records are not in the output"
            if self.missing
            else "not everything was acknowledged"
        )
        return self.rested >= self.rest.seconds

    @property
    def rested(self) -> float:
        """For how many seconds nothing has happened and nothing was known to be on its way."""
        return time.monotonic() - self._since

    def told(self) -> DrainFields:
        """Return the fields of a history's line about the rest."""
        return {
            "rested": round(self.rested, 3),
            "rest": round(self.rest.seconds, 3),
            "why": self.why,
            "gap": round(self.gap, 3),
            "missing": self.missing,
        }

    def _hold(self) -> bool:
        try:
            return self._checks.hold()
        finally:
            self.stage = self._checks.stage

    def _needed(self) -> QuietPeriod:
        """Return the rest that is needed, at most the declaration's ``drain_s``."""
        claims, open_sends = self._scene.pipeline.claims, self._conditions.unacknowledged()
        may_change = (bool(self.missing) and forbids(claims, Anomaly.LOST)) or (
            bool(open_sends) and forbids(claims, Anomaly.DUPLICATED)
        )
        doubled = any(
            count > 1 and record in self._conditions.offered
            for record, count in (self._results or {}).items()
        )
        found = self._scene.learnt.silences.rest(
            self._scene.cell,
            settled=not self.missing and not open_sends,
            gap=self.gap,
            doubled=doubled,
            away=may_change and self._conditions.away(self._began),
        )
        return QuietPeriod(min(found.seconds, self._scene.pipeline.drain_s), found.why)

    def _take_in(self) -> None:
        """Take in what the wire has seen since the last check."""
        moments = self._scene.records_seen.moments(self._seen)
        self._seen += len(moments)
        for moment in moments:
            self._happened(moment / 1e9)

    def _happened(self, at: float) -> None:
        if at > self._since:
            if self._held:
                self.gap = max(self.gap, at - self._since)
            self._since = at

    def _look_at(self, size: Any) -> None:
        if size != self._size:
            self._size, self._sized = size, time.monotonic()
            self._changed = self._changed or self._sized

    def _read(self) -> None:
        """Read the output if it has changed. A change that changes no result does not count."""
        if self._changed is None:
            return
        results = Counter(self._conditions.results())
        if self._results is not None and results != self._results:
            self._happened(self._changed)
            self._since = max(self._since, self._sized)
        self._results, self._changed = results, None
        ended = results.keys() | self._conditions.set_aside()
        self.missing = len(self._conditions.offered - ended)


class PatientDrain:
    """The drain of one cell, which also learns how long silences last. Implements
    :class:`harness.run.parts.Drain`.

    ``loaded_at``: when the first record could flow, monotonic ns.
    """

    def __init__(self, conditions: DrainConditions, loaded_at: int) -> None:
        self._conditions = conditions
        self._scene = conditions.scene
        self._loaded_at = loaded_at

    def wait(self) -> Drained:
        """Wait until everything is at rest.

        Raises:
            StageError: the pipeline itself is wrong: it sent nothing, or its output is never quiet
                without a fault.
        """
        waiting = Drain(self._conditions)
        try:
            self._await_rest(waiting)
        except WaitTimeoutError as error:
            if (
                waiting.stage == REST
            ):  # it is at rest, only not for as long as wished: drain_s allows no more
                return self._drained(waiting)
            self._conditions.check_anything_sent(f"in {self.within_s:g} s")
            because = waiting.because
            if waiting.stage == OUTPUT:
                wanted, within = self._scene.pipeline.output.quiet_s, self.within_s
                because += (
                    f"; quiet_s asks for {wanted:g} s without a change, and there were none in "
                    f"{within:g} s (drain_s)"
                )
                if self._scene.faultless:  # no fault can be the cause
                    raise StageError(f"{because}, without any fault") from error
            return Drained(because, waiting.stage)
        except StageError as error:
            return Drained(str(error), error.stage or waiting.stage, {"at_once": True})
        return self._drained(waiting)

    @property
    def within_s(self) -> float:
        """How long (seconds) the load may come no further: ``drain_s``, or longer if a silence
        without a fault was longer.
        """
        return self._scene.still(self._scene.pipeline.drain_s)

    def _await_rest(self, waiting: Drain) -> None:
        """Wait until everything is at rest. The time limit starts again whenever the load comes
        further than ever before.

        So the drain is bounded by the load that is left: a program that only repeats itself, or
        changes its output without a further record, brings it no further.

        Raises:
            WaitTimeoutError: not everything is at rest, and the load comes no further.
        """
        conditions = self._conditions
        wait_until(
            waiting.at_rest,
            within_s=self.within_s + 1 / self._scene.pipeline.pace,
            because="the drain",
            poll_s=0.1,
            advance=lambda: (conditions.offered_so_far(), conditions.advanced()),
        )

    def _drained(self, waiting: Drain) -> Drained:
        scene, silences = self._scene, self._scene.learnt.silences
        self._conditions.check_anything_sent("before it ended")
        rested = math.inf if waiting.rest.why is QuietReason.ENDED else waiting.rested
        # the run without a fault shows how long the first step takes: it waits for nothing else
        step = (
            longest_silence(self._loaded_at, scene.records_seen.moments())
            if scene.faultless
            else 0.0
        )
        silences.learn(
            scene.cell,
            waiting.gap,
            rested=rested,
            patiently=waiting.why is QuietReason.PATIENCE,
            step=step,
        )
        tail = self._conditions.transport.tail
        if tail:
            silences.learn_tail(scene.cell)
        return Drained(more={"tail": tail, **waiting.told()})

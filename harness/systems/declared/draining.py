"""The drain of a declared pipeline: when everything is at rest, and how that is known."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import Check, Checks
from harness.run.parts import Drained
from harness.systems.declared.nodes import StageError
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.silence import Rest, Why, longest_silence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.systems.declared.standing import Standing

UNREADABLE_S = 10.0
"""How long an output must have been unreadable, with everything else at rest, to be given up."""
OUTPUT = "output"
"""The stage of the drain that comes last but one."""
REST = "rest"
"""The last: nothing is known to be on its way, and nobody can know that nothing is."""


class Drain:
    """Goes through the conditions of the drain in order, and remembers the first that does not hold.

    While one does not hold, it is known what is waited for. From then on silence counts: the longest one after which something
    about a record still happened (a line of the wire, a change of the results) is this cell's ``gap``.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._scene = standing.scene
        self._checks = Checks((
            Check("stage", standing.stage_trouble), Check("source", standing.source_trouble),
            Check("sends", standing.send_trouble), *standing.between.checks(),
        ), standing.between.unanswered)  # fmt: skip
        self.stage = "source"
        self.because = ""
        self.gap = 0.0
        self.missing: int | None = None
        """How many records are not in the output; ``None`` before it was read."""
        self.rest = Rest(0.0, Why.ENDED)
        self.why = Why.ENDED
        """The least that was known while it rested: what came then may have settled it."""
        self.over = False
        self._since = time.monotonic()
        """When something happened last, or was known to be on its way."""
        self._seen = len(self._scene.sighted.moments())
        self._size: Any = None
        self._sized = self._since
        self._failed: str | None = None
        self._failing = self._since
        """Why the output cannot be read, and since when."""
        self._changed: float | None = None
        """When the output began to change, since it was read last."""
        self._results: Counter[str | None] | None = None

    def at_rest(self) -> bool:
        """Look once more, and say whether everything is at rest."""
        self.over = self._is_at_rest()
        return self.over

    def _is_at_rest(self) -> bool:
        self._standing.attribute()
        self._take_in()
        if not self._hold():
            self.because, self._since = self._checks.because, time.monotonic()
            self._sized, self._failed = self._since, None
            return False
        ended = self._standing.all_ended()
        self.stage, quiet_s = OUTPUT, 0.0 if ended else self._scene.pipeline.output.quiet_s
        self.because = (
            f"the output ({self._scene.pipeline.output.kind}) is not quiet: what it gives changes, though nothing comes in (a "
            "time in it? an order that is not fixed? who else writes there?)"
        )
        try:
            size = self._standing.size()
            self._look_at(size)
            if time.monotonic() - self._sized < quiet_s:
                return False
            self._read()
        except OutputError as error:  # who reads it in the end says so, if it stays like that
            if str(error) != self._failed:
                self._failed, self._failing = str(error), time.monotonic()
            return time.monotonic() - self._failing >= max(quiet_s, UNREADABLE_S)
        self._failed = None
        self.stage = REST
        self.rest = Rest(0.0, Why.ENDED) if ended else self._needed()
        self.why = max(self.why, self.rest.why, key=[*Why].index)
        self.because = f"{self.missing} records are not in the output" if self.missing else "not everything was acknowledged"
        return self.rested >= self.rest.seconds

    @property
    def rested(self) -> float:
        """For how long nothing has happened, and nothing was known to be on its way."""
        return time.monotonic() - self._since

    def told(self) -> Mapping[str, object]:
        """Return what a history says of the rest."""
        return {"rested": round(self.rested, 3), "rest": round(self.rest.seconds, 3), "why": self.why,
                "gap": round(self.gap, 3), "missing": self.missing}  # fmt: skip

    def _hold(self) -> bool:
        try:
            return self._checks.hold()
        finally:
            self.stage = self._checks.stage

    def _needed(self) -> Rest:
        """Return the rest that is needed, as far as the drain may take."""
        settled = not self.missing and not self._standing.unacknowledged()
        doubled = any(count > 1 and record in self._standing.offered for record, count in (self._results or {}).items())
        found = self._scene.learnt.silences.rest(self._scene.cell, settled=settled, gap=self.gap, doubled=doubled)
        return Rest(min(found.seconds, self._scene.pipeline.drain_s), found.why)

    def _take_in(self) -> None:
        """Take in what the wire has seen since the last look."""
        moments = self._scene.sighted.moments(self._seen)
        self._seen += len(moments)
        for moment in moments:
            self._happened(moment / 1e9)

    def _happened(self, at: float) -> None:
        if at > self._since:
            self.gap = max(self.gap, at - self._since)
            self._since = at

    def _look_at(self, size: Any) -> None:
        if size != self._size:
            self._size, self._sized = size, time.monotonic()
            self._changed = self._changed or self._sized

    def _read(self) -> None:
        """Read what is in the output, where that has changed: a change of something else than results is none."""
        if self._changed is None:
            return
        results = Counter(self._standing.results())
        if self._results is not None and results != self._results:
            self._happened(self._changed)
            self._since = max(self._since, self._sized)
        self._results, self._changed = results, None
        self.missing = len(self._standing.offered - results.keys())


class PatientDrain:
    """The drain of one cell, and what is learnt from it. Implements :class:`harness.run.parts.Drain`.

    ``loaded_at``: when the first record could flow, monotonic ns.
    """

    def __init__(self, standing: Standing, loaded_at: int) -> None:
        self._standing = standing
        self._scene = standing.scene
        self._loaded_at = loaded_at

    def wait(self) -> Drained:
        """Wait until everything is at rest.

        Raises:
            StageError: the pipeline itself is wrong.
        """
        waiting = Drain(self._standing)
        try:
            self._await_rest(waiting)
        except WaitTimeoutError as error:
            if waiting.stage == REST:  # it is still, but for less time than it is bounded by: that is all there is to know
                return self._drained(waiting)
            self._standing.check_anything_sent(f"in {self._scene.pipeline.drain_s:g} s")
            because = waiting.because
            if waiting.stage == OUTPUT:
                wanted, within = self._scene.pipeline.output.quiet_s, self._scene.pipeline.drain_s
                because += f"; quiet_s asks for {wanted:g} s without a change, and {within:g} s (drain_s) had none"
                if self._scene.faultless:  # nothing has happened that it could come from
                    raise StageError(f"{because}, without any fault") from error
            return Drained(because, waiting.stage)
        except StageError as error:
            return Drained(str(error), error.stage or waiting.stage, {"at_once": True})
        return self._drained(waiting)

    def _await_rest(self, waiting: Drain) -> None:
        """Wait until everything is at rest. Raises WaitTimeoutError where that takes too long; to offer the records does not."""
        offered_so_far, pipeline = self._standing.offered_so_far, self._scene.pipeline
        while not waiting.over:
            offered = offered_so_far()
            wait_until(lambda: waiting.at_rest() or offered_so_far() > offered,   # noqa: B023
                       within_s=pipeline.drain_s + 1 / pipeline.pace, because="the drain", poll_s=0.1)  # fmt: skip

    def _drained(self, waiting: Drain) -> Drained:
        scene, silences = self._scene, self._scene.learnt.silences
        self._standing.check_anything_sent("before it ended")
        rested = math.inf if waiting.rest.why is Why.ENDED else waiting.rested
        # how long the first step takes is told by the run without a fault, in which nothing else is waited for
        first = longest_silence(self._loaded_at, scene.sighted.moments()) if scene.faultless else 0.0
        silences.learn(scene.cell, max(waiting.gap, first), rested=rested, patiently=waiting.why is Why.PATIENCE)
        tail = self._standing.between.tail
        if tail:
            silences.learn_tail(scene.cell)
        return Drained(more={"tail": tail, **waiting.told()})

"""The drain of a declared pipeline: when everything is at rest, and how that is known."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from harness.core.waiting import WaitTimeoutError
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.silence import Rest, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.systems.declared.run import DeclaredRun

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

    def __init__(self, run: DeclaredRun) -> None:
        self._run = run
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
        self._seen = len(run.sighted.moments())
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
        self._run.attribute()
        self._take_in()
        if trouble := self._trouble():
            self.because, self._since = trouble, time.monotonic()
            self._sized, self._failed = self._since, None
            return False
        ended = self._run.all_ended()
        self.stage, quiet_s = OUTPUT, 0.0 if ended else self._run.cell.declared.output.quiet_s
        self.because = (
            f"the output ({self._run.cell.declared.output.kind}) is not quiet: what it gives changes, though nothing comes in (a "
            "time in it? an order that is not fixed? who else writes there?)"
        )
        try:
            size = self._run.size()
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

    def _trouble(self) -> str | None:
        checks = (
            ("stage", self._run.stage_trouble), ("source", self._run.source_trouble), ("sends", self._run.send_trouble),
            ("topic", self._run.log_trouble), ("position", self._run.position_trouble),
        )  # fmt: skip
        for self.stage, check in checks:
            try:
                trouble = check()
            except (KafkaError, WaitTimeoutError) as error:
                return f"the observer was not answered: {error}"
            if trouble:
                return trouble
        return None

    def _needed(self) -> Rest:
        """Return the rest that is needed, as far as the drain may take."""
        settled = not self.missing and not self._run.unacknowledged()
        doubled = any(count > 1 and record in self._run.offered for record, count in (self._results or {}).items())
        found = self._run.silences.rest(self._run.cell, settled=settled, gap=self.gap, doubled=doubled)
        return Rest(min(found.seconds, self._run.cell.declared.drain_s), found.why)

    def _take_in(self) -> None:
        """Take in what the wire has seen since the last look."""
        moments = self._run.sighted.moments(self._seen)
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
        results = Counter(self._run.results())
        if self._results is not None and results != self._results:
            self._happened(self._changed)
            self._since = max(self._since, self._sized)
        self._results, self._changed = results, None
        self.missing = len(self._run.offered - results.keys())

"""Whether a pipeline is at rest after a completed drain: a copy that can still move may later
become a duplicate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge.reasons import told
from harness.model import events as kinds
from harness.model.places import MOVABLE, UNDECIDED
from harness.model.states import LEFT, Hop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.judge.accounting import Account
    from harness.model.history import History
    from harness.model.plan import Plan


class StateAtRest:
    """What the history shows of the source, the logs, the queues and the sink after the drain."""

    def __init__(
        self, plan: Plan, history: History, found: Account, drain: kinds.Drain | None
    ) -> None:
        self.plan = plan
        self.history = history
        self.drain = drain
        self._found = found

    def unrest(self) -> str | None:
        """Say what can still move after a completed drain, or return ``None``. Such a copy may
        later become a duplicate.
        """
        if self.plan.refused_by_client or self.drain is None:
            return None
        checks = (
            self._left_behind,
            self._source_goes_on,
            self._log_goes_on,
            self._queue_goes_on,
            self._sink_goes_on,
        )
        return next((reason for check in checks if (reason := check())), None)

    def _left_behind(self) -> str | None:
        rest = self._found.counts["left"] + self._found.counts["stalled"]
        if not rest:
            return None
        why = told(row for row in self._found.rows if row["state"] in LEFT)
        shown = f" ({why})" if why else ""
        return f"the drain completed, but {rest} records are left behind{shown}"

    def _source_goes_on(self) -> str | None:
        position = max((e.position for e in self.history.of(kinds.Cursor)), default=None)
        last = max((e.position for e in self.history.of(kinds.Offered)), default=0)
        if position is None or position > last:
            return None
        return f"the drain completed, but the source's cursor is at {position} of {last}"

    def _log_goes_on(self) -> str | None:
        """Say what can still move in a log: an open transaction, a visible copy not yet passed,
        ends never asked for.

        If a reader was seen to leave a tail uncommitted, a copy that it was given and has recorded
        is not on its way.
        """
        said = "the drain completed, but"
        logs = {_log_of(e): e for e in self.history.of(kinds.Log)}
        saved = {(e.topic, e.partition): e.offset for e in self.history.of(kinds.Position)}
        tail = self._tail()
        for name, log in logs.items():
            if log.stable < log.end:
                return (
                    f"{said} {name} has an open transaction: last stable offset {log.stable}, "
                    f"end {log.end}"
                )
        for copy in self.history.of(kinds.Stored):
            if copy.offset is None or copy.partition is None:
                continue  # the copy is in a queue
            name, offset = _log_of(copy), copy.offset
            if name not in logs:
                return (
                    f"{name} holds copies, but the history does not say where this log begins "
                    "and ends"
                )
            if (name, offset) in tail:
                continue
            of = (copy.topic if self.plan.topics else None, copy.partition)
            if copy.hop == Hop.TOPIC and copy.visible and offset >= saved.get(of, -1):
                return (
                    f"{said} {name} has an unread record at {offset}: the saved position is "
                    f"{saved.get(of, 'none')}"
                )
        return self._replica_goes_on(
            {(log.topic, log.partition): int(log.end) for log in logs.values()}
        )

    def _tail(self) -> set[tuple[str, int]]:
        """Return log and offset of recorded copies in a tail that a reader was seen to leave
        uncommitted.
        """
        if self.drain is None or not self.drain.tail:
            return set()
        recorded = {e.record for e in self.history.of(kinds.Recorded)}
        given = (e for e in self.history.of(kinds.Fetched) if e.reached)
        return {
            (_log_of(e), e.offset) for e in given if e.record in recorded and e.offset is not None
        }

    def _queue_goes_on(self) -> str | None:
        """Say which copy in a queue may still be delivered, or is held by an open transaction."""
        for copy in self.history.of(kinds.Stored):
            waiting = copy.waiting
            if copy.offset is None and (
                waiting in UNDECIDED or (copy.hop == Hop.TOPIC and waiting in MOVABLE)
            ):
                what = f"a copy of {copy.record}" if copy.record else "a message"
                return f"the drain completed, but {what} at {copy.place} waits: {waiting}"
        return None

    def _replica_goes_on(self, ends: Mapping[tuple[str, int], int]) -> str | None:
        """Say which copy in a broker's files was above the high watermark, and so could not be
        delivered yet.
        """
        for copy in self.history.of(kinds.Replica):
            end = ends.get((copy.topic, copy.partition))
            if end is not None and copy.offset >= end:
                where = f"{copy.topic}/{copy.partition} at {copy.offset}"
                return (
                    f"the drain completed, but {copy.node} has a record of {where}: the log "
                    f"ends at {end}"
                )
        return None

    def _sink_goes_on(self) -> str | None:
        left = max((e.open for e in self.history.of(kinds.Settled)), default=0)
        return f"the sink was read while {left} transactions were open in it" if left else None


def _log_of(event: kinds.Log | kinds.Stored | kinds.Fetched) -> str:
    return f"{event.topic}/{event.partition}"

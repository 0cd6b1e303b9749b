"""The course of a run: whether the fault fired, where and at which record, which processes it
ended, and whether the drain ended.

The judge reads all of this from the history. A run can be unsound in two ways: see
:mod:`harness.judge.verdict`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from harness.judge.crosschecks import contradiction as crosscheck
from harness.judge.firing import Firing
from harness.judge.health import Health
from harness.judge.load import load_of
from harness.judge.queuechecks import wrong_copies, wrong_count
from harness.judge.reasons import told
from harness.judge.rest import StateAtRest
from harness.model import events as kinds
from harness.model.events import CellPhase, DrainPhase, End
from harness.model.prediction import examples
from harness.model.states import LEFT, State

if TYPE_CHECKING:
    from harness.judge.accounting import Account
    from harness.judge.load import Load
    from harness.judge.proof import Knowledge
    from harness.judge.signs import Signs
    from harness.model.history import History
    from harness.model.plan import Plan


class RunCourse:
    """What the history proves about the run itself."""

    def __init__(
        self, plan: Plan, history: History, found: Account, signs: Signs, knowledge: Knowledge
    ) -> None:
        self.plan = plan
        self.history = history
        self._knowledge = knowledge
        self._found = found
        self._signs = signs
        self.waiting = (found.left | found.stalled) - {plan.target}
        """Records, other than the target, that were offered and are still waiting in the pipeline
        at the end, or behind a transaction that does not end.
        """
        self.drain: kinds.Drain | None = None
        for event in history.of(kinds.Drain):
            self.drain = event
        self.firing = Firing(plan, history, self.drain)
        self.fired_at = self.firing.fired_at
        """When the trigger was hit (see :class:`~harness.judge.firing.Firing`)."""
        self._health = Health(plan, history, self.firing)
        self._rest = StateAtRest(plan, history, found, self.drain)

    @property
    def killed(self) -> list[kinds.Node]:
        """The processes that were killed by SIGKILL as part of the fault."""
        return self.firing.killed

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed."""
        return self.firing.healed_at

    @cached_property
    def load(self) -> Load | None:
        """The load around the fault; ``None`` where it did not fire."""
        if self.fired_at is None:
            return None
        return load_of(self.history, self.plan.target, self.fired_at, self.firing.hits)

    def misfire(self) -> str | None:
        """Say that the trigger was not hit, was hit elsewhere than declared, or too often."""
        return self.firing.misfire()

    def unrest(self) -> str | None:
        """Say what can still move after a completed drain: a copy that is still under way may later
        become a duplicate.
        """
        return self._rest.unrest()

    def instrument(self) -> str | None:
        """Say why the instrument was unsound, or return ``None``. A run with an unsound instrument
        is void.
        """
        checks = (
            self._unknown_proof,
            self._unknown_sign,
            self._failed_early,
            self._unreadable,
            self._health.strangers,
            self._health.survivors,
            self._cut_short,
            self._source_trouble,
            self._asked_too_early,
            lambda: crosscheck(self.plan, self.history),
            lambda: None if self._misses_acknowledged() else wrong_count(self.history),
        )
        return next((reason for check in checks if (reason := check())), None)

    def _misses_acknowledged(self) -> list[str]:
        """Return the records that were acknowledged and have no result after a failed drain.

        No count of messages can explain these away: the producer was told that they are stored, and
        the sink, which is no part of the count, has no result. A control that must stand still
        keeps every check.
        """
        if self.plan.control or self.drain is None or self.drain.phase != DrainPhase.FAILED:
            return []
        aside = (State.SET_ASIDE,) if self.plan.dead_letters else ()
        ended = {State.RECORDED, State.SUPERSEDED, *aside}
        return [
            row["record"] for row in self._found.rows if row["acked"] and row["state"] not in ended
        ]

    def experiment(self) -> str | None:
        """Say why the experiment was unsound, or return ``None``. Forbidden anomalies that were
        seen still count.
        """
        checks = (
            self._failure,
            self._refusal,
            self.misfire,
            self.firing.victims,
            self._unproved,
            self._healed,
            self._health.before,
            lambda: wrong_copies(self.plan, self.history),
            self._load,
        )
        return next((reason for check in checks if (reason := check())), None)

    def drained(self) -> bool:
        """Say whether the drain completed and nothing moves any more. A record that is missing then
        is lost, not late.
        """
        return (
            self.drain is not None
            and self.drain.phase == DrainPhase.COMPLETED
            and self.unrest() is None
        )

    def stuck(self) -> str | None:
        """Say which stage stopped, if the drain failed; otherwise return ``None``."""
        if self.drain and self.drain.phase == DrainPhase.FAILED:
            how = (
                "the pipeline cannot go on"
                if self.drain.at_once
                else "no progress until the deadline"
            )
            why = told(row for row in self._found.rows if row["state"] in LEFT)
            left = f"; left: {why}" if why else ""
            because = f"{self.drain.stage}: {self.drain.because}{self._health.ended()}"
            return f"{how}: {because}{left}{self._although()}"
        return None

    def _although(self) -> str:
        """Say which count is wrong, and what is missing all the same."""
        missing = self._misses_acknowledged()
        wrong = wrong_count(self.history) if missing else None
        if wrong is None:
            return ""
        return f"; {examples(frozenset(missing))} acknowledged and not recorded, and {wrong}"

    def goes_on(self) -> str | None:
        """Say that a program which must stop went on, or stopped without the error that it must
        name.
        """
        if not self.stuck():
            return "the pipeline had to stop after this fault, but it went on"
        if self.plan.stops is None:
            return None
        why = self.plan.stops
        return (
            None
            if any(why in str(e.because) for e in self._health.gave_up())
            else f"the pipeline stopped, but no program ended with the error {why}"
        )

    def _asked_too_early(self) -> str | None:
        if self.plan.refused_by_client:
            return None
        end = self.drain.t if self.drain else 0
        early = next((e for e in self.history.of(*kinds.AUTHORITIES) if e.t < end), None)
        return (
            f"an authority was asked before the drain had ended ({early.event})" if early else None
        )

    def unhealthy_after(self) -> str | None:
        """Name a process that ended by itself after the fault although the fault
        should not end it.
        """
        if self.plan.refused_by_client or self.drain is None:
            return None
        return self._health.after()

    def _failed_early(self) -> str | None:
        """Return a failure that came before all authorities had been asked. A later one does not
        matter.
        """
        return self._failure() if self._cut_short() else None

    def _failure(self) -> str | None:
        """Say why the run failed. If it had waited for the fault in vain, that is said first: it
        may have failed because of that.
        """
        failed = next(self.history.of(kinds.Failed), None)
        if failed is None:
            return None
        waited = any(
            e.phase == DrainPhase.BEGUN and e.t < failed.t for e in self.history.of(kinds.Drain)
        )
        never = self.misfire() if waited and self.fired_at is None else None
        return f"{f'{never}; ' if never else ''}the run failed: {failed.because}"

    def _unreadable(self) -> str | None:
        if self.history.damage:
            return f"the history is damaged at {', '.join(self.history.damage[:3])}"
        blind = next(self.history.of(kinds.Undecodable), None)
        return (
            (f"the wire could not read {blind.api} v{blind.version}: {blind.because}")
            if blind
            else None
        )

    def _source_trouble(self) -> str | None:
        """Say what is wrong with the source: if it is incomplete, losses and phantoms cannot be
        told.
        """
        count = len({event.record for event in self.history.of(kinds.Offered)})
        return (
            None
            if count == self.plan.offered
            else f"{count} of {self.plan.offered} records were offered"
        )

    def _refusal(self) -> str | None:
        if not self.plan.refused_by_client:
            return None
        refusals = [e for e in self.history.of(kinds.Stopped) if e.kind == End.SETTINGS]
        sent = next(self.history.of(kinds.Sent, kinds.Stored, kinds.Recorded), None)
        if not refusals:
            return "the client was expected to refuse these settings and did not"
        return (
            "the client refused the settings, but something was sent all the same" if sent else None
        )

    def _unknown_proof(self) -> str | None:
        """Name a proof that the plan asks for and that is not known."""
        unknown = [name for name in self.plan.proofs if name not in self._knowledge.proofs]
        return (
            (
                "the plan asks for a proof of the fault that lostack does not know: "
                f"{', '.join(unknown)}"
            )
            if unknown
            else None
        )

    def _unknown_sign(self) -> str | None:
        """Name a sign that the plan asks for and that is not known."""
        sign = self.plan.sign
        known = sign is None or self._signs.named(sign) is not None
        return (
            None
            if known
            else f"the plan asks for a sign of protection that lostack does not know: {sign}"
        )

    def _unproved(self) -> str | None:
        """Say which of the fault's declared proofs the history does not show."""
        if self.fired_at is None:
            return None
        proofs = (
            self._knowledge.proofs[name](**fields) for name, fields in self.plan.proofs.items()
        )
        return next((trouble for proof in proofs if (trouble := proof.trouble(self))), None)

    def _healed(self) -> str | None:
        if self.fired_at is None or self.healed_at is not None:
            return None
        return "the fault was never healed"

    def _load(self) -> str | None:
        if self.load is None or self.plan.refused_by_client:
            return None
        first, last = self._ends_of_source()
        if not self.load.before and self.plan.target != first:
            return "there was no load before the fault"
        if self.plan.target == last:
            return None
        if not self.plan.stops and not self.load.after and not self._hangs():
            return "there was no load after the fault"
        return None

    def _ends_of_source(self) -> tuple[str | None, str | None]:
        """Return the first and the last record: no load can come before the one, or after the
        other.
        """
        at = {e.position: e.record for e in self.history.of(kinds.Offered)}
        return (at[min(at)], at[max(at)]) if at else (None, None)

    def _hangs(self) -> bool:
        """Whether records wait after the fault, the programs that should move them are alive, and
        nothing moves.

        That counts as load without progress. If nothing waits, or a program is gone, there was no
        load. If a supervisor has seen that a program does not come back, that is why nothing moves.
        """
        if self.drain and self.drain.phase == DrainPhase.FAILED and self.drain.at_once:
            return True
        return self.stuck() is not None and bool(self.waiting) and self._health.all_live()

    def _cut_short(self) -> str | None:
        if self.plan.refused_by_client:
            return None
        if self.drain is None or self.drain.phase == DrainPhase.BEGUN:
            return "the run was cut short before the drain had ended"
        if not any(event.phase == CellPhase.OBSERVED for event in self.history.of(kinds.Cell)):
            return "the run was cut short before all authorities had been asked"
        return None

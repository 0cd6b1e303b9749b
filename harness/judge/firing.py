"""The firing of a fault: whether its trigger was hit, where and at which record, and which
processes were killed or paused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model import events as kinds
from harness.model.events import DrainPhase, FaultPhase, NodePhase, RulePhase
from harness.model.struck import RULE, first_at

if TYPE_CHECKING:
    from harness.model.history import History
    from harness.model.plan import Plan
    from harness.model.scenario import Role

SIGKILL = 9
TRIGGERS: Final[dict[type[kinds.Event], str]] = {
    kinds.Rule: "rule",
    kinds.Failpoint: "failpoint",
    kinds.Durable: "durable write",
}
"""What can hit a fault's trigger, by its kind of event, in words."""
Hit: TypeAlias = kinds.Rule | kinds.Failpoint | kinds.Durable
"""What hits a fault's trigger."""


class Firing:
    """What the history proves about the trigger and its victims."""

    def __init__(self, plan: Plan, history: History, drain: kinds.Drain | None) -> None:
        self.plan = plan
        self.history = history
        self.drain = drain
        self.hits: list[Hit] = [
            e for e in history.of(kinds.Rule, kinds.Failpoint, kinds.Durable) if _is_hit(e)
        ]
        fired = next((e for e in history.of(kinds.Fault) if e.phase == FaultPhase.FIRED), None)
        own = [e for e in self.hits if not isinstance(e, kinds.Rule) or e.rule == RULE]
        self.fired_at: int | None = (
            min(e.t for e in (fired, *(own or self.hits))) if fired else None
        )
        """When the trigger was hit, by the wire or the program. (The runner learns of it a little
        later.)

        A rule that only holds another process may be hit before.
        """

    def misfire(self) -> str | None:
        """Say how the trigger's hits differ from the declaration: none, at another place, or too
        many; or return ``None``.
        """
        evidence = self.plan.evidence
        if self.plan.refused_by_client or evidence.trigger == "none":
            return None
        if self.fired_at is None:
            return "the fault did not fire"
        by: dict[str, type[Hit]] = {
            "rule": kinds.Rule,
            "failpoint": kinds.Failpoint,
            "durable": kinds.Durable,
        }
        kind = by[evidence.trigger]
        hits = [e for e in self.hits if isinstance(e, kind)]
        if not hits:
            return f"the history says that the fault fired, but no {TRIGGERS[kind]} was hit"
        if evidence.at_target and not any(
            _names(hit, self.plan.target) for hit in (self.hits if evidence.approached else hits)
        ):
            return f"the fault fired at another record than its target {self.plan.target}"
        return self._hit_otherwise(hits)

    def _hit_otherwise(self, hits: list[Hit]) -> str | None:
        """Say how the trigger was hit at another durable write, or too often."""
        if other := self._at_another_write(hits):
            return other
        for kind, most in self._most_hits().items():
            if (count := sum(isinstance(e, kind) for e in self.hits)) > most:
                return (
                    f"the {TRIGGERS[kind]} may be hit at most {most} times, but was hit {count} "
                    "times"
                )
        return None

    def _at_another_write(self, hits: list[Hit]) -> str | None:
        """Say that a thread was held at another durable write than was armed, or in
        another stage.
        """
        need = self.plan.evidence
        for hit in hits:
            if isinstance(hit, kinds.Durable) and (
                _write(hit) != need.write or hit.role not in need.killed
            ):
                return (
                    f"the {hit.role} was held {_write(hit)}, instead of the "
                    f"{need.killed[0]} {need.write}"
                )
        return None

    def _most_hits(self) -> dict[type[Hit], int]:
        """How often each kind of trigger may be hit: a failpoint or a write once, rules as often as
        they were armed for.

        (No limit: ever.)
        """
        armed = (
            e
            for e in self.history.of(kinds.Rule)
            if e.phase == RulePhase.ARMED and e.rule not in kinds.WAVES
        )
        limits = [e.limit for e in armed]
        known = [limit for limit in limits if limit is not None]
        rules = sum(known) if len(known) == len(limits) else len(self.hits)
        evidence, trigger = self.plan.evidence, self.plan.evidence.trigger
        failpoints = trigger == "failpoint" or (trigger == "rule" and evidence.approached)
        return {
            kinds.Rule: max(rules, int(trigger == "rule")),
            kinds.Failpoint: int(failpoints),
            kinds.Durable: int(trigger == "durable"),
        }

    @property
    def lives(self) -> list[kinds.Node]:
        """Events of processes between the hit of the trigger and the end of the drain."""
        since = self.fired_at
        return [
            e
            for e in self.history.of(kinds.Node)
            if since is not None and e.t >= since and not self.drained_before(e)
        ]

    @property
    def killed(self) -> list[kinds.Node]:
        """Events of the processes that were killed by SIGKILL between the hit and the end of the
        drain.
        """
        return [
            e
            for e in self.lives
            if e.phase == NodePhase.EXITED and e.signal == SIGKILL and not e.asked
        ]

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed."""
        return first_at(self.history, FaultPhase.HEALED)

    def victims(self) -> str | None:
        """Name a process that the fault had to kill, pause or end and did not, or one that it hit
        by mistake.
        """
        if self.fired_at is None:
            return None
        lives = self.lives
        need = self.plan.evidence
        struck = {e.role for e in self.killed}
        killed = need.killed + tuple(role for role in need.may_kill if role in struck)
        told = [e for e in lives if e.phase == NodePhase.TOLD]
        paused = [e for e in lives if e.phase == NodePhase.PAUSED]
        if trouble := (
            self._other_than(self.killed, killed, "killed")
            or self._lived_on()
            or self._other_than(paused, need.paused, NodePhase.PAUSED)
            or self._other_than(told, need.told, "told to end")
        ):
            return trouble
        awake = {e.node for e in lives if e.phase == NodePhase.RESUMED}
        asleep = sorted({str(e.node) for e in paused} - awake)
        return f"{asleep[0]} was paused and never woke up" if asleep else None

    def _lived_on(self) -> str | None:
        """Name the role whose process had to end by itself and did not."""
        alive = [role for role in self.plan.evidence.ended if not self.meant(role)]
        return f"the fault fired, but the {alive[0]} did not end by itself" if alive else None

    def meant(self, role: object) -> list[kinds.Node]:
        """Return the one event in which a process of this role ended by itself with an error, as
        the fault requires.
        """
        if role not in self.plan.evidence.ended or self.fired_at is None:
            return []
        ends = (
            e for e in self.history.of(kinds.Node) if e.phase == NodePhase.EXITED and e.role == role
        )
        return [e for e in ends if e.t >= (self.fired_at or 0) and e.status and not e.asked][:1]

    def _other_than(
        self, seen: list[kinds.Node], wanted: tuple[Role, ...], what: str
    ) -> str | None:
        """Say how the processes that were killed (or paused) differ from the declared ones, or
        return ``None``.
        """
        roles = Counter(e.role for e in seen)
        if missing := sorted(set(wanted) - set(roles)):
            return f"the fault fired, but the {missing[0]} was not {what}"
        if others := sorted(str(role) for role in set(roles) - set(wanted)):
            return f"the wrong process was {what}: the {others[0]}"
        if again := sorted(role for role in wanted if roles[role] > wanted.count(role)):
            return f"the {again[0]} was {what} {roles[again[0]]} times"
        at = self._hit_process()
        if at and at[0] in wanted and not any(_is_process(e, at) for e in seen):
            return f"the trigger was hit in {at[1]}, but another {at[0]} was {what}"
        return None

    def _hit_process(self) -> tuple[str, str, int | None] | None:
        """Role, node and (of a failpoint, or a write) process id of what hit the trigger; ``None``
        where nobody says.
        """
        name = next(
            (e.node for e in self.history.of(kinds.Fault) if e.phase == FaultPhase.FIRED), None
        )
        pid = next((e.pid for e in self.hits if not isinstance(e, kinds.Rule)), None)
        lives = [e for e in self.history.of(kinds.Node) if e.node == name]
        pid = next((e.of for e in lives if e.phase == NodePhase.JOINED and e.pid == pid), pid)
        if pid is None and any(
            e.of is not None and e.phase in (NodePhase.EXITED, NodePhase.PAUSED) for e in lives
        ):
            # one process of several was crashed: the one whose connection it was, or the wrong one
            pid = self._owner()
        return (str(lives[0].role), str(name), pid) if name is not None and lives else None

    def _owner(self) -> int | None:
        """Return the process whose connection the trigger was hit on, where that was asked of the
        kernel.
        """
        rules = [e for e in self.hits if isinstance(e, kinds.Rule)]
        conns = {e.conn for e in [e for e in rules if e.rule == RULE] or rules} - {None}
        return next((e.pid for e in self.history.of(kinds.Owner) if e.conn in conns), None)

    def drained_before(self, event: kinds.Event) -> bool:
        """Say whether an event came after the drain. A process that the harness ends after the
        drain is no victim.
        """
        return (
            self.drain is not None
            and self.drain.phase != DrainPhase.BEGUN
            and event.t > self.drain.t
        )


def given_up(history: History) -> str | None:
    """Say what the fault needed, and what never came; ``None``: nobody gave it up."""
    faults = history.of(kinds.Fault)
    return next((e.because for e in faults if e.phase == FaultPhase.GIVEN_UP), None)


def _is_hit(event: Hit) -> bool:
    """Whether a line says that a trigger of the fault was hit. A rule that holds back the load is
    none of its triggers.
    """
    return not isinstance(event, kinds.Rule) or (
        event.phase == RulePhase.HIT and event.rule not in kinds.WAVES
    )


def _write(event: kinds.Durable) -> str:
    """The durable write at which a thread was held, as :class:`~harness.model.writes.Point` spells
    it.
    """
    return f"{event.side} {event.call} {event.occurrence}"


def _names(event: Hit, record: str) -> bool:
    """Whether a hit is about a record: what the frame held counts, not what the rule says it looked
    for.
    """
    if isinstance(event, kinds.Durable):
        return False
    found = event.records if isinstance(event, kinds.Rule) else None
    return event.record == record if found is None else record in found


def _is_process(event: kinds.Node, hit: tuple[str, str, int | None]) -> bool:
    _, name, pid = hit
    return event.node == name and (pid is None or event.pid == pid)

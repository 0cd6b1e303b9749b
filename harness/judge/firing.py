"""The firing of a fault: whether its trigger was hit, where and at which record, and which
processes were killed or paused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.model.history import Event, History
    from harness.model.plan import Plan
    from harness.model.scenario import Role

SIGKILL = 9
TRIGGERS = {kinds.RULE: "rule", kinds.FAILPOINT: "failpoint", kinds.DURABLE: "durable write"}
"""What can hit a fault's trigger, by its kind of event, in words."""


class Firing:
    """What the history proves about the trigger and its victims."""

    def __init__(self, plan: Plan, history: History, drain: Event | None) -> None:
        self.plan = plan
        self.history = history
        self.drain = drain
        self.hits = [
            e for e in history.of(kinds.RULE, kinds.FAILPOINT, kinds.DURABLE) if _is_hit(e)
        ]
        fired = next((e for e in history.of(kinds.FAULT) if e.get("phase") == "fired"), None)
        own = [e for e in self.hits if e.get("rule", "fault") == "fault"]
        self.fired_at: int | None = (
            min(e["t"] for e in (fired, *(own or self.hits))) if fired else None
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
        kind = {"rule": kinds.RULE, "failpoint": kinds.FAILPOINT, "durable": kinds.DURABLE}[
            evidence.trigger
        ]
        hits = [e for e in self.hits if e["event"] == kind]
        if not hits:
            return f"the history says that the fault fired, but no {TRIGGERS[kind]} was hit"
        if evidence.at_target and not any(
            _names(hit, self.plan.target) for hit in (self.hits if evidence.approached else hits)
        ):
            return f"the fault fired at another record than its target {self.plan.target}"
        return self._hit_otherwise(hits)

    def _hit_otherwise(self, hits: list[Event]) -> str | None:
        """Say how the trigger was hit at another durable write, or too often."""
        if other := self._at_another_write(hits):
            return other
        for kind, most in self._most_hits().items():
            if (count := sum(e["event"] == kind for e in self.hits)) > most:
                return (
                    f"the {TRIGGERS[kind]} may be hit at most {most} times, but was hit {count} "
                    "times"
                )
        return None

    def _at_another_write(self, hits: list[Event]) -> str | None:
        """Say that a thread was held at another durable write than was armed, or in
        another stage.
        """
        need = self.plan.evidence
        for hit in hits:
            if hit["event"] == kinds.DURABLE and (
                _write(hit) != need.write or hit.get("role") not in need.killed
            ):
                return (
                    f"the {hit.get('role')} was held {_write(hit)}, instead of the "
                    f"{need.killed[0]} {need.write}"
                )
        return None

    def _most_hits(self) -> dict[str, int]:
        """How often each kind of trigger may be hit: a failpoint or a write once, rules as often as
        they were armed for.

        (No limit: ever.)
        """
        armed = (
            e
            for e in self.history.of(kinds.RULE)
            if e.get("phase") == "armed" and e.get("rule") not in kinds.WAVES
        )
        limits = [e.get("limit", 1) for e in armed]
        rules = len(self.hits) if None in limits else sum(limits)
        evidence, trigger = self.plan.evidence, self.plan.evidence.trigger
        failpoints = trigger == "failpoint" or (trigger == "rule" and evidence.approached)
        return {
            kinds.RULE: max(rules, int(trigger == "rule")),
            kinds.FAILPOINT: int(failpoints),
            kinds.DURABLE: int(trigger == "durable"),
        }

    @property
    def lives(self) -> list[Event]:
        """Events of processes between the hit of the trigger and the end of the drain."""
        since = self.fired_at
        return [
            e
            for e in self.history.of(kinds.NODE)
            if since is not None and e["t"] >= since and not self.drained_before(e)
        ]

    @property
    def killed(self) -> list[Event]:
        """Events of the processes that were killed by SIGKILL between the hit and the end of the
        drain.
        """
        return [
            e
            for e in self.lives
            if e.get("phase") == "exited" and e.get("signal") == SIGKILL and not e.get("asked")
        ]

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed."""
        return next(
            (e["t"] for e in self.history.of(kinds.FAULT) if e.get("phase") == "healed"), None
        )

    def victims(self) -> str | None:
        """Name a process that the fault had to kill, pause or end and did not, or one that it hit
        by mistake.
        """
        if self.fired_at is None:
            return None
        lives = self.lives
        told = [e for e in lives if e.get("phase") == "told"]
        paused = [e for e in lives if e.get("phase") == "paused"]
        if trouble := (
            self._other_than(self.killed, self.plan.evidence.killed, "killed")
            or self._lived_on()
            or self._other_than(paused, self.plan.evidence.paused, "paused")
            or self._other_than(told, self.plan.evidence.told, "told to end")
        ):
            return trouble
        awake = {e.get("node") for e in lives if e.get("phase") == "resumed"}
        asleep = sorted({str(e.get("node")) for e in paused} - awake)
        return f"{asleep[0]} was paused and never woke up" if asleep else None

    def _lived_on(self) -> str | None:
        """Name the role whose process had to end by itself and did not."""
        alive = [role for role in self.plan.evidence.ended if not self.meant(role)]
        return f"the fault fired, but the {alive[0]} did not end by itself" if alive else None

    def meant(self, role: object) -> list[Event]:
        """Return the one event in which a process of this role ended by itself with an error, as
        the fault requires.
        """
        if role not in self.plan.evidence.ended or self.fired_at is None:
            return []
        ends = (
            e
            for e in self.history.of(kinds.NODE)
            if e.get("phase") == "exited" and e.get("role") == role
        )
        return [
            e
            for e in ends
            if e["t"] >= (self.fired_at or 0) and e.get("status") and not e.get("asked")
        ][:1]

    def _other_than(self, seen: list[Event], wanted: tuple[Role, ...], what: str) -> str | None:
        """Say how the processes that were killed (or paused) differ from the declared ones, or
        return ``None``.
        """
        roles = Counter(e.get("role") for e in seen)
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
            (e.get("node") for e in self.history.of(kinds.FAULT) if e.get("phase") == "fired"), None
        )
        pid = next((e.get("pid") for e in self.hits if e["event"] != kinds.RULE), None)
        lives = [e for e in self.history.of(kinds.NODE) if e.get("node") == name]
        pid = next(
            (e.get("of") for e in lives if e.get("phase") == "joined" and e.get("pid") == pid), pid
        )
        if pid is None and any(
            e.get("of") is not None and e.get("phase") in ("exited", "paused") for e in lives
        ):
            # one process of several was crashed: the one whose connection it was, or the wrong one
            pid = self._owner()
        return (str(lives[0].get("role")), str(name), pid) if name is not None and lives else None

    def _owner(self) -> int | None:
        """Return the process whose connection the trigger was hit on, where that was asked of the
        kernel.
        """
        conns = {e["conn"] for e in self.hits if e.get("conn") is not None}
        return next((e["pid"] for e in self.history.of(kinds.OWNER) if e["conn"] in conns), None)

    def drained_before(self, event: Event) -> bool:
        """Say whether an event came after the drain. A process that the harness ends after the
        drain is no victim.
        """
        return (
            self.drain is not None
            and self.drain.get("phase") != "begun"
            and event["t"] > self.drain["t"]
        )


def _is_hit(event: Event) -> bool:
    """Whether a line says that a trigger of the fault was hit. A rule that holds back the load is
    none of its triggers.
    """
    return event["event"] != kinds.RULE or (
        event.get("phase") == "hit" and event.get("rule") not in kinds.WAVES
    )


def _write(event: Event) -> str:
    """The durable write at which a thread was held, as :class:`~harness.model.writes.Point` spells
    it.
    """
    return f"{event.get('side')} {event.get('call')} {event.get('occurrence')}"


def _names(event: Event, record: str) -> bool:
    """Whether a hit is about a record: what the frame held counts, not what the rule says it looked
    for.
    """
    found = event.get("records")
    return event.get("record") == record if found is None else record in found


def _is_process(event: Event, hit: tuple[str, str, int | None]) -> bool:
    _, name, pid = hit
    return event.get("node") == name and (pid is None or event.get("pid") == pid)

"""The verdict: what an account means for a promise. The order of the rules is section 3 of the design.

What stands against a run is of two kinds. An unsound *instrument* has not seen what there was: nothing is judged. An unsound
*experiment* was seen well, and proves nothing of its fault: what is forbidden and was seen all the same is a broken promise,
though not by this fault, and nothing else is.

Two deviations, with their reasons. A missing *sign* of protection voids only a cell that would otherwise be kept: a client that
loses a record because it never repeated its request shows no sign either, and that is a broken promise, not a void run. And where
a fault had not the effect that was predicted, but another one that is forbidden, nobody says that it was not this fault's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.core import engine, network
from harness.core import events as kinds
from harness.core.batches import batch_selections
from harness.core.crosschecks import contradiction as crosscheck
from harness.core.growth import growth_selections, ungrown
from harness.core.movement import Movement, movement_of
from harness.core.prediction import Permitted, Prediction, Select, examples
from harness.core.replication import lapsed, not_elected, not_rolled, replication_selections, spared, unmoved, wrong_part
from harness.core.rollback import Rollback, rollback_of
from harness.core.semantics import PROMISES, Anomaly
from harness.core.states import LastHop, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.core.accounting import Account
    from harness.core.history import Event, History
    from harness.core.plan import Plan
    from harness.core.scenario import Role

SIGKILL = 9
SIGTERM = 15
DUPLICATE_SEQUENCE = 46
"""What a broker answers to a batch that it has, and does not find among the last ones."""
UNSURE = ("patience", "learnt")
"""Why a drain has rested where something was missing, or not acknowledged, and nothing was known to be on its way."""
LONG_S = 1.0
"""A silence that is worth a word, where something came after it."""
UNCLEAN = "unclean"
"""How the reason begins where a run without a fault shows what its claim permits, and nobody expects."""
TRIGGERS = {kinds.RULE: "rule", kinds.FAILPOINT: "failpoint", kinds.DURABLE: "durable write"}
"""What can hit a fault's trigger, by its kind of event, in words."""
ENDED = 128 + SIGTERM
"""The exit status of a JVM that was asked to end, and did."""


class Kind(StrEnum):
    """The four verdicts."""

    KEPT = "kept"
    BROKEN = "broken"
    STUCK = "stuck"
    VOID = "void"


WORST: tuple[Kind, ...] = (Kind.BROKEN, Kind.VOID, Kind.STUCK, Kind.KEPT)
"""From worst to best: the order in which verdicts are merged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict with its one causal sentence. ``green``: kept, or a control convicted as predicted.

    ``stops``: what the control must be convicted of is that it is stuck, not that it is broken. ``by_fault``: false where a
    promise is broken in a run that proves nothing of its fault. ``effect``: false where a fault that anything was permitted of
    harmed no record and left no trace on its target: the promise was kept, and nobody saw what it was kept against.
    """

    kind: Kind
    reason: str
    control: bool = False
    as_predicted: bool = True
    fired: int = 0
    stops: bool = False
    by_fault: bool = True
    effect: bool = True

    @property
    def green(self) -> bool:
        """Whether the cell is a success."""
        if self.control:
            return self.kind is (Kind.STUCK if self.stops else Kind.BROKEN) and self.as_predicted and self.by_fault
        return self.kind is Kind.KEPT

    @property
    def label(self) -> str:
        """The word for people: ``convicted`` for a control that was."""
        if not self.control:
            return str(self.kind)
        if self.green:
            return "convicted"
        # a run that proves nothing acquits nobody, and what breaks in it has not been convicted either
        acquitted = self.kind is Kind.KEPT or (self.kind is Kind.BROKEN and self.by_fault)
        return "not convicted" if acquitted else str(self.kind)


@dataclass(frozen=True)
class Judgement:
    """Everything about one judged cell."""

    plan: Plan
    account: Account
    verdict: Verdict
    rollback: Rollback | None = None
    """What became of the state of a streaming query, where it has one and its driver was replaced."""
    movement: Movement = field(default_factory=Movement)
    """What is told beside the counts."""


def merge(verdicts: list[Kind]) -> Kind:
    """Merge verdicts by worst.

    >>> merge([Kind.KEPT, Kind.VOID, Kind.STUCK])
    <Kind.VOID: 'void'>
    """
    return min(verdicts, key=WORST.index)


def unjudged(plan: Plan, because: str) -> Judgement:
    """Return the void judgement of a cell that has no readable history."""
    from harness.core.accounting import account  # noqa: PLC0415 - pandas takes a second, and many a command judges nothing

    return Judgement(plan, account(()), Verdict(Kind.VOID, because, plan.control, as_predicted=False))


def judge(plan: Plan, history: History) -> Judgement:
    """Account for a history and judge it."""
    from harness.core.accounting import account  # noqa: PLC0415

    found = account(history.events)
    return Judgement(plan, found, verdict_of(plan, history, found), rollback_of(history), movement_of(history))


def verdict_of(plan: Plan, history: History, found: Account) -> Verdict:
    """Apply the rules in their order; the first that matches is the verdict."""
    proof = Proof(plan, history, found)
    fired = 1 if proof.fired_at is not None and proof.misfire() is None else 0
    told = batch_selections(history, plan.target) | replication_selections(history, plan.target) | growth_selections(history)
    select = plan.select | told
    contradiction = _contradiction(plan, found, select)
    blind = proof.instrument()
    objection = None if blind else proof.experiment()
    # a control is convicted by a sound run, of what is predicted and of nothing else
    moving = proof.goes_on() if plan.stands else proof.stuck() or proof.unrest() or proof.unhealthy_after()
    unsound = blind or objection or moving
    as_predicted = contradiction is None and not unsound and _anomalies(found) == frozenset(plan.also)
    rules: tuple[tuple[Kind, Callable[[], str | None]], ...] = (
        (Kind.VOID, lambda: blind),
        (Kind.BROKEN, lambda: _forbidden(plan, history, found)),
        (Kind.BROKEN, lambda: _lost(plan, history, found, proof.drain) if proof.drained() else None),
        (Kind.VOID, lambda: objection),
        (Kind.VOID, lambda: _no_effect(plan, found, select)),
        (Kind.STUCK, proof.stuck),
        (Kind.VOID, proof.unrest),
        (Kind.VOID, proof.unhealthy_after),
        (Kind.VOID, lambda: _nothing_arrived(plan, found)),
        (Kind.VOID, lambda: _no_sign(plan, found)),
        (Kind.VOID, lambda: contradiction),
    )
    for kind, rule in rules:
        reason = rule()
        if reason is not None:
            if kind is Kind.BROKEN:
                beside = (contradiction, None if objection else proof.unhealthy_after())
                reason = "; ".join(text for text in (_astray(reason, objection), *beside) if text)
            elif kind is Kind.VOID and (slow := lapsed(history)):
                reason = f"{reason}; {slow}"
            by_fault = kind is not Kind.BROKEN or objection is None
            return Verdict(kind, reason, plan.control, as_predicted, fired, plan.stands, by_fault)
    effect = not _anything_goes(plan) or bool(_missing(plan, found) or found.duplicated or _effects(plan, history, found))
    return Verdict(
        Kind.KEPT, _kept(plan, history, found, proof.drain), plan.control, as_predicted, fired, plan.stands, effect=effect
    )


def _astray(reason: str, objection: str | None) -> str:
    """Say of a promise that is broken why that shows nothing of the fault, where it does not."""
    return reason if objection is None else f"though not by this fault ({objection}): {reason}"


class Proof:
    """What the history proves about the run itself: that the fault fired, where, at what, and that it was drained."""

    def __init__(self, plan: Plan, history: History, found: Account) -> None:
        self.plan = plan
        self.history = history
        self._found = found
        self.waiting = found.left - {plan.target}
        """What was offered to the pipeline, beside the target, and waits in it at the end."""
        self.hits = [e for e in history.of(kinds.RULE, kinds.FAILPOINT, kinds.DURABLE)
                     if e["event"] != kinds.RULE or e.get("phase") == "hit"]  # fmt: skip
        fired = next((e for e in history.of(kinds.FAULT) if e.get("phase") == "fired"), None)
        own = [e for e in self.hits if e.get("rule", "fault") == "fault"]
        self.fired_at: int | None = min(e["t"] for e in (fired, *(own or self.hits))) if fired else None
        """When the trigger was hit; the runner, which says so, learns of it a little later.

        A rule that only holds somebody else may be hit before."""
        self.drain: Event | None = None
        for event in history.of(kinds.DRAIN):
            self.drain = event

    def instrument(self) -> str | None:
        """Say why the instrument has not seen what there was, or ``None``: then nothing is judged, whatever was seen."""
        checks = (
            self._failed_early, self._unreadable, self._strangers, self._survivors, self._cut_short, self._source_trouble,
            self._asked_too_early, lambda: crosscheck(self.plan, self.history),
        )  # fmt: skip
        return next((reason for check in checks if (reason := check())), None)

    def experiment(self) -> str | None:
        """Say why the run proves nothing of its fault, or ``None``: what was seen is there all the same."""
        checks = (
            self._failure, self._refusal, self.misfire, self._victims, self._input, self._healed, self._network, self._engine,
            self._unhealthy_before, self._load,
        )  # fmt: skip
        return next((reason for check in checks if (reason := check())), None)

    def drained(self) -> bool:
        """Whether a drain has completed that can be believed: then what is not there is not late, but lost."""
        return self.drain is not None and self.drain.get("phase") == "completed" and self.unrest() is None

    def stuck(self) -> str | None:
        """Say which stage stopped, where the drain failed."""
        if self.drain and self.drain.get("phase") == "failed":
            ended = "".join(f"; {e['by']} had ended: {kinds.last_words(e.get('because'))}" for e in self._gave_up())
            gone = (e for e in self.history.of(kinds.NODE) if e.get("phase") == "gone" and not self._drained_before(e))
            ended += "".join(f"; process {e['pid']} ({e['command']}) of the {e['node']} had ended by itself" for e in gone)
            how = "it cannot go on" if self.drain.get("at_once") else "no progress until the deadline"
            return f"{how}: {self.drain.get('stage')}: {self.drain.get('because')}{ended}"
        return None

    def _gave_up(self) -> Iterator[Event]:
        """The programs that ended by an error of their own after the fault, before the drain was given up."""
        ends = (e for e in self.history.of(kinds.STOPPED) if e.get("kind") == "error" and e["t"] > (self.fired_at or 0))
        return (e for e in ends if not self._drained_before(e))

    def goes_on(self) -> str | None:
        """Say how what was to stop has not: it went on, or it stopped without the word it was to say."""
        if not self.stuck():
            return "it was to stop, and went on"
        if self.plan.stops is None:
            return None
        why = self.plan.stops
        return None if any(why in str(e.get("because")) for e in self._gave_up()) else f"it stopped, and no program said {why}"

    def unrest(self) -> str | None:
        """Say what moves, or could, after a drain that is said to have completed: a copy on its way is a duplicate to come."""
        if self.plan.refused_by_client or self.drain is None:
            return None
        checks = (self._left_behind, self._source_goes_on, self._log_goes_on, self._sink_goes_on)
        return next((reason for check in checks if (reason := check())), None)

    def _left_behind(self) -> str | None:
        rest = self._found.counts["left"] + self._found.counts["stalled"]
        return f"the drain is said to have completed, and {rest} records are left behind" if rest else None

    def _asked_too_early(self) -> str | None:
        if self.plan.refused_by_client:
            return None
        end = self.drain["t"] if self.drain else 0
        early = next((e for e in self.history.of(*kinds.AUTHORITIES) if e["t"] < end), None)
        return f"an authority was asked before the drain had ended ({early['event']})" if early else None

    def _source_goes_on(self) -> str | None:
        position = max((e["position"] for e in self.history.of(kinds.CURSOR)), default=None)
        last = max((e["position"] for e in self.history.of(kinds.OFFERED)), default=0)
        if position is None or position > last:
            return None
        return f"the drain is said to have completed, and the source's cursor is at {position} of {last}"

    def _log_goes_on(self) -> str | None:
        """An open transaction, a visible copy at or above the saved position, or a log that nobody asked for its ends."""
        said = "the drain is said to have completed, and"
        logs = {_log_of(e): e for e in self.history.of(kinds.LOG)}
        saved = {e["partition"]: e["offset"] for e in self.history.of(kinds.POSITION)}
        for name, log in logs.items():
            if log["stable"] < log["end"]:
                return f"{said} {name} has an open transaction: last stable offset {log['stable']}, end {log['end']}"
        for copy in self.history.of(kinds.STORED):
            if copy.get("offset") is None:
                continue  # it stands in a queue: what it waits for is counted
            name, offset = _log_of(copy), copy["offset"]
            if name not in logs:
                return f"{name} holds copies, and its ends were not asked for"
            if copy["hop"] == "topic" and copy["visible"] and offset >= saved.get(copy["partition"], -1):
                return f"{said} {name} has a record at {offset}: the saved position is {saved.get(copy['partition'], 'none')}"
        return self._replica_goes_on({(log["topic"], log["partition"]): int(log["end"]) for log in logs.values()})

    def _replica_goes_on(self, ends: Mapping[tuple[str, int], int]) -> str | None:
        """A copy in the files of a broker that was above the high watermark: nobody could be given it yet."""
        for copy in self.history.of(kinds.REPLICA):
            end = ends.get((copy["topic"], copy["partition"]))
            if end is not None and copy["offset"] >= end:
                where = f"{copy['topic']}/{copy['partition']} at {copy['offset']}"
                return f"the drain is said to have completed, and {copy['node']} has a record of {where}: the log ends at {end}"
        return None

    def _sink_goes_on(self) -> str | None:
        left = max((int(e.get("open") or 0) for e in self.history.of(kinds.SETTLED)), default=0)
        return f"the sink was read while {left} transactions were open in it" if left else None

    def unhealthy_after(self) -> str | None:
        """Say who ended by itself after the fault, and was not meant to."""
        if self.plan.refused_by_client or self.drain is None:
            return None
        for event in self.history.of(kinds.NODE):
            if event.get("phase") == "exited" and event.get("signal") != SIGKILL and not self._drained_before(event):
                if event.get("status") == 0 or self._supervised(event) or self._replaced(event) or _ended_in_order(event):
                    continue
                was_told = event.get("asked") and event.get("role") in self.plan.evidence.told
                if was_told or event in self._meant(event.get("role")):
                    continue
                return f"{event.get('node')} was not healthy after the fault: {_exit(event)}"
        return None

    def _supervised(self, end: Event) -> bool:
        """Whether a process that ended by itself was started again by a supervisor that the pipeline declares."""
        lives = (e for e in self.history.of(kinds.NODE) if e.get("node") == end.get("node") and e["t"] > end["t"])
        return any(e.get("phase") == "started" and e.get("supervised") is True for e in lives)

    def _replaced(self, end: Event) -> bool:
        """Whether another had taken the place of what ended: it may be told so, and end of it."""
        lives = (e for e in self.history.of(kinds.NODE) if e.get("node") == end.get("node") and e["t"] < end["t"])
        return any(e.get("phase") == "replaced" for e in lives)

    def _failed_early(self) -> str | None:
        """A failure before all authorities had been asked; one behind that takes nothing from what they have said."""
        return self._failure() if self._cut_short() else None

    def _failure(self) -> str | None:
        return next((f"the run failed: {e.get('because')}" for e in self.history.of(kinds.FAILED)), None)

    def _unreadable(self) -> str | None:
        if self.history.damage:
            return f"the history is damaged at {', '.join(self.history.damage[:3])}"
        blind = next(self.history.of(kinds.UNDECODABLE), None)
        return f"the wire could not read {blind.get('api')} v{blind.get('version')}: {blind.get('because')}" if blind else None

    def _strangers(self) -> str | None:
        """Who was connected in the place of a stage, and is none of its processes: nobody kills it, and it takes records."""
        found = next(self.history.of(kinds.STRANGER), None)
        if found is None:
            return None
        who = f"process {found['pid']} ({found['command']})" if found["pid"] else "a process that is not to be seen"
        return (
            f"{who} is connected on the {found['role']}'s route and is none of its processes: end it, or, if another stage's, "
            "give it the address of its own"
        )

    def _survivors(self) -> str | None:
        """What was killed, and lived on."""
        for event in self.history.of(kinds.NODE):
            if event.get("left") and not self._drained_before(event):
                pid, how, command = event["left"][0]
                why = "and nobody can tell whether it is its own" if how == "stray" else "though it is its own"
                return f"process {pid} ({command}) outlived the {event.get('node')}, {why}"
        return None

    def _source_trouble(self) -> str | None:
        """Where the source is not known whole, nobody knows what was lost, nor what was never offered."""
        count = len({event.get("record") for event in self.history.of(kinds.OFFERED)})
        return None if count == self.plan.offered else f"{count} of {self.plan.offered} records were offered"

    def _refusal(self) -> str | None:
        if not self.plan.refused_by_client:
            return None
        refusals = [e for e in self.history.of(kinds.STOPPED) if e.get("kind") == "settings"]
        sent = next(self.history.of(kinds.SENT, kinds.STORED, kinds.RECORDED), None)
        if not refusals:
            return "the client was expected to refuse these settings and did not"
        return "the client refused the settings, and yet something was sent" if sent else None

    def misfire(self) -> str | None:
        """Say how the trigger was not hit as declared: not at all, elsewhere, or too often."""
        evidence = self.plan.evidence
        if self.plan.refused_by_client or evidence.trigger == "none":
            return None
        if self.fired_at is None:
            return "the fault did not fire"
        kind = {"rule": kinds.RULE, "failpoint": kinds.FAILPOINT, "durable": kinds.DURABLE}[evidence.trigger]
        hits = [e for e in self.hits if e["event"] == kind]
        if not hits:
            return f"the fault is said to have fired, but no {TRIGGERS[kind]} was hit"
        if evidence.at_target and not any(_names(hit, self.plan.target) for hit in (self.hits if evidence.approached else hits)):
            return f"the fault fired at another record than its target {self.plan.target}"
        return self._hit_otherwise(hits)

    def _hit_otherwise(self, hits: list[Event]) -> str | None:
        """Say how the trigger was hit at another durable write, or too often."""
        if other := self._at_another_write(hits):
            return other
        for kind, most in self._most_hits().items():
            if (count := sum(e["event"] == kind for e in self.hits)) > most:
                return f"the {TRIGGERS[kind]} was to be hit at most {most} times, and was hit {count} times"
        return None

    def _at_another_write(self, hits: list[Event]) -> str | None:
        """Say who was held at another durable write than was armed, or is another stage than was to die of it."""
        need = self.plan.evidence
        for hit in hits:
            if hit["event"] == kinds.DURABLE and (_write(hit) != need.write or hit.get("role") not in need.killed):
                return f"the {hit.get('role')} was held {_write(hit)}, and not the {need.killed[0]} {need.write}"
        return None

    def _most_hits(self) -> dict[str, int]:
        """How often each kind of trigger may be hit: a failpoint or a write once, rules as often as they were armed for.

        (No limit: ever.)
        """
        limits = [e.get("limit", 1) for e in self.history.of(kinds.RULE) if e.get("phase") == "armed"]
        rules = len(self.hits) if None in limits else sum(limits)
        evidence, trigger = self.plan.evidence, self.plan.evidence.trigger
        failpoints = trigger == "failpoint" or (trigger == "rule" and evidence.approached)
        return {
            kinds.RULE: max(rules, int(trigger == "rule")), kinds.FAILPOINT: int(failpoints),
            kinds.DURABLE: int(trigger == "durable"),
        }  # fmt: skip

    def _victims(self) -> str | None:
        if self.fired_at is None:
            return None
        lives = [e for e in self.history.of(kinds.NODE) if e["t"] >= self.fired_at and not self._drained_before(e)]
        killed = [e for e in lives if e.get("phase") == "exited" and e.get("signal") == SIGKILL and not e.get("asked")]
        told = [e for e in lives if e.get("phase") == "told"]
        paused = [e for e in lives if e.get("phase") == "paused"]
        if trouble := (
            self._other_than(killed, self.plan.evidence.killed, "killed")
            or wrong_part(self.history, self.plan.target, killed)
            or (unmoved(self.history, self.plan.target) if self.plan.evidence.moved else None)
            or (not_elected(self.history, self.plan.target, self.fired_at) if self.plan.evidence.elected else None)
            or self._lived_on()
            or (not_rolled(self.history, self.plan.target, rolled) if (rolled := self.plan.evidence.restarted) else None)
            or (ungrown(self.history, self.plan.target) if self.plan.evidence.grown else None)
            or self._other_than(paused, self.plan.evidence.paused, "paused")
            or self._other_than(told, self.plan.evidence.told, "told to end")
        ):
            return trouble
        awake = {e.get("node") for e in lives if e.get("phase") == "resumed"}
        if asleep := sorted({str(e.get("node")) for e in paused} - awake):
            return f"{asleep[0]} was paused and never woke up"
        return spared(self.history, killed) if self.plan.evidence.forgotten else None

    def _lived_on(self) -> str | None:
        """Say who was to end by itself, and did not."""
        alive = [role for role in self.plan.evidence.ended if not self._meant(role)]
        return f"the fault fired, but the {alive[0]} did not end by itself" if alive else None

    def _meant(self, role: object) -> list[Event]:
        """The one end of a role by itself, with an error, that the fault was to bring about."""
        if role not in self.plan.evidence.ended or self.fired_at is None:
            return []
        ends = (e for e in self.history.of(kinds.NODE) if e.get("phase") == "exited" and e.get("role") == role)
        return [e for e in ends if e["t"] >= (self.fired_at or 0) and e.get("status") and not e.get("asked")][:1]

    def _network(self) -> str | None:
        need = self.plan.evidence.network
        return None if need is None else network.trouble(need, self.history.of(kinds.NETWORK))

    def _engine(self) -> str | None:
        if self.fired_at is None:
            return None
        return engine.trouble(self.plan.evidence.engine, (e for e in self.history.of(kinds.ENGINE) if e["t"] >= self.fired_at))

    def _other_than(self, seen: list[Event], wanted: tuple[Role, ...], what: str) -> str | None:
        """Say how those who were killed (or paused) are not those who were to be: who, how often, and the one that was hit."""
        roles = Counter(e.get("role") for e in seen)
        if missing := sorted(set(wanted) - set(roles)):
            return f"the fault fired, but the {missing[0]} was not {what}"
        if others := sorted(str(role) for role in set(roles) - set(wanted)):
            return f"the wrong process was {what}: the {others[0]}"
        if again := sorted(role for role in wanted if roles[role] > wanted.count(role)):
            return f"the {again[0]} was {what} {roles[again[0]]} times"
        at = self._hit_process()
        if at and at[0] in wanted and not any(_is_process(e, at) for e in seen):
            return f"the fault was hit in {at[1]}, and another {at[0]} was {what}"
        return None

    def _hit_process(self) -> tuple[str, str, int | None] | None:
        """Role, node and (of a failpoint, or a write) process id of what hit the trigger; ``None`` where nobody says."""
        name = next((e.get("node") for e in self.history.of(kinds.FAULT) if e.get("phase") == "fired"), None)
        pid = next((e.get("pid") for e in self.hits if e["event"] != kinds.RULE), None)
        lives = [e for e in self.history.of(kinds.NODE) if e.get("node") == name]
        pid = next((e.get("of") for e in lives if e.get("phase") == "joined" and e.get("pid") == pid), pid)
        if pid is None and any(e.get("of") is not None and e.get("phase") in ("exited", "paused") for e in lives):
            pid = self._owner()  # one process of several was crashed: the one whose connection it was, or the wrong one
        return (str(lives[0].get("role")), str(name), pid) if name is not None and lives else None

    def _owner(self) -> int | None:
        """Return the process whose connection the trigger was hit on, where that was asked of the kernel."""
        conns = {e["conn"] for e in self.hits if e.get("conn") is not None}
        return next((e["pid"] for e in self.history.of(kinds.OWNER) if e["conn"] in conns), None)

    def _input(self) -> str | None:
        """Say how the input that was to end, with all records in it, did not end while the fault lasted."""
        if self.fired_at is None or not self.plan.evidence.input_ended:
            return None
        healed = next((e["t"] for e in self.history.of(kinds.FAULT) if e.get("phase") == "healed"), None)
        ends = list(self.history.of(kinds.INPUT_ENDED))
        meanwhile = [e for e in ends if e["t"] > self.fired_at and (healed is None or e["t"] < healed)]
        if not meanwhile:
            when = f": it ended {'before' if ends[0]['t'] <= self.fired_at else 'later'}" if ends else ""
            return f"the fault fired, but the input did not end while it lasted{when}"
        given = meanwhile[0]["given"]
        return None if given == self.plan.offered else f"the input ended behind {given} of {self.plan.offered} records"

    def _healed(self) -> str | None:
        if self.fired_at is None or any(e.get("phase") == "healed" for e in self.history.of(kinds.FAULT)):
            return None
        return "the fault was never healed"

    def _drained_before(self, event: Event) -> bool:
        """Processes ended by the harness after the drain are no victims."""
        return self.drain is not None and self.drain.get("phase") != "begun" and event["t"] > self.drain["t"]

    def _unhealthy_before(self) -> str | None:
        until = self.fired_at
        for event in self.history.of(kinds.NODE):
            if event.get("phase") != "exited" or (event.get("status") == 0 and event.get("signal") is None):
                continue
            if until is None and (self.plan.refused_by_client or self._drained_before(event)):
                continue
            if until is None or event["t"] < until:
                return f"{event.get('node')} was not healthy before the fault: {_exit(event)}"
        return None

    def _load(self) -> str | None:
        if self.fired_at is None or self.plan.refused_by_client:
            return None
        # what the fault stands at comes again by itself: that is no load
        told = any(True for _ in self.history.of(kinds.DELIVERED, kinds.BATCH))
        seen = () if told else (kinds.FETCHED,)  # a foreign program keeps no ledger: its deliveries are what the wire saw
        moves = [e["t"] for e in self.history.of(kinds.TAKEN, kinds.DELIVERED, kinds.SENT, kinds.BATCH, *seen)
                 if e.get("record") != self.plan.target and e.get("reached") is not False]  # fmt: skip
        if not any(t < self.fired_at for t in moves):
            return "there was no load before the fault"
        if not self.plan.stops and not any(t > self.fired_at for t in moves) and not self._hangs():
            return "there was no load after the fault"
        return None

    def _hangs(self) -> bool:
        """Whether there was something to do after the fault, and nobody did it: records wait, and whoever is to move them lives.

        That is load, and no progress; where nothing waits, or a program is gone, there was none. Where a supervisor has seen that
        a program does not come back, nothing moves for that very reason.
        """
        if self.drain and self.drain.get("phase") == "failed" and self.drain.get("at_once"):
            return True
        last = {e.get("node"): e for e in self.history.of(kinds.NODE) if not self._drained_before(e)}
        gone = any(e.get("phase") == "exited" and e.get("status") != 0 for e in last.values())
        return self.stuck() is not None and bool(self.waiting) and not gone

    def _cut_short(self) -> str | None:
        if self.plan.refused_by_client:
            return None
        if self.drain is None or self.drain.get("phase") == "begun":
            return "the run was cut short before the drain had ended"
        if not any(event.get("phase") == "observed" for event in self.history.of(kinds.CELL)):
            return "the run was cut short before all authorities had been asked"
        return None


def _ended_in_order(event: Event) -> bool:
    """Whether a server ended because it was told to, by itself."""
    return event.get("asked") is True and (event.get("status") == ENDED or event.get("signal") == SIGTERM)


def _write(event: Event) -> str:
    """The durable write at which a thread was held, as :class:`~harness.core.writes.Point` spells it."""
    return f"{event.get('side')} {event.get('call')} {event.get('occurrence')}"


def _names(event: Event, record: str) -> bool:
    """Whether a hit is about a record: what the frame held counts, not what the rule says it looked for."""
    found = event.get("records")
    return event.get("record") == record if found is None else record in found


def _is_process(event: Event, hit: tuple[str, str, int | None]) -> bool:
    _, name, pid = hit
    return event.get("node") == name and (pid is None or event.get("pid") == pid)


def _log_of(event: Event) -> str:
    return f"{event.get('topic')}/{event.get('partition')}"


def _exit(event: Event) -> str:
    if event.get("signal"):
        return f"ended by signal {event['signal']}"
    return f"exit status {event.get('status')}"


def _forbidden(plan: Plan, history: History, found: Account) -> str | None:
    """Say which anomaly other than loss was seen although it is forbidden."""
    for anomaly in (Anomaly.DUPLICATED, Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN):
        count = found.counts[anomaly]
        if count and anomaly in PROMISES[plan.semantic]:
            if anomaly is Anomaly.DUPLICATED:
                return f"{plan.semantic} forbids duplicates: {_duplicates(found)}"
            shown = f", as {text!r}" if anomaly is Anomaly.PHANTOM and (text := _never_offered(history)) is not None else ""
            return f"{count} {anomaly}{shown}, which {plan.semantic} forbids"
    return None


def _never_offered(history: History) -> str | None:
    """Return the first text of what was never offered, in the sink or else in the topic, where it was written down."""
    for kind in (kinds.RECORDED, kinds.STORED):
        for event in history.of(kind):
            if event.get("text") is not None and not event.get("foreign"):
                return str(event["text"])
    return None


def _anomalies(found: Account) -> frozenset[Anomaly]:
    """Which anomalies were seen beside loss and duplicates: those that only a control may predict."""
    return frozenset(a for a in (Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN) if found.counts[a])


def _nothing_arrived(plan: Plan, found: Account) -> str | None:
    """Where nothing at all arrived, no promise was put to the test."""
    if plan.refused_by_client or found.counts["recorded"] or not found.counts["offered"]:
        return None
    return "not one record arrived: a pipeline that does nothing keeps any promise"


def _missing(plan: Plan, found: Account) -> frozenset[str]:
    """The records that are lost, and those that were set aside, where dead letters are no part of the pipeline."""
    return found.lost if plan.dead_letters else found.lost | found.set_aside


def _lost(plan: Plan, history: History, found: Account, drain: Event | None) -> str | None:
    if _missing(plan, found) and Anomaly.LOST in PROMISES[plan.semantic]:
        return "; ".join((f"{plan.semantic} forbids loss: {_losses(found)}", *_unnamed(history), *_rested(drain)))
    return None


def _unnamed(history: History) -> Iterator[str]:
    """Say what stands in the output without an id, if anything does: no result, or one that has lost it."""
    for event in history.of(kinds.UNNAMED):
        rows = "1 row of the output has" if event["count"] == 1 else f"{event['count']} rows of the output have"
        yield f"{rows} no id, as {event['text']!r}"


def _rested(drain: Event | None) -> Iterator[str]:
    """Yield for how long nothing came any more, where something might have: late is not lost."""
    if drain is not None and drain.get("why") in UNSURE:
        gap = f", after a silence of {drain['gap']:.1f} s" if drain["gap"] >= LONG_S else ""
        yield f"rested {drain['rested']:.0f} s{gap}"


def _no_effect(plan: Plan, found: Account, select: dict[Select, frozenset[str]]) -> str | None:
    for name, prediction, seen in _columns(plan, found):
        # in a batch that began with the target, "those before it" are none: the sign has to speak then
        if prediction.must_show() and not seen and _against(prediction, seen, select):
            return f"the fault fired without effect: {name} predicted {prediction.text()}, saw none"
    return None


def _no_sign(plan: Plan, found: Account) -> str | None:
    if plan.sign is None:
        return None
    seen = found.signs(plan.target)
    if plan.sign in seen:
        return None
    others = f" (seen: {', '.join(sorted(seen))})" if seen else ""
    return f"nothing shows that the protection worked: no {plan.sign} for {plan.target}{others}"


def _contradiction(plan: Plan, found: Account, select: dict[Select, frozenset[str]]) -> str | None:
    parts = ((name, _against(prediction, seen, select)) for name, prediction, seen in _columns(plan, found))
    said = [f"{name}: {text}" for name, text in parts if text]
    unclean = "" if plan.evidence.trigger != "none" else f"{UNCLEAN}, for without a fault "
    return f"{unclean}the prediction is contradicted: {'; '.join(said)}" if said else None


def _columns(plan: Plan, found: Account) -> Iterator[tuple[str, Prediction, frozenset[str]]]:
    """What was predicted, and what was seen. What is left counts where something must be: else a drain has to end first."""
    yield "lost", plan.lost, _missing(plan, found)
    yield "duplicated", plan.duplicated, found.duplicated
    if plan.left.must_show():
        yield "left", plan.left, found.left


def _against(prediction: Prediction, seen: frozenset[str], select: dict[Select, frozenset[str]]) -> str | None:
    """Say how the records seen contradict a prediction; one about a set that the history does not tell is contradicted."""
    about = getattr(prediction, "select", None)
    if about is not None and about not in select:
        return f"predicted {prediction.text()}, and nothing says which records those are"
    return prediction.contradiction(seen, select)


def _losses(found: Account) -> str:
    lost = found.records[found.records["state"] == State.LOST]
    hops = [f"{examples(set(part['record']))} {hop}" for hop, part in lost.groupby("last_hop")]
    said = [f"{len(lost)} lost ({'; '.join(hops)})"] if hops else []
    if found.set_aside:
        said.append(f"{len(found.set_aside)} set aside ({examples(found.set_aside)}: nothing is left but dead letters)")
    return "; ".join(said)


def _duplicates(found: Account) -> str:
    counts = found.counts
    ways = [f"{counts[name]} {text}" for name, text in (("stored_twice", "stored twice"), ("delivered_twice", "delivered twice"))
            if counts[name]]  # fmt: skip
    return f"{counts['duplicated']} duplicated ({examples(found.duplicated)}: {', '.join(ways)})"


def _anything_goes(plan: Plan) -> bool:
    """Whether a fault was to strike, and nobody has predicted what comes of it: a pipeline that was declared."""
    permitted = isinstance(plan.lost, Permitted) and isinstance(plan.duplicated, Permitted)
    return permitted and plan.sign is None and plan.evidence.trigger != "none"


def _repeats(history: History, record: str) -> Iterator[str]:
    """Yield what the wire saw more than once of a record; a foreign program says nothing of its attempts."""
    asked = {(e["topic"], e["request"]) for e in history.of(kinds.SENT, kinds.UNSENT) if e["record"] == record}
    if len(asked) > len({topic for topic, _ in asked}):
        yield "sent-again"
    if len([e for e in history.of(kinds.FETCHED) if e["record"] == record]) > 1:
        yield "fetched-again"


def _kept(plan: Plan, history: History, found: Account, drain: Event | None) -> str:
    """The causal sentence of a kept promise."""
    if plan.refused_by_client:
        return "the client refused these settings; nothing was sent"
    counts = found.counts
    parts = [f"{counts['recorded']} of {counts['offered']} recorded"]
    if found.lost or found.set_aside:
        parts.append(_losses(found))
    beside = frozenset(found.records.loc[(found.records["recordings"] > 0) & (found.records["aside"] > 0), "record"])
    if beside:
        parts.append(f"{examples(beside)} recorded, and a copy of it set aside")
    if found.duplicated:
        parts.append(_duplicates(found))
    parts += _unnamed(history)
    if plan.sign:
        parts.append(f"{plan.target} was protected ({plan.sign})")
    elif _anything_goes(plan) and plan.target not in _missing(plan, found) | found.duplicated:
        seen = _effects(plan, history, found)
        if seen:
            parts.append(f"{plan.target}: {', '.join(seen)}")
        elif not (_missing(plan, found) or found.duplicated):
            parts.append(f"no effect was seen on {plan.target}")
    parts += [*_absorbed(history, found), *_held_back(history)] if _anything_goes(plan) else _held_back(history)
    return "; ".join((*parts, *_rested(drain)))


def _effects(plan: Plan, history: History, found: Account) -> list[str]:
    """Return what shows that the fault has met its target, where nothing was predicted of it."""
    return sorted({*map(str, found.signs(plan.target)), *_repeats(history, plan.target)})


def _absorbed(history: History, found: Account) -> Iterator[str]:
    """Say of what was doubled on its way, and is recorded once, who has absorbed that."""
    copies = [e for e in history.of(kinds.STORED) if e["hop"] == "topic" and e["record"] is not None]
    stored, visible = Counter(e["record"] for e in copies), Counter(e["record"] for e in copies if e["visible"])
    taken = _taken(history, {e["topic"] for e in copies})
    once = set(found.records.loc[found.records["recordings"] == 1, "record"])
    by_broker = frozenset(record for record, times in taken.items() if times > 1 == stored[record] and record in once)
    behind = frozenset(record for record, times in visible.items() if times > 1 and record in once)
    if by_broker:
        yield f"{examples(by_broker)} sent twice and stored once: absorbed by the broker, for the producer is idempotent"
    if behind:
        yield f"{examples(behind)} stored twice and recorded once: absorbed by the reader or a key in the output, or lost there"


def _taken(history: History, topics: set[str]) -> Counter[str]:
    """How often a broker has said of each record that it has it, whether that was heard or not."""
    asked = {(e["request"], e["record"]) for e in history.of(kinds.SENT) if e["topic"] in topics}
    told = {(e["request"], e["record"]) for e in history.of(kinds.PRODUCE_ANSWER) if e["error"] in (0, DUPLICATE_SEQUENCE)}
    return Counter(record for _, record in asked & told)


def _held_back(history: History) -> Iterator[str]:
    """Say which readers an open transaction has kept waiting."""
    for event in history.of(kinds.HELD_BACK):
        yield (
            f"for {event['seconds']:.0f} s, at least, readers of {event['log']} with isolation.level=read_committed were given "
            "nothing behind a transaction that was left open (transaction.timeout.ms ends it)"
        )


__all__ = ["Judgement", "Kind", "LastHop", "Proof", "Verdict", "judge", "merge", "unjudged", "verdict_of"]

"""The course of a run: that the fault fired, where and at what, who died of it, and that the run was drained.

All of it is read from the history. What stands against a run is of two kinds: see :mod:`harness.judge.verdict`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.judge.crosschecks import contradiction as crosscheck
from harness.model import events as kinds
from harness.model.places import MOVABLE, UNDECIDED
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.judge.accounting import Account
    from harness.judge.proof import Knowledge
    from harness.judge.signs import Signs
    from harness.model.history import Event, History
    from harness.model.plan import Plan
    from harness.model.scenario import Role

SIGKILL = 9
SIGTERM = 15
TRIGGERS = {kinds.RULE: "rule", kinds.FAILPOINT: "failpoint", kinds.DURABLE: "durable write"}
"""What can hit a fault's trigger, by its kind of event, in words."""
ENDED = 128 + SIGTERM
"""The exit status of a JVM that was asked to end, and did."""


class Course:
    """What the history proves about the run itself."""

    def __init__(self, plan: Plan, history: History, found: Account, signs: Signs, knowledge: Knowledge) -> None:
        self.plan = plan
        self.history = history
        self._knowledge = knowledge
        self._found = found
        self._signs = signs
        self.waiting = found.left - {plan.target}
        """What was offered to the pipeline, beside the target, and waits in it at the end."""
        self.hits = [e for e in history.of(kinds.RULE, kinds.FAILPOINT, kinds.DURABLE) if _is_hit(e)]
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
            self._unknown_proof, self._unknown_sign, self._failed_early, self._unreadable, self._strangers, self._survivors,
            self._cut_short, self._source_trouble, self._asked_too_early, lambda: crosscheck(self.plan, self.history),
        )  # fmt: skip
        return next((reason for check in checks if (reason := check())), None)

    def experiment(self) -> str | None:
        """Say why the run proves nothing of its fault, or ``None``: what was seen is there all the same."""
        checks = (
            self._failure, self._refusal, self.misfire, self._victims, self._unproved, self._healed, self._unhealthy_before,
            self._load,
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
        checks = (self._left_behind, self._source_goes_on, self._log_goes_on, self._queue_goes_on, self._sink_goes_on)
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
        """An open transaction, a visible copy at or above the saved position, or a log that nobody asked for its ends.

        Where a reader was seen to leave a tail, a copy that it was given, and that is recorded, is not on its way.
        """
        said = "the drain is said to have completed, and"
        logs = {_log_of(e): e for e in self.history.of(kinds.LOG)}
        saved = {e["partition"]: e["offset"] for e in self.history.of(kinds.POSITION)}
        tail = self._tail()
        for name, log in logs.items():
            if log["stable"] < log["end"]:
                return f"{said} {name} has an open transaction: last stable offset {log['stable']}, end {log['end']}"
        for copy in self.history.of(kinds.STORED):
            if copy.get("offset") is None:
                continue  # it stands in a queue
            name, offset = _log_of(copy), copy["offset"]
            if name not in logs:
                return f"{name} holds copies, and its ends were not asked for"
            if (name, offset) in tail:
                continue
            if copy["hop"] == "topic" and copy["visible"] and offset >= saved.get(copy["partition"], -1):
                return f"{said} {name} has a record at {offset}: the saved position is {saved.get(copy['partition'], 'none')}"
        return self._replica_goes_on({(log["topic"], log["partition"]): int(log["end"]) for log in logs.values()})

    def _tail(self) -> set[tuple[str, int]]:
        """Log and offset of the copies that a reader was given and has recorded, where it was seen to leave a tail."""
        if self.drain is None or not self.drain.get("tail"):
            return set()
        recorded = {e["record"] for e in self.history.of(kinds.RECORDED)}
        given = (e for e in self.history.of(kinds.FETCHED) if e.get("reached"))
        return {(_log_of(e), e["offset"]) for e in given if e["record"] in recorded}

    def _queue_goes_on(self) -> str | None:
        """A copy that somebody may yet be given, of whatever record, or that an open transaction holds."""
        for copy in self.history.of(kinds.STORED):
            waiting = copy.get("waiting")
            if copy.get("offset") is None and (waiting in UNDECIDED or (copy["hop"] == Hop.TOPIC and waiting in MOVABLE)):
                what = f"a copy of {copy['record']}" if copy["record"] else "a message"
                return f"the drain is said to have completed, and {what} at {copy['place']} waits: {waiting}"
        return None

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
        armed = (e for e in self.history.of(kinds.RULE) if e.get("phase") == "armed" and e.get("rule") not in kinds.WAVES)
        limits = [e.get("limit", 1) for e in armed]
        rules = len(self.hits) if None in limits else sum(limits)
        evidence, trigger = self.plan.evidence, self.plan.evidence.trigger
        failpoints = trigger == "failpoint" or (trigger == "rule" and evidence.approached)
        return {
            kinds.RULE: max(rules, int(trigger == "rule")), kinds.FAILPOINT: int(failpoints),
            kinds.DURABLE: int(trigger == "durable"),
        }  # fmt: skip

    @property
    def lives(self) -> list[Event]:
        """What became of processes from when the trigger was hit until the drain had ended."""
        since = self.fired_at
        return [e for e in self.history.of(kinds.NODE) if since is not None and e["t"] >= since and not self._drained_before(e)]

    @property
    def killed(self) -> list[Event]:
        """The ends, by SIGKILL, of those who were killed meanwhile."""
        return [e for e in self.lives if e.get("phase") == "exited" and e.get("signal") == SIGKILL and not e.get("asked")]

    @property
    def healed_at(self) -> int | None:
        """When the fault was healed."""
        return next((e["t"] for e in self.history.of(kinds.FAULT) if e.get("phase") == "healed"), None)

    def _victims(self) -> str | None:
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

    def _unknown_proof(self) -> str | None:
        """What the fault must have done, and nobody knows how to prove."""
        unknown = [name for name in self.plan.proofs if name not in self._knowledge.proofs]
        return f"nobody knows how to prove what the fault must have done: {', '.join(unknown)}" if unknown else None

    def _unknown_sign(self) -> str | None:
        """What must be seen of the protection, and nobody looks for."""
        sign = self.plan.sign
        known = sign is None or self._signs.named(sign) is not None
        return None if known else f"nobody knows how the sign is seen that the protection must show: {sign}"

    def _unproved(self) -> str | None:
        """Say what the fault must have done besides, and has not, by the proofs that it declares."""
        if self.fired_at is None:
            return None
        proofs = (self._knowledge.proofs[name](**fields) for name, fields in self.plan.proofs.items())
        return next((trouble for proof in proofs if (trouble := proof.trouble(self))), None)

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

    def _healed(self) -> str | None:
        if self.fired_at is None or self.healed_at is not None:
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


def _is_hit(event: Event) -> bool:
    """Whether a line says that a trigger of the fault was hit. A rule that holds back the load is none of its triggers."""
    return event["event"] != kinds.RULE or (event.get("phase") == "hit" and event.get("rule") not in kinds.WAVES)


def _write(event: Event) -> str:
    """The durable write at which a thread was held, as :class:`~harness.model.writes.Point` spells it."""
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

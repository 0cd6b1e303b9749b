"""What a cell rests on: its settings against the baseline, the proof that the fault fired, the
sign, and what to do next.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from harness.judge.health import how_ended
from harness.knowledge import knowledge
from harness.model import events as kinds
from harness.model.events import (
    DrainPhase,
    FaultPhase,
    NetworkPhase,
    NodePhase,
    RulePhase,
    WorkPhase,
)
from harness.report.summary import DECLARED, Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.judge.movement import Movement
    from harness.model.history import Event
    from harness.model.plan import Plan
    from harness.saved import CellResult

E = TypeVar("E", bound=kinds.Event)
MOST_HITS = 5
"""Maximum number of hits of a rule or failpoint that are shown in full."""
NETWORK_COUNTS = {
    "seconds": "seconds",
    "sent": "bytes sent",
    "received": "bytes received",
    "reads": "pieces read",
    "answers": "answers",
    "opened": "connections opened",
    "left": "ended by the client",
    "lost": "ended from the far side",
    "longest_s": "longest wait for an answer in s",
    "rate": "requests answered in bytes/s",
}


def settings_of(plan: Plan) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """Return the settings that differ from the semantic's recipe (name, here, there), and all
    settings by name.

    What the run did not know yet is no difference.
    """
    here = dict(_flat(plan.settings))
    baseline = knowledge().recipes.get(plan.pipeline, {}).get(plan.semantic)
    if baseline is None:  # a pipeline that has no recipe in this version
        return [], here
    there = dict(_flat(dataclasses.asdict(baseline)))
    return [
        (name, here[name], there.get(name, "none"))
        for name in here
        if here[name] != there.get(name)
    ], here


def _flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _word(value)


def _word(value: object) -> str:
    """Write a value as people do.

    >>> _word(True), _word(None), _word("all")
    ('yes', 'none', 'all')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


SAID_OF = (
    "limit",
    "before",
    "after",
    "volume",
    "bytes",
    "address",
    "size",
    "free",
    "status",
    "because",
)


def proof_of(plan: Plan, events: Sequence[Event]) -> list[str]:
    """Return the lines that prove that the fault fired: rule and frame, hits, who was killed and
    how it ended.
    """
    if plan.refused_by_client:
        said = next(
            (f"{event.by}: {event.because}" for event in _of(events, kinds.Stopped)),
            "it did not say so",
        )
        return [f"no fault: the client itself must refuse these settings ({said})"]
    if plan.evidence.trigger == "none":
        return ["no fault, by design: the baseline"]
    return [
        *_rules(events),
        *_failpoints(events),
        *map(told_write, _of(events, kinds.Durable)),
        *map(told_work, _of(events, kinds.Work)),
        *_faults(events),
        *map(network_text, _of(events, kinds.Network)),
        *map(_engine_text, _of(events, kinds.Engine)),
        *_deaths(plan, events),
    ] or ["nothing shows that the fault fired"]


def movement_lines(movement: Movement) -> list[str]:
    """Return the lines about how records moved; none if nothing is remarkable."""
    told = []
    if movement.moved_again_s is not None:
        told.append(
            "moved again: a record sent after the fault was delivered "
            f"{movement.moved_again_s:.3f} s after it"
        )
    if movement.held_back_s is not None:
        told.append(
            "held back: an open transaction kept readers of committed records from what is "
            f"behind it for {movement.held_back_s:g} s"
        )
    named = (
        ("inconsistent offsets", movement.inconsistent_offsets),
        ("backward polls", movement.backward_polls),
        ("records skipped", movement.skipped),
    )
    if any(count for _, count in named):
        told.append(", ".join(f"{count} {name}" for name, count in named))
    return told


def _of(events: Sequence[Event], kind: type[E]) -> Iterator[E]:
    """Yield the events of a kind."""
    return (event for event in events if isinstance(event, kind))


def _rules(events: Sequence[Event]) -> Iterator[str]:
    rules = [event for event in _of(events, kinds.Rule) if event.rule not in kinds.WAVES]
    for event in rules:
        if event.phase == RulePhase.ARMED:
            where = f"{event.api} {event.direction} of the {event.role}"
            record = f" with record {event.record}" if event.record else ""
            since = f", since {event.since}" if event.since else ""
            error = f" with {event.error}" if event.error else ""
            yield (
                f"rule {event.rule}: {event.action}{error} the {where}{record}, "
                f"occurrence {event.occurrence}{since}"
            )
    hits = [event for event in rules if event.phase == RulePhase.HIT]
    for event in hits[:MOST_HITS]:
        frame = f"{event.api} v{event.version} {event.dir}, connection {event.conn}"
        yield (
            f"hit: {frame}, correlation {event.corr}, {event.size} bytes, client "
            f"{event.client}{_with(event.records)}"
        )
    if len(hits) > MOST_HITS:
        yield f"and {len(hits) - MOST_HITS} more hits"
    yield from _answers(rules)
    for event in rules:
        if event.phase == RulePhase.DELIVERED:
            said = f"answered with code {event.error}" if event.answered else "not answered"
            yield (
                "arrived late, over a connection of its own: "
                f"{event.api}{_with(event.records)}; {said}"
            )
    for event in rules:
        if event.phase == RulePhase.DISARMED:
            yield (
                f"counted: {event.seen} frames seen, {event.matched} matched, {event.fired} fired"
            )


def _answers(rules: Sequence[kinds.Rule]) -> Iterator[str]:
    """Yield a line for each response that the wire sent in the broker's place."""
    for event in rules:
        if event.phase != RulePhase.ANSWERED:
            continue
        its_own = f"which said {event.said}" if event.forward else "which never had it"
        told = "was told" if event.reached else "was not told"
        request = f"{event.api}, correlation {event.corr}{_with(event.records)}"
        yield f"answered for the broker, {its_own}: {request}; the client {told} {event.error}"


def _with(records: tuple[str, ...] | None) -> str:
    if not records:
        return ""
    more = f" and {len(records) - MOST_HITS} more" if len(records) > MOST_HITS else ""
    return f", with {', '.join(records[:MOST_HITS])}{more}"


def _failpoints(events: Sequence[Event]) -> Iterator[str]:
    for event in list(_of(events, kinds.Failpoint))[:MOST_HITS]:
        yield (
            f"failpoint {event.name}: hit {event.hit}, record {event.record}, "
            f"{event.action} pid {event.pid}"
        )


def told_write(event: kinds.Durable) -> str:
    """Say at which durable write somebody was held.

    >>> from functools import partial
    >>> held = partial(kinds.Durable, t=0, at=0, made={}, role="consumer", incarnation=1, thread=7)
    >>> held = partial(held, side="after", call="unlink", occurrence=2, number=9, pid=7)
    >>> told_write(held(files=("/w/a-journal",)))
    'the consumer (pid 7) was held after unlink 2: /w/a-journal'
    """
    files = " to ".join(event.files)
    where = f"{event.side} {event.call} {event.occurrence}{f': {files}' if files else ''}"
    return f"the {event.role} (pid {event.pid}) was held {where}"


def told_work(event: kinds.Work) -> str:
    """Say what became of work that was held on its way out of its stage.

    >>> from functools import partial
    >>> work = partial(kinds.Work, t=0, role="consumer")
    >>> told_work(work(phase=WorkPhase.HELD, how="write", call="fsync", files=("/w/a",), pid=7))
    'the work of the consumer (pid 7) was held before fsync: /w/a'
    >>> told_work(work(phase=WorkPhase.HELD, how="frame", call="Produce"))
    'the work of the consumer was held on its way: Produce'
    >>> told_work(work(phase=WorkPhase.COVERED, how="OffsetCommit"))
    'meanwhile the consumer saved what must wait for its work: OffsetCommit'
    >>> told_work(work(phase=WorkPhase.RELEASED, waited_s=2.0))
    'the work of the consumer was released; nothing had overtaken it in 2.0 s'
    """
    who = f"the work of the {event.role}"
    files = " to ".join(event.files)
    before = f"before {event.call}{f': {files}' if files else ''}"
    waited = "" if event.waited_s is None else f" in {event.waited_s:.1f} s"
    words = {
        WorkPhase.WATCHED: f"{who} was held from here on",
        WorkPhase.HELD: f"{who} (pid {event.pid}) was held {before}"
        if event.how == "write"
        else f"{who} was held on its way{f': {event.call}' if event.call else ''}",
        WorkPhase.COVERED: f"meanwhile the {event.role} saved what must wait for its work: "
        f"{event.how}",
        WorkPhase.RELEASED: f"{who} was released; nothing had overtaken it{waited}",
        WorkPhase.DISCARDED: f"{who} was discarded: it is never done",
    }
    return words[event.phase]


def _faults(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        match event:
            case kinds.Fault(phase=FaultPhase.FORGOT):
                yield _forgot(event)
            case kinds.Added():
                yield (
                    f"partition {event.partition} added to {event.topic}, which had {event.before}"
                )


def _forgot(event: kinds.Fault) -> str:
    """Return what a fault removed: bytes of a file that were not flushed, records, positions."""
    if event.records is not None:
        return f"deleted from {event.file}, as retention would: {event.records} records"
    if event.positions is not None:
        return f"positions of the group {event.group} deleted: {event.positions}"
    size = f"{event.bytes_before} → {event.bytes_after} bytes"
    return f"reverted to its flushed state: {event.file}, {size}"


def _engine_text(event: kinds.Engine) -> str:
    told = ((name, getattr(event, name)) for name in SAID_OF)
    more = ", ".join(f"{name} {value}" for name, value in told if value is not None)
    return f"the container engine of the {event.node}: {event.said} ({more})"


def network_text(event: kinds.Network) -> str:
    """Describe a network fault, or the traffic counted while it lasted."""
    whose = f"the {event.role}'s network to {event.node}"
    if event.phase == NetworkPhase.ON:
        said = ", ".join(map(_toxic, event.toxics)) if event.toxics else "no toxic named"
        return f"{whose} made bad: {said}"
    told = ((words, getattr(event, name)) for name, words in NETWORK_COUNTS.items())
    counted = ", ".join(f"{words} {_brief(count)}" for words, count in told if count)
    return f"{whose} mended; counted meanwhile: {counted or 'nothing'}"


def _brief(count: object) -> str:
    return f"{count:.4g}" if isinstance(count, float) else str(count)


def _toxic(toxic: object) -> str:
    """Write a toxic as its name and its attributes.

    >>> _toxic({"name": "latency", "latency": 3000})
    'latency (latency 3000)'
    """
    if not isinstance(toxic, dict):
        return str(toxic)
    words = ", ".join(f"{name} {value}" for name, value in toxic.items() if name != "name")
    return f"{toxic.get('name')}{f' ({words})' if words else ''}"


def _deaths(plan: Plan, events: Sequence[Event]) -> Iterator[str]:
    need = plan.evidence
    wanted = {str(role) for role in (*need.killed, *need.may_kill, *need.paused)}
    for event in events:
        match event:
            case kinds.Drain() if event.phase != DrainPhase.BEGUN:
                return  # after the drain the harness ends everything
            case kinds.Node():
                yield from _death(event, wanted)


def _death(event: kinds.Node, wanted: set[str]) -> Iterator[str]:
    who = f"{event.node} (pid {event.pid})"
    if event.asked:
        yield f"ended in order (SIGTERM): {who}, {how_ended(event)}"
    if event.role not in wanted:
        return
    if event.phase == NodePhase.EXITED and event.signal:
        yield f"the kernel says: {who} ended by signal {event.signal}"
    elif event.phase == NodePhase.PAUSED:
        yield f"paused: {who}"


def sign_of(result: CellResult) -> tuple[str, bool] | None:
    """Return the sentence about the sign of protection, and whether it was seen; ``None`` if the
    cell needs no sign. For a user's pipeline, which has no prediction, tell the effect of the fault
    that was seen.
    """
    plan = result.plan
    if plan.system == DECLARED and plan.evidence.trigger != "none":
        signs, targets = result.judgement.signs, ", ".join(plan.struck)
        seen_there = sorted({sign for each in plan.struck for sign in signs.of(each)})
        words = (
            "; ".join(f"{sign}: {sign.words}" for sign in seen_there)
            or "it is in the counts, or in what the wire saw again"
        )
        return (
            (f"{words} ({targets})", True)
            if result.verdict.effect
            else (f"none was seen on {targets}", False)
        )
    if plan.sign is None:
        return None
    signs = result.judgement.signs
    seen, known = plan.sign in signs.of(plan.target), signs.named(plan.sign)
    words = plan.sign if known is None else known.words
    return (
        f"{plan.sign}: {words} ({plan.target})"
        if seen
        else f"{plan.sign} was not seen for {plan.target}: {words}?"
    ), seen


def next_step(result: CellResult) -> str:
    """Return what a reader should do now."""
    first = result.verdict.reason.partition(":")[0]
    match outcome(result.verdict):
        case Outcome.KEPT:
            return _kept(result)
        case Outcome.CONVICTED:
            return (
                "Nothing: this control shows that the suite can convict. Do not use these "
                "settings where the promise matters."
            )
        case Outcome.NOT_CONVICTED:
            return (
                "Mend this first: while a control is not convicted, no green cell of this run "
                "proves anything."
            )
        case Outcome.BROKEN:
            more = "another --seed" if result.plan.system == DECLARED else "other seeds"
            return (
                f"Read the path of the first record below, then run it again with {more} to see "
                "whether it happens every time."
            )
        case Outcome.STUCK:
            return (
                "All was healed and nothing moved: look at the end of the timeline, and at the "
                "logs of the stage that is named."
            )
        case Outcome.VOID:
            return (
                f"It proves nothing ({first}). See to that and run it again; a void cell is "
                "never a success."
            )


def _kept(result: CellResult) -> str:
    if result.plan.system != DECLARED:
        return (
            "Nothing. To bound how rare a failure may still be, run more seeds: 0 in n runs "
            "means less than 3/n."
        )
    if not result.verdict.effect:
        return (
            "It was kept, and nothing shows that the fault had an effect: read the proof, and "
            "try another --seed."
        )
    return "Nothing. Another --seed takes another record; lostack sweep takes every step of a run."

"""The verdict: every rule bites on its own, and the rules come in their order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.signs import (
    ABSORBED,
)
from harness.judge.verdict import Kind, Verdict, merge, unjudged
from harness.knowledge import knowledge
from harness.model.events import WAVES
from harness.model.plan import Plan
from harness.model.prediction import AtLeast, Exactly, Permitted, Select, Some
from harness.model.scenario import Evidence, Predicted, Role
from harness.model.semantics import PROMISES, Anomaly, Semantic
from harness.report.summary import outcome
from tests.events import account
from tests.judge.histories import Row, Story
from tests.judge.runs import (
    COUNT,
    PARTITIONS,
    PLAN,
    RECORDS,
    TARGET,
    about,
    all_of,
    append,
    before,
    drain,
    duplicate,
    exit_of,
    first,
    history_of,
    judged,
    lose,
    place,
    plan,
    run,
    start,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
Changes = dict[str, Any]


FAULTLESS: Changes = {"evidence": Evidence("none"), "sign": None}


def check(kind: Kind, reason: str, found: Verdict) -> None:
    """The verdict is of this kind and its one-line reason says this."""
    assert found.kind is kind, found
    assert re.search(reason, found.reason), found.reason
    assert "\n" not in found.reason


def nothing(story: Story) -> None:
    """Nothing else happened."""


# --- kept -----------------------------------------------------------------------------------------


def test_the_run_by_hand_is_kept() -> None:
    """The run all other cases change is kept and green, and its reason says how many records
    arrived, and why.
    """
    found = judged(run()).verdict
    check(Kind.KEPT, "6 of 6 recorded; k1-3 was protected", found)
    assert (found.green, found.as_predicted, found.fired, found.label) == (True, True, 1, "kept")


def test_a_run_without_fault_is_kept() -> None:
    """The baseline needs no fault and no sign."""
    story = run()
    without(story, lambda row: row["event"] in {"fault", "rule"} or row.get("signal") == 9)
    found = judged(story, **FAULTLESS).verdict
    check(Kind.KEPT, "6 of 6 recorded", found)
    assert found.fired == 0


def test_what_is_permitted_and_predicted_is_kept() -> None:
    """At-most-once may lose: a predicted loss is kept, green, and told with its last hop."""
    story = run()
    lose(story, TARGET)
    found = judged(story, semantic=AMO, sign=None, lost=Exactly()).verdict
    check(Kind.KEPT, r"5 of 6 recorded; 1 lost \(k1-3 never sent\)", found)
    assert found.green


def test_permitted_duplicates_are_told() -> None:
    """At-least-once may duplicate: kept, and the reason says which and how."""
    story = run()
    duplicate(story, TARGET)
    found = judged(story, sign=None, duplicated=Exactly()).verdict
    check(Kind.KEPT, r"1 duplicated \(k1-3: 1 stored twice\)", found)


def test_settings_refused_by_the_client_are_kept() -> None:
    """Where the client must refuse the settings, its refusal with nothing sent is the success."""
    found = judged(refused(), refused_by_client=True, sign=None).verdict
    check(Kind.KEPT, "the client refused these settings; nothing was sent", found)


def refused() -> Story:
    """Tell a run in which the client refuses its settings."""
    story = Story()
    story.tell("node", "runner", node="producer", role="producer", phase="started")
    story.tell("stopped", "producer-1", kind="settings", because="KafkaConfigurationError: acks")
    exit_of(story, "producer", 1, status=78)
    for n, record in enumerate(RECORDS, start=1):
        story.offered(record, record.split("-")[0], n)
    story.cursor(1)
    for partition in range(PARTITIONS):
        story.log(partition, 0)
        story.position(partition, -1)
    drain(story)
    story.tell("cell", "runner", phase="observed")
    return story


# --- broken ---------------------------------------------------------------------------------------


def plant(story: Story, anomaly: Anomaly) -> None:
    """Plant one of an anomaly, at a record that is not the target."""
    record = RECORDS[4]
    match anomaly:
        case Anomaly.LOST:
            lose(story, record, "recorded")
        case Anomaly.DUPLICATED:
            duplicate(story, record)
        case Anomaly.PHANTOM:
            story.recorded("k9-99", 99, -1, -1)
        case Anomaly.RESURRECTED:
            story.transaction("producer-2.5", "aborted")
        case Anomaly.TORN:
            story.transaction("producer-2.5", "committed")
            story.acked(record, "producer-2.5.2")


ANYTHING: Changes = {"lost": Permitted(), "duplicated": Permitted()}


@pytest.mark.parametrize("semantic", Semantic)
@pytest.mark.parametrize("anomaly", Anomaly)
def test_broken_is_what_the_promise_table_forbids(semantic: Semantic, anomaly: Anomaly) -> None:
    """One of an anomaly is broken where the semantic forbids it, and kept where it does not,
    whatever is predicted.
    """
    story = run()
    plant(story, anomaly)
    found = judged(story, semantic=semantic, **ANYTHING)
    assert found.account.counts[anomaly] == 1
    assert found.verdict.kind is (Kind.BROKEN if anomaly in PROMISES[semantic] else Kind.KEPT)
    assert found.verdict.green is (found.verdict.kind is Kind.KEPT)


def test_a_phantom_is_shown() -> None:
    """What was never offered, as it stands in the output, where that was written down; else in the
    topic.
    """
    story = run()
    row = story.recorded("k9-99", 99, -1, -1)
    check(Kind.BROKEN, "1 phantom, which", judged(story, **ANYTHING).verdict)
    row["text"] = "TOTAL 48\n"
    check(Kind.BROKEN, r"1 phantom, as 'TOTAL 48\\n', which", judged(story, **ANYTHING).verdict)


@pytest.mark.parametrize(
    ("why", "told"),
    [("patience", True), ("learnt", True), ("saved", False), (None, False)],
)
def test_a_rest_is_told_where_something_could_still_have_come(why: str | None, told: bool) -> None:
    story = run()
    end = next(e for e in reversed(story.events) if e["event"] == "drain")
    end.update({"why": why, "rested": 12.0, "gap": 30.0})
    said = "rested 12 s, after a silence of 30.0 s" in judged(story, **ANYTHING).verdict.reason
    assert said is told


def test_who_has_absorbed_a_duplicate_is_told() -> None:
    """The broker, which took a batch twice and holds it once; or somebody behind the log, of two
    copies. Only of a foreigner.
    """
    sent = {"record": TARGET, "topic": first(run(), "stored")["topic"], "partition": 0}
    free: Changes = {"sign": None, **ANYTHING}
    story = run()
    for request, reached in (("8:1", False), ("8:2", True)):
        story.tell(
            "sent",
            "wire",
            **sent,
            request=request,
            transactional=False,
            transactional_id=None,
            attempt=None,
        )
        story.tell(
            "produce_answer",
            "wire",
            record=TARGET,
            request=request,
            error=0,
            offset=-1,
            reached=reached,
        )
    broker = f"{TARGET} sent twice and stored once: absorbed by the broker"
    assert broker in judged(story, **free).verdict.reason
    assert broker not in judged(story).verdict.reason
    story.events[-1].update({"error": "again", "repeated": True})
    assert broker in judged(story, **free).verdict.reason, "it was known by its sequence number"
    story.events[-2]["topic"] = "elsewhere"
    assert "absorbed" not in judged(story, **free).verdict.reason, "one was of another topic"
    story.events[-2]["topic"] = sent["topic"]
    story.events[-1].update({"error": 45, "repeated": False})
    assert "absorbed" not in judged(story, **free).verdict.reason, "it was refused"
    story.events[-1]["error"] = 0
    result = story.recorded(TARGET, 90, *place(TARGET))
    found = judged(story, **free)
    check(Kind.KEPT, "1 delivered twice", found.verdict)
    assert "absorbed" not in found.verdict.reason, "it is stored once, and recorded twice"
    story.events.remove(result)
    again = append(story, TARGET, place(TARGET)[0], attempt="producer-2.90.1")
    assert broker not in judged(story, **free).verdict.reason, "it is stored twice"
    story.recorded(TARGET, 90, again["partition"], again["offset"])
    assert "absorbed" not in judged(story, **free).verdict.reason, "it is recorded twice, too"
    story = run()
    append(story, RECORDS[4], place(RECORDS[4])[0], attempt="producer-2.90.1")
    found = judged(story, **free)
    assert found.account.counts["duplicated"] == 0
    assert (
        f"{RECORDS[4]} stored twice and recorded once: absorbed by the reader or a key"
        in found.verdict.reason
    )


def test_readers_that_were_held_back_are_told() -> None:
    """By a transaction that nobody ended: the promise is kept, and a minute late."""
    story = run()
    held = story.tell("held_back", "runner", log="in/0", seconds=61.2)
    before(story, first(story, "drain", phase="completed"), held)
    said = (
        "; for at least 61 s, readers of committed records of in/0 were given nothing behind a "
        "transaction that was left open"
    )
    check(Kind.KEPT, f"{said}$", judged(story).verdict)
    held["because"] = "a setting ends it"
    check(Kind.KEPT, rf"{said} \(a setting ends it\)$", judged(story).verdict)


def test_rows_without_an_id_are_told() -> None:
    """They are no results, which changes no verdict; beside a loss they may be what is
    left of it.
    """
    story = run()
    story.tell("unnamed", "runner", count=1, text="TOTAL 48")
    check(Kind.KEPT, "; 1 row of the output has no id, as 'TOTAL 48'", judged(story).verdict)
    lose(story, RECORDS[4], "recorded")
    check(
        Kind.BROKEN,
        "forbids loss: .*; 1 row of the output has no id, as 'TOTAL 48'",
        judged(story).verdict,
    )


def test_where_nothing_is_predicted_the_protection_is_told() -> None:
    """What was seen of it, or that nothing was; not without a fault, nor where the target itself
    shows what came of it.
    """
    story = run()
    seen = judged(story, sign=None, **ANYTHING).verdict
    assert seen.reason.endswith(f"; {TARGET}: sent-again, taken-again")
    assert seen.effect
    without(story, lambda row: row["event"] == "unsent")
    first_taken = first(story, "taken", record=TARGET)
    without(story, lambda row: row is first_taken)
    found = judged(story, sign=None, **ANYTHING).verdict
    assert found.kind is Kind.KEPT
    assert found.reason.endswith(f"; no effect was seen on {TARGET}")
    assert not found.effect
    duplicate(story, RECORDS[4])
    beside = judged(story, sign=None, **ANYTHING).verdict
    assert beside.effect  # on another record than the target
    assert "effect" not in beside.reason
    quiet = judged(story, sign=None, evidence=Evidence("none"), **ANYTHING).verdict
    assert quiet.effect
    assert "effect" not in quiet.reason


@pytest.mark.parametrize(("owner", "kind"), [(101, Kind.KEPT), (102, Kind.VOID)])
def test_of_several_processes_the_one_that_was_hit_dies(owner: int, kind: Kind) -> None:
    """The kernel says whose connection it was; where another process of the same stage was killed,
    nothing is proved.
    """
    story = run()
    first(story, "rule", phase="hit").update(conn=7)
    first(story, "fault", phase="fired").update(node="producer")
    first(story, "node", phase="exited", signal=9).update(of=100)
    story.tell("owner", "runner", conn=7, role="producer", pid=owner, command="a worker")
    found = judged(story).verdict
    assert found.kind is kind
    assert kind is Kind.KEPT or "another producer was killed" in found.reason


def cut_short(story: Story, *phases: str) -> None:
    """Leave only these phases of the drain, and nothing that came after it but the observation."""
    without(story, lambda row: row["event"] == "drain" and row["phase"] not in phases)
    without(story, lambda row: row.get("signal") == 9 and row["role"] == "consumer")


def stuck(story: Story) -> None:
    """Let the drain fail at the consumer."""
    first(story, "drain", phase="completed").update(
        phase="failed", stage="consumer", because="position 2 of 3"
    )


SPOILT: dict[str, Callable[[Story], object]] = {
    "failed": lambda story: story.tell("failed", "runner", because="KeyError: 'x'"),
    "did not fire": lambda story: without(story, lambda row: row["event"] == "fault"),
    "cut short": cut_short,
    "stuck": stuck,
}
LOST_IN = {
    "failed": Kind.BROKEN,
    "did not fire": Kind.BROKEN,
    "cut short": Kind.VOID,
    "stuck": Kind.STUCK,
}


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize(
    "anomaly", [Anomaly.DUPLICATED, Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN]
)
def test_what_was_seen_is_broken_even_in_a_spoilt_run(anomaly: Anomaly, spoil: str) -> None:
    """A forbidden duplicate, phantom, resurrection or tear stands, however badly the rest went; if
    it was seen by a sound eye.
    """
    story = run()
    plant(story, anomaly)
    SPOILT[spoil](story)
    found = judged(story, semantic=EOS).verdict
    if spoil == "cut short":
        check(Kind.VOID, "cut short", found)
    else:
        check(Kind.BROKEN, "forbids", found)
        assert found.by_fault is (spoil == "stuck")


@pytest.mark.parametrize("spoil", SPOILT)
def test_what_was_not_seen_is_lost_after_a_completed_drain_alone(spoil: str) -> None:
    """A loss counts only after a completed drain, for what is late is not lost; then whatever
    became of the fault.
    """
    story = run()
    plant(story, Anomaly.LOST)
    SPOILT[spoil](story)
    found = judged(story).verdict
    check(LOST_IN[spoil], "", found)
    assert (found.green, found.by_fault) == (False, found.kind is not Kind.BROKEN)


def test_a_void_run_says_that_its_broker_was_starved() -> None:
    """One epoch more in a partition, and nobody had harmed the broker: it was fenced. Where
    somebody had, that says nothing.
    """
    story = run()
    again = duplicate(story, RECORDS[1])
    assert "lapsed" not in judged(story, sign=None).verdict.reason
    again["epoch"] = 2
    check(
        Kind.VOID,
        "contradicted: .*; the broker's registration lapsed .*: its leader epoch grew",
        judged(story, sign=None).verdict,
    )
    exit_of(story, "broker", 1, status=1)
    assert "lapsed" not in judged(story, sign=None).verdict.reason


def test_a_lone_broker_that_led_no_more_was_starved() -> None:
    """The record that it refused may have been the last: then no copy has another epoch."""
    story = run()
    duplicate(story, RECORDS[1])
    story.tell("produce_answer", "wire", record=RECORDS[-1], error=6)
    assert (
        "the broker's registration lapsed (busy machine?): it led no more"
        in judged(story, sign=None).verdict.reason
    )


def test_a_loss_names_records_and_hops() -> None:
    """The reason of a forbidden loss says how many, which, and where each was last seen; the
    prediction comes after.
    """
    story = run()
    lose(story, RECORDS[1])
    lose(story, RECORDS[3], "recorded")
    found = judged(story).verdict
    check(
        Kind.BROKEN,
        r"at-least-once forbids loss: 2 lost \(k0-4 delivered, not recorded; k0-2 never sent\)",
        found,
    )
    check(Kind.BROKEN, "the prediction is contradicted: lost: predicted 0, saw 2", found)
    assert not found.as_predicted


def test_a_loss_is_broken_without_a_sign() -> None:
    """A client that did not repeat its request shows no sign *and* loses: that is
    broken, not void.
    """
    story = run()
    lose(story, TARGET)
    without(story, lambda row: about(row, TARGET, "taken"))
    check(Kind.BROKEN, "forbids loss", judged(story).verdict)


# --- void -----------------------------------------------------------------------------------------


def target_elsewhere(story: Story) -> None:
    """Let the rule be hit by another record."""
    first(story, "rule").update(record=RECORDS[0], records=[RECORDS[0]])


def early_exit(story: Story, **how: int) -> None:
    """Let the consumer die on its own before the fault."""
    before(story, first(story, "rule"), exit_of(story, "consumer", 1, **how))


def only_after(story: Story) -> None:
    """Leave no load before the fault."""
    at = first(story, "rule")["t"]
    without(story, lambda row: row["event"] in {"taken", "delivered", "sent"} and row["t"] <= at)


def only_before(story: Story) -> None:
    """Leave no load after the fault."""
    at = first(story, "rule")["t"]
    without(
        story,
        lambda row: row["event"] in {"taken", "delivered", "sent", "unsent"} and row["t"] >= at,
    )


def other_victim(story: Story) -> None:
    """Kill the consumer too, after the fault."""
    exit_of(story, "consumer", 1, signal=9)["t"] = first(story, "fault", phase="healed")["t"] + 5


def second_death(story: Story) -> None:
    """Kill the producer once more, after it has come back."""
    exit_of(story, "producer", 2, signal=9)["t"] = first(story, "fault", phase="healed")["t"] + 5


def second_hit(story: Story, **more: object) -> None:
    """Let the rule be hit once more."""
    hit = first(story, "rule")
    story.tell("rule", "wire", rule="hold", phase="hit", record=TARGET, records=[TARGET], **more)[
        "t"
    ] = hit["t"] + 5


def hit_in(story: Story, node: str) -> None:
    """Let the runner say in which process the trigger was hit; there are two consumers and one
    producer.
    """
    first(story, "fault", phase="fired").update(node=node)
    start(story, "producer", 9)
    story.events[-1]["node"] = story.events[-3]["node"] = "producer-2"


def by_failpoint(story: Story, pid: int) -> None:
    """Let a failpoint of a process be the trigger."""
    first(story, "rule").update(
        event="failpoint", name="before-send", hit=1, action="kill", pid=pid
    )
    first(story, "fault", phase="fired").update(node="producer")


def sleeping(story: Story, *phases: str, node: str = "consumer", early: bool = False) -> None:
    """Let a process be paused (and woken)."""
    at = first(story, "rule")["t"] + (-7 if early else 5)
    for phase in phases:
        story.tell("node", "runner", node=node, role=node, incarnation=1, phase=phase, pid=101)[
            "t"
        ] = at


def told(story: Story, node: str = "consumer", *, early: bool = False, **end: int | None) -> None:
    """Let a process be told to end; and end, where it is said how."""
    sleeping(story, "told", node=node, early=early)
    if end:
        row = exit_of(story, node, 1, **end)
        row.update(asked=True, t=first(story, "node", phase="told")["t"] + 1)


def killed_as_if_told(story: Story) -> None:
    """Let a process die as if its grace were over, and nobody told it to end."""
    exit_of(story, "consumer", 1, signal=9).update(
        asked=True, t=first(story, "fault", phase="healed")["t"]
    )


def input_ends(story: Story, *, given: int = COUNT, at: str = "healed", after: int = -1) -> None:
    """Let the producer's input end behind so many records, so long after a phase of the fault."""
    row = story.tell("input_ended", "runner", role="producer", incarnation=1, given=given)
    row["t"] = first(story, "fault", phase=at)["t"] + after


def powerless(story: Story, forgets: tuple[str, ...]) -> None:
    """Let two brokers die with the producer, and some of them forget what they had not flushed."""
    death = first(story, "node", phase="exited", signal=9)
    told = [
        story.tell(
            "node",
            "runner",
            node=f"broker-{n}",
            role="broker",
            incarnation=0,
            phase="exited",
            pid=200 + n,
            status=None,
            signal=9,
        )
        for n in (1, 2)
    ]
    told += [
        story.tell(
            "fault",
            "runner",
            phase="forgot",
            fault="kill",
            node=node,
            file="t-0",
            bytes_before=1,
            bytes_after=0,
        )
        for node in forgets
    ]
    for row in told:
        row["t"] = death["t"]


def test_of_two_brokers_without_power_each_must_have_forgotten() -> None:
    story = run()
    powerless(story, forgets=("broker-1", "broker-2"))
    found = judged(
        story,
        evidence=Evidence("rule", killed=(Role.PRODUCER, Role.BROKER, Role.BROKER), forgotten=True),
        proofs={"forgot": {}},
    )
    assert "reverted" not in found.verdict.reason


def only_the_target_after(story: Story) -> None:
    """Leave no load after the fault but what the fault itself brings."""
    at = first(story, "rule")["t"]
    moves = {"taken", "delivered", "sent"}
    without(story, lambda row: row["event"] in moves and row["t"] >= at and row["record"] != TARGET)


PAUSED: Changes = {"evidence": Evidence("rule", killed=(Role.PRODUCER,), paused=(Role.CONSUMER,))}
BY_FAILPOINT: Changes = {"evidence": Evidence("failpoint", killed=(Role.PRODUCER,))}
TOLD: Changes = {"evidence": Evidence("rule", killed=(Role.PRODUCER,), told=(Role.CONSUMER,))}
FORGOT: Changes = {"proofs": {"forgot": {}}}
INPUT_ENDS: Changes = {
    "evidence": Evidence("rule", killed=(Role.PRODUCER,)),
    "proofs": {"input-ended": {}},
}
BY_RULE = {"evidence": Evidence("rule", killed=(Role.PRODUCER,))}
AT_WRITE: Changes = {
    "evidence": Evidence(
        "durable", killed=(Role.PRODUCER,), approached=True, write="after unlink 2"
    )
}
STRUCK: Changes = {
    "evidence": Evidence("rule", killed=(Role.PRODUCER,)),
    "proofs": {"engine-said": {"words": ["new-container"]}},
}
FILLED: Changes = {
    "evidence": Evidence("rule", ended=(Role.PRODUCER,)),
    "proofs": {"engine-said": {"words": ["disk-full"]}},
}


def at_write(story: Story, **other: object) -> Row:
    """Let a thread be held at a durable write behind the record, which a rule had held until it was
    traced.
    """
    given = first(story, "rule")
    if given.get("rule") != "given":
        given.update(rule="given")
        story.tell("rule", "wire", rule="given", phase="armed", limit=1)["t"] = given["t"] - 20
    first(story, "fault", phase="fired").update(node="producer", record=None)
    held = {
        "role": "producer",
        "side": "after",
        "call": "unlink",
        "occurrence": 2,
        "number": 9,
        "pid": 101,
        "thread": 102,
    }
    row = story.tell("durable", "runner", **{**held, **other})
    row["t"] = first(story, "fault", phase="fired")["t"] - 1
    return row


def by_itself(story: Story, **more: object) -> None:
    """The producer's disk was full, and it ended of it, with an error."""
    first(story, "node", phase="exited", signal=9).update(signal=None, status=1)
    said: Row = {"volume": "data", "size": 4096, "free": 0, "status": 1, "because": None}
    story.tell("engine", node="producer", **said | {"said": "disk-full"} | more)


def test_a_node_that_ended_because_its_disk_was_full_is_what_was_wanted() -> None:
    story = run()
    by_itself(story)
    assert judged(story, **FILLED).verdict.kind is Kind.KEPT


def twice_by_itself(story: Story) -> None:
    """Let it end so once more, when it has room again: that was not wanted."""
    by_itself(story)
    exit_of(story, "producer", 2, status=1)["t"] = first(story, "fault", phase="healed")["t"] + 5


def same_container(story: Story, *, early: bool = False) -> None:
    """The engine speaks of a container that took the place of itself; or of another one, before the
    fault.
    """
    row = story.tell(
        "engine",
        said="new-container",
        node="broker-1",
        before="a",
        after="b" if early else "a",
        volume="data",
    )
    if early:
        row["t"] = 1


def died_later(story: Story) -> None:
    """A consumer crashed by itself after the fault, and another took over."""
    exit_of(story, "consumer", 1, signal=11)["t"] = first(story, "fault", phase="healed")["t"] + 5


VOID: dict[str, tuple[Callable[[Story], object], Changes, str]] = {
    "failed": (SPOILT["failed"], {}, "the run failed: KeyError"),
    "undecodable": (
        lambda s: s.tell("undecodable", "wire", api="Produce", version=99, because="no schema"),
        {},
        "the wire could not read Produce v99: no schema",
    ),
    "too few offered": (
        lambda s: without(s, lambda r: about(r, RECORDS[5], "offered", "recorded", "stored")),
        {},
        "5 of 6 records were offered",
    ),
    "not refused": (
        nothing,
        {"refused_by_client": True},
        "expected to refuse these settings and did not",
    ),
    "refused and sent": (
        lambda s: s.tell("stopped", "producer-1", kind="settings", because="x"),
        {"refused_by_client": True},
        "refused the settings, but something was sent all the same",
    ),
    "not fired": (SPOILT["did not fire"], {}, "the fault did not fire"),
    "not fired, and failed": (
        all_of(SPOILT["did not fire"], SPOILT["failed"]),
        {},
        "^the fault did not fire; the run failed: KeyError",
    ),
    "failed before it could fire": (
        all_of(
            SPOILT["did not fire"], lambda s: s.tell("failed", "runner", because="x").update(t=1)
        ),
        {},
        "^the run failed: x$",
    ),
    "armed only": (
        lambda s: without(s, lambda r: r["event"] == "fault" and r["phase"] != "armed"),
        {},
        "the fault did not fire",
    ),
    "no rule hit": (lambda s: without(s, lambda r: r["event"] == "rule"), {}, "no rule was hit"),
    "rule armed only": (lambda s: first(s, "rule").update(phase="armed"), {}, "no rule was hit"),
    "no failpoint hit": (
        nothing,
        {"evidence": Evidence("failpoint", killed=(Role.PRODUCER,))},
        "no failpoint was hit",
    ),
    "another record": (target_elsewhere, {}, "at another record than its target k1-3"),
    "victim alive": (
        lambda s: without(s, lambda r: r.get("signal") == 9),
        {},
        "the producer was not killed",
    ),
    "victim ended by itself": (
        lambda s: first(s, "node", phase="exited").update(signal=None, status=1),
        {},
        "the producer was not killed",
    ),
    "second victim alive": (
        nothing,
        {"evidence": Evidence("rule", killed=(Role.PRODUCER, Role.BROKER))},
        "the broker was not killed",
    ),
    "another victim": (other_victim, {}, "the wrong process was killed: the consumer"),
    "nobody was to die": (
        nothing,
        {"evidence": Evidence("rule")},
        "the wrong process was killed: the producer",
    ),
    "what the rule looked for is not what the frame held": (
        lambda s: first(s, "rule").update(records=[RECORDS[0]]),
        {},
        "at another record than its target k1-3",
    ),
    "two hits": (second_hit, {}, "the rule may be hit at most 1 times, but was hit 2 times"),
    "a rule and a failpoint": (
        lambda s: s.tell("failpoint", "failpoint", name="x", record=TARGET, hit=1, pid=101),
        {},
        "the failpoint may be hit at most 0 times",
    ),
    "killed twice": (second_death, {}, "the producer was killed 2 times"),
    "another of its role": (
        lambda s: hit_in(s, "producer-2"),
        {},
        "hit in producer-2, but another producer was killed",
    ),
    "another process at the failpoint": (
        lambda s: by_failpoint(s, 999),
        BY_FAILPOINT,
        "another producer was killed",
    ),
    "no write": (
        lambda s: first(s, "rule").update(rule="given"),
        AT_WRITE,
        "no durable write was hit",
    ),
    "at a write that does not fire": (
        all_of(at_write, SPOILT["did not fire"]),
        AT_WRITE,
        "the fault did not fire",
    ),
    "another call": (
        lambda s: at_write(s, call="rename"),
        AT_WRITE,
        "the producer was held after rename 2, instead of the producer after unlink 2",
    ),
    "another number": (
        lambda s: at_write(s, occurrence=1),
        AT_WRITE,
        "was held after unlink 1, instead of",
    ),
    "the other side": (
        lambda s: at_write(s, side="before"),
        AT_WRITE,
        "was held before unlink 2, instead of",
    ),
    "a write of another stage": (
        lambda s: at_write(s, role="consumer"),
        AT_WRITE,
        "consumer was held after unlink 2, instead",
    ),
    "two writes": (
        all_of(at_write, at_write),
        AT_WRITE,
        "durable write may be hit at most 1 times, but was hit 2",
    ),
    "a write and a rule": (at_write, BY_RULE, "the durable write may be hit at most 0 times"),
    "a write behind another record": (
        all_of(at_write, target_elsewhere),
        AT_WRITE,
        "another record than its target",
    ),
    "a write that counts from nowhere": (
        all_of(at_write, lambda s: without(s, lambda r: r["event"] == "rule")),
        AT_WRITE,
        "another record than its target k1-3",
    ),
    "another process at the write": (
        lambda s: at_write(s, pid=999),
        AT_WRITE,
        "another producer was killed",
    ),
    "nobody killed at the write": (
        all_of(at_write, lambda s: without(s, lambda r: r.get("signal") == 9)),
        AT_WRITE,
        "the producer was not killed",
    ),
    "another stage killed at the write": (
        all_of(at_write, other_victim),
        AT_WRITE,
        "the wrong process was killed",
    ),
    "never healed": (
        lambda s: without(s, lambda r: r["event"] == "fault" and r["phase"] == "healed"),
        {},
        "never healed",
    ),
    "paused before the fault": (
        lambda s: sleeping(s, "paused", "resumed", early=True),
        PAUSED,
        "the consumer was not paused",
    ),
    "never woken": (
        lambda s: sleeping(s, "paused"),
        PAUSED,
        "consumer was paused and never woke up",
    ),
    "nobody was to be paused": (
        lambda s: sleeping(s, "paused", "resumed"),
        {},
        "the wrong process was paused: the consumer",
    ),
    "no load after but the target": (only_the_target_after, {}, "no load after the fault"),
    "observed by nobody": (
        lambda s: without(s, lambda r: r["event"] == "cell"),
        {},
        "before all authorities had been asked",
    ),
    "not paused": (
        nothing,
        {"evidence": Evidence("rule", killed=(Role.PRODUCER,), paused=(Role.CONSUMER,))},
        "the consumer was not paused",
    ),
    "one of two brokers forgot": (
        lambda s: powerless(s, forgets=("broker-1",)),
        {
            "evidence": Evidence(
                "rule", killed=(Role.PRODUCER, Role.BROKER, Role.BROKER), forgotten=True
            ),
            **FORGOT,
        },
        "no file of broker-2 was reverted",
    ),
    "nobody told": (nothing, TOLD, "the fault fired, but the consumer was not told to end"),
    "another told": (
        lambda s: told(s, "producer"),
        TOLD,
        "the fault fired, but the consumer was not told to end",
    ),
    "another told, too": (
        all_of(told, lambda s: told(s, "broker")),
        TOLD,
        "the wrong process was told to end: the broker",
    ),
    "told too early": (
        lambda s: told(s, early=True),
        TOLD,
        "the fault fired, but the consumer was not told to end",
    ),
    "told twice": (all_of(told, told), TOLD, "the consumer was told to end 2 times"),
    "nobody was to be told": (told, {}, "the wrong process was told to end: the consumer"),
    "only said to be told": (
        killed_as_if_told,
        TOLD,
        "the fault fired, but the consumer was not told to end",
    ),
    "killed, not told": (other_victim, TOLD, "the wrong process was killed: the consumer"),
    "told, and killed by somebody": (
        all_of(told, other_victim),
        TOLD,
        "the wrong process was killed: the consumer",
    ),
    "told, and ended by something else": (
        all_of(told, died_later),
        TOLD,
        "consumer was not healthy after the fault",
    ),
    "the input did not end": (
        nothing,
        INPUT_ENDS,
        "the fault fired, but the input did not end while it lasted$",
    ),
    "the input ended before": (
        lambda s: input_ends(s, at="armed", after=1),
        INPUT_ENDS,
        "while it lasted: it ended before$",
    ),
    "the input ended afterwards": (
        lambda s: input_ends(s, after=1),
        INPUT_ENDS,
        "while it lasted: it ended later$",
    ),
    "the input ended too soon": (
        lambda s: input_ends(s, given=4),
        INPUT_ENDS,
        "the input ended after 4 of 6 records",
    ),
    "the engine is silent": (nothing, STRUCK, "the container engine did not report: new-container"),
    "the same container": (
        same_container,
        STRUCK,
        "no new container was started: the same one came back, a",
    ),
    "killed, and was to end by itself": (
        nothing,
        FILLED,
        "the wrong process was killed|the producer did not end by itself",
    ),
    "a disk with room": (
        lambda s: by_itself(s, free=512),
        FILLED,
        "the disk data was not full: 512 of 4096 bytes were free",
    ),
    "no word of a full disk": (
        lambda s: by_itself(s, said="disk-emptied"),
        FILLED,
        "engine did not report: disk-full",
    ),
    "ended again by itself": (twice_by_itself, FILLED, "producer was not healthy after the fault"),
    "the engine spoke before the fault": (
        lambda s: same_container(s, early=True),
        STRUCK,
        "the container engine did not report",
    ),
    "nothing forgotten": (
        nothing,
        {"evidence": Evidence("rule", killed=(Role.PRODUCER,), forgotten=True), **FORGOT},
        "no file was reverted",
    ),
    "unhealthy before, status": (
        lambda s: early_exit(s, status=1),
        {},
        "consumer was not healthy before the fault: exit status 1",
    ),
    "unhealthy before, signal": (
        lambda s: early_exit(s, signal=6),
        {},
        "consumer was not healthy before the fault: ended by signal 6",
    ),
    "no load before": (only_after, {}, "no load before the fault"),
    "no load after": (only_before, {}, "no load after the fault"),
    "no drain": (SPOILT["cut short"], {}, "cut short before the drain had ended"),
    "drain begun": (lambda s: cut_short(s, "begun"), {}, "cut short"),
    "a stranger": (
        lambda s: s.tell("stranger", "runner", conn=7, role="consumer", pid=99, command="old.py"),
        {},
        (
            r"process 99 \(old.py\) is connected through the consumer's route, but does not belong "
            r"to the consumer"
        ),
    ),
    "a stranger that is not to be seen": (
        lambda s: s.tell("stranger", "runner", conn=7, role="consumer", pid=0, command=""),
        {},
        "a process that lostack cannot identify is connected through the consumer's route",
    ),
    "a survivor": (
        lambda s: first(s, "node", phase="exited").update(left=[[99, "token", "worker.py"]]),
        {},
        (
            r"process 99 \(worker.py\) was still alive after producer had ended, although it "
            r"belongs to that node"
        ),
    ),
    "a stray": (
        lambda s: first(s, "node", phase="exited").update(left=[[99, "stray", "worker.py"]]),
        {},
        (
            r"process 99 \(worker.py\) was still alive after producer had ended, and it is unknown "
            r"whether it belongs to"
        ),
    ),
    "no loss": (
        nothing,
        {"semantic": AMO, "lost": Exactly()},
        "without effect: lost predicted exactly target, saw none",
    ),
    "no batch": (
        nothing,
        {"duplicated": Exactly(Select.BATCH)},
        "without effect: duplicated predicted exactly batch, saw none",
    ),
    "no duplicate": (
        nothing,
        {"duplicated": Some()},
        "without effect: duplicated predicted at least 1, saw none",
    ),
    "no duplicate of the target": (
        nothing,
        {"duplicated": AtLeast()},
        "without effect: duplicated predicted",
    ),
    "no sign": (
        lambda s: without(s, lambda r: r["event"] == "taken" and r["by"] == "producer-2"),
        {},
        "nothing shows that the protection worked: no taken-again for k1-3",
    ),
    "another sign": (nothing, {"sign": ABSORBED}, r"no absorbed for k1-3 \(seen: .*taken-again"),
    "another loss": (
        lambda s: lose(s, RECORDS[1]),
        {"semantic": AMO, "sign": None, "lost": Exactly()},
        "contradicted: lost: predicted exactly k1-3, saw k0-2",
    ),
    "an unpredicted loss": (
        lambda s: lose(s, RECORDS[1]),
        {"semantic": AMO, "sign": None},
        "lost: predicted 0, saw 1",
    ),
    "an unpredicted duplicate": (
        lambda s: duplicate(s, RECORDS[1]),
        {"sign": None},
        "duplicated: predicted 0, saw 1",
    ),
}


@pytest.mark.parametrize(("change", "changes", "reason"), list(VOID.values()), ids=list(VOID))
def test_a_run_that_proves_nothing_is_void(
    change: Callable[[Story], object], changes: Changes, reason: str
) -> None:
    """Each way in which a run proves nothing makes it void for that reason, and never green."""
    story = run()
    change(story)
    found = judged(story, **changes).verdict
    check(Kind.VOID, reason, found)
    assert not found.green


def test_damage_is_void() -> None:
    """A damaged history is void and names file and line; many are not all named."""
    found = judged(run(), damage=tuple(f"a.jsonl:{n}" for n in range(9))).verdict
    check(Kind.VOID, "the history is damaged at a.jsonl:0, a.jsonl:1, a.jsonl:2$", found)


def test_a_cell_without_history_is_void() -> None:
    found = unjudged(plan(control=True), "no history in x", knowledge())
    check(Kind.VOID, "no history in x", found.verdict)
    assert not found.verdict.green
    assert set(found.account.counts.values()) == {0}


def test_processes_ended_after_the_drain_are_no_victims() -> None:
    """The harness may end what it likes once the drain is over."""
    story = run()
    exit_of(story, "consumer", 1, signal=9)
    exit_of(story, "broker", 0, signal=15)
    check(Kind.KEPT, "", judged(story).verdict)


def test_a_fault_may_hit_several_records() -> None:
    story = run()
    first(story, "rule").update(record=None, records=[RECORDS[1], TARGET])
    check(Kind.KEPT, "", judged(story).verdict)


def test_a_rule_may_be_armed_for_several_hits() -> None:
    """As often as its rule was armed for, a fault may be hit; not once more."""
    for limit, kind in ((2, Kind.KEPT), (None, Kind.KEPT), (1, Kind.VOID)):
        story = run()
        story.tell("rule", "wire", rule="hold", phase="armed", limit=limit)["t"] = (
            first(story, "rule")["t"] - 20
        )
        second_hit(story)
        check(kind, "", judged(story).verdict)


def test_what_holds_back_the_load_is_no_hit_of_the_fault() -> None:
    """Neither in the place of one, nor too many; and its rules make no room for a second hit."""
    for wave in WAVES:
        story = run()
        at = first(story, "rule")["t"]
        told: tuple[Changes, ...] = (
            {"rule": "fault", "phase": "armed"},
            {"rule": wave, "phase": "armed"},
            {
                "rule": wave,
                "phase": "hit",
                "conn": 9,
                "record": TARGET,
                "records": [TARGET],
            },
        )
        for number, line in enumerate(told):
            story.tell("rule", "wire", limit=1, **line)["t"] = at - 8 + number
        found = judged(story).verdict
        check(Kind.KEPT, "", found)
        assert found.fired == 1
        second_hit(story)
        check(
            Kind.VOID,
            "the rule may be hit at most 1 times, but was hit 2 times",
            judged(story).verdict,
        )
        without(story, lambda row: row["event"] == "rule" and row.get("rule") != wave)  # noqa: B023 - used at once
        check(
            Kind.VOID,
            "the history says that the fault fired, but no rule was hit",
            judged(story).verdict,
        )
        story = run()
        target_elsewhere(story)
        story.tell("rule", "wire", rule=wave, phase="hit", record=TARGET, records=[TARGET])["t"] = (
            at
        )
        check(Kind.VOID, "at another record than its target k1-3", judged(story).verdict)


def test_hits_of_one_kind_do_not_make_room_for_another() -> None:
    """A rule that was armed and not hit excuses no second hit of a failpoint; a failpoint that is
    not asked for excuses none.
    """
    for times, kind in ((1, Kind.KEPT), (2, Kind.VOID)):
        story = run()
        by_failpoint(story, 101)
        hit = first(story, "failpoint")
        story.tell("rule", "wire", rule="hold", phase="armed", limit=1)["t"] = hit["t"] - 20
        for again in range(1, times):
            story.tell(
                "failpoint", "failpoint", name="before-send", record=TARGET, hit=1 + again, pid=101
            )["t"] = hit["t"] + again
        reason = (
            "" if times == 1 else "the failpoint may be hit at most 1 times, but was hit 2 times"
        )
        check(kind, reason, judged(story, **BY_FAILPOINT).verdict)


def test_a_rule_that_names_no_record_is_placed_by_a_failpoint() -> None:
    """The frame says nothing of the target; the program that had it in hand when the rule was armed
    does. Once, and no more.
    """
    for approached, times, kind in (
        (True, 1, Kind.KEPT),
        (False, 1, Kind.VOID),
        (True, 2, Kind.VOID),
        (True, 0, Kind.VOID),
    ):
        story = run()
        hit = first(story, "rule")
        hit.update(record=None, records=[])
        for _ in range(times):
            story.tell("failpoint", "failpoint", name="before-send", record=TARGET, hit=1, pid=101)[
                "t"
            ] = hit["t"] - 3
        evidence = Evidence("rule", killed=(Role.PRODUCER,), approached=approached)
        check(kind, "", judged(story, evidence=evidence).verdict)


def test_who_was_replaced_may_end_by_an_error() -> None:
    """A zombie is told that it is fenced, and ends; who was not replaced is not healthy."""
    for replaced, kind in ((True, Kind.KEPT), (False, Kind.VOID)):
        story = run()
        healed = first(story, "fault", phase="healed")["t"]
        if replaced:
            node = {"node": "consumer", "role": "consumer", "incarnation": 1}
            story.tell("node", "runner", **node, phase="replaced")["t"] = healed + 3
        exit_of(story, "consumer", 1, signal=None, status=1)["t"] = healed + 5
        check(
            kind,
            "" if replaced else "consumer was not healthy after the fault",
            judged(story).verdict,
        )


def test_the_process_that_hit_the_failpoint_is_the_one_that_died() -> None:
    story = run()
    by_failpoint(story, 101)
    check(Kind.KEPT, "", judged(story, **BY_FAILPOINT).verdict)


def test_a_process_that_belongs_to_the_one_that_died_is_its_own() -> None:
    """The front of a driver hits the failpoint and its JVM is killed; of another JVM it would prove
    nothing.
    """
    for of, kind, reason in ((101, Kind.KEPT, ""), (102, Kind.VOID, "another producer was killed")):
        story = run()
        by_failpoint(story, 999)
        story.tell(
            "node",
            "runner",
            node="producer",
            role="producer",
            incarnation=1,
            phase="joined",
            pid=999,
            of=of,
        )["t"] = 1
        check(kind, reason, judged(story, **BY_FAILPOINT).verdict)


def test_who_was_paused_after_the_hit_and_woke_up_was_paused() -> None:
    """A pause with its end, after the trigger, is what a zombie needs."""
    story = run()
    sleeping(story, "paused", "resumed")
    check(Kind.KEPT, "", judged(story, **PAUSED).verdict)


@pytest.mark.parametrize(
    "end", [{"status": 0}, {"status": 1}, {"status": 143}, {"signal": 15}, {"signal": 9}]
)
def test_who_was_told_to_end_may_end_as_it_likes(end: dict[str, Any]) -> None:
    """In order, by an error, by the signal itself, or killed when its grace is over: it was told,
    and that is the fault.
    """
    story = run()
    told(story, **end)
    check(Kind.KEPT, "", judged(story, **TOLD).verdict)


def test_an_input_that_ended_while_the_fault_lasted_is_what_was_wanted() -> None:
    """With all records in it; a fault that asks for no end of input does not mind one."""
    story = run()
    input_ends(story)
    check(Kind.KEPT, "", judged(story, **INPUT_ENDS).verdict)
    check(Kind.KEPT, "", judged(story).verdict)


def test_a_run_cut_short_is_not_blamed_on_its_victims() -> None:
    """A run that ended before its victim was killed was cut short: that is the reason to tell."""
    story = run()
    cut_short(story)
    without(story, lambda row: row.get("signal") == 9)
    check(Kind.VOID, "cut short", judged(story).verdict)


def test_only_what_fired_as_declared_counts_as_fired() -> None:
    """The n of the statistics: a fault that is said to have fired and was hit elsewhere or not at
    all is none of them.
    """
    for spoil in (target_elsewhere, lambda s: without(s, lambda r: r["event"] == "rule")):
        story = run()
        duplicate(story, TARGET)
        spoil(story)
        found = judged(story, semantic=EOS).verdict
        assert (found.kind, found.fired) == (Kind.BROKEN, 0)


def test_a_fault_need_not_be_at_the_target() -> None:
    """A fault that is not placed at the target may hit anywhere."""
    story = run()
    target_elsewhere(story)
    evidence = Evidence("rule", killed=(Role.PRODUCER,), at_target=False)
    check(Kind.KEPT, "", judged(story, evidence=evidence).verdict)


def test_a_failpoint_is_a_trigger() -> None:
    story = run()
    hit = first(story, "rule")
    hit.update(event="failpoint", name="before-send", hit=1, action="kill", pid=101)
    check(
        Kind.KEPT,
        "",
        judged(story, evidence=Evidence("failpoint", killed=(Role.PRODUCER,))).verdict,
    )


def test_a_durable_write_is_a_trigger() -> None:
    """Held at the write that was armed, behind the record, in the process that died: as proved as a
    rule's frame.
    """
    story = run()
    at_write(story)
    found = judged(story, **AT_WRITE).verdict
    check(Kind.KEPT, "", found)
    assert found.fired == 1


def test_a_process_of_the_stage_may_be_held_at_the_write() -> None:
    """The stage dies with all its processes; the one that was held is one of them."""
    for of, kind in ((101, Kind.KEPT), (102, Kind.VOID)):
        story = run()
        at_write(story, pid=999)
        story.tell(
            "node",
            "runner",
            node="producer",
            role="producer",
            incarnation=1,
            phase="joined",
            pid=999,
            of=of,
        )["t"] = 1
        check(kind, "", judged(story, **AT_WRITE).verdict)


# --- broken, though not by this fault -------------------------------------------------------------

ASTRAY: dict[str, tuple[Callable[[Story], object], str]] = {
    "failed": (SPOILT["failed"], "the run failed: KeyError: 'x'"),
    "not fired": (SPOILT["did not fire"], "the fault did not fire"),
    "no hit": (
        lambda s: without(s, lambda r: r["event"] == "rule"),
        "the history says that the fault fired, but no rule was hit",
    ),
    "another victim": (other_victim, "the wrong process was killed: the consumer"),
    "victim alive": (
        lambda s: without(s, lambda r: r.get("signal") == 9),
        "the fault fired, but the producer was not killed",
    ),
    "never healed": (
        lambda s: without(s, lambda r: r["event"] == "fault" and r["phase"] == "healed"),
        "the fault was never healed",
    ),
    "ill before": (
        lambda s: early_exit(s, status=1),
        "consumer was not healthy before the fault: exit status 1",
    ),
    "no load": (only_after, "there was no load before the fault"),
}


@pytest.mark.parametrize(("spoil", "because"), list(ASTRAY.values()), ids=list(ASTRAY))
@pytest.mark.parametrize(("plan_", "anomaly"), [(ALO, Anomaly.LOST), (EOS, Anomaly.DUPLICATED)])
def test_a_break_that_the_fault_has_not_made_says_so(
    plan_: Semantic, anomaly: Anomaly, spoil: Callable[[Story], object], because: str
) -> None:
    """Broken, though not by this fault: six such runs were void, with 2 to 14 records lost in them,
    and nobody told.
    """
    story = run()
    plant(story, anomaly)
    spoil(story)
    found = judged(story, semantic=plan_).verdict
    check(
        Kind.BROKEN, rf"^though not by this fault \({re.escape(because)}\): {plan_} forbids", found
    )
    assert (found.green, found.label, found.by_fault, outcome(found)) == (
        False,
        "broken",
        False,
        "broken",
    )


@pytest.mark.parametrize(("spoil", "because"), list(ASTRAY.values()), ids=list(ASTRAY))
def test_a_control_that_breaks_without_its_fault_convicts_nobody(
    spoil: Callable[[Story], object], because: str
) -> None:
    """What was predicted is there, and its fault has not made it: void, as a run that proves
    nothing. It was called broken, as if a control's promise could be kept.
    """
    for anomaly, changes in (
        (Anomaly.DUPLICATED, CONTROL),
        (Anomaly.LOST, {"control": True, "sign": None, "lost": Exactly()}),
    ):
        story = run()
        if anomaly is Anomaly.LOST:
            lose(story, TARGET, "recorded")
        else:
            duplicate(story, TARGET)
        assert judged(story, **changes).verdict.label == "convicted"
        spoil(story)
        found = judged(story, **changes).verdict
        check(Kind.VOID, f"^{re.escape(because)}; so it convicts nobody that .* forbids", found)
        assert (found.green, found.as_predicted, found.label) == (False, False, "void")


def test_a_fault_that_had_another_effect_had_one() -> None:
    """Duplicates were predicted, and a record is lost: nobody says that this was not
    the fault's.
    """
    story = run()
    lose(story, TARGET)
    found = judged(story, duplicated=AtLeast()).verdict
    check(
        Kind.BROKEN,
        (
            "^at-least-once forbids loss.*contradicted: .*duplicated: predicted at least k1-3, saw "
            "none"
        ),
        found,
    )
    assert found.by_fault


def test_a_loss_beside_a_node_that_ended_by_itself_is_told_with_it() -> None:
    """It is no reason to say nothing of the loss, and no proof that it was another fault's: it is
    said.
    """
    story = run()
    plant(story, Anomaly.LOST)
    died_later(story)
    found = judged(story).verdict
    check(
        Kind.BROKEN,
        (
            "^at-least-once forbids loss.*; consumer was not healthy after the fault: ended by "
            "signal 11"
        ),
        found,
    )
    assert not judged(
        story, control=True, sign=None, lost=Exactly(Select.THROUGH_TARGET)
    ).verdict.green


@pytest.mark.parametrize(
    "disturb", ["stalled copy", "unread copy", "not shown yet", "source", "left behind"]
)
def test_nothing_is_lost_while_a_drain_is_not_believed(disturb: str) -> None:
    """It is said to have completed, and something still waits: a record that is not there may be
    late.
    """
    story = run()
    plant(story, Anomaly.LOST)
    (leave_in_topic if disturb == "left behind" else UNREST[disturb][0])(story)
    check(Kind.VOID, "the drain completed, but", judged(story).verdict)


# --- stuck ----------------------------------------------------------------------------------------


def test_no_progress_is_stuck_and_names_the_stage() -> None:
    """A failed drain is stuck, a finding, not void and not kept; its reason names the stage that
    stopped.
    """
    story = run()
    stuck(story)
    found = judged(story).verdict
    check(Kind.STUCK, "no progress until the deadline: consumer: position 2 of 3", found)
    assert not found.green


def hung(story: Story, *, waiting: bool = True) -> None:
    """Let nothing move any more once the fault has fired; records that were sent before it wait in
    the topic, or none does.
    """
    only_before(story)
    stuck(story)
    if waiting:
        for record in RECORDS[RECORDS.index(TARGET) - 1 :]:
            without(story, lambda row, record=record: about(row, record, "delivered", "recorded"))  # type: ignore[misc]
        for row in story.events:
            if row["event"] == "position":
                row.update(offset=0)


def test_who_hangs_while_records_wait_is_stuck() -> None:
    """Nothing moved after the fault: because nobody moves what waits, all being alive, and not
    because nothing was there.
    """
    story = run()
    hung(story)
    check(Kind.STUCK, "no progress until the deadline: consumer", judged(story).verdict)


def test_who_hangs_behind_a_transaction_that_does_not_end_is_stuck() -> None:
    """What is stored and not to be seen waits, too: a broker that came back had written no end of
    the transaction.
    """
    story = run()
    hung(story, waiting=False)
    leave_stalled(story)
    first(story, "log", partition=place(RECORDS[5])[0]).update(last_data=1)
    check(Kind.STUCK, "no progress until the deadline: consumer", judged(story).verdict)


def test_who_does_not_come_back_is_stuck() -> None:
    """It is the fault that it died of, and that nothing moves after that is what was found, not a
    lack of load.
    """
    story = run()
    hung(story, waiting=False)
    before(story, first(story, "drain"), exit_of(story, "consumer", 2, status=1))
    first(story, "drain", phase="failed").update(
        because="the consumer ended; it last said: locked", at_once=True
    )
    check(
        Kind.STUCK,
        "^the pipeline cannot go on: consumer: the consumer ended; it last said: locked$",
        judged(story).verdict,
    )


def test_a_stuck_pipeline_names_the_process_that_was_gone() -> None:
    """One of several: what it was to move nobody moves, and its stage lives."""
    story = run()
    stuck(story)
    gone = story.tell(
        "node",
        "runner",
        node="consumer",
        role="consumer",
        incarnation=1,
        phase="gone",
        pid=7,
        command="worker 2",
    )
    before(story, first(story, "drain"), gone)
    check(
        Kind.STUCK,
        r"consumer: position 2 of 3; process 7 \(worker 2\) of the consumer had ended by itself",
        judged(story).verdict,
    )


def test_where_nothing_waits_nobody_hangs() -> None:
    """No load after the fault, and none that could have been: void. So is it where somebody has
    gone, or all was drained.
    """
    story = run()
    hung(story, waiting=False)
    check(Kind.VOID, "no load after the fault", judged(story).verdict)
    story = run()
    hung(story)
    before(story, first(story, "drain"), exit_of(story, "consumer", 1, status=1))
    check(Kind.VOID, "no load after the fault", judged(story).verdict)
    story = run()
    hung(story)
    first(story, "drain", phase="failed").update(phase="completed")
    check(Kind.VOID, "no load after the fault", judged(story).verdict)
    story = run()
    hung(story)
    only_after(story)
    without(story, lambda row: row["event"] == "fetched")
    check(Kind.VOID, "no load before the fault", judged(story).verdict)
    story = run()
    hung(story)
    without(story, lambda row: row["event"] == "fault" or row["event"] == "rule")
    check(Kind.VOID, "the fault did not fire", judged(story).verdict)


def test_a_rule_that_only_holds_others_does_not_date_the_fault() -> None:
    """What dies between its hit and the fault's own was not well before the fault."""
    story = run()
    hit = first(story, "rule")
    hit["rule"] = "fault"
    armed = [
        story.tell("rule", "wire", rule=rule, phase="armed", limit=1) for rule in ("fault", "until")
    ]
    gate = story.tell(
        "rule", "wire", rule="until", phase="hit", record=RECORDS[-1], records=[RECORDS[-1]]
    )
    before(story, hit, *armed, gate, exit_of(story, "consumer", 1, status=1))
    gate["t"] -= 1
    check(Kind.VOID, "consumer was not healthy before the fault", judged(story).verdict)


def test_void_comes_before_stuck() -> None:
    """A run that proves nothing is not even stuck: a node that was ill before the fault explains
    it.
    """
    story = run()
    early_exit(story, status=1)
    stuck(story)
    check(Kind.VOID, "not healthy", judged(story).verdict)


# --- controls -------------------------------------------------------------------------------------

CONTROL: Changes = {"control": True, "semantic": EOS, "sign": None, "duplicated": Exactly()}


def test_a_control_convicted_as_predicted_is_green() -> None:
    """A control must be broken exactly as predicted, and is then called convicted."""
    story = run()
    duplicate(story, TARGET)
    found = judged(story, **CONTROL).verdict
    check(Kind.BROKEN, "exactly-once forbids duplicates: 1 duplicated", found)
    assert (found.green, found.label) == (True, "convicted")


STOPS: Changes = {"control": True, "sign": None, "lost": Exactly(), "stops": "OutOfRange"}


def stopped(story: Story, because: str = "Query: OffsetOutOfRange") -> None:
    """Let the target be deleted, and the consumer end with an error instead of going on."""
    lose(story, TARGET)
    stuck(story)
    before(
        story,
        first(story, "drain"),
        story.tell("stopped", "consumer-1", kind="error", because=because),
    )


def test_a_control_that_must_stop_is_convicted_of_being_stuck() -> None:
    """It ends by itself and says why: stuck, as predicted."""
    story = run()
    stopped(story)
    found = judged(story, **STOPS).verdict
    check(Kind.STUCK, "no progress until the deadline", found)
    assert (found.green, found.label, outcome(found)) == (True, "convicted", "convicted")


@pytest.mark.parametrize("cause", ["Caused by: OffsetOutOfRange", "Caused by: gone"])
def test_a_reason_has_the_cause_of_what_a_program_said(cause: str) -> None:
    """One line of it; the word that it had to say may stand anywhere."""
    story = run()
    stopped(
        story, "\n".join(["Query failed", "OffsetOutOfRange", *["  at a.Java.frame"] * 999, cause])
    )
    found = judged(story, **STOPS).verdict
    assert found.label == "convicted"
    assert found.reason.endswith(f"; consumer-1 had ended: {cause}")


def test_a_control_that_must_stop_and_goes_on_is_red() -> None:
    story = run()
    lose(story, TARGET)
    found = judged(story, **STOPS).verdict
    check(Kind.BROKEN, "forbids loss", found)
    assert (found.green, found.label) == (False, "not convicted")


def test_a_control_that_stops_for_another_reason_is_red() -> None:
    """Whatever else ends a program convicts nobody."""
    story = run()
    stopped(story, "Query: OutOfMemory")
    found = judged(story, **STOPS).verdict
    check(Kind.STUCK, "no progress until the deadline", found)
    assert (found.green, found.label) == (False, "stuck")


def test_what_ends_when_all_is_over_has_not_stopped() -> None:
    """The harness ends whatever still runs behind the drain: that convicts nobody."""
    story = run()
    stopped(story)
    first(story, "stopped")["t"] = story.events[-1]["t"] + 1_000_000
    found = judged(story, **STOPS).verdict
    assert (found.label, "had ended" in found.reason) == ("stuck", False)


def test_a_control_that_stops_and_has_lost_something_else_is_red() -> None:
    """It is convicted of what is predicted, and of nothing else."""
    story = run()
    stopped(story)
    assert not judged(story, **STOPS | {"lost": Exactly(Select.THROUGH_TARGET)}).verdict.green


def test_a_cell_that_must_stop_is_a_control() -> None:
    """Nothing else may be stuck and green."""
    with pytest.raises(ValueError, match="must be a control"):
        Predicted(stops="OutOfRange")


def test_a_control_that_loses_is_convicted() -> None:
    """A control may be one of loss."""
    story = run()
    lose(story, TARGET)
    found = judged(story, control=True, sign=None, lost=Exactly()).verdict
    check(Kind.BROKEN, "forbids loss", found)
    assert found.green


def test_a_control_that_holds_is_red() -> None:
    found = judged(run(), **CONTROL).verdict
    check(Kind.VOID, "without effect", found)
    assert (found.green, found.label) == (False, "void")


def test_a_control_convicted_of_something_else_is_red() -> None:
    for duplicated, lost in ((RECORDS[1], None), (TARGET, RECORDS[1])):
        story = run()
        duplicate(story, duplicated)
        if lost:
            lose(story, lost)
        found = judged(story, **CONTROL).verdict
        check(Kind.BROKEN, "the prediction is contradicted", found)
        assert not found.green


@pytest.mark.parametrize("anomaly", [Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN])
def test_a_control_with_another_anomaly_is_red(anomaly: Anomaly) -> None:
    """No control predicts phantoms, resurrections or tears: beside the predicted duplicate they are
    a finding.
    """
    story = run()
    duplicate(story, TARGET)
    plant(story, anomaly)
    assert not judged(story, **CONTROL).verdict.green


@pytest.mark.parametrize("spoil", list(SPOILT.values()), ids=list(SPOILT))
def test_a_control_in_a_spoilt_run_is_red(spoil: Callable[[Story], object]) -> None:
    """A predicted duplicate that was there without the fault, or in a run that failed, convicts
    nobody.
    """
    story = run()
    duplicate(story, TARGET)
    spoil(story)
    assert not judged(story, **CONTROL).verdict.green


# --- a green cell that proves nothing -------------------------------------------------------------


@pytest.mark.parametrize("semantic", Semantic)
def test_a_drain_that_left_records_behind_is_not_kept(semantic: Semantic) -> None:
    """A drain declared complete with records still in the topic, stalled, or in the source is no
    drain: never green.
    """
    for leave in (leave_in_topic, leave_in_source, leave_stalled):
        story = run()
        leave(story)
        found = judged(story, semantic=semantic, **ANYTHING)
        counts = found.account.counts
        assert counts["left"] + counts["stalled"] == 1
        assert not found.verdict.green, leave.__name__


def leave_in_topic(story: Story) -> None:
    """The position saved is not past the last record of a partition."""
    lose(story, RECORDS[5], "recorded", "delivered", "fetched")
    first(story, "position", partition=place(RECORDS[5])[0]).update(offset=2)


def leave_in_source(story: Story) -> None:
    """The cursor is not past the last record."""
    lose(story, RECORDS[5])
    first(story, "cursor").update(position=COUNT)


def leave_stalled(story: Story) -> None:
    """The last stable offset is not past the last record."""
    lose(story, RECORDS[5], "recorded", "delivered", "fetched")
    first(story, "stored", record=RECORDS[5]).update(visible=False)
    first(story, "log", partition=place(RECORDS[5])[0]).update(stable=2)


def second_copy_stalled(story: Story) -> None:
    """A recorded record has a second copy in an open transaction: a duplicate, once that is
    committed.
    """
    story.stored(RECORDS[1], 0, 3, visible=False, attempt="producer-2.7.1")
    first(story, "log", partition=0).update(end=4)


def second_copy_unread(story: Story) -> None:
    """A recorded record has a second, visible copy that nobody has read yet."""
    story.stored(RECORDS[1], 0, 3, attempt="producer-2.7.1")
    first(story, "log", partition=0).update(stable=4, end=4, last_data=3)


def another_to_send(story: Story) -> None:
    """The source's cursor is not past a record that is recorded: it will be sent again."""
    first(story, "cursor").update(position=COUNT)


def asked_early(story: Story) -> None:
    """The sink was read before the drain had ended."""
    first(story, "recorded")["t"] = first(story, "drain", phase="completed")["t"] - 5


def not_shown_yet(story: Story) -> None:
    """A leader has a record that no follower has fetched: acknowledged with one ack, and to be
    given to nobody yet.
    """
    end = first(story, "log", partition=0)["end"]
    story.tell(
        "replica",
        "runner",
        node="broker-2",
        topic="t",
        partition=0,
        offset=end,
        epoch=0,
        record=RECORDS[1],
    )


UNREST: dict[str, tuple[Callable[[Story], object], str]] = {
    "stalled copy": (
        second_copy_stalled,
        "t/0 has an open transaction: last stable offset 3, end 4",
    ),
    "unread copy": (second_copy_unread, "t/0 has an unread record at 3: the saved position is 3"),
    "position unknown": (
        lambda s: without(s, lambda r: r["event"] == "position"),
        "the history has no saved position of t/0",
    ),
    "ends unknown": (lambda s: without(s, lambda r: r["event"] == "log"), "the topic was not read"),
    "not shown yet": (not_shown_yet, "broker-2 has a record of t/0 at 3: the log ends at 3"),
    "source": (another_to_send, "the source's cursor is at 6 of 6"),
    "early": (asked_early, r"before the drain had ended \(recorded\)"),
    "crashed": (died_later, "consumer was not healthy after the fault: ended by signal 11"),
}


@pytest.mark.parametrize(("disturb", "reason"), list(UNREST.values()), ids=list(UNREST))
def test_a_drain_that_is_none_keeps_and_convicts_nobody(
    disturb: Callable[[Story], object], reason: str
) -> None:
    """All records are recorded, and yet something moves: void, for the next duplicate was not
    waited for.
    """
    story = run()
    disturb(story)
    check(Kind.VOID, reason, judged(story).verdict)
    story = run()
    duplicate(story, TARGET)
    disturb(story)
    assert not judged(story, **CONTROL).verdict.green


def test_a_row_that_was_not_filled_in_is_told_of() -> None:
    for semantic, kind in ((ALO, Kind.BROKEN), (AMO, Kind.KEPT)):
        story = run()
        lose(story, TARGET, "recorded")
        row = story.tell("unfilled", "runner", count=1, text="k1-3 None", columns=[2, 3])
        before(story, first(story, "log"), row)
        said = (
            "1 row of the output has nothing in columns 2 and 3, where every row had something "
            "without a fault, as 'k1-3 None'"
        )
        check(kind, said, judged(story, semantic=semantic, **ANYTHING, sign=None).verdict)


def test_a_tail_that_is_recorded_is_not_on_its_way() -> None:
    """No position is saved behind the last record, nor will be: kept where it was given and is
    recorded, and nowhere else.
    """
    last = RECORDS[-1]
    for tail, disturb, kind, reason in (
        (
            True,
            nothing,
            Kind.KEPT,
            "no position is saved behind the last records: the next start reads them again",
        ),
        (False, nothing, Kind.VOID, "t/0 has an unread record at 2: the saved position is 2"),
        (True, lambda s: lose(s, last, "recorded"), Kind.VOID, "1 records are left behind"),
        (True, lambda s: lose(s, last, "fetched"), Kind.VOID, "t/0 has an unread record at 2"),
        (True, second_copy_unread, Kind.VOID, "t/0 has an unread record at 3"),
        (
            True,
            lambda s: lose(s, RECORDS[3], "recorded", "delivered"),
            Kind.BROKEN,
            f"1 lost .{RECORDS[3]} delivered",
        ),
    ):
        story = run()
        first(story, "drain", phase="completed").update(tail=tail)
        first(story, "position", partition=place(last)[0]).update(offset=place(last)[1])
        disturb(story)
        check(kind, reason, judged(story).verdict)


@pytest.mark.parametrize("supervised", [True, False])
def test_a_declared_supervisor_is_no_ill_health(supervised: bool) -> None:
    """Who ended by itself and was started again by the pipeline's own supervisor is judged on; by
    nobody else's.
    """
    story = run()
    died_later(story)
    again = story.tell(
        "node",
        by="runner",
        node="consumer",
        role="consumer",
        incarnation=2,
        phase="started",
        pid=9,
        supervised=supervised,
    )
    again["t"] = first(story, "fault", phase="healed")["t"] + 6
    found = judged(story).verdict
    assert found.kind is (Kind.KEPT if supervised else Kind.VOID), found


@pytest.mark.parametrize("semantic", Semantic)
def test_a_pipeline_that_does_nothing_keeps_no_promise(semantic: Semantic) -> None:
    """Where not one record arrived, at-most-once was not put to the test; the others are broken."""
    story = run()
    without(story, lambda row: row["event"] == "recorded")
    found = judged(story, semantic=semantic, **ANYTHING).verdict
    assert (found.kind, found.green) == (Kind.VOID if semantic is AMO else Kind.BROKEN, False)


def test_a_run_cut_short_while_observing_is_void() -> None:
    """A harness that died between drain and the end of the observation has not seen the whole sink:
    nothing is lost.
    """
    story = run()
    at = first(story, "recorded", record=RECORDS[3])["t"]
    without(story, lambda row: row["t"] > at)
    found = judged(story).verdict
    assert found.kind is Kind.VOID, found


def test_a_record_offered_twice_does_not_make_up_for_another() -> None:
    story = run()
    without(story, lambda row: about(row, RECORDS[5], "offered", "stored", "recorded"))
    story.offered(RECORDS[0], "k1", 1)
    check(Kind.VOID, "5 of 6 records were offered", judged(story).verdict)


def test_a_missing_line_of_the_source_convicts_nobody() -> None:
    """Where not every offered record was written down, a record without its line is no phantom: the
    run is void.
    """
    story = run()
    without(story, lambda row: about(row, RECORDS[5], "offered"))
    check(Kind.VOID, "5 of 6 records were offered", judged(story).verdict)


def test_an_attempt_belongs_to_the_transaction_of_its_first_two_words() -> None:
    """Whatever follows them: a program may number its attempts in words of its own."""
    story = run()
    story.transaction("producer-2.5", "aborted")
    for name in ("stored", "acked", "sent"):
        first(story, name, record=RECORDS[4]).update(attempt="producer-2.5.1.retry")
    assert account(story.events).counts["resurrected"] == 1


def test_a_database_with_an_open_transaction_is_not_at_rest() -> None:
    """What it has written may yet appear: the sink was asked too early, at its beginning or at its
    end.
    """
    story = run()
    for left in (0, 1):
        story.tell("settled", "runner", open=left)
    check(
        Kind.VOID, "the sink was read while 1 transactions were open in it", judged(story).verdict
    )


# --- merging and the plan -------------------------------------------------------------------------


def test_verdicts_merge_by_worst() -> None:
    """Broken is worse than void, void than stuck, stuck than kept; the order they come in does not
    matter.
    """
    order = [Kind.BROKEN, Kind.VOID, Kind.STUCK, Kind.KEPT]
    for n, worst in enumerate(order):
        assert merge(order[n:]) is worst
        assert merge(order[: n - 1 : -1] if n else order[::-1]) is worst


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dead_letters": True},
        {"lost": Exactly(Select.UNIT), "duplicated": AtLeast(Select.THROUGH_TARGET)},
        {
            "lost": Some(3),
            "duplicated": Permitted(),
            "sign": None,
            "control": True,
            "stops": "OutOfRange",
        },
        {"lost": Some(2, Select.UNIT), "duplicated": AtLeast(most=Select.THROUGH_TARGET)},
        {
            "control": True,
            "left": Exactly(Select.ADDED),
            "evidence": Evidence("failpoint"),
            "proofs": {"grown": {}, "rolled": {"count": 3}},
        },
        {
            "evidence": Evidence(
                "failpoint",
                killed=(Role.BROKER, Role.CONSUMER),
                paused=(Role.PROCESSOR,),
                forgotten=True,
                at_target=False,
            )
        },
    ],
)
def test_a_saved_plan_is_the_plan(changes: Changes) -> None:
    """A plan read back from its JSON is equal to what was saved, types included, so a run can be
    judged again.
    """
    saved = plan(**changes)
    again = Plan.from_json(saved.to_json())
    assert again == saved
    assert again.to_json() == saved.to_json()
    assert again.dead_letters is bool(changes.get("dead_letters"))
    assert history_of(run()).events
    assert PLAN.target == TARGET

"""Writes golden histories: ``python -m tests.judge.make_golden`` writes those that are not there
yet.

A golden history is a folder as a run leaves it (``cell.json``, ``history/*.jsonl``) with
``expected.json`` beside it. What is expected is written here by hand, from the definitions, never
copied from what the judge says. A folder that is there is left alone: the point of a golden history
is that a later judge still says the same of it. Trimmed histories of real runs are added by hand,
in the same form. Those whose names begin with ``sealed`` have plans of version 2, and hold every
cross-check; the others are older, and hold those that they can. No story is told in both.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.judge.signs import ABORTED, ABSORBED
from harness.model.ending import RUNNER, counted
from harness.model.history import read_files
from harness.model.prediction import AtLeast, Exactly, Permitted, Select, Some
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from tests.judge.histories import RESULTS, Story
from tests.judge.runs import (
    COUNT,
    PARTITIONS,
    RECORDS,
    TARGET,
    about,
    all_of,
    append,
    attempt_of,
    before,
    duplicate,
    exit_of,
    first,
    look_again,
    lose,
    marked,
    place,
    plan,
    run,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
FOLDER = Path(__file__).parent / "golden"
ALL = {"offered": COUNT, "acked": COUNT, "stored": COUNT, "recorded": COUNT}


@dataclass(frozen=True)
class Golden:
    """One golden history: how it differs from the run by hand, and what must be said of it."""

    change: Callable[[Story], object]
    verdict: str
    reason: str
    counts: dict[str, int] = field(default_factory=dict)
    """Differences from a whole run."""
    lost: dict[str, str] = field(default_factory=dict)
    duplicated: tuple[str, ...] = ()
    green: bool = False
    fired: int = 1
    plan: dict[str, Any] = field(default_factory=dict)
    raw: tuple[tuple[str, str], ...] = ()
    """Text appended to a file of the history: (file, text)."""


# --- what happened --------------------------------------------------------------------------------


def nothing(story: Story) -> None:
    """Change nothing."""


def no_fault(story: Story) -> None:
    """Run without a fault: the producer takes every record once."""
    without(
        story, lambda row: row["event"] in {"fault", "rule", "unsent"} or row.get("signal") == 9
    )
    without(story, lambda row: about(row, TARGET, "taken") and row["by"] == "producer-1")


def every_hop(story: Story) -> None:
    """Lose each of the six records at another hop."""
    lose(story, RECORDS[0])
    lose(story, RECORDS[1], "acked", "stored", "fetched", "delivered", "recorded")
    lose(story, RECORDS[2], "stored", "fetched", "delivered", "recorded")
    lose(story, RECORDS[3], "fetched", "delivered", "recorded")
    first(story, "stored", record=RECORDS[3])["visible"] = False
    look_again(story)
    lose(story, RECORDS[4], "fetched", "delivered", "recorded")
    lose(story, RECORDS[5], "recorded")


def resend_and_redelivery(story: Story) -> None:
    """Store one record twice and deliver another twice."""
    duplicate(story, TARGET)
    story.recorded(RECORDS[4], 91, *place(RECORDS[4]))


def undead(story: Story) -> None:
    """Show a read-committed reader a copy of an aborted transaction."""
    story.transaction(attempt_of(TARGET).rsplit(".", 1)[0], "aborted")


def aborted_result(story: Story) -> None:
    """Record the target from a copy that is in an aborted transaction."""
    marked(story)
    first(story, "stored", record=TARGET)["visible"] = False
    look_again(story)


def split_brain(story: Story) -> None:
    """Give a second reader another record at the target's offset."""
    row = story.fetched(RECORDS[3], *place(TARGET), reached=True)
    row.update(conn=2, t=first(story, "drain")["t"] - 1)


def half(story: Story) -> None:
    """Show one of two acknowledged attempts of a transaction."""
    story.transaction(attempt_of(TARGET).rsplit(".", 1)[0], "committed")
    story.acked(TARGET, attempt_of(TARGET).rsplit(".", 1)[0] + ".2")


def strangers(story: Story) -> None:
    """Put a foreign payload into the topic, and a damaged and an unknown row into the sink."""
    stranger = append(story, None, 0, intact=False)
    story.recorded("k9-99", 98, 0, stranger["offset"])
    story.recorded(TARGET, 99, *place(TARGET), intact=False)


def broken_ack(story: Story) -> None:
    """Acknowledge a record that is not in the log: unflushed, and the power went."""
    lose(story, RECORDS[1], "stored", "fetched", "delivered", "recorded")


def absorb(story: Story) -> None:
    """Deliver the target twice to an idempotent sink."""
    story.delivered(TARGET, *place(TARGET))
    story.absorbed(TARGET, *place(TARGET))


def dispute(story: Story) -> None:
    """Abort the first attempt at the target; the second is recorded in a later transaction."""
    story.transaction("producer-1.3", "unknown")
    append(story, TARGET, 0, visible=False, attempt="producer-1.3.1")
    first(story, "unsent").update(event="sent")


def topic_to_topic(story: Story) -> None:
    """Let the sink be a log: every row is the copy of a result, written in a processor's
    transaction.
    """
    story.log(0, COUNT * 2, hop="sink", topic=RESULTS)
    for n, record in enumerate(RECORDS):  # a marker behind each
        attempt = f"processor-1.{n}.1"
        story.transaction(f"processor-1.{n}", "committed")
        story.sent(record, attempt, f"5/{n}")["topic"] = RESULTS
        story.acked(record, attempt, hop="sink")
        story.stored(record, 0, n * 2, hop="sink", topic=RESULTS, attempt=attempt)
        first(story, "recorded", record=record).update(attempt=attempt, order=n * 2)
    look_again(story)


def result_twice(story: Story) -> None:
    """Append one result twice to the log that is the sink: its ack was lost."""
    topic_to_topic(story)
    again = COUNT * 2
    story.stored(TARGET, 0, again, hop="sink", topic=RESULTS, attempt="processor-1.2.1")
    story.recorded(TARGET, again, *place(TARGET), attempt="processor-1.2.1")
    first(story, "log", hop="sink").update(stable=again + 2, end=again + 2)
    look_again(story)


def stop(story: Story) -> None:
    """Stop the consumer for good, with one record unread and one behind an open transaction."""
    lose(story, RECORDS[4], "fetched", "delivered", "recorded")
    lose(story, RECORDS[5], "fetched", "delivered", "recorded")
    first(story, "stored", record=RECORDS[5])["visible"] = False
    first(story, "log", partition=place(RECORDS[5])[0])["stable"] = 2
    look_again(story)
    first(story, "position", partition=place(RECORDS[4])[0])["offset"] = 2
    first(story, "drain", phase="completed").update(
        phase="failed", stage="consumer", because="partition 1 stands at 2 of 3"
    )


def hold(story: Story) -> None:
    """Leave the last record in the source: the producer hangs."""
    lose(story, RECORDS[5])
    first(story, "cursor")["position"] = COUNT
    first(story, "drain", phase="completed").update(
        phase="failed", stage="source", because="the cursor stands at 6 of 7"
    )


def client_refuses(story: Story) -> None:
    """Let the client refuse its settings and nothing happen."""
    without(story, lambda row: row["event"] not in {"offered", "cursor", "drain", "cell"})
    story.now, now = 0, story.now
    story.tell(
        "stopped",
        "producer-1",
        kind="settings",
        because="KafkaConfigurationError: acks=1 with idempotence",
    )
    exit_of(story, "producer", 1, status=78)
    story.now = now
    first(story, "cursor")["position"] = 1
    asked = first(story, "cell", phase="observed")["t"]
    for partition in range(PARTITIONS):
        for row in (story.log(partition, 0), story.position(partition, -1)):
            row["t"] = asked - 1


def cut(story: Story) -> None:
    """End the run with the drain begun and nothing observed but the source."""
    end = first(story, "drain", phase="completed")["t"]
    without(story, lambda row: row["t"] >= end and row["event"] != "offered")


def half_observed(story: Story) -> None:
    """Let the harness die while it reads the sink."""
    at = first(story, "recorded", record=RECORDS[3])["t"]
    without(story, lambda row: row["t"] > at)


def leave_behind(story: Story) -> None:
    """Declare the drain complete with a record unread."""
    lose(story, RECORDS[5], "fetched", "delivered", "recorded")
    first(story, "position", partition=place(RECORDS[5])[0])["offset"] = 2


def unwritten(story: Story) -> None:
    """Lose one line of the source: the record itself went all the way."""
    without(story, lambda row: about(row, RECORDS[5], "offered"))


def undecodable(story: Story) -> None:
    """Blind the wire."""
    story.tell(
        "undecodable", "wire", api="Produce", version=99, because="no schema for this version"
    )


def failed(story: Story) -> None:
    """Let the harness fail."""
    story.tell("failed", "runner", because="ConnectionRefusedError: observer")


def unoffered(story: Story) -> None:
    """Leave one record out everywhere."""
    without(story, lambda row: row.get("record") == RECORDS[5])


def unarmed(story: Story) -> None:
    """Let the fault wait in vain."""
    no_fault(story)
    story.tell("fault", "runner", phase="armed", fault="kill", record=TARGET)["t"] = 1


def missed(story: Story) -> None:
    """Say that the fault fired, though no rule was hit."""
    without(story, lambda row: row["event"] == "rule")


def elsewhere(story: Story) -> None:
    """Hit another record."""
    first(story, "rule").update(record=RECORDS[0], records=[RECORDS[0]])


def survivor(story: Story) -> None:
    """Let the victim live."""
    without(story, lambda row: row.get("signal") == 9 and row["role"] == "producer")


def bystander(story: Story) -> None:
    """Kill the consumer too."""
    exit_of(story, "consumer", 1, signal=9)["t"] = first(story, "fault", phase="healed")["t"] + 5


def ill(story: Story) -> None:
    """Let the consumer fall before the fault."""
    before(story, first(story, "rule"), exit_of(story, "consumer", 1, status=1))


def no_load(story: Story, *, after: bool) -> None:
    """Leave no load on one side of the fault."""
    at = first(story, "rule")["t"]
    moves = {"taken", "delivered", "sent"}
    without(
        story, lambda row: row["event"] in moves and ((row["t"] > at) if after else (row["t"] < at))
    )


def unshown(story: Story) -> None:
    """Show no sign: the restarted producer's ledger is lost."""
    without(story, lambda row: about(row, TARGET, "taken") and row["by"] == "producer-2")


def something_sent(story: Story) -> None:
    """Send the target all the same."""
    story.sent(TARGET, None)


def lose_without_a_fault(story: Story) -> None:
    """Let the fault wait in vain, and lose a record all the same."""
    unarmed(story)
    lose(story, RECORDS[3], "recorded")


def powerless(story: Story) -> None:
    """Let the power go when a record was read that is on no disk: what comes next takes its place
    in the log.
    """
    gone, later = RECORDS[1], RECORDS[3]
    partition, offset = place(gone)
    without(
        story,
        lambda row: (
            about(row, gone, "stored")
            or about(row, later, "stored", "recorded", "fetched", "delivered")
        ),
    )
    story.stored(later, partition, offset, epoch=1, attempt=attempt_of(later))
    first(story, "stored", record=RECORDS[5]).update(offset=offset + 1, epoch=1)
    first(story, "recorded", record=RECORDS[5]).update(offset=offset + 1, epoch=1)
    first(story, "log", partition=partition).update(stable=offset + 2, end=offset + 2)
    look_again(story)
    fired = first(story, "fault", phase="fired")
    forgot = story.tell(
        "fault", "runner", phase="forgot", fault="kill", file="t-0", bytes_before=1, bytes_after=0
    )
    death = exit_of(story, "broker", 1, signal=9)
    forgot["t"] = death["t"] = fired["t"] + 5


def refuse(story: Story) -> None:
    """Let the target be refused before anything is appended, and not be sent again."""
    lose(story, TARGET)
    story.refused(TARGET, attempt_of(TARGET))["t"] = first(story, "fault", phase="healed")["t"] + 1


def foreign(story: Story) -> None:
    """Let the producer write something else beside its records."""
    append(story, None, 0, intact=False, foreign=True)


def compact(story: Story, record: str, *, passed: bool = False) -> None:
    """Let compaction take a record for the last one of its key, before anybody was given it."""
    partition, offset = place(record)
    lose(story, record, "stored", "fetched", "delivered", "recorded")
    without(story, lambda row: row["event"] == "end_txn")
    gone = story.tell("removed", record=record, topic="t", why="compaction", visible=True)
    gone.update(
        passed=passed, partition=partition, epoch=0, offset=offset, later=f"{partition}:0:2"
    )
    gone["t"] = first(story, "cell", phase="observed")["t"] - 1


def compact_both(story: Story) -> None:
    """Let it take another one, too, behind which the reader already was."""
    compact(story, RECORDS[1])
    compact(story, RECORDS[3], passed=True)


FAULTLESS: dict[str, Any] = {"evidence": Evidence("none"), "sign": None}
CONTROL: dict[str, Any] = {"control": True, "semantic": EOS, "sign": None, "duplicated": Exactly()}
ONE_LOST = {"recorded": -1, "lost": 1}
NEVER_SENT = {"acked": -1, "stored": -1, **ONE_LOST}

GOLDEN: dict[str, Golden] = {
    # kept
    "kept-after-a-crash": Golden(
        nothing, "kept", "6 of 6 recorded; k1-3 was protected (taken-again)", green=True
    ),
    "kept-without-a-fault": Golden(
        no_fault, "kept", "6 of 6 recorded", green=True, fired=0, plan=FAULTLESS
    ),
    "kept-though-it-loses": Golden(
        lambda s: lose(s, TARGET),
        "kept",
        "1 lost (k1-3 never sent)",
        NEVER_SENT,
        {TARGET: "never sent"},
        green=True,
        plan={"semantic": AMO, "sign": None, "lost": Exactly()},
    ),
    "kept-though-it-duplicates": Golden(
        resend_and_redelivery,
        "kept",
        "2 duplicated (k1-3, k1-5: 1 stored twice, 1 delivered twice)",
        {"duplicated": 2, "stored_twice": 1, "delivered_twice": 1},
        duplicated=(TARGET, RECORDS[4]),
        green=True,
        plan={"sign": None, "duplicated": AtLeast()},
    ),
    "kept-by-absorbing": Golden(
        absorb,
        "kept",
        "k1-3 was protected (absorbed)",
        {"absorbed": 1},
        green=True,
        plan={"semantic": EOS, "sign": ABSORBED},
    ),
    "kept-by-aborting": Golden(
        dispute,
        "kept",
        "k1-3 was protected (aborted)",
        {"aborted": 1, "unknown": 1, "in_doubt": 1},
        green=True,
        plan={"semantic": EOS, "sign": ABORTED},
    ),
    "kept-from-topic-to-topic": Golden(
        topic_to_topic,
        "kept",
        "6 of 6 recorded",
        green=True,
        plan={"semantic": EOS, "pipeline": "topic-to-topic", "logs": {"topic": 2, "sink": 1}},
    ),
    "kept-refused-by-the-client": Golden(
        client_refuses,
        "kept",
        "the client refused these settings; nothing was sent",
        {"acked": -6, "stored": -6, "recorded": -6, "left": 6, "left_in_source": 6},
        green=True,
        fired=0,
        plan={"refused_by_client": True, "sign": None},
    ),
    # broken
    "lost-at-every-hop": Golden(
        every_hop,
        "broken",
        "at-least-once forbids loss: 6 lost",
        {"acked": -2, "unknown": 1, "stored": -3, "recorded": -6, "lost": 6, "aborted": 1},
        dict(
            zip(
                RECORDS,
                (
                    "never sent",
                    "sent, not stored",
                    "acked, not stored",
                    "only in aborted transactions",
                    "stored, skipped",
                    "delivered, not recorded",
                ),
                strict=True,
            )
        ),
        plan={"lost": Some(6)},
    ),
    "broken-ack": Golden(
        broken_ack,
        "broken",
        "1 lost (k0-2 acked, not stored)",
        {"stored": -1, **ONE_LOST},
        {RECORDS[1]: "acked, not stored"},
    ),
    "broken-by-a-duplicate": Golden(
        resend_and_redelivery,
        "broken",
        "at-most-once forbids duplicates: 2 duplicated",
        {"duplicated": 2, "stored_twice": 1, "delivered_twice": 1},
        duplicated=(TARGET, RECORDS[4]),
        plan={"semantic": AMO},
    ),
    "broken-by-a-result-twice": Golden(
        result_twice,
        "broken",
        "exactly-once forbids duplicates: 1 duplicated (k1-3: 1 stored twice)",
        {"duplicated": 1, "stored_twice": 1},
        duplicated=(TARGET,),
        plan={"semantic": EOS, "pipeline": "topic-to-topic", "logs": {"topic": 2, "sink": 1}},
    ),
    "broken-by-resurrection": Golden(
        undead, "broken", "1 resurrected, which at-least-once forbids", {"resurrected": 1}
    ),
    "broken-by-tearing": Golden(
        half, "broken", "1 torn, which at-most-once forbids", {"torn": 1}, plan={"semantic": AMO}
    ),
    "broken-by-phantoms": Golden(
        strangers, "broken", "2 phantom, which at-least-once forbids", {"phantom": 2}
    ),
    "broken-in-a-failed-run": Golden(
        all_of(resend_and_redelivery, failed),
        "broken",
        "exactly-once forbids duplicates",
        {"duplicated": 2, "stored_twice": 1, "delivered_twice": 1},
        duplicated=(TARGET, RECORDS[4]),
        plan={"semantic": EOS},
    ),
    "convicted": Golden(
        lambda s: duplicate(s, TARGET),
        "broken",
        "exactly-once forbids duplicates",
        {"duplicated": 1, "stored_twice": 1},
        duplicated=(TARGET,),
        green=True,
        plan=CONTROL,
    ),
    "convicted-of-something-else": Golden(
        lambda s: duplicate(s, RECORDS[0]),
        "broken",
        "predicted exactly k1-3, saw k1-1",
        {"duplicated": 1, "stored_twice": 1},
        duplicated=(RECORDS[0],),
        plan=CONTROL,
    ),
    # stuck
    "stuck-consumer": Golden(
        stop,
        "stuck",
        "no progress until the deadline: consumer: partition 1 stands at 2 of 3",
        {"recorded": -2, "left": 1, "left_in_topic": 1, "stalled": 1},
    ),
    "stuck-source": Golden(
        hold,
        "stuck",
        "source: the cursor stands at 6 of 7",
        {"acked": -1, "stored": -1, "recorded": -1, "left": 1, "left_in_source": 1},
    ),
    # void
    "void-failed": Golden(failed, "void", "the run failed: ConnectionRefusedError: observer"),
    "void-damaged": Golden(
        nothing,
        "void",
        "the history is damaged at wire.jsonl:",
        raw=(("wire.jsonl", '{"t": 1, "eve\n{"t": 2, "event": "frame"}\n'),),
    ),
    "void-undecodable": Golden(undecodable, "void", "the wire could not read Produce v99"),
    "void-offered-too-few": Golden(
        unoffered,
        "void",
        "5 of 6 records were offered",
        {"offered": -1, "acked": -1, "stored": -1, "recorded": -1},
    ),
    "void-not-refused": Golden(
        nothing,
        "void",
        "the client was expected to refuse these settings and did not",
        plan={"refused_by_client": True, "sign": None},
    ),
    "void-refused-and-sent": Golden(
        all_of(client_refuses, something_sent),
        "void",
        "but something was sent all the same",
        {"acked": -6, "stored": -6, "recorded": -6, "unknown": 1, "left": 6, "left_in_source": 6},
        fired=0,
        plan={"refused_by_client": True, "sign": None},
    ),
    "void-not-fired": Golden(unarmed, "void", "the fault did not fire", fired=0),
    "void-no-hit": Golden(missed, "void", "no rule was hit", fired=0),
    "void-another-record": Golden(
        elsewhere, "void", "fired at another record than its target k1-3", fired=0
    ),
    "void-victim-alive": Golden(survivor, "void", "the producer was not killed"),
    "void-another-victim": Golden(bystander, "void", "the wrong process was killed: the consumer"),
    "void-not-paused": Golden(
        nothing,
        "void",
        "the consumer was not paused",
        plan={"evidence": Evidence("rule", killed=(Role.PRODUCER,), paused=(Role.CONSUMER,))},
    ),
    "void-nothing-forgotten": Golden(
        nothing,
        "void",
        "no file was reverted",
        plan={
            "evidence": Evidence("rule", killed=(Role.PRODUCER,), forgotten=True),
            "proofs": {"forgot": {}},
        },
    ),
    "void-ill-before": Golden(ill, "void", "consumer was not healthy before the fault"),
    "void-no-load-before": Golden(
        lambda s: no_load(s, after=False), "void", "no load before the fault"
    ),
    "void-no-load-after": Golden(
        lambda s: no_load(s, after=True), "void", "no load after the fault"
    ),
    "void-cut-short": Golden(
        cut,
        "void",
        "cut short",
        {"stored": -6, "recorded": -6, "lost": 6},
        dict.fromkeys(RECORDS, "acked, not stored"),
    ),
    "void-half-observed": Golden(
        half_observed,
        "void",
        "cut short before all authorities had been asked",
        {"recorded": -2, "lost": 2},
        dict.fromkeys(RECORDS[4:], "delivered, not recorded"),
    ),
    "void-left-behind": Golden(
        leave_behind,
        "void",
        "1 records are left behind",
        {"recorded": -1, "left": 1, "left_in_topic": 1},
    ),
    "void-source-unknown": Golden(
        unwritten,
        "void",
        "5 of 6 records were offered",
        {"offered": -1, "acked": -1, "stored": -1, "recorded": -1, "phantom": 1},
    ),
    "void-without-effect": Golden(
        nothing,
        "void",
        "without effect: lost predicted exactly target, saw none",
        plan={"semantic": AMO, "sign": None, "lost": Exactly()},
    ),
    "void-control-without-effect": Golden(
        nothing, "void", "without effect: duplicated predicted", plan=CONTROL
    ),
    "void-without-sign": Golden(
        unshown, "void", "nothing shows that the protection worked: no taken-again for k1-3"
    ),
    "void-contradicted": Golden(
        lambda s: lose(s, RECORDS[1]),
        "void",
        "lost: predicted exactly k1-3, saw k0-2",
        NEVER_SENT,
        {RECORDS[1]: "never sent"},
        plan={"semantic": AMO, "sign": None, "lost": Exactly(Select.TARGET)},
    ),
    "kept-with-a-cut-last-line": Golden(
        nothing,
        "kept",
        "6 of 6 recorded",
        green=True,
        plan={"lost": Permitted()},
        raw=(("producer-1.jsonl", '{"t": 5, "event": "ack'),),
    ),
}
GOLDEN |= {
    "sealed-kept-after-a-power-loss": Golden(
        powerless,
        "kept",
        "5 of 6 recorded; 1 lost (k0-4 stored, skipped)",
        {"stored": -1, **ONE_LOST},
        {RECORDS[3]: "stored, skipped"},
        green=True,
        plan={
            "semantic": AMO,
            "sign": None,
            "lost": Permitted(),
            "evidence": Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True),
            "proofs": {"forgot": {}},
        },
    ),
    "sealed-kept-though-one-is-refused": Golden(
        refuse,
        "kept",
        "1 lost (k1-3 never sent)",
        {**NEVER_SENT, "refused": 1},
        {TARGET: "never sent"},
        green=True,
        plan={"semantic": AMO, "sign": None, "lost": Exactly()},
    ),
    "sealed-kept-though-compaction-took-one": Golden(
        lambda s: compact(s, RECORDS[1]),
        "kept",
        "5 of 6 recorded; 1 superseded (k0-2: compaction took them for later records of their "
        "keys); k1-3 was protected (taken-again)",
        {"stored": -1, "recorded": -1, "superseded": 1},
        green=True,
    ),
    "sealed-broken-by-what-compaction-took": Golden(
        compact_both,
        "broken",
        "at-least-once forbids loss: 1 lost (k0-4 stored, compacted away)",
        {"stored": -2, "recorded": -2, "lost": 1, "superseded": 1},
        {RECORDS[3]: "stored, compacted away"},
    ),
    "sealed-kept-beside-foreign-records": Golden(foreign, "kept", "6 of 6 recorded", green=True),
    "sealed-broken-though-not-by-the-fault": Golden(
        lose_without_a_fault,
        "broken",
        "though not by this fault (the fault did not fire): at-least-once forbids loss: 1 lost",
        ONE_LOST,
        {RECORDS[3]: "delivered, not recorded"},
        fired=0,
    ),
    "sealed-broken-by-an-aborted-result": Golden(
        aborted_result,
        "broken",
        "1 resurrected, which at-least-once forbids; the aborted copy of k1-3 in t/1 at 1 is "
        "recorded",
        {"resurrected": 1, "aborted": 1},
    ),
    "sealed-broken-by-a-split-log": Golden(
        split_brain,
        "broken",
        "the log is wrong: readers were given different records at 1 of t/1: k1-3 on connection 1",
    ),
    "sealed-void-cut-short-with-a-duplicate": Golden(
        all_of(
            lambda s: duplicate(s, TARGET), lambda s: without(s, lambda row: row["event"] == "cell")
        ),
        "void",
        "cut short",
        {"duplicated": 1, "stored_twice": 1},
        duplicated=(TARGET,),
        plan={"semantic": EOS},
    ),
}


def write(name: str, golden: Golden) -> None:
    """Write one golden history."""
    story = run()
    golden.change(story)
    folder = FOLDER / name
    (folder / "history").mkdir(parents=True)
    planned = plan(**golden.plan)
    (folder / "cell.json").write_text(planned.to_json() + "\n")
    split = bool(golden.raw) or name == "kept-after-a-crash"
    for begun in (
        row for row in story.events if row["event"] == "cell" and row["phase"] == "begun"
    ):
        begun["seal"] = planned.seal
    for row in sorted(story.events, key=lambda row: row["t"]):
        with (folder / "history" / f"{row['by'] if split else 'events'}.jsonl").open("a") as file:
            file.write(json.dumps({**row, "cell": planned.id}, separators=(",", ":")) + "\n")
    for file_name, text in golden.raw:
        with (folder / "history" / file_name).open("a") as file:
            file.write(text)
    if planned.ends:
        end(folder / "history")
    counts = {
        column: ALL.get(column, 0) + golden.counts.get(column, 0)
        for column in {**ALL, **golden.counts}
    }
    expected = {
        "verdict": golden.verdict,
        "reason": golden.reason,
        "green": golden.green,
        "fired": golden.fired,
        "counts": {column: count for column, count in counts.items() if count},
        "lost": golden.lost,
        "duplicated": sorted(golden.duplicated),
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def end(history: Path) -> None:
    """Let a history end as the runner lets it: by a line that says what its files held."""
    last: dict[str, Any] = {}
    for file in sorted(history.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        ends = [row for row in rows if row["event"] == "cell" and row["phase"] == "ended"]
        others = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows if row not in ends)
        file.write_text("".join(others), encoding="utf-8")
        last = {**last, **(ends[-1] if ends else {}), "t": max(last.get("t", 0), rows[-1]["t"])}
    files = counted(read_files(history)) | {RUNNER: counted([(RUNNER, ())])[RUNNER]}
    line = {"line": 1, **last, "t": last["t"] + 1, "files": files}
    (history / RUNNER).write_text(json.dumps(line, separators=(",", ":")) + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Write the golden histories that are missing, or only those named."""
    for name in names or list(GOLDEN):
        if not (FOLDER / name).exists():
            write(name, GOLDEN[name])


if __name__ == "__main__":
    main(sys.argv[1:])

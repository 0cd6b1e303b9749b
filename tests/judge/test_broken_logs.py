"""Planted anomalies of a log, one history a class: each is convicted, and its right twins, which
differ in the one thing that proves it, are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge import logs
from harness.judge.verdict import Kind
from harness.model.prediction import Exactly, Permitted
from harness.model.scenario import Evidence
from harness.model.semantics import Semantic
from tests.judge.histories import TOPIC
from tests.judge.make_golden import aborted_result as aborted
from tests.judge.make_golden import split_brain
from tests.judge.runs import (
    COUNT,
    PARTITIONS,
    RECORDS,
    TARGET,
    all_of,
    append,
    attempt_of,
    first,
    judged,
    lose,
    marked,
    place,
    run,
    without,
)
from tests.judge.test_crosschecks import (
    LAST,
    begins,
    ends,
    in_a_transaction,
    left_open,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.histories import Story

NODES = ("broker-1", "broker-2")
OTHER = RECORDS[3]
PARTITION, OFFSET = place(TARGET)
END = COUNT // PARTITIONS
UNKNOWN = 2
"""A second connection, beside that of the consumer."""


def asks(conn: int, *, committed: bool) -> Callable[[Story], None]:
    """A reader asks for records on a connection."""

    def change(story: Story) -> None:
        row = story.tell("frame", "wire", role="consumer", api="Fetch", dir="request")
        row.update(conn=conn, corr=1, committed_only=committed, t=5)

    return change


def reads(
    record: str, partition: int, offset: int, *, conn: int = UNKNOWN, reached: bool = True
) -> Callable[[Story], None]:
    """A record is on its way to a reader, before the drain."""

    def change(story: Story) -> None:
        row = story.fetched(record, partition, offset, reached=reached)
        row.update(conn=conn, t=first(story, "drain")["t"] - 1)

    return change


# --- aborted, and given away ----------------------------------------------------------------------


def aborted_beside(story: Story) -> None:
    """An earlier copy of the target is in an aborted transaction."""
    marked(story)
    append(story, TARGET, PARTITION, visible=False, attempt="producer-1.3.1")
    first(story, "unsent").update(event="sent")


def still_open(story: Story) -> None:
    """It is not aborted yet: it waits above the last stable offset."""
    first(story, "log", partition=PARTITION)["stable"] = OFFSET


def unread(story: Story) -> None:
    """The result is of no copy that anybody has named."""
    first(story, "recorded", record=TARGET).update(partition=-1, epoch=-1, offset=-1)


def without_an_epoch(story: Story) -> None:
    """The sink's program knows no leader epochs."""
    first(story, "recorded", record=TARGET)["epoch"] = -1


def of_another_epoch(story: Story) -> None:
    """The result was made from what was there before the log was cut short."""
    first(story, "recorded", record=TARGET)["epoch"] = 7


GIVEN = (PARTITION, END)
"""Where the aborted copy beside the target's own stands."""


# --- replicas -------------------------------------------------------------------------------------


def replicas(story: Story) -> None:
    """Each broker has each copy."""
    for node in NODES:
        for record in RECORDS:
            partition, offset = place(record)
            row = story.tell("replica", node=node, record=record, topic=TOPIC, epoch=0)
            row.update(partition=partition, offset=offset)


def other_record(story: Story) -> None:
    """One of them has another record at one place."""
    replicas(story)
    first(story, "replica", node="broker-2", record=TARGET)["record"] = "k0-2"


def other_epoch(story: Story) -> None:
    """One of them has it of another leader."""
    replicas(story)
    first(story, "replica", node="broker-2", record=TARGET)["epoch"] = 1


def hole(story: Story) -> None:
    """One of them does not have one of them."""
    replicas(story)
    row = first(story, "replica", node="broker-2", record=TARGET)
    without(story, lambda other: other is row)


def in_sync(*nodes: str) -> Callable[[Story], None]:
    """The cluster says which replicas are in sync."""

    def change(story: Story) -> None:
        for partition in range(PARTITIONS):
            story.tell(
                "leadership",
                "runner",
                topic=TOPIC,
                partition=partition,
                leader=nodes[0],
                number=1,
                epoch=0,
                replicas=list(NODES),
                isr=list(nodes),
                controller=nodes[0],
            )

    return change


def removed(story: Story) -> None:
    """Retention has taken something of the topic."""
    row = story.tell("removed", why="compaction", record="k0-2", place=f"{PARTITION}:0:99")
    row.update(topic=TOPIC, partition=PARTITION, epoch=0, offset=99)


# --- two records at one offset --------------------------------------------------------------------


def rewritten(story: Story) -> None:
    """A reader was given one record, and the log has another there at the end: the result is of the
    first.
    """
    first(story, "fetched", record=TARGET)["record"] = OTHER


def recorded_both(story: Story) -> None:
    """A result was made from what only the second reader was given."""
    reads(OTHER, PARTITION, OFFSET)(story)
    story.recorded(OTHER, 90, PARTITION, OFFSET)


FORGETS: dict[str, Any] = {
    "semantic": Semantic.AT_MOST_ONCE,
    "sign": None,
    "lost": Permitted(),
    "evidence": Evidence("rule", forgotten=True),
}


# --- transactions ---------------------------------------------------------------------------------


def delivered_at(event: str, after: int, *, committed: bool | None = True) -> Callable[..., None]:
    """The record of a transaction reaches a reader right after, or before, a line of the wire."""

    def change(story: Story) -> None:
        in_a_transaction(story)
        at = first(story, event, request="7:3" if event == "end_txn" else "7:2")["t"]
        offset = first(story, "produce_answer", record=LAST)["offset"]
        row = story.fetched(LAST, place(LAST)[0], offset, reached=True)
        row.update(conn=UNKNOWN, t=at + after)
        if committed is not None:
            asks(UNKNOWN, committed=committed)(story)

    return change


def early(story: Story) -> None:
    """The record of a transaction reaches a reader before its commit was asked for."""
    delivered_at("sent", 1)(story)
    first(story, "end_txn")["t"] += 3


def commit_on_its_way(story: Story) -> None:
    """An earlier commit may have come late, and ended this transaction."""
    early(story)
    told = len(story.events)
    ends(story, "7:0")
    for row in story.events[told:]:
        row["t"] = first(story, "sent", request="7:2")["t"] - 1


def commit_that_was_answered(story: Story) -> None:
    """The earlier commit was over."""
    commit_on_its_way(story)
    row = story.tell(
        "end_txn_answer", "wire", error=0, request="7:0", transactional_id="tx", reached=True
    )
    row["t"] = first(story, "sent", request="7:2")["t"] - 1


def commit_withheld(story: Story) -> None:
    """The first request to commit was thrown away; the second one was passed on too late."""
    early(story)
    told = len(story.events)
    ends(story, "7:4", reached=False)
    for row in story.events[told:]:
        row["t"] = first(story, "fetched", conn=UNKNOWN)["t"] - 1


def two_wires(story: Story) -> None:
    """Another wire passed on the commit."""
    early(story)
    first(story, "end_txn")["by"] = "wire-2"


def no_offset(story: Story) -> None:
    """Nobody knows where the record was stored: the broker has not answered."""
    early(story)
    without(story, lambda row: row["event"] == "produce_answer")


def in_two_places(story: Story) -> None:
    """The record stands twice in one request: the answer does not say which is where."""
    early(story)
    again = first(story, "sent", request="7:2")
    story.tell(**{**again, "partition": 1 - place(LAST)[0]})["t"] = again["t"]


# --- in another topic -----------------------------------------------------------------------------


def elsewhere(story: Story) -> None:
    """The target was sent to another topic than the one that has it."""
    for row in story.events:
        if row["event"] in {"sent", "unsent"} and row["record"] == TARGET:
            row["topic"] = "u"


def sent_there_too(story: Story) -> None:
    """The same attempt was sent to both topics."""
    elsewhere(story)
    again = first(story, "sent", record=TARGET)
    story.tell(**{**again, "topic": TOPIC})["t"] = again["t"]


def nameless(story: Story) -> None:
    """The copy names neither its attempt nor its producer."""
    elsewhere(story)
    first(story, "stored", record=TARGET)["attempt"] = None


def by_its_producer(story: Story) -> None:
    """The copy names its producer alone."""
    nameless(story)
    first(story, "stored", record=TARGET)["producer_id"] = 4
    first(story, "sent", record=TARGET).update(attempt=None, producer_id=4)


def by_another_producer(story: Story) -> None:
    """It was stored by a producer that the wire has not seen send it."""
    by_its_producer(story)
    first(story, "stored", record=TARGET)["producer_id"] = 5


@dataclass(frozen=True)
class Planted:
    """One class: how it is planted, what is said of it, and its right twins."""

    wrong: dict[str, Callable[[Story], object]]
    because: str
    twins: dict[str, Callable[[Story], object]]
    changes: dict[str, Any] = field(default_factory=dict)


CORPUS: dict[str, Planted] = {
    "a result of an aborted copy": Planted(
        {
            "unknown reader": aborted,
            "reader of committed records": all_of(aborted, asks(1, committed=True)),
            "no epoch in the sink": all_of(aborted, without_an_epoch),
            "another topic's reader asked for all": all_of(
                aborted,
                asks(1, committed=True),
                asks(UNKNOWN, committed=False),
                lambda s: reads(TARGET, 0, 0)(s) or first(s, "fetched", conn=2).update(topic="u"),
            ),
        },
        f"1 resurrected, which at-least-once forbids; the aborted copy of {TARGET} in "
        f"t/{PARTITION} at {OFFSET} (is recorded|reached a reader of committed records)",
        {
            "reader of uncommitted records": all_of(aborted, asks(1, committed=False)),
            "somebody asked for uncommitted records": all_of(aborted, asks(9, committed=False)),
            "no place": all_of(aborted, unread),
            "another epoch": all_of(aborted, of_another_epoch),
            "committed": marked,
        },
    ),
    "a delivery of an aborted copy": Planted(
        {
            "reader of committed records": all_of(
                aborted_beside, asks(UNKNOWN, committed=True), reads(TARGET, *GIVEN)
            ),
        },
        f"1 resurrected, which at-least-once forbids; the aborted copy of {TARGET} in "
        rf"t/{PARTITION} at {END} reached a reader of committed records at 0\.000 s",
        {
            "reader of uncommitted records": all_of(
                aborted_beside, asks(UNKNOWN, committed=False), reads(TARGET, *GIVEN)
            ),
            "asked for both": all_of(
                aborted_beside,
                asks(UNKNOWN, committed=True),
                asks(UNKNOWN, committed=False),
                reads(TARGET, *GIVEN),
            ),
            "isolation unknown": all_of(aborted_beside, reads(TARGET, *GIVEN)),
            "another connection asked": all_of(
                aborted_beside, asks(1, committed=True), reads(TARGET, *GIVEN)
            ),
            "never arrived": all_of(
                aborted_beside, asks(UNKNOWN, committed=True), reads(TARGET, *GIVEN, reached=False)
            ),
        },
    ),
    "replicas that differ": Planted(
        {
            "another record": other_record,
            "another epoch": other_epoch,
            "a hole": hole,
            "both in sync": all_of(hole, in_sync(*NODES)),
        },
        f"the log is wrong: the replicas of t/{PARTITION} differ at {OFFSET}, below the high "
        rf"watermark 3: broker-1 has {TARGET} \(epoch 0\), broker-2 has",
        {
            "they agree": replicas,
            "one is not in sync": all_of(other_record, in_sync("broker-1")),
            "a hole in one that is not in sync": all_of(hole, in_sync("broker-1")),
            "a hole where records are removed": all_of(hole, removed),
        },
    ),
    "different records at one offset": Planted(
        {
            "two readers": split_brain,
            "and a result of it": recorded_both,
        },
        f"the log is wrong: readers were given different records at {OFFSET} of t/{PARTITION}: "
        rf"{TARGET} on connection 1 at 0\.\d+ s, and {OTHER} on connection 2 at",
        {
            "the same again": reads(TARGET, PARTITION, OFFSET),
            "never arrived": reads(OTHER, PARTITION, OFFSET, reached=False),
            "of another partition": reads(OTHER, *place(OTHER)),
        },
        {"sign": None, "duplicated": Permitted()},
    ),
    "another record than the log has": Planted(
        {"rewritten": rewritten},
        f"a reader was given {OTHER} on connection 1 at .* at {OFFSET} of t/{PARTITION}, and the "
        f"log has {TARGET} there",
        {"not read by anybody": lambda s: lose(s, TARGET, "fetched")},
    ),
    "seen early": Planted(
        {
            "before the commit": early,
            "an earlier commit was over": commit_that_was_answered,
            "a commit was withheld": commit_withheld,
        },
        rf"the log is wrong: {LAST} was seen early: a reader of committed records was given it "
        rf"from t/0 at 3 at 0\.\d+ s, before the wire passed on the request to commit its "
        r"transaction of tx at 0\.\d+ s",
        {
            "after the commit": delivered_at("end_txn", 1),
            "at the same moment": delivered_at("end_txn", 0),
            "reader of uncommitted records": delivered_at("sent", 1, committed=False),
            "isolation unknown": delivered_at("sent", 1, committed=None),
            "an earlier commit may have come late": commit_on_its_way,
            "two wires": two_wires,
            "no offset": no_offset,
            "in two places": in_two_places,
        },
    ),
    "an open transaction that is passed": Planted(
        {"left open": all_of(in_a_transaction, left_open)},
        rf"the log is wrong: no request has ended the transaction of tx with {LAST} at 3 of t/0 "
        r"\(sent at 0\.\d+ s\), but the last stable offset is 5",
        {
            "it was ended": in_a_transaction,
            "a successor has ended it": all_of(
                in_a_transaction, left_open, lambda s: begins(s, "8:1")
            ),
        },
    ),
    "a record in another topic": Planted(
        {"by its attempt": elsewhere, "by its producer": by_its_producer},
        rf"the log is wrong: {TARGET} strayed: it was sent to u, and is in t/{PARTITION} at "
        f"{OFFSET}",
        {
            "sent there, too": sent_there_too,
            "the copy names nobody": nameless,
            "of another producer": by_another_producer,
        },
    ),
}


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, each in CORPUS.items() for way in each.wrong]
)
def test_a_planted_anomaly_is_convicted(name: str, way: str) -> None:
    """By a reason that says what was seen, where and when."""
    planted, story = CORPUS[name], run()
    planted.wrong[way](story)
    found = judged(story, **planted.changes).verdict
    assert (found.kind, found.by_fault) == (Kind.BROKEN, True), found
    assert re.search(planted.because, found.reason), found.reason
    assert "\n" not in found.reason


@pytest.mark.parametrize(
    ("name", "twin"), [(name, twin) for name, each in CORPUS.items() for twin in each.twins]
)
def test_its_right_twin_is_kept(name: str, twin: str) -> None:
    planted, story = CORPUS[name], run()
    planted.twins[twin](story)
    found = judged(story, **planted.changes).verdict
    assert found.kind is Kind.KEPT, found


def test_every_check_of_a_log_has_a_class() -> None:
    """Without one check, one or two classes are not convicted; without all, only what the account
    counts is.
    """
    caught = {}
    for check in logs._CHECKS:
        rest = tuple(one for one in logs._CHECKS if one is not check)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "_CHECKS", rest)
            caught[check.__name__] = {name for name in CORPUS if not convicted(name)}
    assert all(caught.values()), caught
    assert set.union(*caught.values()) == set(CORPUS) - {
        "a result of an aborted copy",
        "a delivery of an aborted copy",
    }


def convicted(name: str) -> bool:
    """Whether every history of a class is convicted for its reason."""
    for wrong in CORPUS[name].wrong.values():
        story = run()
        wrong(story)
        found = judged(story, **CORPUS[name].changes).verdict
        if found.kind is not Kind.BROKEN or not re.search(CORPUS[name].because, found.reason):
            return False
    return True


def test_a_copy_that_still_waits_is_not_aborted() -> None:
    """Above the last stable offset nothing is decided: no copy there is resurrected."""
    story = run()
    all_of(aborted, still_open)(story)
    found = judged(story)
    assert found.account.counts["resurrected"] == 0
    assert "resurrected" not in found.verdict.reason


def test_a_used_offset_is_no_split_brain_after_a_power_loss() -> None:
    """A log that was cut short uses its offsets again, in a later epoch; in one epoch it does
    not.
    """
    for epoch, said in ((1, False), (0, True)):
        story = run()
        reads(OTHER, PARTITION, OFFSET)(story)
        first(story, "fetched", conn=UNKNOWN)["epoch"] = epoch
        reason = judged(story, **FORGETS).verdict.reason
        assert ("different records" in reason) is said, reason


def test_what_was_lost_is_told_beside_a_wrong_log() -> None:
    """A log that gave a reader another record may be why one is lost: the reason has both."""
    story = run()
    split_brain(story)
    lose(story, LAST, "recorded")
    reason = judged(story).verdict.reason
    assert re.search(
        f"^the log is wrong: readers .*; at-least-once forbids loss: 1 lost .{LAST}", reason
    ), reason


def test_a_control_is_not_convicted_of_a_wrong_log() -> None:
    """It is convicted of what was predicted; here that is seen, and something else, too."""
    changes: dict[str, Any] = {
        "control": True,
        "semantic": Semantic.EXACTLY_ONCE,
        "sign": None,
        "duplicated": Exactly(),
    }
    story = run()
    row = append(story, TARGET, PARTITION, attempt="producer-2.90.1")
    story.recorded(TARGET, 90, row["partition"], row["offset"])
    assert judged(story, **changes).verdict.green
    other_record(story)
    found = judged(story, **changes).verdict
    assert (found.kind, found.green) == (Kind.BROKEN, False)


def test_a_blind_instrument_convicts_no_log() -> None:
    story = run()
    other_record(story)
    without(story, lambda row: row["event"] == "log" and row["partition"] == 1)
    assert judged(story).verdict.kind is Kind.VOID


def test_the_reason_does_not_name_hundreds() -> None:
    story = run()
    replicas(story)
    for row in [row for row in story.events if row["event"] == "replica"][COUNT:]:
        row["epoch"] = 1
    reason = judged(story).verdict.reason
    assert reason.count("differ at") == 3
    assert "; and 3 more" in reason


def test_the_attempts_of_the_corpus_are_those_of_the_run() -> None:
    """Else the twins of a stray would be kept for want of a name."""
    assert first(run(), "stored", record=TARGET)["attempt"] == attempt_of(TARGET)


def test_a_lost_record_that_was_sent_to_another_topic_says_where_it_went() -> None:
    story = run()
    lose(story, TARGET, "stored", "fetched", "delivered", "recorded")
    assert "strayed" not in judged(story).verdict.reason
    elsewhere(story)
    found = judged(story).verdict
    assert found.kind is Kind.BROKEN
    assert f"1 lost ({TARGET} acked, not stored); {TARGET} strayed: sent to u, and not to t" in (
        found.reason
    )
    sent_there_too(story)
    assert "strayed" not in judged(story).verdict.reason

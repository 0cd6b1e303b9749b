"""Partitions added while records flow: the steps of the fault, and what of a history shows that it
was one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import InProgram
from harness.judge.verdict import Kind
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Evidence, Predicted, Role
from harness.systems.kafka.abilities import partition_of, sized
from harness.systems.kafka.faults import PartitionsAdded
from harness.systems.kafka.signs import FOUND
from tests.judge.recording import steps
from tests.judge.runs import RECORDS, TARGET, before, first, judged, place, run, without

if TYPE_CHECKING:
    from tests.judge.histories import Story

AT = InProgram(Role.PRODUCER, "before-send")
NEW = place(TARGET)[0]
"""The partition of the target, which is the one that was added here."""
GROWS: dict[str, Any] = {
    "evidence": Evidence("rule", killed=(Role.PRODUCER,)),
    "proofs": {"grown": {}},
    "logs": {"topic": 1},
}
STANDS: dict[str, Any] = GROWS | {"control": True, "sign": None, "left": Exactly(Select.ADDED)}


def grown(partition: int = NEW) -> Story:
    """Tell the run by hand, in which the topic gets a partition when the producer is hit."""
    story = run()
    story.tell("added", "runner", topic="t", partition=partition, before=1)
    before(story, first(story, "fault", phase="fired"), story.events[-1])
    return story


def unread(story: Story) -> None:
    """Let nobody ever read the new partition, and the drain fail of it."""
    there = {record for record in RECORDS if place(record)[0] == NEW}
    without(
        story,
        lambda row: (
            row["event"] in {"recorded", "delivered", "fetched"} and row.get("record") in there
        ),
    )
    first(story, "position", partition=NEW).update(offset=-1)
    first(story, "drain", phase="completed").update(
        phase="failed", stage="position", because="partition 1: position -1"
    )


def test_the_topic_grows_under_a_producer_that_waits_and_a_reader_that_has_read() -> None:
    """What is there is read first; the producer goes on when its client knows."""
    order = [
        "fired",
        "settle",
        "Partitions.add",
        "Partitions.await_known",
        "applied",
        "resolve failpoint before-send release",
        "healed",
    ]
    assert steps(PartitionsAdded(AT), AT) == order
    asleep = ["fired", "settle", "pause", *order[2:6], "await_exhausted", "resume", "healed"]
    assert steps(PartitionsAdded(AT, asleep=Role.DRIVER), AT) == asleep
    assert steps(PartitionsAdded(AT, shared_out=True), AT) == [
        *order[:4],
        "Partitions.await_shared_out",
        *order[4:],
    ]
    assert steps(PartitionsAdded(AT)) == []


@pytest.mark.parametrize(("later", "size"), [([], 6), (["k5"], 6), (["k0"], 16), (["k1"], 6)])
def test_the_target_moves_and_something_after_it_stays(later: list[str], size: int) -> None:
    """Of 3 partitions k1 moves with 6, k5 stays; k0 moves with it until there are 16. What has the
    target's key never stays.
    """
    assert sized("k1", later, 3) == size
    assert (
        partition_of("k1", size)
        >= 3
        > min((partition_of(key, size) for key in later if key != "k1"), default=0)
    )


def test_only_a_producer_puts_the_target_somewhere() -> None:
    """A failpoint elsewhere is refused when it is declared."""
    with pytest.raises(ValueError, match="at must be a failpoint of the producer"):
        PartitionsAdded(InProgram(Role.DRIVER, "before-recording"))


def test_nobody_gathers_asleep() -> None:
    """It would be waited for in vain."""
    with pytest.raises(ValueError, match="either asleep or shared_out"):
        PartitionsAdded(AT, asleep=Role.CONSUMER, shared_out=True)


def test_a_target_that_was_found_in_a_new_partition_is_protected() -> None:
    found = judged(grown(), **GROWS, sign=FOUND).verdict
    assert (found.kind, found.label) == (Kind.KEPT, "kept"), found.reason


@pytest.mark.parametrize(
    ("story", "partitions", "because"),
    [
        (run(), 2, "no partition was added to the topic"),
        (grown(1 - NEW), 1, f"{TARGET} is not in an added partition, but in t/{NEW}"),
    ],
    ids=["not grown", "elsewhere"],
)
def test_growth_without_the_target_is_void(story: Story, partitions: int, because: str) -> None:
    found = judged(story, **GROWS | {"logs": {"topic": partitions}}).verdict
    assert (found.kind, found.reason) == (Kind.VOID, because)


def test_a_topic_that_grew_before_anybody_read_it_is_void() -> None:
    story = grown()
    before(story, first(story, "fetched"), first(story, "added"))
    found = judged(story, **GROWS).verdict
    assert (found.kind, found.reason) == (
        Kind.VOID,
        "the partitions were added before anybody had read from the topic",
    )


def test_who_never_reads_the_new_ones_is_convicted_of_being_stuck() -> None:
    """Nothing is lost, for the topic has it; it never arrives. Exactly what went to new partitions
    is left.
    """
    story = grown()
    unread(story)
    found = judged(story, **STANDS)
    assert (found.verdict.kind, found.verdict.green, found.verdict.label) == (
        Kind.STUCK,
        True,
        "convicted",
    )
    assert (found.account.counts["lost"], found.account.left) == (
        0,
        frozenset(r for r in RECORDS if place(r)[0] == NEW),
    )
    assert not judged(story, **GROWS, sign=None).verdict.green, (
        "who promised to read them is stuck, and red"
    )


def test_a_control_that_reads_them_after_all_is_red() -> None:
    assert not judged(grown(), **STANDS).verdict.green


def test_a_control_that_leaves_something_else_is_red() -> None:
    """Of an old partition nothing may be left."""
    story = grown()
    unread(story)
    first(story, "position", partition=1 - NEW).update(offset=0)
    without(story, lambda row: row["event"] in {"recorded", "delivered", "fetched"})
    assert not judged(story, **STANDS).verdict.green


def test_nobody_else_may_leave_records_and_be_green() -> None:
    """Left for ever is stuck: only a control predicts it."""
    with pytest.raises(ValueError, match="must be a control"):
        Predicted(left=Exactly(Select.ADDED))

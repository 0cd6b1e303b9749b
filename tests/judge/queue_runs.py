"""A whole run by hand, as in :mod:`tests.judge.runs`, and a queue is between producer and consumer.

Its broker forgets what is acknowledged; its journal, which the observer reads, does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge import runs
from tests.judge.queues import QUEUE, QueueStory
from tests.judge.runs import COUNT, RECORDS, TARGET, attempt_of, crash, drain, exit_of, first, start

if TYPE_CHECKING:
    from harness.judge.verdict import Judgement
    from tests.judge.histories import Row

AFTER = len(RECORDS) + 1
"""The first number that no message of the run has."""


def place(record: str) -> str:
    """Return the place of a record's first copy."""
    return f"{QUEUE}:{RECORDS.index(record) + 1}"


def queue_run() -> QueueStory:
    """Tell the whole run."""
    story = QueueStory()
    story.tell("cell", "runner", phase="begun")
    start(story, "producer", 1)
    start(story, "consumer", 1)
    story.tell("fault", "runner", phase="armed", fault="kill", record=TARGET)
    for record in RECORDS:
        if record == TARGET:
            crash(story)
            first(story, "unsent").update(topic=QUEUE)
        send(story, record)
        deliver(story, record)
    drain(story)
    observe(story)
    exit_of(story, "consumer", 1, signal=9)
    story.tell("cell", "runner", phase="ended")
    return story


def send(story: QueueStory, record: str) -> None:
    """A producer takes a record, sends it and is answered."""
    runs.send(story, record)
    story.events[-2].update(topic=QUEUE, partition=None)


def deliver(story: QueueStory, record: str, *, again: bool = False) -> None:
    """The consumer is given a record."""
    story.tell("fetched", "wire", record=record, topic=QUEUE, conn=1, reached=True)
    story.given(record, redelivered=again)


def observe(story: QueueStory) -> None:
    """The authorities are read."""
    for number, record in enumerate(RECORDS, start=1):
        story.offered(record, record.split("-")[0], number)
    story.cursor(COUNT + 1)
    for number, record in enumerate(RECORDS, start=1):
        story.result(record, number, place(record))
    for record in RECORDS:
        story.copy(record, place(record), attempt=attempt_of(record), queue=QUEUE)
        story.removed(record, place(record), "ack")
    story.tell("counted", hop="topic", queue=QUEUE, ready=0, in_flight=0, scheduled=0)
    story.tell("cell", "runner", phase="observed")


def stays(
    story: QueueStory, record: str | None, waiting: str | None, queue: str = QUEUE, **more: Any
) -> Row:
    """One more copy stands in a queue, and its broker counts it there."""
    field = {"ready": "ready", "in-flight": "in_flight", "scheduled": "scheduled"}.get(str(waiting))
    counts = [row for row in story.events if row["event"] == "counted" and row["queue"] == queue]
    hop = more.get("hop", "topic")
    [count] = counts or [
        story.tell("counted", hop=hop, queue=queue, ready=0, in_flight=0, scheduled=0)
    ]
    if field is not None:
        count[field] += 1
    if record is not None and hop == "topic":
        sends = sum(row["event"] == "sent" for row in story.events)
        story.sent(record, "producer-2.90.1", f"9/{sends}")["topic"] = queue
    number = AFTER + sum(row["event"] == "stored" for row in story.events)
    return story.copy(
        record,
        f"{queue}:{number}",
        waiting,
        **{"queue": queue, "attempt": "producer-2.90.1", **more},
    )


def judged(story: QueueStory, **changes: Any) -> Judgement:
    """Judge the story by the plan, with changes to the plan."""
    return runs.judged(story, **{"logs": {}, **changes})

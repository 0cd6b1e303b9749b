"""A whole run by hand: what runner, wire, programs and observer write about one cell, and the plan
it is judged by.

The run: six records; at the third the producer is killed with the request held and discarded; it
restarts, takes the record again and sends it; the drain completes; everything is recorded once.
Under at-least-once that is *kept*.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.judge.signs import TAKEN_AGAIN
from harness.judge.verdict import Judgement, judge
from harness.knowledge import knowledge
from harness.model.plan import Plan
from harness.model.prediction import Select, Zero
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from harness.model.states import Hop
from tests.events import a_history, placed
from tests.judge.histories import Row, Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.history import History

COUNT = 6
TARGET = "k1-3"
RECORDS = tuple(f"k{n % 2}-{n}" for n in range(1, COUNT + 1))
PARTITIONS = 2

PLAN = Plan(
    id="kafka/by-hand/plain/request-held/at-least-once/process/s1",
    key="c0ffee00",
    scenario="request-held",
    group="golden",
    system="kafka",
    client="by-hand",
    pipeline="plain",
    failure_point="producer-crash-before-send",
    semantic=Semantic.AT_LEAST_ONCE,
    runtime="process",
    seed=1,
    offered=COUNT,
    target=TARGET,
    select={
        Select.TARGET: frozenset({TARGET}),
        Select.UNIT: frozenset({TARGET}),
        Select.THROUGH_TARGET: frozenset(RECORDS[:3]),
        Select.BEFORE_TARGET: frozenset(RECORDS[:2]),
    },
    lost=Zero(),
    duplicated=Zero(),
    sign=TAKEN_AGAIN,
    control=False,
    refused_by_client=False,
    evidence=Evidence("rule", killed=(Role.PRODUCER,)),
    because="The restarted producer takes the record again.",
    settings={},
    logs={Hop.TOPIC.value: PARTITIONS},
)


def plan(**changes: Any) -> Plan:
    """Return the plan of the run, with changes."""
    return replace(PLAN, **changes)


def place(record: str) -> tuple[int, int]:
    """Return partition and offset of a record's first copy."""
    n = int(record.split("-")[1])
    return n % PARTITIONS, (n - 1) // PARTITIONS


def run() -> Story:
    """Tell the whole run."""
    story = Story()
    story.tell("cell", "runner", phase="begun")
    start(story, "producer", 1)
    start(story, "consumer", 1)
    story.tell("resumed", "producer-1", where="source", partition=None, position=1)
    story.tell("fault", "runner", phase="armed", fault="kill", record=TARGET)
    story.tell("cell", "runner", phase="loaded")
    for record in RECORDS:
        if record == TARGET:
            crash(story)
        send(story, record)
        deliver(story, record)
    story.tell("cell", "runner", phase="faulted")
    drain(story)
    observe(story)
    exit_of(story, "consumer", 1, signal=9)
    story.tell("cell", "runner", phase="ended")
    return story


def start(story: Story, role: str, incarnation: int) -> None:
    """A node comes up."""
    common = {"node": role, "role": role, "incarnation": incarnation, "pid": 100 + incarnation}
    story.tell("node", "runner", phase="started", **common)
    story.tell("ready", f"{role}-{incarnation}", role=role)
    story.tell("node", "runner", phase="ready", **common)


def exit_of(
    story: Story,
    role: str,
    incarnation: int,
    *,
    signal: int | None = None,
    status: int | None = None,
) -> Row:
    """A node ends."""
    return story.tell(
        "node",
        "runner",
        node=role,
        role=role,
        incarnation=incarnation,
        phase="exited",
        pid=101,
        status=status,
        signal=signal,
    )


def crash(story: Story) -> None:
    """The producer dies with the target's request held, and comes back."""
    story.taken(TARGET, "producer-1")
    story.tell("rule", "wire", rule="hold", phase="hit", record=TARGET, records=[TARGET])
    story.tell("fault", "runner", phase="fired", fault="kill", record=TARGET)
    story.tell(
        "node", "runner", node="producer", role="producer", incarnation=1, phase="killed", pid=101
    )
    exit_of(story, "producer", 1, signal=9)
    story.tell(
        "unsent",
        "wire",
        record=TARGET,
        attempt="producer-1.3.1",
        request="1/3",
        topic="t",
        partition=1,
    )
    story.tell("fault", "runner", phase="applied", fault="kill", record=TARGET)
    start(story, "producer", 2)
    story.tell("resumed", "producer-2", where="source", partition=None, position=3)
    story.tell("fault", "runner", phase="healed", fault="kill", record=TARGET)


def send(story: Story, record: str) -> None:
    """A producer takes a record, sends it and is answered."""
    attempt = attempt_of(record)
    writer, number, _ = attempt.split(".")
    story.taken(record, writer)
    story.sent(record, attempt, f"{writer[-1]}/{number}")
    story.acked(record, attempt)["by"] = writer


def attempt_of(record: str) -> str:
    """Return the attempt that got a record through: the second producer's from the target on."""
    n = RECORDS.index(record) + 1
    return f"producer-{1 if record in PLAN.select[Select.BEFORE_TARGET] else 2}.{n}.1"


def deliver(story: Story, record: str) -> None:
    """The consumer is given a record."""
    story.fetched(record, *place(record), reached=True)
    story.delivered(record, *place(record))


def drain(
    story: Story, phase: str = "completed", stage: str | None = None, because: str | None = None
) -> None:
    """The cell comes to rest."""
    story.tell("drain", "runner", phase="begun", stage=None, because=None)
    story.tell("drain", "runner", phase=phase, stage=stage, because=because)
    story.tell("cell", "runner", phase="drained")


def observe(story: Story) -> None:
    """The authorities are read."""
    for n, record in enumerate(RECORDS, start=1):
        story.offered(record, record.split("-")[0], n)
    story.cursor(COUNT + 1)
    for record in RECORDS:
        story.stored(record, *place(record), attempt=attempt_of(record))
    for partition in range(PARTITIONS):
        story.log(partition, COUNT // PARTITIONS)
        story.position(partition, COUNT // PARTITIONS)
    for n, record in enumerate(RECORDS, start=1):
        story.recorded(record, n, *place(record))
    story.tell("cell", "runner", phase="observed")


# --- changing it ----------------------------------------------------------------------------------


def without(story: Story, wanted: Callable[[Row], bool]) -> None:
    """Take lines away."""
    story.events[:] = [row for row in story.events if not wanted(row)]


def all_of(*changes: Callable[[Story], object]) -> Callable[[Story], None]:
    """Make one change of several."""

    def change(story: Story) -> None:
        for each in changes:
            each(story)

    return change


def about(row: Row, record: str, *kinds: str) -> bool:
    """Whether a line of one of these kinds is about a record."""
    return row["event"] in kinds and row.get("record") == record


def first(story: Story, event: str, **fields: object) -> Row:
    """Return the first line of a kind with these fields."""
    return next(
        row
        for row in story.events
        if row["event"] == event and all(row.get(name) == v for name, v in fields.items())
    )


def before(story: Story, row: Row, *told: Row) -> None:
    """Move lines to the moment just before another line."""
    for line in told:
        line["t"] = row["t"] - 5


def append(story: Story, record: str | None, partition: int, **more: object) -> Row:
    """One more copy at the end of a log; the saved position is past it."""
    log = first(story, "log", partition=partition, hop="topic")
    row = story.stored(record, partition, log["end"], **more)
    log.update(stable=log["end"] + 1, end=log["end"] + 1)
    first(story, "position", partition=partition).update(offset=log["end"])
    look_again(story)
    return row


def duplicate(story: Story, record: str) -> Row:
    """A second copy in log and sink, made by a resend nobody needed."""
    row = append(story, record, place(record)[0], attempt="producer-2.90.1")
    story.recorded(record, 90, row["partition"], row["offset"])
    return row


def lose(story: Story, record: str, *kinds: str) -> None:
    """Take away what shows that a record got through. Where it stood in the log is the marker of
    some transaction instead.
    """
    kept = kinds or ("sent", "acked", "stored", "fetched", "delivered", "recorded")
    without(story, lambda row: about(row, record, *kept))
    if "stored" in kept:
        marked(story)
        look_again(story)


def marked(story: Story) -> None:
    """Let there have been a transaction: then an offset without a copy is a marker's."""
    story.tell(
        "end_txn",
        "wire",
        transactional_id="other",
        producer_id=9,
        producer_epoch=0,
        commit=True,
        request="9:9",
        reached=True,
    )


def look_again(story: Story) -> None:
    """Let each log say which of its copies is the last visible one."""
    for log in (row for row in story.events if row["event"] == "log"):
        copies = (
            row
            for row in story.events
            if row["event"] == "stored" and row["hop"] == log["hop"] and row["visible"]
        )
        log["last_data"] = max(
            (copy["offset"] for copy in copies if copy["partition"] == log["partition"]), default=-1
        )


def history_of(story: Story, damage: tuple[str, ...] = ()) -> History:
    """Return the story as it would be read back."""
    events = sorted(placed(story.events), key=lambda event: event.t)
    return a_history(events, damage=damage)


def judged(story: Story, damage: tuple[str, ...] = (), **changes: Any) -> Judgement:
    """Judge the story by the plan, with changes to the plan."""
    return judge(plan(**changes), history_of(story, damage), knowledge())

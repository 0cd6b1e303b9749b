"""Cross-checks: authorities that contradict each other void a run, each check for itself, and right
histories pass them all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.judge import crosschecks
from harness.judge.signs import ABORTED, ABSORBED
from harness.judge.verdict import Kind, judge
from harness.knowledge import knowledge
from harness.model.events import KINDS
from harness.model.history import Event, read_history
from harness.model.plan import Plan
from harness.model.prediction import AtLeast, Permitted
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from tests.events import a_history
from tests.judge.histories import RESULTS, TOPIC, Row, Story
from tests.judge.make_golden import FAULTLESS, foreign, no_fault, powerless, topic_to_topic
from tests.judge.runs import (
    COUNT,
    PARTITIONS,
    RECORDS,
    TARGET,
    append,
    duplicate,
    first,
    history_of,
    judged,
    look_again,
    lose,
    marked,
    place,
    plan,
    run,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Changes = dict[str, Any]

EOS = Semantic.EXACTLY_ONCE
TO_TOPIC: Changes = {
    "semantic": EOS,
    "pipeline": "topic-to-topic",
    "logs": {"topic": PARTITIONS, "sink": 1},
}
BY_POWER: Changes = {
    "semantic": Semantic.AT_MOST_ONCE,
    "sign": None,
    "lost": Permitted(),
    "evidence": Evidence("rule", killed=(Role.PRODUCER, Role.BROKER), forgotten=True),
    "proofs": {"forgot": {}},
}
LAST = RECORDS[5]
SECOND_MS = 1000


def nothing(story: Story) -> None:
    """Nothing else happened."""


def absorbed(story: Story) -> None:
    """A second delivery of the target was turned away."""
    story.absorbed(TARGET, *place(TARGET))


def aborted(story: Story) -> None:
    """The first attempt at the target stands in an aborted transaction, below two markers."""
    append(story, TARGET, 0, visible=False, attempt="producer-1.3.1")
    first(story, "log", partition=0)["end"] += 2
    first(story, "log", partition=0)["stable"] += 2
    story.transaction("producer-1.3", "unknown")
    first(story, "unsent").update(event="sent")


def frame(story: Story, api: str, request: str) -> Row:
    """The wire sees a request."""
    conn, corr = map(int, request.split(":"))
    return story.tell(
        "frame", "wire", conn=conn, corr=corr, api=api, dir="request", role="producer"
    )


def begins(
    story: Story, request: str, timeout_ms: int = SECOND_MS, name: str | None = "tx"
) -> None:
    """A producer begins."""
    frame(story, "InitProducerId", request)
    story.tell(
        "init_producer",
        "wire",
        transactional_id=name,
        timeout_ms=timeout_ms,
        request=request,
        reached=True,
    )


def ends(story: Story, request: str, *, reached: bool = True, name: str = "tx") -> None:
    """It asks for the end of its transaction."""
    frame(story, "EndTxn", request)
    story.tell(
        "end_txn",
        "wire",
        transactional_id=name,
        producer_id=1,
        producer_epoch=0,
        commit=True,
        request=request,
        reached=reached,
    )


def sends(story: Story, record: str, request: str, offset: int, name: str = "tx") -> None:
    """It sends a record, which is stored."""
    partition = place(record)[0]
    story.sent(record, "producer-3.1.1", request, transactional=True, transactional_id=name)[
        "partition"
    ] = partition
    story.tell(
        "produce_answer",
        "wire",
        record=record,
        request=request,
        error=0,
        base_offset=offset,
        offset=offset,
        reached=False,
    )


def in_a_transaction(story: Story) -> None:
    """Send the last record once more in a transaction that is committed: the consumer has absorbed
    it.
    """
    row = append(story, LAST, place(LAST)[0], attempt="producer-3.1.1")
    story.absorbed(LAST, row["partition"], row["offset"])
    for log in (row for row in story.events if row["event"] == "log"):
        log.update(stable=log["end"] + 1, end=log["end"] + 1)
    told = len(story.events)
    begins(story, "7:1")
    sends(story, LAST, "7:2", row["offset"])
    ends(story, "7:3")
    at = first(story, "drain")["t"] - 9
    for number, line in enumerate(story.events[told:]):
        line["t"] = at + number


def left_open(story: Story) -> None:
    """Nobody ends it, and the observer says that all is stable."""
    without(story, lambda row: row["event"] == "end_txn" or row.get("api") == "EndTxn")


def left_open_elsewhere(story: Story) -> None:
    """The log has another record where the answer says that this one was stored."""
    left_open(story)
    first(story, "produce_answer", record=LAST)["offset"] = 0


# --- right histories ------------------------------------------------------------------------------


def two_topics(story: Story) -> None:
    """Each partition is a topic of its own: at each offset two records are, one in each."""
    without(story, of("delivered"))
    for row in story.events:
        if row["event"] in {"fetched", "stored", "log", "position", "recorded"}:
            row.update(topic=TOPICS[row["partition"]], partition=0)
        if row["event"] == "sent":
            row.update(topic=TOPICS[place(row["record"])[0]])
        if row["event"] in {"stored", "recorded"}:
            row["place"] = f"{row['topic']}/0:0:{row['offset']}"


TOPICS = ("t", "u")
OF_TOPICS: Changes = {"topics": TOPICS, "logs": {"topic": 1}}
RIGHT: dict[str, tuple[Callable[[Story], object], Changes]] = {
    "a crash": (nothing, {}),
    "no fault": (no_fault, FAULTLESS),
    "a duplicate": (lambda s: duplicate(s, TARGET), {"sign": None, "duplicated": AtLeast()}),
    "absorbed": (absorbed, {"semantic": EOS, "sign": ABSORBED}),
    "aborted": (aborted, {"semantic": EOS, "sign": ABORTED}),
    "topic to topic": (topic_to_topic, TO_TOPIC),
    "two topics": (two_topics, OF_TOPICS),
    "a power loss": (powerless, BY_POWER),
    "foreign records": (foreign, {}),
    "a transaction": (in_a_transaction, {}),
    "a delivery lost": (lambda s: s.fetched(TARGET, *place(TARGET), reached=False), {}),
    "a request lost": (
        lambda s: lose(s, TARGET),
        {"semantic": Semantic.AT_MOST_ONCE, "sign": None, "lost": Permitted()},
    ),
    "a loss": (
        lambda s: lose(s, RECORDS[1]),
        {"semantic": Semantic.AT_MOST_ONCE, "lost": Permitted()},
    ),
}


@pytest.mark.parametrize(("change", "changes"), list(RIGHT.values()), ids=list(RIGHT))
def test_a_right_history_contradicts_nothing(
    change: Callable[[Story], object], changes: Changes
) -> None:
    """Of every kind of run: all is found where it was said to be."""
    story = run()
    change(story)
    found = judged(story, **changes).verdict
    assert (found.kind, found.green) == (Kind.KEPT, True), found.reason


# --- contradictions -------------------------------------------------------------------------------


def of(event: str, **fields: object) -> Callable[[Row], bool]:
    """Whether a line is of a kind, with these fields."""
    return lambda row: (
        row["event"] == event and all(row.get(name) == value for name, value in fields.items())
    )


def drop(event: str, **fields: object) -> Callable[[Story], object]:
    """Take such lines away."""
    return lambda story: without(story, of(event, **fields))


def change(event: str, by: Changes, **fields: object) -> Callable[[Story], object]:
    """Change the first of such lines."""
    return lambda story: first(story, event, **fields).update(by)


def both(*changes: Callable[[Story], object]) -> Callable[[Story], object]:
    """Make one change of several."""

    def each(story: Story) -> None:
        for one in changes:
            one(story)

    return each


def forgotten_result(story: Story) -> None:
    """The sink's log has a copy more than results were read."""
    log = first(story, "log", hop="sink")
    story.stored(TARGET, 0, log["end"], hop="sink", topic=RESULTS, attempt="processor-1.2.1")
    log.update(end=log["end"] + 1, stable=log["end"] + 1)
    look_again(story)


def unread_in_u(story: Story) -> None:
    """The copies of one topic wait."""
    for row in story.events:
        if of("stored", topic="u")(row):
            row["waiting"] = "ready"


AT = place(TARGET)
WRONG: dict[str, tuple[str, str, Callable[[Story], object], str]] = {
    "a kind that nobody knows": (
        "_stranger",
        "a crash",
        lambda s: s.tell("recordd", record=TARGET),
        "events of kinds .* not know: recordd",
    ),
    "another plan": (
        "_other_plan",
        "a crash",
        change("cell", {"seal": "0" * 64}, phase="begun"),
        "not the one with which the cell began",
    ),
    "no cursor": (
        "_no_source",
        "a crash",
        drop("cursor"),
        "does not say where the source's cursor is",
    ),
    "a cursor past the end": (
        "_no_source",
        "a crash",
        change("cursor", {"position": COUNT + 2}),
        "cursor at 8, but the last record at 6",
    ),
    "a copy told twice": (
        "_copied_twice",
        "a transaction",
        lambda s: s.stored(TARGET, *AT),
        "2 copies in t/1 at offset 1",
    ),
    "a copy at two places": (
        "_misplaced",
        "a crash",
        change("stored", {"place": "1:0:9"}, record=TARGET),
        r"about k1-3 \(stored\) names two places: 1:0:9 and 1:0:1",
    ),
    "a copy that waits, and was read": (
        "_waits_otherwise",
        "a crash",
        change("stored", {"place": "1:0:1", "waiting": "ready"}, record=TARGET),
        "the copy of k1-3 in t/1 at 1 waits for ready, but by its log it waits for nothing",
    ),
    "a result without its copy": (
        "_homeless",
        "a transaction",
        drop("stored", record=TARGET),
        "k1-3 is recorded from partition 1 offset 1, where the log",
    ),
    "a result of nowhere": (
        "_homeless",
        "a crash",
        change("recorded", {"offset": 1000}, record=TARGET),
        "k1-3 is recorded from partition 1 offset 1000, where the log has no copy",
    ),
    "a result of another's place": (
        "_homeless",
        "a crash",
        change("recorded", {"offset": 0}, record=TARGET),
        "offset 0, where the log has k1-1",
    ),
    "an absorbed copy of nowhere": (
        "_homeless",
        "absorbed",
        change("absorbed", {"offset": 9}),
        "k1-3 is absorbed from partition 1",
    ),
    "a result of nowhere after a power loss": (
        "_homeless",
        "a power loss",
        change("recorded", {"offset": 1000}, record=TARGET),
        "1000, where the log has no copy",
    ),
    "a record that was kept from the broker": (
        "_kept_back",
        "a crash",
        drop("sent", record=TARGET),
        "k1-3 was kept from the broker and not sent again.*: t/1 at 1",
    ),
    "a request that was dropped and sent": (
        "_both_ways",
        "a crash",
        both(
            change("sent", {"request": "2:3"}, record=TARGET),
            lambda s: s.tell(
                "rule", "wire", rule="hold", phase="discarded", conn=2, corr=3, dir="request"
            ),
        ),
        (
            "the wire reports that it dropped the request with k1-3, but also that it forwarded "
            "the request"
        ),
    ),
    "requests of which nobody knows what they carried": (
        "_speechless",
        "a crash",
        both(drop("sent"), drop("unsent"), lambda s: frame(s, "Produce", "1:3")),
        (
            "the wire saw 1 Produce requests of the producer, but reports of none which records it "
            "carried"
        ),
    ),
    "requests of another protocol, of which nobody knows what they carried": (
        "_speechless",
        "a crash",
        both(drop("sent"), drop("unsent"), lambda s: frame(s, "SEND", "1:3")),
        (
            "the wire saw 1 SEND requests of the producer, but reports of none which records it "
            "carried"
        ),
    ),
    "a result that was given to nobody": (
        "_not_given",
        "a crash",
        change("fetched", {"reached": False}, record=TARGET),
        "k1-3 is recorded, but the wire",
    ),
    "a position that was kept from the broker": (
        "_saved_unasked",
        "a crash",
        lambda s: s.tell(
            "committed", "wire", topic=TOPIC, partition=1, offset=3, request="2:9", reached=False
        ),
        "the position 3 of partition 1 is saved, but the wire reports that no request to save it",
    ),
    "a record of nowhere": (
        "_nowhere",
        "a transaction",
        both(drop("stored", record=TARGET), change("recorded", {"partition": -1}, record=TARGET)),
        "k1-3 was acknowledged and is recorded, but the log has no copy of it",
    ),
    "a position behind the end": (
        "_ahead",
        "a crash",
        change("position", {"offset": 1003}),
        "position of partition 0 is 1003, but its log ends at 3",
    ),
    "a position that nobody reached": (
        "_ahead",
        "a power loss",
        change("position", {"offset": 1003}),
        "0 is 1003, but its log was never read past 3",
    ),
    "the topic not read": ("_unread", "a crash", drop("log"), "the topic was not read"),
    "a partition not read": (
        "_unread",
        "no fault",
        drop("log", partition=1),
        "t has 2 partitions, but t/1 was not read",
    ),
    "a partition too many": (
        "_unread",
        "a crash",
        lambda s: (s.log(2, 0), s.position(2, -1)),
        "t has 2 partitions, but t/2 was read",
    ),
    "two topics": (
        "_unread",
        "a crash",
        lambda s: s.log(0, 9, topic="u"),
        "two topics were read as the topic: t, u",
    ),
    "one of two topics not read": (
        "_unread",
        "two topics",
        drop("log", topic="u"),
        "u was not read",
    ),
    "a third topic": (
        "_unread",
        "two topics",
        lambda s: s.log(0, 9, topic="v"),
        "other topics were read as the topic: t, u, v",
    ),
    "a position of one topic not asked for": (
        "_unread",
        "two topics",
        both(drop("position", topic="u"), unread_in_u),
        "u has 1 partitions, but the history has no saved position of u/0",
    ),
    "a position past the end of one topic": (
        "_ahead",
        "two topics",
        change("position", {"offset": 1003}, topic="u"),
        "the saved position of u/0 is 1003, but its log ends at 3",
    ),
    "a result from the other topic": (
        "_homeless",
        "two topics",
        change("recorded", {"topic": "u", "place": "u/0:0:0"}, record=RECORDS[1]),
        "is recorded from partition 0 offset 0, where the log has",
    ),
    "a copy that waits in one topic": (
        "_waits_otherwise",
        "two topics",
        change("position", {"offset": 0}, topic="u"),
        "in u/0 at 0 waits for nothing, but by its log it waits for ready",
    ),
    "the sink not read": (
        "_unread",
        "topic to topic",
        drop("log", hop="sink"),
        "the sink was not read",
    ),
    "a position not asked for": (
        "_unread",
        "a crash",
        drop("position", partition=0),
        "t has 2 partitions, but the history has no saved position of t/0",
    ),
    "a position of nowhere": (
        "_unread",
        "a crash",
        lambda s: s.position(2, -1),
        "but the history has a saved position of t/2",
    ),
    "a copy behind the end": (
        "_outside",
        "aborted",
        change("stored", {"offset": 93}, visible=False),
        "t/0 has a copy at 93, but goes from 0 to 6",
    ),
    "a last copy that was not read": (
        "_outside",
        "aborted",
        change("log", {"last_data": 3}, partition=0),
        "the last visible copy of t/0 at 3, but the last one that was read is at 2",
    ),
    "an end before what is stable": (
        "_outside",
        "a transaction",
        change("log", {"stable": 99}, partition=0),
        "the last stable offset of t/0 is 99, past its end 5",
    ),
    "a gap": (
        "_gaps",
        "foreign records",
        change("log", {"stable": 5, "end": 5}, partition=0),
        "t/0 goes from 0 to 5, but 4 copies were read from it",
    ),
    "results that are not all": (
        "_other_results",
        "topic to topic",
        forgotten_result,
        "its results differ: k1-3 at 12",
    ),
    "an open transaction": (
        "_open",
        "a transaction",
        left_open_elsewhere,
        "no request has ended the transaction of tx, and the log does not have k0-6 at 0 of t/0",
    ),
}
"""The check, the right history that is spoilt, how, and what is said of it."""


def prepared(name: str, spoil: Callable[[Story], object]) -> tuple[Story, Changes]:
    """Tell a right history, and spoil it."""
    make, changes = RIGHT[name]
    story = run()
    make(story)
    spoil(story)
    return story, changes


@pytest.mark.parametrize(
    ("check", "right", "spoil", "because"), list(WRONG.values()), ids=list(WRONG)
)
def test_a_contradiction_is_void(
    check: str, right: str, spoil: Callable[[Story], object], because: str
) -> None:
    """Whatever else was seen, with a reason that says what contradicts what."""
    story, changes = prepared(right, spoil)
    found = judged(story, **changes).verdict
    assert (found.kind, found.green) == (Kind.VOID, False), found
    assert re.search(because, found.reason), found.reason
    assert "\n" not in found.reason


@pytest.mark.parametrize(
    ("check", "right", "spoil", "because"), list(WRONG.values()), ids=list(WRONG)
)
def test_nobody_else_says_so(
    check: str,
    right: str,
    spoil: Callable[[Story], object],
    because: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_CHECKS", "_SINCE_SEALED"):
        kept = tuple(one for one in getattr(crosschecks, name) if one.__name__ != check)
        monkeypatch.setattr(crosschecks, name, kept)
    story, changes = prepared(right, spoil)
    assert not re.search(because, judged(story, **changes).verdict.reason)


def test_every_check_is_tried() -> None:
    checks = {check.__name__ for check in (*crosschecks._CHECKS, *crosschecks._SINCE_SEALED)}
    assert checks == {check for check, *_ in WRONG.values()}


LATER = {check.__name__ for check in crosschecks._SINCE_SEALED}


@pytest.mark.parametrize(
    "name", [name for name, (check, *_) in WRONG.items() if check not in LATER]
)
def test_a_history_of_version_1_is_held_to_what_it_can_be(name: str) -> None:
    """It has no seal, and its observer did not write all down that the others need; the rest it
    holds.
    """
    _, right, spoil, because = WRONG[name]
    story, changes = prepared(right, spoil)
    found = judged(story, **changes, schema=1).verdict
    assert found.kind is Kind.VOID
    assert re.search(because, found.reason), found.reason


def test_a_convicted_control_is_convicted_of_what_was_seen() -> None:
    """A blind instrument convicts nobody: a forbidden duplicate beside a partition that was not
    read is void.
    """
    story = run()
    duplicate(story, TARGET)
    assert judged(story, semantic=EOS).verdict.kind is Kind.BROKEN
    without(story, of("log", partition=1))
    assert judged(story, semantic=EOS).verdict.kind is Kind.VOID


# --- no false alarm -------------------------------------------------------------------------------


def unfinished(story: Story) -> None:
    """The wire does not know what became of the request that ends it."""
    left_open(story)
    frame(story, "EndTxn", "7:9")


def began_again(story: Story) -> None:
    """A successor has begun under its transactional id since."""
    left_open(story)
    begins(story, "8:1")


def timed_out(story: Story) -> None:
    """It was given no time at all."""
    left_open(story)
    first(story, "init_producer")["timeout_ms"] = 0


def unknown_beginning(story: Story) -> None:
    """The wire was not there when it began."""
    left_open(story)
    without(
        story, lambda row: row["event"] == "init_producer" or row.get("api") == "InitProducerId"
    )


def not_stored(story: Story) -> None:
    """The broker has refused the record."""
    left_open(story)
    first(story, "produce_answer").update(error=51, offset=-1)


INCONCLUSIVE: dict[str, Callable[[Story], object]] = {
    "unfinished": unfinished,
    "began again": began_again,
    "timed out": timed_out,
    "unknown beginning": unknown_beginning,
    "not stored": not_stored,
}


@pytest.mark.parametrize("make", list(INCONCLUSIVE.values()), ids=list(INCONCLUSIVE))
def test_of_a_transaction_that_may_have_ended_nothing_is_said(
    make: Callable[[Story], object],
) -> None:
    """Only where nobody can have ended it does the last stable offset say something else."""
    story, changes = prepared("a transaction", make)
    found = judged(story, **changes).verdict
    assert found.kind is Kind.KEPT, found.reason


def test_a_request_that_never_arrived_has_ended_nothing() -> None:
    """It was held and thrown away: the transaction is open."""
    story, _ = prepared("a transaction", left_open)
    ends(story, "7:3", reached=False)
    assert "no request has ended the transaction of tx" in judged(story).verdict.reason


@pytest.mark.parametrize(
    "sign",
    [
        marked,
        lambda s: s.transaction("producer-2.9", "begun"),
        lambda s: begins(s, "7:1"),
        lambda s: frame(s, "InitProducerId", "7:1"),
        lambda s: s.sent(TARGET, None, "9/9", transactional=True),
    ],
)
def test_where_there_may_be_markers_there_may_be_gaps(sign: Callable[[Story], object]) -> None:
    """Whoever may have had a transaction may have left one."""
    story = run()
    log = first(story, "log", partition=0)
    log.update(stable=log["end"] + 1, end=log["end"] + 1)
    assert "copies were read from it" in judged(story).verdict.reason
    sign(story)
    assert judged(story).verdict.kind is Kind.KEPT


def test_an_idempotent_producer_leaves_no_markers() -> None:
    story = run()
    log = first(story, "log", partition=0)
    log.update(stable=log["end"] + 1, end=log["end"] + 1)
    begins(story, "7:1", name=None)
    assert "copies were read from it" in judged(story).verdict.reason


def test_what_retention_took_was_there() -> None:
    """A result of a copy that was deleted since has had one; the log begins behind it."""
    story = run()
    for name in RECORDS[1], RECORDS[3]:
        row = first(story, "stored", record=name)
        row["event"] = "deleted"
        del row["hop"]
    first(story, "log", partition=0)["start"] = 2
    assert judged(story).verdict.kind is Kind.KEPT


def test_every_kind_of_line_that_is_told_here_is_known() -> None:
    told = {row["event"] for make, _ in RIGHT.values() for row in _made(make).events}
    assert told <= KINDS


def _made(make: Callable[[Story], object]) -> Story:
    story = run()
    make(story)
    return story


# --- no mutation stays green ----------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden"
FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "stored": (("offset",),),
    "log": (
        ("start",),
        ("stable",),
        ("end",),
        ("last_data",),
        ("stable", "end"),
        ("start", "stable", "end", "last_data"),
    ),
    "position": (("offset",),),
    "recorded": (("offset",),),
    "cursor": (("position",),),
}
"""Which numbers of a line are raised by 1000, one after the other and together."""
EXCUSES: dict[str, str] = {
    "a result less": (
        "how often it holds a record the sink alone knows; a line taken out of a file is missed "
        "by its number"
    ),
    "logs of version 1": (
        "of those made by hand some have ends that no log has, and a sink's log was not "
        "compared; not tried"
    ),
    "ends of a log with markers": (
        "behind its last copy any number of markers may stand, and nobody counts them"
    ),
    "retention in version 1": (
        "its plan says that something was forgotten, not what, and its log is not held to have "
        "no gaps"
    ),
}


def mutations(event: Event) -> Iterator[tuple[str, Event | None]]:
    """Yield what is done to a line, and what is left of it."""
    yield "dropped", None
    for names in FIELDS[event.event]:
        yield (
            f"{'/'.join(names)} + 1000",
            msgspec.structs.replace(event, **{name: getattr(event, name) + 1000 for name in names}),
        )


def excuse(asked: Plan, event: Event, what: str) -> str | None:
    """Return why a mutated history may stay green, by its name."""
    kind = event.event
    if kind == "recorded" and what == "dropped":
        return "a result less"
    if not asked.sealed and (kind == "log" or getattr(event, "hop", None) == "sink"):
        return "logs of version 1"
    if kind == "log" and what == "stable/end + 1000":
        return "ends of a log with markers"
    return "retention in version 1" if asked.forgets and not asked.sealed else None


def green_folders() -> list[Path]:
    """Return the golden histories that are green."""
    return sorted(
        file.parent
        for file in GOLDEN.glob("*/expected.json")
        if json.loads(file.read_text())["green"]
    )


_used: set[str] = set()
_tried: set[Path] = set()


@pytest.mark.parametrize("folder", green_folders(), ids=lambda folder: folder.name)
def test_no_mutation_of_an_authority_stays_green(folder: Path) -> None:
    """Each line of each authority is dropped, and its offsets raised by 1000: green it stays only
    where there is an excuse.
    """
    asked = Plan.load(folder)
    events = read_history(folder / "history", asked.id).events
    tried = 0
    for number, event in enumerate(events):
        for what, left in mutations(event) if event.event in FIELDS else ():
            tried += 1
            changed = a_history(
                (*events[:number], *((left,) if left else ()), *events[number + 1 :])
            )
            excused = excuse(asked, event, what)
            if crosschecks.contradiction(asked, changed) or excused in _used | {
                "logs of version 1"
            }:
                continue  # it is void, or one of those that need not be
            if judge(asked, changed, knowledge()).verdict.green:
                assert excused, (what, event)
                _used.add(excused)
    assert tried
    _tried.add(folder)


def test_every_excuse_is_needed() -> None:
    """An excuse that nothing needs any more is to go."""
    assert _used | {"logs of version 1"} == EXCUSES.keys() or len(_tried) < len(green_folders())


def test_the_plan_by_hand_is_of_this_version() -> None:
    """What is held against it here is what is held against every run of today."""
    assert plan().sealed
    assert history_of(run()).events

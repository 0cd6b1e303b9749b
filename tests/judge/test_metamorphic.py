"""How an account changes when its history is changed in a known way: by exactly what was planted,
and nothing else.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.states import LastHop, State
from tests.events import account
from tests.judge.histories import Story, clean, story_of

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
Counts = dict[str, int]

RECORDS = ("k1-1", "k0-2", "k1-3", "k0-4", "k1-5", "k0-6")
MOST = 3
HISTORIES = 48
FAR_NS = 10**6

CLEAN: Counts = {"offered": 6, "acked": 6, "stored": 6, "recorded": 6}


# --- planting -------------------------------------------------------------------------------------


def drop(story: Story, records: tuple[str, ...], *kinds: str) -> None:
    """Take the lines of some kinds about some records away."""
    story.events[:] = [
        row for row in story.events if not (row.get("record") in records and row["event"] in kinds)
    ]


def rows_of(story: Story, kind: str, records: tuple[str, ...]) -> list[Row]:
    """Return the lines of one kind about some records."""
    return [row for row in story.events if row["event"] == kind and row["record"] in records]


def undo(story: Story, records: tuple[str, ...], outcome: str) -> None:
    """Give the transactions of some records another outcome."""
    numbers = {record.split("-")[1] for record in records}
    for row in story.events:
        if (
            row["event"] == "transaction"
            and row["transaction"].split(".")[1] in numbers
            and row["outcome"] != "begun"
        ):
            row["outcome"] = outcome


def never_sent(story: Story, records: tuple[str, ...]) -> Counts:
    """The producer had passed the record and sent nothing."""
    drop(story, records, "sent", "acked", "stored", "fetched", "delivered", "recorded")
    return {"acked": -1, "stored": -1, "recorded": -1, "lost": 1}


def sent_not_stored(story: Story, records: tuple[str, ...]) -> Counts:
    """The request left, and nothing came of it."""
    drop(story, records, "acked", "stored", "fetched", "delivered", "recorded")
    return {"acked": -1, "unknown": 1, "stored": -1, "recorded": -1, "lost": 1}


def acked_not_stored(story: Story, records: tuple[str, ...]) -> Counts:
    """A broken ack."""
    drop(story, records, "stored", "fetched", "delivered", "recorded")
    return {"stored": -1, "recorded": -1, "lost": 1}


def deleted_by_retention(story: Story, records: tuple[str, ...]) -> Counts:
    """Retention took it before anybody had read it."""
    drop(story, records, "stored", "fetched", "delivered", "recorded")
    for record in records:
        story.tell(
            "deleted", record=record, topic="t", partition=0, epoch=0, offset=0, visible=True
        )
    return {"stored": -1, "recorded": -1, "lost": 1}


def only_aborted(story: Story, records: tuple[str, ...]) -> Counts:
    """All that is stored stands in aborted transactions."""
    undo(story, records, "aborted")
    drop(story, records, "fetched", "delivered", "recorded")
    for row in rows_of(story, "stored", records):
        row["visible"] = False
    return {"aborted": 1, "recorded": -1, "lost": 1}


def skipped(story: Story, records: tuple[str, ...]) -> Counts:
    """The saved position passed the record."""
    drop(story, records, "fetched", "delivered", "recorded")
    return {"recorded": -1, "lost": 1}


def not_recorded(story: Story, records: tuple[str, ...]) -> Counts:
    """The consumer had the record and died."""
    drop(story, records, "recorded")
    return {"recorded": -1, "lost": 1}


def stalled(story: Story, records: tuple[str, ...]) -> Counts:
    """An open transaction holds the record above the last stable offset."""
    drop(story, records, "recorded")
    for row in rows_of(story, "stored", records):
        row["visible"] = False
    for row in story.events:
        if row["event"] == "log":
            row["stable"] = 0
    return {"recorded": -1, "stalled": 1}


def left_in_topic(story: Story, records: tuple[str, ...]) -> Counts:
    """No position is saved: the record would still be read."""
    drop(story, records, "recorded")
    for row in story.events:
        if row["event"] == "position":
            row["offset"] = -1
    return {"recorded": -1, "left": 1, "left_in_topic": 1}


def left_in_source(story: Story, records: tuple[str, ...]) -> Counts:
    """The cursor is not past the record: it would still be sent."""
    last = RECORDS[-len(records) :]
    drop(story, last, "sent", "acked", "stored", "fetched", "delivered", "recorded")
    story.cursor(len(RECORDS) + 1 - len(records))
    return {"acked": -1, "stored": -1, "recorded": -1, "left": 1, "left_in_source": 1}


def stored_twice(story: Story, records: tuple[str, ...]) -> Counts:
    """A resent record stands in the log twice, and both copies are recorded."""
    for n, record in enumerate(records):
        story.stored(record, 0, 100 + n, attempt=f"producer-2.1.{n}")
        story.recorded(record, 100 + n, 0, 100 + n)
    return {"duplicated": 1, "stored_twice": 1}


def stored_twice_in_the_sink(story: Story, records: tuple[str, ...]) -> Counts:
    """A log that is the sink holds one attempt twice, made from one copy."""
    for n, row in enumerate(rows_of(story, "recorded", records)):
        row["attempt"] = f"processor-1.1.{n}"
        story.recorded(
            row["record"], 100 + n, row["partition"], row["offset"], attempt=row["attempt"]
        )
    return {"duplicated": 1, "stored_twice": 1}


def delivered_twice(story: Story, records: tuple[str, ...]) -> Counts:
    """One copy is recorded twice."""
    for n, row in enumerate(rows_of(story, "recorded", records)):
        story.recorded(row["record"], 100 + n, row["partition"], row["offset"])
    return {"duplicated": 1, "delivered_twice": 1}


def worked_twice_into_the_sink(story: Story, records: tuple[str, ...]) -> Counts:
    """A log that is the sink holds two attempts made from one copy."""
    for n, row in enumerate(rows_of(story, "recorded", records)):
        row["attempt"] = f"processor-1.1.{n}"
        story.recorded(
            row["record"], 100 + n, row["partition"], row["offset"], attempt=f"processor-2.1.{n}"
        )
    return {"duplicated": 1, "delivered_twice": 1}


def absorbed(story: Story, records: tuple[str, ...]) -> Counts:
    """An idempotent sink turned a second copy away."""
    for record in records:
        story.absorbed(record, 0, 50)
    return {"absorbed": 1}


def absorbed_many(story: Story, records: tuple[str, ...]) -> Counts:
    """An idempotent sink turned copies of *one* record away, several times."""
    for _ in records:
        story.absorbed(RECORDS[0], 0, 50)
    return {"absorbed": 1}


def aborted_beside(story: Story, records: tuple[str, ...]) -> Counts:
    """An attempt was aborted and the record sent again in a later transaction: neither duplicate
    nor resurrected.
    """
    for n, record in enumerate(records):
        story.transaction(f"producer-0.{n}", "aborted")
        story.stored(record, 0, 1, visible=False, attempt=f"producer-0.{n}.1")
    return {"aborted": 1}


def phantom_row(story: Story, records: tuple[str, ...]) -> Counts:
    """A row of the sink was never offered."""
    for n in range(len(records)):
        story.recorded("k0-99", 100 + n, 0, 50 + n)
    return {"phantom": 1}


def damaged_row(story: Story, records: tuple[str, ...]) -> Counts:
    """A row of the sink is damaged; it is no second copy."""
    for n, record in enumerate(records):
        story.recorded(record, 100 + n, 0, 50 + n, intact=False)
    return {"phantom": 1}


def phantom_copy(story: Story, records: tuple[str, ...]) -> Counts:
    """A payload in the topic is none of ours."""
    for n in range(len(records)):
        story.stored(None, 0, 1 + 2 * n, intact=False)
    return {"phantom": 1}


def damaged_only_copy(story: Story, records: tuple[str, ...]) -> Counts:
    """The only copy and the only row of a record are damaged: one phantom that went on into the
    sink, and the record is lost.
    """
    for kind in ("stored", "recorded"):
        for row in rows_of(story, kind, records):
            row["intact"] = False
    return {"phantom": 1, "stored": -1, "recorded": -1, "lost": 1}


def resurrected(story: Story, records: tuple[str, ...]) -> Counts:
    """The program was told its transaction was aborted, and a read-committed reader sees it."""
    undo(story, records, "aborted")
    return {"resurrected": 1}


def aborted_and_recorded(story: Story, records: tuple[str, ...]) -> Counts:
    """The sink has a result of each, and each is in an aborted transaction."""
    for row in rows_of(story, "stored", records):
        row["visible"] = False
    undo(story, records, "aborted")
    return {"aborted": 1, "resurrected": 1}


def aborted_and_given(story: Story, records: tuple[str, ...]) -> Counts:
    """A second, aborted copy of each reached a reader of committed records."""
    for conn, committed in ((2, True), (3, False)):
        row = story.tell("frame", "wire", api="Fetch", dir="request")
        row.update(conn=conn, committed_only=committed)
    for n, record in enumerate(records):
        story.stored(record, 0, 1 + 2 * n, visible=False, attempt=f"producer-0.{n}.1")
        for conn in (2, 3):
            story.fetched(record, 0, 1 + 2 * n, reached=True)["conn"] = conn
    return {"aborted": 1, "resurrected": 1}


def aborted_and_given_to_others(story: Story, records: tuple[str, ...]) -> Counts:
    """It reached a reader that asks for uncommitted records, and the sink has a result of it."""
    row = story.tell("frame", "wire", api="Fetch", dir="request")
    row.update(conn=3, committed_only=False)
    for n, record in enumerate(records):
        story.stored(record, 0, 1 + 2 * n, visible=False, attempt=f"producer-0.{n}.1")
        story.fetched(record, 0, 1 + 2 * n, reached=True)["conn"] = 3
        story.recorded(record, 300 + n, 0, 1 + 2 * n)
    return {"aborted": 1, "duplicated": 1, "stored_twice": 1}


def fenced(story: Story, records: tuple[str, ...]) -> Counts:
    """A program that is fenced says nothing against a visible copy."""
    undo(story, records, "fenced")
    return {}


def never_told(story: Story, records: tuple[str, ...]) -> Counts:
    """A program that never learns the outcome says nothing against a visible copy: its transaction
    is in doubt.
    """
    undo(story, records, "unknown")
    return {"in_doubt": 1}


def told_by_its_library(story: Story, records: tuple[str, ...]) -> Counts:
    """A library that says of its own accord that a transaction was rolled back says nothing against
    a visible copy either.
    """
    undo(story, records, "aborted")
    for row in story.events:
        if row["event"] == "transaction" and row["outcome"] == "aborted":
            row["told_by"] = "library"
    return {"in_doubt": 1}


def refused_and_visible(story: Story, records: tuple[str, ...]) -> Counts:
    """The program was told that nothing was appended, and there it stands."""
    for row in rows_of(story, "acked", records):
        row.update(event="refused", error="MessageTooLarge")
    return {"acked": -1, "refused": 1, "resurrected": 1}


def refused_after_doubt(story: Story, records: tuple[str, ...]) -> Counts:
    """A refusal after an unknown attempt proves nothing: the earlier attempt may be what is
    visible.
    """
    for row in rows_of(story, "acked", records):
        row.update(event="refused", error="OutOfOrderSequence")
        doubt = story.unknown(row["record"], row["attempt"])
        doubt["t"] = 0
    return {"acked": -1, "refused": 1}


def refused_in_doubt_at_once(story: Story, records: tuple[str, ...]) -> Counts:
    """A doubt of the same instant is not an earlier one; it is no excuse."""
    for row in rows_of(story, "acked", records):
        row.update(event="refused", error="OutOfOrderSequence")
        story.unknown(row["record"], row["attempt"])["t"] = row["t"]
    return {"acked": -1, "refused": 1, "resurrected": 1}


def torn(story: Story, records: tuple[str, ...]) -> Counts:
    """Another attempt of a visible transaction is acknowledged and nowhere to be seen."""
    for record in records:
        story.acked(record, f"producer-1.{record.split('-')[1]}.99")
    return {"torn": 1}


def half_stalled(story: Story, records: tuple[str, ...]) -> Counts:
    """An attempt that still waits above the last stable offset tears nothing."""
    for n, record in enumerate(records):
        attempt = f"producer-1.{record.split('-')[1]}.99"
        story.acked(RECORDS[5], attempt)
        story.stored(RECORDS[5], 0, 500 + n, visible=False, attempt=attempt)
    return {}


def acked_stranger(story: Story, records: tuple[str, ...]) -> Counts:
    """What was never offered (a cursor written in the transaction, say) tears nothing."""
    for record in records:
        story.acked("cursor", f"producer-1.{record.split('-')[1]}.99")
    return {}


def reordered(story: Story, records: tuple[str, ...]) -> Counts:
    """A record is recorded after a later one of its key."""
    for n, row in enumerate(rows_of(story, "recorded", records)):
        row["order"] = 200 - n
    return {"reordered": 1}


def unknown(story: Story, records: tuple[str, ...]) -> Counts:
    """One more attempt, and nobody knows what became of it."""
    for record in records:
        story.unknown(record, "producer-1.9.9")
    return {"unknown": 1}


def resent_in_doubt(story: Story, records: tuple[str, ...]) -> Counts:
    """The wire saw an attempt whose fate the program did not live to write down."""
    for record in records:
        story.sent(record, "producer-2.1.1")
    return {"unknown": 1}


def refused_once(story: Story, records: tuple[str, ...]) -> Counts:
    """One more attempt was refused; the record got through with another."""
    for record in records:
        story.refused(record, "producer-1.9.9")
    return {"refused": 1}


def another_hop(story: Story, records: tuple[str, ...]) -> Counts:
    """What a processor says of its results is not said of the source's records."""
    story.log(0, 99, hop="sink", topic="results")
    for record in records:
        story.unknown(record, "processor-1.1.1", hop="sink")
        story.refused(record, "processor-1.1.2", hop="sink")
        story.sent(record, "processor-1.1.3", request="2/1")["topic"] = "results"
    return {}


PLANTS: tuple[Callable[[Story, tuple[str, ...]], Counts], ...] = (
    never_sent,
    sent_not_stored,
    acked_not_stored,
    deleted_by_retention,
    only_aborted,
    skipped,
    not_recorded,
    stalled,
    left_in_topic,
    left_in_source,
    stored_twice,
    stored_twice_in_the_sink,
    delivered_twice,
    worked_twice_into_the_sink,
    absorbed,
    absorbed_many,
    aborted_beside,
    phantom_row,
    damaged_row,
    phantom_copy,
    damaged_only_copy,
    resurrected,
    aborted_and_recorded,
    aborted_and_given,
    aborted_and_given_to_others,
    fenced,
    never_told,
    told_by_its_library,
    refused_and_visible,
    refused_after_doubt,
    refused_in_doubt_at_once,
    torn,
    half_stalled,
    acked_stranger,
    reordered,
    unknown,
    resent_in_doubt,
    refused_once,
    another_hop,
)


def counts_of(histories: dict[str, list[Row]]) -> dict[str, Counts]:
    """Account for histories and return their counts."""
    return {name: account(events).counts for name, events in histories.items()}


@pytest.fixture(scope="module")
def planted() -> dict[str, tuple[Counts, Counts]]:
    """Every anomaly planted once, twice and three times: name -> (counts wanted, counts found)."""
    wanted: dict[str, Counts] = {}
    histories: dict[str, list[Row]] = {}
    for plant in PLANTS:
        for k in range(1, MOST + 1):
            story = clean()
            each = plant(story, RECORDS[:k])
            name = f"{plant.__name__} x{k}"
            histories[name] = story.events
            wanted[name] = {
                column: CLEAN.get(column, 0) + k * each.get(column, 0)
                for column in {**CLEAN, **each}
            }
    found = counts_of(histories)
    return {name: (wanted[name], found[name]) for name in histories}


def test_a_clean_history_counts_nothing_but_its_records() -> None:
    found = account(clean().events)
    assert {name: count for name, count in found.counts.items() if count} == CLEAN
    assert not found.lost
    assert not found.duplicated


@pytest.mark.parametrize("k", range(1, MOST + 1))
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planting_k_gives_exactly_k(
    plant: Callable[..., Counts], k: int, planted: dict[str, tuple[Counts, Counts]]
) -> None:
    """Planting an anomaly k times changes its column by exactly k, and no other column."""
    want, found = planted[f"{plant.__name__} x{k}"]
    assert {name: count for name, count in found.items() if count or name in want} == want


@pytest.mark.parametrize(
    ("plant", "hop"),
    [
        (never_sent, LastHop.NEVER_SENT),
        (sent_not_stored, LastHop.SENT),
        (acked_not_stored, LastHop.ACKED),
        (deleted_by_retention, LastHop.DELETED),
        (only_aborted, LastHop.ABORTED),
        (skipped, LastHop.SKIPPED),
        (not_recorded, LastHop.DELIVERED),
    ],
)
def test_a_lost_record_names_its_last_hop(plant: Callable[..., Counts], hop: LastHop) -> None:
    """Exactly the planted records are lost, each with the hop at which it was last seen."""
    story = clean()
    plant(story, RECORDS[:2])
    found = account(story.events)
    lost = found.records[found.records["state"] == State.LOST]
    assert found.lost == set(RECORDS[:2])
    assert set(lost["last_hop"]) == {hop}
    assert found.records.loc[found.records["state"] != State.LOST, "last_hop"].isna().all()


@pytest.mark.parametrize(("reached", "hop"), [(True, LastHop.DELIVERED), (False, LastHop.SKIPPED)])
def test_a_fetch_delivers_only_what_reached_the_consumer(reached: bool, hop: LastHop) -> None:
    """Without the consumer's own line, a fetch response counts as delivery exactly if it got
    through.
    """
    story = clean()
    skipped(story, RECORDS[:1])
    story.fetched(RECORDS[0], 1, 0, reached=reached)
    found = account(story.events).records.set_index("record")
    assert found.loc[RECORDS[0], "last_hop"] == hop


def test_duplicated_names_the_records() -> None:
    """The ids of duplicated records are those of the planted ones, however many copies
    there are.
    """
    story = clean()
    for _ in range(3):
        delivered_twice(story, RECORDS[1:2])
    found = account(story.events)
    assert found.duplicated == {RECORDS[1]}
    assert found.counts["duplicated"] == found.counts["delivered_twice"] == 1 + 2 + 4


# --- changes of random histories ------------------------------------------------------------------


def shift_writers(events: list[Row], dice: random.Random) -> list[Row]:
    """LeaderMoved every writer as a whole in time: each keeps its own order, none keeps its place
    among the others.
    """
    writers = sorted({row["by"] for row in events})
    shift = {by: n * FAR_NS for n, by in enumerate(dice.sample(writers, len(writers)))}
    return [{**row, "t": row["t"] + shift[row["by"]]} for row in events]


def shuffle_lines(events: list[Row], dice: random.Random) -> list[Row]:
    """Give every line its own time, then put the lines in any order."""
    ordered = [{**row, "t": n} for n, row in enumerate(sorted(events, key=lambda row: row["t"]))]
    return dice.sample(ordered, len(ordered))


def rename(events: list[Row], dice: random.Random) -> list[Row]:
    """Give every record, key and topic another name."""
    names = ("record", "key", "topic")
    return [
        row | {name: f"~{row[name]}" for name in names if row.get(name) is not None}
        for row in events
    ]


def move_offsets(events: list[Row], dice: random.Random) -> list[Row]:
    """Let all logs begin somewhere else (nothing saved stays nothing saved)."""
    by = dice.randint(1, 10**9)
    moved = []
    for row in events:
        places = [
            name
            for name in ("offset", "stable")
            if isinstance(row.get(name), int) and row[name] >= 0
        ]
        fields = {name: row[name] + by for name in places}
        moved.append({**row, **fields})
    return moved


def chatter(events: list[Row], dice: random.Random) -> list[Row]:
    """Add what does not count: frames, nodes, rules, positions that programs say they saved, phases
    of the cell.
    """
    story = Story(now=FAR_NS)
    for record in ("a-1", "a-2", None):
        story.tell("frame", "wire", record=record, size=10, offset=1, partition=0)
        story.tell("node", "runner", phase="exited", record=record)
        story.tell("rule", "wire", phase="hit", record=record)
        story.tell("saved", "consumer-1", partition=0, offset=99, error=None)
        story.tell("committed", "wire", topic="t", partition=0, offset=99, reached=True)
        story.tell("produce_answer", "wire", record=record, reached=True, error=None)
        story.tell("taken", "producer-9", record=record)
        story.tell("unsent", "wire", record=record, attempt="p-1.1.1", topic="t", request="7/7")
    return events + story.events


CHANGES = (shift_writers, shuffle_lines, rename, move_offsets, chatter)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_must_not_matter_does_not(
    change: Callable[[list[Row], random.Random], list[Row]],
) -> None:
    """Order between writers, line order, names, log starts and chatter leave every
    count as it is.
    """
    dice = random.Random(change.__name__)
    before = {str(seed): story_of(seed) for seed in range(HISTORIES)}
    after = {seed: change(events, dice) for seed, events in before.items()}
    assert before != after
    found, changed = counts_of(before), counts_of(after)
    for seed in before:
        assert changed[seed] == found[seed], seed


def test_one_more_row_is_one_more_duplicate() -> None:
    """Repeating a row of the sink adds exactly one duplicate, of one of the two kinds, and changes
    nothing else.
    """
    before: dict[str, list[Row]] = {}
    after: dict[str, list[Row]] = {}
    named: dict[str, bool] = {}
    for seed in range(HISTORIES):
        events = story_of(seed)
        offers = {row["record"] for row in events if row["event"] == "offered"}
        rows = [
            row
            for row in events
            if row["event"] == "recorded" and row["intact"] and row["record"] in offers
        ]
        if rows:
            row = rows[seed % len(rows)]
            before[str(seed)], after[str(seed)] = events, [*events, {**row, "order": 1000}]
            named[str(seed)] = row["attempt"] is not None
    found, changed = counts_of(before), counts_of(after)
    assert set(named.values()) == {True, False}
    for name, counts in found.items():
        kind = "stored_twice" if named[name] else "delivered_twice"
        assert changed[name] == counts | {
            "duplicated": counts["duplicated"] + 1,
            kind: counts[kind] + 1,
        }, name


def test_a_missing_row_is_one_record_less_recorded() -> None:
    """Taking the only row of a record away moves that record from recorded to exactly one other
    state.
    """
    others = ("lost", "set_aside", "superseded", "stalled", "left_in_topic", "left_in_source")
    before: dict[str, list[Row]] = {}
    after: dict[str, list[Row]] = {}
    for seed in range(HISTORIES):
        events = story_of(seed)
        offers = {row["record"] for row in events if row["event"] == "offered"}
        rows = [
            row
            for row in events
            if row["event"] == "recorded" and row["intact"] and row["record"] in offers
        ]
        single = [
            row for row in rows if sum(1 for other in rows if other["record"] == row["record"]) == 1
        ]
        if single:
            before[str(seed)], after[str(seed)] = (
                events,
                [row for row in events if row is not single[0]],
            )
    found, changed = counts_of(before), counts_of(after)
    assert len(found) > HISTORIES // 4
    for name, counts in found.items():
        assert changed[name]["recorded"] == counts["recorded"] - 1, name
        assert sum(changed[name][state] - counts[state] for state in others) == 1, name
        assert changed[name]["duplicated"] == counts["duplicated"], name


def test_every_offered_record_has_exactly_one_state() -> None:
    """Recorded, stalled, left and lost add up to what was offered, and the two kinds of duplicates
    to all of them.
    """
    for name, counts in counts_of({str(seed): story_of(seed) for seed in range(HISTORIES)}).items():
        states = (
            counts["recorded"]
            + counts["stalled"]
            + counts["left"]
            + counts["set_aside"]
            + counts["superseded"]
            + counts["lost"]
        )
        assert states == counts["offered"], name
        assert counts["left"] == counts["left_in_topic"] + counts["left_in_source"], name
        assert counts["duplicated"] == counts["stored_twice"] + counts["delivered_twice"], name
        assert min(counts.values()) >= 0, name

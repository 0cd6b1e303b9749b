"""Making histories by hand: one clean story to plant anomalies in, and random ones to hold two
accounts against.

Every maker returns plain event dictionaries as :mod:`harness.model.events` describes them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

TOPIC = "t"
RESULTS = "results"


@dataclass
class Story:
    """Events in the order they are told; the clock goes on by ten per event, which leaves room
    between them.
    """

    events: list[Row] = field(default_factory=list)
    now: int = 0

    def tell(self, event: str, by: str = "observer", **fields: object) -> Row:
        """Tell one event."""
        self.now += 10
        row: Row = {"t": self.now, "w": self.now, "cell": "c", "by": by, "event": event, **fields}
        self.events.append(row)
        return row

    def offered(self, record: str, key: str, position: int) -> Row:
        """The source offers a record."""
        return self.tell("offered", record=record, key=key, position=position)

    def cursor(self, position: int) -> Row:
        """The source's cursor at rest."""
        return self.tell("cursor", position=position, where="outbox")

    def taken(self, record: str, by: str = "producer-1") -> Row:
        """A program has the record in hand."""
        return self.tell("taken", by, record=record)

    def sent(self, record: str, attempt: str | None, request: str = "1/1", **more: object) -> Row:
        """The wire forwarded a request with the record."""
        return self.tell(
            "sent",
            "wire",
            record=record,
            attempt=attempt,
            request=request,
            topic=TOPIC,
            partition=0,
            producer_id=-1,
            producer_epoch=-1,
            sequence=-1,
            **more,
        )

    def acked(self, record: str, attempt: str | None, **more: object) -> Row:
        """The program was told that the record is stored."""
        return self.tell(
            "acked",
            "producer-1",
            record=record,
            attempt=attempt,
            partition=0,
            offset=0,
            **{"hop": "topic", **more},
        )

    def refused(self, record: str, attempt: str | None, **more: object) -> Row:
        """The program was told that the record is not stored."""
        return self.tell(
            "refused",
            "producer-1",
            record=record,
            attempt=attempt,
            error="MessageTooLarge",
            **{"hop": "topic", **more},
        )

    def unknown(self, record: str, attempt: str | None, **more: object) -> Row:
        """The program was told nothing certain."""
        return self.tell(
            "unknown",
            "producer-1",
            record=record,
            attempt=attempt,
            error="Timeout",
            **{"hop": "topic", **more},
        )

    def transaction(self, name: str, outcome: str) -> Row:
        """The program was told what became of a transaction."""
        return self.tell("transaction", "producer-1", transaction=name, outcome=outcome, error=None)

    def stored(self, record: str | None, partition: int, offset: int, **more: object) -> Row:
        """A copy in a log."""
        row: Row = {
            "hop": "topic",
            "topic": TOPIC,
            "partition": partition,
            "epoch": 0,
            "offset": offset,
            "key": None,
            "record": record,
            "intact": True,
            "visible": True,
            "attempt": None,
            "producer_id": -1,
        }
        return self.tell("stored", **row | more)

    def log(self, partition: int, stable: int, **more: object) -> Row:
        """The offsets of a log at rest."""
        row: Row = {
            "hop": "topic",
            "topic": TOPIC,
            "partition": partition,
            "start": 0,
            "stable": stable,
            "end": stable,
            "last_data": stable - 1,
        }
        return self.tell("log", **row | more)

    def position(self, partition: int, offset: int) -> Row:
        """The saved position of the consuming side."""
        return self.tell("position", partition=partition, offset=offset, where="group")

    def delivered(self, record: str, partition: int, offset: int) -> Row:
        """The consumer was given the record."""
        return self.tell(
            "delivered", "consumer-1", record=record, partition=partition, epoch=0, offset=offset
        )

    def fetched(self, record: str, partition: int, offset: int, *, reached: bool) -> Row:
        """The wire saw the record on its way to the consumer."""
        return self.tell(
            "fetched",
            "wire",
            record=record,
            topic=TOPIC,
            partition=partition,
            offset=offset,
            epoch=0,
            conn=1,
            reached=reached,
        )

    def asked(self, conn: int, *, committed: bool) -> Row:
        """A reader asks for records on a connection."""
        row = self.tell("frame", "wire", api="Fetch", dir="request", role="consumer")
        row.update(conn=conn, committed_only=committed)
        return row

    def recorded(
        self, record: str | None, order: int, partition: int, offset: int, **more: object
    ) -> Row:
        """A row of the sink."""
        row: Row = {
            "record": record,
            "key": None,
            "intact": True,
            "order": order,
            "partition": partition,
            "epoch": 0,
            "offset": offset,
            "attempt": None,
        }
        return self.tell("recorded", **row | more)

    def absorbed(self, record: str, partition: int, offset: int) -> Row:
        """A copy that reached the sink and was rightly not recorded."""
        return self.tell("absorbed", record=record, partition=partition, epoch=0, offset=offset)


def clean(count: int = 6, partitions: int = 2) -> Story:
    """Tell a story in which nothing goes wrong: one record per transaction, every line in its
    place.

    Record ``n`` (from 1) is ``k<n % 2>-<n>``; it stands in partition ``n % partitions`` at offset
    ``(n - 1) // partitions * 2`` (a transaction marker behind each), its attempt is
    ``producer-1.<n>.<n>``.
    """
    story = Story()
    places = [
        (f"k{n % 2}-{n}", n, n % partitions, (n - 1) // partitions * 2) for n in range(1, count + 1)
    ]
    for record, n, partition, offset in places:
        attempt = f"producer-1.{n}.{n}"
        story.taken(record)
        story.transaction(f"producer-1.{n}", "begun")
        story.sent(record, attempt, f"1/{n}")
        story.acked(record, attempt)
        story.transaction(f"producer-1.{n}", "committed")
        story.fetched(record, partition, offset, reached=True)
        story.delivered(record, partition, offset)
    for record, n, partition, offset in places:
        story.offered(record, record.split("-")[0], n)
        story.stored(record, partition, offset, attempt=f"producer-1.{n}.{n}")
        story.recorded(record, n, partition, offset)
    story.cursor(count + 1)
    end = (count - 1) // partitions * 2 + 2
    for partition in range(partitions):
        story.log(partition, end)
        story.position(partition, end)
    return story


# --- random histories -----------------------------------------------------------------------------

_KEYS = {"a-1": "a", "a-2": "a", "b-3": "b", "b-4": "b", "a-5": "a", "b-6": "b"}
_STRANGERS = (None, "x-9")
_INCARNATIONS = ("p-1", "p-2")
_KINDS = {
    "acked": 6,
    "refused": 3,
    "unknown": 3,
    "sent": 6,
    "transaction": 6,
    "stored": 16,
    "log": 3,
    "position": 3,
    "cursor": 1,
    "recorded": 8,
    "absorbed": 2,
    "delivered": 2,
    "fetched": 2,
    "taken": 1,
    "produce_answer": 1,
    "unsent": 1,
    "deleted": 2,
    "removed": 5,
    "frame": 2,
}
"""Kinds of random events, with their weights."""
_WRITERS = {
    **dict.fromkeys(("acked", "refused", "unknown", "transaction", "taken"), "producer-1"),
    **dict.fromkeys(("sent", "unsent", "fetched", "produce_answer", "frame"), "wire"),
    "delivered": "consumer-1",
}


def story_of(seed: int) -> list[Row]:
    """Return random history number ``seed``: even ones make no sense, odd ones do."""
    dice = random.Random(seed)
    return plausible(dice) if seed % 2 else soup(dice)


def soup(dice: random.Random, most: int = 40) -> list[Row]:
    """Throw events together without any sense; small pools make them meet. A few share a time
    stamp.
    """
    names = list(_KEYS)[: dice.randint(1, len(_KEYS))]
    story = Story()
    for record in names:
        story.offered(record, _KEYS[record], int(record[2:]))
    kinds = [kind for kind in _KINDS if dice.random() < 0.85] or ["stored"]
    for kind in dice.choices(kinds, [_KINDS[kind] for kind in kinds], k=dice.randint(0, most)):
        _add(story, dice, kind, names)
    return shuffled(story.events, dice)


def plausible(dice: random.Random) -> list[Row]:
    """Tell a run as it might have been, with every accident now and then."""
    story = Story()
    names = list(_KEYS)[: dice.randint(2, len(_KEYS))]
    bad = dice.choice((0.05, 0.2, 0.5))
    offsets = [0, 0, 0]
    logs: list[Row] = []
    for record in names:
        story.offered(record, _KEYS[record], int(record[2:]))
    for number, start in enumerate(range(0, len(names), 2), start=1):
        name = f"{dice.choice(_INCARNATIONS)}.{number}"
        _tell_transaction(
            story, dice, names[start : start + 2], name, offsets=offsets, logs=logs, bad=bad
        )
    for conn in (1, 2):
        if dice.random() < 0.6:
            story.asked(conn, committed=dice.random() < 0.75)
    _consume(story, dice, logs, bad)
    for partition, end in enumerate(offsets):
        if dice.random() > bad / 2:
            story.log(partition, end if dice.random() > bad else dice.randint(0, end))
    if dice.random() > bad / 2:
        story.cursor(len(names) + 1 if dice.random() > bad else dice.randint(1, len(names)))
    for kind in dice.choices(list(_KINDS), list(_KINDS.values()), k=dice.choice((0, 0, 1, 3))):
        _add(story, dice, kind, names)
    return shuffled(story.events, dice)


def _tell_transaction(
    story: Story,
    dice: random.Random,
    records: list[str],
    name: str,
    *,
    offsets: list[int],
    logs: list[Row],
    bad: float,
) -> None:
    """Send records in one transaction, perhaps twice, and store them; ``offsets`` and ``logs``
    grow.
    """
    story.transaction(name, "begun")
    outcome = dice.choice(("aborted", "unknown", "fenced")) if dice.random() < bad else "committed"
    for number, record in enumerate(records):
        attempt = f"{name}.{number}" if dice.random() > 0.1 else None
        for _ in range(2 if dice.random() < bad else 1):
            if dice.random() > bad / 2:
                story.sent(record, attempt)
            if dice.random() > bad:
                visible = (outcome == "committed") == (dice.random() > bad / 2)
                partition = dice.randrange(3)
                logs.append(
                    story.stored(
                        record,
                        partition,
                        offsets[partition],
                        visible=visible,
                        attempt=attempt,
                        intact=dice.random() > bad / 5,
                    )
                )
                offsets[partition] += dice.randint(1, 2)
            answer = dice.choice(
                (story.acked, story.acked, story.acked, story.refused, story.unknown, None)
            )
            if answer:
                answer(record, attempt)
    if dice.random() > bad / 2:
        story.transaction(name, outcome)


def _consume(story: Story, dice: random.Random, logs: list[Row], bad: float) -> None:
    """Deliver and record what is visible, and save positions. Some give away what is not."""
    order = 0
    saved = dict.fromkeys(range(3), -1)
    for copy in sorted(logs, key=lambda row: dice.random() if bad > 0.4 else row["t"]):
        if not copy["visible"] and dice.random() < 0.8:
            order += _give_away(story, dice, copy, order + 1)
        if not copy["visible"] or dice.random() < bad / 3:
            continue
        if dice.random() > bad / 3:
            story.delivered(copy["record"], copy["partition"], copy["offset"])
        for _ in range(dice.choice((0, 2, 3)) if dice.random() < bad else 1):
            order += 1
            if dice.random() < bad / 5:
                story.absorbed(copy["record"], copy["partition"], copy["offset"])
            story.recorded(
                copy["record"],
                order,
                copy["partition"],
                copy["offset"],
                attempt=copy["attempt"] if dice.random() < bad else None,
            )
        saved[copy["partition"]] = copy["offset"] + 1
    for partition, offset in saved.items():
        if dice.random() > bad / 2:
            story.position(partition, offset if dice.random() > bad else max(offset - 1, -1))


def _give_away(story: Story, dice: random.Random, copy: Row, order: int) -> int:
    """Let somebody have a copy that is not visible; return how many results were made of it."""
    at = copy["record"], copy["partition"], copy["offset"]
    match dice.choice(("fetched", "fetched", "delivered", "delivered", "recorded")):
        case "fetched":
            row = story.fetched(*at, reached=dice.random() < 0.8)
            row["conn"] = dice.choice((1, 2))
        case "delivered":
            story.delivered(*at)
        case _:
            story.recorded(copy["record"], order, *at[1:])
            return 1
    return 0


def _add(story: Story, dice: random.Random, kind: str, names: list[str]) -> None:
    """Add one event of a kind, all fields drawn from small pools."""
    pick = dice.choice
    record = pick(names) if dice.random() < 0.95 else pick(_STRANGERS)
    transaction = f"{pick(_INCARNATIONS)}.{pick((1, 1, 2))}"
    attempt = f"{transaction}.{pick((1, 2))}" if dice.random() < 0.85 else None
    place = {
        "partition": pick((0, 1)),
        "epoch": pick((0, 0, 0, 1)),
        "offset": pick((0, 1, 2, 3, 4)),
    }
    nowhere = {"partition": None, "epoch": None, "offset": None}
    hop = pick(("topic", "topic", "topic", "sink", "aside"))
    log = {
        "hop": hop,
        "topic": pick((RESULTS,) * 9 + (TOPIC,))
        if hop == "sink"
        else pick((TOPIC, TOPIC, TOPIC, "t2")),
    }
    flag = dice.random() < 0.5
    fields: dict[str, dict[str, Any]] = {
        "acked": {
            "record": record,
            "attempt": attempt,
            "hop": pick(("topic", "topic", "topic", "sink")),
        },
        "refused": {
            "record": record,
            "attempt": attempt,
            "hop": pick(("topic", "topic", "topic", "sink")),
        },
        "unknown": {
            "record": record,
            "attempt": attempt,
            "hop": pick(("topic", "topic", "topic", "sink")),
        },
        "sent": {
            "record": record,
            "attempt": attempt,
            "topic": pick((TOPIC, TOPIC, RESULTS)),
            "request": "1/1",
        },
        "unsent": {
            "record": record,
            "attempt": attempt,
            "topic": TOPIC,
            "request": pick(("1/1", "1/2")),
        },
        "transaction": {
            "transaction": transaction,
            "outcome": pick(("begun", "committed", "aborted", "aborted", "unknown", "fenced")),
        },
        "stored": {
            "record": record,
            "attempt": attempt,
            "intact": dice.random() < 0.95,
            "visible": dice.random() < 0.6,
            "key": None,
            "foreign": dice.random() < 0.2,
            **log,
            **place,
        },
        "log": {**log, "partition": place["partition"], "stable": pick((0, 1, 2, 3, 5))},
        "position": {
            "partition": place["partition"],
            "offset": pick((-1, 0, 1, 3, 5)),
            "where": "group",
        },
        "cursor": {"position": pick((1, 3, 5, 7)), "where": "outbox"},
        "recorded": {
            "record": record,
            "intact": dice.random() < 0.95,
            "order": dice.randint(1, 9),
            "key": None,
            "attempt": attempt if dice.random() < 0.5 else None,
            **(place if dice.random() < 0.95 else nowhere),
        },
        "absorbed": {"record": record, **place},
        "delivered": {"record": record, **place},
        "fetched": {
            "record": record,
            "topic": pick((TOPIC, TOPIC, TOPIC, "t2")),
            "conn": pick((1, 2)),
            "reached": flag,
            **place,
        },
        "frame": {
            "conn": pick((1, 2)),
            "api": "Fetch",
            "dir": "request",
            "committed_only": pick((True, True, True, False)),
        },
        "taken": {"record": record},
        "deleted": {"record": record, "topic": TOPIC, "visible": flag, **place},
        "removed": {
            "record": record,
            "topic": TOPIC,
            "visible": flag,
            "why": "compaction",
            "later": pick(("0:0:9", "0:0:9", None)),
            **place,
        },
        "produce_answer": {"record": record, "reached": flag, "error": 0},
    }
    story.tell(kind, _WRITERS.get(kind, "observer"), **fields[kind])


def shuffled(events: list[Row], dice: random.Random) -> list[Row]:
    """Give some events the time stamp of another, and put the lines in any order."""
    if dice.random() < 0.3:
        for row in dice.sample(events, len(events) // 4):
            row["t"] = dice.choice(events)["t"]
    if dice.random() < 0.5:
        dice.shuffle(events)
    return events

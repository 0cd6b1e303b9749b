"""Making histories of queues: by hand, random ones that make no sense, and stories of a broker that
might have happened.

Nothing here knows how anything is counted: a broker is played, and what its observer, the programs
and the wire would write is written. As in :mod:`tests.judge.histories`, every maker returns plain
event dictionaries.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.judge.histories import Story, shuffled

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]

QUEUE = "q"
LATER = "later"
ASIDE = "aside"


class QueueStory(Story):
    """A story of a queue: copies have places, and no offsets."""

    def copy(
        self, record: str | None, place: str | None, waiting: str | None = None, **more: object
    ) -> Row:
        """A copy that the broker has, or has had."""
        row: Row = {
            "hop": "topic",
            "place": place,
            "waiting": waiting,
            "record": record,
            "key": None,
            "intact": True,
            "visible": waiting not in ("open", "prepared"),
            "attempt": None,
            "foreign": False,
        }
        return self.tell("stored", **row | more)

    def removed(self, record: str | None, place: str | None, why: str) -> Row:
        """The broker has taken a copy away."""
        return self.tell("removed", record=record, place=place, why=why)

    def moved(self, record: str | None, place: str | None, to: str | None) -> Row:
        """A copy has gone to another place."""
        return self.tell("moved", record=record, place=place, to=to)

    def given(self, record: str | None, *, redelivered: bool = False) -> Row:
        """The consumer was given a record."""
        return self.tell("delivered", "consumer-1", record=record, redelivered=redelivered)

    def result(self, record: str | None, order: int, place: str | None, **more: object) -> Row:
        """A row of the sink."""
        row: Row = {
            "record": record,
            "key": None,
            "intact": True,
            "order": order,
            "place": place,
            "attempt": None,
        }
        return self.tell("recorded", **row | more)

    def spared(self, record: str | None, place: str | None) -> Row:
        """A copy that reached the sink and was rightly not recorded."""
        return self.tell("absorbed", record=record, place=place)

    def folded(self, key: str, version: int, record: str | None, times: int) -> Row:
        """A version of a value holds a record so many times."""
        return self.tell("folded", key=key, version=version, record=record, times=times)

    def told(self, name: str, outcome: str, by: str = "broker") -> Row:
        """The program was told what became of a transaction."""
        return self.tell(
            "transaction", "producer-1", transaction=name, outcome=outcome, error=None, told_by=by
        )


# --- random histories -----------------------------------------------------------------------------

KEYS = {"a-1": "a", "a-2": "a", "b-3": "b", "b-4": "b", "a-5": "a", "b-6": "b"}
STRANGERS = (None, "x-9")
INCARNATIONS = ("p-1", "p-2")
PLACES = ("q:1", "q:2", "q:3", "later:1", "aside:1")
WHY = (
    "ack",
    "expiry",
    "dead-letter",
    "reject",
    "limit",
    *("retention", "compaction", "duplicate", "purge") * 2,
    "duplicate",
)
WAITING = (None, None, None, "ready", "in-flight", "scheduled", "open", "prepared")
ENDS = ("begun", "committed", "aborted", "aborted", "unknown", "fenced")
KINDS = {
    "acked": 6,
    "refused": 3,
    "unknown": 3,
    "sent": 6,
    "transaction": 6,
    "stored": 14,
    "removed": 12,
    "moved": 5,
    "cursor": 1,
    "recorded": 7,
    "folded": 4,
    "absorbed": 2,
    "delivered": 2,
    "fetched": 2,
    "taken": 1,
    "produce_answer": 1,
    "unsent": 1,
}
"""Kinds of random events, with their weights."""


def story_of(seed: int) -> list[Row]:
    """Return random history number ``seed``: even ones make no sense, odd ones do."""
    dice = random.Random(seed)
    return plausible(dice) if seed % 2 else soup(dice)


def histories() -> st.SearchStrategy[list[Row]]:
    """Return a strategy for histories of both sorts, which shrinks."""
    dice = st.randoms(use_true_random=False)
    return st.one_of(st.builds(soup, dice), st.builds(plausible, dice))


def soup(dice: random.Random, most: int = 40) -> list[Row]:
    """Throw events together without any sense; small pools make them meet. A few share a time
    stamp.
    """
    names = list(KEYS)[: dice.randint(1, len(KEYS))]
    story = QueueStory()
    for record in names:
        story.offered(record, KEYS[record], int(record[2:]))
    kinds = [kind for kind in KINDS if dice.random() < 0.85] or ["stored"]
    for kind in dice.choices(kinds, [KINDS[kind] for kind in kinds], k=dice.randint(0, most)):
        _add(story, dice, kind, names)
    return shuffled(story.events, dice)


def _add(story: QueueStory, dice: random.Random, kind: str, names: list[str]) -> None:
    """Add one event of a kind, all fields drawn from small pools."""
    pick = dice.choice
    record = pick(names) if dice.random() < 0.95 else pick(STRANGERS)
    name = f"{pick(INCARNATIONS)}.{pick((1, 1, 2))}"
    attempt = f"{name}.{pick((1, 2))}" if dice.random() < 0.85 else None
    place = pick(PLACES) if dice.random() < 0.95 else None
    hop = pick(("topic", "topic", "topic", "sink", "aside"))
    intact = dice.random() < 0.95
    seldom = attempt if dice.random() < 0.5 else None
    tell: dict[str, Callable[[], Row]] = {
        "acked": lambda: story.acked(
            str(record), attempt, hop=pick(("topic", "topic", "topic", "sink"))
        ),
        "refused": lambda: story.refused(
            str(record), attempt, hop=pick(("topic", "topic", "topic", "sink"))
        ),
        "unknown": lambda: story.unknown(
            str(record), attempt, hop=pick(("topic", "topic", "topic", "sink"))
        ),
        "sent": lambda: story.sent(str(record), attempt),
        "unsent": lambda: story.tell(
            "unsent", "wire", record=record, attempt=attempt, topic=QUEUE, request="1/1"
        ),
        "transaction": lambda: story.told(name, pick(ENDS), pick(("broker", "broker", "library"))),
        "stored": lambda: story.copy(
            record,
            place,
            pick(WAITING),
            hop=hop,
            attempt=attempt,
            intact=intact,
            visible=dice.random() < 0.6,
            foreign=dice.random() < 0.2,
        ),
        "removed": lambda: story.removed(record, place, pick(WHY)),
        "moved": lambda: story.moved(record, place, pick((*PLACES, "lost:1"))),
        "cursor": lambda: story.cursor(pick((1, 3, 5, 7))),
        "recorded": lambda: story.result(
            record, dice.randint(1, 9), place, attempt=seldom, intact=intact
        ),
        "folded": lambda: story.folded(
            pick("ab"), pick((1, 1, 2)), record, pick((0, 1, 1, 1, 2, 3))
        ),
        "absorbed": lambda: story.spared(record, place),
        "delivered": lambda: story.given(record, redelivered=dice.random() < 0.3),
        "fetched": lambda: story.tell(
            "fetched", "wire", record=record, topic=QUEUE, conn=1, reached=dice.random() < 0.5
        ),
        "taken": lambda: story.taken(str(record)),
        "produce_answer": lambda: story.tell(
            "produce_answer", "wire", record=record, reached=True, error=0
        ),
    }
    tell[kind]()


# --- stories of a broker --------------------------------------------------------------------------


@dataclass
class Message:
    """One copy that the played broker has, or has had: a move is a new one."""

    record: str
    attempt: str | None
    place: str
    queue: str = QUEUE
    waiting: str | None = "ready"
    committed: bool = True
    deliveries: int = 0
    intact: bool = True

    @property
    def can_be_given(self) -> bool:
        """Whether a consumer of its queue would be given it."""
        return self.waiting == "ready" and self.queue != ASIDE


@dataclass
class Broker:
    """A broker with a queue, one for later attempts, and dead letters; it tells what its observer
    would.
    """

    story: QueueStory
    dice: random.Random
    bad: float
    """How probable each accident is."""
    messages: list[Message] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    order: int = 0
    results: list[tuple[Message, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = self.dice.random() < 0.7
        """Whether the observer can read what is gone."""
        self.names_places = self.dice.random() < 0.7
        """Whether a consumer is told the broker's number of what it is given."""
        self.has_dead_letters = self.dice.random() < 0.5
        self.has_later = self.dice.random() < 0.6
        self.acks_at_dispatch = self.dice.random() < 0.25
        self.limit = self.dice.randint(1, 3)
        self.sink = self.dice.choice(("rows", "rows", "rows", "idempotent", "values", "values"))

    def chance(self, share: float = 1.0) -> bool:
        """Whether an accident happens now."""
        return self.dice.random() < self.bad * share

    def place_in(self, queue: str) -> str:
        """Return a new place of a queue."""
        self.numbers[queue] = self.numbers.get(queue, 0) + 1
        return f"{queue}:{self.numbers[queue]}"

    def store(
        self,
        record: str,
        attempt: str | None,
        *,
        waiting: str | None = "ready",
        committed: bool = True,
    ) -> None:
        """Keep one more copy of a record; one whose attempt is there may be known for
        a duplicate.
        """
        message = Message(
            record,
            attempt,
            self.place_in(QUEUE),
            waiting=waiting,
            committed=committed,
            intact=not self.chance(0.2),
        )
        again = attempt is not None and any(other.attempt == attempt for other in self.messages)
        self.messages.append(message)
        if (again and self.dice.random() < 0.5) or self.chance(0.06):  # which it may be wrong about
            self.remove(message, "duplicate")
        elif waiting == "ready" and self.chance(0.3):
            message.waiting = "scheduled"

    def remove(self, message: Message, why: str) -> None:
        """Take a copy away."""
        message.waiting = None
        if not self.chance(0.2):  # what nobody wrote down
            self.story.removed(message.record, message.place, why)

    def move(self, message: Message, queue: str) -> None:
        """Take a copy to another queue, where it may never arrive."""
        message.waiting = None
        there = Message(
            message.record, message.attempt, self.place_in(queue), queue, intact=message.intact
        )
        if not self.chance(0.1):
            self.story.moved(message.record, message.place, there.place)
        if not self.chance():
            self.messages.append(there)

    def give_up(self, message: Message, why: str) -> None:
        """Set a copy aside, or do away with it."""
        if not self.has_dead_letters:
            self.remove(message, why)
        elif self.dice.random() < 0.5:
            self.move(message, ASIDE)
        else:  # a broker that deletes here and sends there: nobody says that it is the same
            self.remove(message, self.dice.choice((why, "dead-letter", "dead-letter")))
            if not self.chance(1.5):
                self.messages.append(Message(message.record, None, self.place_in(ASIDE), ASIDE))

    def give(self, message: Message) -> None:
        """Give a copy to the consumer, and do what follows from what that does with it."""
        if self.chance():
            self.give_up(message, "expiry")
            return
        if self.acks_at_dispatch:
            self.remove(message, "ack")
            if not self.chance(2):
                self.work(message)
            return
        message.deliveries += 1
        end = (
            "ack"
            if not self.chance(2)
            else self.dice.choice(("die", "die", "reject", "later", "later", "later", "hold"))
        )
        if not self.chance(0.2):
            self.work(message, records=end == "ack" or self.dice.random() < 0.3)
        if end == "ack":
            self.remove(message, "ack")
        elif end == "reject":
            self.give_up(message, "reject")
        elif end == "later" and self.has_later:
            self.move(message, LATER)
        elif end == "hold":
            message.waiting = "in-flight"
        elif message.deliveries >= self.limit:
            self.give_up(message, "limit")

    def work(self, message: Message, *, records: bool = True) -> None:
        """Let the consumer have a copy, and record its result, or die or refuse before that."""
        if not self.chance(0.2):
            self.story.given(message.record, redelivered=message.deliveries > 1)
        if self.chance(0.2):
            self.story.tell(
                "fetched",
                "wire",
                record=message.record,
                topic=QUEUE,
                conn=1,
                reached=self.dice.random() < 0.7,
            )
        times = 0 if not records else self.dice.choice((0, 0, 2, 3)) if self.chance() else 1
        self.results += [
            (message, self.dice.choice((1, 2, 3)) if self.chance(0.5) else 1) for _ in range(times)
        ]

    def consume(self, most: int = 60) -> None:
        """Give what can be given, in any order, until nothing is left, or the consumer stops before
        the end.
        """
        for _ in range(most):
            ready = [message for message in self.messages if message.can_be_given]
            if not ready or self.chance(0.1):
                return
            message = self.dice.choice(ready)
            if self.chance(0.2):
                message.waiting = "passed over"  # a hole: others behind it are acknowledged
            else:
                self.give(message)

    def observe(self) -> None:
        """Tell what is there, and what a journal says was."""
        for message in self.messages:
            if message.waiting == "passed over":
                message.waiting = "ready"
            if self.chance(1.2) and message.waiting:
                self.remove(message, self.dice.choice(("purge", "retention", "compaction")))
            if message.waiting is None and not self.journal:
                continue
            hop = ASIDE if message.queue == ASIDE else "topic"
            self.story.copy(
                message.record,
                message.place,
                message.waiting,
                hop=hop,
                intact=message.intact,
                attempt=message.attempt,
                visible=message.committed,
            )

    def record(self) -> None:
        """Tell what is in the sink: rows, or the versions of values."""
        if self.sink == "values":
            self.record_values()
            return
        known = set()
        for message, _ in self.results:
            place = message.place if self.names_places else None
            if self.sink == "idempotent" and message.record in known:
                self.story.spared(message.record, place)
                continue
            known.add(message.record)
            self.order += 1
            attempt = (
                self.dice.choice((None, f"s-1.{self.order}.1", "s-1.1.1"))
                if self.chance()
                else None
            )
            self.story.result(
                message.record, self.order, place, attempt=attempt, intact=message.intact
            )

    def record_values(self) -> None:
        """Fold results into the values of their keys, one version after the other; some versions
        are told twice.
        """
        held: dict[str, dict[str, int]] = {}
        for version, (message, times) in enumerate(self.results, start=1):
            key = KEYS[message.record]
            now = dict(held.get(key, {}))
            now[message.record] = now.get(message.record, 0) + times
            if self.chance(0.3):
                now.pop(self.dice.choice(list(now)))  # it goes on from an earlier one
            held[key] = now
            for _ in range(2 if self.chance(0.3) else 1):
                for record, count in now.items():
                    self.story.folded(key, version, record, count)


def plausible(dice: random.Random) -> list[Row]:
    """Tell a run as it might have been, with every accident now and then."""
    story = QueueStory()
    broker = Broker(story, dice, dice.choice((0.05, 0.2, 0.4)))
    names = list(KEYS)[: dice.randint(2, len(KEYS))]
    for record in names:
        story.offered(record, KEYS[record], int(record[2:]))
    sent = 0
    for number, start in enumerate(range(0, len(names), 2), start=1):
        if broker.chance(0.2):
            break  # the source is not exhausted
        sent = start + 2
        _send(broker, names[start : start + 2], f"{dice.choice(INCARNATIONS)}.{number}")
    broker.consume()
    broker.observe()
    broker.record()
    if not broker.chance(0.5):
        story.cursor(sent + 1)
    for kind in dice.choices(list(KINDS), list(KINDS.values()), k=dice.choice((0, 0, 0, 1, 3))):
        _add(story, dice, kind, names)
    return shuffled(story.events, dice)


def _send(broker: Broker, records: list[str], name: str) -> None:
    """Send records, in a transaction or one by one; what is not answered may be sent again, as
    another attempt or the same.
    """
    story, dice = broker.story, broker.dice
    in_transaction = dice.random() < 0.5
    end = (
        dice.choice(("open", "prepared", "aborted", "aborted", "committed"))
        if broker.chance()
        else "committed"
    )
    if in_transaction:
        story.told(name, "begun")
    for number, record in enumerate(records):
        if broker.chance(0.3):
            continue  # taken, and never sent
        attempt = f"{name}.{number}" if dice.random() > 0.1 else None
        for again in range(2 if broker.chance() else 1):
            mine = f"{attempt}{again}" if attempt and again and dice.random() < 0.5 else attempt
            _send_once(broker, record, mine, end if in_transaction else "committed")
    if not in_transaction or end in {"open", "prepared"}:
        return
    told = dice.choice(("unknown", "aborted", "committed", "fenced")) if broker.chance() else end
    story.told(name, told, "library" if broker.chance() else "broker")


def _send_once(broker: Broker, record: str, attempt: str | None, end: str) -> None:
    """Make one attempt, whose transaction ends so; it may not arrive, and its answer may not."""
    story = broker.story
    if not broker.chance(0.2):
        story.sent(record, attempt)
    if not broker.chance(0.5):
        if end in {"open", "prepared"}:
            broker.store(record, attempt, waiting=end, committed=False)
        elif end == "aborted":
            broker.store(record, attempt, waiting=None, committed=broker.chance(0.3))
        else:
            broker.store(record, attempt, committed=not broker.chance(0.1))
    if broker.chance():
        answer = broker.dice.choice((story.refused, story.unknown, None))
        if answer:
            answer(record, attempt)
    else:
        story.acked(record, attempt)

"""The durability table: what an ack is worth, by acks, flush, replicas and min.insync.replicas,
when leaders die or lose power.

A row is one way to configure the topic and the producer; a column is what strikes: SIGKILL of the
leader (the page cache survives), power lost on the leader alone, power lost on all replicas at
once. The record is acknowledged, the next request is on its way when it strikes, and the consumer
starts only afterwards. Power loss is Kafka's own recovery points taken at their word: what had not
been flushed is gone from every file. It is the worst legal outcome of a power cut, not every one:
nothing is torn in the middle of a page, and no disk lies about what it has written. *At least once*
throughout: it says what is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from harness.faults import Forget, Kill
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.scenarios.cluster import NEXT_REQUEST
from harness.scenarios.plain import ALO
from harness.stages.settings import AT_LEAST_ONCE, PLAIN, Settings, TopicSettings
from harness.systems.kafka.signs import ALONE, FLUSHED, REPLICATED

if TYPE_CHECKING:
    from collections.abc import Iterator

Acks = Literal[1, "all"]
LEADER, FOLLOWER = Role.LEADER, Role.FOLLOWER
FLUSHES = {"unflushed": None, "flushed": 1}
"""``flush.messages`` by name."""
ONLY_THERE = Predicted(sign=ALONE)
"""It survives, and nobody else had it: in the page cache of one that was killed, on the disk of one
that lost its power.
"""
ON_DISK = Predicted(sign=FLUSHED)
ALL_GONE = Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True)
NOT_COPIED = Predicted(lost=Exactly(Select.UNREPLICATED), control=True)
KILLED = Kill(NEXT_REQUEST, (LEADER,), stalled=True)
POWERLESS = replace(KILLED, forget=Forget.TOPIC)
ON_ALL = Kill(NEXT_REQUEST, (LEADER, FOLLOWER), forget=Forget.TOPIC)
STALLED_ON_ALL = replace(ON_ALL, stalled=True)


def on(acks: Acks, flush: str, replicas: int, min_insync: int) -> Settings:
    """Return at-least-once on such a topic, of one partition."""
    topic = TopicSettings(
        partitions=1, flush_messages=FLUSHES[flush], replicas=replicas, min_insync=min_insync
    )
    return replace(AT_LEAST_ONCE, producer=replace(AT_LEAST_ONCE.producer, acks=acks), topic=topic)


def spot(settings: Settings, strikes: str, fault: Kill, found: Predicted, because: str) -> Scenario:
    """Return one spot of the table."""
    topic = settings.topic
    words = (
        f"acks-{settings.producer.acks}",
        "flushed" if topic.flush_messages else "unflushed",
        f"{topic.replicas}-of-{topic.min_insync}",
        strikes,
    )
    return Scenario(
        pipeline=PLAIN,
        id="+".join(("durability", *words)),
        failure_point="durability",
        group="durability",
        deployment=Deployment.CLUSTER,
        consumer_starts_after_fault=True,
        suite=Suite.NIGHT,
        fault=fault,
        because=because,
        expect={ALO: replace(found, settings=settings)},
    )


def one_replica() -> Iterator[Scenario]:
    """Yield the rows of a topic with one replica: acks make no difference, and only flushing
    protects against power loss.
    """
    acks: tuple[Acks, ...] = (1, "all")
    for each in acks:
        for flush in FLUSHES:
            yield spot(
                on(each, flush, 1, 1),
                "leader-killed",
                KILLED,
                ONLY_THERE,
                "What was written is in the page cache, which outlives the process: a kill loses "
                "nothing that was appended, flushed or not, and no other replica leads meanwhile.",
            )
        yield spot(
            on(each, "unflushed", 1, 1),
            "power-lost",
            POWERLESS,
            ALL_GONE,
            "One replica, nothing flushed: whatever acks was, no other broker has the record.",
        )
        yield spot(
            on(each, "flushed", 1, 1),
            "power-lost",
            POWERLESS,
            ON_DISK,
            (
                "flush.messages=1 makes the append durable before it is acknowledged, with one ack "
                "as with all."
            ),
        )


def one_ack() -> Iterator[Scenario]:
    """Yield the rows of a leader that acknowledges for itself while its follower has
    nothing yet.
    """
    because = (
        "One ack waits for no follower. The follower counts as in sync by the clock, has not "
        "fetched the record, and leads when the leader is gone. The old leader comes back as a "
        "follower and truncates its log, flushed or not."
    )
    for flush in FLUSHES:
        yield spot(
            on(1, flush, 2, 1), "leader-killed", replace(KILLED, late=LEADER), NOT_COPIED, because
        )
        yield spot(
            on(1, flush, 2, 1), "power-lost", replace(POWERLESS, late=LEADER), NOT_COPIED, because
        )
    yield spot(
        on(1, "unflushed", 2, 1),
        "power-lost-on-all",
        STALLED_ON_ALL,
        ALL_GONE,
        "Replicas that lose their power together lose together what none of them had flushed.",
    )


def leader_alone() -> Iterator[Scenario]:
    """Yield the rows of acks=all where min.insync.replicas=1 makes one of all: the leader is alone
    in sync, and all.
    """
    for flush in FLUSHES:
        yield spot(
            on("all", flush, 2, 1),
            "leader-killed",
            KILLED,
            ONLY_THERE,
            "The follower is out of sync, so the leader alone acknowledges for all, and dies. "
            "The partition waits for this leader, whose page cache has the record.",
        )
    because = (
        "Only the leader is in sync, and it leads again with what is on its disk; the follower "
        "truncates its log to that. If the log was flushed, that is everything acknowledged; if "
        "not, nothing."
    )
    yield spot(on("all", "unflushed", 2, 1), "power-lost", POWERLESS, ALL_GONE, because)
    yield spot(on("all", "flushed", 2, 1), "power-lost", POWERLESS, ON_DISK, because)
    yield spot(on("all", "unflushed", 2, 1), "power-lost-on-all", STALLED_ON_ALL, ALL_GONE, because)
    yield spot(on("all", "flushed", 2, 1), "power-lost-on-all", STALLED_ON_ALL, ONLY_THERE, because)


def all_in_sync() -> Iterator[Scenario]:
    """Yield the rows of acks=all where all replicas have the record when it is acknowledged."""
    killed = Kill(NEXT_REQUEST, (LEADER,))
    for flush in FLUSHES:
        yield spot(
            on("all", flush, 2, 2),
            "leader-killed",
            killed,
            Predicted(sign=REPLICATED),
            "Both replicas have the acknowledged record. One of them dies, and the other leads.",
        )
    yield spot(
        on("all", "unflushed", 2, 2),
        "power-lost",
        replace(killed, forget=Forget.TOPIC),
        Predicted(sign=REPLICATED),
        "Both replicas have the acknowledged record. One of them loses it, and the other leads.",
    )
    yield spot(
        on("all", "flushed", 2, 2),
        "power-lost",
        replace(killed, forget=Forget.TOPIC),
        ON_DISK,
        (
            "Both replicas have the acknowledged record, and the one that loses its power has it "
            "on its disk."
        ),
    )
    yield spot(
        on("all", "unflushed", 2, 2),
        "power-lost-on-all",
        ON_ALL,
        ALL_GONE,
        "Replicas that lose their power at once all lose what none of them had flushed.",
    )
    yield spot(
        on("all", "flushed", 2, 2),
        "power-lost-on-all",
        ON_ALL,
        ON_DISK,
        "flush.messages=1 on every replica: what all have acknowledged is on every disk.",
    )


DURABILITY = (*one_replica(), *one_ack(), *leader_alone(), *all_in_sync())

"""Kafka Streams: its instances die at each place of a record's way through result, state, changelog
and position.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Drop, Pause
from harness.judge.signs import ABORTED, ABSORBED, DELIVERED_AGAIN, REPEATED_REQUEST, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Select, Some
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE, holds
from harness.scenarios.streams_points import (
    AFTER_OFFSET_COMMIT,
    AFTER_OUTPUT,
    ALL_THREE,
    APP,
    BEFORE_COMMIT,
    BEFORE_COMMIT_ACK,
    BEFORE_OFFSET_COMMIT,
    BEFORE_OFFSETS,
    IN_TRANSACTION,
    LATER_ON,
    LOSES_ALL_THE_SAME,
    NO_TRANSACTION,
    NONE,
    PACED,
    STATEFUL,
    UNFED,
    dies,
    of,
)
from harness.stages.consumer_settings import GroupProtocol, Members
from harness.stages.settings import TopicSettings
from harness.systems.kafka.faults import TransactionTimeout
from harness.systems.streams.faults import StateLost, TakenOver
from harness.systems.streams.selections import NEW_KEY
from harness.systems.streams.settings import (
    ALO_SETTINGS,
    COUNT,
    DEDUP,
    EOS_SETTINGS,
    MAP,
    SOON_OVER,
    StreamsSettings,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.scenario import Expectation
    from harness.model.semantics import Semantic


def each(
    scenarios: tuple[Scenario, ...],
    alo: StreamsSettings | None = None,
    eos: StreamsSettings | None = None,
) -> tuple[Scenario, ...]:
    """Return scenarios with other settings, where theory says anything."""

    def other(expectation: Expectation, settings: StreamsSettings | None) -> Expectation:
        return (
            replace(expectation, settings=settings)
            if isinstance(expectation, Predicted)
            else expectation
        )

    return tuple(
        replace(
            one,
            expect={
                AMO: one.expect[AMO],
                ALO: other(one.expect[ALO], alo),
                EOS: other(one.expect[EOS], eos),
            },
        )
        for one in scenarios
    )


CHANGELOG_AHEAD = each(
    of(
        STATEFUL,
        "streams-changelog-ahead",
        dies(Api.PRODUCE, REQUEST),
        "The changelog has the record's change of the state; its result never arrives, and the "
        "instance dies. At least once the state stays ahead: a value counts the record twice, "
        "and a store of ids takes it for a record that was here before, so it never has a "
        "result. With exactly-once the change of the state is aborted, too.",
        alo=DUPLICATES,
        eos=holds(DELIVERED_AGAIN),
        dedup=LOSES_ALL_THE_SAME,
    ),
    told(ALO_SETTINGS, step=True),
    told(EOS_SETTINGS, step=True),
)
FLUSHED = dies(Api.PRODUCE, REQUEST)
STATE_FLUSHED = each(
    of(
        (DEDUP,),
        "streams-state-flushed-uncommitted",
        FLUSHED,
        "Neither changelog nor result has left the instance when it dies, but its local disk has "
        "the id. At least once the restarted instance uses that state, and takes the record for "
        "one that was here before; exactly once the state is wiped.",
        alo=LOSES_ALL_THE_SAME,
        eos=holds(DELIVERED_AGAIN),
    )
    + of(
        (COUNT,),
        "streams-state-flushed-uncommitted",
        FLUSHED,
        "Neither changelog nor result has left the instance when it dies, but its local disk has "
        "the new value. If the key is in the changelog already, the value that is read from "
        "there, from the state's committed position on, replaces the value on the disk. Only a "
        "new key keeps the disk's value, and is counted twice.",
        alo=Predicted(duplicated=Exactly(NEW_KEY), sign=DELIVERED_AGAIN),
        eos=holds(DELIVERED_AGAIN),
    ),
    told(ALO_SETTINGS, flush=True),
    told(EOS_SETTINGS, flush=True),
)
FORGETS = (
    " (The instance's id is lost with the disk, too, so its open transaction is aborted only "
    "when it times out.)"
)
STATE_LOST = each(
    of(
        STATEFUL,
        "streams-state-lost",
        StateLost(OnWire(APP, Api.PRODUCE, RESPONSE)),
        (
            "The instance dies and its disk is lost: the state is rebuilt from the changelog, "
            "which has its change."
        )
        + FORGETS,
        alo=DUPLICATES,
        eos=holds(ABORTED),
        dedup=holds(ABSORBED),
    ),
    ALO_SETTINGS,
    SOON_OVER,
)
RESTORE_CRASH = each(
    of(
        STATEFUL,
        "streams-restore-crash",
        StateLost(OnWire(APP, Api.PRODUCE, RESPONSE), again=True),
        (
            "The instance dies, its disk is lost, and it dies again while it rebuilds its state: "
            "that only costs time."
        )
        + FORGETS,
        alo=DUPLICATES,
        eos=holds(ABORTED),
        dedup=holds(ABSORBED),
    ),
    ALO_SETTINGS,
    SOON_OVER,
)


def pair(settings: StreamsSettings, standbys: int = 0) -> StreamsSettings:
    """Return the settings with two instances, dynamic members with a session that is soon over."""
    consumer = replace(settings.consumer, count=2, members=Members.DYNAMIC, session_timeout_ms=3000)
    return replace(
        settings, consumer=consumer, streams=replace(settings.streams, standbys=standbys)
    )


TAKES_OVER = TakenOver(OnWire(APP, Api.PRODUCE, RESPONSE))
TAKEN_OVER = each(
    of(
        ALL_THREE,
        "streams-taken-over",
        TAKES_OVER,
        "The instance dies with its result stored, and another instance takes over its task: it "
        "rebuilds the state from the changelog. If the dead instance left a transaction open, "
        "the other one waits until the transaction times out.",
        alo=DUPLICATES,
        eos=holds(ABORTED),
        dedup=holds(ABSORBED),
    ),
    pair(ALO_SETTINGS),
    pair(SOON_OVER),
)
STANDBY = each(
    of(
        STATEFUL,
        "streams-taken-over",
        TAKES_OVER,
        "The instance dies with its result stored, and another instance takes over its task. It "
        "has a standby of the state: a copy of the changelog, and nothing more.",
        alo=DUPLICATES,
        eos=holds(ABORTED),
        dedup=holds(ABSORBED),
        variant="+standby",
    ),
    pair(ALO_SETTINGS, 1),
    pair(SOON_OVER, 1),
)
WAKES_UP = Pause(OnWire(APP, Api.PRODUCE, REQUEST))
ZOMBIE = each(
    of(
        (MAP, DEDUP),
        "streams-zombie",
        WAKES_UP,
        "The instance is paused with its result on the way. Its group removes it, and another "
        "instance does the work. Then the first one wakes up, and its result arrives. At least "
        "once both results are stored; with exactly-once the late result's transaction never "
        "commits.",
        alo=DUPLICATES,
        eos=holds(ABORTED),
    )
    + of(
        (COUNT,),
        "streams-zombie",
        WAKES_UP,
        "The instance is paused with its result on the way, another instance does the work, and "
        "then the late result arrives. The result is a value with its state: older than those of "
        "the other instance, but after them in the log. At least once the late value is the last "
        "one, and the records that the other instance has counted since are lost.",
        alo=Predicted(lost=Some(), control=True),
        eos=holds(ABORTED),
    ),
    pair(ALO_SETTINGS),
    pair(SOON_OVER),
)
REBALANCE = each(
    of(
        ALL_THREE,
        "streams-rebalance-mid-commit",
        Pause(OnWire(APP, Api.OFFSET_COMMIT, REQUEST)),
        "The instance is paused with its position on the way, and another instance does the work "
        "meanwhile. The late position is refused.",
        alo=DUPLICATES,
        eos=IN_TRANSACTION,
        dedup=holds(ABSORBED),
    ),
    pair(ALO_SETTINGS),
) + each(
    of(
        ALL_THREE,
        "streams-rebalance-mid-commit",
        Pause(OnWire(APP, Api.END_TXN, REQUEST), others_finish=False, others_ask=True),
        "The instance is paused between its position and its commit. Another instance asks for "
        "that position, which is pending, and waits. The first one wakes up and commits; the "
        "other continues after the position.",
        alo=NO_TRANSACTION,
        eos=holds(RESUMED_PAST),
        variant="+in-transaction",
    ),
    None,
    pair(EOS_SETTINGS),
)
OUTLIVED = each(
    of(
        ALL_THREE,
        "streams-tx-outlived",
        TransactionTimeout(OnWire(APP, Api.END_TXN, REQUEST)),
        "The instance is paused for longer than its transaction may take, and the transaction is "
        "aborted. Then the broker answers its commit with INVALID_TXN_STATE, and not with the "
        "error for a fenced producer (KAFKA-19690 fixed that for Produce only). Kafka Streams "
        "4.3.0 does not take this for a lost task: its thread ends, and the application with it. "
        "After a restart it does the work again.",
        alo=NO_TRANSACTION,
        eos=holds(ABORTED),
    ),
    None,
    SOON_OVER,
)
BEFORE_4_2 = NotApplicable(
    "the client does not know the group protocol of applications as it is (KIP-1071, 4.2)"
)


def by_heartbeats(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """Return variants in which the broker shares out the tasks.

    Members are dynamic, with a session that is soon over: brokers before 4.4 refuse static ones.
    """

    def told_so(scenario: Scenario, semantic: Semantic, expectation: Expectation) -> Expectation:
        if not isinstance(expectation, Predicted):
            return expectation
        settings = StreamsSettings.of(expectation.settings or scenario.pipeline.recipes[semantic])
        consumer = replace(
            settings.consumer,
            protocol=GroupProtocol.STREAMS,
            members=Members.DYNAMIC,
            session_timeout_ms=3000,
        )
        return replace(expectation, settings=replace(settings, consumer=consumer))

    return tuple(
        replace(
            scenario,
            id=f"{scenario.id}+heartbeats",
            suite=Suite.NIGHT,
            expect={
                semantic: told_so(scenario, semantic, each)
                for semantic, each in scenario.expect.items()
            },
            by_client={
                "kafka-streams<4.2": {
                    semantic: BEFORE_4_2
                    for semantic, each in scenario.expect.items()
                    if isinstance(each, Predicted)
                }
            },
        )
        for scenario in scenarios
    )


SELDOM = each(
    of(
        (MAP,),
        "streams-crash-after-output",
        dies(Api.PRODUCE, RESPONSE),
        "Positions are committed every few seconds, as by default, and not after each record: "
        "all records worked on since then are delivered again.",
        alo=Predicted(duplicated=AtLeast(Select.THROUGH_TARGET)),
        eos=holds(ABORTED),
        variant="+seldom-committed",
    ),
    replace(
        told(ALO_SETTINGS, each=False, commit_interval_ms=5000), topic=TopicSettings(partitions=1)
    ),
    replace(told(SOON_OVER, each=False, commit_interval_ms=100), topic=TopicSettings(partitions=1)),
)
NETWORK = (
    of(
        ALL_THREE,
        "delivery-lost",
        Drop(OnWire(APP, Api.FETCH, RESPONSE)),
        "The fetch response is lost, and the instance asks again.",
        alo=holds(DELIVERED_AGAIN),
        eos=holds(DELIVERED_AGAIN),
    )
    + of(
        ALL_THREE,
        "ack-lost",
        Drop(OnWire(APP, Api.PRODUCE, RESPONSE)),
        "The result is stored and its ack is lost. The producer of Kafka Streams is idempotent "
        "whatever the guarantee: the repeated request is recognised.",
        alo=holds(REPEATED_REQUEST),
        eos=holds(REPEATED_REQUEST),
    )
    + of(
        ALL_THREE,
        "source-ack-lost",
        Drop(OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE)),
        "The fault strikes before the application: the ack of a source record is lost, and its "
        "producer sends it again. The two copies are two records, unless a store of ids "
        "recognises the second.",
        alo=DUPLICATES,
        eos=holds(REPEATED_REQUEST),
        dedup=holds(ABSORBED),
    )
)

BY_HEARTBEATS = by_heartbeats(
    (*NONE[:1], *AFTER_OUTPUT[1:], *BEFORE_COMMIT[2:], *TAKEN_OVER[1:], *ZOMBIE[1:], *OUTLIVED[2:])
)

STREAMS = tuple(
    replace(scenario, suite=Suite.CORE)
    if scenario in (AFTER_OUTPUT[-1], CHANGELOG_AHEAD[0])
    else scenario
    for scenario in (
        *NONE,
        *AFTER_OUTPUT,
        *BEFORE_OFFSET_COMMIT,
        *AFTER_OFFSET_COMMIT,
        *BEFORE_OFFSETS,
        *BEFORE_COMMIT,
        *BEFORE_COMMIT_ACK,
        *CHANGELOG_AHEAD,
        *STATE_FLUSHED,
        *PACED,
        *LATER_ON,
        *UNFED,
        *STATE_LOST,
        *RESTORE_CRASH,
        *TAKEN_OVER,
        *STANDBY,
        *ZOMBIE,
        *REBALANCE,
        *OUTLIVED,
        *SELDOM,
        *NETWORK,
        *BY_HEARTBEATS,
    )
)

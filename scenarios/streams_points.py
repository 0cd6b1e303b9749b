"""Kafka Streams at the points of a topology: where an instance dies on the way of a record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Kill, NoFault
from harness.judge.signs import ABORTED, ABSORBED, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE, holds
from harness.systems.streams.faults import RestartedUnfed
from harness.systems.streams.proofs import SENT_UNFED
from harness.systems.streams.settings import (
    COUNT,
    DEDUP,
    LATER,
    MAP,
    SOON_OVER,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic

APP = Role.PROCESSOR
NOT_OFFERED = NotApplicable("not offered: Kafka Streams has at_least_once and exactly_once_v2")
NO_TRANSACTION = NotApplicable("at_least_once has no transaction")
IN_TRANSACTION = NotApplicable(
    "exactly_once_v2 sends the position in the transaction of the results: there is no OffsetCommit"
)
LOSES_ALL_THE_SAME = Predicted(lost=Exactly(), control=True)
STATEFUL = (DEDUP, COUNT)


def dies(api: Api, direction: object) -> Kill:
    """Return the death of the instance at a frame about the target."""
    return Kill(OnWire(APP, api, direction), (APP,))  # type: ignore[arg-type]  # one of the two there are


def of(
    pipelines: Iterable[Pipeline],
    point: str,
    fault: Fault,
    because: str,
    *,
    alo: Expectation,
    eos: Expectation,
    dedup: Expectation | None = None,
    variant: str = "",
) -> tuple[Scenario, ...]:
    """Return a scenario on each of these pipelines; ``dedup``: what theory says at least once where
    ids are known.
    """

    def expect(pipeline: Pipeline) -> dict[Semantic, Expectation]:
        return {AMO: NOT_OFFERED, ALO: dedup if dedup and pipeline == DEDUP else alo, EOS: eos}

    return tuple(
        Scenario(
            id=point + variant,
            failure_point=point,
            pipeline=pipeline,
            group="streams",
            fault=fault,
            because=because,
            expect=expect(pipeline),
        )
        for pipeline in pipelines
    )


ALL_THREE = (MAP, DEDUP, COUNT)
NONE = of(
    ALL_THREE,
    "none",
    NoFault(),
    "Without a fault nothing is lost and nothing is duplicated: the baseline.",
    alo=Predicted(),
    eos=Predicted(),
)
PACED = tuple(
    replace(
        scenario,
        id="none+paced",
        pace_ms=100,
        suite=Suite.NIGHT,
        because="Without a fault nothing is lost and nothing is duplicated. Records do not queue "
        "up, so latencies include no waiting.",
    )
    for scenario in NONE
)
LATER_ON = of(
    (LATER,),
    "none",
    NoFault(),
    (
        "A timer sends results, the last of them when no more input arrives: they are committed "
        "all the same."
    ),
    alo=Predicted(),
    eos=Predicted(),
)
SENT_BY_THE_CLOCK = Predicted(sign=SENT_UNFED, settings=told(SOON_OVER, keeps_ms=2000))
_UNFED = of(
    (LATER,),
    "streams-restarted-while-quiet",
    RestartedUnfed(OnWire(Role.PRODUCER, Api.END_TXN, RESPONSE)),
    "The source gives no more records. The application is told to end, and starts again; a timer "
    "sends the results that were in its store, and the application is told to end again. It got "
    "no input in between, so it has no position to commit; its results are committed all the "
    "same. (Before 3.4 they are not, KAFKA-14294; an orderly shutdown takes the store, from "
    "which they were removed, for committed: all of them are lost, and no error is reported.)",
    alo=NO_TRANSACTION,
    eos=SENT_BY_THE_CLOCK,
)
UNFED = tuple(
    replace(
        scenario,
        by_client={
            "kafka-streams<3.4": {EOS: replace(SENT_BY_THE_CLOCK, lost=AtLeast(), control=True)}
        },
    )
    for scenario in _UNFED
)
AFTER_OUTPUT = of(
    ALL_THREE,
    "streams-crash-after-output",
    dies(Api.PRODUCE, RESPONSE),
    "The result is stored, the position is not saved, and the instance dies. The record is "
    "delivered again: its work is done again, and a value whose changelog has it counts it "
    "again; a store of ids recognises it. A transaction is aborted when its instance dies.",
    alo=DUPLICATES,
    eos=holds(ABORTED),
    dedup=holds(ABSORBED),
)
BEFORE_OFFSET_COMMIT = of(
    ALL_THREE,
    "streams-crash-before-offset-commit",
    dies(Api.OFFSET_COMMIT, REQUEST),
    "Result and state are stored; the position never arrives, and the instance dies.",
    alo=DUPLICATES,
    eos=IN_TRANSACTION,
    dedup=holds(ABSORBED),
)
AFTER_OFFSET_COMMIT = of(
    ALL_THREE,
    "streams-crash-after-offset-commit",
    dies(Api.OFFSET_COMMIT, RESPONSE),
    (
        "Result, state and position are stored, and the instance dies before it learns that: the "
        "next one continues after them."
    ),
    alo=holds(RESUMED_PAST),
    eos=IN_TRANSACTION,
)
BEFORE_OFFSETS = of(
    ALL_THREE,
    "streams-crash-before-offsets-in-tx",
    dies(Api.TXN_OFFSET_COMMIT, REQUEST),
    "Result and changelog are in the transaction, the position is not yet, and the instance "
    "dies: all of it is aborted. The local state is wiped, and rebuilt from the committed part "
    "of the changelog.",
    alo=NO_TRANSACTION,
    eos=holds(ABORTED),
)
BEFORE_COMMIT = of(
    ALL_THREE,
    "streams-crash-before-commit",
    dies(Api.END_TXN, REQUEST),
    "The request to commit never arrives: result, changelog and position are aborted together.",
    alo=NO_TRANSACTION,
    eos=holds(ABORTED),
)
BEFORE_COMMIT_ACK = of(
    ALL_THREE,
    "streams-crash-before-commit-ack",
    dies(Api.END_TXN, RESPONSE),
    (
        "Result, changelog and position are committed together, and the instance dies before it "
        "learns that."
    ),
    alo=NO_TRANSACTION,
    eos=holds(RESUMED_PAST),
)

"""PostgreSQL as the sink: the database dies before or after its COMMIT, or the COMMIT's outcome
stays unknown.

outbox → producer → topic → consumer (or Spark query) → PostgreSQL. The wire reads the COMMIT and
its answer, so that "before it became durable" and "after it did" are exact: an answer exists only
when the server has flushed its log.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Drop, Kill, NoFault
from harness.judge.signs import ABSORBED, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.protocols.postgres.steps import Database
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.scenarios.streaming import PER_BATCH
from harness.services.postgres.signs import COMMITTED_AGAIN, DURABLE, NOT_REPEATED
from harness.stages.queries import STREAM_TO_POSTGRES
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE_WITH_RESULT, TO_POSTGRES

if TYPE_CHECKING:
    from harness.model.sign import Sign

COMMIT = OnWire(Role.CONSUMER, Database.COMMIT, REQUEST)
ANSWER = OnWire(Role.CONSUMER, Database.COMMIT, RESPONSE)
NOT_DURABLE = replace(AT_LEAST_ONCE, consumer=replace(AT_LEAST_ONCE.consumer, durable=False))

scenario = partial(Scenario, group="database", pipeline=TO_POSTGRES)

NONE = scenario(
    id="database-none",
    failure_point="none",
    fault=NoFault(),
    because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
    expect={semantic: Predicted() for semantic in (AMO, ALO, EOS)},
)

CRASH_BEFORE_COMMIT = scenario(
    id="database-crash-before-commit",
    deployment=Deployment.OWN,
    fault=Kill(COMMIT, (Role.DATABASE,)),
    because="The database dies before it sees the COMMIT: its recovery undoes the transaction. The "
    "program cannot distinguish that from a commit whose answer was lost. At-most-once does "
    "not repeat the work, and the record is lost; the other semantics repeat it, and record "
    "the result for the first time.",
    expect={AMO: LOSES, ALO: holds(COMMITTED_AGAIN), EOS: holds(COMMITTED_AGAIN)},
)

CRASH_AFTER_COMMIT = scenario(
    id="database-crash-after-commit",
    deployment=Deployment.OWN,
    fault=Kill(ANSWER, (Role.DATABASE,)),
    because="The database has made the result durable and dies before it answers. At-most-once "
    "does not repeat the work, and is right; to repeat it records the result twice, "
    "unless a unique key of the first result is found.",
    expect={AMO: holds(NOT_REPEATED), ALO: DUPLICATES, EOS: holds(ABSORBED)},
)

COMMIT_LOST = replace(
    CRASH_BEFORE_COMMIT,
    id="database-commit-lost",
    failure_point="database-commit-lost",
    deployment=Deployment.SHARED,
    fault=Drop(COMMIT),
    because="The connection ends while the COMMIT is on its way, and the server rolls the "
    "transaction back. The program gets the same error as when only the answer is lost.",
)

COMMIT_ANSWER_LOST = replace(
    CRASH_AFTER_COMMIT,
    id="database-commit-answer-lost",
    failure_point="database-commit-answer-lost",
    deployment=Deployment.SHARED,
    fault=Drop(ANSWER),
    because="The result is durable, and the connection ends while the answer is on its way: the "
    "commit's outcome is unknown. Only a unique key, or a position in the same transaction, "
    "shows the program what happened.",
)


def with_result(base: Scenario, sign: Sign, because: str) -> Scenario:
    """Return ``base`` with result and position in one transaction."""
    return replace(
        base,
        id=f"{base.id}+with-result",
        because=because,
        expect={EOS: Predicted(sign=sign, settings=EXACTLY_ONCE_WITH_RESULT)},
    )


BLIND_RETRY = replace(
    COMMIT_ANSWER_LOST,
    id="control-database-blind-retry",
    because="Control: an error in the COMMIT is taken for a failed COMMIT, and the work is done "
    "again without a key. The result was there.",
    expect={
        EOS: Predicted(
            duplicated=Exactly(),
            control=True,
            settings=replace(
                EXACTLY_ONCE_WITH_RESULT,
                consumer=AT_LEAST_ONCE.consumer,
            ),
        )
    },
)

CRASH_AFTER_POSITION = scenario(
    id="database-crash-after-position",
    deployment=Deployment.OWN,
    fault=Kill(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, RESPONSE), (Role.DATABASE,)),
    because="The commit was answered, the position is saved, and then the database dies. What it "
    "had answered was in its log on the disk (SIGKILL takes only its own memory): "
    "recovery finds the result, and the work is not repeated.",
    expect={ALO: holds(DURABLE), EOS: holds(DURABLE)},
)

NOT_DURABLE_COMMIT = replace(
    CRASH_AFTER_POSITION,
    id="control-database-not-durable",
    because="Control: with synchronous_commit=off the server answers before its log is written. "
    "The position is saved, the server dies with the log in its memory, and the work of "
    "an answered commit is gone for good.",
    expect={ALO: Predicted(lost=AtLeast(), control=True, settings=NOT_DURABLE)},
)

FROM_SPARK = replace(COMMIT, role=Role.DRIVER)
STREAM_CRASH_BEFORE_COMMIT = Scenario(
    id="database-crash-before-commit",
    group="streaming",
    pipeline=STREAM_TO_POSTGRES,
    deployment=Deployment.OWN,
    fault=Kill(FROM_SPARK, (Role.DATABASE, Role.DRIVER)),
    because="Database and driver die before the database sees the COMMIT of the batch and its "
    "number: recovery undoes both, and the next driver records the batch for the first time.",
    expect={EOS: Predicted(sign=COMMITTED_AGAIN, settings=PER_BATCH)},
)
STREAM_DRIVER_CRASH = Scenario(
    id="driver-crash-after-database-commit",
    group="streaming",
    pipeline=STREAM_TO_POSTGRES,
    fault=Kill(replace(ANSWER, role=Role.DRIVER), (Role.DRIVER,)),
    because="The result is durable and the driver dies before it is told: the batch runs again. An "
    "append writes the target, and the records of its batch before it, again; a unique key "
    "absorbs each.",
    expect={ALO: Predicted(duplicated=AtLeast()), EOS: holds(ABSORBED)},
)
STREAM_DRIVER_CRASH_PER_BATCH = replace(
    STREAM_DRIVER_CRASH,
    id=f"{STREAM_DRIVER_CRASH.id}+batch-transaction",
    because=(
        "The batch and its number became durable together: the next driver finds the number, and "
        "records nothing."
    ),
    expect={EOS: Predicted(sign=ABSORBED, settings=PER_BATCH)},
)

BY_DAY = (
    CRASH_BEFORE_COMMIT,
    CRASH_AFTER_COMMIT,
    COMMIT_ANSWER_LOST,
    with_result(
        COMMIT_ANSWER_LOST,
        RESUMED_PAST,
        (
            "Result and position are stored: the position that the program reads shows that the "
            "work is done."
        ),
    ),
    BLIND_RETRY,
    NOT_DURABLE_COMMIT,
    STREAM_DRIVER_CRASH,
)
BY_NIGHT = (
    NONE,
    COMMIT_LOST,
    with_result(
        CRASH_BEFORE_COMMIT,
        COMMITTED_AGAIN,
        "Result and position are rolled back together. The position that the program reads is "
        "before the record: it does the work again.",
    ),
    with_result(
        CRASH_AFTER_COMMIT,
        RESUMED_PAST,
        "Result and position became durable together. The position that the program reads has "
        "passed the record: it continues after the record.",
    ),
    with_result(
        COMMIT_LOST,
        COMMITTED_AGAIN,
        (
            "Neither result nor position is stored: the position that the program reads shows that "
            "it must repeat the work."
        ),
    ),
    CRASH_AFTER_POSITION,
    STREAM_CRASH_BEFORE_COMMIT,
    STREAM_DRIVER_CRASH_PER_BATCH,
)
DATABASE = (*BY_DAY, *(replace(scenario, suite=Suite.NIGHT) for scenario in BY_NIGHT))

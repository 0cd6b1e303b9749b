"""Flink: its TaskManager dies between checkpoints, and inside one; the sink's promise says what that does to records."""

from __future__ import annotations

from dataclasses import replace

from harness.controls import OnWire
from harness.faults import NoFault
from harness.judge.signs import ABORTED, ENDED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS
from harness.systems.flink.faults import Crash, During, JobManagerCrash
from harness.systems.flink.faults.waves import PRODUCED
from harness.systems.flink.settings import FLINK_EXACTLY_ONCE, FLINK_NONE, JOB
from harness.systems.flink.signs import ROLLED_BACK, SINCE_CHECKPOINT
from harness.wire.rules import Direction

NOT_OFFERED = NotApplicable(
    "the sink offers no at-most-once: NONE waits for nothing, and what a restored job works on again is duplicated"
)
BASELINE = Scenario(
    id="none", failure_point="none", pipeline=JOB, group="flink", fault=NoFault(),
    because="The baseline of the job: one checkpoint at the end.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(), EOS: Predicted()},
)  # fmt: skip
BETWEEN = Scenario(
    id="flink-crash-between-checkpoints", failure_point="flink-crash-between-checkpoints", pipeline=JOB, group="flink",
    fault=Crash(),
    because="All operators go back to the last completed checkpoint, the source among them: what was written since is written "
    "again. A transaction that was not pre-committed is aborted, and nobody has seen it.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT)),
        EOS: Predicted(sign=ABORTED),
    },
)  # fmt: skip


def of_job(api: Api, direction: Direction = Direction.REQUEST, since: OnWire | None = None) -> OnWire:
    """Return a frame of the job's clients, at the target; or the first one ``since`` another."""
    return OnWire(Role.PROCESSOR, api, direction, since=since)


NO_TRANSACTION = NotApplicable("the sink has no transaction: what it flushes is committed with that")
WITH_TRANSACTIONS = {AMO: NOT_OFFERED, ALO: NO_TRANSACTION}
BEFORE_FLUSH = Scenario(
    id="flink-crash-before-flush", failure_point="flink-crash-before-flush", pipeline=JOB, group="flink",
    fault=Crash(of_job(Api.PRODUCE), During.INCOMPLETE),
    because="The barrier has reached the sink, which waits for the answer to its last request before it lets the checkpoint be: "
    "that is never complete, and the job goes back to the one before.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Permitted(), sign=ROLLED_BACK),
        EOS: Predicted(sign=ROLLED_BACK),
    },
)  # fmt: skip
AFTER_PRECOMMIT = Scenario(
    id="flink-crash-after-precommit", failure_point="flink-crash-after-precommit", pipeline=JOB, group="flink",
    fault=Crash(of_job(Api.INIT_PRODUCER_ID, since=PRODUCED), During.INCOMPLETE),
    because="All is flushed, which is the pre-commit, and the sink opens its next transaction when it dies: the checkpoint is "
    "not complete. The restored sink aborts what it finds open under its ids, and the records are written again.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ABORTED)},
)  # fmt: skip
BEFORE_COMMIT = Scenario(
    id="flink-crash-between-complete-and-commit", failure_point="flink-crash-between-complete-and-commit", pipeline=JOB,
    group="flink", fault=Crash(of_job(Api.END_TXN), During.COMPLETED),
    because="Between pre-commit and commit: the checkpoint is complete, and the request that commits never arrives. The restored "
    "sink finds the transaction in its state, goes on as the producer that it was, and commits.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ENDED_AGAIN)},
)  # fmt: skip
AFTER_COMMIT = Scenario(
    id="flink-crash-after-commit", failure_point="flink-crash-after-commit", pipeline=JOB, group="flink",
    fault=Crash(of_job(Api.END_TXN, Direction.RESPONSE), During.COMPLETED),
    because="Committed, and the answer is lost with the TaskManager: the restored sink commits again, is refused, and takes that "
    "for what it is. The ERROR in the log is the one of a transaction that was lost.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ENDED_AGAIN)},
)  # fmt: skip
OUTLASTED = Scenario(
    id="flink-outage-longer-than-transaction", failure_point="flink-outage-longer-than-transaction", pipeline=JOB, group="flink",
    deployment=Deployment.OWN, fault=Crash(of_job(Api.END_TXN), During.COMPLETED, outlasting=True),
    because="Pre-committed, the checkpoint complete, and nobody there to commit for longer than transaction.timeout.ms: the "
    "coordinator aborts. The source goes on behind the checkpoint, and the job runs on without its records (documented: the "
    "time-out must exceed the longest checkpoint and restart together). Sold as exactly-once it must be convicted.",
    expect=WITH_TRANSACTIONS | {
        EOS: Predicted(
            lost=Exactly(SINCE_CHECKPOINT), control=True, settings=replace(FLINK_EXACTLY_ONCE, transaction_timeout_ms=3000)
        )
    },
)  # fmt: skip

NEVER_NOTIFIED = Scenario(
    id="flink-commit-never-notified", failure_point="flink-commit-never-notified", pipeline=JOB, group="flink",
    deployment=Deployment.OWN, fault=JobManagerCrash(complete=True),
    because="The checkpoint is complete and nobody was told: the sink has pre-committed and waits for a word that never comes. "
    "The job that is submitted with that checkpoint finds the transaction in its state, and commits.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(sign=RESUMED_PAST), EOS: Predicted(sign=RESUMED_PAST)},
)  # fmt: skip
BEFORE_COMPLETE = Scenario(
    id="flink-crash-before-checkpoint-complete", failure_point="flink-crash-before-checkpoint-complete", pipeline=JOB,
    group="flink", deployment=Deployment.OWN, fault=JobManagerCrash(complete=False),
    because="All have acknowledged, and the JobManager dies before the checkpoint is in its store: the job goes back to the one "
    "before. What was pre-committed nobody commits; the restored sink finds it open under its ids, and aborts it.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT)), EOS: Predicted(sign=ABORTED)},
)  # fmt: skip

# the sink as it is where nobody chooses a guarantee
DEFAULT_BETWEEN = replace(
    BETWEEN, id="flink-crash-between-checkpoints+none",
    because="The sink's default, NONE, is no at-most-once: the source goes back to the checkpoint all the same, and what was "
    "written since is written again. Sold as at-most-once it must be convicted.",
    expect={
        AMO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT), control=True, settings=FLINK_NONE),
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT), settings=FLINK_NONE),
    },
)  # fmt: skip
DEFAULT_BEFORE_FLUSH = replace(
    BEFORE_FLUSH, id="flink-crash-before-flush+none", fault=Crash(of_job(Api.PRODUCE), During.COMPLETED),
    because="The sink's default, NONE, waits for nothing: the checkpoint is complete while the target is still on its way. The "
    "source never goes back to it. Sold as at-least-once it must be convicted.",
    expect={ALO: Predicted(lost=AtLeast(), control=True, settings=FLINK_NONE)},
)  # fmt: skip
MAIN = tuple(replace(each, suite=Suite.CORE) for each in (BASELINE, BETWEEN))
FLINK = (
    *MAIN, BEFORE_FLUSH, AFTER_PRECOMMIT, BEFORE_COMMIT, AFTER_COMMIT, OUTLASTED, NEVER_NOTIFIED, BEFORE_COMPLETE,
    DEFAULT_BETWEEN, DEFAULT_BEFORE_FLUSH,
)  # fmt: skip

"""Flink: its TaskManager dies between checkpoints, and inside one; the sink's promise says what
that does to records.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.controls import OnWire
from harness.faults import Answer, NoFault
from harness.judge.signs import ABORTED, ENDED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS
from harness.systems.flink.faults import (
    AtAlignment,
    Crash,
    During,
    FromNothing,
    FromOlder,
    JobManagerCrash,
    Superseded,
)
from harness.systems.flink.faults.waves import PRODUCED
from harness.systems.flink.settings import (
    FLINK_AT_LEAST_ONCE,
    FLINK_EXACTLY_ONCE,
    FLINK_NONE,
    JOB,
    Naming,
    with_job,
)
from harness.systems.flink.signs import (
    AND_BESIDE,
    COMMITTED_SINCE,
    INPUTS,
    ROLLED_BACK,
    SINCE_CHECKPOINT,
)
from harness.wire.rules import Direction

NOT_OFFERED = NotApplicable(
    "the sink has no at-most-once: NONE waits for nothing, and a restored job duplicates the "
    "results that it makes again"
)
scenario = partial(Scenario, group="flink", pipeline=JOB)

BASELINE = scenario(
    id="none",
    fault=NoFault(),
    because="The baseline of the job: one checkpoint at the end.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(), EOS: Predicted()},
)
PACED = replace(
    BASELINE,
    id="none+paced",
    pace_ms=100,
    suite=Suite.NIGHT,
    because="No fault, and the records come one by one: this shows how long each takes to reach "
    "the job, with no queue before it.",
)
BETWEEN = scenario(
    id="flink-crash-between-checkpoints",
    fault=Crash(),
    because="All operators, also the source, go back to the last completed checkpoint: everything "
    "written since then is written again. A transaction that was not pre-committed is "
    "aborted, and no reader has seen it.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT)),
        EOS: Predicted(sign=ABORTED),
    },
)


def of_job(
    api: Api, direction: Direction = Direction.REQUEST, since: OnWire | None = None
) -> OnWire:
    """Return a frame of the job's clients, at the target; or the first one ``since`` another."""
    return OnWire(Role.PROCESSOR, api, direction, since=since)


NO_TRANSACTION = NotApplicable(
    "the sink has no transaction: what it flushes is committed with that"
)
WITH_TRANSACTIONS = {AMO: NOT_OFFERED, ALO: NO_TRANSACTION}
REFUSED = scenario(
    id="flink-send-refused",
    fault=Answer(of_job(Api.PRODUCE), "MESSAGE_TOO_LARGE"),
    pace_ms=150,  # one record a request: else the client splits it, or several are refused
    because="The broker refuses the record, and no retry helps. The sink's client reports that "
    "to a callback, which must make the job fail: the job restarts from the last "
    "checkpoint, and the broker accepts the record then. (FLINK-35749: up to 3.2.0 the "
    "callback's exception went into a future that no code checks; the next checkpoint is "
    "complete without the record.)",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Permitted(), sign=ROLLED_BACK),
        EOS: Predicted(sign=ROLLED_BACK),
    },
    by_client={
        "flink-connector-kafka<3.3": {ALO: Predicted(lost=Exactly(Select.TARGET), control=True)}
    },
)
BEFORE_FLUSH = scenario(
    id="flink-crash-before-flush",
    fault=Crash(of_job(Api.PRODUCE), During.INCOMPLETE),
    because="The barrier has reached the sink, which waits for the answer to its last request "
    "before it acknowledges the checkpoint. The checkpoint is never complete, and the "
    "job goes back to the one before.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Permitted(), sign=ROLLED_BACK),
        EOS: Predicted(sign=ROLLED_BACK),
    },
)
AFTER_PRECOMMIT = scenario(
    id="flink-crash-after-precommit",
    fault=Crash(of_job(Api.INIT_PRODUCER_ID, since=PRODUCED), During.INCOMPLETE),
    because="Everything is flushed, which is the pre-commit, and the sink is about to open its "
    "next transaction when it dies: the checkpoint is not complete. The restored sink "
    "aborts the transactions that it finds open under its ids, and the records are "
    "written again.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ABORTED)},
)
BEFORE_COMMIT = scenario(
    id="flink-crash-between-complete-and-commit",
    fault=Crash(of_job(Api.END_TXN), During.COMPLETED),
    because="Between pre-commit and commit: the checkpoint is complete, and the request to commit "
    "never arrives. The restored sink finds the transaction in its state, takes over that "
    "producer's id and epoch, and commits.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ENDED_AGAIN)},
)
AFTER_COMMIT = scenario(
    id="flink-crash-after-commit",
    fault=Crash(of_job(Api.END_TXN, Direction.RESPONSE), During.COMPLETED),
    because="The transaction is committed, and the answer is lost with the TaskManager. The "
    "restored sink commits again, is refused, and rightly concludes that the transaction "
    "was committed before. (It logs an ERROR as for a lost transaction.)",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ENDED_AGAIN)},
)
OUTLASTED = scenario(
    id="flink-outage-longer-than-transaction",
    deployment=Deployment.OWN,
    fault=Crash(of_job(Api.END_TXN), During.COMPLETED, outlasting=True),
    because="The transaction is pre-committed and the checkpoint is complete, but no sink lives to "
    "commit for longer than transaction.timeout.ms: the coordinator aborts the transaction. "
    "The source continues after the checkpoint, and the job goes on without its records. "
    "(Flink's documentation says: the time-out must be longer than the longest checkpoint "
    "and restart together.) Sold as exactly-once it must be convicted.",
    expect=WITH_TRANSACTIONS
    | {
        EOS: Predicted(
            lost=Exactly(SINCE_CHECKPOINT),
            control=True,
            settings=replace(FLINK_EXACTLY_ONCE, transaction_timeout_ms=3000),
        )
    },
)

NEVER_NOTIFIED = scenario(
    id="flink-commit-never-notified",
    deployment=Deployment.OWN,
    fault=JobManagerCrash(complete=True),
    because="The checkpoint is complete, but the sink was not told: it has pre-committed and waits "
    "for a notification that never comes. The job that is submitted with that checkpoint "
    "finds the transaction in its state, and commits it.",
    expect={AMO: NOT_OFFERED, ALO: Predicted(sign=RESUMED_PAST), EOS: Predicted(sign=RESUMED_PAST)},
)
BEFORE_COMPLETE = scenario(
    id="flink-crash-before-checkpoint-complete",
    deployment=Deployment.OWN,
    fault=JobManagerCrash(complete=False),
    because="All tasks have acknowledged, and the JobManager dies before the checkpoint is in its "
    "store: the job goes back to the one before. The pre-committed transaction is never "
    "committed: the restored sink finds it open under its ids, and aborts it.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT)),
        EOS: Predicted(sign=ABORTED),
    },
)

# two inputs, one of which passes no barrier on
TWO_INPUTS = {
    ALO: with_job(FLINK_AT_LEAST_ONCE, inputs=INPUTS),
    EOS: with_job(FLINK_EXACTLY_ONCE, inputs=INPUTS),
}
ALIGNMENT = scenario(
    id="flink-crash-at-alignment",
    fault=AtAlignment(unaligned=False),
    because="One input's barrier has come, and the job waits for the barrier of the other input, "
    "which is busy; so records after the first barrier wait, too. The checkpoint is never "
    "complete, and the job goes back to the one before.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT), settings=TWO_INPUTS[ALO]),
        EOS: Predicted(sign=ABORTED, settings=TWO_INPUTS[EOS]),
    },
)
UNALIGNED = replace(
    ALIGNMENT,
    id="flink-crash-at-alignment+unaligned",
    fault=AtAlignment(unaligned=True),
    because="The job does not wait for the other barrier: it goes on with the records after the "
    "first barrier while the checkpoint is taken. The checkpoint is never complete, so these "
    "records are written again, too: a failed unaligned checkpoint duplicates more.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(
            duplicated=Exactly(AND_BESIDE), settings=with_job(TWO_INPUTS[ALO], unaligned=True)
        ),
        EOS: Predicted(sign=ABORTED, settings=with_job(TWO_INPUTS[EOS], unaligned=True)),
    },
)

# an operator submits the job again, and chooses with what
OPERATED = with_job(FLINK_EXACTLY_ONCE, restarts=False)
OLDER = scenario(
    id="flink-restore-older-checkpoint",
    fault=FromOlder(),
    because="Two checkpoints are retained, and the job is submitted with the older one. The source "
    "goes back to a position before records that the newer one has committed, and these are "
    "written again. Exactly-once holds between a job and its last completed checkpoint: a "
    "committed transaction cannot be undone. Sold as exactly-once with any checkpoint, it "
    "must be convicted.",
    expect={
        AMO: NOT_OFFERED,
        ALO: Predicted(
            duplicated=Exactly(COMMITTED_SINCE),
            settings=with_job(FLINK_AT_LEAST_ONCE, restarts=False),
        ),
        EOS: Predicted(duplicated=Exactly(COMMITTED_SINCE), control=True, settings=OPERATED),
    },
)
OLDER_OF_THREE = replace(
    OLDER,
    id="flink-restore-older-checkpoint+incomplete",
    fault=FromOlder(incomplete=True),
    because="A third checkpoint is not complete when the TaskManager dies, and the job is "
    "submitted with the first. The records that the second has committed are written "
    "again. The sink tries the ids that count up from the first checkpoint's, finds the "
    "transaction pre-committed for the third, and aborts it: its records are there once.",
    expect=WITH_TRANSACTIONS
    | {EOS: Predicted(duplicated=Exactly(COMMITTED_SINCE), control=True, settings=OPERATED)},
)
LINGERING = scenario(
    id="flink-lingering-abort",
    fault=FromNothing(waiting=False),
    because="No checkpoint has a position of the source when the TaskManager dies, and the job is "
    "submitted anew. Its sink tries the ids of its prefix, and aborts the transaction that "
    "it finds open, so readers do not have to wait.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ABORTED, settings=OPERATED)},
)
OTHER_PREFIX = replace(
    LINGERING,
    id="flink-lingering-abort+other-prefix",
    fault=FromNothing(waiting=True),
    because="The job that is submitted anew has another prefix, so its sink does not know of the "
    "open transaction. Its own results are after that transaction in the log, and readers "
    "wait until the time-out ends it. Nothing is lost, but all results come late.",
    expect=WITH_TRANSACTIONS
    | {
        EOS: Predicted(
            sign=ABORTED,
            settings=replace(
                with_job(OPERATED, later_prefix="other"), transaction_timeout_ms=20_000
            ),
        )
    },
)
MOVED = with_job(OPERATED, later_prefix="other")
SUPERSEDED = scenario(
    id="flink-restore-with-other-prefix",
    fault=Superseded(),
    because="A checkpoint failed, and the next transaction was open when the TaskManager died. The "
    "job is submitted with the checkpoint before, under another prefix. The sink knows the "
    "former prefix from its state, tries the ids after that checkpoint, and aborts the "
    "transactions that it finds open: readers do not have to wait.",
    expect=WITH_TRANSACTIONS | {EOS: Predicted(sign=ABORTED, settings=MOVED)},
)
POOLED = replace(
    SUPERSEDED,
    id="flink-restore-with-other-prefix+pooling",
    because="The sink reuses ids: the open transaction has the id of the one that the checkpoint "
    "has committed. The restored sink lists it, takes it for the committed one, and "
    "leaves it to its committer, which is fenced. The id is not used again, so readers "
    "wait until transaction.timeout.ms, ten minutes here (FLINK-40626). It must be "
    "convicted.",
    expect=WITH_TRANSACTIONS
    | {
        EOS: Predicted(
            left=AtLeast(), control=True, settings=with_job(MOVED, naming=Naming.POOLING)
        )
    },
)

# the sink as it is where nobody chooses a guarantee
DEFAULT_BETWEEN = replace(
    BETWEEN,
    id="flink-crash-between-checkpoints+none",
    because="The sink's default, NONE, is not at-most-once: the source goes back to the checkpoint "
    "all the same, and the records written since then are written again. Sold as "
    "at-most-once it must be convicted.",
    expect={
        AMO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT), control=True, settings=FLINK_NONE),
        ALO: Predicted(duplicated=Exactly(SINCE_CHECKPOINT), settings=FLINK_NONE),
    },
)
DEFAULT_BEFORE_FLUSH = replace(
    BEFORE_FLUSH,
    id="flink-crash-before-flush+none",
    fault=Crash(of_job(Api.PRODUCE), During.COMPLETED),
    because="The sink's default, NONE, waits for nothing: the checkpoint is complete while the "
    "target is still on its way. The source never goes back to it. Sold as at-least-once it "
    "must be convicted.",
    expect={ALO: Predicted(lost=AtLeast(), control=True, settings=FLINK_NONE)},
)
MAIN = tuple(replace(each, suite=Suite.CORE) for each in (BASELINE, BETWEEN))
FLINK = (
    *MAIN,
    PACED,
    BEFORE_FLUSH,
    AFTER_PRECOMMIT,
    BEFORE_COMMIT,
    AFTER_COMMIT,
    OUTLASTED,
    NEVER_NOTIFIED,
    BEFORE_COMPLETE,
    DEFAULT_BETWEEN,
    DEFAULT_BEFORE_FLUSH,
    ALIGNMENT,
    UNALIGNED,
    OLDER,
    OLDER_OF_THREE,
    LINGERING,
    OTHER_PREFIX,
    SUPERSEDED,
    POOLED,
    REFUSED,
)

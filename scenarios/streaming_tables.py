"""A table (Delta) as the sink of a query: its driver dies around the table's commit, its checkpoint
is lost, and two drivers write.
"""

from __future__ import annotations

from dataclasses import replace

from harness.controls import InProgram
from harness.faults import Forget, Kill, NoFault
from harness.judge.signs import DELIVERED_AGAIN, RESUMED_PAST
from harness.model.prediction import Exactly, Select
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.scenarios.plain import ALO, AMO, EOS
from harness.scenarios.streaming_topic import querying
from harness.stages.queries import STREAM_TO_DELTA
from harness.stages.settings import recipe
from harness.systems.kafka.faults import Zombie
from harness.systems.spark.signs import BEYOND, REPLAYED, SKIPPED

APPENDS, ONCE = recipe(STREAM_TO_DELTA, ALO), recipe(STREAM_TO_DELTA, EOS)
NATIVE = querying(ONCE, native=True)
"""The table's own sink, which writes with the checkpoint's id and the batch's number."""
RESUMES = querying(ONCE, resumes_at_table=True)
"""A query that begins behind what its table has; its application id outlives its checkpoint."""


def around(place: str, because: str, **expect: Predicted) -> Scenario:
    """Return the death of the driver at a place around the table's commit."""
    of = {"amo": AMO, "alo": ALO, "eos": EOS}
    return Scenario(
        id=f"driver-crash-{place}",
        failure_point=f"driver-crash-{place}",
        pipeline=STREAM_TO_DELTA,
        group="streaming",
        suite=Suite.NIGHT,
        fault=Kill(InProgram(Role.DRIVER, place), victims=(Role.DRIVER,)),
        because=because,
        expect={of[name]: predicted for name, predicted in expect.items()},
    )


BASELINE = Scenario(
    id="none",
    failure_point="none",
    pipeline=STREAM_TO_DELTA,
    group="streaming",
    suite=Suite.NIGHT,
    fault=NoFault(),
    because="The baseline of the query into a table.",
    expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
)
BEFORE_TABLE_COMMIT = around(
    "before-table-commit",
    "The data files of the batch are written, and no version of the table has them: they are "
    "orphans, which no reader of the table sees, and the batch is written again. If the "
    "position was saved first, it is lost.",
    amo=Predicted(lost=Exactly(Select.BATCH)),
    alo=Predicted(sign=DELIVERED_AGAIN),
    eos=Predicted(sign=DELIVERED_AGAIN),
)
BEFORE_COMMIT_LOG = around(
    "before-commit-log",
    "The table has the batch, and the checkpoint does not say so: the batch runs again. An append "
    "adds it again. With an application id and the batch's number (txnAppId, txnVersion) the table "
    "finds the number in its log, and leaves the batch out.",
    amo=Predicted(sign=RESUMED_PAST),
    alo=Predicted(duplicated=Exactly(Select.BATCH)),
    eos=Predicted(sign=REPLAYED),
)
LOST_CHECKPOINT = Scenario(
    id="checkpoint-lost",
    failure_point="checkpoint-lost",
    pipeline=STREAM_TO_DELTA,
    group="streaming",
    suite=Suite.NIGHT,
    fault=Kill(
        InProgram(Role.DRIVER, "after-commit-log"), victims=(Role.DRIVER,), forget=Forget.CHECKPOINT
    ),
    because="The query begins at the first record, with batch 0. The numbers of its batches are "
    "known to the table, so it leaves them out: rightly, as long as a batch has the same records "
    "as the batch of its number had, which nothing ensures but equal settings and an unchanged "
    "topic.",
    expect={
        AMO: NotApplicable("the position is not kept in the checkpoint"),
        ALO: Predicted(duplicated=Exactly(Select.THROUGH_BATCH)),
        EOS: Predicted(sign=REPLAYED),
    },
)
AVAILABLE_NOW = replace(
    BEFORE_COMMIT_LOG,
    id="driver-crash-before-commit-log+available-now",
    because="A query that a timer starts (availableNow) plans all that is there as batches of "
    "the usual size, and goes on with its checkpoint: a batch that the checkpoint does not "
    "have runs again, as in a query that never ends.",
    expect={
        ALO: Predicted(
            duplicated=Exactly(Select.BATCH), settings=querying(APPENDS, available_now=True)
        ),
        EOS: Predicted(sign=REPLAYED, settings=querying(ONCE, available_now=True)),
    },
)
ZOMBIE_DRIVER = Scenario(
    id="zombie-driver",
    failure_point="zombie-driver",
    pipeline=STREAM_TO_DELTA,
    group="streaming",
    suite=Suite.NIGHT,
    fault=Zombie(InProgram(Role.DRIVER, "before-commit-log")),
    because="The driver is paused with a batch that its table has and its checkpoint does not. "
    "Another driver takes over the checkpoint, writes the batch again, and all the rest. When "
    "the first one wakes up, it finds its entry of the commit log taken, and ends. If the "
    "position is outside the checkpoint, it goes on to the end, beside the other.",
    expect={
        AMO: Predicted(duplicated=Exactly(BEYOND), control=True),
        ALO: Predicted(duplicated=Exactly(Select.BATCH)),
        EOS: Predicted(sign=REPLAYED),
    },
)
TABLES = (
    BASELINE,
    BEFORE_TABLE_COMMIT,
    BEFORE_COMMIT_LOG,
    replace(
        BEFORE_COMMIT_LOG,
        id="driver-crash-before-commit-log+native",
        because="The table's own sink (format delta) writes each batch with its query's id and "
        "its number: the table leaves out the batch that runs again.",
        expect={EOS: Predicted(sign=REPLAYED, settings=NATIVE)},
    ),
    AVAILABLE_NOW,
    around(
        "after-commit-log",
        "Table and checkpoint have the batch: the next driver continues after it.",
        amo=Predicted(sign=RESUMED_PAST),
        alo=Predicted(sign=RESUMED_PAST),
        eos=Predicted(sign=RESUMED_PAST),
    ),
    LOST_CHECKPOINT,
    replace(
        LOST_CHECKPOINT,
        id="checkpoint-lost+native",
        because="The application id of the table's own sink is the id in the checkpoint: a new "
        "checkpoint has a new one, and every batch is added again. Sold as exactly-once it must "
        "be convicted.",
        expect={
            EOS: Predicted(duplicated=Exactly(Select.THROUGH_BATCH), control=True, settings=NATIVE)
        },
    ),
    replace(
        LOST_CHECKPOINT,
        id="checkpoint-lost+resumed",
        because="The query begins behind what its table has, with batch 0 and its old application "
        "id. The table has seen a batch of each of these numbers, so it leaves out the new ones: "
        "their records are in no version, no error is raised, and the checkpoint commits them. "
        "Convicted. (An append without an application id loses nothing here.)",
        expect={
            ALO: Predicted(sign=RESUMED_PAST, settings=querying(APPENDS, resumes_at_table=True)),
            EOS: Predicted(lost=Exactly(SKIPPED), control=True, settings=RESUMES),
        },
    ),
    replace(
        LOST_CHECKPOINT,
        id="checkpoint-lost+new-application",
        because="The same with a new application id for the new checkpoint: no number is known "
        "under it, so every batch is added.",
        expect={
            EOS: Predicted(sign=RESUMED_PAST, settings=querying(RESUMES, new_application=True))
        },
    ),
    ZOMBIE_DRIVER,
)

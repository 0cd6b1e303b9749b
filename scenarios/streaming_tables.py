"""A table (Delta) as the sink of a query: its driver dies around the table's commit."""

from __future__ import annotations

from dataclasses import replace

from harness.controls import InProgram
from harness.faults import Kill, NoFault
from harness.judge.signs import DELIVERED_AGAIN
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Predicted, Role, Scenario, Suite
from harness.scenarios.plain import ALO, EOS
from harness.scenarios.streaming_topic import querying
from harness.stages.queries import STREAM_TO_DELTA
from harness.stages.settings import recipe
from harness.systems.spark.signs import REPLAYED

NATIVE = querying(recipe(STREAM_TO_DELTA, EOS), native=True)
"""The table's own sink, which writes with the checkpoint's id and the batch's number."""


def around(place: str, because: str, **expect: Predicted) -> Scenario:
    """Return the death of the driver at a place around the table's commit."""
    of = {"alo": ALO, "eos": EOS}
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


BEFORE_COMMIT_LOG = around(
    "before-commit-log",
    "The table has the batch, and the checkpoint does not say so: the batch runs again. An append "
    "adds it again. With an application id and the batch's number (txnAppId, txnVersion) the table "
    "finds the number in its log, and leaves the batch out.",
    alo=Predicted(duplicated=Exactly(Select.BATCH)),
    eos=Predicted(sign=REPLAYED),
)
TABLES = (
    Scenario(
        id="none",
        failure_point="none",
        pipeline=STREAM_TO_DELTA,
        group="streaming",
        suite=Suite.NIGHT,
        fault=NoFault(),
        because="The baseline of the query into a table.",
        expect={ALO: Predicted(), EOS: Predicted()},
    ),
    around(
        "before-table-commit",
        "The data files of the batch are written, and no version of the table has them: they are "
        "orphans, which no reader of the table sees, and the batch is written again.",
        alo=Predicted(sign=DELIVERED_AGAIN),
        eos=Predicted(sign=DELIVERED_AGAIN),
    ),
    BEFORE_COMMIT_LOG,
    replace(
        BEFORE_COMMIT_LOG,
        id="driver-crash-before-commit-log+native",
        because="The table's own sink (format delta) writes each batch with its query's id and "
        "its number: the table leaves out the batch that runs again.",
        expect={EOS: Predicted(sign=REPLAYED, settings=NATIVE)},
    ),
)

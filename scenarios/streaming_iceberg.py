"""An Iceberg table as the sink of a query: its driver dies around the table's commit."""

from __future__ import annotations

from dataclasses import replace

from harness.judge.signs import DELIVERED_AGAIN
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Predicted, Scenario
from harness.scenarios.plain import ALO, EOS
from harness.scenarios.streaming_tables import (
    BASELINE,
    BEFORE_COMMIT_LOG,
    BEFORE_TABLE_COMMIT,
    LOST_CHECKPOINT,
)
from harness.stages.queries import STREAM_TO_ICEBERG
from harness.systems.spark.signs import REPLAYED


def iceberg(scenario: Scenario, because: str, alo: Predicted, eos: Predicted) -> Scenario:
    """Return a scenario of Delta's for Iceberg. At-most-once is as with Delta, and is not tried."""
    return replace(
        scenario,
        pipeline=STREAM_TO_ICEBERG,
        because=because,
        expect={ALO: alo, EOS: eos},
    )


ICEBERG_TABLES = (
    iceberg(BASELINE, "The baseline of the query into a table.", Predicted(), Predicted()),
    iceberg(
        BEFORE_TABLE_COMMIT,
        "Data files, manifests and the new metadata are written, and the catalog does not name "
        "them: they are orphans, which no reader of the table sees, and the batch is written "
        "again.",
        alo=Predicted(sign=DELIVERED_AGAIN),
        eos=Predicted(sign=REPLAYED),
    ),
    iceberg(
        BEFORE_COMMIT_LOG,
        "The table has the batch, and the checkpoint does not say so: the batch runs again. An "
        "append adds it again. The table's own sink finds the query's id and the batch's number "
        "in the snapshots, and leaves the batch out.",
        alo=Predicted(duplicated=Exactly(Select.BATCH)),
        eos=Predicted(sign=REPLAYED),
    ),
    iceberg(
        LOST_CHECKPOINT,
        "The query's id is in the checkpoint: a new checkpoint has a new one, and every batch is "
        "added again. Sold as exactly-once it must be convicted.",
        alo=Predicted(duplicated=Exactly(Select.THROUGH_BATCH)),
        eos=Predicted(duplicated=Exactly(Select.THROUGH_BATCH), control=True),
    ),
)

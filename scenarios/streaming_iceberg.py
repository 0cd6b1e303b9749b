"""An Iceberg table as the sink of a query: its driver dies around the table's commit, its
checkpoint is lost, and two drivers write.
"""

from __future__ import annotations

from dataclasses import replace

from harness.judge.signs import DELIVERED_AGAIN
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Predicted, Scenario
from harness.scenarios.plain import ALO, EOS
from harness.scenarios.streaming_tables import (
    AVAILABLE_NOW,
    BASELINE,
    BEFORE_COMMIT_LOG,
    BEFORE_TABLE_COMMIT,
    LOST_CHECKPOINT,
    ZOMBIE_DRIVER,
)
from harness.scenarios.streaming_topic import querying
from harness.stages.queries import STREAM_TO_ICEBERG
from harness.stages.settings import recipe
from harness.systems.spark.signs import REPLAYED

APPENDS, ONCE = recipe(STREAM_TO_ICEBERG, ALO), recipe(STREAM_TO_ICEBERG, EOS)


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
        AVAILABLE_NOW,
        "A query that a timer starts goes on with its checkpoint: a batch that the checkpoint does "
        "not have runs again, and only the table's own sink finds it in the snapshots.",
        alo=Predicted(
            duplicated=Exactly(Select.BATCH), settings=querying(APPENDS, available_now=True)
        ),
        eos=Predicted(sign=REPLAYED, settings=querying(ONCE, available_now=True)),
    ),
    iceberg(
        LOST_CHECKPOINT,
        "The query's id is in the checkpoint: a new checkpoint has a new one, and every batch is "
        "added again. Sold as exactly-once it must be convicted.",
        alo=Predicted(duplicated=Exactly(Select.THROUGH_BATCH)),
        eos=Predicted(duplicated=Exactly(Select.THROUGH_BATCH), control=True),
    ),
    iceberg(
        ZOMBIE_DRIVER,
        "The driver is paused with a batch that its table has and its checkpoint does not. Another "
        "driver writes the batch again, and all the rest. When the first one wakes up, it finds "
        "its entry of the commit log taken, and ends.",
        alo=Predicted(duplicated=Exactly(Select.BATCH)),
        eos=Predicted(sign=REPLAYED),
    ),
)

"""The sign of a streaming query: a batch that a second driver planned or processed again."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

REPLAYED: Final = Sign(
    "replayed", "a second incarnation of the driver planned or processed the batch with this record"
)

BEYOND: Final = Select("beyond-batch")
"""The records behind the target's batch: what a driver writes that goes on after it."""
SKIPPED: Final = Select("batches-of-known-numbers")
"""The records of every later driver's batches whose numbers are at most that of the target's batch:
what a table leaves out that goes by the numbers of an earlier checkpoint.
"""


def spark_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records in batches of more than one incarnation of the driver."""
    batches = list(history.of(kinds.Batch))
    drivers: dict[str, set[str]] = defaultdict(set)
    for copy in history.of(kinds.Stored) if batches else ():
        if not (copy.hop == Hop.TOPIC and copy.visible and copy.intact):
            continue
        if copy.at is not None and copy.record is not None:
            partition, offset = copy.at
            drivers[copy.record] |= {
                batch.by
                for batch in batches
                if batch.partition == partition and batch.offset <= offset < batch.position
            }
    return {REPLAYED: {record for record, by in drivers.items() if len(by) > 1}}

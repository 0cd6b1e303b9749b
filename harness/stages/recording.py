"""The work on one record: process it and record its result in one database transaction, with
failpoints around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model.record import decode_id

if TYPE_CHECKING:
    from harness.stages.sinks.interface import Copy, Sink


def work(
    sink: Sink,
    value: bytes,
    key: str | None,
    copy: Copy,
    *,
    idempotent: bool,
    position: tuple[int, int] | None = None,
) -> bool:
    """Process one record and record its result; return false if the work fails.

    ``position``: the partition and offset to save with the result.
    """
    record = decode_id(value)
    failpoint("before-processing", record)
    result = value
    if failpoint("before-recording", record):
        return False
    sink.begin()
    if not (idempotent and record is not None and sink.absorb(record, copy)):
        sink.record(result, key, copy)
    if position is not None:
        sink.save_position(*position)
    failpoint("before-database-commit", record)
    sink.commit()
    failpoint("after-database-commit", record)
    failpoint("before-commit", record)
    return True

"""The work of one record: processed, and its result recorded, in one database transaction, with the failpoints around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model.record import decode_id

if TYPE_CHECKING:
    from harness.stages.sinks.interface import Copy, Sink


def work(
    sink: Sink, value: bytes, key: str | None, copy: Copy, *, idempotent: bool, position: tuple[int, int] | None = None
) -> bool:
    """Process one record and record its result; false where the work fails.

    ``position``: partition and offset that are saved with the result.
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

"""Settings of a streaming query: part of :mod:`.settings`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Settings of a streaming query, besides those that all consumers have."""

    executors: int = 0
    """How many executor JVMs run the tasks of a query; 0: threads of its driver do."""
    per_batch: bool = False
    """Whether each batch is recorded once, in one database transaction with the batch's number."""
    fail_on_loss: bool = True
    """Whether a query ends with an error if the log no longer has the records that it must read."""
    assigned: bool = False
    """Whether a query reads a fixed list of partitions (assign) instead of all of the topic's
    (subscribe).
    """
    native: bool = False
    """Whether the engine's own table sink writes the results, instead of foreachBatch."""
    available_now: bool = False
    """Whether the query ends when it has read what there is, and is started again, as by a timer
    (``trigger(availableNow=True)``).
    """
    resumes_at_table: bool = False
    """Whether a query without a checkpoint begins behind the records that its table has, instead
    of at the first record.
    """
    new_application: bool = False
    """Whether each incarnation writes into its table with an application id of its own."""
    listed: bool = False
    """Whether result files are read by listing their folder, instead of through the log of the file
    sink.
    """

"""Streaming stages of many cells in one Spark session: where no driver dies, none need be started for each cell.

The front of one driver JVM. It reads lines from its standard input: ``{"start": "<a stage>"}``, as the program of one stage
finds it in ``LOSTACK_STAGE``, and ``{"stop": "<the client id of that stage>"}``. Each query has a ledger and settings of its
own; the JVM, its threads and what they have compiled are common to all. It ends with its input.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from harness.model.waiting import wait_until
from harness.stages.stage import Stage, conduct
from harness.stages.streaming import Query

if TYPE_CHECKING:
    from harness.model.history import HistoryWriter

STOPPED = "it was stopped"
BEGUN_S = 10.0
"""A stage is ready a moment before its query is known here."""


class Queries:
    """The queries of one session, by the client ids of their stages."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._running: dict[str, Any] = {}

    def start(self, stage: Stage) -> None:
        """Run a stage in a thread of its own."""
        Thread(target=conduct, args=(stage, self._stream), daemon=True).start()

    def stop(self, client_id: str) -> None:
        """Stop a query in order: its stage says so in its ledger when that is done."""
        Thread(target=self._stop, args=(client_id,), daemon=True).start()

    def _stop(self, client_id: str) -> None:
        query = wait_until(lambda: self._running.get(client_id), within_s=BEGUN_S, because=f"{client_id} to have begun")
        query.stop()

    def _stream(self, stage: Stage, ledger: HistoryWriter) -> str:
        with closing(Query(stage, ledger, self._spark.newSession())) as query:  # the session outlives it, and so would its sink
            running = self._running[stage.client_id] = query.start()
            running.awaitTermination()
        return STOPPED


def main() -> None:
    """Do what the lines say, one after the other."""
    queries = Queries(SparkSession.builder.getOrCreate())
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            queries.start(Stage.from_json(order["start"]))
        else:
            queries.stop(order["stop"])


if __name__ == "__main__":
    main()

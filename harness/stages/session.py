"""Runs the streaming stages of many cells in one Spark session. Cells whose driver is not killed
need no driver of their own.

This program uses one driver JVM. It reads lines from its standard input: ``{"start": "<a
stage>"}``, with the text that a stage program finds in ``LOSTACK_STAGE``, and ``{"stop": "<the
client id of that stage>"}``. Each query has its own ledger and settings. All share the JVM, its
threads and its compiled code. The program ends when its input ends.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from threading import Thread
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from harness.model.waiting import wait_until
from harness.stages.stage import Stage, conduct
from harness.stages.streaming import Query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from harness.model.writing import LedgerWriter

STOPPED = "it was stopped"
BEGUN_S = 10.0
"""How many seconds to wait for a query: a stage reports that it is ready a moment before its query
is known here.
"""


class Queries:
    """The queries of one session, by the client ids of their stages."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._running: dict[str, StreamingQuery] = {}

    def start(self, stage: Stage) -> None:
        """Run a stage in its own thread."""
        Thread(target=conduct, args=(stage, self._stream), daemon=True).start()

    def stop(self, client_id: str) -> None:
        """Stop a query in order. Its stage then writes that into its ledger."""
        Thread(target=self._stop, args=(client_id,), daemon=True).start()

    def _stop(self, client_id: str) -> None:
        query = wait_until(
            lambda: self._running.get(client_id),
            within_s=BEGUN_S,
            because=f"{client_id} to have begun",
        )
        query.stop()

    def _stream(self, stage: Stage, ledger: LedgerWriter) -> str:
        with closing(
            Query(stage, ledger, self._spark.newSession())
        ) as query:  # the session outlives it, and so would its sink
            running = self._running[stage.client_id] = query.start()
            running.awaitTermination()
        return STOPPED


def main() -> None:
    """Execute the lines of standard input, one after the other."""
    queries = Queries(SparkSession.builder.getOrCreate())
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            queries.start(Stage.from_json(order["start"]))
        else:
            queries.stop(order["stop"])


if __name__ == "__main__":
    main()

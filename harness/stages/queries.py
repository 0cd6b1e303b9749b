"""The pipelines whose reader is a streaming query, and their settings for each semantic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline
from harness.model.semantics import Semantic
from harness.stages.consumer_settings import ConsumerSettings, SavePosition
from harness.stages.querying import QuerySettings
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, TRANSACTIONAL, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

STREAM_AT_MOST_ONCE = Settings(
    AT_MOST_ONCE.producer, ConsumerSettings(position=SavePosition.BEFORE_WORK, unit=6)
)
"""A streaming query whose position is kept outside its checkpoint and saved before each batch is
worked on.
"""
STREAM_AT_LEAST_ONCE = Settings(
    AT_LEAST_ONCE.producer, ConsumerSettings(position=SavePosition.CHECKPOINT, unit=6)
)
"""A streaming query with a checkpoint and a sink that appends."""
STREAM_EXACTLY_ONCE = Settings(
    TRANSACTIONAL,
    ConsumerSettings(
        position=SavePosition.CHECKPOINT, idempotent=True, isolation="read_committed", unit=12
    ),
)
"""A streaming query with a checkpoint and an idempotent sink. Its unit counts offsets; each record
is followed by a marker.
"""


def _of_a_query(
    *, replaces: bool = False, listed: bool = False, absorbs: bool = False, native: bool = False
) -> Mapping[Semantic, Settings]:
    """Return the recipes of a streaming query.

    ``replaces``: a new result replaces the one before. ``listed``: its files are read by listing
    their folder. ``absorbs``: its sink absorbs records with a known id. ``native``: its table's own
    sink is exactly-once.
    """
    once = replace(STREAM_AT_MOST_ONCE.consumer, idempotent=replaces)
    again = replace(STREAM_AT_LEAST_ONCE.consumer, query=QuerySettings(listed=listed))
    exactly = replace(
        STREAM_EXACTLY_ONCE.consumer, idempotent=absorbs, query=QuerySettings(native=native)
    )
    return {
        Semantic.AT_MOST_ONCE: replace(STREAM_AT_MOST_ONCE, consumer=once),
        Semantic.AT_LEAST_ONCE: replace(STREAM_AT_LEAST_ONCE, consumer=again),
        Semantic.EXACTLY_ONCE: replace(STREAM_EXACTLY_ONCE, consumer=exactly),
    }


STREAM_TO_DATABASE: Final = Pipeline("stream-to-database", "spark", _of_a_query(absorbs=True))
"""outbox → producer → topic → streaming query → database, by foreachBatch."""
STREAM_TO_POSTGRES: Final = Pipeline(
    "stream-to-postgres", "spark", _of_a_query(absorbs=True), on_server=True
)
"""The same, and the database is a PostgreSQL server."""
STREAM_TO_FILES: Final = Pipeline("stream-to-files", "spark", _of_a_query(listed=True))
"""outbox → producer → topic → streaming query → Parquet files."""
STREAM_TO_TOPIC: Final = Pipeline("stream-to-topic", "spark", _of_a_query(), to_topic=True)
"""outbox → producer → topic → streaming query → topic."""
STREAM_TO_STATE: Final = Pipeline(
    "stream-to-state", "spark", _of_a_query(replaces=True, absorbs=True)
)
"""outbox → producer → topic → streaming aggregation with a state store → database, by foreachBatch
in update mode.
"""
STREAM_TO_DELTA: Final = Pipeline("stream-to-delta", "spark", _of_a_query(absorbs=True))
"""outbox → producer → topic → streaming query → Delta table: by foreachBatch, which appends, or
appends with an application id and the batch's number; or by the table's own sink.
"""
STREAM_TO_ICEBERG: Final = Pipeline("stream-to-iceberg", "spark", _of_a_query(native=True))
"""outbox → producer → topic → streaming query → Iceberg table: by foreachBatch, which appends; or
by the table's own sink, which writes the query's id and the batch's number into each snapshot.
"""
TABLE_FOLDERS: Final = {STREAM_TO_DELTA: "table", STREAM_TO_ICEBERG: "tables/results"}
"""Pipeline → the folder of its table in the cell's."""
BY_FOREACH_BATCH: Final = (STREAM_TO_DATABASE, STREAM_TO_POSTGRES, STREAM_TO_STATE)
STREAMING: Final = (*BY_FOREACH_BATCH, *TABLE_FOLDERS, STREAM_TO_FILES, STREAM_TO_TOPIC)

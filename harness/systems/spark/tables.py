"""A table (Delta, Iceberg) as the sink of a query: read its rows at rest, without the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.run.sinks import Row, origin_of, recorded
from harness.stages.queries import STREAM_TO_DELTA, STREAM_TO_ICEBERG, TABLE_FOLDERS
from harness.tables.delta import DeltaTable
from harness.tables.iceberg import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.pipeline import Pipeline
    from harness.systems.kafka.scene import Scene

READ_BY: Final[Mapping[Pipeline, Callable[[Path], DeltaTable | IcebergTable]]] = {
    STREAM_TO_DELTA: DeltaTable,
    STREAM_TO_ICEBERG: IcebergTable,
}
"""Pipeline → what reads its table."""


class TableSink:
    """Reads the table of a cell. Implements :class:`harness.run.sinks.SinkPart`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        pipeline = scene.cell.scenario.pipeline
        self._table = READ_BY[pipeline](scene.directory / TABLE_FOLDERS[pipeline])

    def open(self) -> None:
        """Do nothing: the query makes the table."""

    def close(self) -> None:
        """Do nothing: the table stays."""

    def size(self) -> object:
        """Return the table's version."""
        return self._table.version()

    def observe(self) -> None:
        """Write every row of the table as a result; none, if nothing made a table.

        Raises:
            TableError: the table cannot be read.
        """
        if self._table.version() < 0:
            return
        for order, row in enumerate(self._table.rows(), start=1):
            value, key, origin = row["value"], row["key"], row["origin"]
            recorded(
                self._scene,
                Row(
                    value if isinstance(value, bytes) else None,
                    key.decode("ascii", "replace") if isinstance(key, bytes) else None,
                    order,
                    origin_of(str(origin)),
                ),
            )

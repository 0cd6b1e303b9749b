"""The file sink of a query: read results from Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from harness.run.sinks import Row, origin_of, recorded
from harness.stages.sinks.checkpoint import listed_files, sink_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.systems.kafka.scene import Scene


class FileSink:
    """Reads the result files of a cell. Implements :class:`harness.run.sinks.SinkPart`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def open(self) -> None:
        """Do nothing: the query creates the folder."""

    def close(self) -> None:
        """Do nothing: the files stay."""

    def size(self) -> object:
        """Return the names of the files."""
        return tuple(sorted(str(path) for path in self._files()))

    def observe(self) -> None:
        """Write every row of every file as a result."""
        order = 0
        for file in self._files():
            for row in pq.read_table(file).to_pylist():
                order += 1
                key = row["key"].decode("ascii", "replace")
                recorded(self._scene, Row(row["value"], key, order, origin_of(row["origin"])))

    def _files(self) -> Iterator[Path]:
        listed = self._scene.settings.consumer.query.listed
        return (listed_files if listed else sink_files)(self._scene.directory / "files")

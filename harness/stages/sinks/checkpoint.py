"""Read the checkpoint of a streaming query, and the log of its file sink, from their files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder of Spark Structured Streaming with one Kafka source of one topic.

    ``offsets/N`` holds the end of batch N; ``commits/N`` exists if the batch is done. Format:
    Spark's OffsetSeqLog and CommitLog version 1 (a line ``v1``, a line of metadata, one line per
    source).
    """

    directory: Path

    def committed(self) -> dict[int, int]:
        """Return the position in each partition after the last committed batch; empty if there is
        none.
        """
        done = _entries(self.directory / "commits")
        return self.ends(max(done)) if done else {}

    def planned(self) -> dict[int, int]:
        """Return the end of the last planned batch in each partition; empty if there is none."""
        known = _entries(self.directory / "offsets")
        return self.ends(max(known)) if known else {}

    def ends(self, batch: int) -> dict[int, int]:
        """Return the end of a batch in each partition."""
        text = (self.directory / "offsets" / str(batch)).read_text()
        topics: dict[str, dict[str, int]] = json.loads(text.splitlines()[-1])
        return {
            int(partition): offset for ends in topics.values() for partition, offset in ends.items()
        }


def sink_files(folder: Path) -> Iterator[Path]:
    """Yield the files that the file sink's own log lists: those of committed batches. Each entry is
    read once.
    """
    log = folder / "_spark_metadata"
    seen: set[Path] = set()
    for file in sorted(
        (f for f in log.glob("*") if not f.name.startswith(".")),
        key=lambda f: int(f.name.split(".")[0]),
    ):
        for line in file.read_text().splitlines()[1:]:
            entry = json.loads(line)
            path = Path(unquote(urlparse(entry["path"]).path))
            if entry["action"] == "add" and path not in seen:
                seen.add(path)
                yield path


def listed_files(folder: Path) -> Iterator[Path]:
    """Yield all files in a file sink's folder, including those of failed attempts."""
    yield from sorted(folder.glob("*.parquet"))


def _entries(log: Path) -> set[int]:
    return {int(file.name) for file in log.glob("*") if file.name.isdigit()}

"""The files of Spark's checkpoint and of its file sink's log, as Spark writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.stages.sinks.checkpoint import Checkpoint, listed_files, sink_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write a checkpoint with three planned batches, two of them committed."""
    for batch in range(3):
        offsets = {"t": {"0": 2 * batch + 2, "1": batch + 1}}
        write(
            tmp_path / "offsets" / str(batch), "v1", '{"batchWatermarkMs":0}', json.dumps(offsets)
        )
        write(tmp_path / "offsets" / f".{batch}.crc", "crc")
    for batch in range(2):
        write(tmp_path / "commits" / str(batch), "v1", '{"nextBatchWatermarkMs":0}')
    write(tmp_path / "commits" / ".2.8f0c.tmp", "v1")
    return tmp_path


def write(file: Path, *lines: str) -> None:
    """Write a file of lines, the folder too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))


def test_the_position_is_that_of_the_last_committed_batch(checkpoint: Path) -> None:
    """What is planned and not committed is no position; neither are temporary files
    and checksums.
    """
    assert Checkpoint(checkpoint).committed() == {0: 4, 1: 2}


def test_what_is_planned_is_the_last_batch_of_the_offset_log(
    checkpoint: Path, tmp_path: Path
) -> None:
    assert Checkpoint(checkpoint).planned() == {0: 6, 1: 3}
    assert Checkpoint(tmp_path / "none").planned() == {}


def test_nothing_committed_is_no_position(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path / "none").committed() == {}


def test_the_log_of_the_sink_leaves_out_what_a_listing_shows(tmp_path: Path) -> None:
    """Files that no committed batch names are read by those who list the folder, and by nobody
    else.
    """
    files = [tmp_path / name for name in ("part-0.parquet", "part 1.parquet", "orphan.parquet")]
    for file in files:
        file.write_bytes(b"")
    entries = [{"path": file.as_uri(), "action": "add"} for file in files[:2]]
    write(tmp_path / "_spark_metadata" / "0", "v1", json.dumps(entries[0]))
    write(
        tmp_path / "_spark_metadata" / "1.compact", "v1", *(json.dumps(entry) for entry in entries)
    )
    write(tmp_path / "_spark_metadata" / ".2.crc", "crc")
    assert sorted(sink_files(tmp_path)) == sorted(files[:2])
    assert sorted(listed_files(tmp_path)) == sorted(files)

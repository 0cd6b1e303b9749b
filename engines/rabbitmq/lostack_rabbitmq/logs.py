"""Reads the logs of a node's quorum queues from its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lostack_rabbitmq.raft import Log, in_segment, in_wal, queue_in

if TYPE_CHECKING:
    from pathlib import Path


def logs_in(folder: Path) -> dict[str, Log]:
    """Return the logs in the files of a node, by the names that these have for their writers. A
    queue has more than one if the node began it anew.

    Write-ahead logs are read first: one that goes meanwhile is in segments by then.

    Raises:
        StrangeFileError: a file is not as it should be.
    """
    found: dict[str, Log] = {}
    for file in sorted(folder.glob("*.wal")):
        for name, index, of_term, data in in_wal(file.name, _read(file)):
            found.setdefault(name, Log()).add(index, of_term, data)
    for config in folder.glob("*/config"):
        log = found.setdefault(config.parent.name, Log())
        log.queue = queue_in(_read(config))
        for file in sorted(config.parent.glob("*.segment")):
            for index, of_term, data in in_segment(file.name, _read(file)):
                log.add(index, of_term, data)
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""

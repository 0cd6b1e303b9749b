"""What the files of a quorum queue say, made here as the node makes them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from lostack_rabbitmq.logs import logs_in
from lostack_rabbitmq.raft import Log, StrangeFileError
from lostack_rabbitmq.terms import NotATermError, term

from tests.rabbitmq_logs import PROCESS, command, enqueue, message

if TYPE_CHECKING:
    from pathlib import Path


def record(name: bytes | None, index: int, of_term: int, data: bytes) -> bytes:
    """Return an entry of a write-ahead log; the first one of a queue names it."""
    mark = b"\0\0\x01" + struct.pack(">H", len(name)) + name if name else b"\x40\0\x01"
    whole = struct.pack(">QQ", index, of_term) + data
    return mark + struct.pack(">II", zlib.adler32(whole), len(data)) + whole


def segment(*entries: tuple[int, int, bytes]) -> bytes:
    """Return a segment."""
    at, index, content = 8 + 32 * 8, b"", b""
    for number, of_term, data in entries:
        index += struct.pack(">QQQII", number, of_term, at, len(data), zlib.crc32(data))
        content, at = content + data, at + len(data)
    return b"RASG" + struct.pack(">HH", 2, 8) + index.ljust(32 * 8, b"\0") + content


def node(folder: Path, wal: bytes = b"", of_queue: bytes = b"") -> Path:
    """Make the files of a node with one queue."""
    (folder / "UID").mkdir()
    (folder / "UID" / "config").write_text("#{cluster_name => '%2F_k.in', uid => <<\"UID\">>}.")
    if wal:
        (folder / "00000001.wal").write_bytes(b"RAWA\x01" + wal)
    if of_queue:
        (folder / "UID" / "00000001.segment").write_bytes(of_queue)
    return folder


def test_messages_of_a_write_ahead_log(tmp_path: Path) -> None:
    """In order, with their headers; other commands have none, and what is cut off was never
    whole.
    """
    data = record(b"UID", 2, 1, enqueue(1, b"one")) + record(None, 3, 1, command("purge"))
    data += record(None, 4, 1, enqueue(2, b"tw", b"o")) + record(None, 5, 1, enqueue(3, b"x"))[:-4]
    [log] = logs_in(node(tmp_path, data)).values()
    found = [(each.index, each.body, each.attempt, each.again) for each in log.entries()]
    assert (log.queue, found) == (
        "k.in",
        [(2, b"one", "p-1.2", False), (4, b"two", "p-1.2", False)],
    )


def test_a_segment_and_a_later_term(tmp_path: Path) -> None:
    """Of two entries at one index the one of the later term is the queue's."""
    wal = record(b"UID", 3, 2, enqueue(2, b"new"))
    files = segment((2, 1, enqueue(1, b"one")), (3, 1, enqueue(2, b"old")))
    log = logs_in(node(tmp_path, wal, files))["UID"]
    assert [each.body for each in log.entries()] == [b"one", b"new"]


def test_what_a_channel_sent_again_by_itself() -> None:
    log = Log()
    for index, number in ((2, 1), (3, 1), (4, 2)):
        log.add(index, 1, enqueue(number, b"one"))
    assert [each.again for each in log.entries()] == [False, True, False]


def test_what_is_given_back_may_be_written_again() -> None:
    log = Log()
    log.add(2, 1, enqueue(1, b"one"))
    log.add(5, 1, command("requeue", (b"tag", PROCESS), 0, 2, 3, message(b"one")))
    log.add(7, 1, command("requeue", (b"tag", PROCESS), 1, 5, 3, message(b"one")))
    assert [each.index for each in log.entries()] == [2]
    assert [log.first(index) for index in (2, 5, 7)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "data"), [("1.wal", b"RAWA\x02rest"), ("UID/1.segment", b"RASG\0\3\0\1rest")]
)
def test_files_of_another_form(tmp_path: Path, name: str, data: bytes) -> None:
    (node(tmp_path) / name).write_bytes(data)
    with pytest.raises(StrangeFileError):
        logs_in(tmp_path)


def test_an_entry_that_cannot_be_read() -> None:
    """It might be a message."""
    log = Log()
    log.add(2, 1, b"\x83\xff")
    with pytest.raises(StrangeFileError):
        log.entries()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x83l\0\0\0\1a\1a\2", [1, 2]),
        (b"\x83k\0\2\1\2", [1, 2]),
        (b"\x83n\x02\x01\x00\x01", -256),
        (b"\x83F" + struct.pack(">d", 1.5), 1.5),
        (b"\x83q" + b"w\1aw\1ba\2", b"w\1aw\1ba\2"),
        (b"\x83t\0\0\0\1la\0", None),
        (b"rest", None),
    ],
)
def test_terms(data: bytes, value: object) -> None:
    """A list's tail that is none is its last; what is no term is said to be none."""
    if value is not None:
        assert term(data) == value
        return
    with pytest.raises(NotATermError):
        term(data)

"""What an append-only file says of a stream or a list: every copy, what it waits for, and why it is
gone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from lostack_redis.journal import Journal
from lostack_redis.resp import command

from harness.model.places import Removal, Waiting
from harness.run.queue_journal import StrangeJournalError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

READY, IN_FLIGHT = Waiting.READY, Waiting.IN_FLIGHT
GROUP = ("XGROUP", "CREATE", "q", "g", "0")


def added(number: int) -> tuple[str, ...]:
    """Return the entry of a number."""
    return ("XADD", "q", f"{number}-0", "value", f"v{number}")


def given(number: int) -> tuple[str, ...]:
    """Return what the file says when a group was given an entry."""
    return (*("XCLAIM", "q", "g", "c", "0", f"{number}-0"), "FORCE", "LASTID", f"{number}-0")


class File:
    """A server's folder, and what is appended."""

    def __init__(self, folder: Path, *, alone: bool = False) -> None:
        self.file = folder / "appendonly.aof"
        if not alone:
            (folder / "appendonlydir").mkdir()
            self.file = folder / "appendonlydir" / "a.1.incr.aof"
            (folder / "appendonlydir" / "a.1.base.aof").write_bytes(b"")
            (folder / "appendonlydir" / "a.manifest").write_text(
                "file a.1.base.aof seq 1 type b\nfile a.1.incr.aof seq 1 type i\n"
            )
        self.file.write_bytes(b"")
        self.journal = Journal(folder)

    def append(self, *said: Sequence[str]) -> None:
        """Append commands."""
        with self.file.open("ab") as file:
            file.write(b"".join(command(*words) for words in said))

    def told(self, queue: str = "q") -> list[tuple[str, Waiting | None, Removal | None]]:
        """Return each copy's value and its state."""
        found = self.journal.messages(queue)
        return [(each.value.decode(), each.waiting, each.removed) for each in found]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """An empty one."""
    return File(tmp_path)


def test_an_entry_waits_until_its_group_has_done_with_it(file: File) -> None:
    """Ready, pending, acknowledged; its place is the stream and its id."""
    file.append(("SELECT", "0"), added(1), added(2), added(3), GROUP)
    assert [waits for _, waits, _ in file.told()] == [READY] * 3
    file.append(given(1), given(2), ("XACK", "q", "g", "1-0"))
    assert file.told() == [
        ("v1", None, Removal.ACK),
        ("v2", IN_FLIGHT, None),
        ("v3", READY, None),
    ]
    assert [each.place for each in file.journal.messages("q")] == ["q:1-0", "q:2-0", "q:3-0"]


def test_without_a_group_all_waits(file: File) -> None:
    """And with two, it waits while either has not done with it."""
    file.append(added(1))
    assert file.told() == [("v1", READY, None)]
    file.append(GROUP, ("XGROUP", "CREATE", "q", "other", "$"))
    assert file.told() == [("v1", READY, None)]
    file.append(given(1), ("XACK", "q", "g", "1-0"))
    assert file.told() == [("v1", None, Removal.ACK)]


def test_what_was_given_without_an_acknowledgement_is_done_with(file: File) -> None:
    """NOACK moves the group on, and leaves nothing pending."""
    file.append(added(1), GROUP, ("XGROUP", "SETID", "q", "g", "1-0", "ENTRIESREAD", "1"))
    assert file.told() == [("v1", None, Removal.ACK)]


def test_a_group_may_be_set_back(file: File) -> None:
    file.append(added(1), GROUP, given(1), ("XACK", "q", "g", "1-0"))
    file.append(("XGROUP", "SETID", "q", "g", "0"))
    assert file.told() == [("v1", READY, None)]


def test_entries_are_trimmed_and_deleted(file: File) -> None:
    """What was acknowledged before was not lost by it."""
    file.append(added(1), added(2), added(3), GROUP, given(1), ("XACK", "q", "g", "1-0"))
    file.append(("XADD", "q", "MAXLEN", "=", "2", "4-0", "value", "v4"), ("XDEL", "q", "3-0"))
    assert file.told() == [
        ("v1", None, Removal.ACK),
        ("v2", None, Removal.RETENTION),
        ("v3", None, Removal.PURGE),
        ("v4", READY, None),
    ]
    file.append(("XTRIM", "q", "MINID", "=", "5-0"))
    assert file.told()[-1] == ("v4", None, Removal.RETENTION)


def test_a_transaction_without_an_end_did_nothing(file: File) -> None:
    """Nor did a command that is cut off; both may still come."""
    file.append(("MULTI",), ("SET", "once", "1"), added(1))
    assert file.told() == []
    file.append(("EXEC",))
    assert file.told() == [("v1", READY, None)]
    whole = command(*added(2))
    with file.file.open("ab") as opened:
        opened.write(whole[:20])
    assert len(file.told()) == 1
    with file.file.open("ab") as opened:
        opened.write(whole[20:])
    assert len(file.told()) == 2


def test_a_file_that_was_cut_is_read_from_its_beginning(file: File) -> None:
    file.append(added(1))
    size = file.file.stat().st_size
    file.append(added(2))
    assert len(file.told()) == 2
    file.file.write_bytes(file.file.read_bytes()[:size])
    assert len(file.told()) == 1


def test_redis_6_has_one_file(tmp_path: Path) -> None:
    file = File(tmp_path, alone=True)
    file.append(added(1))
    assert file.told() == [("v1", READY, None)]


def test_what_the_file_does_not_tell_is_said(tmp_path: Path) -> None:
    file = File(tmp_path)
    file.append(added(1), ("XSETID", "q", "9-0"))
    with pytest.raises(StrangeJournalError, match="lostack cannot follow XSETID"):
        file.told()
    assert file.told("other") == []
    file.file.with_name("a.1.base.aof").write_bytes(b"REDIS0011")
    with pytest.raises(StrangeJournalError, match="was rewritten"):
        file.told()
    alone = tmp_path / "alone"
    alone.mkdir()
    broken = File(alone, alone=True)
    broken.file.write_bytes(b"REDIS0011")
    with pytest.raises(StrangeJournalError, match="begins with"):
        broken.told()


def test_a_folder_without_a_file_has_nothing(tmp_path: Path) -> None:
    """As before the first write."""
    assert Journal(tmp_path).messages("q") == ()


# --- lists ----------------------------------------------------------------------------------------


def kombu(body: str, tag: str) -> str:
    """Return a message as Kombu puts it into a list."""
    properties = {"delivery_tag": tag, "body_encoding": "utf-8"}
    return json.dumps({"body": body, "headers": {}, "properties": properties})


def test_a_value_that_is_popped_is_kept_by_nobody(file: File) -> None:
    file.append(("LPUSH", "q", "a", "a"), ("RPOP", "q"))
    assert file.told() == [("a", None, Removal.ACK), ("a", READY, None)]
    places = [each.place for each in file.journal.messages("q")]
    assert len(set(places)) == 2
    file.append(("LPOP", "q", "1"))
    assert file.told()[1] == ("a", None, Removal.ACK)


def test_a_task_in_a_hash_is_still_the_same_copy(file: File) -> None:
    """Until it is acknowledged; given back, it is ready again."""
    task = kombu("a", "t")
    kept = ("HSET", "unacked", "t", json.dumps([json.loads(task), "q", "q"]))
    file.append(("LPUSH", "q", task), ("RPOP", "q"))
    assert file.told() == [("a", None, Removal.ACK)]
    file.append(kept)
    assert file.told() == [("a", IN_FLIGHT, None)]
    file.append(("MULTI",), ("HDEL", "unacked", "t"), ("RPUSH", "q", task), ("EXEC",))
    assert file.told() == [("a", READY, None)]
    file.append(("RPOP", "q"), kept, ("HDEL", "unacked", "t"))
    assert file.told() == [("a", None, Removal.ACK)]


def test_a_reliable_queue_keeps_what_it_gives(file: File) -> None:
    file.append(("RPUSH", "q", "a", "b"), ("LMOVE", "q", "mine", "LEFT", "RIGHT"))
    assert file.told() == [("a", IN_FLIGHT, None), ("b", READY, None)]
    file.append(("RPOPLPUSH", "q", "mine"), ("LREM", "mine", "1", "a"))
    assert file.told() == [("a", None, Removal.ACK), ("b", IN_FLIGHT, None)]
    file.append(("DEL", "mine"))
    assert file.told()[1] == ("b", None, Removal.PURGE)

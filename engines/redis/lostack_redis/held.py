"""What a stream or a list has held: every copy, and what became of it, from the commands of the
append-only file.

A stream's copy is its entry, whose id the stream never uses again. A list's copy is named by where
its push stands in the file. It stays the same copy while another key keeps it until it is
acknowledged: the hash of Kombu, by its delivery tag, or a list to which it was moved.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model.places import Removal, Waiting
from harness.run.queue_broker import Message
from harness.run.queue_journal import StrangeJournalError
from lostack_redis.content import of_entry, of_unacknowledged, of_value
from lostack_redis.reading import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lostack_redis.content import Content

    Words = Sequence[bytes]
_FIRST: Final = {b"0": b"0-0", b"-": b"0-0"}


@dataclass(slots=True, eq=False)
class _Copy:
    name: str
    born: bytes
    content: Content
    at: bytes | None
    """The key that has it; null: none."""
    why: Removal = Removal.ACK

    def go(self, why: Removal) -> None:
        self.at, self.why = None, why


@dataclass(slots=True)
class _Group:
    """A group of a stream: the last entry that it was given, and those that are pending."""

    last: tuple[int, int]
    pending: set[bytes] = field(default_factory=set)

    def waiting(self, entry: bytes) -> Waiting | None:
        if entry in self.pending:
            return Waiting.IN_FLIGHT
        return Waiting.READY if _number(entry) > self.last else None


class KeyContents:
    """What the keys of a server hold after some commands."""

    def __init__(self) -> None:
        self.copies: list[_Copy] = []
        self._streams: dict[bytes, dict[bytes, _Copy]] = {}
        self._groups: dict[bytes, dict[bytes, _Group]] = defaultdict(dict)
        self._lists: dict[bytes, list[_Copy]] = defaultdict(list)
        self._tags: dict[bytes, _Copy] = {}
        self._strange: dict[bytes, str] = {}

    def do(self, place: str, said: Words) -> None:
        """Do what the command at a place of the file has done."""
        act = KeyContents.acts.get(said[0].upper())
        if act is not None:
            act(self, place, said)
        elif len(said) > 1:
            told = f"at {place}: lostack cannot follow {said[0].decode('ascii', 'replace')}"
            self._strange.setdefault(said[1], told)

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a stream or a list has had.

        Raises:
            StrangeJournalError: a command did to it what lostack does not know.
        """
        name = queue.encode()
        if name in self._strange:
            raise StrangeJournalError(self._strange[name])
        return tuple(_told(each, self.waits(each)) for each in self.copies if each.born == name)

    def waits(self, copy: _Copy) -> Waiting | None:
        """Return what a copy waits for. An entry waits while one of its stream's groups has not
        done with it.
        """
        if copy.at is None:
            return None
        if copy.born not in self._streams:
            return Waiting.READY if copy.at == copy.born else Waiting.IN_FLIGHT
        groups = self._groups[copy.born].values()
        entry = copy.name.rpartition(":")[2].encode()
        found = {each.waiting(entry) for each in groups} if groups else {Waiting.READY}
        return next((each for each in (Waiting.READY, Waiting.IN_FLIGHT) if each in found), None)

    # -- streams -----------------------------------------------------------------------------------

    def xadd(self, _: str, said: Words) -> None:
        """Add an entry, and trim the stream if that is asked for."""
        entry, fields = entry_of(said)
        if entry is not None:
            name = f"{said[1].decode('utf-8', 'replace')}:{entry.decode()}"
            copy = _Copy(name, said[1], of_entry(fields), said[1])
            self.copies.append(copy)
            self._streams.setdefault(said[1], {})[entry] = copy
            self.xtrim("", said[: said.index(entry)])

    def xtrim(self, _: str, said: Words) -> None:
        """Remove the oldest entries."""
        limit = next((word for word in said[3:] if word[:1].isdigit()), None)
        there = [at for at, copy in self._streams.get(said[1], {}).items() if copy.at]
        if limit is None:
            return
        if b"MAXLEN" in [word.upper() for word in said[2:]]:
            gone = there[: max(0, len(there) - int(limit))]
        else:
            gone = [at for at in there if _number(at) < _number(limit)]
        self._remove(said[1], gone, Removal.RETENTION)

    def xdel(self, _: str, said: Words) -> None:
        """Remove entries by their ids."""
        self._remove(said[1], said[2:], Removal.PURGE)

    def _remove(self, key: bytes, entries: Iterable[bytes], why: Removal) -> None:
        """Remove entries. Those with which every group has done are acknowledged all the same."""
        for entry in entries:
            copy = self._streams.get(key, {}).get(entry)
            if copy is not None and copy.at is not None:
                copy.go(Removal.ACK if self.waits(copy) is None else why)

    def xgroup(self, _: str, said: Words) -> None:
        """Make a group, or set how far it was given."""
        what, key, name = said[1].upper(), said[2], said[3]
        there = self._streams.setdefault(key, {})
        if what in (b"CREATE", b"SETID"):
            newest = next(reversed(there), b"0-0")
            at = newest if said[4] == b"$" else _FIRST.get(said[4], said[4])
            old = self._groups[key].get(name)
            self._groups[key][name] = _Group(_number(at), old.pending if old else set())
        elif what == b"DESTROY":
            self._groups[key].pop(name, None)

    def xclaim(self, _: str, said: Words) -> None:
        """Let entries be pending: so the file says that a group was given them."""
        group, upper = self._groups[said[1]].get(said[2]), [word.upper() for word in said]
        if group is not None:
            group.pending.update(takewhile(lambda word: word[:1].isdigit(), said[5:]))
            if b"LASTID" in upper:
                last = _number(said[upper.index(b"LASTID") + 1])
                group.last = max(group.last, last)

    def xack(self, _: str, said: Words) -> None:
        """Let entries be pending no more."""
        if (group := self._groups[said[1]].get(said[2])) is not None:
            group.pending.difference_update(said[3:])

    # -- lists -------------------------------------------------------------------------------------

    def push(self, place: str, said: Words) -> None:
        """Put values into a list. One with a known delivery tag is given back."""
        for number, value in enumerate(said[2:]):
            content = of_value(value)
            copy = None if content.tag is None else self._tags.get(content.tag)
            if copy is None:
                copy = _Copy(f"{place}.{number}", said[1], content, said[1])
                self.copies.append(copy)
                if content.tag is not None:
                    self._tags[content.tag] = copy
            self._put(copy, said[1], left=said[0][:1].upper() == b"L")

    def _put(self, copy: _Copy, key: bytes, *, left: bool) -> None:
        copy.at = key
        self._lists[key].insert(0 if left else len(self._lists[key]), copy)

    def pop(self, _: str, said: Words) -> None:
        """Take values off a list: nothing keeps them."""
        for _each in range(int(said[2]) if said[2:] else 1):
            self._off(said[1], left=said[0][:1].upper() == b"L")

    def _off(self, key: bytes, *, left: bool) -> _Copy | None:
        if not self._lists[key]:
            return None
        copy = self._lists[key].pop(0 if left else -1)
        copy.go(Removal.ACK)
        return copy

    def move(self, _: str, said: Words) -> None:
        """Move a value to another list."""
        ways = [word.upper() == b"LEFT" for word in said[3:5]] or [False, True]
        if (copy := self._off(said[1], left=ways[0])) is not None:
            self._put(copy, said[2], left=ways[1])

    def lrem(self, _: str, said: Words) -> None:
        """Remove values from a list: of those that are equal, so many."""
        count, there = int(said[2]), self._lists[said[1]]
        same = [copy for copy in there if copy.content == of_value(said[3])]
        for copy in same[count:] if count < 0 else same[: count or None]:
            there.remove(copy)
            copy.go(Removal.ACK)

    def hset(self, _: str, said: Words) -> None:
        """Keep messages until they are acknowledged."""
        for value in said[3::2]:
            if (copy := self._tags.get(of_unacknowledged(value).tag or b"")) is not None:
                copy.at = said[1]

    def hdel(self, _: str, said: Words) -> None:
        """Acknowledge messages."""
        for tag in said[2:]:
            if tag in self._tags and self._tags[tag].at == said[1]:
                self._tags[tag].go(Removal.ACK)

    def delete(self, _: str, said: Words) -> None:
        """Remove whole keys. A list or a hash that is empty is removed without a word."""
        for copy in self.copies:
            if copy.at in said[1:]:
                copy.go(Removal.PURGE)
        for key in said[1:]:
            self._lists.pop(key, None)
            self._groups.pop(key, None)

    acts: ClassVar[dict[bytes, Callable[[KeyContents, str, Words], None]]] = {
        b"XADD": xadd,
        b"XTRIM": xtrim,
        b"XDEL": xdel,
        b"XGROUP": xgroup,
        b"XCLAIM": xclaim,
        b"XACK": xack,
        **dict.fromkeys((b"LPUSH", b"RPUSH"), push),
        **dict.fromkeys((b"LPOP", b"RPOP"), pop),
        **dict.fromkeys((b"LMOVE", b"RPOPLPUSH"), move),
        b"LREM": lrem,
        b"HSET": hset,
        b"HDEL": hdel,
        **dict.fromkeys((b"DEL", b"UNLINK"), delete),
    }


def _told(copy: _Copy, waiting: Waiting | None) -> Message:
    return Message(
        copy.name,
        copy.name,
        copy.content.body,
        copy.content.attempt,
        waiting=waiting,
        removed=copy.why if waiting is None else None,
        origin=copy.content.origin,
    )


def _number(entry: bytes) -> tuple[int, int]:
    """Return the two numbers of an entry's id.

    >>> _number(b"1700000000000-3"), _number(b"5")
    ((1700000000000, 3), (5, 0))
    """
    first, _, second = entry.partition(b"-")
    return int(first), int(second or 0)

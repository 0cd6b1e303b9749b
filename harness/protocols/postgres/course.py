"""What was asked of a server and is not answered yet, statement by statement; and what its answers say of that.

A server answers in order: a message each for every statement, and ReadyForQuery behind all that one Query, or one Sync, has
asked. An error takes the answers of all that stands before the next ReadyForQuery. What is asked is predicted, as a hold must
know a commit before it goes; what is answered confirms it, or contradicts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

C = TypeVar("C")
"""What stands for a commit that was asked for."""

IDLE: Final = b"I"
"""Of ReadyForQuery: there is no transaction block."""


@dataclass(slots=True)
class Cycle(Generic[C]):
    """All that is answered before one ReadyForQuery. ``commit``: what is committed at its very end."""

    asked: deque[tuple[bool, C | None]] = field(default_factory=deque)
    """Of each statement whether it was predicted to commit; and which commit its answer answers."""
    commit: C | None = None
    in_block: bool = False
    """Whether a transaction block is predicted to be open behind it."""
    sure: bool = True
    """Whether it is known what was asked, and in which state the server was to be then."""
    failed: bool = False


@dataclass(slots=True)
class Said(Generic[C]):
    """What an answer says: the ``commits`` that it answers and their ``outcome``, and what it contradicts."""

    commits: list[C] = field(default_factory=list)
    outcome: str = ""
    because: str | None = None


class Course(Generic[C]):
    """One connection's."""

    def __init__(self) -> None:
        self.in_block = False
        """Whether a block is predicted to be open behind all that was asked."""
        self._cycles: deque[Cycle[C]] = deque()
        self._open: Cycle[C] | None = None

    # -- asking ---------------------------------------------------------------------------------------------------

    def begin(self) -> Cycle[C]:
        """Return the cycle that is being asked."""
        if self._open is None:
            self._open = Cycle()
            self._cycles.append(self._open)
        return self._open

    def end(self, commit: C | None = None) -> None:
        """From here on ReadyForQuery is to come, and with it the answer to a ``commit``."""
        cycle = self.begin()
        cycle.commit, cycle.in_block = commit, self.in_block
        self._open = None

    def unread(self) -> None:
        """Something was asked that nobody could read."""
        self.begin().sure = False

    # -- answers --------------------------------------------------------------------------------------------------

    def done(self, tag: bytes) -> Said[C]:
        """Take note that a statement is done; ``tag`` is what CommandComplete says, empty where another message ended it."""
        cycle = self._cycles[0] if self._cycles else None
        if cycle is None or not cycle.asked:
            unasked = tag == b"COMMIT" and (cycle is None or cycle.sure)
            return Said(because="a COMMIT was answered that nobody was seen to ask for" if unasked else None)
        commits, commit = cycle.asked.popleft()
        ended = {b"COMMIT": "committed", b"ROLLBACK": "rolled back"}.get(tag, "")
        if commits and not ended and cycle.sure:
            return Said(because=f"what was taken for a COMMIT was answered by {tag.decode('ascii', 'replace')}")
        if ended == "committed" and not commits and cycle.sure:
            return Said(because="what was not taken for a COMMIT was answered by COMMIT")
        return Said([commit], ended or "committed") if commit is not None else Said()

    def refused(self) -> Said[C]:
        """Take note of an error: nothing more of this cycle is done."""
        if not self._cycles:
            return Said()
        cycle = self._cycles[0]
        commits = [commit for _, commit in cycle.asked if commit is not None]
        if cycle.commit is not None:
            commits.append(cycle.commit)
        cycle.asked.clear()
        cycle.commit = None
        cycle.failed = True
        return Said(commits, "refused")

    def ready(self, status: bytes) -> Said[C]:
        """Take note that the server is ready, in a state: idle, in a block, or in one that has failed."""
        if not self._cycles:
            self.in_block = status != IDLE
            return Said()
        cycle = self._cycles.popleft()
        if self._open is cycle:  # an end that was not seen to be asked for
            self._open, cycle.sure = None, False
        in_block = status != IDLE
        because = None
        if cycle.sure and not cycle.failed and in_block is not cycle.in_block:
            because = "a transaction was predicted to be over, and is open" if in_block else "a transaction is over, unpredicted"
        if in_block is not cycle.in_block:  # what was asked since was asked of another state than was thought
            for later in self._cycles:
                later.sure = False
        if not self._cycles:
            self.in_block = in_block
        return Said([] if cycle.commit is None else [cycle.commit], "committed", because)

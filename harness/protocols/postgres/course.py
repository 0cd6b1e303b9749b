"""Tracks statements that a client has sent and the server has not answered, and matches the answers
to them.

A server answers in order: one message for each statement, and ReadyForQuery after all statements of
one Query or one Sync. After an error there are no more answers until the next ReadyForQuery.
Whether a message commits is predicted when it is sent, because a hold must know a commit before it
passes. The answer confirms or contradicts the prediction.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from harness.model.events import CommitOutcome

C = TypeVar("C")
"""What stands for a commit that was asked for."""

IDLE: Final = b"I"
"""Of ReadyForQuery: there is no transaction block."""


@dataclass(slots=True)
class Cycle(Generic[C]):
    """The statements that are answered before one ReadyForQuery. ``commit``: the commit at their
    end, if there is one.
    """

    asked: deque[tuple[bool, C | None]] = field(default_factory=deque)
    """Of each statement whether it was predicted to commit; and which commit its answer answers."""
    commit: C | None = None
    in_block: bool = False
    """Whether a transaction block is predicted to be open behind it."""
    sure: bool = True
    """Whether all statements could be read, and the server's state at their beginning is known."""
    failed: bool = False


@dataclass(slots=True)
class AnswerMeaning(Generic[C]):
    """The meaning of an answer: the ``commits`` that it answers, their ``outcome``, and what it
    contradicts.
    """

    commits: list[C] = field(default_factory=list)
    outcome: CommitOutcome | None = None
    because: str | None = None


class OpenStatements(Generic[C]):
    """The statements of one connection that are not answered yet."""

    def __init__(self) -> None:
        self.in_block = False
        """Whether a block is predicted to be open behind all that was asked."""
        self._cycles: deque[Cycle[C]] = deque()
        self._open: Cycle[C] | None = None

    # -- asking ------------------------------------------------------------------------------------

    def begin(self) -> Cycle[C]:
        """Return the cycle whose statements are being sent."""
        if self._open is None:
            self._open = Cycle()
            self._cycles.append(self._open)
        return self._open

    def end(self, commit: C | None = None) -> None:
        """End the cycle: the server will send ReadyForQuery next, and with it the answer to
        ``commit``, if given.
        """
        cycle = self.begin()
        cycle.commit, cycle.in_block = commit, self.in_block
        self._open = None

    def unread(self) -> None:
        """Record that a message was sent that could not be read."""
        self.begin().sure = False

    # -- answers -----------------------------------------------------------------------------------

    def done(self, tag: bytes) -> AnswerMeaning[C]:
        """Record that a statement is done. ``tag``: the text of CommandComplete; empty if another
        message ended the statement.
        """
        cycle = self._cycles[0] if self._cycles else None
        if cycle is None or not cycle.asked:
            unasked = tag == b"COMMIT" and (cycle is None or cycle.sure)
            return AnswerMeaning(
                because="the server answered a COMMIT that no client was seen to send"
                if unasked
                else None
            )
        commits, commit = cycle.asked.popleft()
        ended = {b"COMMIT": "committed", b"ROLLBACK": "rolled back"}.get(tag, "")
        if commits and not ended and cycle.sure:
            return AnswerMeaning(
                because=(
                    "a message that was predicted to commit was answered by "
                    f"{tag.decode('ascii', 'replace')}"
                )
            )
        if ended == "committed" and not commits and cycle.sure:
            return AnswerMeaning(
                because="a message that was not predicted to commit was answered by COMMIT"
            )
        return (
            AnswerMeaning([commit], CommitOutcome(ended or "committed"))
            if commit is not None
            else AnswerMeaning()
        )

    def refused(self) -> AnswerMeaning[C]:
        """Record an error: the server skips the rest of this cycle."""
        if not self._cycles:
            return AnswerMeaning()
        cycle = self._cycles[0]
        commits = [commit for _, commit in cycle.asked if commit is not None]
        if cycle.commit is not None:
            commits.append(cycle.commit)
        cycle.asked.clear()
        cycle.commit = None
        cycle.failed = True
        return AnswerMeaning(commits, CommitOutcome.REFUSED)

    def ready(self, status: bytes) -> AnswerMeaning[C]:
        """Record ReadyForQuery with its status: idle, in a transaction block, or in a
        failed block.
        """
        if not self._cycles:
            self.in_block = status != IDLE
            return AnswerMeaning()
        cycle = self._cycles.popleft()
        if self._open is cycle:  # an end that was not seen to be asked for
            self._open, cycle.sure = None, False
        in_block = status != IDLE
        because = None
        if cycle.sure and not cycle.failed and in_block is not cycle.in_block:
            because = (
                "a transaction is open, but was predicted to have ended"
                if in_block
                else "a transaction has ended, unpredicted"
            )
        if (
            in_block is not cycle.in_block
        ):  # what was asked since was asked of another state than was thought
            for later in self._cycles:
                later.sure = False
        if not self._cycles:
            self.in_block = in_block
        return AnswerMeaning(
            [] if cycle.commit is None else [cycle.commit], CommitOutcome.COMMITTED, because
        )

"""The changes of a consumer group whose members live, and the ability to make them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.model.scenario import Role


class Change(StrEnum):
    """What happens to the group."""

    JOINS = "joins"
    """Another member joins."""
    COMES_AND_GOES = "comes-and-goes"
    """Another member joins and, as soon as it has partitions, leaves in order."""
    LEAVES = "leaves"
    """The member that has the record is told to end (SIGTERM), and leaves in its own way."""
    OTHER_LEAVES = "other-leaves"
    """All other members are told to end."""
    PUT_OUT = "put-out"
    """The group puts out the member that has the record, which is not told."""
    OVERDUE = "overdue"
    """The member that has the record works for longer than its ``max.poll.interval``: its client
    leaves the group by itself.
    """


class Regrouping(Protocol):
    """Change a group whose members all live, while one of them has the target."""

    def prepare(self, role: Role, change: Change) -> None:
        """Start the member that is to join; its request to join is held."""

    def await_given(self) -> None:
        """Wait until the target has reached its member."""

    def withhold(self, role: Role) -> None:
        """Hold from now on what tells the member with the target that its group shares out anew."""

    def tell(self, *, answered: bool) -> None:
        """Let it learn that while its next position is on its way, or (``answered``) the answer."""

    def tell_at_once(self) -> None:
        """Let it learn that, and wait for a while until the target's partition is another's."""

    def begin(self, *, keep: bool = False) -> None:
        """Change the group. ``keep``: hold the first member's request to join again; put it out."""

    def await_moved(self) -> None:
        """Wait until the target's partition is assigned anew, or for a bounded time in vain."""

    def restore(self) -> None:
        """Let go what is held; start the members again that were told to end."""

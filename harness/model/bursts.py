"""Two requests of one client that are under way to one partition at the same time."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.model.scenario import Role


class Strike(StrEnum):
    """What is done when two requests are under way."""

    NOTHING = "nothing"
    """Both are answered, a little late."""
    SENDER_DIES = "sender-dies"
    """The broker has both; their sender is killed before it reads an answer."""
    ANSWERS_LOST = "answers-lost"
    """The broker has both; the connection is cut before an answer arrives."""
    REQUESTS_LOST = "requests-lost"
    """Neither arrives, and the connection is cut."""
    LOST_THEN_REFUSED = "lost-then-refused"
    """Likewise; when the first one is sent again, it is refused, in the broker's name, while the
    second is under way again.
    """
    FIRST_REFUSED = "first-refused"
    """The first one is refused, in the broker's name; the broker has the second."""
    BROKER_DIES = "broker-dies"
    """The broker is killed before it answers the first one."""


class Overlap(Protocol):
    """Wait until the requests of a client overlap."""

    def await_second(self, role: Role) -> bool:
        """Wait until the client has sent another request to the target's partition over the same
        connection, while the one with the target has no answer. Return whether it has.
        """

    def cut(self, role: Role) -> None:
        """Cut the connections of a role."""


class Backlog(Protocol):
    """Let records gather before their reader is there."""

    def await_gathered(self) -> None:
        """Wait until the first two thirds of the load are in the topic."""

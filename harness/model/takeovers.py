"""What happens to one of several brokers while a record of a pipeline is with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Turn(StrEnum):
    """What happens to the broker that the record's frame is for."""

    DIES = "dies"
    """It is killed with the frame. It comes back when others lead what it led."""
    DIES_AHEAD = "dies-ahead"
    """It has stored the record, and is killed before any follower has it."""
    HANDS_OVER = "hands-over"
    """Another replica leads, as after a reassignment or an election of preferred leaders. Nobody
    dies. The frame goes on to the old leader.
    """
    OVERTAKEN = "overtaken"
    """It has stored the record, and a follower that lags, but is in sync by the clock, leads."""
    SHORT = "short"
    """So many followers are killed that no further replica can be spared."""
    ROLLS = "rolls"
    """It is shut down (SIGTERM) and started again, and then all others in turn."""

    @property
    def stops(self) -> bool:
        """Whether a broker ends."""
        return self not in {Turn.HANDS_OVER, Turn.OVERTAKEN}

    @property
    def kills(self) -> bool:
        """Whether the broker that the frame is for is killed."""
        return self in {Turn.DIES, Turn.DIES_AHEAD}

    @property
    def ahead(self) -> bool:
        """Whether the broker must have the record, and no follower."""
        return self in {Turn.DIES_AHEAD, Turn.OVERTAKEN}


@dataclass(frozen=True, slots=True)
class Led:
    """A log that several servers keep copies of, as the broker says. ``leader``: empty, if it has
    none; ``replicas``: the servers with a copy; ``behind``: those of them that are not in sync.
    """

    log: str
    leader: str
    replicas: tuple[str, ...]
    behind: tuple[str, ...] = ()


class OneOfSeveral(Protocol):
    """A broker of several."""

    @property
    def name(self) -> str:
        """The broker's name in the cell."""

    def kill(self) -> None:
        """Send SIGKILL, and wait until the broker is reaped."""

    def end(self) -> None:
        """Send SIGTERM, and wait until the broker has handed over its partitions and has ended."""

    def restart(self) -> None:
        """Start the broker again, and wait until it listens."""


class Takeover(Protocol):
    """Take from the broker that the target's frame is for what it leads."""

    def begin(self) -> None:
        """Find that broker, and write down what it leads."""

    def struck(self) -> OneOfSeveral:
        """Return that broker."""

    def restart_others(self) -> None:
        """Shut each other broker down in order and start it again, one after the other."""

    def followers(self) -> Sequence[OneOfSeveral]:
        """Return brokers that follow that one: so many that the others are too few without them."""

    def hold_copies(self) -> None:
        """Keep what has the target from the broker's followers, until the controls are
        disarmed.
        """

    def await_ahead(self) -> None:
        """Wait until the broker has stored the target, and has acknowledged it if that does not
        wait for followers.
        """

    def await_short(self) -> None:
        """Wait until the followers are out of sync, and too few are left."""

    def await_refused(self) -> None:
        """Wait until the target's sender knows that it was not taken, because too few replicas are
        in sync, and let as many be needed as before.
        """

    def elect(self) -> None:
        """Make other replicas the leaders of what the broker leads, and wait until they lead."""

    def await_taken_over(self) -> None:
        """Wait until other replicas lead what the broker led."""

    def await_in_sync(self) -> None:
        """Wait until all replicas are in sync again, and write down who leads."""

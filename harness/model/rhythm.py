"""Rhythm: how soon behind a delivery a stage saves its position, as a run without a fault shows it;
and how long to wait for a commit that follows the same rhythm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PROMPT_S: Final = 0.5
"""A stage whose positions follow its deliveries within this time (seconds) commits behind its work.
Others may commit by a clock.
"""
LEAST_S: Final = 2.0
"""The shortest wait (seconds) for the commit of a prompt stage."""
CLOCK_S: Final = 6.0
"""The shortest wait (seconds) for a commit, or a producer's mark, by a clock. Most clients commit
every 5 s by default, and a short run may not show a whole interval.
"""
LONG_S: Final = 5.5
"""A stage that commits less often (seconds) has an interval of more than 5 s."""
SESSION_S: Final = 45.0
"""The session time-out of a group whose members name none: the default of clients and brokers."""
TWICE: Final = 2


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a stage saved its position. ``commits_s``: the longest time that a commit was due, while
    a record was given that it covers; ``None``: none was seen. ``session_s``: its group's session
    time-out. ``works_s``: the time that one record took, on average. ``incessant``: the requests,
    each with the server it goes to, that it goes on making when it has no record in hand; and from
    which size on (bytes) a request is none of these, for only larger ones came with records
    (``None``: none of them was larger). ``poll_s``: how long its group waits for a member in a
    rebalance, which is its client's ``max.poll.interval``; ``None``: it said nothing of it.
    """

    commits_s: float | None = None
    session_s: float = SESSION_S
    works_s: float = 0.0
    incessant: Mapping[tuple[str, str], int | None] = field(default_factory=dict)
    poll_s: float | None = None

    @property
    def within_s(self) -> float:
        """Return how long a commit that covers a held record may take: twice its interval, and at
        most half the session, so that the group keeps its member.

        >>> Rhythm(0.02).within_s, Rhythm(1.2).within_s, Rhythm(4.5).within_s
        (2.0, 6.0, 9.0)
        >>> Rhythm(4.5, session_s=10.0).within_s
        5.0
        """
        seen = self.commits_s or 0.0
        least = LEAST_S if seen <= PROMPT_S else CLOCK_S
        return min(max(TWICE * seen, least), self.session_s / 2)

    @property
    def is_long(self) -> bool:
        """Whether its commits come by a clock of more than 5 s."""
        return (self.commits_s or 0.0) > LONG_S

    @property
    def quiet_s(self) -> float:
        """Return how long a stage without work in hand does nothing, in seconds.

        >>> Rhythm(works_s=0.02).quiet_s, Rhythm(works_s=0.4).quiet_s, Rhythm(works_s=60.0).quiet_s
        (0.3, 0.8, 3.0)
        """
        return min(max(TWICE * self.works_s, 0.3), 3.0)


UNSEEN: Final = Rhythm()

"""Find in a history which moments of a record each stage has had, and at which step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model import events as kinds
from harness.pipelines.dialects import Moment
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

About: TypeAlias = (
    kinds.Sent | kinds.ProduceAnswer | kinds.Fetched | kinds.Acknowledged | kinds.Ending
)
"""A line about a record."""
_ANSWERED: Final[Mapping[type[About], tuple[Moment, ...]]] = {
    kinds.Acknowledged: (Moment.ACKNOWLEDGEMENT_ANSWER,),
    kinds.Ending: (Moment.COMMIT_ANSWER, Moment.SESSION_COMMIT_ANSWER),
}
"""What a line says if it has an outcome: it is of an answer."""
_SAID: Final[Mapping[type[About], tuple[Moment, ...]]] = {
    kinds.Sent: (Moment.SEND,),
    kinds.ProduceAnswer: (Moment.SEND_ANSWER,),
    kinds.Fetched: (Moment.DELIVERY,),
    kinds.Acknowledged: (Moment.ACKNOWLEDGEMENT,),
    kinds.Ending: (Moment.COMMIT, Moment.SESSION_COMMIT),
}
_ANSWERS: Final = frozenset(
    {
        Moment.SEND_ANSWER,
        Moment.ACKNOWLEDGEMENT_ANSWER,
        Moment.COMMIT_ANSWER,
        Moment.SESSION_COMMIT_ANSWER,
    }
)
TOLD: Final = (*_SAID,)
"""The kinds of the lines that are about a record."""


def moments_in(
    lines: Iterable[About], frames: Iterable[kinds.Frame]
) -> dict[str, dict[Moment, str]]:
    """Return, for each role, the moments that were seen of a record, each with its step's label.

    The label is empty if the line does not name its frame.
    """
    roles: dict[int | None, str] = {}
    labels: dict[tuple[str, str], str] = {}
    for frame in frames:
        roles[frame.conn] = str(frame.role)
        labels[f"{frame.conn}:{frame.corr}", str(frame.dir)] = str(frame.api)
    found: dict[str, dict[Moment, str]] = {}
    for line in lines:
        request, conn = _asked_on(line)
        answered = isinstance(line, kinds.Acknowledged | kinds.Ending) and line.outcome is not None
        for moment in (_ANSWERED if answered else _SAID)[type(line)]:
            way = Direction.RESPONSE if moment in _ANSWERS else Direction.REQUEST
            label = labels.get((request, str(way)), "")
            found.setdefault(roles.get(conn, ""), {})[moment] = label
    return found


def _asked_on(line: About) -> tuple[str, int | None]:
    """Return the request that a line names, and its connection."""
    if isinstance(line, kinds.Fetched):
        return "", line.conn
    request = line.request or ""
    return request, int(request.partition(":")[0])

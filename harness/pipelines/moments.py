"""Find in a history which moments of a record each stage has had, and at which step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.pipelines.dialects import Moment
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.history import Event

_ANSWERED: Final[Mapping[str, tuple[Moment, ...]]] = {
    kinds.ACKNOWLEDGED: (Moment.ACKNOWLEDGEMENT_ANSWER,),
    kinds.ENDING: (Moment.COMMIT_ANSWER, Moment.SESSION_COMMIT_ANSWER),
}
"""What a line says if it has an outcome: it is of an answer."""
_SAID: Final[Mapping[str, tuple[Moment, ...]]] = {
    kinds.SENT: (Moment.SEND,),
    kinds.PRODUCE_ANSWER: (Moment.SEND_ANSWER,),
    kinds.FETCHED: (Moment.DELIVERY,),
    kinds.ACKNOWLEDGED: (Moment.ACKNOWLEDGEMENT,),
    kinds.ENDING: (Moment.COMMIT, Moment.SESSION_COMMIT),
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


def moments_in(lines: Iterable[Event], frames: Iterable[Event]) -> dict[str, dict[Moment, str]]:
    """Return, for each role, the moments that were seen of a record, each with its step's label.

    The label is empty if the line does not name its frame.
    """
    roles: dict[int, str] = {}
    labels: dict[tuple[str, str], str] = {}
    for frame in frames:
        roles[frame["conn"]] = frame["role"]
        labels[f"{frame['conn']}:{frame['corr']}", frame["dir"]] = frame["api"]
    found: dict[str, dict[Moment, str]] = {}
    for line in lines:
        request = line.get("request", "")
        conn = line["conn"] if "conn" in line else int(request.partition(":")[0])
        answered = line["event"] in _ANSWERED and line["outcome"] is not None
        for moment in (_ANSWERED if answered else _SAID)[line["event"]]:
            way = Direction.RESPONSE if moment in _ANSWERS else Direction.REQUEST
            label = labels.get((request, str(way)), "")
            found.setdefault(roles.get(conn, ""), {})[moment] = label
    return found

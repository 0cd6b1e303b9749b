"""Which member of a consumer group has which partitions, in both group protocols: the history lines
of what brokers answer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.protocols.kafka import sharing
from harness.protocols.kafka.grouping import InGroup, InGroupAnswer
from harness.protocols.kafka.insights import Insight
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.protocols.kafka.grouping import Content, Partitions

CLASSIC: Final = frozenset({Api.JOIN_GROUP, Api.SYNC_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP})
APIS: Final = CLASSIC | {Api.CONSUMER_GROUP_HEARTBEAT}


def about(content: Content, asked: Insight, request: str) -> Insight:
    """Return what a frame of a classic group is about."""
    error = content.error or None if isinstance(content, InGroupAnswer) else None
    return Insight(asked.subject, error, content=content, request=request)


def lines(
    content: object, asked: Insight, api: str, conn: int, names: Mapping[str, str]
) -> tuple[kinds.GroupMember, ...]:
    """Return what an answer says of a member, as a history line. A heartbeat that changes nothing
    has none. ``names``: of topics that are known by their ids.
    """
    before = asked.content
    if not isinstance(content, InGroupAnswer | sharing.MemberAnswer) or not isinstance(
        before, InGroup | sharing.Member
    ):
        return ()
    leaves = before.leaves if isinstance(before, InGroup) else before.epoch < 0
    generation = content.generation if isinstance(content, InGroupAnswer) else content.epoch
    if generation is None and isinstance(before, InGroup):
        generation = before.generation
    assigned = () if leaves else content.assigned
    if assigned is None and not content.error and api != Api.JOIN_GROUP:
        return ()
    told = kinds.GroupMember(
        conn=conn,
        request=asked.request,
        api=api,
        group=before.group,
        member=content.member or before.member,
        generation=generation,
        error=content.error,
        owned=_named(before.owned if isinstance(before, InGroup) else None, names),
        assigned=_named(None if content.error else assigned, names),
        instance=before.instance if isinstance(before, InGroup) else None,
        poll_ms=before.poll_ms,
        assignor=content.assignor if isinstance(content, InGroupAnswer) else None,
    )
    return (told,)


def facts(lines: Iterable[kinds.GroupMember]) -> dict[str, tuple[str, ...]]:
    """Return what is known of an answer with these lines while it is held: the partitions that it
    assigns.
    """
    told = next((e for e in lines if e.assigned is not None and e.api != Api.LEAVE_GROUP), None)
    return {} if told is None or told.assigned is None else {"assigned": told.assigned}


def _named(partitions: Partitions | None, names: Mapping[str, str]) -> tuple[str, ...] | None:
    if partitions is None:
        return None
    return tuple(f"{names.get(topic, topic)}/{partition}" for topic, partition in partitions)

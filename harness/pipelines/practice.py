"""What the wire saw of a pipeline's settings, so that advice fits what its programs do already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.scenario import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.history import Event

ALL = -1
"""``acks=all`` in a request."""
_OFFSETS_IN_TRANSACTION = frozenset({"TxnOffsetCommit", "AddOffsetsToTxn"})


@dataclass(frozen=True, slots=True)
class ClientPractice:
    """The settings of a pipeline's clients that their requests showed; empty where none did.

    ``acks`` and ``committed_only`` (``isolation.level=read_committed``): by role, all values that
    were seen. ``idempotent``, ``transactional``: the roles of which a record was sent so.
    ``offsets_sent``: the roles that sent positions in a transaction.
    """

    acks: Mapping[str, frozenset[int]] = field(default_factory=dict)
    committed_only: Mapping[str, frozenset[bool]] = field(default_factory=dict)
    idempotent: frozenset[str] = frozenset()
    transactional: frozenset[str] = frozenset()
    offsets_sent: frozenset[str] = frozenset()

    def asks_for_all(self, role: str) -> bool:
        """Whether every request with records of a role asked for the answer of all replicas.

        An idempotent producer can ask for nothing less; older histories do not say ``acks``.
        """
        return self.acks.get(role, frozenset()) == {ALL} or (
            role not in self.acks and role in self.idempotent
        )

    def less(self, role: str) -> int | None:
        """Return the least ``acks`` that a role asked for, if that is less than all."""
        return min((acks for acks in self.acks.get(role, ()) if acks != ALL), default=None)


UNSEEN = ClientPractice()


def practice_of(events: Iterable[Event]) -> ClientPractice:
    """Return what the requests in a history show. It needs the events *frame* and *sent*."""
    acks: dict[str, set[int]] = {}
    committed: dict[str, set[bool]] = {}
    roles: dict[object, str] = {}
    idempotent: set[str] = set()
    transactional: set[str] = set()
    offsets: set[str] = set()
    for event in events:
        if isinstance(event, kinds.Frame):
            role = roles[event.conn] = str(event.role)
            if event.acks is not None and event.records:
                acks.setdefault(role, set()).add(event.acks)
            if event.committed_only is not None:
                committed.setdefault(role, set()).add(event.committed_only)
            if event.api in _OFFSETS_IN_TRANSACTION:
                offsets.add(role)
        elif isinstance(event, kinds.OfSend):
            conn = event.request.partition(":")[0]
            sender = roles.get(int(conn) if conn.isdecimal() else conn, str(Role.PRODUCER))
            if event.producer_id not in (-1, None):
                idempotent.add(sender)
            if event.transactional:
                transactional.add(sender)
    return ClientPractice(
        {role: frozenset(found) for role, found in acks.items()},
        {role: frozenset(found) for role, found in committed.items()},
        frozenset(idempotent),
        frozenset(transactional),
        frozenset(offsets),
    )

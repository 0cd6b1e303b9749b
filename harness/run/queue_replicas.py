"""A broker of queues that is several servers, as its cells ask it: who leads, and what each has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from harness.model.failures import CellFailure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.model.scenario import Role
    from harness.model.takeovers import Led
    from harness.run.queue_served import Server
    from harness.run.served import ServedNode

T = TypeVar("T")


def of_most(copies: Sequence[Sequence[T]]) -> list[T]:
    """Return what most of several copies of a log have, each the same.

    >>> of_most([[1, 2, 3], [1, 2], [1, 4]])
    [1, 2]
    """
    has = Counter(each for copy in copies for each in dict.fromkeys(copy))
    return [each for each, copies_with in has.items() if copies_with > len(copies) // 2]


@runtime_checkable
class Replicates(Protocol):
    """A broker of several servers. A queue has a log, whose name is its own; what its readers have
    acknowledged may be a further log, with a leader of its own
    (:func:`~harness.proofs.takeover.readers_of`).
    """

    @property
    def nodes(self) -> Sequence[ServedNode]:
        """Its servers, as processes."""

    @property
    def servers(self) -> Sequence[Server]:
        """Its servers."""

    def home(self, role: Role) -> Server:
        """Return the server to which programs of a role connect as long as it serves."""

    def led(self, queue: str) -> Sequence[Led]:
        """Return who leads the logs of a queue: its own, and that of its readers, if it has one.

        Raises:
            OSError: no server can tell.
        """

    def hand_over(self, led: Led, to: str | None = None) -> None:
        """Ask for another leader; ``to``: for this one, if the broker can be asked so.

        Raises:
            OSError: nobody takes the request.
        """

    def copies(self, queue: str, server: Server) -> Mapping[int, bytes]:
        """Return the messages in the files of one server, by their number in the queue's log."""


def replicating(broker: object) -> Replicates:
    """Return the broker as one of several servers.

    Raises:
        CellFailure: it is none.
    """
    if isinstance(broker, Replicates):
        return broker
    raise CellFailure(f"{type(broker).__name__} is no broker of several servers (Replicates)")

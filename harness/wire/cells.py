"""The open cells, and which of them a client belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.history import HistoryError, HistoryWriter
from harness.wire.cell import WireCell
from harness.wire.messages import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from harness.model.identity import Identity
    from harness.wire.messages import Route

BY = "wire"
FOLLOWS = "#"
"""The separator in the name of a route to a server that an answer has named. Before it stands the
route by which the answer came, behind it the server's number.
"""
_INCARNATION_WORDS = 3


def incarnation(client: str) -> str:
    """Return the part of a client id of ours that names one process: ``<cell
    key>.<role>.<incarnation>``.

    >>> incarnation("3f9a2c1d.processor.2-restore-consumer"), incarnation("3f9a2c1d.processor.2")
    ('3f9a2c1d.processor.2', '3f9a2c1d.processor.2')
    """
    words = client.split(".", _INCARNATION_WORDS)
    if len(words) < _INCARNATION_WORDS:
        return client
    last = words[_INCARNATION_WORDS - 1]
    end = next((at for at, char in enumerate(last) if not char.isalnum()), len(last))
    return ".".join((*words[: _INCARNATION_WORDS - 1], last[:end]))


def base_of(route: str) -> str:
    """Return the name of the route whose answers led to this one; its own, if none did.

    >>> base_of("consumer#2"), base_of("consumer")
    ('consumer', 'consumer')
    """
    return route.partition(FOLLOWS)[0]


class Cells:
    """The open cells. A client belongs to a cell by the key in its client id, or by a route that
    the cell has claimed.
    """

    def __init__(self) -> None:
        self._cells: dict[str, WireCell] = {}
        self._by_key: dict[str, WireCell] = {}
        self._by_route: dict[str, WireCell] = {}

    def __iter__(self) -> Iterator[WireCell]:
        return iter(tuple(self._cells.values()))

    def of_client(self, client: str, route: Route) -> WireCell | None:
        """Return the cell that a client belongs to: the one that has claimed its route, else the
        one that the first word of its id names.
        """
        if not self._cells:
            return None
        return self._by_key.get(client.partition(".")[0]) or self.of_route(route.name)

    def process_of(self, client: str, route: Route | None = None) -> str:
        """Return the name of the process behind a client id. A foreign client's whole id is that
        name. On a route that a cell has claimed it is the route's role, because a program may have
        several clients and speak to several servers, and all of it dies together.
        """
        if route is not None and (cell := self.of_route(route.name)) is not None:
            return f"{route.role} of {cell.id}"
        return incarnation(client) if client.partition(".")[0] in self._by_key else client

    def of_route(self, name: str) -> WireCell | None:
        """Return the cell that has claimed a route, or the route whose answers led to it."""
        return self._by_route.get(name) or self._by_route.get(base_of(name))

    def say_refused(self, route: Route, conn: int, because: str) -> None:
        """Write to the history that a connection failed. While its cell is unknown, every cell gets
        the line.

        Raises:
            HistoryError: a history cannot be written.
        """
        claimed = self.of_route(route.name)
        told = kinds.Conn(
            phase=ConnPhase.REFUSED,
            because=because,
            conn=conn,
            role=route.role,
            node=route.node,
            client="",
        )
        for cell in (claimed,) if claimed else self:
            cell.write(told)

    def get(self, cell_id: str) -> WireCell:
        """Return a cell.

        Raises:
            WireError: the cell is not open.
        """
        try:
            return self._cells[cell_id]
        except KeyError:
            raise WireError(f"there is no open cell {cell_id}") from None

    def check(self, cell_id: str, key: str, routes: Iterable[str]) -> None:
        """Raise :class:`WireError` if such a cell cannot be opened."""
        if not key or "." in key:
            raise WireError(f"{key!r} cannot be a cell key: client ids are split at the first dot")
        if cell_id in self._cells or key in self._by_key:
            raise WireError(f"cell {cell_id} (key {key}) is open already")
        if taken := sorted(set(routes) & self._by_route.keys()):
            raise WireError(f"route {taken[0]} belongs to another cell")

    def open(
        self,
        cell_id: str,
        key: str,
        path: Path,
        routes: Iterable[str],
        identity: Identity | None,
        *,
        reads: bool = True,
    ) -> None:
        """Open a cell that :meth:`check` has accepted.

        Raises:
            WireError: its history cannot be written.
        """
        try:
            writer = HistoryWriter(path, cell=cell_id, by=BY)
        except HistoryError as error:
            raise WireError(str(error)) from error
        cell = WireCell(
            cell_id, key, routes=frozenset(routes), writer=writer, identity=identity, reads=reads
        )
        self._cells[cell_id] = self._by_key[key] = cell
        self._by_route.update(dict.fromkeys(cell.routes, cell))

    def close(self, cell: WireCell) -> None:
        """Close a cell and its history."""
        cell.close()
        del self._cells[cell.id]
        del self._by_key[cell.key]
        for name in cell.routes:
            del self._by_route[name]

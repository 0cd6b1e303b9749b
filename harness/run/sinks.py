"""The sink of a cell, for the harness: a resource, a check of the drain, and an authority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.model import events as kinds
from harness.model.places import log_fields
from harness.model.record import decode, decode_id
from harness.stages.sinks.opening import create_sink, open_sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.run.database import DatabaseServer
    from harness.run.scene import CellScene
    from harness.stages.sinks.interface import Sink


class SinkPart(Protocol):
    """The sink of a cell, for the harness."""

    def open(self) -> None:
        """Create the sink, and connect."""

    def close(self) -> None:
        """Disconnect."""

    def size(self) -> object:
        """Return a value that changes while results arrive."""

    def observe(self) -> None:
        """Write every result, and every absorbed copy, to the history."""


@dataclass(frozen=True, slots=True)
class Row:
    """One result. ``origin``: partition, epoch and offset of the copy from which it was made;
    ``NO_ORIGIN``: it names none.

    ``place``: the place of that copy, if it is in a queue; then there is no origin.
    """

    value: bytes | None
    key: str | None
    order: int
    origin: tuple[int, int, int]
    attempt: str | None = None
    place: str | None = None


NO_ORIGIN = (-1, -1, -1)


def origin_of(text: str | None) -> tuple[int, int, int]:
    """Return partition, epoch and offset from the text ``partition.epoch.offset``; ``NO_ORIGIN`` if
    there is no text.
    """
    if not text:
        return NO_ORIGIN
    partition, epoch, offset = (int(word) for word in text.split("."))
    return partition, epoch, offset


def recorded(scene: CellScene, row: Row) -> None:
    """Write one result to the history."""
    payload = decode(row.value)
    ours = payload is not None and payload.cell_key == scene.cell.key
    scene.history.write(
        kinds.Recorded(
            record=payload.record if payload and ours else None,
            key=row.key,
            order=row.order,
            intact=bool(payload and ours and payload.intact),
            attempt=row.attempt,
            **(log_fields(*row.origin) if row.place is None else {"place": row.place}),
        )
    )


class Database:
    """Results in a database: a file of the cell, or a database on a server, which programs reach
    through the wire.

    ``placed`` turns the broker's name of a copy in a queue into the copy's place; it is told the
    record, too, for brokers that have no such names.
    """

    def __init__(
        self,
        scene: CellScene,
        server: DatabaseServer | None = None,
        placed: Callable[[str, str | None], str | None] = lambda name, _: name,
    ) -> None:
        self._scene = scene
        self.server = server
        self._placed = placed
        self._open: Sink | None = None

    @property
    def name(self) -> str:
        """Empty: the results go to no topic or queue."""
        return ""

    @property
    def here(self) -> str:
        """The database's address for the harness, past the wire."""
        return (
            str(self._scene.directory / "sink.sqlite")
            if self.server is None
            else self.server.direct(self._scene.cell.key)
        )

    @property
    def there(self) -> str:
        """The database's address for the programs."""
        return self.here if self.server is None else self.server.by_wire(self._scene.cell.key)

    @property
    def sink(self) -> Sink:
        """The open connection to the database.

        Raises:
            RuntimeError: the sink is not open yet.
        """
        if self._open is None:
            raise RuntimeError("the sink is not open")
        return self._open

    def open(self) -> None:
        """Create the database, and connect."""
        if self.server is not None:
            self.server.create(self._scene.cell.key)
        create_sink(self.here)
        self._open = open_sink(self.here, name="observer")

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    def size(self) -> object:
        """Return the numbers of results and of absorbed copies."""
        return self.sink.size()

    def trouble(self) -> str | None:
        """Say how many open transactions may still change the database, or return ``None``."""
        left = self.sink.unsettled()
        return f"{left} transactions are open in the database" if left else None

    def observe(self) -> None:
        """Write every result and absorbed copy to the history; of a server also the open
        transactions, before and after.
        """
        self.observe_settled()
        for order, value, key, copy in self.sink.results():
            place = None if copy.name is None else self._placed(copy.name, decode_id(value))
            recorded(
                self._scene,
                Row(value, key, order, (copy.partition, copy.epoch, copy.offset), place=place),
            )
        for record, copy in self.sink.absorbed():
            in_log = log_fields(copy.partition, copy.epoch, copy.offset)
            where = in_log if copy.name is None else {"place": self._placed(copy.name, record)}
            self._scene.history.write(kinds.Absorbed(record=record, **where))
        self.observe_settled()

    def observe_settled(self) -> None:
        """Write to the history how many transactions are open in a server's database."""
        if self.server is not None:
            self._scene.history.write(kinds.Settled(open=self.sink.unsettled()))

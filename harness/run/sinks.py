"""The sink of a cell, for the harness: a resource, a check of the drain, and an authority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.model import events as kinds
from harness.model.places import log_fields
from harness.model.record import decode
from harness.stages.sinks.opening import create_sink, open_sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.run.database import DatabaseServer
    from harness.run.scene import CellScene
    from harness.stages.sinks.interface import Sink


class SinkPart(Protocol):
    """The sink of a cell, for the harness."""

    def open(self) -> None:
        """Make it, and connect."""

    def close(self) -> None:
        """Disconnect."""

    def size(self) -> Any:
        """Return a value that changes while results arrive."""

    def observe(self) -> None:
        """Write every result, and what was absorbed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One result. ``origin``: partition, epoch and offset of the copy that it is of; ``NO_ORIGIN``: it names none.

    ``place``: where that copy stood, or stands, in a queue; then there is no origin.
    """

    value: bytes | None
    key: str | None
    order: int
    origin: tuple[int, int, int]
    attempt: str | None = None
    place: str | None = None


NO_ORIGIN = (-1, -1, -1)


def origin_of(text: str | None) -> tuple[int, int, int]:
    """Return the copy that a result names in its origin, as ``partition.epoch.offset``."""
    if not text:
        return NO_ORIGIN
    partition, epoch, offset = (int(word) for word in text.split("."))
    return partition, epoch, offset


def recorded(scene: CellScene, row: Row) -> None:
    """Write one result."""
    payload = decode(row.value)
    ours = payload is not None and payload.cell_key == scene.cell.key
    scene.history.write(
        kinds.RECORDED, record=payload.record if payload and ours else None, key=row.key, order=row.order,
        intact=bool(payload and ours and payload.intact), attempt=row.attempt,
        **(log_fields(*row.origin) if row.place is None else {"place": row.place}),
    )  # fmt: skip


class Database:
    """Results in a database: a file of the cell, or one on a server, which its programs reach through the wire.

    ``placed`` returns the place in a queue of what its broker calls a copy.
    """

    def __init__(
        self, scene: CellScene, server: DatabaseServer | None = None, placed: Callable[[str], str] = lambda name: name
    ) -> None:
        self._scene = scene
        self.server = server
        self._placed = placed
        self._open: Sink | None = None

    @property
    def name(self) -> str:
        """No topic or queue."""
        return ""

    @property
    def here(self) -> str:
        """Where the harness finds it."""
        return str(self._scene.directory / "sink.sqlite") if self.server is None else self.server.direct(self._scene.cell.key)

    @property
    def there(self) -> str:
        """Where the programs find it."""
        return self.here if self.server is None else self.server.by_wire(self._scene.cell.key)

    @property
    def sink(self) -> Sink:
        """The connection.

        Raises:
            RuntimeError: the sink is not open yet.
        """
        if self._open is None:
            raise RuntimeError("the sink is not open")
        return self._open

    def open(self) -> None:
        """Make it, and connect."""
        if self.server is not None:
            self.server.create(self._scene.cell.key)
        create_sink(self.here)
        self._open = open_sink(self.here, name="observer")

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    def size(self) -> Any:
        """Return how many results there are, and how many copies were absorbed."""
        return self.sink.size()

    def trouble(self) -> str | None:
        """Say which transactions may still change it, or ``None``."""
        left = self.sink.unsettled()
        return f"{left} transactions are open in the database" if left else None

    def observe(self) -> None:
        """Write every result and every absorbed copy; of a server, how many transactions were open, before and after."""
        self.observe_settled()
        for order, value, key, copy in self.sink.results():
            place = None if copy.name is None else self._placed(copy.name)
            recorded(self._scene, Row(value, key, order, (copy.partition, copy.epoch, copy.offset), place=place))
        for record, copy in self.sink.absorbed():
            in_log = log_fields(copy.partition, copy.epoch, copy.offset)
            where = in_log if copy.name is None else {"place": self._placed(copy.name)}
            self._scene.history.write(kinds.ABSORBED, record=record, **where)
        self.observe_settled()

    def observe_settled(self) -> None:
        """Write how many transactions of a server's database are open."""
        if self.server is not None:
            self._scene.history.write(kinds.SETTLED, open=self.sink.unsettled())

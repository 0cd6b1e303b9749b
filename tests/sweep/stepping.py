"""The in-memory system with frames: a play whose requests can be named, and that is wrong at one of
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.stages.settings import PLAIN
from harness.sweep.pipelines import swept
from harness.sweep.settings import SweepSettings
from harness.sweep.sweeping import Sweep
from tests.memory.log import LogRun
from tests.memory.plants import Plant
from tests.memory.system import MemorySystem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.record import Record
    from harness.model.scenario import Deployment
    from tests.memory.play import Copy

PRODUCER, CONSUMER, AGAIN = 1, 2, 3
"""Their connections."""
RIGHT = Plant()


class SteppingRun(LogRun):
    """A play that writes the frames of each record: sent and answered, now and then a heartbeat,
    fetched, its position saved.
    """

    _corr = 0
    _life = 1
    """Which one its producer is of."""
    foreign = False
    """Whether its programs name themselves as programs of somebody else's do: no client says which
    incarnation it is.
    """

    def prepare(self) -> None:
        """As any; but a hit is that of the frame that was written last."""
        super().prepare()
        self._last: dict[str, object] = {}
        tell = self._scribe.tell

        def told(by: str, event: str, **fields: object) -> None:
            tell(by, event, **fields, **(self._last if event == kinds.RULE else {}))

        self._scribe.tell = told  # type: ignore[method-assign]

    def frame(
        self,
        role: str,
        api: str,
        way: str,
        conn: int,
        records: Sequence[str] = (),
        *,
        life: int = 1,
        **more: object,
    ) -> None:
        """Write the line of a frame. ``life``: which incarnation of its program it is of."""
        self._corr += 1
        about = {"records": list(records)} if records else {}
        self._last = {"conn": conn, "corr": self._corr, "dir": way}
        client = "app" if self.foreign else f"{self.cell.key}.{role}.{life}"
        self._scribe.tell(
            "wire", kinds.FRAME, role=role, api=api, client=client, **self._last, **about, **more
        )

    def _fire(self) -> None:
        """As any; a producer that was killed comes back, and asks for what nobody asks for without
        a fault.
        """
        super()._fire()
        if Role.PRODUCER in self.cell.scenario.fault.evidence().killed:
            self._life = 2
            for way in ("request", "response"):
                self.frame("producer", "InitProducerId", way, AGAIN, life=2)

    @property
    def _conn(self) -> int:
        return PRODUCER if self._life == 1 else AGAIN

    def _sent(self, record: Record, attempt: str) -> None:
        if not self._corr:
            self.frame("producer", "Metadata", "request", PRODUCER)
        self.frame("producer", "Produce", "request", self._conn, [record.id], life=self._life)
        super()._sent(record, attempt)
        self.frame(
            "producer", "Produce", "response", self._conn, [record.id], life=self._life, error=0
        )
        if (
            record.position + self.cell.seed + int(self.cell.key, 16)
        ) % 5 == 0:  # elsewhere in every run
            self.frame("consumer", "Heartbeat", "request", CONSUMER)

    def delivered(self, copy: Copy, *, again: bool = False) -> None:
        """Write the frames around it, too."""
        self.frame("consumer", "Fetch", "request", CONSUMER)
        self.frame("consumer", "Fetch", "response", CONSUMER, [copy.record], error=0)
        super().delivered(copy, again=again)
        self.frame("consumer", "OffsetCommit", "request", CONSUMER, [copy.record])
        self.frame("consumer", "OffsetCommit", "response", CONSUMER, [copy.record], error=0)


@dataclass(frozen=True)
class _Deployed:
    wrong: Callable[[Cell], Plant]
    foreign: bool = False

    def together(self, cells: Sequence[Cell]) -> None:
        """Share nothing."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> SteppingRun:
        """Return the play of a cell, wrong where it is to be."""
        play = SteppingRun(cell, directory, history, self.wrong(cell))
        play.foreign = self.foreign
        return play

    def check(self) -> None:
        """Find nothing."""

    def close(self) -> None:
        """Close nothing."""


class Stepping(MemorySystem):
    """``wrong`` says what is planted in a cell. ``foreign``: see :attr:`SteppingRun.foreign`."""

    def __init__(
        self, wrong: Callable[[Cell], Plant] = lambda _: RIGHT, *, foreign: bool = False
    ) -> None:
        super().__init__()
        self._wrong, self._foreign = wrong, foreign

    def deploy(self, need: Deployment, directory: Path) -> _Deployed:  # type: ignore[override]
        """Deploy nothing."""
        del need, directory
        return _Deployed(self._wrong, self._foreign)


class Quiet:
    """A progress that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.ran: list[str] = []

    def say(self, text: str) -> None:
        """Remember it."""
        self.said.append(text)

    def planned(self, cells: Any) -> None:
        """Nothing."""

    def began(self, cell: Any, directory: Path) -> None:
        """Nothing."""

    def ended(self, result: Any) -> None:
        """Remember it."""
        self.ran.append(result.plan.scenario)


def asked(**other: Any) -> SweepSettings:
    """Return what is asked for in these tests."""
    said = SweepSettings(
        f"{PLAIN}/{Semantic.AT_LEAST_ONCE}",
        "",
        1,
        12,
        1,
        (1, 1),
        "test",
        system="memory",
        acts=("kill", "lose"),
    )
    return replace(said, **other)


def sweep(directory: Path, wrong: Callable[[Cell], Plant] = lambda _: RIGHT, **other: Any) -> Sweep:
    """Return a sweep of the play, its plan written down."""
    of = asked(**other)
    of.save(directory)
    [base] = swept([of.what], of)
    return Sweep(directory, of, base, Stepping(wrong))

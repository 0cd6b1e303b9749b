"""In-memory systems that do one thing wrong each. The suite must be red with every one of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from harness.model.failures import EnvironmentFailure
from tests.memory.log import LogRun
from tests.memory.plants import Plant
from tests.memory.system import MemoryDeployed, MemorySystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment

_NUMBERS = itertools.count(1)
_LEFT: list[Callable[[], object]] = []
"""What ends that which is left on purpose."""


def tidy() -> None:
    """End what was left on purpose."""
    while _LEFT:
        _LEFT.pop()()


class WrongDeployed(MemoryDeployed):
    """A deployment whose cells run in a class of their own."""

    cell_class: ClassVar[type[LogRun]] = LogRun

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> LogRun:
        """Return the run of one cell."""
        return self.cell_class(cell, directory, history, self.plant)


class Wrong(MemorySystem):
    """A system that is wrong by itself, in its deployments, or in its cells."""

    plant = Plant()
    deployed_class: type[MemoryDeployed] = WrongDeployed

    def __init__(self) -> None:
        super().__init__(self.plant)

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy what is wrong."""
        return self.deployed_class(**vars(super().deploy(need, directory)))


def planted(name: str, plant: Plant) -> type[Wrong]:
    """Return a system that does what is planted."""
    return type(name, (Wrong,), {"plant": plant, "__module__": __name__})


def deployed(cls: type[MemoryDeployed]) -> type[Wrong]:
    """Return a system with such deployments."""
    return type(
        cls.__name__,
        (Wrong,),
        {"deployed_class": cls, "__doc__": cls.__doc__, "__module__": __name__},
    )


def cells(cls: type[LogRun]) -> type[Wrong]:
    """Return a system with such cells."""
    return deployed(
        type(cls.__name__, (WrongDeployed,), {"cell_class": cls, "__doc__": cls.__doc__})
    )


LOSING = {count: planted(f"Loses{count}", Plant(lose=count)) for count in (1, 2, 5)}
DOUBLING = {count: planted(f"Doubles{count}", Plant(duplicate=count)) for count in (1, 2, 5)}
StopsReading = planted("StopsReading", Plant(stop_reading=True))
IsUnhealthy = planted("IsUnhealthy", Plant(unhealthy=True))


# --- systems --------------------------------------------------------------------------------------


class TalksInParagraphs(Wrong):
    """What it says is more than a line."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Say two."""
        say("fetching\nand unpacking")


class PreparesOnce(Wrong):
    """What is there already is in its way."""

    _prepared = False

    def prepare(self, say: Callable[[str], None]) -> None:
        """Prepare, the first time."""
        super().prepare(say)
        if self._prepared:
            raise EnvironmentFailure("it is there already")
        self._prepared = True


class HasNoVersions(Wrong):
    """Nobody knows what took part."""

    def versions(self) -> dict[str, str]:
        """Return none."""
        return {}


class ChangesItsVersions(Wrong):
    """What took part is something else each time."""

    def versions(self) -> dict[str, str]:
        """Return another one."""
        return {"memory": str(next(_NUMBERS))}


class HasVersionsLater(Wrong):
    """Before it is prepared it cannot be asked what takes part."""

    def versions(self) -> dict[str, str]:
        """Refuse."""
        raise RuntimeError("prepare() comes first")


class TellsOfPaths(Wrong):
    """A folder that cannot be made is told in the words of the library."""

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Make the folder."""
        directory.mkdir(parents=True)
        return super().deploy(need, directory)


# --- deployments ----------------------------------------------------------------------------------


@deployed
class Complains(WrongDeployed):
    """It stands, and is said to have broken."""

    def check(self) -> None:
        """Say so."""
        raise EnvironmentFailure("the wire ended")


@deployed
class LeavesAProcess(WrongDeployed):
    """What is started for a cell goes on."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> LogRun:
        """Start something that nobody ends."""
        idle = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        _LEFT.append(idle.communicate)
        return super().cell_run(cell, directory, history)


@deployed
class EndsOnce(WrongDeployed):
    """To close it again is an error."""

    ended: ClassVar[set[int]] = set()

    def close(self) -> None:
        """Close it, the first time."""
        if id(self) in self.ended:
            raise RuntimeError("it is closed")
        self.ended.add(id(self))


# --- cells ----------------------------------------------------------------------------------------


@cells
class ServesTheLastOneOnly(LogRun):
    """A cell that comes takes the place of the one before, wherever that is."""

    last: ClassVar[list[LogRun]] = []

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.last[:] = [self]

    def observe(self) -> None:
        """See nothing, where another one has come."""
        if self.last != [self]:
            self._rows.clear()
        super().observe()


@cells
class SeesLessTheSecondTime(LogRun):
    """To look at the sink empties it."""

    def observe(self) -> None:
        """Look, and take it."""
        super().observe()
        self._rows.clear()


@cells
class KeepsItsFiles(LogRun):
    """A closed cell still has its files open."""

    def close(self) -> None:
        """Forget to."""
        _LEFT.append(super().close)


@cells
class ClosesOnce(LogRun):
    """To close it again is an error."""

    _closed = False

    def close(self) -> None:
        """Close it, the first time."""
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True
        super().close()


@cells
class ClosesWhatWasPrepared(LogRun):
    """Of a cell whose preparation has failed nothing is ended."""

    _prepared = False

    def prepare(self) -> None:
        """Prepare it."""
        super().prepare()
        self._prepared = True

    def close(self) -> None:
        """Close it, where it was prepared."""
        if self._prepared:
            super().close()
        else:
            _LEFT.append(super().close)


@cells
class LeavesAThread(LogRun):
    """What it has started to wait for its end waits on, where it is closed before."""

    _waits: threading.Thread | None = None

    def load(self) -> None:
        """Start to wait."""
        super().load()
        self._over = threading.Event()
        _LEFT.append(self._over.set)
        self._waits = threading.Thread(target=self._over.wait, name="waiting", daemon=True)
        self._waits.start()

    def observe(self) -> None:
        """Come to the end."""
        super().observe()
        if self._waits is not None:
            self._over.set()
            self._waits.join()


@cells
class WritesToNobody(LogRun):
    """That there is no room for its history does not trouble it."""

    def __init__(self, cell: Cell, directory: Path, history: Any, plant: Plant) -> None:
        history.fails_at = 0
        super().__init__(cell, directory, history, plant)

"""What a system declares of itself, and the interfaces by which the runner drives it. One page; all else is behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from harness.plugins import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Scenario


class CellRun(Protocol):
    """One cell on its way. The runner calls the steps in this order, and ``close`` whatever happens."""

    def prepare(self) -> None:
        """Make topics, source and sink, start what must be up before there is load, arm the fault."""

    def load(self) -> None:
        """Let the records flow."""

    def inject(self) -> None:
        """Wait (bounded) for the trigger, apply the fault, heal it. Returns where it never fires; the judge will see."""

    def drain(self) -> None:
        """Wait until everything is at rest, and write ``drain`` events: begun, then completed or failed with the stage."""

    def observe(self) -> None:
        """Write what the authorities say: offered, cursor, stored, log, counted, position, recorded, absorbed.

        Cursor and positions are asked first, then the sink, the log last. Of each log that :meth:`Cell.logs` names, every
        partition has its ``log`` line and every copy its ``stored`` one; each partition's position is written, -1 where none is.
        A queue has neither positions nor ends: each has its ``counted`` line, and what is gone a ``removed`` or ``moved`` one.
        To look changes nothing: asked again, they say the same.
        """

    def close(self) -> None:
        """End this cell's processes and free what it holds. Safe to call twice, and after any step or failure.

        What fails here keeps nothing else from its end; it is raised behind it.
        """


class Deployed(Protocol):
    """A running system: brokers up, wire in place."""

    def together(self, cells: Sequence[Cell]) -> None:
        """Take note of cells that come next, all at once.

        Their fault kills what they share once, when all are at their trigger.
        """

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell, which keeps its files below ``directory``."""

    def check(self) -> None:
        """Raise EnvironmentFailure where the ground under the cells has broken (a guardian or a wire has died)."""

    def close(self) -> None:
        """Stop it, and all that was started for it. Safe to call twice."""


class Launcher(Protocol):
    """A system under test in one runtime, as it is prepared and deployed."""

    name: str

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what is needed, once, however often it is called; ``say`` shows progress, a line each.

        Raises:
            EnvironmentFailure: something cannot be fetched.
        """

    def deploy(self, need: Deployment, directory: Path) -> Deployed:
        """Start a deployment; its logs go below ``directory``.

        Raises:
            EnvironmentFailure: the deployment does not start.
        """

    def versions(self) -> dict[str, str]:
        """Versions of everything that takes part, for the report; of what is not prepared yet, none."""


@runtime_checkable
class PreparesForCells(Protocol):
    """An ability of a launcher: to fetch what only some cells need."""

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> None:
        """Fetch what these cells need, once, after ``prepare``.

        Raises:
            EnvironmentFailure: something cannot be fetched.
        """


@runtime_checkable
class LimitsDeployments(Protocol):
    """An ability of a launcher: to say how many deployments are up at once for cells that have one to themselves."""

    own_at_once: int
    """Each is several programs that are busy when they start, and a machine has no use for more."""


@runtime_checkable
class TakesOneCell(Protocol):
    """An ability of a launcher: to say that its deployments take one cell at a time. Cells side by side have one each.

    It may be asked to deploy by several threads at once.
    """

    one_cell: bool
    """Whether it is so."""


def _none() -> Collection[str]:
    return ()


def _nothing(_cell: Cell) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class PointsLine:
    """A line of the table in which each system has the same failure points (:mod:`harness.matrix.points`)."""

    title: str
    """Which system, over which protocol."""
    pipeline: str
    client: str
    semantics: tuple[str, str, str]
    """What at-most-once, at-least-once and exactly-once are made of there."""
    scenarios: Mapping[str, str] = field(default_factory=dict)
    """The scenario at a point, where it is not called like the point."""


@dataclass(frozen=True, slots=True)
class System:
    """A system under test, as its package declares it (``about.py``): all that is known of it before anything is fetched.

    It must be cheap to import: what is heavy is named by :attr:`launcher`, or imported when it is called.
    """

    name: str
    launcher: str
    """``module:callable``: called with a runtime and a version (null: the default one), it returns a :class:`Launcher`."""
    clients: tuple[str, ...]
    """The clients it can be driven through; the first one is used where none is named."""
    runs: Callable[[Scenario], bool]
    """Whether it can run a scenario's pipeline, on what that needs under it."""
    abilities: Callable[[Cell], Collection[type]]
    """What a fault can ask of a cell beyond the eight verbs: members of :data:`harness.abilities.ABILITIES`."""
    runtimes: tuple[str, ...] = ("process",)
    versions: Callable[[], Collection[str]] = _none
    """The versions that can be chosen, as ``name==version``, besides the default one."""
    image: str = ""
    """The image that it is in containers, and whose version it has there; empty: there, too, it is made of what is fetched."""
    lacks: Callable[[Cell], str | None] = _nothing
    """Why a cell does not apply here, or on this machine, though theory has nothing against it; null: it does."""
    scenarios: str = ""
    """``module:tuple``: the scenarios of its own."""
    knowledge: str = ""
    """``module:object``: what only it tells the judge of its histories (:class:`~harness.judge.proof.Knowledge`)."""
    points: tuple[PointsLine, ...] = ()
    """Its lines in the table of the points that all have."""
    transport: str | None = None
    """The system that its records come through, where it has none of its own: that one is needed, too."""
    by_default: bool = False
    """Whether it is run where no system is named."""
    simulated: bool = False
    """Whether it is a play, that says nothing about any real system."""

    def launch(self, runtime: str, version: str | None = None) -> Launcher:
        """Return its launcher in a runtime, which it must have."""
        return cast("Launcher", load(self.launcher)(runtime, version))

"""The declaration of a system under test, and the interfaces through which the runner drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from harness.model.extras import require
from harness.plugins import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Scenario


class CellRun(Protocol):
    """The run of one cell. The runner calls the steps in this order, and ``close`` whatever
    happens.
    """

    def prepare(self) -> None:
        """Create topics, source and sink, start what must run before the load, and arm
        the fault.
        """

    def load(self) -> None:
        """Start the load: let the producer send the records."""

    def inject(self) -> None:
        """Wait (bounded) for the trigger, apply the fault and heal it.

        If the trigger never fires, the method returns as well, and the judge finds the cell void.
        """

    def drain(self) -> None:
        """Wait until everything is at rest, and write ``drain`` events: begun, then completed, or
        failed with the stuck stage.
        """

    def observe(self) -> None:
        """Write what the authorities say: offered, cursor, stored, log, counted, position,
        recorded, absorbed.

        The cursor and the positions are read first, then the sink, and the logs last. For each log
        that :meth:`Cell.logs` names, every partition has a ``log`` event and every copy of a record
        a ``stored`` event. Each partition has a ``position`` event, with -1 if none is saved. A
        queue has neither positions nor ends: it has a ``counted`` event, and each message that the
        broker removed or moved elsewhere has a ``removed`` or ``moved`` event. A second call writes
        the same again.
        """

    def close(self) -> None:
        """End this cell's processes and free its resources. Safe to call twice, and after any step
        or failure.

        If one part fails to close, the others are closed all the same, and the exception is raised
        at the end.
        """


class Deployed(Protocol):
    """A running system, with its brokers up and the wire in place."""

    def together(self, cells: Sequence[Cell]) -> None:
        """Announce the cells that run next, at the same time.

        If their fault kills something that they share, it is killed once, when all of them have
        reached their trigger.
        """

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell. Its files go below ``directory``."""

    def check(self) -> None:
        """Make sure that what the cells stand on still works.

        Raises:
            EnvironmentFailure: a guardian, a wire or a service has died.
        """

    def close(self) -> None:
        """Stop the system and everything that was started for it. Safe to call twice."""


class Launcher(Protocol):
    """Prepares and deploys a system under test in one runtime."""

    name: str

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what the system needs. Later calls do nothing. ``say`` shows progress, one line for
        each call.

        Raises:
            EnvironmentFailure: something cannot be fetched.
        """

    def deploy(self, need: Deployment, directory: Path) -> Deployed:
        """Start a deployment; its logs go below ``directory``.

        Raises:
            EnvironmentFailure: the deployment does not start.
        """

    def versions(self) -> dict[str, str]:
        """Return the versions of all programs that take part, for the report. What is not prepared
        yet is left out.
        """


@runtime_checkable
class PreparesForCells(Protocol):
    """A launcher that can fetch what only some cells need."""

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Fetch what only some of these cells need. Called after ``prepare``.

        Return, for the id of each cell that cannot run on this machine, what it lacks and what
        helps, in one line. These cells are void; all others run
        (:func:`harness.run.lacking.fetched_for`).

        Raises:
            EnvironmentFailure: something that all cells need cannot be fetched.
        """


@runtime_checkable
class LimitsDeployments(Protocol):
    """A launcher that limits how many deployments run at once for cells that each need
    their own.
    """

    own_at_once: int
    """The limit. A deployment is several programs that use much CPU when they start, so more of
    them at once save no time.
    """


@runtime_checkable
class TellsWhereItIs(Protocol):
    """A run of a cell that can tell how far it is. Another thread asks it."""

    def where(self) -> str:
        """Say what the run does at the moment, and how far it is."""


@runtime_checkable
class TakesSettings(Protocol):
    """A launcher whose brokers take settings of a user, by the broker's names for them."""

    settings: Mapping[str, str]


@runtime_checkable
class TakesOneCell(Protocol):
    """A launcher whose deployments may take one cell at a time. Cells that run at once then have a
    deployment each.

    Several threads may call ``deploy`` at once.
    """

    one_cell: bool
    """Whether each deployment takes one cell at a time."""


def _none() -> Collection[str]:
    return ()


def _any(_client: str, _version: str | None) -> None:
    return None


def _nothing(_cell: Cell) -> str | None:
    return None


def _here() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class PointsLine:
    """A line of the table that compares all systems at the same failure points
    (:mod:`harness.matrix.points`).
    """

    title: str
    """The system and its protocol, as shown in the table."""
    pipeline: str
    client: str
    semantics: tuple[str, str, str]
    """The settings that make at-most-once, at-least-once and exactly-once there, in this order."""
    scenarios: Mapping[str, str] = field(default_factory=dict)
    """The scenario of each point whose scenario has another name than the point."""


@dataclass(frozen=True, slots=True)
class System:
    """A system under test, as its package declares it (``about.py``): everything that is known
    before anything is fetched.

    The declaration must be quick to import. Heavy modules are named by :attr:`launcher`, or
    imported inside functions.
    """

    name: str
    launcher: str
    """``module:callable``: takes a runtime and a version (``None``: the default one) and returns a
    :class:`Launcher`.
    """
    clients: tuple[str, ...]
    """The client libraries that can talk to it. The first one is the default."""
    abilities: Callable[[Cell], Collection[type]]
    """The abilities that a cell of this system has for its fault: members of
    :data:`harness.abilities.ABILITIES`.
    """
    runs: Callable[[Scenario], bool] | None = None
    """Whether the system can run a scenario's pipeline in the deployment that the scenario needs.
    ``None``: it runs those of its own, and with another system as its transport only on one broker.
    """
    runtimes: tuple[str, ...] = ("process",)
    versions: Callable[[], Collection[str]] = _none
    """The versions that can be chosen, as ``name==version``, besides the default one."""
    client_versions: Callable[[str, str | None], Collection[str] | None] = _any
    """Takes a client and the version of the system (``None``: the default one). Returns the
    versions of the client that can be chosen, as ``client==version``; ``None``: any that the
    package index has.
    """
    image: str = ""
    """The image that containers of this system use, which also sets the version; empty: containers
    use the fetched files.
    """
    lacks: Callable[[Cell], str | None] = _nothing
    """Why this system cannot run a cell that theory allows; ``None`` if it can. What a machine
    lacks is no such reason.
    """
    scenarios: str = ""
    """``module:tuple``: the system's own scenarios."""
    corpus: str = ""
    """``module:tuple``: the published bugs of the system
    (:class:`~harness.scenarios.regressions.PublishedBug`), if a package brings it.
    """
    knowledge: str = ""
    """``module:object``: what the judge must know about this system's histories
    (:class:`~harness.judge.proof.Knowledge`).
    """
    points: tuple[PointsLine, ...] = ()
    """The system's lines in the table that compares all systems at the same failure points."""
    transport: str | None = None
    """The system that carries its records (such as ``kafka``), if it has no broker of its own. That
    system is started, too.
    """
    by_default: bool = False
    """Whether the system runs if the user names none."""
    simulated: bool = False
    """Whether the system is a simulation. Its results say nothing about any real system, and what
    it gives as its version is *simulated*.
    """
    extra: str = ""
    """The extra of lostack whose libraries the system needs; empty: none."""
    missing: Callable[[], str | None] = _here
    """Why the system cannot be started on this machine, in one line, if lostack does not fetch it;
    ``None``: it can. Asking is quick.
    """

    def can_run(self, scenario: Scenario) -> bool:
        """Return whether the system can run a scenario's pipeline in the deployment that the
        scenario needs.
        """
        if self.runs is not None:
            return self.runs(scenario)
        mine = scenario.pipeline.system == self.name
        return mine and not (self.transport and scenario.deployment.clustered)

    def launch(self, runtime: str, version: str | None = None) -> Launcher:
        """Return the system's launcher in a runtime. The runtime must be among :attr:`runtimes`.

        Raises:
            EnvironmentFailure: an extra that the system or the runtime needs is not installed.
        """
        if self.extra:
            require(self.extra, f"the system {self.name}")
        if runtime == "docker":
            require("docker", "--runtime docker")
        return cast("Launcher", load(self.launcher)(runtime, version))

"""The pytest plugin: scenarios as test cases.

A test that takes the fixture ``lostack_cell`` is called once for each cell. ``lostack_check(cell)``
fails the test, with the reason, if the cell is not green. The first test that needs a result starts
one run of all selected cells, several at a time. Under pytest-xdist every worker runs its cells one
by one; with ``--dist loadfile`` one worker has all cells of a file, and runs them as one run.

Options: ``--lostack-system NAME``, ``--lostack-runtime NAME``, ``--lostack-client NAME``,
``--lostack-seed N`` (may be repeated), ``--lostack-records N``, ``--lostack-jobs N``,
``--lostack-reports DIR``, ``--lostack-suite NAME``, ``--lostack-baseline FILE``. A case is skipped
only if its cell does not apply. A break that the baseline names is an expected failure
(``xfailed``). The summary at the end lists these breaks, and those that have become green.

``--lostack-contract PACKAGE`` runs none of the project's tests, but the suites of
:mod:`harness.contract` against an installed package of an engine.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.pytest_found import collected
from harness.pytest_pipelines import (
    MARK,
    generate,
    lostack_deliveries,
    lostack_delivery,
    lostack_kafka,
)
from harness.pytest_proxy import lostack_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from harness.model.cell import Cell
    from harness.report.breaks import KnownBreak
    from harness.saved import CellResult

__all__ = ["lostack_deliveries", "lostack_delivery", "lostack_kafka", "lostack_proxy"]
pytest.register_assert_rewrite("harness.contract")
RESULT = pytest.StashKey["CellResult"]()
_CELL = "lostack_cell"
_DIST = "lostack_dist"
"""Under what name pytest-xdist tells its workers how it distributes tests."""
_BY_FILE = "loadfile"
_BASELINE = "baseline"
"""The name of the property that marks a case whose cell is in the baseline."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add lostack's options to pytest."""
    group = parser.getgroup("lostack")
    group.addoption("--lostack-system", default=None, metavar="NAME", help="the system under test")
    group.addoption(
        "--lostack-runtime",
        default="process",
        metavar="NAME",
        help="where nodes live: process or docker",
    )
    group.addoption(
        "--lostack-client",
        default=None,
        metavar="NAME",
        help="the client, e.g. confluent-kafka==2.3.0",
    )
    group.addoption(
        "--lostack-seed",
        action="append",
        type=int,
        default=None,
        metavar="N",
        help="seed (may be repeated)",
    )
    group.addoption(
        "--lostack-records", type=int, default=None, metavar="N", help="records per cell"
    )
    group.addoption(
        "--lostack-jobs", type=int, default=3, metavar="N", help="cells that share a broker at once"
    )
    group.addoption("--lostack-suite", default="day", metavar="NAME", help="core, day or night")
    group.addoption(
        "--lostack-baseline",
        type=Path,
        default=None,
        metavar="FILE",
        help="known breaks: expected failures",
    )
    group.addoption(
        "--lostack-contract",
        default=None,
        metavar="PACKAGE",
        help="run the suites that an engine package keeps, against this installed package",
    )
    group.addoption(
        "--lostack-reports",
        type=Path,
        default=Path("reports"),
        metavar="DIR",
        help="where runs are written",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that cells carry; give a user without an account one."""
    from harness.provision.account import give_account  # noqa: PLC0415 - as below

    give_account()
    from harness.systems.listing import listed  # noqa: PLC0415 - the names alone: nothing of a system is imported

    for line in (
        *(f"{name}: a cell, or a test, of the system {name}" for name in listed()),
        "control: a cell that must be broken, as predicted",
        "postgres: a cell, or a test, that needs a PostgreSQL server on this machine",
        "semantic(name): the delivery semantic of a cell",
        f"{MARK}(file): the declared pipeline of a test that takes lostack_delivery",
    ):
        config.addinivalue_line("markers", line)
    if package := config.getoption("--lostack-contract"):
        from harness.pytest_contract import run_contract  # noqa: PLC0415 - only for those who use it

        run_contract(config, package)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist how tests are distributed."""
    node.workerinput[_DIST] = node.config.getoption("dist")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the scenario files (``*.lostack.toml``) that a project keeps."""
    return collected(file_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one case for each cell. A cell that does not apply gets a case that is skipped with the
    reason.
    """
    generate(metafunc)
    if _CELL in metafunc.fixturenames:
        cells = [_param(cell) for cell in _cells(metafunc.config)]
        metafunc.parametrize(_CELL, cells)


def _cells(config: pytest.Config) -> tuple[Cell, ...]:
    from harness import registry  # noqa: PLC0415 - only for those who use it
    from harness.matrix.selection import SelectionError, choose  # noqa: PLC0415
    from harness.model.cell import DEFAULT_RECORDS  # noqa: PLC0415
    from harness.model.failures import EnvironmentFailure  # noqa: PLC0415
    from harness.report.breaks import BaselineError  # noqa: PLC0415

    seeds = list(dict.fromkeys(config.getoption("--lostack-seed") or [1]))
    records = config.getoption("--lostack-records")
    records = DEFAULT_RECORDS if records is None else records
    try:
        system = config.getoption("--lostack-system")
        runtime = config.getoption("--lostack-runtime")
        client = config.getoption("--lostack-client")
        found = choose(
            registry.scenarios(),
            seeds=seeds,
            records=records,
            system=system,
            runtime=runtime,
            clients=[client] if client else (),
            suite=config.getoption("--lostack-suite"),
        )
        _baseline(config)
    except (SelectionError, registry.UnknownNameError, EnvironmentFailure, BaselineError) as error:
        raise pytest.Collector.CollectError(f"lostack: {error}") from error
    return found


def _baseline(config: pytest.Config) -> tuple[KnownBreak, ...]:
    """Return the known breaks from the baseline file. Raises BaselineError if it cannot be read."""
    from harness import registry  # noqa: PLC0415
    from harness.report.breaks import read_baseline  # noqa: PLC0415

    return read_baseline(config.getoption("--lostack-baseline") or registry.baseline())


def _param(cell: Cell) -> object:
    """Return the case of a cell. It has no time-out of its own: the first case waits for the whole
    run, which is bounded.
    """
    from harness import registry  # noqa: PLC0415
    from harness.model.scenario import Predicted  # noqa: PLC0415

    expectation = cell.expectation
    needs = registry.needed_by(cell.system)
    marks = [
        *(getattr(pytest.mark, name) for name in needs),
        pytest.mark.semantic(str(cell.semantic)),
        pytest.mark.timeout(0),
    ]
    if cell.scenario.pipeline.on_server and cell.runtime == "process":
        marks.append(pytest.mark.postgres)
    if because := registry.inapplicable(cell):
        marks.append(pytest.mark.skip(reason=f"n/a: {because}"))
    if isinstance(expectation, Predicted) and expectation.control:
        marks.append(pytest.mark.control)
    return pytest.param(
        cell,
        id=f"{cell.scenario.pipeline}/{cell.scenario.id}/{cell.semantic}/s{cell.seed}",
        marks=marks,
    )


class Results:
    """The results of a session. The first request runs all selected cells together."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._config = request.config
        found = [
            (cell, item.nodeid.partition("::")[0])
            for item in request.session.items
            if (cell := _cell_of(item))
        ]
        self._files = {cell.id: file for cell, file in found}
        cells = [cell for cell, _ in found]
        self._selected = [cell for cell in cells if _applies(cell)]
        self._others = [cell for cell in cells if not _applies(cell)]
        self._found: dict[str, CellResult] = {}
        self.baseline = _baseline(request.config)

    def of(self, cell: Cell) -> CellResult:
        """Return the result of a cell. Fails the test if the run ended before the cell ran."""
        if cell.id not in self._found:
            self._run([c for c in self._with(cell) if c.id not in self._found])
        if cell.id not in self._found:
            pytest.fail("the run ended before this cell", pytrace=False)
        return self._found[cell.id]

    def _with(self, cell: Cell) -> list[Cell]:
        """Return the cells that run together with a cell: those that no other worker of
        pytest-xdist has.
        """
        told = getattr(self._config, "workerinput", None)
        if told is None:
            return self._selected
        if told.get(_DIST) != _BY_FILE:
            return [cell]
        return [c for c in self._selected if self._files[c.id] == self._files[cell.id]]

    def _run(self, cells: list[Cell]) -> None:
        from harness.matrix.progress import make_progress  # noqa: PLC0415
        from harness.matrix.runner import RunPlan, run  # noqa: PLC0415
        from harness.matrix.selection import not_run, systems_of  # noqa: PLC0415
        from harness.model.exits import ExitCode  # noqa: PLC0415
        from harness.model.failures import EnvironmentFailure, traced  # noqa: PLC0415
        from harness.model.history import HistoryError  # noqa: PLC0415
        from harness.report.breaks import breaks_of  # noqa: PLC0415
        from harness.report.escaping import lines_shown, shown  # noqa: PLC0415
        from harness.report.renderers import write_reports  # noqa: PLC0415
        from harness.report.trend import append_run  # noqa: PLC0415
        from harness.report.writing import ReportError, append_step_summary, point_latest  # noqa: PLC0415

        plan = RunPlan(
            systems=systems_of(cells),
            cells=tuple(cells),
            not_applicable=tuple(not_run(cell) for cell in self._others),
            reports=self._config.getoption("--lostack-reports"),
            jobs=self._config.getoption("--lostack-jobs"),
            command="pytest",
            seeds=tuple(sorted({cell.seed for cell in cells})),
            records=cells[0].records,
        )
        capture = self._config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled(), make_progress(sys.stderr) as progress:
                saved = run(plan, progress)
            write_reports(saved)
        except (EnvironmentFailure, HistoryError, ReportError) as error:
            pytest.exit(f"lostack: {shown(str(error))}", returncode=ExitCode.ENVIRONMENT)
        except Exception as error:  # noqa: BLE001 - a defect of lostack is no scenario that failed
            pytest.exit(lines_shown(traced(error)), returncode=ExitCode.DEFECT)
        line = append_run(saved, breaks_of(saved, self.baseline))
        for warning in (line, point_latest(saved), append_step_summary(saved, os.environ)):
            if warning:
                warnings.warn(f"lostack: {shown(warning)}", stacklevel=2)
        if saved.info.interrupted:
            pytest.exit(
                f"lostack: interrupted; the report is PARTIAL: {saved.directory}",
                returncode=ExitCode.INTERRUPTED,
            )
        self._found |= {result.plan.id: result for result in saved.results}


@pytest.fixture(scope="session")
def lostack_results(request: pytest.FixtureRequest) -> Results:
    """Return the session's results."""
    return Results(request)


@pytest.fixture
def lostack_check(
    lostack_results: Results,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Callable[[Cell], CellResult]:
    """Return a function that runs a cell, adds its counts as JUnit properties, and fails the test
    if the cell is not green.
    """

    def check(cell: Cell) -> CellResult:
        from harness.report.escaping import shown  # noqa: PLC0415

        result = lostack_results.of(cell)
        request.node.stash[RESULT] = result
        for name, value in result.row().items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                record_property(name, value)
        known = next((entry for entry in lostack_results.baseline if entry.means(result)), None)
        if known is not None:
            record_property(_BASELINE, f"{known.cell} was {known.outcome}")
        if not result.verdict.green:
            if known is not None and known.explains(result):
                pytest.xfail(shown(f"known break: {known.because} ({result.verdict.reason})"))
            pytest.fail(_failure(result), pytrace=False)
        return result

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the duration of a case's own cell, instead of the duration of the whole run."""
    report = yield
    result = item.stash.get(RESULT, None)
    if result is not None and report.when == "call":
        report.duration = result.seconds
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the known breaks that were seen, and those that have vanished because every case of
    theirs is green.
    """
    met: dict[str, set[str]] = {}
    lines = []
    for outcome in ("passed", "failed", "xfailed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == _BASELINE:
                    met.setdefault(str(value), set()).add(outcome)
                    if outcome == "xfailed":
                        lines.append(f"{report.nodeid}: {getattr(report, 'wasxfail', '')}")
    lines += [
        f"vanished: {cell}, and is green now; take it out of the baseline"
        for cell, seen in met.items()
        if seen == {"passed"}
    ]
    if lines:
        terminalreporter.section("lostack: known breaks")
        for line in lines:
            terminalreporter.line(line)


def _cell_of(item: pytest.Item) -> Cell | None:
    """Return the cell of a case."""
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get(_CELL)


def _applies(cell: Cell) -> bool:
    from harness import registry  # noqa: PLC0415

    return registry.inapplicable(cell) is None


def _failure(result: CellResult) -> str:
    """Return the message of a failed case: the reason, and the command that runs its cell again."""
    from harness.report.escaping import shown  # noqa: PLC0415
    from harness.report.summary import rerun_line  # noqa: PLC0415

    lines = (
        f"{result.verdict.label}: {result.verdict.reason}",
        result.plan.because,
        f"again: {rerun_line(result.plan)}",
        f"saved: {result.directory}",
    )
    return "\n".join(shown(line) for line in lines)

"""Runs declared pipelines under pytest: one test case for each failure point of a project's own
pipeline.

In a project's test file, beside its ``pipeline.toml`` (or with a
:class:`harness.pipelines.Pipeline`)::

    @pytest.mark.lostack_pipeline("pipeline.toml")
    def test_delivery(lostack_delivery):
        lostack_delivery()

One broker serves the whole session (under pytest-xdist, each worker has its own). The first case of
a pipeline starts with a dry run, a run without a fault. If the dry run shows that the pipeline
never makes a case's request, the case is skipped with that reason. The project's ``conftest.py``
can choose another Kafka, for instance a cluster that is up already, by overriding the fixture
:func:`lostack_kafka`.
"""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import NotApplicable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.matrix.checking import Check
    from harness.matrix.listener import Progress
    from harness.model.scenario import Scenario
    from harness.pipelines import Pipeline
    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult, SavedRun
    from harness.systems.declared.system import DeclaredSystem

T = TypeVar("T")

MARK = "lostack_pipeline"
FIXTURE = "lostack_delivery"


def generate(metafunc: pytest.Metafunc) -> None:
    """Make one case for each failure point that applies to the pipeline's roles."""
    if FIXTURE not in metafunc.fixturenames:
        return
    from harness.pipelines import failure_points  # noqa: PLC0415 - only for those who use it
    from harness.pipelines.silences import is_long  # noqa: PLC0415

    pipeline = _declared(metafunc.definition)
    points = [
        point
        for point in failure_points(pipeline)
        if not _reason(pipeline, point) and not is_long(point)
    ]
    marks = [pytest.mark.kafka, pytest.mark.semantic(str(pipeline.claims)), pytest.mark.timeout(0)]
    cases = [
        pytest.param((pipeline, point.id), id=f"{pipeline.name}/{point.id}", marks=marks)
        for point in points
    ]
    metafunc.parametrize(FIXTURE, cases, indirect=True)


def _declared(item: pytest.Item) -> Pipeline:
    from harness.pipelines import DeclarationError, Pipeline, read_pipeline  # noqa: PLC0415
    from harness.systems.declared.fetchable import check_declared  # noqa: PLC0415

    mark = item.get_closest_marker(MARK)
    if mark is None or len(mark.args) != 1:
        raise pytest.Collector.CollectError(
            f"lostack: {item.name} takes {FIXTURE}: name its pipeline by @pytest.mark.{MARK}(file)"
        )
    try:
        found = (
            mark.args[0]
            if isinstance(mark.args[0], Pipeline)
            else read_pipeline(_beside(Path(item.path).parent, item.config.rootpath, mark.args[0]))
        )
        check_declared(found)
    except (DeclarationError, EnvironmentFailure) as error:
        raise pytest.Collector.CollectError(f"lostack: {error}") from error
    return found


def _beside(folder: Path, root: Path, file: str) -> Path:
    """Return the declaration in the test's folder, or else in the nearest folder above it that has
    it, up to the project's root (pytest's rootdir).
    """
    above = [each for each in folder.parents if each.is_relative_to(root)]
    there = (each / file for each in (folder, *above))
    return next((each for each in there if each.is_file()), folder / file)


def _reason(pipeline: Pipeline, point: Scenario) -> str | None:
    expected = point.expect[pipeline.claims]
    return expected.because if isinstance(expected, NotApplicable) else None


class Deliveries:
    """The pipelines of a pytest session: one broker for all, and one dry run for each pipeline."""

    def __init__(self, config: pytest.Config, system: DeclaredSystem) -> None:
        self.system = system
        self._config = config
        self._seen: dict[str, Mapping[str, StageTraffic]] = {}

    def run(self, pipeline: Pipeline, point: str) -> CellResult:
        """Run a pipeline at one failure point. Skips a case that does not apply, and fails if the
        run proves nothing.
        """
        from harness.judge.verdict import Kind  # noqa: PLC0415
        from harness.matrix.checking import Check  # noqa: PLC0415
        from harness.matrix.seen import seen_in  # noqa: PLC0415
        from harness.pipelines import DeclarationError  # noqa: PLC0415
        from harness.report.advising import last_line_sentences  # noqa: PLC0415

        seed = (self._config.getoption("--lostack-seed") or [1])[0]
        check = Check(
            pipeline, self.system, self._config.getoption("--lostack-reports"), "pytest", seed
        )
        try:
            check.plan({}, (point,))
        except DeclarationError as error:
            pytest.fail(f"lostack: {error}", pytrace=False)
        if pipeline.name not in self._seen:
            dry = self._played(check.dry_run)
            if dry.verdict.kind in {Kind.VOID, Kind.STUCK}:
                pytest.fail(
                    "\n".join(
                        (
                            f"the dry run proves nothing: {dry.verdict.reason}",
                            *last_line_sentences(dry),
                        )
                    ),
                    pytrace=False,
                )
            self._seen[pipeline.name] = seen_in(dry)
        return self._at(check, point, self._seen[pipeline.name])

    def _at(self, check: Check, point: str, seen: Mapping[str, StageTraffic]) -> CellResult:
        cells, rest = check.plan(seen, (point,))
        if rest:
            pytest.skip(f"n/a: {_reason(check.pipeline, rest[0].scenario)}")
        saved: SavedRun = self._played(lambda progress: check.faults(cells, rest, progress))
        if saved.info.interrupted:
            raise KeyboardInterrupt
        return saved.results[0]

    def _played(self, act: Callable[[Progress], T]) -> T:
        from harness.matrix.progress import make_progress  # noqa: PLC0415
        from harness.model.exits import ExitCode  # noqa: PLC0415
        from harness.model.failures import EnvironmentFailure, traced  # noqa: PLC0415
        from harness.model.history import HistoryError  # noqa: PLC0415
        from harness.report.escaping import lines_shown, shown  # noqa: PLC0415

        capture = self._config.pluginmanager.getplugin("capturemanager")
        try:
            with (
                _quiet_client(),
                capture.global_and_fixture_disabled(),
                make_progress(sys.stderr) as progress,
            ):
                return act(progress)
        except (EnvironmentFailure, HistoryError) as error:
            pytest.exit(f"lostack: {shown(str(error))}", returncode=ExitCode.ENVIRONMENT)
        except Exception as error:  # noqa: BLE001 - a defect of lostack is no test of the project's that failed
            pytest.exit(lines_shown(traced(error)), returncode=ExitCode.DEFECT)


@contextmanager
def _quiet_client() -> Iterator[None]:
    """Keep the logs and warnings of lostack's own Kafka client about killed brokers out of the
    project's test report.
    """
    logger, nothing = logging.getLogger("kafka"), logging.NullHandler()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(nothing)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
            yield
    finally:
        logger.removeHandler(nothing)
        logger.propagate = before


@pytest.fixture(scope="session")
def lostack_kafka() -> DeclaredSystem:
    """Return the Kafka on which pipelines run: lostack's own broker. A project can override this
    fixture in ``conftest.py``.
    """
    with _quiet_client():
        from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415 - only for those who use it

    return DeclaredSystem(keep=True)


@pytest.fixture(scope="session")
def lostack_deliveries(
    request: pytest.FixtureRequest, lostack_kafka: DeclaredSystem
) -> Iterator[Deliveries]:
    """Keep one broker for all pipelines of the session."""
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415 - only for those who use it

    if not isinstance(lostack_kafka, DeclaredSystem):
        pytest.fail(
            (
                "lostack: the fixture lostack_kafka must return a DeclaredSystem, not "
                f"{lostack_kafka!r}"
            ),
            pytrace=False,
        )
    yield Deliveries(request.config, lostack_kafka)
    lostack_kafka.close()


@pytest.fixture
def lostack_delivery(
    lostack_deliveries: Deliveries,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Callable[[], CellResult]:
    """Return a function that runs the pipeline at this case's failure point, and fails if the
    pipeline breaks its claim.
    """
    pipeline, point = request.param

    def check() -> CellResult:
        from harness.report.escaping import shown  # noqa: PLC0415
        from harness.report.record import advice  # noqa: PLC0415

        result = lostack_deliveries.run(pipeline, point)
        for name, value in result.row().items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                record_property(name, value)
        if not result.verdict.green:
            lines = (
                f"{result.verdict.label}: {result.verdict.reason}",
                *advice(result),
                f"saved: {result.directory}",
            )
            pytest.fail("\n".join(shown(line) for line in lines), pytrace=False)
        return result

    return check

"""Runs kept findings under pytest: each ``*.lostack.toml`` file is a test case.

``lostack sweep --findings`` writes such files.

The case passes if the pipeline keeps its claim at that point. So it fails until the finding is
repaired, and is a regression test from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.sweep import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class NotKeptError(Exception):
    """The pipeline still breaks its claim at this point. The message says what was seen."""


class ScenarioItem(pytest.Item):
    """One scenario file."""

    def runtest(self) -> None:
        """Run the scenario against a real system.

        Raises:
            NotKeptError: the cell is not green.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        import sys  # noqa: PLC0415

        from harness.matrix.progress import make_progress  # noqa: PLC0415 - only for those who have one
        from harness.matrix.runner import run  # noqa: PLC0415
        from harness.model.exits import ExitCode  # noqa: PLC0415
        from harness.model.failures import EnvironmentFailure, UsageError, traced  # noqa: PLC0415
        from harness.report.escaping import lines_shown, shown  # noqa: PLC0415
        from harness.sweep.pipelines import plan_of_files  # noqa: PLC0415

        try:
            plan = plan_of_files(
                [self.path], self.config.getoption("--lostack-reports"), 1, "pytest"
            )
            with make_progress(sys.stderr) as progress:
                saved = run(plan, progress)
        except UsageError as error:
            raise NotKeptError(shown(str(error))) from error
        except EnvironmentFailure as error:
            pytest.exit(f"lostack: {shown(str(error))}", returncode=ExitCode.ENVIRONMENT)
        except Exception as error:  # noqa: BLE001 - a defect of lostack is no finding
            pytest.exit(lines_shown(traced(error)), returncode=ExitCode.DEFECT)
        if saved.info.interrupted or not saved.results:
            raise KeyboardInterrupt
        [result] = saved.results
        if not result.verdict.green:
            told = (
                f"{result.verdict.label}: {result.verdict.reason}\n{result.plan.because}\nsaved: "
                f"{result.directory}"
            )
            raise NotKeptError(lines_shown(told))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a failure, without a traceback."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, NotKeptError)
            else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the scenario's file and its title for pytest's report."""
        return self.path, None, self.path.name


class ScenarioFile(pytest.File):
    """A file with one scenario."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Yield the file's test case."""
        item = ScenarioItem.from_parent(self, name=self.path.name.removesuffix(SUFFIX))
        for mark in (pytest.mark.kafka, pytest.mark.timeout(0)):
            item.add_marker(mark)
        yield item


def collected(file: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Return the collector of a scenario file; ``None`` for every other file."""
    return ScenarioFile.from_parent(parent, path=file) if file.name.endswith(SUFFIX) else None

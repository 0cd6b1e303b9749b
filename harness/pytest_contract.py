"""``pytest --lostack-contract PACKAGE``: the suites of :mod:`harness.contract`, run against what an
installed package brings.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest

from harness.contract.fixtures import PACKAGE
from harness.contract.package import Package, UnknownPackageError

SUITES: Final = {
    "systems": ("suite_plans", "suite_systems"),
    "protocols": ("suite_package", "suite_protocols"),
    "clients": ("suite_package",),
    "dialects": ("suite_package",),
}
"""By what a package brings: the suites about it."""
FIXTURES: Final = {
    "subject": "systems",
    "ground": "systems",
    "speaker": "speakers",
    "client": "clients",
    "dialect": "dialects",
}


class Contract:
    """The suites, as tests of a session about one package."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._folder = Path(tempfile.mkdtemp(prefix="lostack-contract-"))
        suites = dict.fromkeys(
            suite
            for brought, suites in SUITES.items()
            if getattr(package, brought)
            for suite in suites
        )
        suites["fixtures"] = None
        lines = (f"from harness.contract.{suite} import *\n" for suite in suites)
        self.file = self._folder / f"test_{package.name.replace('-', '_').replace('.', '_')}.py"
        self.file.write_text("".join(lines), encoding="utf-8")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each clause against each thing that it is about."""
        for fixture, brought in FIXTURES.items():
            if fixture in metafunc.fixturenames:
                metafunc.parametrize(fixture, getattr(self._package, brought), indirect=True)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out the clauses about what the package does not bring."""
        gone = [item for item in items if any(map(_is_empty, item.iter_markers("skip")))]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was tried, and what there is nothing of."""
        terminalreporter.write_line(self._package.told())

    def pytest_unconfigure(self) -> None:
        """Remove the file with the tests."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _is_empty(skip: pytest.Mark) -> bool:
    return "got empty parameter set" in str(skip.kwargs.get("reason", ""))


def run_contract(config: pytest.Config, name: str) -> None:
    """Let the session's tests be the suites, about the package of this name.

    Raises:
        pytest.UsageError: there is none, or the session has several workers.
    """
    if config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "lostack: --lostack-contract runs in one process, whose threads and processes it "
            "counts: leave -n out, or write -n 0"
        )
    try:
        package = Package.named(name)
    except UnknownPackageError as error:
        raise pytest.UsageError(f"lostack: {error}") from error
    contract = Contract(package)
    config.stash[PACKAGE] = package
    config.pluginmanager.register(contract, "lostack-contract")
    config.args[:] = [str(contract.file)]

"""Pytest fixtures of the suites: the package, its systems deployed, its protocols spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.contract.package import Package, speaker_of
from harness.contract.systems import Ground, Subject, of_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.contract.speaker import Speaker

PACKAGE = pytest.StashKey[Package]()
"""Where a session keeps the package that it is about."""


@pytest.fixture(scope="session")
def package(pytestconfig: pytest.Config) -> Package:
    """The package."""
    return pytestconfig.stash[PACKAGE]


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each system, as it is planned with."""
    return of_registry(request.param)


@pytest.fixture(scope="module")
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """Each system, deployed, for all tests; nothing of it is left at their end."""
    made = Ground(of_registry(request.param), tmp_path_factory.mktemp("run"))
    yield made
    left = made.end()
    assert left == [], f"a closed deployment leaves: {', '.join(left)}"


@pytest.fixture
def speaker(request: pytest.FixtureRequest) -> Speaker:
    """How each protocol is spoken."""
    return speaker_of(request.param)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> str:
    """Each client."""
    return str(request.param)


@pytest.fixture
def dialect(request: pytest.FixtureRequest) -> str:
    """Each dialect."""
    return str(request.param)

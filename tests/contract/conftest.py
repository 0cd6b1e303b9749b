"""What the suites are run against, one implementation after the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness.contract.systems import Ground, Subject
from tests.contract import wrong_protocols
from tests.contract.protocols import LIMIT, protocol_params
from tests.contract.runtimes import Place, runtime_params
from tests.contract.sinks import sink_params
from tests.contract.systems import system_params
from tests.postgres.conftest import server
from tests.wire.conftest import WireProcess, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from harness.runtimes.interface import Runtime
    from tests.contract.protocols import Speaker
    from tests.contract.sinks import SinkKind

__all__ = ["server"]


@pytest.fixture(params=sink_params())
def kind(request: pytest.FixtureRequest) -> SinkKind:
    """Each kind of sink."""
    made: SinkKind = request.param(request)
    return made


@pytest.fixture(scope="module", params=runtime_params())
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Each runtime, for all tests of a module."""
    name: str
    make: Callable[[Path], AbstractContextManager[Runtime]]
    name, make = request.param
    folder = tmp_path_factory.mktemp("runtime")
    with make(folder / "logs") as runtime:
        yield Place(name, runtime, folder, make)


@pytest.fixture
def place(running: Place) -> Iterator[Place]:
    """Each runtime, without the nodes of the test before."""
    yield running
    while running.started:
        running.started.pop().kill()


@pytest.fixture(scope="module", params=system_params(really=True))
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """Each system, deployed, for all tests of a module; nothing of it is left at their end."""
    made = Ground(request.param(), tmp_path_factory.mktemp("run"))
    yield made
    assert made.end() == []


@pytest.fixture(params=system_params(really=False))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each system, as it is planned with."""
    made: Subject = request.param()
    return made


@pytest.fixture(params=protocol_params())
def speaker(request: pytest.FixtureRequest) -> Speaker:
    """Each protocol."""
    made: Speaker = request.param
    return made


@pytest.fixture(scope="session", autouse=True)
def small_wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireProcess]:
    """A wire that reads no large frames. It is up before anybody looks what is running, and so is
    nothing that is left behind.
    """
    wrong = {
        place: place
        for place in (f"{wrong_protocols.__name__}:{name}" for name in vars(wrong_protocols))
        if place.rpartition(":")[2][0].isupper()
    }
    site = registered(tmp_path_factory.mktemp("site"), wrong)
    running = WireProcess.start(
        tmp_path_factory.mktemp("wire"),
        "--decode-limit",
        str(LIMIT),
        run=tmp_path_factory.getbasetemp(),
        PYTHONPATH=os.pathsep.join((str(site), *filter(None, (os.environ.get("PYTHONPATH"),)))),
    )
    yield running
    assert running.stop() == 0

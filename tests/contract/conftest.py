"""What the suites are run against, one implementation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.sinks import sink_params
from tests.postgres.conftest import server

if TYPE_CHECKING:
    from tests.contract.sinks import SinkKind

__all__ = ["server"]


@pytest.fixture(params=sink_params())
def kind(request: pytest.FixtureRequest) -> SinkKind:
    """Each kind of sink."""
    made: SinkKind = request.param(request)
    return made

"""RESP keeps what the wire relies on of every protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lostack_redis.speaker import SPEAKER

from harness.contract.suite_protocols import *  # noqa: F403 - the suite itself

if TYPE_CHECKING:
    from harness.contract.speaker import Speaker


@pytest.fixture
def speaker() -> Speaker:
    """How it is spoken."""
    return SPEAKER

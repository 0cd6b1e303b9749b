"""A broker of its own for a test, behind the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.model.scenario import Deployment
from harness.systems.kafka.system import KafkaSystem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.systems.kafka.transport import KafkaTransport


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaTransport]:
    """Deploy one broker, and end it after the test."""
    system = KafkaSystem()
    system.prepare(print)
    deployed = system.deploy(Deployment.OWN, tmp_path)
    try:
        yield deployed.transport
    finally:
        deployed.close()

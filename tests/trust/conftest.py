"""On a fresh machine the set-up comes first, so that no test kills a guardian of the set-up instead of one of the run."""

from __future__ import annotations

import pytest

from harness.systems.kafka.system import KafkaSystem


@pytest.fixture(scope="session", autouse=True)
def _set_up() -> None:
    KafkaSystem().prepare(print)

"""On a fresh machine the set-up comes first, so that no test kills a guardian of the set-up instead
of one of the run.
"""

from __future__ import annotations

import pytest

from harness import registry


@pytest.fixture(scope="session", autouse=True)
def _set_up() -> None:
    registry.system("kafka").prepare(print)


@pytest.fixture(scope="session")
def spark_set_up() -> None:
    """Set Spark up, too."""
    registry.system("spark").prepare(print)

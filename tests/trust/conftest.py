"""On a fresh machine the set-up comes first, so that no test kills a guardian of the set-up instead of one of the run."""

from __future__ import annotations

import pytest

from harness import registry


@pytest.fixture(scope="session", autouse=True)
def _set_up() -> None:
    for name in ("kafka", "spark"):
        registry.system(name).prepare(print)

"""What the tests of declared pipelines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.scenes import Scenes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Scenes]:
    """Make scenes of declared cells."""
    made = Scenes(tmp_path / "scenes")
    yield made
    made.close()


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """Launch pipelines on a broker that all tests of a module share."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()

"""What the tests of declared pipelines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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

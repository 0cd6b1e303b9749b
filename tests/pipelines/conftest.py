"""What the tests of declared pipelines share."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.scenes import Scenes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Scenes]:
    """Make scenes of declared cells."""
    made = Scenes(tmp_path / "scenes")
    yield made
    made.close()


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: pytest closes its own, and a server of root's is another
    user.
    """
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture(scope="module")
def system(open_folder: Path) -> Iterator[DeclaredSystem]:
    """Launch pipelines on a broker that all tests of a module share, and that ends before its
    folder.
    """
    del open_folder
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


@pytest.fixture
def folder_of_all(open_folder: Path) -> Path:
    """A folder for each test that others may enter."""
    path = Path(tempfile.mkdtemp(dir=open_folder))
    path.chmod(0o711)
    return path

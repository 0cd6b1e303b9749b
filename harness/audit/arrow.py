"""Arrow without pandas: Arrow would import pandas at its first number, which takes a
second of CPU.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class _WithoutPandas:
    """An import finder that hides pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Refuse to find pandas; leave every other module to other finders.

        Raises:
            ImportError: the module is pandas.
        """
        del path, target
        if name == "pandas":
            raise ImportError(name, name=name)


def leave_pandas() -> None:
    """Let Arrow look for pandas once without finding it. Arrow looks again, and finds it, when it
    must make a pandas table.
    """
    if "pandas" in sys.modules:
        return
    nowhere = _WithoutPandas()
    sys.meta_path.insert(0, nowhere)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nowhere)

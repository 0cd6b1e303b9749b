"""Arrow alone: without pandas, which it would import as soon as it is given a number, and which takes a second of CPU."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa


class _Nowhere:
    """Finds no pandas."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Say that there is none. Raises ImportError."""
        del path, target
        if name == "pandas":
            raise ImportError(name, name=name)


def leave_pandas() -> None:
    """Let Arrow look for pandas once, in vain. It looks again, and finds it, when it is asked for a frame of pandas'."""
    if "pandas" in sys.modules:
        return
    nowhere: Any = _Nowhere()
    sys.meta_path.insert(0, nowhere)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nowhere)

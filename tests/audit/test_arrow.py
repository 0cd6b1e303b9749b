"""Arrow without pandas: not imported by what an audit does, and there when it is asked for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from harness.audit.arrow import leave_pandas
leave_pandas()
import pyarrow as pa
import pyarrow.compute as pc
assert pc.less(pa.array([1, 2, 3]), pa.scalar(2)).to_pylist() == [True, False, False]
assert pc.is_valid(pa.array([1, None])).to_numpy(zero_copy_only=False).tolist() == [True, False]
print("pandas" in sys.modules)
print(pa.table({"number": [4, 5]}).to_pandas()["number"].tolist())
"""


def test_pandas_is_imported_when_it_is_asked_for_and_not_before() -> None:
    """In a program of its own, for here something may have imported it already."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n") == ["False", "[4, 5]", ""], done.stderr

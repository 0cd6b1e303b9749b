"""Breaks the wire before it begins, where a mutation of it is asked for: it is a process of its
own.
"""

import sys
from pathlib import Path

if sys.orig_argv[1:3] == ["-m", "harness.wire"]:
    sys.path.append(str(Path(__file__).parents[3]))
    from tests.mutations.registry import asked_for

    mutation = asked_for()
    if mutation is not None:
        mutation.apply()

"""Print the table of all mutations, as it stands in ``README.md``."""

from __future__ import annotations

import sys

from tests.mutations.registry import table

if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
